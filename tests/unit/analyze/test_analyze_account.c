/* SPDX-License-Identifier: Apache-2.0 */
/* What rows count for: live, cached, in doubt, by hand-made tables. */
#include "tests/unit/analyze/cmocka.h"

#include "analyze/views/account.h"
#include "tests/unit/analyze/builder.h"

static struct vc_tables tables;
static struct vc_account account;
static uint64_t stack_a, stack_b, stack_c;

static int set_up(void **state)
{
	uint64_t module;

	(void)state;
	assert_int_equal(vc_tables_init(&tables), 0);
	module = build_module(&tables, "/m", "aa");
	stack_a = build_stack(&tables, (const struct build_frame[]){{module, 1}, {0, 0}});
	stack_b = build_stack(&tables, (const struct build_frame[]){{module, 2}, {0, 0}});
	stack_c = build_stack(&tables, (const struct build_frame[]){{module, 3}, {0, 0}});
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vc_account_deinit(&account);
	vc_tables_deinit(&tables);
	return 0;
}

static void add(uint64_t kind, uint64_t address, uint64_t size, uint64_t stack)
{
	static uint64_t birth;

	build_allocation(&tables, (struct build_allocation){
		.kind = kind, .address = address, .size = size, .stack = stack, .birth = ++birth,
		.device_plus_one = 1});
}

static void make(enum vc_account_mode mode)
{
	assert_int_equal(vc_account_make(&tables, mode, VC_COLUMNS, &account), 0);
}

static const struct vc_account_device *device(void)
{
	const struct vc_account_device *found = vc_account_find_device(&account, 1);

	assert_non_null(found);
	return found;
}

static const struct vc_account_group *group(uint64_t stack, uint64_t kind)
{
	for (uint64_t i = 0; i < account.group_count; i++)
		if (account.groups[i].stack == stack && account.groups[i].kind == kind)
			return &account.groups[i];
	fail();
	return NULL;
}

static void test_without_blocks(void **state)
{
	(void)state;
	add(VC_KIND_LINEAR, 0x1000, 100, stack_a);
	add(VC_KIND_LINEAR, 0x2000, 200, stack_a);
	add(VC_KIND_ASYNC, 0x3000, 50, stack_a);
	add(VC_KIND_PINNED, 0x4000, 7, stack_b);
	add(VC_KIND_CONTEXT, 0x5000, 0, stack_b);
	make(VC_ACCOUNT_AUTO);
	assert_false(account.has_blocks);
	assert_int_equal(device()->live_bytes, 350);
	assert_int_equal(device()->reserved_bytes, 350);
	assert_int_equal(device()->live_count, 3);
	assert_int_equal(device()->kind_bytes[VC_KIND_PINNED], 7);
	assert_int_equal(device()->kind_count[VC_KIND_CONTEXT], 1);
	assert_int_equal(account.group_count, 2);
	assert_int_equal(group(stack_a, VC_KIND_LINEAR)->bytes, 300);
	assert_int_equal(vc_account_row_bytes(&account, &tables, 0), 100);
	assert_int_equal(vc_account_row_bytes(&account, &tables, 3), 0);
}

/* A segment of 1,000 with blocks of 300 and 200, an all-free one of 500 by the same stack, and an
 * allocation of 70 of another stack that has nothing to do with the allocator. */
static void segments(void)
{
	add(VC_KIND_LINEAR, 0x10000, 1000, stack_a);
	add(VC_KIND_LINEAR, 0x20000, 500, stack_a);
	add(VC_KIND_LINEAR, 0x30000, 70, stack_c);
	add(VC_KIND_BLOCK, 0x10000, 300, stack_b);
	add(VC_KIND_BLOCK, 0x10000 + 600, 200, stack_b);
}

static void test_blocks(void **state)
{
	(void)state;
	segments();
	make(VC_ACCOUNT_AUTO);
	assert_true(account.has_blocks);
	assert_int_equal(device()->block_bytes, 500);
	assert_int_equal(device()->live_bytes, 570);
	assert_int_equal(device()->cached_bytes,
			 1000); /* 500 left of the first, all of the second */
	assert_int_equal(device()->cached_allocations, 2);
	assert_int_equal(device()->reserved_bytes, 1570);
	assert_int_equal(group(stack_b, VC_KIND_BLOCK)->bytes, 500);
	assert_int_equal(group(stack_a, VC_KIND_LINEAR)->bytes, 0);
	assert_int_equal(group(stack_a, VC_KIND_LINEAR)->cached_bytes, 1000);
	assert_int_equal(group(stack_c, VC_KIND_LINEAR)->bytes, 70);
}

