/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/torch_records.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/torch_more.h"

#define BIT(key) (UINT64_C(1) << VC_TORCH_KEY_##key)
#define ORIGIN_BITS ((UINT64_C(1) << VC_TORCH_ORIGIN_KEYS) - 1)
_Static_assert(VC_TORCH_KEYS <= 64, "a set of keys is one number");

/** The action words follow the keys in `strings`. */
static const struct {
	const char *word;
	uint32_t number;
} actions[] = {
#define VC_TRACE_ACTION(name, number, text, sign) {text, number},
#include "formats/trace_actions.def"
#undef VC_TRACE_ACTION
};

#define ACTIONS (sizeof(actions) / sizeof(actions[0]))
#define FIRST_ACTION (VC_TORCH_KEYS + 1u)

/* ---- values of keys ---- */

static int wrong_type(struct vc_torch *torch, const char *record, uint64_t key, uint64_t value,
		      const char *wanted)
{
	return vc_values_wrong(&torch->values, VC_E_CORRUPT, "%s: %.60s is %s, not %s", record,
			       vc_tables_text(torch->tables, vc_value_content(key)),
			       vc_value_kind(value), wanted);
}

static int take_number(struct vc_torch *torch, const char *record, const uint64_t *pair,
		       uint64_t *ret)
{
	if (vc_value_tag(pair[1]) == VC_VALUE_INTEGER) {
		*ret = (uint64_t)((int64_t)(pair[1] << 8) >> 8);
		return 0;
	}
	if (vc_value_tag(pair[1]) == VC_VALUE_NONE) {
		*ret = 0;
		return 0;
	}
	if (vc_values_get_number(&torch->values, pair[1], ret))
		return wrong_type(torch, record, pair[0], pair[1], "a number");
	return 0;
}

/** A text's row; None is "". */
static int take_text(struct vc_torch *torch, const char *record, const uint64_t *pair,
		     uint64_t *ret)
{
	if (vc_value_tag(pair[1]) == VC_VALUE_TEXT)
		*ret = vc_value_content(pair[1]);
	else if (vc_value_tag(pair[1]) == VC_VALUE_NONE)
		*ret = 0;
	else
		return wrong_type(torch, record, pair[0], pair[1], "a text");
	return 0;
}

/** Two numbers. */
static int take_pair(struct vc_torch *torch, const char *record, const uint64_t *pair,
		     uint64_t *first, uint64_t *second)
{
	const struct vc_node *node;
	unsigned tag = vc_value_tag(pair[1]);

	if (tag == VC_VALUE_PAIR) {
		*first = vc_value_content(pair[1]) >> 28;
		*second = vc_value_content(pair[1]) & ((1u << 28) - 1);
		return 0;
	}
	if (tag == VC_VALUE_TUPLE || tag == VC_VALUE_LIST) {
		node = vc_values_node(&torch->values, pair[1]);
		if (node->count == 2 &&
		    !vc_values_get_number(&torch->values, node->items[0], first) &&
		    !vc_values_get_number(&torch->values, node->items[1], second))
			return 0;
	}
	return wrong_type(torch, record, pair[0], pair[1], "a pair of numbers");
}

/** Row plus 1 of a stack; 0 for an empty list. */
static int take_stack(struct vc_torch *torch, const char *record, const uint64_t *pair,
		      uint64_t *ret)
{
	unsigned tag = vc_value_tag(pair[1]);

	if (tag == VC_TORCH_STACK)
		*ret = vc_value_content(pair[1]) + 1;
	else if (tag == VC_VALUE_NEW_LIST || tag == VC_VALUE_NONE)
		*ret = 0;
	else
		return wrong_type(torch, record, pair[0], pair[1], "a list of frames");
	return 0;
}

