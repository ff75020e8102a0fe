/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/torch_records.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/torch_more.h"
#include "analyze/torch_take.h"

_Static_assert(VC_TORCH_KEYS <= 64, "a set of keys is one number");
_Static_assert(VC_COL_source_frames_fx_source - VC_COL_source_frames_function + 1 ==
		       VC_TORCH_FRAME_WORDS,
	       "frames are the columns of source_frames");

static void unknown_key(struct vc_torch *torch, uint64_t key)
{
	if (!torch->unknown_keys++)
		torch->unknown_key = vc_value_content(key);
}

/* ---- records ---- */

static int make_frame(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
		      uint64_t *ret)
{
	uint64_t cells[VC_TORCH_FRAME_WORDS] = {0}, row;
	int error = 0;

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2) {
		switch (vc_torch_key(pair[0])) {
		case VC_TORCH_KEY_NAME:
			error = vc_torch_take_text(torch, "frame", pair, &cells[0]);
			break;
		case VC_TORCH_KEY_FILENAME:
			error = vc_torch_take_text(torch, "frame", pair, &cells[1]);
			break;
		case VC_TORCH_KEY_LINE:
			error = vc_torch_take_number(torch, "frame", pair, &cells[2]);
			break;
		case VC_TORCH_KEY_FX_NODE_OP:
			error = vc_torch_take_text(torch, "frame", pair, &cells[3]);
			break;
		case VC_TORCH_KEY_FX_NODE_NAME:
			error = vc_torch_take_text(torch, "frame", pair, &cells[4]);
			break;
		case VC_TORCH_KEY_FX_NODE_TARGET:
		case VC_TORCH_KEY_FX_NODE_INFO:
			error = vc_torch_take_text(torch, "frame", pair, &cells[5]);
			break;
		case VC_TORCH_KEY_FX_ORIGINAL_TRACE:
			error = vc_torch_take_text(torch, "frame", pair, &cells[6]);
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
		if (!(*cell(torch, VC_COL_blocks_keys, block) & VC_TORCH_BIT(ADDRESS)))
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
		uint64_t key = vc_torch_key(pair[0]);
		enum vc_column_index column = segment_column(key);

		if (column != VC_COLUMNS)
			error = vc_torch_take_number(torch, "segment", pair, cell(torch, column, row));
		else if (key == VC_TORCH_KEY_SEGMENT_TYPE)
			error = vc_torch_take_text(torch, "segment", pair,
					  cell(torch, VC_COL_segments_type, row));
		else if (key == VC_TORCH_KEY_FRAMES)
			error = vc_torch_take_stack(torch, "segment", pair,
					   cell(torch, VC_COL_segments_stack, row));
		else if (key == VC_TORCH_KEY_FORWARD_FRAMES)
			error = vc_torch_take_stack(torch, "segment", pair, &forward);
		else if (key == VC_TORCH_KEY_SEGMENT_POOL_ID || key == VC_TORCH_KEY_POOL_ID)
			error = vc_torch_take_pair(torch, "segment", pair,
					  cell(torch, VC_COL_segments_pool_first, row),
					  cell(torch, VC_COL_segments_pool_second, row));
		else if (key == VC_TORCH_KEY_BLOCKS)
			error = vc_torch_take_run(torch, "segment", pair, VC_TORCH_BLOCK, &first, &blocks);
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
	*cell(torch, VC_COL_segments_keys, row) = keys & VC_TORCH_ORIGIN_BITS;
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
		switch (vc_torch_key(pair[0])) {
		case VC_TORCH_KEY_ADDRESS:
		case VC_TORCH_KEY_ADDR:
			error = vc_torch_take_number(torch, "block", pair,
					    cell(torch, VC_COL_blocks_address, row));
			break;
		case VC_TORCH_KEY_SIZE:
			error = vc_torch_take_number(torch, "block", pair,
					    cell(torch, VC_COL_blocks_size, row));
			break;
		case VC_TORCH_KEY_REQUESTED_SIZE:
			error = vc_torch_take_number(torch, "block", pair,
					    cell(torch, VC_COL_blocks_requested, row));
			break;
		case VC_TORCH_KEY_STATE:
			error = vc_torch_take_text(torch, "block", pair,
					  cell(torch, VC_COL_blocks_state, row));
			break;
		case VC_TORCH_KEY_FRAMES:
			error = vc_torch_take_stack(torch, "block", pair,
					   cell(torch, VC_COL_blocks_stack, row));
			break;
		case VC_TORCH_KEY_FORWARD_FRAMES:
			error = vc_torch_take_stack(torch, "block", pair, &forward);
			break;
		case VC_TORCH_KEY_HISTORY:
			error = vc_torch_take_run(torch, "block", pair, VC_TORCH_HISTORY, &first,
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
	if (keys & VC_TORCH_BIT(ADDR))
		keys |= VC_TORCH_BIT(ADDRESS);
	*cell(torch, VC_COL_blocks_keys, row) = keys & VC_TORCH_ORIGIN_BITS;
	*ret = vc_value_make(VC_TORCH_BLOCK, row);
	return 0;
}

static int make_history(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
			uint64_t keys, uint64_t *ret)
{
	uint64_t row;
	int error = vc_torch_append(torch, VC_TABLE_block_history, &row);

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2) {
		switch (vc_torch_key(pair[0])) {
		case VC_TORCH_KEY_ADDR:
		case VC_TORCH_KEY_ADDRESS:
			error = vc_torch_take_number(torch, "history", pair,
					    cell(torch, VC_COL_block_history_address, row));
			break;
		case VC_TORCH_KEY_REAL_SIZE:
			error = vc_torch_take_number(torch, "history", pair,
					    cell(torch, VC_COL_block_history_size, row));
			break;
		case VC_TORCH_KEY_FRAMES:
			error = vc_torch_take_stack(torch, "history", pair,
					   cell(torch, VC_COL_block_history_stack, row));
			break;
		default:
			unknown_key(torch, pair[0]);
		}
	}
	if (error)
		return error;
	*cell(torch, VC_COL_block_history_keys, row) =
		(keys & VC_TORCH_ORIGIN_BITS) | (keys & VC_TORCH_BIT(ADDR) ? VC_TORCH_BIT(ADDRESS) : 0);
	*ret = vc_value_make(VC_TORCH_HISTORY, row);
	return 0;
}

static int make_annotation(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
			   uint64_t *ret)
{
	uint64_t row;
	int error = vc_torch_append(torch, VC_TABLE_annotations, &row);

	for (const uint64_t *pair = pairs; pair < pairs + count * 2 && !error; pair += 2) {
		switch (vc_torch_key(pair[0])) {
		case VC_TORCH_KEY_DEVICE:
			error = vc_torch_take_number(torch, "annotation", pair,
					    cell(torch, VC_COL_annotations_device, row));
			break;
		case VC_TORCH_KEY_TIME_US:
			error = vc_torch_take_number(torch, "annotation", pair,
					    cell(torch, VC_COL_annotations_time_us, row));
			break;
		case VC_TORCH_KEY_NAME:
			error = vc_torch_take_text(torch, "annotation", pair,
					  cell(torch, VC_COL_annotations_name, row));
			break;
		case VC_TORCH_KEY_STAGE:
			error = vc_torch_take_text(torch, "annotation", pair,
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
	if (keys & VC_TORCH_BIT(ACTION))
		return vc_torch_make_event(torch, pairs, count, keys, ret);
	if (keys & VC_TORCH_BIT(FILENAME) && keys & VC_TORCH_BIT(NAME))
		return make_frame(torch, pairs, count, ret);
	if (keys & VC_TORCH_BIT(TOTAL_SIZE))
		return make_segment(torch, pairs, count, keys, ret);
	if (keys & VC_TORCH_BIT(SIZE) && keys & VC_TORCH_BIT(STATE))
		return make_block(torch, pairs, count, keys, ret);
	if (keys & VC_TORCH_BIT(REAL_SIZE))
		return make_history(torch, pairs, count, keys, ret);
	if (keys & VC_TORCH_BIT(STAGE))
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
	torch->values.maker = (struct vc_record_maker){
		.context = torch, .dict = make_dict, .list = vc_torch_make_list,
		.shape = &torch->alike.shape, .alike = vc_torch_make_alike,
	};
	for (unsigned i = 0; i < VC_TORCH_KEYS && !error; i++)
		error = vc_tables_string(tables, keys[i], strlen(keys[i]), &row);
	if (!error)
		error = vc_torch_add_actions(torch);
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
