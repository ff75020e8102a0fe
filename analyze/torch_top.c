/* SPDX-License-Identifier: Apache-2.0 */
/* The outermost dict or list of a PyTorch snapshot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/torch_finish.h"
#include "analyze/torch_more.h"

/** Rows of a table that a container of the dump holds; the others are dropped. */
struct kept {
	bool *row;
	uint64_t rows, count;
};

struct top {
	struct vc_torch *torch;
	struct vc_tables *tables;
	struct kept segments, events, annotations;
	uint64_t keys;
};

static int wrong(struct top *top, const char *part, uint64_t value, const char *wanted)
{
	return vc_values_wrong(&top->torch->values, VC_E_NOT_OURS, "%s is %s, not %s", part,
			       vc_value_kind(value), wanted);
}

/** Items of a list; a run has none, and is given back as the only item. */
static int open_list(struct top *top, const char *part, const uint64_t *value,
		     const uint64_t **items, uint64_t *count)
{
	unsigned tag = vc_value_tag(*value);

	*count = 0;
	if (tag == VC_VALUE_NEW_LIST || tag == VC_VALUE_NONE)
		return 0;
	if (tag != VC_VALUE_LIST)
		return wrong(top, part, *value, "a list of lists");
	*items = vc_values_node(&top->torch->values, *value)->items;
	*count = vc_values_node(&top->torch->values, *value)->count;
	return 0;
}

/** Takes one record: sets a column of its row, where there is one. */
static int take_record(struct top *top, const char *part, uint64_t row, struct kept *kept,
		       enum vc_column_index column, uint64_t set)
{
	if (kept->row[row])
		return vc_values_wrong(&top->torch->values, VC_E_CORRUPT,
				       "%s holds the same record twice", part);
	kept->row[row] = true;
	kept->count++;
	/* rows begin with 0 */
	return set && column != VC_COLUMNS && vc_tables_has(top->tables, column) ?
		       vc_tables_put(top->tables, column, row, set) : 0;
}

/** Takes the rows of a list of records. */
static int each_record(struct top *top, const char *part, uint64_t value, enum vc_torch_tag tag,
		       struct kept *kept, enum vc_column_index column, uint64_t set)
{
	unsigned kind = vc_value_tag(value);
	const struct vc_node *node;
	int error = 0;

	if (kind == VC_VALUE_NEW_LIST || kind == VC_VALUE_NONE)
		return 0;
	if (kind != VC_VALUE_RUN && kind != VC_VALUE_LIST)
		return wrong(top, part, value, "a list of its records");
	node = vc_values_node(&top->torch->values, value);
	if (kind == VC_VALUE_RUN && node->tag != tag)
		return wrong(top, part, value, "a list of its records");
	for (uint64_t i = 0; i < node->count && !error; i++) {
		if (kind == VC_VALUE_LIST && vc_value_tag(node->items[i]) != tag)
			return wrong(top, part, value, "a list of its records");
		error = take_record(top, part,
				    kind == VC_VALUE_RUN ? node->capacity + i :
							   vc_value_content(node->items[i]),
				    kept, column, set);
	}
	return error;
}

/** Failed allocations within a run of events happened on its device. */
static void set_failures(struct vc_tables *tables, const struct vc_node *run, uint64_t device)
{
	const uint64_t *number = tables->column[VC_COL_failures_number];
	uint64_t low = 0, high = tables->rows[VC_TABLE_failures];

	while (low < high) { /* the first whose event, a row plus 1, is in the run */
		uint64_t middle = low + (high - low) / 2;

		if (number[middle] <= run->capacity)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < tables->rows[VC_TABLE_failures] && number[low] <= run->capacity + run->count;
	     low++)
		tables->column[VC_COL_failures_device][low] = device;
}

static int take_traces(struct top *top, const char *part, uint64_t value, uint64_t base,
		       enum vc_column_index count_column)
{
	const uint64_t *lists;
	uint64_t count;
	int error = open_list(top, part, &value, &lists, &count);

	for (uint64_t i = 0; i < count && !error; i++) {
		error = each_record(top, part, lists[i], VC_TORCH_EVENT, &top->events,
				    VC_COL_trace_device, base + i);
		if (!error && !base && vc_value_tag(lists[i]) == VC_VALUE_RUN)
			set_failures(top->tables, vc_values_node(&top->torch->values, lists[i]), i);
	}
	if (!error)
		top->tables->column[count_column][0] = count;
	return error;
}

/* ---- settings ---- */

