/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/torch_write.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/pickle_write.h"
#include "analyze/torch_more.h"
#include "analyze/torch_records.h"

enum { ACTIONS_MOST = 16, LISTS_MOST = 1 << 20 };

/* Bytes of columns `more`: rows of a file made to be large may share their texts. */
#define MORE_MOST (UINT64_C(1) << 30)

#define HAS(keys, key) ((keys) >> VC_KEY_##key & 1)
#define BIT(key) (UINT64_C(1) << VC_KEY_##key)

/** Rows by what owns them: those of owner i are order[start[i]] .. order[start[i + 1] - 1]. */
struct owned {
	uint64_t *start, *order;
};

struct writer {
	struct vc_pickle_writer pickle;
	const struct vc_tables *tables;
	uint32_t key[VC_TORCH_KEYS], action[ACTIONS_MOST]; /* remembered, plus 1 */
	uint32_t *text, *frame, *stack;
	struct owned blocks, history, events;
	uint64_t frames_left, more_left;
};

static uint64_t get(const struct writer *writer, enum vc_column_index column, uint64_t row)
{
	return writer->tables->column[column][row];
}

/* ---- owners ---- */

/** Sorts rows by owner, in their order; owners from `owners` on are left out. */
static int sort_owned(const uint64_t *owner, uint64_t rows, uint64_t owners, struct owned *ret)
{
	uint64_t *start = calloc(owners + 2, sizeof(*start));
	uint64_t *order = malloc((rows + 1) * sizeof(*order));

	*ret = (struct owned){start, order};
	if (!start || !order)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < rows; i++)
		if (owner[i] < owners)
			start[owner[i] + 2]++;
	for (uint64_t i = 2; i < owners + 2; i++)
		start[i] += start[i - 1];
	for (uint64_t i = 0; i < rows; i++) /* start[i + 1] moves from its first to its end */
		if (owner[i] < owners)
			order[start[owner[i] + 1]++] = i;
	return 0;
}

/** By a column that holds rows of another table plus 1. */
static int sort_by(const struct vc_tables *tables, enum vc_column_index column,
		   enum vc_table_index owner_table, struct owned *ret)
{
	enum vc_table_index table = vc_column_info[column].table;
	uint64_t rows = tables->rows[table], *owner = malloc((rows + 1) * sizeof(*owner));
	int error;

	if (!owner)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < rows; i++)
		owner[i] = tables->column[column][i] - 1;
	error = sort_owned(owner, rows, tables->rows[owner_table], ret);
	free(owner);
	return error;
}

/** Events by list: those of devices, then those of host memory. */
static int sort_events(const struct vc_tables *tables, struct owned *ret)
{
	const uint64_t host = UINT64_C(1) << 63;
	uint64_t devices = tables->column[VC_COL_origin_devices][0];
	uint64_t hosts = tables->column[VC_COL_origin_host_devices][0];
	uint64_t rows = tables->rows[VC_TABLE_trace], *owner;
	int error;

	if (devices > LISTS_MOST || hosts > LISTS_MOST)
		return VC_E_LIMIT;
	owner = malloc((rows + 1) * sizeof(*owner));
	if (!owner)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < rows; i++) {
		uint64_t device = tables->column[VC_COL_trace_device][i];

		owner[i] = device < devices ? device :
			   device >= host && device - host < hosts ? devices + (device - host) :
								     UINT64_MAX;
	}
	error = sort_owned(owner, rows, devices + hosts, ret);
	free(owner);
	return error;
}

/* ---- values ---- */

static void put(struct writer *writer, uint8_t opcode)
{
	vc_pickle_put(&writer->pickle, opcode);
}

/** A text that may come again: `memo` is its place. */
static void put_shared(struct writer *writer, uint32_t *memo, const char *text, size_t length)
{
	if (*memo) {
		vc_pickle_recall(&writer->pickle, *memo);
		return;
	}
	vc_pickle_text(&writer->pickle, text, length);
	*memo = vc_pickle_remember(&writer->pickle);
}

static void put_key(struct writer *writer, enum vc_torch_key key)
{
	static const char *const text[] = {
#define VC_ORIGIN_KEY(name, number, text) text,
#include "formats/origin_keys.def"
#undef VC_ORIGIN_KEY
#define VC_TORCH_KEY(name, text) text,
#include "analyze/torch_keys.def"
#undef VC_TORCH_KEY
	};

	put_shared(writer, &writer->key[key], text[key], strlen(text[key]));
}

