/* SPDX-License-Identifier: Apache-2.0 */
/* A trace replayed, by hand-made tables: every number is worked out here by hand. */
#include "tests/unit/analyze/cmocka.h"

#include <string.h>

#include "analyze/model.h"
#include "analyze/views/map.h"
#include "analyze/views/ordered.h"
#include "analyze/views/replay_state.h"
#include "analyze/views/timeline.h"
#include "tests/unit/analyze/builder.h"

static struct vc_tables tables;
static struct vc_replay replay;

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(vc_tables_init(&tables), 0);
	build_process(&tables, UINT64_MAX, "", 0, 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vc_replay_deinit(&replay);
	vc_tables_deinit(&tables);
	return 0;
}

static uint64_t segment(uint64_t device, uint64_t address, uint64_t size)
{
	uint64_t row = build_row(&tables, VC_TABLE_segments);

	build_set(&tables, VC_COL_segments_device, row, device);
	build_set(&tables, VC_COL_segments_address, row, address);
	build_set(&tables, VC_COL_segments_total_size, row, size);
	return row + 1;
}

static void block(uint64_t in, uint64_t address, uint64_t requested)
{
	uint64_t row = build_row(&tables, VC_TABLE_blocks);

	build_set(&tables, VC_COL_blocks_segment, row, in);
	build_set(&tables, VC_COL_blocks_address, row, address);
	build_set(&tables, VC_COL_blocks_size, row, requested);
	build_set(&tables, VC_COL_blocks_requested, row, requested);
	build_text(&tables, VC_COL_blocks_state, row, "active_allocated");
}

static uint64_t event(uint64_t device, enum vc_trace_action action, uint64_t address,
		      uint64_t size)
{
	uint64_t row = build_row(&tables, VC_TABLE_trace);

	build_set(&tables, VC_COL_trace_device, row, device);
	build_set(&tables, VC_COL_trace_action, row, action);
	build_set(&tables, VC_COL_trace_address, row, address);
	build_set(&tables, VC_COL_trace_size, row, size);
	build_set(&tables, VC_COL_trace_time_us, row, 1000000 + row * 10);
	return row;
}

static const struct vc_replay_list *make(void)
{
	assert_int_equal(vc_replay_make(&tables, &replay), 0);
	assert_true(replay.list_count > 0);
	return &replay.lists[0];
}

static void no_faults(const struct vc_replay_list *list)
{
	assert_int_equal(vc_replay_fault_count(list), 0);
}

static void test_whole_run(void **state)
{
	const struct vc_replay_list *list;

	(void)state;
	block(segment(0, 0x1000, 4096), 0x1400, 50);
	event(0, VC_TRACE_SEGMENT_ALLOC, 0x1000, 4096);
	event(0, VC_TRACE_ALLOC, 0x1000, 100);
	event(0, VC_TRACE_ALLOC, 0x1200, 200); /* 300: the peak, moment 3 */
	event(0, VC_TRACE_FREE_REQUESTED, 0x1000, 100);
	event(0, VC_TRACE_FREE_COMPLETED, 0x1000, 100);
	event(0, VC_TRACE_ALLOC, 0x1400, 50); /* 250 */
	event(0, VC_TRACE_FREE_COMPLETED, 0x1200, 200);
	list = make();
	no_faults(list);
	assert_int_equal(list->count, 7);
	assert_int_equal(list->peak, 300);
	assert_int_equal(list->peak_moment, 3);
	assert_int_equal(list->window_peak, 300);
	assert_int_equal(list->end_bytes, 50);
	assert_int_equal(list->end_blocks, 1);
	assert_int_equal(list->prior_blocks, 0);
	assert_int_equal(list->reserved_net, 4096);
	assert_int_equal(list->start_reserved, 0);
	assert_false(vc_replay_began_late(list));
	assert_true(list->time_monotonic);
	assert_int_equal(list->last_time - list->first_time, 60);
	assert_int_equal(vc_replay_allocated(&replay, list, 0), 0);
	assert_int_equal(vc_replay_allocated(&replay, list, 4), 300); /* not yet completed */
	assert_int_equal(vc_replay_allocated(&replay, list, 5), 200);
	assert_int_equal(vc_replay_reserved(&replay, list, 0), 0);
	assert_int_equal(vc_replay_reserved(&replay, list, 1), 4096);
	assert_int_equal(list->life_count, 3);
	assert_int_equal(replay.lives[0].died, 4);
	assert_int_equal(replay.lives[1].died, 6);
	assert_true(replay.lives[2].died == VC_REPLAY_NEVER);
	assert_int_equal(vc_replay_moment_at(&tables, list, 1000019), 2);
	assert_int_equal(vc_replay_moment_at(&tables, list, 999999), 0);
}

