/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/replay.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/views/ordered.h"
#include "analyze/views/places.h"

#define MATCHED (UINT32_C(1) << 31) /* in `living`: a block was found there at the end */

struct work {
	const struct vc_tables *tables;
	struct vc_replay *replay;
	struct vc_replay_list *list;
	struct vc_places places;
	uint32_t *living;      /* of each place, of all lives plus 1: what lives there now; 0 nothing */
	uint64_t living_capacity;
	uint32_t *visits;      /* the places of events that allocate or free, in their order */
	uint32_t *end;         /* the places of blocks that are active at the end, in theirs */
	uint64_t visit_count, visit_capacity, end_count, end_capacity;
	struct vc_ordered live;
	uint64_t life_capacity, mark_capacity, exception_capacity;
	uint64_t bytes, blocks, window_bytes, window_blocks;
};

static enum vc_replay_sign sign_of_row(const struct vc_tables *tables, uint64_t row)
{
	return vc_replay_sign_of(vc_value(tables, VC_COL_trace_action, row));
}

static uint64_t possible(uint64_t size)
{
	return size > VC_REPLAY_SIZE_MOST ? 0 : size;
}

/** True for blocks of the list's device that are in use at the end. */
static bool is_active_block(const struct work *work, uint64_t block)
{
	const struct vc_tables *tables = work->tables;
	uint64_t segment = vc_value(tables, VC_COL_blocks_segment, block);
	bool host = work->list->device >= VC_REPLAY_HOST;
	uint64_t device = work->list->device - (host ? VC_REPLAY_HOST : 0);

	return segment && !strncmp(vc_string(tables, VC_COL_blocks_state, block), "active", 6) &&
	       vc_value(tables, VC_COL_segments_device, segment - 1) == device &&
	       !vc_value(tables, VC_COL_segments_host, segment - 1) == !host;
}

/* ---- places ---- */

/** Doubles an array of `size`-byte entries where `count` fill it. */
static int grow(void *array, uint64_t *capacity, uint64_t count, size_t size)
{
	uint64_t larger = *capacity ? *capacity * 2 : 1024;
	void *grown;

	if (count < *capacity)
		return 0;
	grown = realloc(*(void **)array, larger * size);
	if (!grown)
		return VC_E_NO_MEMORY;
	*(void **)array = grown;
	*capacity = larger;
	return 0;
}

/** The place of the address of a row (see places.h), where nothing lives if it is *made. */
static int visit(struct work *work, uint64_t address, uint64_t row, uint32_t *ret, bool *made)
{
	uint64_t count = work->places.count;
	int error = grow(&work->living, &work->living_capacity, count, sizeof(*work->living));

	if (!error)
		error = vc_places_add(&work->places, address, row, ret);
	if (error)
		return error;
	*made = *ret == count;
	if (*made)
		work->living[count] = 0;
	return 0;
}

/* ---- lives ---- */

/** What lives at a place from now on. */
static int add_life(struct work *work, struct vc_replay_life life, uint32_t place,
		    uint64_t address, bool *overlaps)
{
	struct vc_replay *replay = work->replay;
	uint64_t size = vc_replay_life_size(work->tables, &life);
	int error = grow(&replay->lives, &work->life_capacity, replay->life_count,
			 sizeof(*replay->lives));

	if (!error)
		error = vc_ordered_add(&work->live, address, size, overlaps);
	if (error)
		return error;
	replay->lives[replay->life_count++] = life;
	work->living[place] = (uint32_t)replay->life_count;
	work->bytes += size;
	work->blocks++;
	return 0;
}

static void end_life(struct work *work, uint32_t place, uint64_t row)
{
	struct vc_replay_life *life = &work->replay->lives[work->living[place] - 1];
	uint64_t size = vc_ordered_remove(&work->live,
					  vc_value(work->tables, VC_COL_trace_address, row));

	work->bytes -= size;
	work->blocks--;
	if (life->born != VC_REPLAY_BEFORE) {
		work->window_bytes -= size;
		work->window_blocks--;
	}
	life->died = (uint32_t)row;
	work->living[place] = 0;
}

static void look_ahead(const struct work *work, uint64_t row)
{
	enum { AHEAD = 8 };

	if (row + 2 * AHEAD < work->list->first + work->list->count)
		vc_places_fetch(&work->places,
				vc_value(work->tables, VC_COL_trace_address, row + AHEAD),
				vc_value(work->tables, VC_COL_trace_address, row + 2 * AHEAD));
}

