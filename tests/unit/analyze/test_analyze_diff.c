/* SPDX-License-Identifier: Apache-2.0 */
/* Comparisons of hand-made files: growth, rates, shapes, trends, order of devices. */
#include "tests/unit/analyze/cmocka.h"

#include <stdio.h>

#include "analyze/views/diff.h"
#include "analyze/views/diff_notes.h"
#include "analyze/views/shape.h"
#include "tests/unit/analyze/builder.h"

enum { FILES_MAX = 4 };
static struct vc_tables tables[FILES_MAX];
static struct vc_account accounts[FILES_MAX];
static uint64_t module[FILES_MAX];
static struct vc_names *names;
static struct vc_arena arena;
static struct vc_diff diff;
static unsigned files;

/** Starts a file at a step; the process is the same in all. */
static struct vc_tables *begin(uint64_t step, uint64_t seconds, uint64_t number)
{
	struct vc_tables *next = &tables[files];

	assert_int_equal(vc_tables_init(next), 0);
	build_process(next, step, "after-step", seconds, number);
	build_device(next, 0, "A", "GPU-a", 100000, UINT64_MAX);
	build_device(next, 1, "B", "GPU-b", 100000, 40000);
	module[files] = build_module(next, "/bin/prog", "id");
	files++;
	return next;
}

static void add(struct vc_tables *to, uint64_t device, uint64_t offset, uint64_t size,
		uint64_t step, uint64_t birth)
{
	uint64_t stack = build_stack(to, (const struct build_frame[]){
		{module[files - 1], offset}, {0, 0}});

	build_allocation(to, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .address = birth * 0x10000, .size = size, .stack = stack,
		.step = step, .birth = birth, .device_plus_one = device + 1, .seconds = step * 10});
}

static void compare(void)
{
	struct vc_diff_input inputs[FILES_MAX];

	assert_int_equal(vc_names_create(NULL, &names), 0);
	for (unsigned i = 0; i < files; i++) {
		uint32_t file;

		assert_int_equal(vc_account_make(&tables[i], VC_ACCOUNT_AUTO, VC_COLUMNS,
						 &accounts[i]), 0);
		assert_int_equal(vc_names_add(names, &tables[i], &file), 0);
		for (uint64_t j = 0; j < accounts[i].group_count; j++)
			assert_int_equal(vc_names_want(names, i, accounts[i].groups[j].stack), 0);
		inputs[i] = (struct vc_diff_input){&tables[i], &accounts[i], i};
	}
	assert_int_equal(vc_names_resolve(names), 0);
	assert_int_equal(vc_diff_make(inputs, files, names, 0, &arena, &diff), 0);
}

static int tear_down(void **state)
{
	(void)state;
	for (unsigned i = 0; i < files; i++) {
		vc_account_deinit(&accounts[i]);
		vc_tables_deinit(&tables[i]);
	}
	files = 0;
	vc_names_destroy(names);
	names = NULL;
	vc_arena_deinit(&arena);
	return 0;
}

/*
 * Device 0, steps 10 -> 20: site 1 stays (100), site 2 shrinks 300 -> 50, site 3 grows 40 -> 440 by
 * 40 a step, site 4 is new (7, once), site 5 is gone (9). growth = -250 + 400 + 7 - 9 = 148.
 * Device 1: grows by 1,000 from nothing: it is the worst.
 */