/* 70 at 0x1000 dies in the trace, 30 at 0x1100 is there at the end, both from before. */
static void test_began_late(void **state)
{
	const struct vc_replay_list *list;
	uint64_t in = segment(0, 0x1000, 4096);

	(void)state;
	block(in, 0x1100, 30);
	block(in, 0x1200, 5);
	event(0, VC_TRACE_ALLOC, 0x1200, 5);
	event(0, VC_TRACE_FREE_COMPLETED, 0x1000, 70);
	event(0, VC_TRACE_ALLOC, 0x1000, 60);
	event(0, VC_TRACE_FREE_COMPLETED, 0x1000, 60);
	list = make();
	no_faults(list);
	assert_true(vc_replay_began_late(list));
	assert_int_equal(list->prior_bytes, 100);
	assert_int_equal(list->prior_blocks, 2);
	assert_int_equal(list->prior_frees, 1);
	assert_int_equal(list->peak, 105);
	assert_int_equal(list->peak_moment, 1);
	assert_int_equal(list->window_peak, 65); /* 5 + 60, nothing before */
	assert_int_equal(list->window_peak_moment, 3);
	assert_int_equal(list->end_bytes, 35);
	assert_int_equal(list->window_end_bytes, 5);
	assert_int_equal(list->start_reserved, 4096);
}

static void test_contradictions(void **state)
{
	const struct vc_replay_list *list;
	uint64_t in = segment(0, 0x1000, 4096);

	(void)state;
	block(in, 0x1000, 99);  /* the trace says 20: a size that differs */
	block(in, 0x1200, 8);   /* the trace frees it */
	event(0, VC_TRACE_ALLOC, 0x1000, 10);
	event(0, VC_TRACE_ALLOC, 0x1000, 20);          /* again */
	event(0, VC_TRACE_ALLOC, 0x1010, 4);           /* in the middle of it: 0x1000 + 20 */
	event(0, VC_TRACE_ALLOC, 0x0ff8, 16);          /* reaches into it */
	event(0, VC_TRACE_FREE_COMPLETED, 0x0ff8, 16);
	event(0, VC_TRACE_FREE_COMPLETED, 0x0ff8, 16); /* again */
	event(0, VC_TRACE_ALLOC, 0x1200, 8);
	event(0, VC_TRACE_FREE_COMPLETED, 0x1200, 8);
	event(0, VC_TRACE_ALLOC, 0x2000, UINT64_MAX);
	event(0, VC_TRACE_SEGMENT_FREE, 0x9000, UINT64_C(1) << 40);
	event(0, VC_TRACE_SEGMENT_ALLOC, 0x9000, 4097 + (UINT64_C(1) << 40));
	list = make();
	assert_int_equal(list->double_allocations, 1);
	assert_int_equal(list->overlaps, 2);
	assert_int_equal(list->double_frees, 1);
	assert_int_equal(list->sizes_differ, 1);
	assert_int_equal(list->freed_at_end, 1);
	assert_int_equal(list->not_at_end, 2); /* 0x1010, 0x2000 */
	assert_int_equal(list->impossible_sizes, 1);
	assert_int_equal(list->released_more, 2); /* net 4097 of 4096, and from nothing */
	assert_int_equal(list->end_bytes, 24);
	assert_int_equal(list->peak, 40); /* 20 + 4 + 16 */
}

