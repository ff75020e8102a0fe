/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/convert_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAILURE_SITES_MAX 1024u /* of one failure */
#define NONE UINT64_MAX

/* ---- ids ---- */

static uint64_t *map_entry(const struct vc_id_map *map, uint32_t id)
{
	uint64_t mask = map->size - 1;
	uint64_t at = (id * 0x9e3779b97f4a7c15u) >> 20 & mask;

	while (map->entry[at] && map->entry[at] >> 32 != id)
		at = (at + 1) & mask;
	return &map->entry[at];
}

static int map_grow(struct vc_id_map *map)
{
	struct vc_id_map larger = *map;

	if ((map->used + 1) * 2 <= map->size)
		return 0;
	larger.size = map->size ? map->size * 2 : 256;
	larger.entry = calloc(larger.size, sizeof(*larger.entry));
	if (!larger.entry)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < map->size; i++)
		if (map->entry[i])
			*map_entry(&larger, (uint32_t)(map->entry[i] >> 32)) = map->entry[i];
	free(map->entry);
	*map = larger;
	return 0;
}

bool vc_id_map_find(struct vc_id_map *map, uint32_t id, uint64_t *ret)
{
	const uint64_t *entry;

	if (id != map->last_id) {
		entry = map->size ? map_entry(map, id) : NULL;
		if (!entry || !*entry)
			return false;
		map->last_id = id;
		map->last_value = (uint32_t)*entry;
	}
	*ret = map->last_value;
	return true;
}

int vc_id_map_add(struct vc_id_map *map, uint32_t id, uint64_t value)
{
	int error = map_grow(map);

	if (error)
		return error;
	if (value > UINT32_MAX)
		return VC_E_LIMIT;
	*map_entry(map, id) = (uint64_t)id << 32 | value;
	map->used++;
	map->last_id = id;
	map->last_value = (uint32_t)value;
	return 0;
}

static int fault_out_of_range(struct vc_conversion *conversion, enum vc_recording_table table)
{
	vc_recording_fault(&conversion->recording, VC_E_RANGE, vc_recording_table_name(table), 0);
	return 0;
}

int vc_convert_string(struct vc_conversion *conversion, uint64_t id, uint64_t *ret)
{
	uint64_t row = 0;
	const char *text;
	size_t length;
	int error;

	if (!id || id > UINT32_MAX) {
		*ret = 0;
		return id ? fault_out_of_range(conversion, VC_REC_STRINGS) : 0;
	}
	if (vc_id_map_find(&conversion->strings, (uint32_t)id, ret))
		return 0;
	if (!vc_recording_string(&conversion->recording, (uint32_t)id, &text, &length)) {
		/* ids that overlap could name the same bytes without end */
		if (conversion->tables.text_bytes + length > VC_RECORDING_BYTES_MAX)
			return VC_E_LIMIT;
		error = vc_tables_string(&conversion->tables, text, length, &row);
		if (error)
			return error;
	}
	*ret = row;
	return vc_id_map_add(&conversion->strings, (uint32_t)id, row);
}

uint64_t vc_convert_module(struct vc_conversion *conversion, uint64_t module_plus_one)
{
	uint64_t *module = module_plus_one && module_plus_one <= conversion->modules ?
				   &conversion->module_row[module_plus_one - 1] :
				   NULL;

	/* a row that is not there is said once */
	if (!module || *module == NONE)
		fault_out_of_range(conversion, VC_REC_MODULES);
	if (module && *module == NONE)
		*module = 0;
	return module ? *module : 0;
}

static int add_frame(struct vc_conversion *conversion, uint64_t frame)
{
	uint64_t module_plus_one = frame >> 48, row;
	int error = vc_tables_append(&conversion->tables, VC_TABLE_frames, &row);

	if (error)
		return error;
	if (module_plus_one)
		VC_CELL(conversion, frames_module, row) =
			vc_convert_module(conversion, module_plus_one);
	VC_CELL(conversion, frames_offset, row) = frame & 0xffffffffffffu;
	return 0;
}