/** Rows of a run of records of one tag; none for an empty list. */
static int take_run(struct vc_torch *torch, const char *record, const uint64_t *pair,
		    enum vc_torch_tag tag, uint64_t *first, uint64_t *count)
{
	unsigned kind = vc_value_tag(pair[1]);

	*first = *count = 0;
	if (kind == VC_VALUE_NEW_LIST || kind == VC_VALUE_NONE)
		return 0;
	if (kind == VC_VALUE_RUN && vc_values_node(&torch->values, pair[1])->tag == tag) {
		*first = vc_values_node(&torch->values, pair[1])->capacity;
		*count = vc_values_node(&torch->values, pair[1])->count;
		return 0;
	}
	return wrong_type(torch, record, pair[0], pair[1],
			  tag == VC_TORCH_BLOCK ? "a list of its own blocks" :
						  "a list of its own older blocks");
}

static void unknown_key(struct vc_torch *torch, uint64_t key)
{
	if (!torch->unknown_keys++)
		torch->unknown_key = vc_value_content(key);
}

/** The key as a number; VC_TORCH_KEYS for one that is not known. */
static uint64_t key_of(uint64_t key)
{
	return vc_value_content(key) - 1 < VC_TORCH_KEYS ? vc_value_content(key) - 1 :
							   VC_TORCH_KEYS;
}

/* ---- records ---- */

static int make_frame(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
		      uint64_t *ret)
{
	uint64_t cells[VC_TORCH_FRAME_WORDS] = {0}, row;
	int error = 0;

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2) {
		switch (key_of(pair[0])) {
		case VC_TORCH_KEY_NAME:
			error = take_text(torch, "frame", pair, &cells[0]);
			break;
		case VC_TORCH_KEY_FILENAME:
			error = take_text(torch, "frame", pair, &cells[1]);
			break;
		case VC_TORCH_KEY_LINE:
			error = take_number(torch, "frame", pair, &cells[2]);
			break;
		case VC_TORCH_KEY_FX_NODE_OP:
			error = take_text(torch, "frame", pair, &cells[3]);
			break;
		case VC_TORCH_KEY_FX_NODE_NAME:
			error = take_text(torch, "frame", pair, &cells[4]);
			break;
		case VC_TORCH_KEY_FX_NODE_TARGET:
		case VC_TORCH_KEY_FX_NODE_INFO:
			error = take_text(torch, "frame", pair, &cells[5]);
			break;
		case VC_TORCH_KEY_FX_ORIGINAL_TRACE:
			error = take_text(torch, "frame", pair, &cells[6]);
			break;
		default:
			unknown_key(torch, pair[0]);
		}
	}
	if (!error)
		error = vc_torch_intern_row(torch, &torch->frames,
				   (struct vc_torch_row){VC_TABLE_source_frames, cells,
						   VC_TORCH_FRAME_WORDS}, &row);
	if (!error)
		*ret = vc_value_make(VC_TORCH_FRAME, row);
	return error;
}

/** What an event is made of, before it is a row. */
struct event {
	uint64_t action, address, size, stream, time_us, stack, forward;
	uint64_t detail[VC_TORCH_DETAIL_WORDS];
	bool metadata_left; /* it is no text */
};

enum {
	DETAIL_ACTION, DETAIL_CONTEXT, DETAIL_METADATA, DETAIL_INTERNAL, DETAIL_POOL_FIRST,
	DETAIL_POOL_SECOND, DETAIL_DEVICE_FREE, DETAIL_KEYS, DETAIL_MORE,
};
_Static_assert(VC_COL_trace_details_more - VC_COL_trace_details_action == DETAIL_MORE,
	       "details are the columns of trace_details");
_Static_assert(VC_COL_source_frames_fx_source - VC_COL_source_frames_function + 1 ==
		       VC_TORCH_FRAME_WORDS,
	       "frames are the columns of source_frames");