static void test_devices(void **state)
{
	(void)state;
	segment(0, 0x1000, 100);
	segment(1, 0x1000, 200);
	event(0, VC_TRACE_ALLOC, 0x1000, 1);
	event(1, VC_TRACE_ALLOC, 0x1000, 2); /* the same address, another device */
	event(1, VC_TRACE_OOM, 0, 77);
	event(1, VC_TRACE_SNAPSHOT, 0, 0);
	event(VC_REPLAY_HOST, VC_TRACE_ALLOC, 0x1000, 4);
	assert_int_equal(vc_replay_make(&tables, &replay), 0);
	assert_int_equal(replay.list_count, 3);
	assert_int_equal(replay.lists[0].peak, 1);
	assert_int_equal(replay.lists[1].peak, 2);
	assert_int_equal(replay.lists[1].end_reserved, 200);
	assert_int_equal(replay.lists[2].peak, 4);
	assert_int_equal(replay.mark_count, 2);
	assert_int_equal(replay.marks[0].kind, VC_MARK_OOM);
	assert_int_equal(replay.marks[0].size, 77);
	assert_int_equal(replay.marks[0].moment, 2);
	assert_int_equal(replay.marks[1].kind, VC_MARK_SNAPSHOT);
}

static void test_no_trace(void **state)
{
	(void)state;
	assert_int_equal(vc_replay_make(&tables, &replay), 0);
	assert_int_equal(replay.list_count, 0);
}