static int add_stack(struct vc_conversion *conversion, const struct vc_recording_stack *stack,
		     uint64_t *ret)
{
	uint64_t frames = conversion->tables.rows[VC_TABLE_frames], row;
	/* stacks that do not overlap hold no more frames than there are units */
	uint64_t most = vc_recording_used(&conversion->recording, VC_REC_STACKS);
	int error;

	if (stack->count > most || frames > most - stack->count)
		return VC_E_LIMIT;
	error = vc_tables_append(&conversion->tables, VC_TABLE_stacks, &row);
	for (uint32_t i = 0; !error && i < stack->count; i++)
		error = add_frame(conversion, stack->frames[i]);
	if (error)
		return error;
	VC_CELL(conversion, stacks_first, row) = frames;
	VC_CELL(conversion, stacks_count, row) = stack->count;
	VC_CELL(conversion, stacks_end, row) = stack->end;
	*ret = row + 1;
	return 0;
}

int vc_convert_stack(struct vc_conversion *conversion, uint64_t id, uint64_t *ret)
{
	struct vc_recording_stack stack;
	uint64_t row = 0;
	int error = 0;

	if (!id || id > UINT32_MAX) {
		*ret = 0;
		return id ? fault_out_of_range(conversion, VC_REC_STACKS) : 0;
	}
	if (vc_id_map_find(&conversion->stacks, (uint32_t)id, ret))
		return 0;
	if (!vc_recording_stack(&conversion->recording, (uint32_t)id, &stack))
		error = add_stack(conversion, &stack, &row);
	if (error)
		return error;
	*ret = row;
	return vc_id_map_add(&conversion->stacks, (uint32_t)id, row);
}

/* The value of a changing word inside an item; 0 and a fault where it is damaged. */
static uint64_t item_word(struct vc_conversion *conversion, enum vc_recording_table table,
			  uint64_t word, uint64_t offset)
{
	if (vc_word_good(word))
		return vc_word_value(word);
	vc_recording_fault(&conversion->recording, VC_E_CORRUPT, vc_recording_table_name(table),
			   offset);
	return 0;
}

static int cell_string(struct vc_conversion *conversion, enum vc_column_index column, uint64_t row,
		       uint64_t id)
{
	uint64_t text = 0;
	int error = vc_convert_string(conversion, id, &text);

	if (!error)
		conversion->tables.column[column][row] = text;
	return error;
}

static int cell_stack(struct vc_conversion *conversion, enum vc_column_index column, uint64_t row,
		      uint64_t id)
{
	uint64_t stack = 0;
	int error = vc_convert_stack(conversion, id, &stack);

	if (!error)
		conversion->tables.column[column][row] = stack;
	return error;
}

static int cell_python(struct vc_conversion *conversion, enum vc_column_index column, uint64_t row,
		       uint64_t id)
{
	uint64_t stack = 0;
	int error = vc_convert_python(conversion, id, &stack);

	if (!error)
		conversion->tables.column[column][row] = stack;
	return error;
}

/* ---- modules ---- */

static int take_module(void *self, enum vc_item state, uint64_t number, const void *item,
		       uint64_t offset)
{
	static const char digits[] = "0123456789abcdef";
	struct vc_conversion *conversion = self;
	const struct vc_module_row *module = item;
	char hexadecimal[2 * sizeof(module->build_id)];
	uint64_t row, text;
	uint32_t bytes = module->build_id_bytes;
	int error;

	(void)offset;
	if (state != VC_ITEM_GOOD)
		return 0;
	if (bytes > sizeof(module->build_id))
		bytes = sizeof(module->build_id);
	for (uint32_t i = 0; i < bytes; i++) {
		hexadecimal[2 * i] = digits[module->build_id[i] >> 4];
		hexadecimal[2 * i + 1] = digits[module->build_id[i] & 15];
	}
	error = vc_tables_append(&conversion->tables, VC_TABLE_modules, &row);
	if (!error)
		error = cell_string(conversion, VC_COL_modules_path, row, module->path);
	if (!error)
		error = vc_tables_string(&conversion->tables, hexadecimal, 2 * bytes, &text);
	if (error)
		return error;
	VC_CELL(conversion, modules_build_id, row) = text;
	VC_CELL(conversion, modules_bias, row) = module->bias;
	VC_CELL(conversion, modules_low, row) = module->low;
	VC_CELL(conversion, modules_high, row) = module->high;
	conversion->module_row[number] = row + 1;
	return 0;
}

