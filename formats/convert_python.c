/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of Python: code objects and offsets become functions, files and lines. */
#include "formats/convert_parts.h"

#include <stdlib.h>
#include <string.h>

#include "formats/python_lines.h"

/*
 * A frame of Python, without its mark of an entry, leads to a row of source_frames; so does a code
 * object with a line, which many frames share. Keys of the second kind have the top bit set: there
 * are not so many code objects.
 */
#define BY_LINE (UINT64_C(1) << 63)

/* Bytes of line tables looked through for one recording: a true one needs a thousandth of it. */
#define LINE_WORK_MAX (UINT64_C(1) << 31)

/* ---- words to rows ---- */

static uint64_t map_slot(const struct vc_python_map *map, uint64_t key)
{
	uint64_t mask = map->size - 1, at = (key * 0x9e3779b97f4a7c15u) >> 20 & mask;

	while (map->key[at] && map->key[at] != key)
		at = (at + 1) & mask;
	return at;
}

static bool map_find(const struct vc_python_map *map, uint64_t key, uint32_t *ret)
{
	uint64_t at = map->size ? map_slot(map, key) : 0;

	if (!map->size || !map->key[at])
		return false;
	*ret = map->value[at];
	return true;
}

static int map_grow(struct vc_python_map *map)
{
	struct vc_python_map larger = {.size = map->size ? map->size * 2 : 256, .used = map->used};

	larger.key = calloc(larger.size, sizeof(*larger.key));
	larger.value = calloc(larger.size, sizeof(*larger.value));
	if (!larger.key || !larger.value) {
		free(larger.key);
		free(larger.value);
		return VC_E_NO_MEMORY;
	}
	for (uint64_t i = 0; i < map->size; i++) {
		uint64_t at;

		if (!map->key[i])
			continue;
		at = map_slot(&larger, map->key[i]);
		larger.key[at] = map->key[i];
		larger.value[at] = map->value[i];
	}
	free(map->key);
	free(map->value);
	*map = larger;
	return 0;
}

static int map_add(struct vc_python_map *map, uint64_t key, uint64_t value)
{
	uint64_t at;

	if (value > UINT32_MAX)
		return VC_E_LIMIT;
	if (map->used * 2 >= map->size && map_grow(map))
		return VC_E_NO_MEMORY;
	at = map_slot(map, key);
	map->key[at] = key;
	map->value[at] = (uint32_t)value;
	map->used++;
	return 0;
}

/* ---- code objects ---- */

struct taken_code {
	struct vc_code_row row;
	bool good;
};

static int take_code(void *self, enum vc_item state, uint64_t number, const void *item,
		     uint64_t offset)
{
	struct taken_code *taken = self;

	(void)number;
	(void)offset;
	if (state != VC_ITEM_GOOD)
		return 0;
	memcpy(&taken->row, item, sizeof(taken->row));
	taken->good = true;
	return 0;
}

/* The line of an instruction; 0: not known. */
static uint32_t line_of(struct vc_conversion *conversion, const struct vc_code_row *code,
			uint32_t offset)
{
	struct vc_recording_stack table = {0};
	uint64_t bytes = code->line_table_bytes;

	if (conversion->line_work > LINE_WORK_MAX)
		return 0;
	/* a function of one line may have an empty table */
	if (code->line_table &&
	    vc_recording_stack(&conversion->recording, code->line_table, &table))
		return 0;
	if (bytes > (uint64_t)table.count * 8)
		bytes = (uint64_t)table.count * 8;
	conversion->line_work += (uint64_t)table.count * 8 + 64;
	return vc_python_line(code->version, code->first_line, (const uint8_t *)table.frames,
			      bytes, offset);
}

static int add_source_frame(struct vc_conversion *conversion, const struct vc_code_row *code,
			    uint32_t line, uint64_t *ret)
{
	uint64_t function = 0, file = 0;
	int error = vc_convert_string(conversion,
				      code->qualified_name ? code->qualified_name : code->name,
				      &function);

	if (!error)
		error = vc_convert_string(conversion, code->file, &file);
	if (!error)
		error = vc_tables_append(&conversion->tables, VC_TABLE_source_frames, ret);
	if (error)
		return error;
	VC_CELL(conversion, source_frames_function, *ret) = function;
	VC_CELL(conversion, source_frames_file, *ret) = file;
	VC_CELL(conversion, source_frames_line, *ret) = line;
	return 0;
}

/* Row of source_frames for a frame. Code that was not kept is a frame without names. */
static int source_frame(struct vc_conversion *conversion, uint64_t frame, uint32_t *ret)
{
	uint64_t key = frame & ~(uint64_t)VC_PYTHON_ENTRY, code_plus_one = frame >> 32, row;
	struct taken_code code = {0};
	uint32_t line = 0;
	int error = 0;

	if (!key)
		key = VC_PYTHON_ENTRY; /* no key is 0 */
	if (map_find(&conversion->frames, key, ret))
		return 0;
	if (code_plus_one && code_plus_one < UINT32_MAX / 2)
		error = vc_recording_one(&conversion->recording, VC_REC_CODES, code_plus_one - 1,
					 take_code, &code);
	if (error && error != VC_E_NOT_FOUND)
		return error;
	if (code_plus_one && !code.good)
		vc_recording_fault(&conversion->recording, VC_E_RANGE, "codes", 0);
	if (code.good)
		line = line_of(conversion, &code.row, (uint32_t)frame & VC_PYTHON_OFFSET);
	if (!map_find(&conversion->frames, BY_LINE | code_plus_one << 32 | line, ret)) {
		error = add_source_frame(conversion, &code.row, line, &row);
		if (!error)
			error = map_add(&conversion->frames, BY_LINE | code_plus_one << 32 | line,
					row);
		if (error)
			return error;
		*ret = (uint32_t)row;
	}
	return map_add(&conversion->frames, key, *ret);
}

