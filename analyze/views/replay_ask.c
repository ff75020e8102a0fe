/* SPDX-License-Identifier: Apache-2.0 */
/* What a replay is made of and what it says of each moment. */
#include <stdlib.h>

#include "analyze/views/replay.h"

/* ---- rows ---- */

static uint64_t possible(uint64_t size)
{
	return size > VC_REPLAY_SIZE_MOST ? 0 : size;
}

uint64_t vc_replay_life_size(const struct vc_tables *tables, const struct vc_replay_life *life)
{
	if (life->born != VC_REPLAY_BEFORE)
		return vc_replay_event_size(tables, life->born);
	if (life->block)
		return possible(vc_value(tables, VC_COL_blocks_requested, life->block - 1));
	return vc_replay_event_size(tables, life->died);
}

uint64_t vc_replay_life_stack(const struct vc_tables *tables, const struct vc_replay_life *life)
{
	if (life->born != VC_REPLAY_BEFORE)
		return vc_value(tables, VC_COL_trace_stack, life->born);
	return life->block ? vc_value(tables, VC_COL_blocks_stack, life->block - 1) : 0;
}

uint64_t vc_replay_life_address(const struct vc_tables *tables, const struct vc_replay_life *life)
{
	if (life->born != VC_REPLAY_BEFORE)
		return vc_value(tables, VC_COL_trace_address, life->born);
	if (life->block)
		return vc_value(tables, VC_COL_blocks_address, life->block - 1);
	return vc_value(tables, VC_COL_trace_address, life->died);
}

/* ---- moments ---- */

uint64_t vc_replay_change(const struct vc_tables *tables, uint64_t row)
{
	enum vc_replay_sign sign = vc_replay_sign_of(vc_value(tables, VC_COL_trace_action, row));

	return sign == VC_REPLAY_ALLOCATES ? vc_replay_event_size(tables, row) :
	       sign == VC_REPLAY_FREES ? -vc_replay_event_size(tables, row) : 0;
}

uint64_t vc_replay_reserve(const struct vc_tables *tables, uint64_t row, uint64_t reserved)
{
	enum vc_replay_sign sign = vc_replay_sign_of(vc_value(tables, VC_COL_trace_action, row));
	uint64_t size;

	if (sign != VC_REPLAY_RESERVES && sign != VC_REPLAY_RELEASES)
		return reserved;
	size = vc_replay_event_size(tables, row);
	if (sign == VC_REPLAY_RESERVES)
		return reserved + size;
	return size > reserved ? 0 : reserved - size;
}

void vc_replay_cursor_step(const struct vc_replay *replay, struct vc_replay_cursor *cursor)
{
	uint64_t row = cursor->row++;

	cursor->allocated += vc_replay_change(replay->tables, row);
	if (cursor->exception < replay->exception_count &&
	    replay->exceptions[cursor->exception].row == row)
		cursor->allocated += replay->exceptions[cursor->exception++].more;
	cursor->reserved = vc_replay_reserve(replay->tables, row, cursor->reserved);
}

void vc_replay_cursor_init(const struct vc_replay *replay, const struct vc_replay_list *list,
			   uint64_t moment, struct vc_replay_cursor *ret)
{
	uint64_t row = list->first + moment, start = row - row % VC_REPLAY_STRIDE;
	uint64_t low = 0, high = replay->exception_count;
	struct vc_replay_cursor cursor = {list->first, list->prior_bytes, list->start_reserved, 0};

	if (start > list->first && start < list->first + list->count) {
		const struct vc_replay_check *check = &replay->checks[start / VC_REPLAY_STRIDE];

		cursor = (struct vc_replay_cursor){start, check->allocated, check->reserved, 0};
	}
	while (low < high) { /* the first that is not before it */
		uint64_t middle = low + (high - low) / 2;

		if (replay->exceptions[middle].row < cursor.row)
			low = middle + 1;
		else
			high = middle;
	}
	cursor.exception = low;
	while (cursor.row < row)
		vc_replay_cursor_step(replay, &cursor);
	*ret = cursor;
}

uint64_t vc_replay_allocated(const struct vc_replay *replay, const struct vc_replay_list *list,
			     uint64_t moment)
{
	struct vc_replay_cursor cursor;

	vc_replay_cursor_init(replay, list, moment, &cursor);
	return cursor.allocated;
}

uint64_t vc_replay_reserved(const struct vc_replay *replay, const struct vc_replay_list *list,
			    uint64_t moment)
{
	struct vc_replay_cursor cursor;

	vc_replay_cursor_init(replay, list, moment, &cursor);
	return cursor.reserved;
}

uint64_t vc_replay_moment_at(const struct vc_tables *tables, const struct vc_replay_list *list,
			     uint64_t time_us)
{
	uint64_t low = 0, high = list->count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (vc_value(tables, VC_COL_trace_time_us, list->first + middle) <= time_us)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool vc_replay_began_late(const struct vc_replay_list *list)
{
	return list->prior_blocks || list->start_reserved;
}

uint64_t vc_replay_fault_count(const struct vc_replay_list *list)
{
	uint64_t sum = 0;

#define VC_REPLAY_FAULT(name, text) sum += list->name;
	VC_REPLAY_FAULTS(VC_REPLAY_FAULT)
#undef VC_REPLAY_FAULT
	return sum;
}

/* ---- life ---- */

void vc_replay_deinit(struct vc_replay *replay)
{
	free(replay->lists);
	free(replay->lives);
	free(replay->checks);
	free(replay->exceptions);
	free(replay->marks);
	*replay = (struct vc_replay){0};
}
