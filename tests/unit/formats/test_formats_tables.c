/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/tables.h"

/* tables.def follows its own rules: numbers unique, columns in the order of their tables. */
static void list_is_in_order(void **state)
{
	unsigned next = 0;

	(void)state;
	for (unsigned i = 0; i < VC_TABLES; i++) {
		const struct vc_table_info *info = &vc_table_info[i];

		assert_int_equal(info->first, next);
		assert_true(info->columns > 0);
		assert_int_equal(vc_column_info[next].number, 1);
		next += info->columns;
		assert_true(strlen(info->section) < sizeof(((struct vc_fault *)0)->section));
		for (unsigned k = 0; k < i; k++) {
			assert_int_not_equal(vc_table_info[k].number, info->number);
			assert_string_not_equal(vc_table_info[k].section, info->section);
		}
		for (unsigned one = info->first; one < next; one++) {
			assert_int_equal(vc_column_info[one].table, i);
			for (unsigned two = info->first; two < one; two++)
				assert_int_not_equal(vc_column_info[one].number,
						     vc_column_info[two].number);
		}
	}
	assert_int_equal(next, VC_COLUMNS);
	assert_string_equal(vc_column_info[VC_COL_allocations_stack].name, "stack");
	assert_int_equal(vc_column_info[VC_COL_allocations_stack].number, 18);
	assert_int_equal(vc_table_info[VC_TABLE_freed].number, 15);
}

static void kinds(void **state)
{
	(void)state;
	assert_string_equal(vc_kind_text(VC_KIND_LINEAR), "linear");
	assert_string_equal(vc_kind_text(9999), "unknown");
	assert_int_equal(vc_kind_bytes(VC_KIND_BLOCK), VC_BYTES_INSIDE);
	assert_int_equal(vc_kind_bytes(UINT64_MAX), VC_BYTES_NONE);
}

static void rows_begin_as_zero(void **state)
{
	struct vc_tables tables;
	uint64_t row;

	(void)state;
	assert_int_equal(vc_tables_init(&tables), 0);
	assert_int_equal(tables.rows[VC_TABLE_strings], 1);
	assert_string_equal(vc_tables_text(&tables, 0), "");
	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(vc_tables_append(&tables, VC_TABLE_freed, &row), 0);
		assert_int_equal(row, i);
		for (unsigned column = VC_COL_freed_birth; column < vc_table_end(VC_TABLE_freed);
		     column++) {
			assert_true(tables.column[column][row] == 0);
			tables.column[column][row] = UINT64_MAX - i;
		}
	}
	assert_true(tables.column[VC_COL_freed_label][17] == UINT64_MAX - 17);
	assert_int_equal(vc_tables_append(&tables, VC_TABLE_strings, &row), VC_E_INVALID);
	assert_int_equal(vc_tables_reserve(&tables, VC_TABLE_freed, UINT64_MAX), VC_E_NO_MEMORY);
	vc_tables_deinit(&tables);
	vc_tables_deinit(&tables);
}

static void strings_are_kept_once(void **state)
{
	struct vc_tables tables;
	char text[32];
	uint64_t row;

	(void)state;
	assert_int_equal(vc_tables_init(&tables), 0);
	assert_int_equal(vc_tables_string(&tables, "", 0, &row), 0);
	assert_int_equal(row, 0);
	for (unsigned round = 0; round < 2; round++)
		for (uint64_t i = 0; i < 5000; i++) {
			int length = snprintf(text, sizeof(text), "string %u", (unsigned)i);

			assert_int_equal(vc_tables_string(&tables, text, (size_t)length, &row), 0);
			assert_int_equal(row, i + 1);
			assert_string_equal(vc_tables_text(&tables, row), text);
			assert_int_equal(vc_tables_text_length(&tables, row), length);
		}
	/* The beginning of another string is a string of its own. */
	assert_int_equal(vc_tables_string(&tables, "string 4999", 6, &row), 0);
	assert_int_equal(row, 5001);
	assert_string_equal(vc_tables_text(&tables, row), "string");
	assert_int_equal(vc_tables_string(&tables, "a\0b", 3, &row), VC_E_INVALID);
	assert_string_equal(vc_tables_text(&tables, 5002), "");
	assert_string_equal(vc_tables_text(&tables, UINT64_MAX), "");
	assert_int_equal(vc_tables_text_length(&tables, UINT64_MAX), 0);
	vc_tables_deinit(&tables);
}

static void loaded_strings_are_found(void **state)
{
	static const uint64_t lengths[] = {3, 0, 2};
	struct vc_tables tables;
	uint64_t row;

	(void)state;
	assert_int_equal(vc_tables_init(&tables), 0);
	assert_int_equal(vc_tables_string(&tables, "yz", 2, &row), 0);
	assert_int_equal(vc_tables_load_strings(&tables, lengths, 3, "abcyz"), 0);
	assert_int_equal(tables.rows[VC_TABLE_strings], 5);
	assert_string_equal(vc_tables_text(&tables, 2), "abc");
	assert_string_equal(vc_tables_text(&tables, 3), "");
	assert_string_equal(vc_tables_text(&tables, 4), "yz");
	assert_int_equal(vc_tables_string(&tables, "abc", 3, &row), 0);
	assert_int_equal(row, 2);
	assert_int_equal(vc_tables_string(&tables, "yz", 2, &row), 0);
	assert_int_equal(row, 1);
	vc_tables_deinit(&tables);
}