static void setting_text(const struct top *top, uint64_t value, char *text, size_t room,
			 uint64_t *type)
{
	const struct vc_values *values = &top->torch->values;
	double fraction;
	uint64_t number;

	if (!vc_values_get_number(values, value, &number)) {
		bool boolean = vc_value_tag(value) == VC_VALUE_BOOLEAN;

		*type = boolean ? VC_SETTING_BOOLEAN : VC_SETTING_NUMBER;
		snprintf(text, room, vc_value_tag(value) == VC_VALUE_UNSIGNED ? "%llu" : "%lld",
			 (unsigned long long)number);
		if (boolean)
			snprintf(text, room, "%s", number ? "True" : "False");
	} else if (vc_value_tag(value) == VC_VALUE_FRACTION) {
		*type = VC_SETTING_FRACTION;
		memcpy(&fraction, &values->numbers[vc_value_content(value)], sizeof(fraction));
		snprintf(text, room, "%.17g", fraction);
	} else if (vc_value_tag(value) == VC_VALUE_NONE) {
		*type = VC_SETTING_NONE;
		snprintf(text, room, "None");
	} else {
		*type = VC_SETTING_TEXT;
		snprintf(text, room, "(%s)", vc_value_kind(value));
	}
}

static int add_setting(struct top *top, const char *name, uint64_t value)
{
	struct vc_tables *tables = top->tables;
	uint64_t row, name_row, text_row, type = VC_SETTING_TEXT;
	char text[64];
	int error = vc_tables_append(tables, VC_TABLE_allocator_settings, &row);

	if (!error)
		error = vc_tables_string(tables, name, strlen(name), &name_row);
	if (!error && vc_value_tag(value) == VC_VALUE_TEXT) {
		text_row = vc_value_content(value);
	} else if (!error) {
		setting_text(top, value, text, sizeof(text), &type);
		error = vc_tables_string(tables, text, strlen(text), &text_row);
	}
	if (error)
		return error;
	tables->column[VC_COL_allocator_settings_name][row] = name_row;
	tables->column[VC_COL_allocator_settings_value][row] = text_row;
	tables->column[VC_COL_allocator_settings_type][row] = type;
	return 0;
}

/** Settings, those of dicts inside too: their depth is bounded by the reader. */
static int take_settings(struct top *top, const char *outer, uint64_t value)
{
	enum { NAME_BYTES = 256 };
	const struct vc_node *node;
	int error = 0;

	if (vc_value_tag(value) != VC_VALUE_DICT)
		return vc_value_tag(value) == VC_VALUE_NEW_DICT ||
				       vc_value_tag(value) == VC_VALUE_NONE ?
			       0 : wrong(top, "allocator_settings", value, "a dict");
	node = vc_values_node(&top->torch->values, value);
	for (uint64_t i = 0; i + 1 < node->count && !error; i += 2) {
		char name[NAME_BYTES], key[64];
		uint64_t type, item = node->items[i + 1];

		if (vc_value_tag(node->items[i]) == VC_VALUE_TEXT)
			snprintf(name, sizeof(name), "%s%s", outer,
				 vc_tables_text(top->tables, vc_value_content(node->items[i])));
		else {
			setting_text(top, node->items[i], key, sizeof(key), &type);
			snprintf(name, sizeof(name), "%s%s", outer, key);
		}
		if (vc_value_tag(item) == VC_VALUE_DICT && strlen(name) + 2 < sizeof(name)) {
			strcat(name, ".");
			error = take_settings(top, name, item);
		} else {
			error = add_setting(top, name, item);
		}
	}
	return error;
}

/* ---- the dict ---- */

static int take_part(struct top *top, uint64_t key, uint64_t value)
{
	switch (vc_value_content(key) - 1) {
	case VC_TORCH_KEY_SEGMENTS:
		return each_record(top, "segments", value, VC_TORCH_SEGMENT, &top->segments,
				   VC_COLUMNS, 0);
	case VC_TORCH_KEY_HOST_SEGMENTS:
		return each_record(top, "host_segments", value, VC_TORCH_SEGMENT, &top->segments,
				   VC_COL_segments_host, 1);
	case VC_TORCH_KEY_DEVICE_TRACES:
		return take_traces(top, "device_traces", value, 0, VC_COL_origin_devices);
	case VC_TORCH_KEY_HOST_TRACES:
		return take_traces(top, "host_traces", value, UINT64_C(1) << 63,
				   VC_COL_origin_host_devices);
	case VC_TORCH_KEY_ALLOCATOR_SETTINGS:
		return take_settings(top, "", value);
	case VC_TORCH_KEY_EXTERNAL_ANNOTATIONS:
		return each_record(top, "external_annotations", value, VC_TORCH_ANNOTATION,
				   &top->annotations, VC_COLUMNS, 0);
	default:
		vc_torch_leave(top->torch, (const uint64_t[]){key, value});
		return 0;
	}
}

static int take_dict(struct top *top, uint64_t value)
{
	const struct vc_node *node = vc_values_node(&top->torch->values, value);
	int error = 0;

	for (uint64_t i = 0; i + 1 < node->count && !error; i += 2) {
		uint64_t key = node->items[i], number = vc_value_content(key) - 1, bit;

		if (vc_value_tag(key) != VC_VALUE_TEXT)
			return vc_values_wrong(&top->torch->values, VC_E_NOT_OURS,
					       "a key of the outermost dict is %s",
					       vc_value_kind(key));
		bit = number < VC_TORCH_ORIGIN_KEYS ? UINT64_C(1) << number : 0;
		if (bit & top->keys)
			return vc_values_wrong(&top->torch->values, VC_E_CORRUPT,
					       "%s is there twice",
					       vc_tables_text(top->tables, vc_value_content(key)));
		top->keys |= bit;
		error = take_part(top, key, node->items[i + 1]);
	}
	if (!error && top->torch->left_count)
		error = vc_torch_more(top->torch, &top->tables->column[VC_COL_origin_more][0]);
	if (!error && !(top->keys & UINT64_C(1) << VC_TORCH_KEY_SEGMENTS))
		return vc_values_wrong(&top->torch->values, VC_E_NOT_OURS,
				       "the outermost dict has no segments");
	return error;
}