/* ---- stacks ---- */

static int convert_stack(struct vc_conversion *conversion, uint32_t id, bool is_forward,
			 uint64_t *ret);

/* The stack of the forward pass that a last word names; *count is then one less. */
static int take_forward(struct vc_conversion *conversion, const uint64_t *frames, uint32_t *count,
			bool is_forward, uint64_t *ret)
{
	*ret = 0;
	if (!*count || frames[*count - 1] >> 32 != VC_PYTHON_FORWARD)
		return 0;
	(*count)--;
	/* one that has one itself is damage: no circle comes of it */
	if (is_forward) {
		vc_recording_fault(&conversion->recording, VC_E_RANGE, "stacks", 0);
		return 0;
	}
	return convert_stack(conversion, (uint32_t)frames[*count], true, ret);
}

static int add_frames(struct vc_conversion *conversion, const uint64_t *frames, uint32_t count,
		      uint64_t *ret)
{
	uint64_t first = conversion->tables.rows[VC_TABLE_source_lists], row;
	int error = vc_tables_append(&conversion->tables, VC_TABLE_source_stacks, &row);

	for (uint32_t i = 0; !error && i < count; i++) {
		uint32_t frame = 0;
		uint64_t at;

		error = source_frame(conversion, frames[i], &frame);
		if (!error)
			error = vc_tables_append(&conversion->tables, VC_TABLE_source_lists, &at);
		if (error)
			break;
		VC_CELL(conversion, source_lists_frame, at) = (uint64_t)frame + 1;
		VC_CELL(conversion, source_lists_entry, at) = (frames[i] & VC_PYTHON_ENTRY) != 0;
	}
	if (error)
		return error;
	VC_CELL(conversion, source_stacks_first, row) = first;
	VC_CELL(conversion, source_stacks_count, row) = count;
	*ret = row + 1;
	return 0;
}

static int add_stack(struct vc_conversion *conversion, uint32_t id, bool is_forward, uint64_t *ret)
{
	uint64_t rows = conversion->tables.rows[VC_TABLE_source_lists], forward;
	/* stacks that do not overlap hold no more frames than there are units */
	uint64_t most = vc_recording_used(&conversion->recording, VC_REC_STACKS);
	struct vc_recording_stack stack;
	uint64_t *frames;
	uint32_t count;
	int error;

	if (vc_recording_stack(&conversion->recording, id, &stack))
		return 0;
	if (stack.count > most || rows > most - stack.count)
		return VC_E_LIMIT;
	/* line tables and other stacks are read from the same place meanwhile */
	frames = malloc(((size_t)stack.count + 1) * sizeof(*frames));
	if (!frames)
		return VC_E_NO_MEMORY;
	count = stack.count;
	memcpy(frames, stack.frames, count * sizeof(*frames));
	error = take_forward(conversion, frames, &count, is_forward, &forward);
	if (!error)
		error = add_frames(conversion, frames, count, ret);
	if (!error)
		VC_CELL(conversion, source_stacks_forward, *ret - 1) = forward;
	free(frames);
	return error;
}

static int convert_stack(struct vc_conversion *conversion, uint32_t id, bool is_forward,
			 uint64_t *ret)
{
	uint64_t row = 0;
	int error;

	*ret = 0;
	if (!id || vc_id_map_find(&conversion->pythons, id, ret))
		return 0;
	error = add_stack(conversion, id, is_forward, &row);
	if (error)
		return error;
	*ret = row;
	return vc_id_map_add(&conversion->pythons, id, row);
}

int vc_convert_python(struct vc_conversion *conversion, uint64_t id, uint64_t *ret)
{
	*ret = 0;
	if (id > UINT32_MAX) {
		vc_recording_fault(&conversion->recording, VC_E_RANGE, "stacks", 0);
		return 0;
	}
	return convert_stack(conversion, (uint32_t)id, false, ret);
}

/* ---- native code that runs Python ---- */

static int take_eval(void *self, enum vc_item state, uint64_t number, const void *item,
		     uint64_t offset)
{
	struct vc_conversion *conversion = self;
	const struct vc_eval_row *eval = item;
	uint64_t row;
	int error;

	(void)number;
	(void)offset;
	if (state != VC_ITEM_GOOD)
		return 0;
	error = vc_tables_append(&conversion->tables, VC_TABLE_python_code, &row);
	if (error)
		return error;
	VC_CELL(conversion, python_code_module, row) = vc_convert_module(conversion, eval->module);
	VC_CELL(conversion, python_code_low, row) = eval->low;
	VC_CELL(conversion, python_code_high, row) = eval->high;
	return 0;
}

int vc_convert_evals(struct vc_conversion *conversion)
{
	return vc_recording_scan(&conversion->recording, VC_REC_EVALS, take_eval, conversion);
}
