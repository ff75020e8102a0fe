/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/replay.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/views/ordered.h"

/** One address of a list. Sorted by address, its position is the rank that `live` knows it by. */
struct place {
	uint64_t address;
	uint64_t first_event;  /* row of trace plus 1 that allocates or frees there; 0 none */
	uint64_t block;        /* row of blocks plus 1 that is active at the end; 0 none */
	uint64_t life;         /* of all lives, plus 1: what lives there now; 0 nothing */
};

struct work {
	const struct vc_tables *tables;
	struct vc_replay *replay;
	struct vc_replay_list *list;
	struct place *places;
	uint64_t place_count, place_capacity;
	uint64_t *index, index_size;    /* place plus 1, by address */
	struct vc_ordered live;         /* ranks of places in use */
	uint64_t life_capacity, mark_capacity;
	uint64_t bytes, blocks, window_bytes, window_blocks;
};

/* ---- rows ---- */

enum vc_replay_sign vc_replay_sign_of(uint64_t action)
{
	static const uint8_t sign[] = {
#define VC_TRACE_ACTION(name, number, text, effect) [number] = VC_REPLAY_##effect,
#include "formats/trace_actions.def"
#undef VC_TRACE_ACTION
	};

	return action < sizeof(sign) ? (enum vc_replay_sign)sign[action] : VC_REPLAY_NONE;
}

static uint64_t possible(uint64_t size)
{
	return size > VC_REPLAY_SIZE_MOST ? 0 : size;
}

uint64_t vc_replay_event_size(const struct vc_tables *tables, uint64_t row)
{
	return possible(vc_value(tables, VC_COL_trace_size, row));
}