/** A text of `strings`. */
static void put_string(struct writer *writer, uint64_t row)
{
	if (row >= writer->tables->rows[VC_TABLE_strings])
		row = 0;
	put_shared(writer, &writer->text[row], vc_tables_text(writer->tables, row),
		   vc_tables_text_length(writer->tables, row));
}

static void pair_unsigned(struct writer *writer, enum vc_torch_key key, uint64_t number)
{
	put_key(writer, key);
	vc_pickle_unsigned(&writer->pickle, number);
}

static void pair_signed(struct writer *writer, enum vc_torch_key key, uint64_t number)
{
	put_key(writer, key);
	vc_pickle_signed(&writer->pickle, (int64_t)number);
}

static void pair_string(struct writer *writer, enum vc_torch_key key, uint64_t row)
{
	put_key(writer, key);
	put_string(writer, row);
}

static void pair_pool(struct writer *writer, enum vc_torch_key key, uint64_t first,
		      uint64_t second)
{
	put_key(writer, key);
	vc_pickle_signed(&writer->pickle, (int64_t)first);
	vc_pickle_signed(&writer->pickle, (int64_t)second);
	put(writer, VC_PICKLE_PAIR);
}

/** Keys that have no column. */
static void put_more(struct writer *writer, enum vc_column_index column, uint64_t row)
{
	uint64_t text = get(writer, column, row);
	size_t length = vc_tables_text_length(writer->tables, text);

	if (!text || length > VC_TORCH_MORE_MOST)
		return;
	if (length > writer->more_left) {
		writer->pickle.error = VC_E_LIMIT;
		return;
	}
	writer->more_left -= length;
	vc_torch_write_more(&writer->pickle, vc_tables_text(writer->tables, text));
}

/* ---- stacks ---- */

static void put_frame(struct writer *writer, uint64_t row)
{
	static const struct {
		enum vc_torch_key key;
		enum vc_column_index column;
	} more[] = {
		{VC_TORCH_KEY_FX_NODE_OP, VC_COL_source_frames_fx_operation},
		{VC_TORCH_KEY_FX_NODE_NAME, VC_COL_source_frames_fx_name},
		{VC_TORCH_KEY_FX_NODE_TARGET, VC_COL_source_frames_fx_target},
		{VC_TORCH_KEY_FX_ORIGINAL_TRACE, VC_COL_source_frames_fx_source},
	};

	if (writer->frame[row]) {
		vc_pickle_recall(&writer->pickle, writer->frame[row]);
		return;
	}
	put(writer, VC_PICKLE_DICT);
	writer->frame[row] = vc_pickle_remember(&writer->pickle);
	put(writer, VC_PICKLE_MARK);
	pair_string(writer, VC_TORCH_KEY_NAME, get(writer, VC_COL_source_frames_function, row));
	pair_string(writer, VC_TORCH_KEY_FILENAME, get(writer, VC_COL_source_frames_file, row));
	pair_signed(writer, VC_TORCH_KEY_LINE, get(writer, VC_COL_source_frames_line, row));
	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++)
		if (get(writer, more[i].column, row))
			pair_string(writer, more[i].key, get(writer, more[i].column, row));
	put(writer, VC_PICKLE_SET);
}

/** A list of frames: row plus 1 of source_stacks, 0 an empty one. */
static void put_stack(struct writer *writer, uint64_t stack)
{
	uint64_t first, count;

	if (!stack) {
		put(writer, VC_PICKLE_LIST);
		return;
	}
	if (writer->stack[stack - 1]) {
		vc_pickle_recall(&writer->pickle, writer->stack[stack - 1]);
		return;
	}
	first = get(writer, VC_COL_source_stacks_first, stack - 1);
	count = get(writer, VC_COL_source_stacks_count, stack - 1);
	if (count > writer->frames_left) { /* stacks of a file made to be large may overlap */
		writer->pickle.error = VC_E_LIMIT;
		return;
	}
	writer->frames_left -= count;
	put(writer, VC_PICKLE_LIST);
	writer->stack[stack - 1] = vc_pickle_remember(&writer->pickle);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t frame = get(writer, VC_COL_source_lists_frame, first + i);

		vc_pickle_item(&writer->pickle, i);
		if (frame)
			put_frame(writer, frame - 1);
		else
			put(writer, VC_PICKLE_NONE);
	}
	vc_pickle_list_end(&writer->pickle, count);
}

