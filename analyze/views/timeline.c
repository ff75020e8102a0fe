/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"

/* ---- the curve ---- */

uint64_t vc_timeline_curve(const struct vc_replay *replay, const struct vc_replay_list *list,
			   uint64_t most, struct vc_timeline_bucket *buckets)
{
	uint64_t moments = list->count + 1, count = moments < most ? moments : most;
	struct vc_replay_cursor cursor;

	vc_replay_cursor_init(replay, list, 0, &cursor);
	for (uint64_t i = 0; i < count; i++) {
		/* the first `extra` runs have one more */
		uint64_t length = moments / count, extra = moments % count;
		uint64_t first = i * length + (i < extra ? i : extra);
		struct vc_timeline_bucket bucket = {
			.first = first, .last = first + length - (i < extra ? 0 : 1)};

		for (uint64_t moment = bucket.first; moment <= bucket.last; moment++) {
			if (cursor.allocated > bucket.allocated)
				bucket.allocated = cursor.allocated;
			if (cursor.reserved > bucket.reserved)
				bucket.reserved = cursor.reserved;
			if (moment < list->count)
				vc_replay_cursor_step(replay, &cursor);
		}
		buckets[i] = bucket;
	}
	return count;
}

/* ---- steps by marks ---- */

static bool is_step_mark(const struct vc_replay_mark *mark, uint32_t list)
{
	return mark->kind == VC_MARK_USER && mark->list == list &&
	       ((!strncmp(mark->name, "Optimizer.step", 14) && !strcmp(mark->stage, "END")) ||
		(!strncmp(mark->name, "ProfilerStep", 12) && !strcmp(mark->stage, "START")));
}

static int by_marks(const struct vc_replay *replay, uint32_t list, struct vc_arena *arena,
		    struct vc_steps *ret)
{
	struct vc_steps steps = {.rule = VC_STEPS_MARKS};
	uint64_t count = 0;

	for (uint64_t i = 0; i < replay->mark_count; i++)
		count += is_step_mark(&replay->marks[i], list);
	if (count < 2)
		return 0;
	steps.boundaries = vc_arena_allocate(arena, count, sizeof(*steps.boundaries));
	if (!steps.boundaries)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < replay->mark_count; i++) {
		const struct vc_replay_mark *mark = &replay->marks[i];

		if (!is_step_mark(mark, list))
			continue;
		if (!steps.mark)
			steps.mark = mark->name;
		if (!steps.count || mark->moment > steps.boundaries[steps.count - 1])
			steps.boundaries[steps.count++] = mark->moment;
	}
	steps.witnesses = count;
	if (steps.count >= 2)
		*ret = steps;
	return 0;
}

/* ---- steps by period ---- */

/** Allocations that are alike: of the same stack and size. */
struct alike {
	uint64_t stack, size;
	uint64_t count, first, last;       /* events of the list */
	uint64_t least_gap, most_gap;      /* the first gap is left out: warming up differs */
};

/** Kinds of allocations. Of very many, which one run never has, only a share is looked at. */
struct alikes {
	struct alike *items;
	uint64_t count;
	uint64_t *index, index_size;
	unsigned thinned;                  /* times that about half were left out */
};

enum { ALIKES_MOST = 1 << 18, THINNED_MOST = 32 };

static uint64_t hash_alike(uint64_t stack, uint64_t size)
{
	uint64_t hash = (stack ^ size << 20 ^ size >> 44) * UINT64_C(0x9e3779b97f4a7c15);

	return hash ^ hash >> 32;
}

/** Whether a kind is left out: its hash does not begin with as many zeroes. */
static bool is_left_out(const struct alikes *alikes, uint64_t hash)
{
	return alikes->thinned && hash >> (64 - alikes->thinned);
}

/** Fills the index, which is empty. */
static void index_alikes(struct alikes *alikes)
{
	for (uint64_t i = 0; i < alikes->count; i++) {
		uint64_t slot = hash_alike(alikes->items[i].stack, alikes->items[i].size);

		for (slot &= alikes->index_size - 1; alikes->index[slot];
		     slot = (slot + 1) & (alikes->index_size - 1))
			;
		alikes->index[slot] = i + 1;
	}
}

