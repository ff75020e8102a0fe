/* SPDX-License-Identifier: Apache-2.0 */
/* Narrow columns: every number comes back, whatever came before and after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/tables.h"

static struct vc_narrow narrow;

static int tear_down(void **state)
{
	(void)state;
	vc_narrow_deinit(&narrow);
	return 0;
}

static void put_all(const uint64_t *numbers, uint64_t count)
{
	vc_narrow_deinit(&narrow);
	assert_int_equal(vc_narrow_init(&narrow, 2), 0);
	for (uint64_t i = 0; i < count; i++) {
		if (i >= narrow.capacity)
			assert_int_equal(vc_narrow_grow(&narrow, narrow.capacity * 2), 0);
		assert_int_equal(vc_narrow_put(&narrow, i, numbers[i]), 0);
	}
	for (uint64_t i = 0; i < count; i++)
		assert_true(vc_narrow_get(&narrow, i) == numbers[i]);
}

static void test_widths(void **state)
{
	static const uint64_t numbers[] = {0, 255, 1, 256, 65535, 7, 65536, UINT32_MAX, 9,
					   UINT64_C(1) << 32, 3, UINT64_MAX, 0};
	static const unsigned widths[] = {1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 8, 8};

	(void)state;
	for (uint64_t count = 1; count <= sizeof(numbers) / sizeof(*numbers); count++) {
		put_all(numbers, count);
		assert_int_equal(narrow.width, widths[count - 1]);
	}
}

static void test_times(void **state)
{
	const uint64_t start = UINT64_C(1790000000000000);
	uint64_t numbers[600];

	(void)state;
	for (uint64_t i = 0; i < 600; i++)
		numbers[i] = start + i * i;
	put_all(numbers, 600);
	assert_int_equal(narrow.width, 4);
	numbers[599] = start - 1; /* back, below the first one */
	put_all(numbers, 600);
	assert_int_equal(narrow.width, 8);
	numbers[0] = 5;           /* no large one first */
	put_all(numbers, 600);
	numbers[0] = UINT64_MAX;
	put_all(numbers, 600);
}

static void test_again(void **state)
{
	static const uint64_t numbers[] = {1, 2, 3, 4};

	(void)state;
	put_all(numbers, 4);
	assert_int_equal(vc_narrow_put(&narrow, 1, UINT64_C(1) << 40), 0);
	assert_true(vc_narrow_get(&narrow, 0) == 1);
	assert_true(vc_narrow_get(&narrow, 1) == UINT64_C(1) << 40);
	assert_true(vc_narrow_get(&narrow, 2) == 3);
	assert_true(vc_narrow_get(&narrow, 3) == 4);
}

static void test_of_tables(void **state)
{
	struct vc_tables tables;

	(void)state;
	assert_int_equal(vc_tables_init(&tables), 0);
	assert_int_equal(vc_tables_narrow(&tables, VC_COL_trace_size), 0);
	assert_null(tables.column[VC_COL_trace_size]);
	assert_true(vc_tables_has(&tables, VC_COL_trace_size));
	assert_int_equal(vc_tables_reserve(&tables, VC_TABLE_trace, 1000), 0);
	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(vc_tables_put(&tables, VC_COL_trace_size, i, i << 30), 0);
		assert_int_equal(vc_tables_put(&tables, VC_COL_trace_address, i, i), 0);
	}
	assert_true(vc_narrow_get(&tables.narrow[VC_COL_trace_size], 999) == UINT64_C(999) << 30);
	assert_int_equal(tables.column[VC_COL_trace_address][999], 999);
	vc_tables_deinit(&tables);
	assert_false(vc_tables_has(&tables, VC_COL_trace_size));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_widths, tear_down),
		cmocka_unit_test_teardown(test_times, tear_down),
		cmocka_unit_test_teardown(test_again, tear_down),
		cmocka_unit_test(test_of_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