/** Addresses of the events; what is freed before it was allocated was live before. */
static int find_places(struct work *work)
{
	const struct vc_replay_list *list = work->list;
	bool made, overlaps;
	int error = 0;

	for (uint64_t row = list->first; row < list->first + list->count && !error; row++) {
		uint64_t address = vc_value(work->tables, VC_COL_trace_address, row);
		enum vc_replay_sign sign = sign_of_row(work->tables, row);
		uint32_t place = 0;

		look_ahead(work, row);
		if (sign != VC_REPLAY_ALLOCATES && sign != VC_REPLAY_FREES)
			continue;
		error = grow(&work->visits, &work->visit_capacity, work->visit_count,
			     sizeof(*work->visits));
		if (!error)
			error = visit(work, address, row, &place, &made);
		if (!error)
			work->visits[work->visit_count++] = place;
		if (!error && made && sign == VC_REPLAY_FREES) /* end_life sets the same */
			error = add_life(work, (struct vc_replay_life){
				.born = VC_REPLAY_BEFORE, .died = (uint32_t)row}, place, address,
				&overlaps);
	}
	return error;
}

/** Blocks that are there at the end, and have no event, were live before too. */
static int find_blocks(struct work *work)
{
	const struct vc_tables *tables = work->tables;
	bool made, overlaps;
	int error = 0;

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_blocks] && !error; i++) {
		uint64_t address = vc_value(tables, VC_COL_blocks_address, i);
		uint32_t place = 0;

		if (!is_active_block(work, i))
			continue;
		error = grow(&work->end, &work->end_capacity, work->end_count,
			     sizeof(*work->end));
		if (!error)
			error = visit(work, address, tables->rows[VC_TABLE_trace] + i, &place,
				      &made);
		if (!error)
			work->end[work->end_count++] = place;
		if (!error && made)
			error = add_life(work, (struct vc_replay_life){
				.born = VC_REPLAY_BEFORE, .died = VC_REPLAY_NEVER,
				.block = (uint32_t)i + 1}, place, address, &overlaps);
	}
	work->list->prior_bytes = work->bytes;
	work->list->prior_blocks = work->blocks;
	return error;
}

static int allocate(struct work *work, uint64_t row, uint32_t place)
{
	bool again = work->living[place] != 0, overlaps;
	uint64_t size = vc_replay_event_size(work->tables, row);
	int error;

	if (again) {
		work->list->double_allocations++;
		end_life(work, place, row);
	}
	work->window_bytes += size;
	work->window_blocks++;
	error = add_life(work, (struct vc_replay_life){.born = (uint32_t)row,
						       .died = VC_REPLAY_NEVER}, place,
			 vc_value(work->tables, VC_COL_trace_address, row), &overlaps);
	if (!error && !again && overlaps)
		work->list->overlaps++;
	return error;
}

static void release(struct work *work, uint64_t row, uint32_t place)
{
	if (!work->living[place]) {
		work->list->double_frees++;
		return;
	}
	if (work->replay->lives[work->living[place] - 1].born == VC_REPLAY_BEFORE)
		work->list->prior_frees++;
	end_life(work, place, row);
}

/* ---- reserved ---- */

/** Bytes of the list's segments at the end; what the trace adds to them. */
static void find_reserved(struct work *work)
{
	struct vc_replay_list *list = work->list;
	const struct vc_tables *tables = work->tables;
	bool host = list->device >= VC_REPLAY_HOST;
	uint64_t device = list->device - (host ? VC_REPLAY_HOST : 0), net = 0;

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_segments]; i++)
		if (vc_value(tables, VC_COL_segments_device, i) == device &&
		    !vc_value(tables, VC_COL_segments_host, i) == !host)
			list->end_reserved +=
				possible(vc_value(tables, VC_COL_segments_total_size, i));
	for (uint64_t row = list->first; row < list->first + list->count; row++) {
		enum vc_replay_sign sign = sign_of_row(tables, row);

		if (sign == VC_REPLAY_RESERVES)
			net += vc_replay_event_size(tables, row);
		else if (sign == VC_REPLAY_RELEASES)
			net -= vc_replay_event_size(tables, row);
	}
	list->reserved_net = (int64_t)net;
	if (list->reserved_net > 0 && (uint64_t)list->reserved_net > list->end_reserved)
		list->released_more++;
	else
		list->start_reserved = list->end_reserved - net;
}

/* ---- the list ---- */

static void look_at_time(struct vc_replay_list *list, uint64_t time)
{
	if (!time)
		return;
	if (!list->has_time)
		list->first_time = time;
	else if (time < list->last_time)
		list->time_monotonic = false;
	list->has_time = true;
	list->last_time = time;
}

static void look_at_peaks(struct work *work, uint64_t moment, uint64_t reserved)
{
	struct vc_replay_list *list = work->list;

	if (work->bytes > list->peak) {
		list->peak = work->bytes;
		list->peak_moment = moment;
	}
	if (work->window_bytes > list->window_peak) {
		list->window_peak = work->window_bytes;
		list->window_peak_moment = moment;
	}
	if (reserved > list->reserved_peak) {
		list->reserved_peak = reserved;
		list->reserved_peak_moment = moment;
	}
}