static void test_when(void **state)
{
	struct vc_replay_when when;
	static const char *const bad[] = {"", "peak:1", "oom:", "oom:x", "oom:0", "event", "event:-1",
					  "event:1x", "time:", "time:x", "time:1.2.3", "mark:",
					  "peaks", "time:99999999999999999999999999"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_int_equal(vc_replay_when_parse(bad[i], &when), VC_E_INVALID);
	assert_int_equal(vc_replay_when_parse("time:1.25", &when), 0);
	assert_int_equal(when.number, 1250000);
	assert_int_equal(vc_replay_when_parse("oom", &when), 0);
	assert_int_equal(when.number, 1);
	assert_int_equal(vc_replay_when_parse("mark:a:b", &when), 0);
	assert_string_equal(when.name, "a:b");
	assert_int_equal(vc_replay_when_parse("event:0", &when), 0);
	assert_int_equal(when.number, 0);
}

static uint64_t find(const char *text, uint64_t device, uint32_t list)
{
	uint64_t moments[VC_REPLAY_LISTS_MOST], count;
	enum vc_replay_missing missing;
	struct vc_replay_when when;

	assert_int_equal(vc_replay_when_parse(text, &when), 0);
	if (vc_replay_find(&tables, &replay, &when, device, moments, &missing, &count))
		return UINT64_MAX - missing;
	return moments[list];
}

static void test_find(void **state)
{
	(void)state;
	event(0, VC_TRACE_ALLOC, 0x1000, 1);          /* at 1000000 */
	event(0, VC_TRACE_ALLOC, 0x2000, 1);
	event(0, VC_TRACE_FREE_COMPLETED, 0x2000, 1); /* 1000020 */
	event(1, VC_TRACE_ALLOC, 0x1000, 2);          /* 1000030 */
	event(1, VC_TRACE_OOM, 0, 77);                /* 1000040 */
	event(1, VC_TRACE_ALLOC, 0x3000, 2);
	build_set(&tables, VC_COL_trace_time_us, 0, 1000035);
	build_set(&tables, VC_COL_trace_time_us, 1, 1000041);
	build_set(&tables, VC_COL_trace_time_us, 2, 1000041);
	assert_int_equal(vc_replay_make(&tables, &replay), 0);
	assert_int_equal(find("peak", UINT64_MAX, 0), 2);
	assert_int_equal(find("peak", UINT64_MAX, 1), 3);
	assert_int_equal(find("oom", UINT64_MAX, 1), 2);
	assert_int_equal(find("oom", UINT64_MAX, 0), 1); /* the other one at that time */
	assert_true(find("oom:2", UINT64_MAX, 0) == UINT64_MAX - VC_MISSING_MARK);
	assert_true(find("event:0", UINT64_MAX, 0) == UINT64_MAX - VC_MISSING_DEVICE);
	assert_int_equal(find("event:1", 1, 1), 2);
	assert_true(find("event:3", 1, 0) == UINT64_MAX - VC_MISSING_EVENT);
	assert_int_equal(find("time:0.00001", UINT64_MAX, 1), 2); /* 1000030 + 10 */
	assert_int_equal(find("time:0.00001", UINT64_MAX, 0), 1);
	assert_true(find("mark:x", UINT64_MAX, 0) == UINT64_MAX - VC_MISSING_MARK);
}

static uint64_t live_of_kind(uint64_t kind, uint64_t *ret_bytes)
{
	uint64_t count = 0;

	*ret_bytes = 0;
	for (uint64_t i = 0; i < tables.rows[VC_TABLE_allocations]; i++) {
		if (vc_value(&tables, VC_COL_allocations_kind, i) != kind)
			continue;
		count++;
		*ret_bytes += vc_value(&tables, VC_COL_allocations_size, i);
	}
	return count;
}

/* A segment of 4,096 that grew by mapping 4,096 more behind it, of which 1,024 in its middle were
 * unmapped, and one of 512 that is gone. */
static void test_apply(void **state)
{
	uint64_t moments[1] = {3}, bytes;
	uint64_t in = segment(0, 0x1000, 0x1800);

	(void)state;
	segment(0, 0x2c00, 0x400);
	block(in, 0x1000, 10);
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .address = 0x1000, .size = 0x1800, .device_plus_one = 1,
		.birth = 1});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .address = 0x1000, .size = 9, .device_plus_one = 2,
		.birth = 7});
	build_row(&tables, VC_TABLE_source_stacks);
	build_row(&tables, VC_TABLE_source_stacks);
	build_set(&tables, VC_COL_trace_stack, event(0, VC_TRACE_SEGMENT_ALLOC, 0x9000, 512), 2);
	event(0, VC_TRACE_SEGMENT_MAP, 0x2000, 0x1000);
	event(0, VC_TRACE_ALLOC, 0x2700, 0x200);           /* moment 3: here */
	event(0, VC_TRACE_FREE_COMPLETED, 0x2700, 0x200);
	event(0, VC_TRACE_SEGMENT_UNMAP, 0x2800, 0x400);
	event(0, VC_TRACE_SEGMENT_FREE, 0x9000, 512);
	no_faults(make());
	assert_int_equal(replay.lists[0].start_reserved, 0x1000);
	assert_int_equal(vc_replay_apply(&tables, &replay, moments, "at test"), 0);
	/* 0x1000..0x2800 and 0x2c00..0x3000 as at the end, 0x2800..0x2c00 and 0x9000 put back,
	 * and the other device's */
	assert_int_equal(live_of_kind(VC_KIND_LINEAR, &bytes), 5);
	assert_int_equal(bytes, 0x1800 + 0x400 + 0x400 + 512 + 9);
	assert_int_equal(bytes - 9, vc_replay_reserved(&replay, &replay.lists[0], 3));
	for (uint64_t i = 0; i < tables.rows[VC_TABLE_allocations]; i++) /* the one that is gone */
		assert_int_equal(vc_value(&tables, VC_COL_allocations_python, i),
				 vc_value(&tables, VC_COL_allocations_address, i) == 0x9000 ? 2 : 0);
	assert_int_equal(live_of_kind(VC_KIND_BLOCK, &bytes), 2);
	assert_int_equal(bytes, 10 + 0x200);
	assert_string_equal(vc_string(&tables, VC_COL_process_moment, 0), "at test");
	assert_int_equal(vc_value(&tables, VC_COL_process_snapshot_time, 0), 1000020000);
	/* and before anything: the mapped part is away, cut off its segment */
	moments[0] = 0;
	assert_int_equal(vc_replay_apply(&tables, &replay, moments, "at test"), 0);
	assert_int_equal(live_of_kind(VC_KIND_LINEAR, &bytes), 2);
	assert_int_equal(bytes, 0x1000 + 9);
}

