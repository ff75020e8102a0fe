/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the interpreter told at the moment (walk.h), joined with what was recorded.
 *
 * A block of PyTorch's own list says something about an allocation where address and size are the
 * same and the allocation lived both at S and when the walk began. A tensor whose memory did not is
 * no tensor of the moment: a peak is shown with the walk before the backward pass of its step.
 */
#include "formats/convert_parts.h"
#include "formats/convert_tensors.h"
#include "formats/walk_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTING_PREFIX "allocator."
#define KEY(name) (UINT64_C(1) << VC_KEY_##name)
#define SEGMENT_KEYS                                                                               \
	(KEY(DEVICE) | KEY(ADDRESS) | KEY(TOTAL_SIZE) | KEY(ALLOCATED_SIZE) | KEY(ACTIVE_SIZE) |    \
	 KEY(REQUESTED_SIZE) | KEY(STREAM) | KEY(SEGMENT_TYPE) | KEY(SEGMENT_POOL_ID) |            \
	 KEY(IS_EXPANDABLE) | KEY(BLOCKS))
#define BLOCK_KEYS (KEY(ADDRESS) | KEY(SIZE) | KEY(REQUESTED_SIZE) | KEY(STATE))

int vc_convert_walk_open(struct vc_conversion *conversion)
{
	const struct vc_root_fixed *fixed = &conversion->recording.root->fixed;
	struct vc_faults *faults = conversion->recording.faults;
	struct vc_fault fault = {0};
	int error;

	if (!conversion->options->walk)
		return 0;
	error = vc_walk_open(conversion->options->walk, &conversion->walk, faults, &fault);
	if (error == VC_E_NO_MEMORY)
		return error;
	if (!error && (conversion->walk.head.pid != fixed->pid ||
		       conversion->walk.head.start != fixed->start_realtime)) {
		vc_walk_close(&conversion->walk);
		error = vc_fault_set(&fault, VC_E_INVALID, "walk", 0);
	}
	if (error)
		vc_faults_add(faults, &fault);
	conversion->has_walk = !error;
	return 0;
}

bool vc_convert_walk_missed(const struct vc_conversion *conversion, uint64_t death)
{
	return conversion->has_walk && death > conversion->number &&
	       death <= conversion->walk.head.number;
}

/* A string of the walk as a row of `strings`. */
static int walk_string(struct vc_conversion *conversion, uint64_t id, uint64_t *ret)
{
	const char *text = vc_walk_text(&conversion->walk, id);

	return vc_tables_string(&conversion->tables, text, strlen(text), ret);
}

/* ---- facts ---- */

static int add_framework(struct vc_conversion *conversion, const char *key, const char *value,
			 const char *how)
{
	struct vc_tables *tables = &conversion->tables;
	uint64_t row, text[3] = {0};
	int error = vc_tables_string(tables, key, strlen(key), &text[0]);

	if (!error)
		error = vc_tables_string(tables, value, strlen(value), &text[1]);
	if (!error)
		error = vc_tables_string(tables, how, strlen(how), &text[2]);
	if (!error)
		error = vc_tables_append(tables, VC_TABLE_framework, &row);
	if (error)
		return error;
	VC_CELL(conversion, framework_key, row) = text[0];
	VC_CELL(conversion, framework_value, row) = text[1];
	VC_CELL(conversion, framework_how, row) = text[2];
	return 0;
}

static enum vc_setting_type type_of(const char *value)
{
	size_t digits = strspn(value, "-0123456789"), length = strlen(value);

	if (!strcmp(value, "True") || !strcmp(value, "False"))
		return VC_SETTING_BOOLEAN;
	if (!strcmp(value, "None"))
		return VC_SETTING_NONE;
	if (length && digits == length)
		return VC_SETTING_NUMBER;
	if (length > 1 && digits < length && value[digits] == '.' &&
	    strspn(value + digits + 1, "0123456789e-+") == length - digits - 1)
		return VC_SETTING_FRACTION;
	return VC_SETTING_TEXT;
}

static int add_setting(struct vc_conversion *conversion, const char *name, const char *value)
{
	uint64_t row, text[2];
	int error = vc_tables_string(&conversion->tables, name, strlen(name), &text[0]);

	if (!error)
		error = vc_tables_string(&conversion->tables, value, strlen(value), &text[1]);
	if (!error)
		error = vc_tables_append(&conversion->tables, VC_TABLE_allocator_settings, &row);
	if (error)
		return error;
	VC_CELL(conversion, allocator_settings_name, row) = text[0];
	VC_CELL(conversion, allocator_settings_value, row) = text[1];
	VC_CELL(conversion, allocator_settings_type, row) = type_of(value);
	return 0;
}

static int take_fact(void *self, uint64_t number, const void *row)
{
	struct vc_conversion *conversion = self;
	const struct vc_walk_fact *fact = row;
	const char *key = vc_walk_text(&conversion->walk, fact->key);
	const char *value = vc_walk_text(&conversion->walk, fact->value);

	(void)number;
	if (!strncmp(key, SETTING_PREFIX, sizeof(SETTING_PREFIX) - 1))
		return add_setting(conversion, key + sizeof(SETTING_PREFIX) - 1, value);
	return add_framework(conversion, key, value, vc_walk_text(&conversion->walk, fact->how));
}