/** Counts a release of more than there was: then nothing is left. */
static uint64_t reserve(struct work *work, uint64_t row, uint64_t reserved)
{
	work->list->released_more += sign_of_row(work->tables, row) == VC_REPLAY_RELEASES &&
				     vc_replay_event_size(work->tables, row) > reserved;
	return vc_replay_reserve(work->tables, row, reserved);
}

/** Keeps what the event at a row did, where that is not what it says. */
static int note_exception(struct work *work, uint64_t row, uint64_t before)
{
	struct vc_replay *replay = work->replay;
	uint64_t said = vc_replay_change(work->tables, row);
	int error;

	if (work->bytes - before == said)
		return 0;
	error = grow(&replay->exceptions, &work->exception_capacity, replay->exception_count,
		     sizeof(*replay->exceptions));
	if (error)
		return error;
	replay->exceptions[replay->exception_count++] =
		(struct vc_replay_exception){row, work->bytes - before - said};
	return 0;
}

/** Runs the event at a row. *place moves along with those that have a place. */
static int run_event(struct work *work, uint64_t row, const uint32_t **place)
{
	enum vc_replay_sign sign = sign_of_row(work->tables, row);
	uint64_t before = work->bytes;
	int error = 0;

	work->list->impossible_sizes +=
		sign != VC_REPLAY_NONE &&
		vc_value(work->tables, VC_COL_trace_size, row) > VC_REPLAY_SIZE_MOST;
	look_at_time(work->list, vc_value(work->tables, VC_COL_trace_time_us, row));
	if (sign == VC_REPLAY_ALLOCATES)
		error = allocate(work, row, *(*place)++);
	else if (sign == VC_REPLAY_FREES)
		release(work, row, *(*place)++);
	return error ? error : note_exception(work, row, before);
}

static int run_events(struct work *work)
{
	struct vc_replay_list *list = work->list;
	const uint32_t *place = work->visits;
	uint64_t reserved = list->start_reserved;
	int error = 0;

	look_at_peaks(work, 0, reserved);
	for (uint64_t row = list->first; row < list->first + list->count && !error; row++) {
		if (row % VC_REPLAY_STRIDE == 0)
			work->replay->checks[row / VC_REPLAY_STRIDE] =
				(struct vc_replay_check){work->bytes, reserved};
		error = run_event(work, row, &place);
		reserved = reserve(work, row, reserved);
		look_at_peaks(work, row - list->first + 1, reserved);
	}
	list->end_bytes = work->bytes;
	list->end_blocks = work->blocks;
	list->window_end_bytes = work->window_bytes;
	list->window_end_blocks = work->window_blocks;
	return error;
}

/** Compares what the trace leaves with the blocks of the dump. */
static void compare_end(struct work *work)
{
	const struct vc_tables *tables = work->tables;
	struct vc_replay_list *list = work->list;
	const uint32_t *end = work->end;
	uint64_t found = 0;

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_blocks]; i++) {
		uint32_t *living;

		if (!is_active_block(work, i))
			continue;
		living = &work->living[*end++];
		if (*living & MATCHED)
			continue;
		*living |= MATCHED;
		if (*living == MATCHED) {
			list->freed_at_end++;
			continue;
		}
		found++;
		list->sizes_differ +=
			vc_value(tables, VC_COL_blocks_requested, i) !=
			vc_replay_life_size(tables,
					    &work->replay->lives[(*living & ~MATCHED) - 1]);
	}
	list->not_at_end += work->blocks - found;
}

static int run_list(struct work *work)
{
	struct vc_replay_list *list = work->list;
	int error;

	work->bytes = work->blocks = work->window_bytes = work->window_blocks = 0;
	work->visit_count = work->end_count = 0;
	list->time_monotonic = true;
	list->first_life = work->replay->life_count;
	find_reserved(work);
	error = find_places(work);
	if (!error)
		error = find_blocks(work);
	vc_places_deinit(&work->places); /* which were visited is known */
	if (!error)
		error = run_events(work);
	if (!error)
		compare_end(work);
	list->life_count = work->replay->life_count - list->first_life;
	vc_ordered_deinit(&work->live);
	return error;
}

/* ---- lists ---- */

static int find_lists(const struct vc_tables *tables, struct vc_replay *replay)
{
	uint64_t rows = tables->rows[VC_TABLE_trace];

	for (uint64_t row = 0; row < rows; row++) {
		uint64_t device = vc_value(tables, VC_COL_trace_device, row);
		struct vc_replay_list *lists;

		if (replay->list_count && replay->lists[replay->list_count - 1].device == device) {
			replay->lists[replay->list_count - 1].count++;
			continue;
		}
		if (replay->list_count == VC_REPLAY_LISTS_MOST)
			return VC_E_LIMIT;
		lists = realloc(replay->lists, (replay->list_count + 1) * sizeof(*lists));
		if (!lists)
			return VC_E_NO_MEMORY;
		replay->lists = lists;
		lists[replay->list_count++] =
			(struct vc_replay_list){.device = device, .first = row, .count = 1};
	}
	return 0;
}