static int take_action(struct vc_torch *torch, const uint64_t *pair, struct event *event)
{
	uint64_t row;
	int error = take_text(torch, "event", pair, &row);

	if (error)
		return error;
	if (row - FIRST_ACTION < ACTIONS)
		event->action = actions[row - FIRST_ACTION].number;
	else
		event->detail[DETAIL_ACTION] = row;
	return 0;
}

/** One that is no text is shown as JSON; what it was goes with the keys that are not known. */
static int take_metadata(struct vc_torch *torch, const uint64_t *pair, struct event *event)
{
	uint64_t *text = &event->detail[DETAIL_METADATA];

	if (vc_value_tag(pair[1]) == VC_VALUE_TEXT) {
		*text = vc_value_content(pair[1]);
		return 0;
	}
	event->metadata_left = true;
	vc_torch_leave(torch, pair);
	return vc_value_tag(pair[1]) == VC_VALUE_NONE ? 0 : vc_torch_plain(torch, pair[1], text);
}

static int take_event_pair(struct vc_torch *torch, const uint64_t *pair, struct event *event)
{
	uint64_t *detail = event->detail;

	switch (key_of(pair[0])) {
	case VC_TORCH_KEY_ACTION:
		return take_action(torch, pair, event);
	case VC_TORCH_KEY_ADDR:
	case VC_TORCH_KEY_ADDRESS:
		return take_number(torch, "event", pair, &event->address);
	case VC_TORCH_KEY_SIZE:
		return take_number(torch, "event", pair, &event->size);
	case VC_TORCH_KEY_STREAM:
		return take_number(torch, "event", pair, &event->stream);
	case VC_TORCH_KEY_TIME_US:
		return take_number(torch, "event", pair, &event->time_us);
	case VC_TORCH_KEY_FRAMES:
		return take_stack(torch, "event", pair, &event->stack);
	case VC_TORCH_KEY_FORWARD_FRAMES:
		return take_stack(torch, "event", pair, &event->forward);
	case VC_TORCH_KEY_COMPILE_CONTEXT:
		return take_text(torch, "event", pair, &detail[DETAIL_CONTEXT]);
	case VC_TORCH_KEY_USER_METADATA:
		return take_metadata(torch, pair, event);
	case VC_TORCH_KEY_INTERNAL_METADATA:
		return take_text(torch, "event", pair, &detail[DETAIL_INTERNAL]);
	case VC_TORCH_KEY_DEVICE_FREE:
		return take_number(torch, "event", pair, &detail[DETAIL_DEVICE_FREE]);
	case VC_TORCH_KEY_POOL_ID:
		return take_pair(torch, "event", pair, &detail[DETAIL_POOL_FIRST],
				 &detail[DETAIL_POOL_SECOND]);
	default:
		vc_torch_leave(torch, pair);
		return 0;
	}
}

/** Row plus 1 of the event's details. Few differ from the one before of the same action. */
static int intern_detail(struct vc_torch *torch, const struct event *event, uint64_t *ret)
{
	unsigned entry = event->action % VC_TORCH_LATEST;
	uint64_t row;
	int error;

	if (torch->latest_row[entry] &&
	    !memcmp(torch->latest[entry], event->detail, sizeof(event->detail))) {
		*ret = torch->latest_row[entry];
		return 0;
	}
	error = vc_torch_intern_row(torch, &torch->details,
			   (struct vc_torch_row){VC_TABLE_trace_details, event->detail,
					   VC_TORCH_DETAIL_WORDS}, &row);
	if (error)
		return error;
	memcpy(torch->latest[entry], event->detail, sizeof(event->detail));
	*ret = torch->latest_row[entry] = row + 1;
	return 0;
}