static void test_curve(void **state)
{
	struct vc_timeline_bucket buckets[4];
	const struct vc_replay_list *list;

	(void)state;
	for (uint64_t i = 0; i < 5; i++) /* moments 0 to 5: 0 1 3 6 10 15 */
		event(0, VC_TRACE_ALLOC, 0x1000 * (i + 1), i + 1);
	list = make();
	assert_int_equal(vc_timeline_curve(&replay, list, 4, buckets), 4);
	assert_int_equal(buckets[0].last, 1);
	assert_int_equal(buckets[0].allocated, 1);
	assert_int_equal(buckets[1].first, 2);
	assert_int_equal(buckets[1].allocated, 6);
	assert_int_equal(buckets[2].first, 4);
	assert_int_equal(buckets[2].allocated, 10);
	assert_int_equal(buckets[3].last, 5);
	assert_int_equal(buckets[3].allocated, 15);
	assert_int_equal(vc_timeline_curve(&replay, list, 1, buckets), 1);
	assert_int_equal(buckets[0].allocated, 15);
}

/* Six steps of eleven events: three kinds of blocks once a step, one kind twice at uneven
 * distances, the second of which lives into the next step. */
static void test_steps(void **state)
{
	struct vc_lifetimes lives;
	struct vc_arena arena = {0};
	struct vc_steps steps;
	const struct vc_replay_list *list;

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		build_row(&tables, VC_TABLE_source_stacks);
	for (uint64_t step = 0; step < 6; step++) {
		for (uint64_t kind = 1; kind <= 5; kind++) {
			uint64_t row = event(0, VC_TRACE_ALLOC, 0x10000 * kind, kind * 10);

			build_set(&tables, VC_COL_trace_stack, row, kind == 5 ? 4 : kind);
			if (kind == 4)
				build_set(&tables, VC_COL_trace_size, row, 50);
			if (kind == 1 && step) /* of the step before */
				event(0, VC_TRACE_FREE_COMPLETED, 0x50000, 50);
		}
		for (uint64_t kind = 1; kind <= 4; kind++)
			event(0, VC_TRACE_FREE_COMPLETED, 0x10000 * kind, 0);
		event(0, VC_TRACE_FREE_REQUESTED, 0x50000, 50);
	}
	list = make();
	assert_int_equal(vc_steps_find(&tables, &replay, 0, &arena, &steps), 0);
	assert_int_equal(steps.rule, VC_STEPS_PERIOD);
	assert_int_equal(steps.witnesses, 3);
	assert_int_equal(steps.count, 6);
	for (uint64_t i = 0; i < 6; i++)
		assert_int_equal(steps.boundaries[i], i ? 11 * i - 1 : 0);
	vc_lifetimes_make(&tables, &replay, list, &steps, &lives);
	assert_int_equal(lives.never_freed, 1);
	assert_int_equal(lives.never_freed_bytes, 50);
	assert_int_equal(lives.freed, 29);
	assert_int_equal(lives.within_step, 24);
	assert_int_equal(lives.within_step_bytes, 6 * (10 + 20 + 30 + 50));
	assert_int_equal(lives.longer, 5);
	assert_int_equal(lives.longer_bytes, 250);
	vc_arena_deinit(&arena);
}

static void test_no_steps(void **state)
{
	struct vc_arena arena = {0};
	struct vc_steps steps;

	(void)state;
	build_row(&tables, VC_TABLE_source_stacks);
	for (uint64_t i = 0; i < 30; i++) /* alike, but at growing distances */
		for (uint64_t j = 0; j <= i; j++)
			build_set(&tables, VC_COL_trace_stack,
				  event(0, j ? VC_TRACE_FREE_REQUESTED : VC_TRACE_ALLOC,
					0x1000 * i, 1), 1);
	make();
	assert_int_equal(vc_steps_find(&tables, &replay, 0, &arena, &steps), 0);
	assert_int_equal(steps.rule, VC_STEPS_NONE);
	vc_arena_deinit(&arena);
}

static void annotation(const char *name, const char *stage, uint64_t time)
{
	uint64_t row = build_row(&tables, VC_TABLE_annotations);

	build_set(&tables, VC_COL_annotations_time_us, row, time);
	build_text(&tables, VC_COL_annotations_name, row, name);
	build_text(&tables, VC_COL_annotations_stage, row, stage);
}