/** The keys frames and forward_frames, where the row had them. */
static void put_stacks(struct writer *writer, uint64_t keys, uint64_t stack)
{
	if (HAS(keys, FRAMES)) {
		put_key(writer, VC_TORCH_KEY_FRAMES);
		put_stack(writer, stack);
	}
	if (HAS(keys, FORWARD_FRAMES)) {
		put_key(writer, VC_TORCH_KEY_FORWARD_FRAMES);
		put_stack(writer, stack ? get(writer, VC_COL_source_stacks_forward, stack - 1) : 0);
	}
}

/* ---- segments ---- */

static void put_history(struct writer *writer, uint64_t block)
{
	uint64_t first = writer->history.start[block], end = writer->history.start[block + 1];

	put(writer, VC_PICKLE_LIST);
	for (uint64_t i = first; i < end; i++) {
		uint64_t row = writer->history.order[i];
		uint64_t keys = get(writer, VC_COL_block_history_keys, row);

		vc_pickle_item(&writer->pickle, i - first);
		put(writer, VC_PICKLE_DICT);
		put(writer, VC_PICKLE_MARK);
		if (HAS(keys, ADDRESS))
			pair_unsigned(writer, VC_TORCH_KEY_ADDR,
				      get(writer, VC_COL_block_history_address, row));
		if (HAS(keys, REAL_SIZE))
			pair_unsigned(writer, VC_TORCH_KEY_REAL_SIZE,
				      get(writer, VC_COL_block_history_size, row));
		put_stacks(writer, keys, get(writer, VC_COL_block_history_stack, row));
		put(writer, VC_PICKLE_SET);
	}
	vc_pickle_list_end(&writer->pickle, end - first);
}

static void put_block(struct writer *writer, uint64_t row)
{
	uint64_t keys = get(writer, VC_COL_blocks_keys, row);

	put(writer, VC_PICKLE_DICT);
	put(writer, VC_PICKLE_MARK);
	if (HAS(keys, ADDRESS))
		pair_unsigned(writer, VC_TORCH_KEY_ADDRESS,
			      get(writer, VC_COL_blocks_address, row));
	if (HAS(keys, SIZE))
		pair_unsigned(writer, VC_TORCH_KEY_SIZE, get(writer, VC_COL_blocks_size, row));
	if (HAS(keys, REQUESTED_SIZE))
		pair_unsigned(writer, VC_TORCH_KEY_REQUESTED_SIZE,
			      get(writer, VC_COL_blocks_requested, row));
	if (HAS(keys, STATE))
		pair_string(writer, VC_TORCH_KEY_STATE, get(writer, VC_COL_blocks_state, row));
	put_stacks(writer, keys, get(writer, VC_COL_blocks_stack, row));
	if (HAS(keys, HISTORY)) {
		put_key(writer, VC_TORCH_KEY_HISTORY);
		put_history(writer, row);
	}
	put_more(writer, VC_COL_blocks_more, row);
	put(writer, VC_PICKLE_SET);
}

/** Streams and devices are signed where PyTorch writes them, addresses and sizes are not. */
static void put_segment_numbers(struct writer *writer, uint64_t keys, uint64_t row)
{
	static const struct {
		enum vc_torch_key key;
		enum vc_column_index column;
		bool negative;
	} numbers[] = {
		{VC_TORCH_KEY_DEVICE, VC_COL_segments_device, true},
		{VC_TORCH_KEY_ADDRESS, VC_COL_segments_address, false},
		{VC_TORCH_KEY_TOTAL_SIZE, VC_COL_segments_total_size, false},
		{VC_TORCH_KEY_ALLOCATED_SIZE, VC_COL_segments_allocated_size, false},
		{VC_TORCH_KEY_ACTIVE_SIZE, VC_COL_segments_active_size, false},
		{VC_TORCH_KEY_REQUESTED_SIZE, VC_COL_segments_requested_size, false},
		{VC_TORCH_KEY_STREAM, VC_COL_segments_stream, true},
		{VC_TORCH_KEY_REGISTRATION_COUNTER, VC_COL_segments_registration, true},
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (!(keys >> numbers[i].key & 1))
			continue;
		if (numbers[i].negative)
			pair_signed(writer, numbers[i].key, get(writer, numbers[i].column, row));
		else
			pair_unsigned(writer, numbers[i].key, get(writer, numbers[i].column, row));
	}
}