/** A failed allocation is also a row of `failures`. */
static int add_failure(struct vc_torch *torch, const struct event *event, uint64_t number)
{
	struct vc_tables *tables = torch->tables;
	uint64_t row;
	int error = vc_torch_append(torch, VC_TABLE_failures, &row);

	if (error)
		return error;
	tables->column[VC_COL_failures_number][row] = number;
	tables->column[VC_COL_failures_time][row] =
		event->time_us < UINT64_MAX / 1000 ? event->time_us * 1000 : 0;
	tables->column[VC_COL_failures_requested][row] = event->size;
	tables->column[VC_COL_failures_device][row] = UINT64_MAX;
	tables->column[VC_COL_failures_python][row] = event->stack;
	tables->column[VC_COL_failures_free_known][row] =
		(event->detail[DETAIL_KEYS] & BIT(DEVICE_FREE)) != 0;
	tables->column[VC_COL_failures_free][row] = event->detail[DETAIL_DEVICE_FREE];
	tables->column[VC_COL_failures_outcome][row] = VC_FAILURE_OUT_OF_MEMORY;
	return 0;
}

/** Adds a row to the trace without clearing it first: every column is set. */
static int append_event(struct vc_torch *torch, uint64_t *ret)
{
	struct vc_tables *tables = torch->tables;
	uint64_t row = tables->rows[VC_TABLE_trace];
	int error = 0;

	if (row >= tables->capacity[VC_TABLE_trace]) {
		error = vc_torch_check_records(torch, VC_TABLE_trace);
		if (!error)
			error = vc_tables_reserve(tables, VC_TABLE_trace, row + 1);
	}
	if (error)
		return error;
	tables->rows[VC_TABLE_trace] = row + 1;
	*ret = row;
	return 0;
}

static int make_event(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
		      uint64_t keys, uint64_t *ret)
{
	struct vc_tables *tables = torch->tables;
	struct event event = {0};
	uint64_t row, detail;
	int error = 0;

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2)
		error = take_event_pair(torch, pair, &event);
	event.detail[DETAIL_KEYS] = (keys & ORIGIN_BITS) | (keys & BIT(ADDR) ? BIT(ADDRESS) : 0);
	if (event.metadata_left)
		event.detail[DETAIL_KEYS] &= ~BIT(USER_METADATA);
	if (!error && torch->left_count)
		error = vc_torch_more(torch, &event.detail[DETAIL_MORE]);
	if (!error && event.forward)
		error = vc_torch_stack_with_forward(torch, event.stack, event.forward,
						    &event.stack);
	if (!error)
		error = append_event(torch, &row);
	if (!error && event.action == VC_TRACE_OOM)
		error = add_failure(torch, &event, row + 1);
	if (!error && torch->keep_trace)
		error = intern_detail(torch, &event, &detail);
	if (error)
		return error;
	*ret = vc_value_make(VC_TORCH_EVENT, row);
	if (!torch->keep_trace)
		return 0;
	{
		const struct {
			enum vc_column_index column;
			uint64_t value;
		} cells[] = {
			{VC_COL_trace_device, 0}, /* until its list is known */
			{VC_COL_trace_action, event.action},
			{VC_COL_trace_address, event.address},
			{VC_COL_trace_size, event.size},
			{VC_COL_trace_stream, event.stream},
			{VC_COL_trace_time_us, event.time_us},
			{VC_COL_trace_stack, event.stack},
			{VC_COL_trace_detail, detail},
		};

		for (size_t i = 0; i < sizeof(cells) / sizeof(*cells) && !error; i++)
			error = vc_tables_put(tables, cells[i].column, row, cells[i].value);
	}
	return error;
}