/* What the recording itself says of the framework. */
static int own_facts(struct vc_conversion *conversion)
{
	static const char *const helper_text[] = {
#define VC_HELPER_STATE(name, number, text) [number] = text,
#include "formats/helper.def"
	};
	struct vc_recording *recording = &conversion->recording;
	uint64_t source = vc_recording_value(recording, &recording->root->step_source, 0);
	uint64_t helper = vc_recording_value(recording, &recording->root->helper, 0);
	char pause[24];
	int error = 0;

	if (helper && helper < sizeof(helper_text) / sizeof(helper_text[0]))
		error = add_framework(conversion, "interpreter", helper_text[helper], "recorder");
	if (!error && (source || helper))
		error = add_framework(conversion, "step counter", vc_step_source_text(source),
				      "recorder");
	if (!error && conversion->has_walk) {
		snprintf(pause, sizeof(pause), "%" PRIu64, conversion->walk.head.nanoseconds);
		error = add_framework(conversion, "interpreter pause", pause, "recorder");
	}
	return error;
}

/* ---- segments and blocks ---- */

static int take_segment(void *self, uint64_t number, const void *row)
{
	struct vc_conversion *conversion = self;
	const struct vc_walk_segment *segment = row;
	uint64_t at, type;
	int error = walk_string(conversion, segment->type, &type);

	(void)number;
	if (!error)
		error = vc_tables_append(&conversion->tables, VC_TABLE_segments, &at);
	if (error)
		return error;
	VC_CELL(conversion, segments_device, at) = segment->device;
	VC_CELL(conversion, segments_address, at) = segment->address;
	VC_CELL(conversion, segments_total_size, at) = segment->size;
	VC_CELL(conversion, segments_allocated_size, at) = segment->allocated;
	VC_CELL(conversion, segments_active_size, at) = segment->active;
	VC_CELL(conversion, segments_requested_size, at) = segment->requested;
	VC_CELL(conversion, segments_stream, at) = segment->stream;
	VC_CELL(conversion, segments_type, at) = type;
	VC_CELL(conversion, segments_pool_first, at) = segment->pool_first;
	VC_CELL(conversion, segments_pool_second, at) = segment->pool_second;
	VC_CELL(conversion, segments_expandable, at) = segment->expandable != 0;
	VC_CELL(conversion, segments_keys, at) = SEGMENT_KEYS;
	return 0;
}

static int take_block(void *self, uint64_t number, const void *row)
{
	struct vc_conversion *conversion = self;
	const struct vc_walk_block *block = row;
	uint64_t at, state;
	int error = walk_string(conversion, block->state, &state);

	(void)number;
	if (block->segment >= conversion->tables.rows[VC_TABLE_segments]) {
		vc_recording_fault(&conversion->recording, VC_E_RANGE, "walk", 0);
		return error;
	}
	if (!error)
		error = vc_tables_append(&conversion->tables, VC_TABLE_blocks, &at);
	if (error)
		return error;
	VC_CELL(conversion, blocks_segment, at) = block->segment + UINT64_C(1);
	VC_CELL(conversion, blocks_address, at) = block->address;
	VC_CELL(conversion, blocks_size, at) = block->size;
	VC_CELL(conversion, blocks_requested, at) = block->requested;
	VC_CELL(conversion, blocks_state, at) = state;
	VC_CELL(conversion, blocks_keys, at) = BLOCK_KEYS;
	return 0;
}

struct placed {
	uint64_t address, row;
};