/* ---- dropping ---- */

static int start_kept(const struct vc_tables *tables, enum vc_table_index table,
		      struct kept *kept)
{
	kept->rows = tables->rows[table];
	kept->row = calloc(kept->rows ? kept->rows : 1, sizeof(*kept->row));
	return kept->row ? 0 : VC_E_NO_MEMORY;
}

/** Drops the rows that are not kept. `moved`, if wished, gets the new row plus 1 of each, or 0. */
static void drop_rows(struct vc_tables *tables, enum vc_table_index table,
		      const struct kept *kept, uint64_t *moved)
{
	const struct vc_table_info *info = &vc_table_info[table];
	uint64_t to = 0;

	for (uint64_t row = 0; row < kept->rows; row++) {
		if (moved)
			moved[row] = kept->row[row] ? to + 1 : 0;
		if (!kept->row[row])
			continue;
		for (unsigned i = info->first; i < vc_table_end(table); i++)
			if (vc_tables_has(tables, (enum vc_column_index)i)) /* no wider than it was */
				vc_tables_put(tables, (enum vc_column_index)i, to,
					      vc_value(tables, (enum vc_column_index)i, row));
		to++;
	}
	tables->rows[table] = to;
}

/** Rows whose owner (a row plus 1 of another table) is gone go too; the others follow it. */
static int drop_owned(struct vc_tables *tables, enum vc_table_index table,
		      enum vc_column_index owner, const uint64_t *owner_moved, uint64_t *moved)
{
	struct kept kept;
	int error = start_kept(tables, table, &kept);

	if (error)
		return error;
	for (uint64_t row = 0; row < kept.rows; row++) {
		uint64_t *cell = &tables->column[owner][row];

		*cell = *cell ? owner_moved[*cell - 1] : 0;
		kept.row[row] = *cell != 0;
	}
	drop_rows(tables, table, &kept, moved);
	free(kept.row);
	return 0;
}

/** Drops records that no list of the dump holds: dicts that only look like records. */
static int drop_strays(struct top *top)
{
	struct vc_tables *tables = top->tables;
	uint64_t blocks = tables->rows[VC_TABLE_blocks];
	uint64_t *segment_moved = calloc(top->segments.rows + 1, sizeof(*segment_moved));
	uint64_t *block_moved = calloc(blocks + 1, sizeof(*block_moved));
	int error = segment_moved && block_moved ? 0 : VC_E_NO_MEMORY;

	if (!error && top->events.count < top->events.rows)
		drop_rows(tables, VC_TABLE_trace, &top->events, NULL);
	if (!error && top->annotations.count < top->annotations.rows)
		drop_rows(tables, VC_TABLE_annotations, &top->annotations, NULL);
	if (!error) {
		drop_rows(tables, VC_TABLE_segments, &top->segments, segment_moved);
		error = drop_owned(tables, VC_TABLE_blocks, VC_COL_blocks_segment, segment_moved,
				   block_moved);
	}
	if (!error)
		error = drop_owned(tables, VC_TABLE_block_history, VC_COL_block_history_block,
				   block_moved, NULL);
	free(segment_moved);
	free(block_moved);
	return error;
}

int vc_torch_take_top(struct vc_torch *torch, uint64_t value)
{
	struct top top = {.torch = torch, .tables = torch->tables};
	unsigned tag = vc_value_tag(value);
	int error = start_kept(torch->tables, VC_TABLE_segments, &top.segments);

	if (!error)
		error = start_kept(torch->tables, VC_TABLE_trace, &top.events);
	if (!error)
		error = start_kept(torch->tables, VC_TABLE_annotations, &top.annotations);
	if (!error && tag == VC_VALUE_DICT)
		error = take_dict(&top, value);
	else if (!error && (tag == VC_VALUE_RUN || tag == VC_VALUE_LIST ||
			    tag == VC_VALUE_NEW_LIST)) /* torch 1.13: segments and nothing else */
		error = each_record(&top, "the outermost list", value, VC_TORCH_SEGMENT,
				    &top.segments, VC_COLUMNS, 0);
	else if (!error)
		error = vc_values_wrong(&torch->values, VC_E_NOT_OURS, "it holds %s",
					vc_value_kind(value));
	if (!error)
		error = drop_strays(&top);
	if (!error) {
		torch->tables->column[VC_COL_origin_keys][0] = top.keys;
		torch->tables->column[VC_COL_origin_events][0] =
			torch->tables->rows[VC_TABLE_trace];
	}
	free(top.segments.row);
	free(top.events.row);
	free(top.annotations.row);
	return error;
}