static void put_segment(struct writer *writer, uint64_t row)
{
	uint64_t keys = get(writer, VC_COL_segments_keys, row);
	uint64_t first = writer->blocks.start[row], end = writer->blocks.start[row + 1];
	uint64_t pool[] = {get(writer, VC_COL_segments_pool_first, row),
			   get(writer, VC_COL_segments_pool_second, row)};

	put(writer, VC_PICKLE_DICT);
	put(writer, VC_PICKLE_MARK);
	put_segment_numbers(writer, keys, row);
	if (HAS(keys, SEGMENT_TYPE))
		pair_string(writer, VC_TORCH_KEY_SEGMENT_TYPE,
			    get(writer, VC_COL_segments_type, row));
	if (HAS(keys, SEGMENT_POOL_ID))
		pair_pool(writer, VC_TORCH_KEY_SEGMENT_POOL_ID, pool[0], pool[1]);
	if (HAS(keys, POOL_ID))
		pair_pool(writer, VC_TORCH_KEY_POOL_ID, pool[0], pool[1]);
	if (HAS(keys, IS_EXPANDABLE)) {
		put_key(writer, VC_TORCH_KEY_IS_EXPANDABLE);
		put(writer, get(writer, VC_COL_segments_expandable, row) ? VC_PICKLE_TRUE :
									   VC_PICKLE_FALSE);
	}
	put_stacks(writer, keys, get(writer, VC_COL_segments_stack, row));
	if (HAS(keys, BLOCKS)) {
		put_key(writer, VC_TORCH_KEY_BLOCKS);
		put(writer, VC_PICKLE_LIST);
		for (uint64_t i = first; i < end; i++) {
			vc_pickle_item(&writer->pickle, i - first);
			put_block(writer, writer->blocks.order[i]);
		}
		vc_pickle_list_end(&writer->pickle, end - first);
	}
	put_more(writer, VC_COL_segments_more, row);
	put(writer, VC_PICKLE_SET);
}

static void put_segments(struct writer *writer, bool host)
{
	uint64_t count = 0;

	put(writer, VC_PICKLE_LIST);
	for (uint64_t row = 0; row < writer->tables->rows[VC_TABLE_segments]; row++) {
		if ((get(writer, VC_COL_segments_host, row) != 0) != host)
			continue;
		vc_pickle_item(&writer->pickle, count++);
		put_segment(writer, row);
	}
	vc_pickle_list_end(&writer->pickle, count);
}

/* ---- events ---- */

static void put_action(struct writer *writer, uint64_t row, uint64_t detail)
{
	uint64_t action = get(writer, VC_COL_trace_action, row);
	const char *text = vc_trace_action_text(action);

	put_key(writer, VC_TORCH_KEY_ACTION);
	if (action && *text && action < ACTIONS_MOST)
		put_shared(writer, &writer->action[action], text, strlen(text));
	else
		put_string(writer, detail ? get(writer, VC_COL_trace_details_action, detail - 1) :
					    0);
}

/** What few events have. */
static void put_detail(struct writer *writer, uint64_t keys, uint64_t detail)
{
	uint64_t row = detail - 1;

	if (!detail)
		return;
	if (HAS(keys, DEVICE_FREE))
		pair_unsigned(writer, VC_TORCH_KEY_DEVICE_FREE,
			      get(writer, VC_COL_trace_details_device_free, row));
	if (HAS(keys, COMPILE_CONTEXT))
		pair_string(writer, VC_TORCH_KEY_COMPILE_CONTEXT,
			    get(writer, VC_COL_trace_details_compile_context, row));
	if (HAS(keys, USER_METADATA))
		pair_string(writer, VC_TORCH_KEY_USER_METADATA,
			    get(writer, VC_COL_trace_details_metadata, row));
	if (HAS(keys, INTERNAL_METADATA))
		pair_string(writer, VC_TORCH_KEY_INTERNAL_METADATA,
			    get(writer, VC_COL_trace_details_internal_metadata, row));
	if (HAS(keys, POOL_ID))
		pair_pool(writer, VC_TORCH_KEY_POOL_ID,
			  get(writer, VC_COL_trace_details_pool_first, row),
			  get(writer, VC_COL_trace_details_pool_second, row));
}

