/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The highest moment of a step, as the recorder's own writer keeps it and a reader shows it, against
 * a list that the test keeps itself.
 *
 * One thread a device, as the lock of an allocator makes it; what they do on the other devices
 * meanwhile moves the clock and must not move the moment.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/inside/peak.h"
#include "capture/inside/store.h"
#include "recording_test.h"

#define DEVICES 3u
#define HELD 60u
#define EVENTS 3000u

/* What lives on a device, and what lived at its highest moment. */
struct list {
	unsigned int device;
	enum vc_kind kind;
	uint64_t seed, next_address;
	uint64_t address[HELD], size[HELD]; /* 0: nothing */
	uint64_t bytes, most;
	uint64_t most_address[HELD], most_size[HELD];
};

static int descriptor = -1;

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void begin_step(struct list *list)
{
	list->most = list->bytes;
	memcpy(list->most_address, list->address, sizeof(list->address));
	memcpy(list->most_size, list->size, sizeof(list->size));
}

static void allocate(struct list *list, unsigned int place)
{
	struct vc_birth birth = {
		.address = list->next_address += 1 << 20,
		.size = 512 + random_next(&list->seed) % 100000,
		.device_plus_one = (uint16_t)(list->device + 1),
		.kind = (uint8_t)list->kind,
	};

	vc_store_commit(vc_store_begin(&birth), &birth);
	list->address[place] = birth.address;
	list->size[place] = birth.size;
	list->bytes += birth.size;
	if (list->bytes > list->most)
		begin_step(list);
}

static void release(struct list *list, unsigned int place)
{
	const struct vc_death death = {.thread = 1};
	struct vc_claim claim;

	assert_true(vc_store_claim(list->address[place], VC_KINDS(list->kind), &claim));
	vc_store_free_commit(&claim, &death);
	list->bytes -= list->size[place];
	list->address[place] = list->size[place] = 0;
}

static void *work(void *argument)
{
	struct list *list = argument;

	for (unsigned int i = 0; i < EVENTS; i++) {
		unsigned int place = (unsigned int)(random_next(&list->seed) % HELD);

		if (list->address[place])
			release(list, place);
		else
			allocate(list, place);
	}
	return NULL;
}

/* What is shown of a device at a row of moments. */
static void convert(uint32_t row, struct vc_tables *ret)
{
	const struct vc_convert_options options = {.at = VC_AT_MOMENT, .number = row};
	struct vc_recording_source source;
	struct vc_faults faults = {0};

	assert_int_equal(vc_recording_source_descriptor(descriptor, &source), 0);
	assert_int_equal(vc_convert(&source, &options, ret, &faults), 0);
	assert_int_equal(faults.count, 0);
	assert_int_equal(CELL(ret, process_deaths_missing, 0), 0);
}

static void judge(const struct vc_tables *tables, const struct list *list)
{
	uint64_t bytes = 0, count = 0, expected = 0;

	for (unsigned int i = 0; i < HELD; i++)
		expected += list->most_address[i] != 0;
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_allocations]; row++) {
		bool there = false;

		if (CELL(tables, allocations_device_plus_one, row) != list->device + 1 ||
		    CELL(tables, allocations_kind, row) != list->kind)
			continue;
		for (unsigned int i = 0; i < HELD && !there; i++)
			there = list->most_address[i] == CELL(tables, allocations_address, row) &&
				list->most_size[i] == CELL(tables, allocations_size, row);
		assert_true(there);
		bytes += CELL(tables, allocations_size, row);
		count++;
	}
	assert_int_equal(bytes, list->most);
	assert_int_equal(count, expected);
}

static uint32_t keep(const struct vc_instant *at, uint64_t step)
{
	const struct vc_moment moment = {
		.trigger = "step", .moment = "peak", .step = step, .at = at};

	return vc_store_moment(&moment);
}

/* The device that got fullest is at its own highest, and the highest of all are told. */
static void check_step(const struct list *lists, unsigned int count, uint64_t step)
{
	struct vc_instant at = {0};
	struct vc_tables tables;
	unsigned int fullest = 0;
	uint32_t row;

	for (unsigned int i = 1; i < count; i++)
		if (lists[i].most > lists[fullest].most)
			fullest = i;
	assert_true(vc_peak_end(&at));
	assert_int_equal(at.peak_device_plus_one, lists[fullest].device + 1);
	for (unsigned int i = 0; i < count; i++)
		assert_int_equal(at.peak[lists[i].device], lists[i].most + 1);
	row = keep(&at, step);
	assert_int_not_equal(row, UINT32_MAX);
	convert(row, &tables);
	judge(&tables, &lists[fullest]);
	assert_int_equal(CELL(&tables, process_peak_device_plus_one, 0), lists[fullest].device + 1);
	assert_int_equal(CELL(&tables, process_step, 0), step);
	assert_string_equal(TEXT(&tables, process_moment, 0), "peak");
	for (uint64_t i = 0; i < tables.rows[VC_TABLE_devices]; i++)
		for (unsigned int j = 0; j < count; j++)
			if (CELL(&tables, devices_device, i) == lists[j].device) {
				assert_int_equal(CELL(&tables, devices_step_peak_known, i), 1);
				assert_int_equal(CELL(&tables, devices_step_peak, i), lists[j].most);
			}
	vc_tables_deinit(&tables);
}