static int by_address(const void *left, const void *right)
{
	const struct placed *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

/* Whether an allocation that lived at S was there too when the walk began. */
static bool lived_at_walk(const struct vc_conversion *conversion, uint64_t row)
{
	uint64_t birth = VC_CELL(conversion, allocations_birth, row);

	return birth && birth <= conversion->walk.head.number &&
	       !vc_numbers_have(&conversion->missed, birth);
}

/* Blocks that were recorded and lived at the walk too, by address; *ret is the caller's. */
static int placed_blocks(struct vc_conversion *conversion, struct placed **ret, uint64_t *ret_count)
{
	uint64_t rows = conversion->tables.rows[VC_TABLE_allocations], count = 0;
	struct placed *placed = malloc((rows + 1) * sizeof(*placed));

	if (!placed)
		return VC_E_NO_MEMORY;
	for (uint64_t row = 0; row < rows; row++)
		if (VC_CELL(conversion, allocations_kind, row) == VC_KIND_BLOCK &&
		    lived_at_walk(conversion, row))
			placed[count++] = (struct placed){
				VC_CELL(conversion, allocations_address, row), row};
	qsort(placed, count, sizeof(*placed), by_address);
	*ret = placed;
	*ret_count = count;
	return 0;
}

static void join_block(struct vc_conversion *conversion, uint64_t block, uint64_t row)
{
	uint64_t segment = VC_CELL(conversion, blocks_segment, block) - 1;
	uint64_t requested = VC_CELL(conversion, blocks_requested, block);

	if (VC_CELL(conversion, allocations_size, row) != VC_CELL(conversion, blocks_size, block))
		return;
	if (requested)
		VC_CELL(conversion, allocations_requested, row) = requested;
	VC_CELL(conversion, allocations_stream, row) = VC_CELL(conversion, segments_stream, segment);
	VC_CELL(conversion, allocations_pool, row) =
		VC_CELL(conversion, segments_pool_first, segment) << 32 |
		(VC_CELL(conversion, segments_pool_second, segment) & UINT32_MAX);
	VC_CELL(conversion, allocations_segment, row) = segment + 1;
	VC_CELL(conversion, allocations_block_state, row) =
		VC_CELL(conversion, blocks_state, block);
}

static int join_blocks(struct vc_conversion *conversion)
{
	struct placed *placed;
	uint64_t count;
	int error = placed_blocks(conversion, &placed, &count);

	if (error)
		return error;
	for (uint64_t i = 0; i < conversion->tables.rows[VC_TABLE_blocks]; i++) {
		struct placed wanted = {VC_CELL(conversion, blocks_address, i), 0}, *found = NULL;
		uint64_t state = VC_CELL(conversion, blocks_state, i);

		if (!strncmp(vc_tables_text(&conversion->tables, state), "active", 6) && count)
			found = bsearch(&wanted, placed, count, sizeof(*placed), by_address);
		if (found)
			join_block(conversion, i, found->row);
	}
	free(placed);
	return 0;
}

/* ---- a walk at another instant than the moment ---- */

/* What lived at S but not when the walk began, by address. */
static int list_apart(struct vc_conversion *conversion, struct placed **ret, uint64_t *ret_count)
{
	uint64_t rows = conversion->tables.rows[VC_TABLE_allocations], count = 0;
	struct placed *apart = malloc((rows + 1) * sizeof(*apart));

	if (!apart)
		return VC_E_NO_MEMORY;
	for (uint64_t row = 0; row < rows; row++)
		if (VC_CELL(conversion, allocations_birth, row) &&
		    VC_CELL(conversion, allocations_size, row) && !lived_at_walk(conversion, row))
			apart[count++] = (struct placed){
				VC_CELL(conversion, allocations_address, row), row};
	qsort(apart, count, sizeof(*apart), by_address);
	*ret = apart;
	*ret_count = count;
	return 0;
}

/* Whether the last of them that begins at or below an address holds it. */
static bool holds(const struct vc_conversion *conversion, const struct placed *apart,
		  uint64_t count, uint64_t address)
{
	uint64_t low = 0, high = count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (apart[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address - apart[low - 1].address <
			      VC_CELL(conversion, allocations_size, apart[low - 1].row);
}

/* Storages whose memory was another one's at S have no place any more. */
static int forget_storages(struct vc_conversion *conversion)
{
	struct placed *apart;
	uint64_t count;
	int error = list_apart(conversion, &apart, &count);

	if (error)
		return error;
	for (uint64_t i = 0; count && i < conversion->tables.rows[VC_TABLE_storages]; i++) {
		if (!holds(conversion, apart, count, VC_CELL(conversion, storages_address, i)))
			continue;
		VC_CELL(conversion, storages_address, i) = 0;
		VC_CELL(conversion, storages_found, i) = 0;
	}
	if (count && conversion->tables.rows[VC_TABLE_walks])
		VC_CELL(conversion, walks_flags, 0) |= VC_WALKED_APART;
	free(apart);
	return 0;
}

/* The allocator's own list is of the walk's instant: what it said of blocks is with them. */
static void forget_segments(struct vc_conversion *conversion)
{
	for (uint64_t i = 0; i < conversion->tables.rows[VC_TABLE_allocations]; i++)
		VC_CELL(conversion, allocations_segment, i) = 0;
	conversion->tables.rows[VC_TABLE_blocks] = conversion->tables.rows[VC_TABLE_segments] = 0;
}

int vc_convert_walk(struct vc_conversion *conversion)
{
	struct vc_walk *walk = &conversion->walk;
	int error = own_facts(conversion);

	if (error || !conversion->has_walk)
		return error;
	error = vc_walk_scan(walk, VC_WALK_FACTS, sizeof(struct vc_walk_fact), take_fact,
			     conversion);
	if (!error)
		error = vc_walk_scan(walk, VC_WALK_SEGMENTS, sizeof(struct vc_walk_segment),
				     take_segment, conversion);
	if (!error)
		error = vc_walk_scan(walk, VC_WALK_BLOCKS, sizeof(struct vc_walk_block), take_block,
				     conversion);
	if (!error)
		error = join_blocks(conversion);
	if (!error)
		error = vc_convert_tensors(walk, &conversion->tables);
	if (!error)
		error = forget_storages(conversion);
	if (!error && conversion->row.peak_device_plus_one)
		forget_segments(conversion);
	return error;
}