static void put_event(struct writer *writer, uint64_t row)
{
	uint64_t detail = get(writer, VC_COL_trace_detail, row);
	uint64_t keys = detail ? get(writer, VC_COL_trace_details_keys, detail - 1) :
				 BIT(ADDRESS) | BIT(SIZE) | BIT(STREAM) | BIT(TIME_US) |
					 BIT(FRAMES);

	put(writer, VC_PICKLE_DICT);
	put(writer, VC_PICKLE_MARK);
	put_action(writer, row, detail);
	if (HAS(keys, ADDRESS))
		pair_unsigned(writer, VC_TORCH_KEY_ADDR, get(writer, VC_COL_trace_address, row));
	if (HAS(keys, SIZE))
		pair_unsigned(writer, VC_TORCH_KEY_SIZE, get(writer, VC_COL_trace_size, row));
	if (HAS(keys, STREAM))
		pair_signed(writer, VC_TORCH_KEY_STREAM, get(writer, VC_COL_trace_stream, row));
	if (HAS(keys, TIME_US))
		pair_unsigned(writer, VC_TORCH_KEY_TIME_US, get(writer, VC_COL_trace_time_us, row));
	put_detail(writer, keys, detail);
	put_stacks(writer, keys, get(writer, VC_COL_trace_stack, row));
	if (detail)
		put_more(writer, VC_COL_trace_details_more, detail - 1);
	put(writer, VC_PICKLE_SET);
}

/** A list of lists: those of the owners `first` .. `first + count - 1`. */
static void put_events(struct writer *writer, uint64_t first, uint64_t count)
{
	put(writer, VC_PICKLE_LIST);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t start = writer->events.start[first + i];
		uint64_t end = writer->events.start[first + i + 1];

		vc_pickle_item(&writer->pickle, i);
		put(writer, VC_PICKLE_LIST);
		for (uint64_t j = start; j < end; j++) {
			vc_pickle_item(&writer->pickle, j - start);
			put_event(writer, writer->events.order[j]);
		}
		vc_pickle_list_end(&writer->pickle, end - start);
	}
	vc_pickle_list_end(&writer->pickle, count);
}

/* ---- settings, annotations ---- */

static void put_setting(struct writer *writer, uint64_t row)
{
	uint64_t value = get(writer, VC_COL_allocator_settings_value, row);
	const char *text = vc_tables_text(writer->tables, value);

	switch (get(writer, VC_COL_allocator_settings_type, row)) {
	case VC_SETTING_NUMBER:
		if (*text == '-')
			vc_pickle_signed(&writer->pickle, strtoll(text, NULL, 10));
		else
			vc_pickle_unsigned(&writer->pickle, strtoull(text, NULL, 10));
		break;
	case VC_SETTING_FRACTION:
		vc_pickle_fraction(&writer->pickle, strtod(text, NULL));
		break;
	case VC_SETTING_BOOLEAN:
		put(writer, strcmp(text, "True") ? VC_PICKLE_FALSE : VC_PICKLE_TRUE);
		break;
	case VC_SETTING_NONE:
		put(writer, VC_PICKLE_NONE);
		break;
	default:
		if (!strcmp(text, "(an empty dict)")) /* the importer's words for one */
			put(writer, VC_PICKLE_DICT);
		else
			put_string(writer, value);
	}
}

static const char *setting_name(const struct writer *writer, uint64_t row)
{
	return vc_tables_text(writer->tables, get(writer, VC_COL_allocator_settings_name, row));
}

/** "outer.inner" are keys of dicts inside: those that follow each other with one outer name. */
static void put_settings(struct writer *writer)
{
	uint64_t rows = writer->tables->rows[VC_TABLE_allocator_settings];

	put(writer, VC_PICKLE_DICT);
	put(writer, VC_PICKLE_MARK);
	for (uint64_t row = 0; row < rows;) {
		const char *name = setting_name(writer, row), *dot = strchr(name, '.');
		size_t outer = dot ? (size_t)(dot - name) : strlen(name);

		vc_pickle_text(&writer->pickle, name, outer);
		if (!dot) {
			put_setting(writer, row++);
			continue;
		}
		put(writer, VC_PICKLE_DICT);
		put(writer, VC_PICKLE_MARK);
		for (; row < rows; row++) {
			const char *inner = setting_name(writer, row);

			if (strncmp(inner, name, outer + 1))
				break;
			vc_pickle_text(&writer->pickle, inner + outer + 1,
				       strlen(inner + outer + 1));
			put_setting(writer, row);
		}
		put(writer, VC_PICKLE_SET);
	}
	put(writer, VC_PICKLE_SET);
}