static void test_modes(void **state)
{
	(void)state;
	segments();
	make(VC_ACCOUNT_ALLOCATIONS);
	assert_int_equal(device()->live_bytes, 1570);
	assert_int_equal(device()->cached_bytes, 0);
	vc_account_deinit(&account);
	make(VC_ACCOUNT_BLOCKS);
	assert_int_equal(device()->live_bytes, 500);
	assert_int_equal(device()->live_count, 2);
}

/* Two physical handles of 100, mapped side by side; one block lies across both. */
static void test_mapped(void **state)
{
	uint64_t first, second;

	(void)state;
	first = build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_HANDLE, .address = 0xaaaa, .size = 100, .stack = stack_a,
		.birth = 901, .device_plus_one = 1});
	second = build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_HANDLE, .address = 0xbbbb, .size = 100, .stack = stack_a,
		.birth = 900, .device_plus_one = 1});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_MAPPING, .address = 0x5000, .size = 100, .parent = 901,
		.birth = 902});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_MAPPING, .address = 0x5000 + 100, .size = 100, .parent = 900,
		.birth = 903});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_BLOCK, .address = 0x5000 + 50, .size = 80, .stack = stack_b,
		.birth = 904}); /* its device is not known: it is that of the handle */
	make(VC_ACCOUNT_AUTO);
	assert_int_equal(first, 0);
	assert_int_equal(second, 1);
	assert_int_equal(device()->reserved_bytes, 200);
	assert_int_equal(device()->block_bytes, 80);
	assert_int_equal(device()->cached_bytes, 120);
	assert_int_equal(account.outside_bytes, 0);
}

static void test_misplaced(void **state)
{
	(void)state;
	add(VC_KIND_LINEAR, 1000, 100, stack_a);
	add(VC_KIND_BLOCK, 1050, 100, stack_b);  /* 50 inside, 50 beyond the end */
	add(VC_KIND_BLOCK, 1000, 100, stack_b);  /* 50 fit, 50 are taken */
	add(VC_KIND_BLOCK, 5000, 10, stack_b);   /* nowhere */
	add(VC_KIND_BLOCK, UINT64_MAX - 5, 10, stack_b); /* past the end of all addresses */
	make(VC_ACCOUNT_AUTO);
	assert_int_equal(device()->block_bytes, 100);
	assert_int_equal(device()->reserved_bytes, 100);
	assert_int_equal(device()->cached_bytes, 0);
	assert_int_equal(account.outside_bytes, 50 + 10 + 5);
	assert_int_equal(account.overlap_bytes, 50);
}

static void test_doubt(void **state)
{
	(void)state;
	add(VC_KIND_LINEAR, 1000, 100, stack_a);
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .size = 40, .stack = stack_b, .device_plus_one = 1,
		.state = VC_STATE_IN_DOUBT});
	build_allocation(&tables, (struct build_allocation){
		.kind = VC_KIND_LINEAR, .size = 2, .stack = stack_b, .device_plus_one = 1,
		.state = VC_STATE_BEING_FREED});
	make(VC_ACCOUNT_AUTO);
	assert_int_equal(device()->live_bytes, 100);
	assert_int_equal(device()->doubt_bytes, 42);
	assert_int_equal(device()->doubt_count, 2);
	assert_int_equal(group(stack_b, VC_KIND_LINEAR)->doubt_bytes, 42);
	assert_int_equal(group(stack_b, VC_KIND_LINEAR)->bytes, 0);
}

/* Many groups: the table of groups grows, every row finds its own. */
static void test_many_groups(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 5000; i++)
		build_allocation(&tables, (struct build_allocation){
			.kind = VC_KIND_LINEAR, .address = i * 16, .size = 1 + i % 7,
			.stack = stack_a, .device_plus_one = 1, .stream = i % 2500});
	assert_int_equal(vc_account_make(&tables, VC_ACCOUNT_AUTO, VC_COL_allocations_stream,
					 &account), 0);
	assert_int_equal(account.group_count, 2500);
	for (uint64_t i = 0; i < 2500; i++) {
		assert_int_equal(account.groups[i].extra, i);
		assert_int_equal(account.groups[i].count, 2);
		assert_int_equal(account.groups[i].bytes, 2 + i % 7 + (i + 2500) % 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_without_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_blocks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_modes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_mapped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_misplaced, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_doubt, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_groups, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