static int convert_modules(struct vc_conversion *conversion)
{
	uint64_t count = vc_recording_used(&conversion->recording, VC_REC_MODULES);

	conversion->module_row = malloc((count + 1) * sizeof(uint64_t));
	if (!conversion->module_row)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < count; i++)
		conversion->module_row[i] = NONE;
	conversion->modules = count;
	return vc_recording_scan(&conversion->recording, VC_REC_MODULES, take_module, conversion);
}

/* ---- devices and sites ---- */

/*
 * PyTorch's totals of a device at S: kept with the moment, or, where S is now, as they are, unless
 * they are those of a later block or just being written.
 */
static void torch_totals(struct vc_conversion *conversion, uint32_t ordinal, uint64_t row)
{
	struct vc_recording *recording = &conversion->recording;
	const struct vc_device *device = &recording->root->device[ordinal];
	uint64_t number = vc_recording_value(recording, &device->torch_number, 0);
	uint64_t allocated_plus_one = 0, reserved_plus_one = 0;

	if (conversion->has_row && ordinal < 8) {
		allocated_plus_one = conversion->row.torch_allocated[ordinal];
		reserved_plus_one = conversion->row.torch_reserved[ordinal];
	} else if (number && number <= conversion->number) {
		allocated_plus_one = vc_recording_value(recording, &device->torch_allocated, 0) + 1;
		reserved_plus_one = vc_recording_value(recording, &device->torch_reserved, 0) + 1;
	}
	VC_CELL(conversion, devices_torch_known, row) = allocated_plus_one != 0;
	VC_CELL(conversion, devices_torch_allocated, row) =
		allocated_plus_one ? allocated_plus_one - 1 : 0;
	VC_CELL(conversion, devices_torch_reserved, row) =
		reserved_plus_one ? reserved_plus_one - 1 : 0;
}

/* A pair of figures, each plus 1, of which both are known or neither is. */
static void driver_pair(struct vc_conversion *conversion, uint64_t row, uint64_t used_plus_one,
			uint64_t reserved_plus_one, enum vc_column_index known_column)
{
	bool known = used_plus_one && reserved_plus_one;

	conversion->tables.column[known_column][row] = known;
	conversion->tables.column[known_column + 1][row] = known ? used_plus_one - 1 : 0;
	conversion->tables.column[known_column + 2][row] = known ? reserved_plus_one - 1 : 0;
}

static void driver_memory(struct vc_conversion *conversion, uint32_t ordinal, uint64_t row)
{
	static const struct vc_moment_row nothing;
	const struct vc_moment_row *moment = &conversion->row;

	if (moment->asked_plus_one != ordinal + 1)
		moment = &nothing;
	driver_pair(conversion, row, moment->graph_used, moment->graph_reserved,
		    VC_COL_devices_graph_known);
	driver_pair(conversion, row, moment->pool_used, moment->pool_reserved,
		    VC_COL_devices_pool_known);
}

static void step_peak(struct vc_conversion *conversion, uint32_t ordinal, uint64_t row)
{
	uint64_t peak_plus_one = ordinal < 8 ? conversion->row.step_peak[ordinal] : 0;

	VC_CELL(conversion, devices_step_peak_known, row) = peak_plus_one != 0;
	VC_CELL(conversion, devices_step_peak, row) = peak_plus_one ? peak_plus_one - 1 : 0;
}

static int add_device(struct vc_conversion *conversion, uint32_t ordinal)
{
	struct vc_device *device = &conversion->recording.root->device[ordinal];
	struct vc_recording *recording = &conversion->recording;
	const uint8_t *u = device->uuid;
	uint64_t free_plus_one = ordinal < 8 ? conversion->row.device_free[ordinal] : 0, row, text;
	static const uint8_t no_uuid[16];
	char uuid[48] = "";
	int error = vc_tables_append(&conversion->tables, VC_TABLE_devices, &row);

	if (memcmp(u, no_uuid, sizeof(no_uuid)))
		snprintf(uuid, sizeof(uuid),
			 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
			 u[12], u[13], u[14], u[15]);
	if (!error)
		error = cell_string(conversion, VC_COL_devices_name, row, device->name);
	if (!error)
		error = cell_string(conversion, VC_COL_devices_pci, row, device->pci);
	if (!error)
		error = vc_tables_string(&conversion->tables, uuid, strlen(uuid), &text);
	if (error)
		return error;
	VC_CELL(conversion, devices_device, row) = ordinal;
	VC_CELL(conversion, devices_uuid, row) = text;
	VC_CELL(conversion, devices_total, row) = device->total;
	VC_CELL(conversion, devices_driver_version, row) = device->driver_version;
	VC_CELL(conversion, devices_used_known, row) = free_plus_one != 0;
	VC_CELL(conversion, devices_free, row) = free_plus_one ? free_plus_one - 1 : 0;
	VC_CELL(conversion, devices_live, row) = vc_recording_value(recording, &device->live, 0);
	VC_CELL(conversion, devices_peak, row) = vc_recording_value(recording, &device->peak, 0);
	VC_CELL(conversion, devices_peak_time, row) = vc_convert_time(
		conversion, vc_recording_value(recording, &device->peak_time, 0));
	VC_CELL(conversion, devices_peak_step, row) =
		vc_recording_value(recording, &device->peak_step, 0);
	torch_totals(conversion, ordinal, row);
	driver_memory(conversion, ordinal, row);
	step_peak(conversion, ordinal, row);
	return 0;
}