/* Two stacks of two frames, a site, a failure with one of its sites, one of everything else. */
static void make_small(struct vc_tables *tables)
{
	uint64_t row;

	assert_int_equal(vc_tables_init(tables), 0);
	assert_int_equal(vc_tables_string(tables, "x", 1, &row), 0);
	for (unsigned table = VC_TABLE_process; table < VC_TABLES; table++)
		assert_int_equal(vc_tables_append(tables, (enum vc_table_index)table, &row), 0);
	assert_int_equal(vc_tables_append(tables, VC_TABLE_frames, &row), 0);
	tables->column[VC_COL_stacks_count][0] = 2;
	tables->column[VC_COL_allocations_stack][0] = 1;
	tables->column[VC_COL_allocations_site][0] = 1;
	tables->column[VC_COL_frames_module][1] = 1;
	tables->column[VC_COL_allocations_label][0] = 1;
}

/* One value out of range is found, named, and repaired to 0 without another change. */
static void check_one(enum vc_column_index column, uint64_t highest)
{
	enum vc_table_index table = vc_column_info[column].table;
	struct vc_faults faults = {0};
	struct vc_fault fault = {0};
	struct vc_tables tables;

	make_small(&tables);
	assert_int_equal(vc_tables_check(&tables, &fault), 0);
	tables.column[column][0] = highest;
	assert_int_equal(vc_tables_check(&tables, &fault), 0);
	tables.column[column][0] = highest + 1;
	assert_int_equal(vc_tables_check(&tables, &fault), VC_E_RANGE);
	assert_int_equal(fault.error, VC_E_RANGE);
	assert_string_equal(fault.section, vc_table_info[table].section);
	assert_int_equal(vc_tables_repair(&tables, &faults), 0);
	assert_int_equal(faults.count, 1);
	assert_string_equal(faults.kept[0].section, vc_table_info[table].section);
	assert_int_equal(vc_tables_check(&tables, &fault), 0);
	if (table == VC_TABLE_failure_sites)
		assert_int_equal(tables.rows[table], 0);
	else
		assert_true(tables.column[column][0] == 0);
	vc_tables_deinit(&tables);
}

static void every_reference_is_checked(void **state)
{
	unsigned checked = 0;

	(void)state;
	for (unsigned i = 0; i < VC_COLUMNS; i++) {
		enum vc_column_type type = vc_column_info[i].type;

		/* Strings "" and "x"; one row of each other table, and row plus 1 is stored. */
		if (type != VC_TYPE_STRING && type != VC_TYPE_ROW_modules &&
		    type != VC_TYPE_ROW_stacks && type != VC_TYPE_ROW_sites &&
		    type < VC_TYPE_ROW_source_frames)
			continue;
		check_one((enum vc_column_index)i, 1);
		checked++;
	}
	assert_true(checked > 20);
	check_one(VC_COL_failure_sites_failure, 0);
	check_one(VC_COL_failure_sites_site, 0);
	check_one(VC_COL_stacks_count, 2);
	check_one(VC_COL_source_stacks_count, 1);
}

static void stacks_do_not_overflow(void **state)
{
	struct vc_tables tables;

	(void)state;
	make_small(&tables);
	tables.column[VC_COL_stacks_first][0] = UINT64_MAX;
	assert_int_equal(vc_tables_check(&tables, NULL), VC_E_RANGE);
	tables.column[VC_COL_stacks_first][0] = 1;
	tables.column[VC_COL_stacks_count][0] = UINT64_MAX;
	assert_int_equal(vc_tables_check(&tables, NULL), VC_E_RANGE);
	tables.column[VC_COL_stacks_count][0] = 1;
	assert_int_equal(vc_tables_check(&tables, NULL), 0);
	vc_tables_deinit(&tables);
}

static void process_has_one_row(void **state)
{
	struct vc_faults faults = {0};
	struct vc_tables tables;

	(void)state;
	assert_int_equal(vc_tables_init(&tables), 0);
	assert_int_equal(vc_tables_check(&tables, NULL), VC_E_RANGE);
	assert_int_equal(vc_tables_repair(&tables, &faults), 0);
	assert_int_equal(faults.count, 1);
	assert_int_equal(tables.rows[VC_TABLE_process], 1);
	assert_int_equal(vc_tables_check(&tables, NULL), 0);
	vc_tables_deinit(&tables);
}

static void lost_strings(void **state)
{
	struct vc_faults faults = {0};
	struct vc_tables tables;

	(void)state;
	make_small(&tables);
	tables.rows[VC_TABLE_strings] = 0;
	tables.text_bytes = 0;
	assert_int_equal(vc_tables_check(&tables, NULL), VC_E_RANGE);
	assert_int_equal(vc_tables_repair(&tables, &faults), 0);
	assert_int_equal(faults.count, 2); /* the strings, and the label that pointed to one */
	assert_int_equal(vc_tables_check(&tables, NULL), 0);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 1);
	assert_true(tables.column[VC_COL_allocations_stack][0] == 1);
	vc_tables_deinit(&tables);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_is_in_order),
		cmocka_unit_test(kinds),
		cmocka_unit_test(rows_begin_as_zero),
		cmocka_unit_test(strings_are_kept_once),
		cmocka_unit_test(loaded_strings_are_found),
		cmocka_unit_test(every_reference_is_checked),
		cmocka_unit_test(stacks_do_not_overflow),
		cmocka_unit_test(process_has_one_row),
		cmocka_unit_test(lost_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