static void put_annotations(struct writer *writer)
{
	uint64_t rows = writer->tables->rows[VC_TABLE_annotations];

	put(writer, VC_PICKLE_LIST);
	for (uint64_t row = 0; row < rows; row++) {
		vc_pickle_item(&writer->pickle, row);
		put(writer, VC_PICKLE_DICT);
		put(writer, VC_PICKLE_MARK);
		pair_signed(writer, VC_TORCH_KEY_DEVICE,
			    get(writer, VC_COL_annotations_device, row));
		pair_unsigned(writer, VC_TORCH_KEY_TIME_US,
			      get(writer, VC_COL_annotations_time_us, row));
		pair_string(writer, VC_TORCH_KEY_NAME, get(writer, VC_COL_annotations_name, row));
		pair_string(writer, VC_TORCH_KEY_STAGE, get(writer, VC_COL_annotations_stage, row));
		put(writer, VC_PICKLE_SET);
	}
	vc_pickle_list_end(&writer->pickle, rows);
}

/* ---- the whole ---- */

static void put_top(struct writer *writer)
{
	uint64_t keys = get(writer, VC_COL_origin_keys, 0);
	uint64_t devices = get(writer, VC_COL_origin_devices, 0);

	if (!keys) { /* torch 1.13: segments and nothing else */
		put_segments(writer, false);
		return;
	}
	put(writer, VC_PICKLE_DICT);
	put(writer, VC_PICKLE_MARK);
	put_key(writer, VC_TORCH_KEY_SEGMENTS);
	put_segments(writer, false);
	if (HAS(keys, DEVICE_TRACES)) {
		put_key(writer, VC_TORCH_KEY_DEVICE_TRACES);
		put_events(writer, 0, devices);
	}
	if (HAS(keys, ALLOCATOR_SETTINGS)) {
		put_key(writer, VC_TORCH_KEY_ALLOCATOR_SETTINGS);
		put_settings(writer);
	}
	if (HAS(keys, EXTERNAL_ANNOTATIONS)) {
		put_key(writer, VC_TORCH_KEY_EXTERNAL_ANNOTATIONS);
		put_annotations(writer);
	}
	if (HAS(keys, HOST_SEGMENTS)) {
		put_key(writer, VC_TORCH_KEY_HOST_SEGMENTS);
		put_segments(writer, true);
	}
	if (HAS(keys, HOST_TRACES)) {
		put_key(writer, VC_TORCH_KEY_HOST_TRACES);
		put_events(writer, devices, get(writer, VC_COL_origin_host_devices, 0));
	}
	put_more(writer, VC_COL_origin_more, 0);
	put(writer, VC_PICKLE_SET);
}

static void release(struct writer *writer)
{
	free(writer->text);
	free(writer->frame);
	free(writer->stack);
	free(writer->blocks.start);
	free(writer->blocks.order);
	free(writer->history.start);
	free(writer->history.order);
	free(writer->events.start);
	free(writer->events.order);
}

static int prepare(struct writer *writer)
{
	const struct vc_tables *tables = writer->tables;
	int error;

	writer->text = calloc(tables->rows[VC_TABLE_strings] + 1, sizeof(*writer->text));
	writer->frame = calloc(tables->rows[VC_TABLE_source_frames] + 1, sizeof(*writer->frame));
	writer->stack = calloc(tables->rows[VC_TABLE_source_stacks] + 1, sizeof(*writer->stack));
	if (!writer->text || !writer->frame || !writer->stack)
		return VC_E_NO_MEMORY;
	error = sort_by(tables, VC_COL_blocks_segment, VC_TABLE_segments, &writer->blocks);
	if (!error)
		error = sort_by(tables, VC_COL_block_history_block, VC_TABLE_blocks,
				&writer->history);
	return error ? error : sort_events(tables, &writer->events);
}

int vc_torch_write(FILE *out, const struct vc_tables *tables, const struct vc_limits *limits)
{
	struct writer writer = {.tables = tables,
				.more_left = MORE_MOST,
				.frames_left = limits->most[VC_LIMIT_RECORDS]};
	int error = prepare(&writer);

	if (!error) {
		vc_pickle_start(&writer.pickle, out);
		put_top(&writer);
		error = vc_pickle_end(&writer.pickle);
	}
	release(&writer);
	return error;
}