/* One that was used before anything was known about it has only its totals. */
static bool device_used(struct vc_recording *recording, const struct vc_device *device)
{
	return device->check || vc_recording_value(recording, &device->live, 0) ||
	       vc_recording_value(recording, &device->peak, 0);
}

static bool device_good(const struct vc_device *device, uint32_t ordinal)
{
	const uint64_t *words = (const uint64_t *)device->uuid;

	if (!device->check)
		return !words[0] && !words[1] && !words[2] && !words[3] && !words[4];
	return device->check == vc_check_words(words, 5, ordinal);
}

static int convert_devices(struct vc_conversion *conversion)
{
	const struct vc_root *root = conversion->recording.root;

	for (uint32_t i = 0; i < VC_DEVICES_MAX; i++) {
		int error;

		if (!device_used(&conversion->recording, &root->device[i]))
			continue;
		if (!device_good(&root->device[i], i)) {
			vc_recording_fault(&conversion->recording, VC_E_CHECKSUM, "root",
					   offsetof(struct vc_root, device) +
						   i * sizeof(struct vc_device));
			continue;
		}
		error = add_device(conversion, i);
		if (error)
			return error;
	}
	return 0;
}

/* What lives at the highest moment of the device: see struct vc_site. */
static uint64_t peak_of(struct vc_conversion *conversion, const struct vc_site *site,
			uint64_t offset, uint64_t live)
{
	struct vc_recording *recording = &conversion->recording;
	uint64_t epoch, device_epoch;

	if (!site->device_plus_one || site->device_plus_one > VC_DEVICES_MAX)
		return 0;
	device_epoch = vc_recording_value(
		recording, &recording->root->device[site->device_plus_one - 1].peak_epoch, 0);
	epoch = item_word(conversion, VC_REC_SITES, site->peak_epoch,
			  offset + offsetof(struct vc_site, peak_epoch));
	if (epoch < device_epoch)
		return live;
	return item_word(conversion, VC_REC_SITES, site->peak_bytes,
			 offset + offsetof(struct vc_site, peak_bytes));
}

static int take_site(void *self, enum vc_item state, uint64_t number, const void *item,
		     uint64_t offset)
{
	struct vc_conversion *conversion = self;
	const struct vc_site *site = item;
	const uint64_t *word = &site->allocated_count;
	uint64_t total[4], live, row;
	int error;

	if (state != VC_ITEM_GOOD)
		return 0;
	error = vc_tables_append(&conversion->tables, VC_TABLE_sites, &row);
	if (!error)
		error = cell_stack(conversion, VC_COL_sites_stack, row, site->stack);
	if (!error)
		error = cell_python(conversion, VC_COL_sites_python, row, site->python);
	if (error)
		return error;
	for (unsigned i = 0; i < 4; i++)
		total[i] = item_word(conversion, VC_REC_SITES, word[i],
				     offset + offsetof(struct vc_site, allocated_count) + 8 * i);
	live = total[1] > total[3] ? total[1] - total[3] : 0;
	VC_CELL(conversion, sites_device, row) =
		site->device_plus_one ? site->device_plus_one - 1u : NONE;
	VC_CELL(conversion, sites_kind, row) = site->kind;
	VC_CELL(conversion, sites_allocated_count, row) = total[0];
	VC_CELL(conversion, sites_allocated_bytes, row) = total[1];
	VC_CELL(conversion, sites_freed_count, row) = total[2];
	VC_CELL(conversion, sites_freed_bytes, row) = total[3];
	VC_CELL(conversion, sites_peak_bytes, row) = peak_of(conversion, site, offset, live);
	conversion->site_row[number] = row + 1;
	return 0;
}