static void test_steps_by_marks(void **state)
{
	struct vc_arena arena = {0};
	struct vc_steps steps;

	(void)state;
	for (uint64_t i = 0; i < 9; i++) /* at 1000000, 1000010, ... */
		event(0, VC_TRACE_ALLOC, 0x1000 * (i + 1), 1);
	annotation("Optimizer.step#SGD.step", "START", 1000009);
	annotation("Optimizer.step#SGD.step", "END", 1000025);
	annotation("Optimizer.step#SGD.step", "END", 1000055);
	make();
	assert_int_equal(replay.mark_count, 3);
	assert_int_equal(vc_steps_find(&tables, &replay, 0, &arena, &steps), 0);
	assert_int_equal(steps.rule, VC_STEPS_MARKS);
	assert_int_equal(steps.count, 2);
	assert_int_equal(steps.boundaries[0], 3);
	assert_int_equal(steps.boundaries[1], 6);
	vc_arena_deinit(&arena);
}

/* ---- the set ---- */

/* Against the plainest means, over a few thousand ranges that come and go. */
static void test_ordered(void **state)
{
	enum { PLACES = 9000, ROUNDS = 60000 };
	static uint64_t sizes[PLACES]; /* of what is at address 100 * i, plus 1; 0: nothing */
	struct vc_ordered set = {0};
	uint64_t random = 1, wrong = 0, most = 0, live = 0;
	bool overlaps;

	(void)state;
	assert_int_equal(vc_ordered_remove(&set, 5), 0);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		uint64_t place, size, before, after;
		bool expected = false;

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		/* first rising, then anywhere */
		place = i < PLACES / 2 ? i : (random >> 33) % PLACES;
		size = (random >> 20) % 230;
		if (sizes[place]) {
			wrong += vc_ordered_remove(&set, place * 100) != sizes[place] - 1;
			sizes[place] = 0;
			live--;
			continue;
		}
		for (before = place; before-- > 0 && !sizes[before];)
			;
		for (after = place + 1; after < PLACES && !sizes[after]; after++)
			;
		if (size && before < place)
			expected = (place - before) * 100 < sizes[before] - 1;
		if (size && after < PLACES)
			expected |= (after - place) * 100 < size;
		assert_int_equal(vc_ordered_add(&set, place * 100, size, &overlaps), 0);
		wrong += overlaps != expected;
		sizes[place] = size + 1;
		most = ++live > most ? live : most;
	}
	assert_int_equal(wrong, 0);
	assert_true(most > VC_ORDERED_FAN * VC_ORDERED_FAN); /* several groups */
	for (uint64_t i = 0; i < PLACES; i++)
		if (sizes[i])
			wrong += vc_ordered_remove(&set, i * 100) != sizes[i] - 1;
	assert_int_equal(wrong, 0);
	assert_int_equal(set.count, 0);
	vc_ordered_deinit(&set);
}

/* ---- the map ---- */

static void add(uint64_t kind, uint64_t address, uint64_t size, uint64_t device_plus_one)
{
	static uint64_t birth;

	build_allocation(&tables, (struct build_allocation){
		.kind = kind, .address = address, .size = size, .birth = ++birth,
		.device_plus_one = device_plus_one});
}

static void make_map(struct vc_account *account, struct vc_arena *arena, struct vc_map *map)
{
	assert_int_equal(vc_account_make(&tables, VC_ACCOUNT_AUTO, VC_COLUMNS, account), 0);
	assert_int_equal(vc_map_make(&tables, account, arena, map), 0);
}