/** A column of `row` for the key; VC_COLUMNS: not a plain number. */
static enum vc_column_index segment_column(uint64_t key)
{
	switch (key) {
	case VC_TORCH_KEY_DEVICE:
		return VC_COL_segments_device;
	case VC_TORCH_KEY_ADDRESS:
		return VC_COL_segments_address;
	case VC_TORCH_KEY_TOTAL_SIZE:
		return VC_COL_segments_total_size;
	case VC_TORCH_KEY_ALLOCATED_SIZE:
		return VC_COL_segments_allocated_size;
	case VC_TORCH_KEY_ACTIVE_SIZE:
		return VC_COL_segments_active_size;
	case VC_TORCH_KEY_REQUESTED_SIZE:
		return VC_COL_segments_requested_size;
	case VC_TORCH_KEY_STREAM:
		return VC_COL_segments_stream;
	case VC_TORCH_KEY_IS_EXPANDABLE:
		return VC_COL_segments_expandable;
	case VC_TORCH_KEY_REGISTRATION_COUNTER:
		return VC_COL_segments_registration;
	default:
		return VC_COLUMNS;
	}
}

static uint64_t *cell(struct vc_torch *torch, enum vc_column_index column, uint64_t row)
{
	return &torch->tables->column[column][row];
}

/** Says which segment blocks belong to, and where they are, if they do not say so. */
static int take_blocks(struct vc_torch *torch, uint64_t row, uint64_t first, uint64_t count)
{
	uint64_t address = *cell(torch, VC_COL_segments_address, row);

	for (uint64_t block = first; block < first + count; block++) {
		if (*cell(torch, VC_COL_blocks_segment, block))
			return vc_values_wrong(&torch->values, VC_E_CORRUPT,
					       "a block lies in two segments");
		*cell(torch, VC_COL_blocks_segment, block) = row + 1;
		if (!(*cell(torch, VC_COL_blocks_keys, block) & BIT(ADDRESS)))
			*cell(torch, VC_COL_blocks_address, block) = address;
		address = *cell(torch, VC_COL_blocks_address, block) +
			  *cell(torch, VC_COL_blocks_size, block);
	}
	return 0;
}

static int make_segment(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
			uint64_t keys, uint64_t *ret)
{
	uint64_t row, first = 0, blocks = 0, forward = 0;
	int error = vc_torch_append(torch, VC_TABLE_segments, &row);

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2) {
		uint64_t key = key_of(pair[0]);
		enum vc_column_index column = segment_column(key);

		if (column != VC_COLUMNS)
			error = take_number(torch, "segment", pair, cell(torch, column, row));
		else if (key == VC_TORCH_KEY_SEGMENT_TYPE)
			error = take_text(torch, "segment", pair,
					  cell(torch, VC_COL_segments_type, row));
		else if (key == VC_TORCH_KEY_FRAMES)
			error = take_stack(torch, "segment", pair,
					   cell(torch, VC_COL_segments_stack, row));
		else if (key == VC_TORCH_KEY_FORWARD_FRAMES)
			error = take_stack(torch, "segment", pair, &forward);
		else if (key == VC_TORCH_KEY_SEGMENT_POOL_ID || key == VC_TORCH_KEY_POOL_ID)
			error = take_pair(torch, "segment", pair,
					  cell(torch, VC_COL_segments_pool_first, row),
					  cell(torch, VC_COL_segments_pool_second, row));
		else if (key == VC_TORCH_KEY_BLOCKS)
			error = take_run(torch, "segment", pair, VC_TORCH_BLOCK, &first, &blocks);
		else
			vc_torch_leave(torch, pair);
	}
	if (!error && forward)
		error = vc_torch_stack_with_forward(torch, *cell(torch, VC_COL_segments_stack, row),
						    forward,
						    cell(torch, VC_COL_segments_stack, row));
	if (!error && torch->left_count)
		error = vc_torch_more(torch, cell(torch, VC_COL_segments_more, row));
	if (!error)
		error = take_blocks(torch, row, first, blocks);
	if (error)
		return error;
	*cell(torch, VC_COL_segments_keys, row) = keys & ORIGIN_BITS;
	*ret = vc_value_make(VC_TORCH_SEGMENT, row);
	return 0;
}