static int convert_sites(struct vc_conversion *conversion)
{
	uint64_t count = vc_recording_used(&conversion->recording, VC_REC_SITES);

	conversion->site_row = calloc(count + 1, sizeof(uint64_t));
	if (!conversion->site_row)
		return VC_E_NO_MEMORY;
	conversion->sites = count;
	return vc_recording_scan(&conversion->recording, VC_REC_SITES, take_site, conversion);
}

/* ---- threads, environment, moments ---- */

static int take_thread(void *self, enum vc_item state, uint64_t number, const void *item,
		       uint64_t offset)
{
	struct vc_conversion *conversion = self;
	const struct vc_thread_row *thread = item;
	uint64_t row;
	int error;

	(void)number;
	(void)offset;
	if (state != VC_ITEM_GOOD)
		return 0;
	error = vc_tables_append(&conversion->tables, VC_TABLE_threads, &row);
	if (error)
		return error;
	VC_CELL(conversion, threads_thread, row) = thread->thread;
	return cell_string(conversion, VC_COL_threads_name, row, thread->name);
}

/* No variable: words that go with a counter. */
static int take_detail(struct vc_conversion *conversion, uint64_t name, uint64_t value)
{
	uint64_t text;
	int error = vc_convert_string(conversion, value, &text);

	if (!error)
		error = vc_numbers_add(&conversion->detail_key, name);
	if (!error)
		error = vc_numbers_add(&conversion->detail, text);
	return error;
}

static int take_environment(void *self, enum vc_item state, uint64_t number, const void *item,
			    uint64_t offset)
{
	struct vc_conversion *conversion = self;
	const struct vc_environment_row *variable = item;
	uint64_t row, name;
	int error;

	(void)number;
	(void)offset;
	if (state != VC_ITEM_GOOD)
		return 0;
	error = vc_convert_string(conversion, variable->name, &name);
	if (!error && *vc_tables_text(&conversion->tables, name) == '(')
		return take_detail(conversion, name, variable->value);
	if (!error)
		error = vc_tables_append(&conversion->tables, VC_TABLE_environment, &row);
	if (!error)
		error = cell_string(conversion, VC_COL_environment_name, row, variable->name);
	if (!error)
		error = cell_string(conversion, VC_COL_environment_value, row, variable->value);
	return error;
}

static int take_moment(void *self, enum vc_item state, uint64_t number, const void *item,
		       uint64_t offset)
{
	struct vc_conversion *conversion = self;
	const struct vc_moment_row *moment = item;
	uint64_t row;
	int error;

	(void)number;
	(void)offset;
	if (state != VC_ITEM_GOOD || moment->number > conversion->number)
		return 0;
	error = vc_tables_append(&conversion->tables, VC_TABLE_moments, &row);
	if (!error)
		error = cell_string(conversion, VC_COL_moments_trigger, row, moment->trigger);
	if (!error)
		error = cell_string(conversion, VC_COL_moments_moment, row, moment->moment);
	if (error)
		return error;
	VC_CELL(conversion, moments_number, row) = moment->number;
	VC_CELL(conversion, moments_time, row) = vc_convert_time(conversion, moment->time);
	VC_CELL(conversion, moments_step, row) = moment->step;
	return 0;
}

/* ---- failures ---- */

struct failure_site {
	struct vc_conversion *conversion;
	uint64_t failure;
	bool good;
};

static int take_failure_site(void *self, enum vc_item state, uint64_t number, const void *item,
			     uint64_t offset)
{
	struct failure_site *taken = self;
	struct vc_conversion *conversion = taken->conversion;
	const struct vc_failure_site_row *site = item;
	uint64_t row;
	int error;

	(void)number;
	if (state == VC_ITEM_BAD) {
		taken->good = true; /* said already */
		return 0;
	}
	if (site->site >= conversion->sites || !conversion->site_row[site->site]) {
		taken->good = true;
		vc_recording_fault(&conversion->recording, VC_E_RANGE, "failure_sites", offset);
		return 0;
	}
	error = vc_tables_append(&conversion->tables, VC_TABLE_failure_sites, &row);
	if (error)
		return error;
	VC_CELL(conversion, failure_sites_failure, row) = taken->failure;
	VC_CELL(conversion, failure_sites_site, row) = conversion->site_row[site->site] - 1;
	VC_CELL(conversion, failure_sites_bytes, row) = site->bytes;
	VC_CELL(conversion, failure_sites_count, row) = site->count;
	taken->good = true;
	return 0;
}