/* 1,000 with 300 at its start and 200 at 600; 800 with 100 at its end; 70 without blocks. */
static void test_map(void **state)
{
	struct vc_account account = {0};
	struct vc_arena arena = {0};
	struct vc_map map;
	uint64_t used[4];

	(void)state;
	add(VC_KIND_LINEAR, 10000, 1000, 1);
	add(VC_KIND_LINEAR, 20000, 800, 1);
	add(VC_KIND_LINEAR, 30000, 70, 1);
	add(VC_KIND_BLOCK, 10600, 200, 1);
	add(VC_KIND_BLOCK, 10000, 300, 1);
	add(VC_KIND_BLOCK, 20700, 100, 1);
	make_map(&account, &arena, &map);
	assert_int_equal(map.device_count, 1);
	assert_int_equal(map.segment_count, 2);
	assert_int_equal(map.devices[0].bytes, 1800);
	assert_int_equal(map.devices[0].used, 600);
	assert_int_equal(map.devices[0].free, 1200);
	assert_int_equal(map.devices[0].holes, 3); /* 300, 200, 700 */
	assert_int_equal(map.devices[0].largest_hole, 700);
	assert_int_equal(map.devices[0].fragmentation, 417); /* 1 - 700 / 1200 */
	assert_int_equal(map.devices[0].pinned, 1); /* 100 of 800 is an eighth */
	assert_int_equal(map.devices[0].pinned_free, 700);
	assert_int_equal(map.devices[0].others, 1);
	assert_int_equal(map.devices[0].other_bytes, 70);
	assert_int_equal(map.segments[0].part_count, 4);
	assert_int_equal(map.parts[1].address, 10300);
	assert_int_equal(map.parts[1].size, 300);
	assert_true(map.parts[1].row == UINT64_MAX);
	vc_map_cells(&map, &map.segments[0], 250, 4, used);
	assert_int_equal(used[0], 250);
	assert_int_equal(used[1], 50);
	assert_int_equal(used[2], 150);
	assert_int_equal(used[3], 50);
	assert_ptr_equal(vc_map_find(&map, 20799, UINT32_MAX), &map.segments[1]);
	assert_null(vc_map_find(&map, 20800, UINT32_MAX));
	assert_null(vc_map_find(&map, 20000, 2));
	vc_arena_deinit(&arena);
	vc_account_deinit(&account);
}

/* Blocks over the border of two allocations, over one another, and beyond 2^64. */
static void test_map_hostile(void **state)
{
	struct vc_account account = {0};
	struct vc_arena arena = {0};
	struct vc_map map;

	(void)state;
	add(VC_KIND_LINEAR, 1000, 100, 1);
	add(VC_KIND_LINEAR, 1100, 100, 1);
	add(VC_KIND_LINEAR, 1150, 100, 1);  /* 50 of it are the one before's */
	add(VC_KIND_LINEAR, UINT64_MAX - 10, UINT64_MAX, 1);
	add(VC_KIND_LINEAR, 5000, 0, 1);
	add(VC_KIND_BLOCK, 1090, 70, 1);    /* 10, 60 */
	add(VC_KIND_BLOCK, 1095, 5, 1);     /* inside that one: nothing */
	add(VC_KIND_BLOCK, UINT64_MAX - 20, UINT64_MAX, 1);
	make_map(&account, &arena, &map);
	assert_int_equal(map.segment_count, 3);
	assert_int_equal(map.segments[0].used, 10);
	assert_int_equal(map.segments[0].free, 90);
	assert_int_equal(map.segments[1].used, 60);
	assert_int_equal(map.segments[1].free, 40);
	assert_int_equal(map.segments[2].size, 10);
	assert_int_equal(map.segments[2].used, 10);
	assert_int_equal(map.devices[0].others, 1); /* 1200 to 1250 */
	assert_int_equal(map.devices[0].other_bytes, 50);
	vc_arena_deinit(&arena);
	vc_account_deinit(&account);
}

static void test_map_empty(void **state)
{
	struct vc_account account = {0};
	struct vc_arena arena = {0};
	struct vc_map map;

	(void)state;
	make_map(&account, &arena, &map);
	assert_int_equal(map.segment_count, 0);
	assert_int_equal(map.device_count, 0);
	vc_arena_deinit(&arena);
	vc_account_deinit(&account);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_whole_run), TEST(test_began_late), TEST(test_contradictions),
		TEST(test_devices), TEST(test_no_trace), TEST(test_when), TEST(test_find),
		TEST(test_apply), TEST(test_curve), TEST(test_steps), TEST(test_no_steps),
		TEST(test_steps_by_marks), TEST(test_map), TEST(test_map_hostile),
		TEST(test_map_empty), cmocka_unit_test(test_ordered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