static int grow_alikes(struct alikes *alikes)
{
	uint64_t size = alikes->index_size ? alikes->index_size * 2 : 1024;
	uint64_t *index = calloc(size, sizeof(*index));
	void *items = realloc(alikes->items, size / 2 * sizeof(*alikes->items));

	if (items)
		alikes->items = items;
	if (!index || !items) {
		free(index);
		return VC_E_NO_MEMORY;
	}
	free(alikes->index);
	alikes->index = index;
	alikes->index_size = size;
	index_alikes(alikes);
	return 0;
}

/** Leaves out about half of the kinds. */
static void thin_alikes(struct alikes *alikes)
{
	uint64_t count = 0;

	alikes->thinned++;
	for (uint64_t i = 0; i < alikes->count; i++)
		if (!is_left_out(alikes, hash_alike(alikes->items[i].stack, alikes->items[i].size)))
			alikes->items[count++] = alikes->items[i];
	alikes->count = count;
	memset(alikes->index, 0, alikes->index_size * sizeof(*alikes->index));
	index_alikes(alikes);
}

static int add_alike(struct alikes *alikes, uint64_t stack, uint64_t size, uint64_t event)
{
	uint64_t hash = hash_alike(stack, size), slot, gap;
	struct alike *alike;
	int error = 0;

	if (alikes->count == ALIKES_MOST && alikes->thinned < THINNED_MOST)
		thin_alikes(alikes);
	if (is_left_out(alikes, hash) || alikes->count == ALIKES_MOST)
		return 0;
	if (alikes->count * 2 >= alikes->index_size)
		error = grow_alikes(alikes);
	if (error)
		return error;
	slot = hash & (alikes->index_size - 1);
	while (alikes->index[slot] && (alikes->items[alikes->index[slot] - 1].stack != stack ||
				       alikes->items[alikes->index[slot] - 1].size != size))
		slot = (slot + 1) & (alikes->index_size - 1);
	if (!alikes->index[slot]) {
		alikes->items[alikes->count] = (struct alike){
			.stack = stack, .size = size, .first = event, .last = event, .count = 1,
			.least_gap = UINT64_MAX};
		alikes->index[slot] = ++alikes->count;
		return 0;
	}
	alike = &alikes->items[alikes->index[slot] - 1];
	gap = event - alike->last;
	if (alike->count > 1 && gap < alike->least_gap)
		alike->least_gap = gap;
	if (alike->count > 1 && gap > alike->most_gap)
		alike->most_gap = gap;
	alike->count++;
	alike->last = event;
	return 0;
}

/** At least three regular gaps, or two of four allocations, that cover half of the trace. */
static bool is_regular(const struct alike *alike, uint64_t events)
{
	enum { LEAST_COUNT = 4 };

	return alike->count >= LEAST_COUNT && alike->most_gap - alike->least_gap <=
						      alike->least_gap / 10 + 1 &&
	       alike->last - alike->first >= events / 2;
}

/**
 * The number of times that most kinds of allocations come back, at least three of them: once a
 * step. Those that come several times in a step do so at uneven distances, or fewer agree.
 */
static const struct alike *find_period(const struct alikes *alikes, uint64_t events,
				       struct vc_arena *arena, uint64_t *ret_witnesses)
{
	enum { TIMES_MOST = 1 << 16, WITNESSES_LEAST = 3 };
	uint64_t *votes = vc_arena_allocate(arena, TIMES_MOST, sizeof(*votes)), best = 0;
	const struct alike *found = NULL;

	for (uint64_t i = 0; votes && i < alikes->count; i++) {
		const struct alike *alike = &alikes->items[i];

		if (alike->count < TIMES_MOST && is_regular(alike, events) &&
		    ++votes[alike->count] > votes[best])
			best = alike->count;
	}
	if (!best || votes[best] < WITNESSES_LEAST)
		return NULL;
	for (uint64_t i = 0; i < alikes->count; i++) {
		const struct alike *alike = &alikes->items[i];

		if (alike->count == best && is_regular(alike, events) &&
		    (!found || alike->first < found->first))
			found = alike;
	}
	*ret_witnesses = votes[best];
	return found;
}