static int add_failure_sites(struct vc_conversion *conversion, const struct vc_failure_row *failure,
			     uint64_t row, uint64_t offset)
{
	struct vc_recording *recording = &conversion->recording;
	uint64_t used = vc_recording_used(recording, VC_REC_FAILURE_SITES);

	if (failure->sites > FAILURE_SITES_MAX || failure->sites > used ||
	    failure->first_site > used - failure->sites) {
		vc_recording_fault(recording, VC_E_RANGE, "failures", offset);
		return 0;
	}
	for (uint64_t i = 0; i < failure->sites; i++) {
		struct failure_site taken = {conversion, row, false};
		int error = vc_recording_one(recording, VC_REC_FAILURE_SITES,
					     failure->first_site + i, take_failure_site, &taken);

		if (error && error != VC_E_NOT_FOUND)
			return error;
		if (!taken.good)
			vc_recording_fault(recording, VC_E_RANGE, "failure_sites", offset);
	}
	return 0;
}

static int take_failure(void *self, enum vc_item state, uint64_t number, const void *item,
			uint64_t offset)
{
	struct vc_conversion *conversion = self;
	const struct vc_failure_row *failure = item;
	uint64_t row;
	int error;

	(void)number;
	if (state != VC_ITEM_GOOD || failure->number > conversion->number)
		return 0;
	error = vc_tables_append(&conversion->tables, VC_TABLE_failures, &row);
	if (!error)
		error = cell_string(conversion, VC_COL_failures_phase, row, failure->phase);
	if (!error)
		error = cell_string(conversion, VC_COL_failures_call, row, failure->call_name);
	if (!error)
		error = cell_stack(conversion, VC_COL_failures_stack, row, failure->stack);
	if (!error)
		error = cell_python(conversion, VC_COL_failures_python, row, failure->python);
	if (error)
		return error;
	VC_CELL(conversion, failures_number, row) = failure->number;
	VC_CELL(conversion, failures_time, row) = vc_convert_time(conversion, failure->time);
	VC_CELL(conversion, failures_step, row) = failure->step;
	VC_CELL(conversion, failures_thread, row) = failure->thread;
	VC_CELL(conversion, failures_result, row) = failure->result;
	VC_CELL(conversion, failures_requested, row) = failure->requested;
	VC_CELL(conversion, failures_device, row) =
		failure->device_plus_one ? failure->device_plus_one - 1u : NONE;
	VC_CELL(conversion, failures_free_known, row) = failure->free_plus_one != 0;
	VC_CELL(conversion, failures_free, row) =
		failure->free_plus_one ? failure->free_plus_one - 1 : 0;
	VC_CELL(conversion, failures_total, row) = failure->total;
	VC_CELL(conversion, failures_live, row) = failure->live;
	VC_CELL(conversion, failures_outcome, row) =
		item_word(conversion, VC_REC_FAILURES, failure->outcome,
			  offset + offsetof(struct vc_failure_row, outcome));
	return add_failure_sites(conversion, failure, row, offset);
}

int vc_convert_tables(struct vc_conversion *conversion)
{
	static const struct {
		enum vc_recording_table table;
		vc_recording_visit visit;
	} plain[] = {
		{VC_REC_THREADS, take_thread},
		{VC_REC_ENVIRONMENT, take_environment},
		{VC_REC_MOMENTS, take_moment},
		{VC_REC_FAILURES, take_failure},
	};
	int error = convert_modules(conversion);

	if (!error)
		error = vc_convert_evals(conversion);
	if (!error)
		error = convert_devices(conversion);
	if (!error)
		error = convert_sites(conversion);
	for (size_t i = 0; !error && i < sizeof(plain) / sizeof(*plain); i++)
		error = vc_recording_scan(&conversion->recording, plain[i].table, plain[i].visit,
					  conversion);
	return error;
}