static void test_two(void **state)
{
	struct vc_tables *t = begin(10, 100, 50);
	const struct vc_diff_device *device;
	struct vc_diff_explained explained;

	(void)state;
	add(t, 0, 1, 100, 1, 1);
	add(t, 0, 2, 300, 1, 2);
	add(t, 0, 3, 40, 2, 3);
	add(t, 0, 5, 9, 2, 4);
	t = begin(20, 200, 90);
	add(t, 0, 1, 100, 1, 1);
	add(t, 0, 2, 50, 12, 60);
	add(t, 0, 3, 40, 2, 3);
	for (uint64_t step = 11; step <= 20; step++)
		add(t, 0, 3, 40, step, 60 + step);
	add(t, 0, 4, 7, 15, 88);
	add(t, 1, 6, 1000, 13, 89);
	compare();
	assert_int_equal(diff.axis, VC_AXIS_STEPS);
	assert_true(diff.seconds_per_step == 10.0);
	assert_int_equal(diff.device_count, 2);
	assert_int_equal(diff.devices[0].device_plus_one, 2);
	assert_int_equal(diff.devices[0].growth, 1000);
	assert_true(diff.devices[0].rate == 100.0);
	assert_int_equal(diff.devices[0].room, 40000); /* by cuMemGetInfo */
	assert_false(diff.devices[0].full_known);      /* it grew once */
	device = &diff.devices[1];
	assert_int_equal(device->live[0], 449);
	assert_int_equal(device->live[1], 597);
	assert_int_equal(device->growth, 148);
	assert_int_equal(device->unchanged, 1);
	assert_int_equal(device->count, 4);
	assert_int_equal(device->grew, 2);
	assert_int_equal(device->shrank, 2);
	assert_int_equal(device->grown, 407);
	assert_int_equal(device->rows[0].growth, 400);
	assert_int_equal(device->rows[0].count_growth, 10);
	assert_true(device->rows[0].rate == 40.0);
	assert_int_equal(device->rows[0].shape, VC_SHAPE_LINEAR);
	assert_false(device->rows[0].is_new);
	assert_int_equal(device->rows[1].growth, 7);
	assert_int_equal(device->rows[1].shape, VC_SHAPE_ONCE);
	assert_true(device->rows[1].is_new);
	assert_int_equal(device->rows[2].growth, -9);
	assert_true(device->rows[2].is_gone);
	assert_int_equal(device->rows[3].growth, -250);
	assert_int_equal(device->room, 100000 - 597);
	assert_true(device->full_known); /* 14.8 a step, less 0.7 of what grew once */
	assert_true(device->full_in > 99403 / 14.1001 && device->full_in < 99403 / 14.0999);
	explained = vc_diff_explain(device);
	assert_int_equal(explained.sites, 1);
	assert_string_equal(explained.share, "98.28"); /* 400 / 407 = 0.98280 */
}

/* y = 100 + 5 x at x = 0, 10, 40 on one site; 7, 9, 7 on another: no slope from end to end. */
static void test_trend(void **state)
{
	static const uint64_t step[] = {0, 10, 40}, other[] = {7, 9, 7};
	const struct vc_diff_device *device;
	double slope, fit;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct vc_tables *t = begin(step[i], i, i);

		add(t, 0, 1, 100 + 5 * step[i], 0, 1);
		add(t, 0, 2, other[i], 0, 2);
	}
	compare();
	device = &diff.devices[0];
	assert_int_equal(device->count, 2);
	assert_int_equal(device->rows[0].growth, 200);
	assert_true(device->rows[0].rate > 4.999999 && device->rows[0].rate < 5.000001);
	assert_true(device->rows[0].fit > 0.999999);
	assert_int_equal(device->rows[0].bytes[1], 150);
	assert_int_equal(device->rows[1].growth, 0);
	/* by hand: x 0 10 40 - 50/3, y -2/3 4/3 -2/3: sxy = -20/3 - ... = -40/3, sxx = 2600/3 */
	vc_fit_line((const double[]){0, 10, 40}, (const double[]){7, 9, 7}, 3, &slope, &fit);
	assert_true(slope > -0.0154 && slope < -0.0153); /* -13.333 / 866.667 */
	assert_true(fit > 0.0768 && fit < 0.0770);       /* 177.78 / (866.667 * 2.6667) */
}

/* No steps are known: per second, of the same process only. */
static void test_seconds(void **state)
{
	struct vc_tables *t = begin(UINT64_MAX, 100, 5);

	(void)state;
	add(t, 0, 1, 100, 1, 1);
	t = begin(UINT64_MAX, 300, 9);
	add(t, 0, 1, 500, 20, 8);
	compare();
	assert_int_equal(diff.axis, VC_AXIS_SECONDS);
	assert_true(diff.x[1] == 200.0);
	assert_true(diff.devices[0].rate == 2.0);
	assert_int_equal(diff.devices[0].rows[0].shape, VC_SHAPE_ONCE);
}