static enum vc_replay_sign sign_of_row(const struct vc_tables *tables, uint64_t row)
{
	return vc_replay_sign_of(vc_value(tables, VC_COL_trace_action, row));
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

static uint64_t hash_of(uint64_t address)
{
	address *= UINT64_C(0x9e3779b97f4a7c15);
	return address ^ address >> 32;
}

static int grow_index(struct work *work)
{
	uint64_t size = work->index_size ? work->index_size * 2 : 1024;
	uint64_t *index = calloc(size, sizeof(*index));

	if (!index)
		return VC_E_NO_MEMORY;
	free(work->index);
	work->index = index;
	work->index_size = size;
	for (uint64_t i = 0; i < work->place_count; i++) {
		uint64_t slot = hash_of(work->places[i].address) & (size - 1);

		while (index[slot])
			slot = (slot + 1) & (size - 1);
		index[slot] = i + 1;
	}
	return 0;
}

/** Slot of the index that has the address or is empty. */
static uint64_t find_slot(const struct work *work, uint64_t address)
{
	uint64_t slot = hash_of(address) & (work->index_size - 1);

	while (work->index[slot] && work->places[work->index[slot] - 1].address != address)
		slot = (slot + 1) & (work->index_size - 1);
	return slot;
}

/** The place of an address, made where there is none. Valid until the next one is made. */
static int touch_place(struct work *work, uint64_t address, struct place **ret)
{
	uint64_t slot;
	int error = work->place_count * 2 >= work->index_size ? grow_index(work) : 0;

	if (error)
		return error;
	slot = find_slot(work, address);
	if (!work->index[slot]) {
		if (work->place_count == work->place_capacity) {
			uint64_t capacity = work->place_capacity ? work->place_capacity * 2 : 512;
			void *places = realloc(work->places, capacity * sizeof(*work->places));

			if (!places)
				return VC_E_NO_MEMORY;
			work->places = places;
			work->place_capacity = capacity;
		}
		work->places[work->place_count++] = (struct place){.address = address};
		work->index[slot] = work->place_count;
	}
	*ret = &work->places[work->index[slot] - 1];
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/** All addresses of the list, sorted; the index finds their ranks. */
static int find_places(struct work *work)
{
	const struct vc_replay_list *list = work->list;
	struct place *place;
	int error = 0;

	work->place_count = 0;
	if (work->index)
		memset(work->index, 0, work->index_size * sizeof(*work->index));
	for (uint64_t row = list->first; row < list->first + list->count && !error; row++) {
		enum vc_replay_sign sign = sign_of_row(work->tables, row);

		if (sign != VC_REPLAY_ALLOCATES && sign != VC_REPLAY_FREES)
			continue;
		error = touch_place(work, vc_value(work->tables, VC_COL_trace_address, row),
				    &place);
		if (!error && !place->first_event)
			place->first_event = row + 1;
	}
	for (uint64_t i = 0; i < work->tables->rows[VC_TABLE_blocks] && !error; i++) {
		if (!is_active_block(work, i))
			continue;
		error = touch_place(work, vc_value(work->tables, VC_COL_blocks_address, i), &place);
		if (!error)
			place->block = i + 1;
	}
	if (error || !work->place_count)
		return error;
	qsort(work->places, work->place_count, sizeof(*work->places), compare_places);
	memset(work->index, 0, work->index_size * sizeof(*work->index));
	for (uint64_t i = 0; i < work->place_count; i++)
		work->index[find_slot(work, work->places[i].address)] = i + 1;
	return 0;
}

/* ---- lives ---- */

static int add_life(struct work *work, struct vc_replay_life life, uint64_t rank)
{
	struct vc_replay *replay = work->replay;

	if (replay->life_count == work->life_capacity) {
		uint64_t capacity = work->life_capacity ? work->life_capacity * 2 : 1024;
		void *lives = realloc(replay->lives, capacity * sizeof(*replay->lives));

		if (!lives)
			return VC_E_NO_MEMORY;
		replay->lives = lives;
		work->life_capacity = capacity;
	}
	replay->lives[replay->life_count++] = life;
	work->places[rank].life = replay->life_count;
	vc_ordered_add(&work->live, rank);
	work->bytes += vc_replay_life_size(work->tables, &life);
	work->blocks++;
	return 0;
}

static void end_life(struct work *work, uint64_t rank, uint64_t row)
{
	struct vc_replay_life *life = &work->replay->lives[work->places[rank].life - 1];
	uint64_t size = vc_replay_life_size(work->tables, life);

	work->bytes -= size;
	work->blocks--;
	if (life->born != VC_REPLAY_BEFORE) {
		work->window_bytes -= size;
		work->window_blocks--;
	}
	life->died = row;
	work->places[rank].life = 0;
	vc_ordered_remove(&work->live, rank);
}

/** What was live when the trace began: its blocks die in it, or have no event. */
static int add_prior(struct work *work)
{
	int error = 0;

	for (uint64_t rank = 0; rank < work->place_count && !error; rank++) {
		const struct place *place = &work->places[rank];
		struct vc_replay_life life = {.born = VC_REPLAY_BEFORE, .died = VC_REPLAY_NEVER};

		if (!place->first_event)
			life.block = place->block;
		else if (sign_of_row(work->tables, place->first_event - 1) == VC_REPLAY_FREES)
			life.died = place->first_event - 1; /* end_life sets the same */
		else
			continue;
		error = add_life(work, life, rank);
	}
	work->list->prior_bytes = work->bytes;
	work->list->prior_blocks = work->blocks;
	return error;
}

/** Whether a new block overlaps its neighbours. */
static bool overlaps(const struct work *work, uint64_t rank, uint64_t size)
{
	uint64_t address = work->places[rank].address;
	uint64_t before = vc_ordered_before(&work->live, rank);
	uint64_t after = vc_ordered_after(&work->live, rank);

	if (!size)
		return false;
	if (after != UINT64_MAX && work->places[after].address - address < size)
		return true;
	return before != UINT64_MAX &&
	       address - work->places[before].address <
		       vc_replay_life_size(work->tables,
					   &work->replay->lives[work->places[before].life - 1]);
}

static int allocate(struct work *work, uint64_t row)
{
	uint64_t address = vc_value(work->tables, VC_COL_trace_address, row);
	uint64_t rank = work->index[find_slot(work, address)] - 1;
	uint64_t size = vc_replay_event_size(work->tables, row);

	if (work->places[rank].life) {
		work->list->double_allocations++;
		end_life(work, rank, row);
	} else if (overlaps(work, rank, size)) {
		work->list->overlaps++;
	}
	work->window_bytes += size;
	work->window_blocks++;
	return add_life(work, (struct vc_replay_life){.born = row, .died = VC_REPLAY_NEVER}, rank);
}

static void release(struct work *work, uint64_t row)
{
	uint64_t address = vc_value(work->tables, VC_COL_trace_address, row);
	uint64_t rank = work->index[find_slot(work, address)] - 1;
	uint64_t life = work->places[rank].life;

	if (!life) {
		work->list->double_frees++;
		return;
	}
	if (work->replay->lives[life - 1].born == VC_REPLAY_BEFORE)
		work->list->prior_frees++;
	end_life(work, rank, row);
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

/** What one event does to the reserved bytes. */
static uint64_t reserve(struct work *work, uint64_t row, uint64_t reserved)
{
	enum vc_replay_sign sign = sign_of_row(work->tables, row);
	uint64_t size = vc_replay_event_size(work->tables, row);

	if (sign == VC_REPLAY_RESERVES)
		return reserved + size;
	if (sign != VC_REPLAY_RELEASES)
		return reserved;
	if (size > reserved) {
		work->list->released_more++;
		return 0;
	}
	return reserved - size;
}

static int run_events(struct work *work)
{
	struct vc_replay_list *list = work->list;
	uint64_t reserved = list->start_reserved;
	int error = 0;

	look_at_peaks(work, 0, reserved);
	for (uint64_t row = list->first; row < list->first + list->count && !error; row++) {
		enum vc_replay_sign sign = sign_of_row(work->tables, row);

		list->impossible_sizes += sign != VC_REPLAY_NONE &&
			vc_value(work->tables, VC_COL_trace_size, row) > VC_REPLAY_SIZE_MOST;
		look_at_time(list, vc_value(work->tables, VC_COL_trace_time_us, row));
		if (sign == VC_REPLAY_ALLOCATES)
			error = allocate(work, row);
		else if (sign == VC_REPLAY_FREES)
			release(work, row);
		reserved = reserve(work, row, reserved);
		work->replay->allocated[row] = work->bytes;
		work->replay->reserved[row] = reserved;
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

	for (uint64_t rank = 0; rank < work->place_count; rank++) {
		const struct place *place = &work->places[rank];

		if (!place->life) {
			list->freed_at_end += place->block != 0;
			continue;
		}
		if (!place->block) {
			list->not_at_end++;
			continue;
		}
		list->sizes_differ +=
			vc_value(tables, VC_COL_blocks_requested, place->block - 1) !=
			vc_replay_life_size(tables, &work->replay->lives[place->life - 1]);
	}
}

static int run_list(struct work *work)
{
	struct vc_replay_list *list = work->list;
	int error = find_places(work);

	if (!error)
		error = vc_ordered_init(&work->live, work->place_count);
	if (error)
		return error;
	work->bytes = work->blocks = work->window_bytes = work->window_blocks = 0;
	list->time_monotonic = true;
	list->first_life = work->replay->life_count;
	find_reserved(work);
	error = add_prior(work);
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

	if (replay->mark_count == work->mark_capacity) {
		uint64_t capacity = work->mark_capacity ? work->mark_capacity * 2 : 32;
		void *marks = realloc(replay->marks, capacity * sizeof(*replay->marks));

		if (!marks)
			return VC_E_NO_MEMORY;
		replay->marks = marks;
		work->mark_capacity = capacity;
	}
	replay->marks[replay->mark_count++] = mark;
	return 0;
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
	struct vc_replay replay = {0};
	struct work work = {.tables = tables, .replay = &replay};
	uint64_t rows = tables->rows[VC_TABLE_trace];
	int error;

	replay.allocated = calloc(rows ? rows : 1, sizeof(*replay.allocated));
	replay.reserved = calloc(rows ? rows : 1, sizeof(*replay.reserved));
	error = replay.allocated && replay.reserved ? find_lists(tables, &replay) : VC_E_NO_MEMORY;
	for (uint32_t i = 0; i < replay.list_count && !error; i++) {
		work.list = &replay.lists[i];
		error = run_list(&work);
	}
	if (!error)
		error = find_marks(&work);
	free(work.places);
	free(work.index);
	if (error)
		vc_replay_deinit(&replay);
	else
		*ret = replay;
	return error;
}

void vc_replay_deinit(struct vc_replay *replay)
{
	free(replay->lists);
	free(replay->lives);
	free(replay->allocated);
	free(replay->reserved);
	free(replay->marks);
	*replay = (struct vc_replay){0};
}

/* ---- asking ---- */

uint64_t vc_replay_allocated(const struct vc_replay *replay, const struct vc_replay_list *list,
			     uint64_t moment)
{
	return moment ? replay->allocated[list->first + moment - 1] : list->prior_bytes;
}

uint64_t vc_replay_reserved(const struct vc_replay *replay, const struct vc_replay_list *list,
			    uint64_t moment)
{
	return moment ? replay->reserved[list->first + moment - 1] : list->start_reserved;
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