/** A block of old dumps has its stack in its history only: the first is the newest. */
static int take_history(struct vc_torch *torch, uint64_t row, uint64_t first, uint64_t count)
{
	for (uint64_t old = first; old < first + count; old++) {
		if (*cell(torch, VC_COL_block_history_block, old))
			return vc_values_wrong(&torch->values, VC_E_CORRUPT,
					       "a history belongs to two blocks");
		*cell(torch, VC_COL_block_history_block, old) = row + 1;
	}
	if (count && !*cell(torch, VC_COL_blocks_stack, row))
		*cell(torch, VC_COL_blocks_stack, row) =
			*cell(torch, VC_COL_block_history_stack, first);
	return 0;
}

static int make_block(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
		      uint64_t keys, uint64_t *ret)
{
	uint64_t row, first = 0, history = 0, forward = 0;
	int error = vc_torch_append(torch, VC_TABLE_blocks, &row);

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2) {
		switch (key_of(pair[0])) {
		case VC_TORCH_KEY_ADDRESS:
		case VC_TORCH_KEY_ADDR:
			error = take_number(torch, "block", pair,
					    cell(torch, VC_COL_blocks_address, row));
			break;
		case VC_TORCH_KEY_SIZE:
			error = take_number(torch, "block", pair,
					    cell(torch, VC_COL_blocks_size, row));
			break;
		case VC_TORCH_KEY_REQUESTED_SIZE:
			error = take_number(torch, "block", pair,
					    cell(torch, VC_COL_blocks_requested, row));
			break;
		case VC_TORCH_KEY_STATE:
			error = take_text(torch, "block", pair,
					  cell(torch, VC_COL_blocks_state, row));
			break;
		case VC_TORCH_KEY_FRAMES:
			error = take_stack(torch, "block", pair,
					   cell(torch, VC_COL_blocks_stack, row));
			break;
		case VC_TORCH_KEY_FORWARD_FRAMES:
			error = take_stack(torch, "block", pair, &forward);
			break;
		case VC_TORCH_KEY_HISTORY:
			error = take_run(torch, "block", pair, VC_TORCH_HISTORY, &first,
					 &history);
			break;
		default:
			vc_torch_leave(torch, pair);
		}
	}
	if (!error && torch->left_count)
		error = vc_torch_more(torch, cell(torch, VC_COL_blocks_more, row));
	if (!error)
		error = take_history(torch, row, first, history);
	if (!error && forward)
		error = vc_torch_stack_with_forward(torch, *cell(torch, VC_COL_blocks_stack, row),
						    forward, cell(torch, VC_COL_blocks_stack, row));
	if (error)
		return error;
	if (keys & BIT(ADDR))
		keys |= BIT(ADDRESS);
	*cell(torch, VC_COL_blocks_keys, row) = keys & ORIGIN_BITS;
	*ret = vc_value_make(VC_TORCH_BLOCK, row);
	return 0;
}

static int make_history(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
			uint64_t keys, uint64_t *ret)
{
	uint64_t row;
	int error = vc_torch_append(torch, VC_TABLE_block_history, &row);

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2) {
		switch (key_of(pair[0])) {
		case VC_TORCH_KEY_ADDR:
		case VC_TORCH_KEY_ADDRESS:
			error = take_number(torch, "history", pair,
					    cell(torch, VC_COL_block_history_address, row));
			break;
		case VC_TORCH_KEY_REAL_SIZE:
			error = take_number(torch, "history", pair,
					    cell(torch, VC_COL_block_history_size, row));
			break;
		case VC_TORCH_KEY_FRAMES:
			error = take_stack(torch, "history", pair,
					   cell(torch, VC_COL_block_history_stack, row));
			break;
		default:
			unknown_key(torch, pair[0]);
		}
	}
	if (error)
		return error;
	*cell(torch, VC_COL_block_history_keys, row) =
		(keys & ORIGIN_BITS) | (keys & BIT(ADDR) ? BIT(ADDRESS) : 0);
	*ret = vc_value_make(VC_TORCH_HISTORY, row);
	return 0;
}