static void test_no_axis(void **state)
{
	struct vc_tables *t = begin(UINT64_MAX, 100, 5);

	(void)state;
	add(t, 0, 1, 100, 1, 1);
	t = begin(UINT64_MAX, 300, 9);
	build_set(t, VC_COL_process_pid, 0, 5); /* another process */
	add(t, 0, 1, 500, 1, 8);
	compare();
	assert_int_equal(diff.axis, VC_AXIS_NONE);
	assert_int_equal(diff.devices[0].growth, 400);
	assert_true(diff.devices[0].rate == 0);
	assert_false(diff.devices[0].full_known);
	assert_int_equal(diff.devices[0].rows[0].shape, VC_SHAPE_NONE);
}

/* Of a site that has `freed` blocks less than were born. */
static enum vc_shape shape_beside(const double *at, unsigned count, unsigned freed)
{
	struct vc_births births = {0};

	for (unsigned i = 0; i < count; i++)
		vc_births_add(&births, at[i], 10);
	return vc_births_shape(&births, 10 * (int64_t)(count - freed));
}

static enum vc_shape shape_of(const double *at, unsigned count)
{
	return shape_beside(at, count, 0);
}

static void test_shapes(void **state)
{
	double even[50], early[50];

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		even[i] = (i + 1) / 50.0;
		early[i] = i / 110.0; /* the last at 0.445 */
	}
	assert_int_equal(shape_of(even, 50), VC_SHAPE_LINEAR);
	assert_int_equal(shape_of(early, 50), VC_SHAPE_STOPPED);
	assert_int_equal(shape_of((const double[]){0.5}, 1), VC_SHAPE_ONCE);
	assert_int_equal(shape_of((const double[]){0.5, 0.505}, 2), VC_SHAPE_ONCE);
	assert_int_equal(shape_of((const double[]){0.3, 0.9}, 2), VC_SHAPE_IRREGULAR);
	assert_int_equal(shape_of((const double[]){0.9, 0.91, 0.92, 0.95, 0.99, 1}, 6),
			 VC_SHAPE_IRREGULAR);
	assert_int_equal(shape_of((const double[]){0.25, 0.5, 0.75, 1}, 4), VC_SHAPE_LINEAR);
	assert_int_equal(shape_of(NULL, 0), VC_SHAPE_NONE);
	/* what was freed meanwhile came back at the end: two that stay, and four of each step */
	assert_int_equal(shape_of((const double[]){0.3, 0.3, 1, 1, 1, 1}, 6), VC_SHAPE_IRREGULAR);
	assert_int_equal(shape_beside((const double[]){0.3, 0.3, 1, 1, 1, 1}, 6, 4), VC_SHAPE_ONCE);
	assert_int_equal(shape_beside((const double[]){0.2, 0.4, 0.6, 0.8, 1, 1, 1}, 7, 2),
			 VC_SHAPE_LINEAR);
	assert_int_equal(shape_beside((const double[]){0.1, 0.3, 1, 1}, 4, 2), VC_SHAPE_STOPPED);
}

/* 30 sites grow, 10 shrink; 8 rows are shown: 6 that grew, 2 that shrank, the rest is counted. */
static void test_choose(void **state)
{
	struct vc_diff_row rows[40] = {0};
	struct vc_diff_device device = {.rows = rows, .count = 40, .grew = 30, .shrank = 10};
	struct vc_diff_shown shown;

	(void)state;
	for (int i = 0; i < 40; i++)
		rows[i].growth = i < 30 ? 100 - i : -i;
	shown = vc_diff_choose(&device, 8);
	assert_int_equal(shown.first, 6);
	assert_int_equal(shown.last, 2);
	assert_int_equal(shown.grew, 24);
	assert_int_equal(shown.shrank, 8);
	assert_int_equal(shown.grew_bytes, 24 * 100 - (6 + 29) * 24 / 2);
	assert_int_equal(shown.shrank_bytes, -(30 + 37) * 8 / 2);
	assert_true(vc_diff_is_shown(&device, &shown, 5));
	assert_false(vc_diff_is_shown(&device, &shown, 6));
	assert_true(vc_diff_is_shown(&device, &shown, 38));
	shown = vc_diff_choose(&device, 0);
	assert_int_equal(shown.first + shown.last, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_two, tear_down),
		cmocka_unit_test_teardown(test_trend, tear_down),
		cmocka_unit_test_teardown(test_seconds, tear_down),
		cmocka_unit_test_teardown(test_no_axis, tear_down),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_choose),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