/* ---- marks ---- */

static int add_mark(struct work *work, struct vc_replay_mark mark)
{
	struct vc_replay *replay = work->replay;

	int error = grow(&replay->marks, &work->mark_capacity, replay->mark_count,
			 sizeof(*replay->marks));

	if (!error)
		replay->marks[replay->mark_count++] = mark;
	return error;
}

static int find_event_marks(struct work *work, uint32_t number)
{
	const struct vc_tables *tables = work->tables;
	const struct vc_replay_list *list = &work->replay->lists[number];
	int error = 0;

	for (uint64_t row = list->first; row < list->first + list->count && !error; row++) {
		uint64_t action = vc_value(tables, VC_COL_trace_action, row);
		uint64_t detail = vc_value(tables, VC_COL_trace_detail, row);
		struct vc_replay_mark mark = {
			.kind = action == VC_TRACE_OOM ? VC_MARK_OOM :
				action == VC_TRACE_SNAPSHOT ? VC_MARK_SNAPSHOT : VC_MARK_USER,
			.list = number, .moment = row - list->first + 1, .row = row,
			.time_us = vc_value(tables, VC_COL_trace_time_us, row),
			.size = action == VC_TRACE_OOM ?
					vc_value(tables, VC_COL_trace_size, row) : 0,
			.name = "", .stage = "",
		};

		if (action != VC_TRACE_OOM && action != VC_TRACE_SNAPSHOT &&
		    action != VC_TRACE_ANNOTATE)
			continue;
		if (mark.kind == VC_MARK_USER && detail)
			mark.name = vc_string(tables, VC_COL_trace_details_metadata, detail - 1);
		error = add_mark(work, mark);
	}
	return error;
}

/** Marks of the table of annotations: placed by their time. */
static int find_annotations(struct work *work, uint32_t number)
{
	const struct vc_tables *tables = work->tables;
	const struct vc_replay_list *list = &work->replay->lists[number];
	int error = 0;

	if (!list->has_time)
		return 0;
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_annotations] && !error; i++) {
		uint64_t time = vc_value(tables, VC_COL_annotations_time_us, i);

		if (vc_value(tables, VC_COL_annotations_device, i) != list->device)
			continue;
		error = add_mark(work, (struct vc_replay_mark){
			.kind = VC_MARK_USER, .list = number, .row = VC_REPLAY_NEVER,
			.moment = vc_replay_moment_at(tables, list, time), .time_us = time,
			.name = vc_string(tables, VC_COL_annotations_name, i),
			.stage = vc_string(tables, VC_COL_annotations_stage, i),
		});
	}
	return error;
}

static int compare_marks(const void *a, const void *b)
{
	const struct vc_replay_mark *x = a, *y = b;

	if (x->list != y->list)
		return x->list < y->list ? -1 : 1;
	if (x->moment != y->moment)
		return x->moment < y->moment ? -1 : 1;
	return x->time_us < y->time_us ? -1 : x->time_us > y->time_us;
}

static int find_marks(struct work *work)
{
	struct vc_replay *replay = work->replay;
	int error = 0;

	for (uint32_t i = 0; i < replay->list_count && !error; i++) {
		error = find_event_marks(work, i);
		if (!error)
			error = find_annotations(work, i);
	}
	if (!error && replay->mark_count)
		qsort(replay->marks, replay->mark_count, sizeof(*replay->marks), compare_marks);
	return error;
}

int vc_replay_make(const struct vc_tables *tables, struct vc_replay *ret)
{
	struct vc_replay replay = {.tables = tables};
	struct work work = {.tables = tables, .replay = &replay, .places.tables = tables};
	uint64_t rows = tables->rows[VC_TABLE_trace];
	int error;

	if (rows + tables->rows[VC_TABLE_blocks] >= VC_REPLAY_ROWS_MOST)
		return VC_E_LIMIT;
	replay.checks = calloc(rows / VC_REPLAY_STRIDE + 1, sizeof(*replay.checks));
	error = replay.checks ? find_lists(tables, &replay) : VC_E_NO_MEMORY;
	for (uint32_t i = 0; i < replay.list_count && !error; i++) {
		work.list = &replay.lists[i];
		error = run_list(&work);
	}
	if (!error)
		error = find_marks(&work);
	free(work.living);
	free(work.visits);
	free(work.end);
	if (error)
		vc_replay_deinit(&replay);
	else
		*ret = replay;
	return error;
}