static int make_annotation(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
			   uint64_t *ret)
{
	uint64_t row;
	int error = vc_torch_append(torch, VC_TABLE_annotations, &row);

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2) {
		switch (key_of(pair[0])) {
		case VC_TORCH_KEY_DEVICE:
			error = take_number(torch, "annotation", pair,
					    cell(torch, VC_COL_annotations_device, row));
			break;
		case VC_TORCH_KEY_TIME_US:
			error = take_number(torch, "annotation", pair,
					    cell(torch, VC_COL_annotations_time_us, row));
			break;
		case VC_TORCH_KEY_NAME:
			error = take_text(torch, "annotation", pair,
					  cell(torch, VC_COL_annotations_name, row));
			break;
		case VC_TORCH_KEY_STAGE:
			error = take_text(torch, "annotation", pair,
					  cell(torch, VC_COL_annotations_stage, row));
			break;
		default:
			unknown_key(torch, pair[0]);
		}
	}
	if (!error)
		*ret = vc_value_make(VC_TORCH_ANNOTATION, row);
	return error;
}

/** What a dict is, its keys say. */
static int make_dict(void *context, const uint64_t *pairs, uint64_t count, uint64_t *ret)
{
	struct vc_torch *torch = context;
	const uint64_t first = vc_value_make(VC_VALUE_TEXT, 1);
	uint64_t keys = 0;

	for (const uint64_t *pair = pairs; pair < pairs + count * 2; pair += 2) {
		if (pair[0] - first < VC_TORCH_KEYS)
			keys |= UINT64_C(1) << (pair[0] - first);
		else if (vc_value_tag(pair[0]) != VC_VALUE_TEXT)
			return VC_E_NOT_FOUND;
	}
	if (keys & BIT(ACTION))
		return make_event(torch, pairs, count, keys, ret);
	if (keys & BIT(FILENAME) && keys & BIT(NAME))
		return make_frame(torch, pairs, count, ret);
	if (keys & BIT(TOTAL_SIZE))
		return make_segment(torch, pairs, count, keys, ret);
	if (keys & BIT(SIZE) && keys & BIT(STATE))
		return make_block(torch, pairs, count, keys, ret);
	if (keys & BIT(REAL_SIZE))
		return make_history(torch, pairs, count, keys, ret);
	if (keys & BIT(STAGE))
		return make_annotation(torch, pairs, count, ret);
	return VC_E_NOT_FOUND;
}

/* ---- life ---- */

int vc_torch_init(struct vc_torch *torch, struct vc_tables *tables,
		  const struct vc_limits *limits)
{
	static const char *const keys[] = {
#define VC_ORIGIN_KEY(name, number, text) text,
#include "formats/origin_keys.def"
#undef VC_ORIGIN_KEY
#define VC_TORCH_KEY(name, text) text,
#include "analyze/torch_keys.def"
#undef VC_TORCH_KEY
	};
	uint64_t row;
	int error;

	memset(torch, 0, sizeof(*torch));
	torch->tables = tables;
	torch->keep_trace = true;
	error = vc_values_init(&torch->values, tables, limits);
	torch->values.maker = (struct vc_record_maker){torch, make_dict, vc_torch_make_list};
	for (unsigned i = 0; i < VC_TORCH_KEYS && !error; i++)
		error = vc_tables_string(tables, keys[i], strlen(keys[i]), &row);
	for (unsigned i = 0; i < ACTIONS && !error; i++)
		error = vc_tables_string(tables, actions[i].word, strlen(actions[i].word), &row);
	if (!error)
		error = vc_tables_string(tables, "inactive", 8, &torch->inactive);
	return error;
}

void vc_torch_deinit(struct vc_torch *torch)
{
	vc_values_deinit(&torch->values);
	free(torch->frames.index);
	free(torch->stacks.index);
	free(torch->details.index);
}