static void test_every_device_has_its_own(void **state)
{
	struct list lists[DEVICES];
	pthread_t thread[DEVICES];

	(void)state;
	memset(lists, 0, sizeof(lists));
	for (unsigned int i = 0; i < DEVICES; i++) {
		lists[i].device = i;
		lists[i].kind = VC_KIND_LINEAR;
		lists[i].seed = 0x9e3779b9 + i;
		lists[i].next_address = UINT64_C(0x100000000000) * (i + 1);
	}
	for (uint64_t step = 1; step <= 8; step++) {
		for (unsigned int i = 0; i < DEVICES; i++)
			begin_step(&lists[i]);
		vc_peak_begin();
		for (unsigned int i = 0; i < DEVICES; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, work, &lists[i]), 0);
		for (unsigned int i = 0; i < DEVICES; i++)
			pthread_join(thread[i], NULL);
		check_step(lists, DEVICES, step);
	}
	for (unsigned int i = 0; i < DEVICES; i++)
		for (unsigned int place = 0; place < HELD; place++)
			if (lists[i].address[place])
				release(&lists[i], place);
}

/* Where blocks are reported they count, and what the driver gave out for them does not. */
static void test_blocks_count_before_the_driver(void **state)
{
	struct list blocks = {.kind = VC_KIND_BLOCK, .seed = 5, .next_address = 0x500000000000};
	struct list pools = {.kind = VC_KIND_LINEAR, .seed = 7, .next_address = 0x600000000000};

	(void)state;
	vc_peak_begin();
	for (unsigned int i = 0; i < 20; i++)
		allocate(&pools, i);
	for (unsigned int i = 0; i < 10; i++)
		allocate(&blocks, i);
	for (unsigned int i = 0; i < 5; i++)
		release(&blocks, i);
	for (unsigned int i = 20; i < HELD; i++)
		allocate(&pools, i);
	assert_true(pools.most > blocks.most);
	check_step(&blocks, 1, 20);
	/* a step that only gives back is highest where it begins */
	begin_step(&blocks);
	vc_peak_begin();
	release(&blocks, 5);
	check_step(&blocks, 1, 21);
}

static void test_nothing_watched(void **state)
{
	struct vc_instant at = {0};
	struct list list = {.kind = VC_KIND_LINEAR, .seed = 9, .next_address = 0x700000000000};

	(void)state;
	assert_false(vc_peak_end(&at));
	allocate(&list, 0);
	assert_false(vc_peak_end(&at));
	vc_peak_begin();
	vc_peak_forget();
	assert_false(vc_peak_end(&at));
}

/* On a device that the others never come near. */
static void test_first_of_equal_ones(void **state)
{
	struct vc_birth birth = {.size = UINT64_C(1) << 40, .device_plus_one = 9, .kind = VC_KIND_LINEAR};
	struct vc_instant at = {0};
	struct vc_claim claim;
	const struct vc_death death = {.thread = 1};
	uint64_t first = 0;

	(void)state;
	vc_peak_begin();
	for (unsigned int i = 0; i < 3; i++) {
		uint64_t number;

		birth.address = UINT64_C(0x800000000000) + (i << 20);
		number = vc_store_commit(vc_store_begin(&birth), &birth);
		first = first ? first : number;
		assert_true(vc_store_claim(birth.address, VC_KINDS(VC_KIND_LINEAR), &claim));
		vc_store_free_commit(&claim, &death);
	}
	assert_true(vc_peak_end(&at));
	assert_int_equal(at.peak_device_plus_one, 9);
	assert_int_equal(at.number, first);
}

int main(void)
{
	const struct vc_store_options options = {.budget = 64 << 20};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_device_has_its_own),
		cmocka_unit_test(test_blocks_count_before_the_driver),
		cmocka_unit_test(test_first_of_equal_ones),
		cmocka_unit_test(test_nothing_watched),
	};

	if (vc_store_start(&options, &descriptor) != 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