static int count_alikes(const struct vc_tables *tables, const struct vc_replay_list *list,
			struct alikes *alikes)
{
	int error = 0;

	for (uint64_t i = 0; i < list->count && !error; i++) {
		uint64_t row = list->first + i, stack = vc_value(tables, VC_COL_trace_stack, row);

		if (stack && vc_value(tables, VC_COL_trace_action, row) == VC_TRACE_ALLOC)
			error = add_alike(alikes, stack, vc_replay_event_size(tables, row), i);
	}
	return error;
}

static int by_period(const struct vc_tables *tables, const struct vc_replay_list *list,
		     struct vc_arena *arena, struct vc_steps *ret)
{
	struct alikes alikes = {0};
	struct vc_steps steps = {.rule = VC_STEPS_PERIOD};
	const struct alike *period = NULL;
	int error = count_alikes(tables, list, &alikes);

	if (!error)
		period = find_period(&alikes, list->count, arena, &steps.witnesses);
	if (period) {
		steps.boundaries =
			vc_arena_allocate(arena, period->count, sizeof(*steps.boundaries));
		error = steps.boundaries ? 0 : VC_E_NO_MEMORY;
	}
	for (uint64_t i = period ? period->first : list->count; i < list->count && !error; i++) {
		uint64_t row = list->first + i;

		if (vc_value(tables, VC_COL_trace_action, row) == VC_TRACE_ALLOC &&
		    vc_value(tables, VC_COL_trace_stack, row) == period->stack &&
		    vc_replay_event_size(tables, row) == period->size)
			steps.boundaries[steps.count++] = i; /* before that event */
	}
	if (!error && period)
		*ret = steps;
	free(alikes.items);
	free(alikes.index);
	return error;
}

int vc_steps_find(const struct vc_tables *tables, const struct vc_replay *replay, uint32_t list,
		  struct vc_arena *arena, struct vc_steps *ret)
{
	struct vc_steps steps = {0};
	int error = by_marks(replay, list, arena, &steps);

	if (!error && steps.rule == VC_STEPS_NONE)
		error = by_period(tables, &replay->lists[list], arena, &steps);
	if (!error)
		*ret = steps;
	return error;
}

/* ---- lifetimes ---- */

/** How many steps have begun at a moment. */
static uint64_t steps_begun(const struct vc_steps *steps, uint64_t moment)
{
	uint64_t low = 0, high = steps->count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (steps->boundaries[middle] <= moment)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void vc_lifetimes_make(const struct vc_tables *tables, const struct vc_replay *replay,
		       const struct vc_replay_list *list, const struct vc_steps *steps,
		       struct vc_lifetimes *ret)
{
	struct vc_lifetimes sums = {0};

	for (uint64_t i = list->first_life; i < list->first_life + list->life_count; i++) {
		const struct vc_replay_life *life = &replay->lives[i];
		uint64_t size = vc_replay_life_size(tables, life);
		bool kept = life->died == VC_REPLAY_NEVER;

		if (life->born == VC_REPLAY_BEFORE) {
			*(kept ? &sums.prior_kept : &sums.prior_freed) += 1;
			*(kept ? &sums.prior_kept_bytes : &sums.prior_freed_bytes) += size;
			continue;
		}
		*(kept ? &sums.never_freed : &sums.freed) += 1;
		*(kept ? &sums.never_freed_bytes : &sums.freed_bytes) += size;
		if (kept || !steps->count)
			continue;
		if (steps_begun(steps, life->born - list->first) ==
		    steps_begun(steps, life->died - list->first)) {
			sums.within_step++;
			sums.within_step_bytes += size;
		} else {
			sums.longer++;
			sums.longer_bytes += size;
		}
	}
	*ret = sums;
}
