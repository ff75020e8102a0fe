/* SPDX-License-Identifier: Apache-2.0 */
/* Names inside a file: what is put there, what is found again, and who is believed. */
#include "tests/unit/analyze/cmocka.h"

#include <stdio.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/packed.h"
#include "tests/unit/analyze/builder.h"
#include "tests/unit/analyze/fake_names.h"

static const struct fake_name all_known[] = {
	{"one", 0x20, 0, "push<int>", "/usr/include/vec.h", 9},
	{"one", 0x20, 1, "forward", "/src/train.cc", 100},
	{"one", 0x30, 0, "step", "/src/train.cc", 200},
	{"two", 0x30, 0, "cudaMalloc", NULL, 0},
	{0},
};
static const struct fake_name nothing_known[] = {{0}};
static const struct fake_name better_known[] = {
	{"two", 0x30, 0, "cudaMalloc", "/src/runtime.c", 77},
	{"one", 0x30, 0, "step", NULL, 0},
	{0},
};

static struct vc_tables tables;
static uint64_t one, two, stack, other_stack;

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(vc_tables_init(&tables), 0);
	/* the module that comes first on stacks is not the first of the table */
	two = build_module(&tables, "/opt/libtwo.so", "two");
	one = build_module(&tables, "/opt/program", "one");
	stack = build_stack(&tables, (struct build_frame[]){
		{two, 0x30}, {one, 0x20}, {one, 0x30}, {0}});
	other_stack = build_stack(&tables, (struct build_frame[]){
		{one, 0x30}, {one, 0x99}, {one, 0x20}, {0}});
	build_process(&tables, 1, "now", 1, 1);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vc_tables_deinit(&tables);
	return 0;
}

static struct vc_pack_count pack(const struct fake_name *known)
{
	struct vc_pack_count count;

	assert_int_equal(vc_packed_make(&tables, fake_resolver(known), &count), 0);
	assert_int_equal(vc_tables_check(&tables, NULL), 0);
	return count;
}

/** One chain by the names in the file alone, written as function@line, comma. */
static void check_chain(uint64_t number, const char *expected)
{
	struct vc_names *names;
	struct vc_chain *chain;
	char text[256] = "";
	uint32_t file;

	assert_int_equal(vc_names_create(fake_resolver(nothing_known), &names), 0);
	assert_int_equal(vc_names_add(names, &tables, &file), 0);
	assert_int_equal(vc_names_want(names, file, number), 0);
	assert_int_equal(vc_names_resolve(names), 0);
	chain = vc_names_chain(names, file, number);
	for (uint32_t i = 0; i < chain->count; i++) {
		const struct vc_frame_name *frame = chain->frames[i];
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s%s@%s:%u", i ? ", " : "",
			 frame->function ? frame->function : "?", frame->file ? frame->file : "?",
			 frame->line);
	}
	assert_string_equal(text, expected);
	vc_names_destroy(names);
}

static void what_is_packed_is_found(void **state)
{
	struct vc_pack_count count = pack(all_known);

	(void)state;
	assert_int_equal(count.addresses, 4);
	assert_int_equal(count.named, 3);
	assert_int_equal(count.with_lines, 2);
	assert_int_equal(count.kept, 0);
	assert_int_equal(tables.rows[VC_TABLE_symbols], 3);
	assert_int_equal(tables.rows[VC_TABLE_symbol_frames], 4);
	assert_int_equal(tables.rows[VC_TABLE_symbol_modules], 2);
	check_chain(stack, "cudaMalloc@?:0, push<int>@/usr/include/vec.h:9, "
			   "forward@/src/train.cc:100, step@/src/train.cc:200");
	check_chain(other_stack, "step@/src/train.cc:200, ?@?:0, push<int>@/usr/include/vec.h:9, "
				 "forward@/src/train.cc:100");
}

static void rows_are_sorted(void **state)
{
	(void)state;
	pack(all_known);
	for (uint64_t row = 1; row < tables.rows[VC_TABLE_symbols]; row++) {
		uint64_t before = vc_value(&tables, VC_COL_symbols_module, row - 1);
		uint64_t module = vc_value(&tables, VC_COL_symbols_module, row);

		assert_true(before < module ||
			    (before == module &&
			     vc_value(&tables, VC_COL_symbols_offset, row - 1) <
				     vc_value(&tables, VC_COL_symbols_offset, row)));
	}
}

static void packing_again_keeps_and_betters(void **state)
{
	struct vc_pack_count count;

	(void)state;
	pack(all_known);
	count = pack(nothing_known);
	assert_int_equal(count.named, 3);
	assert_int_equal(count.kept, 3);
	assert_int_equal(tables.rows[VC_TABLE_symbols], 3);
	assert_int_equal(tables.rows[VC_TABLE_symbol_frames], 4);
	count = pack(better_known);
	assert_int_equal(count.with_lines, 3);
	assert_int_equal(count.kept, 2); /* a name without a line does not replace a line */
	check_chain(stack, "cudaMalloc@/src/runtime.c:77, push<int>@/usr/include/vec.h:9, "
			   "forward@/src/train.cc:100, step@/src/train.cc:200");
}

static void without_resolver_nothing_is_named(void **state)
{
	struct vc_names *names;
	uint32_t file;

	(void)state;
	pack(all_known);
	assert_int_equal(vc_names_create(NULL, &names), 0);
	assert_int_equal(vc_names_add(names, &tables, &file), 0);
	assert_int_equal(vc_names_want(names, file, stack), 0);
	assert_int_equal(vc_names_resolve(names), 0);
	assert_int_equal(vc_names_count(names).frames, 3);
	assert_int_equal(vc_names_count(names).named, 0);
	vc_names_destroy(names);
}

/* The same program in a file that is not packed: by build-id it is the same code. */
static void names_serve_other_files(void **state)
{
	struct vc_tables plain;
	struct vc_names *names;
	uint64_t module, plain_stack;
	struct vc_chain *chain;
	uint32_t file;

	(void)state;
	pack(all_known);
	assert_int_equal(vc_tables_init(&plain), 0);
	module = build_module(&plain, "/elsewhere/program", "one");
	plain_stack = build_stack(&plain, (struct build_frame[]){{module, 0x30}, {0}});
	assert_int_equal(vc_names_create(fake_resolver(nothing_known), &names), 0);
	assert_int_equal(vc_names_add(names, &plain, &file), 0);
	assert_int_equal(vc_names_add(names, &tables, &file), 0);
	assert_int_equal(vc_names_want(names, 0, plain_stack), 0);
	assert_int_equal(vc_names_resolve(names), 0);
	chain = vc_names_chain(names, 0, plain_stack);
	assert_int_equal(chain->count, 1);
	assert_string_equal(chain->frames[0]->function, "step");
	assert_int_equal(chain->frames[0]->line, 200);
	vc_names_destroy(names);
	vc_tables_deinit(&plain);
}

/* Rows out of order, endless repetition of one module: nothing worse than a name that is missing. */
static void hostile_rows(void **state)
{
	struct vc_packed_run run;

	(void)state;
	pack(all_known);
	for (int i = 0; i < 100000; i++)
		build_set(&tables, VC_COL_symbol_modules_module,
			  build_row(&tables, VC_TABLE_symbol_modules), one);
	build_set(&tables, VC_COL_symbols_module, 0, 7);
	assert_false(vc_packed_find(&tables, two, 0x30, &run));
	check_chain(stack, "?@?:0, push<int>@/usr/include/vec.h:9, forward@/src/train.cc:100, "
			   "step@/src/train.cc:200");
}

static const char *lacks(void *context, uint32_t module, const char **ret_detail)
{
	(void)context;
	*ret_detail = "details";
	return module + 1 == one ? "because" : NULL;
}

static void what_is_lacking_is_said(void **state)
{
	struct vc_resolver resolver = *fake_resolver(all_known);
	struct vc_names_lack lack;
	struct vc_pack_count count;
	struct vc_names *names;
	uint32_t file;

	(void)state;
	resolver.lacks = lacks;
	assert_int_equal(vc_packed_make(&tables, &resolver, &count), 0);
	assert_int_equal(vc_names_create(fake_resolver(nothing_known), &names), 0);
	assert_int_equal(vc_names_add(names, &tables, &file), 0);
	assert_int_equal(vc_names_lacks(names, &lack, 1), 1);
	assert_string_equal(lack.module, "/opt/program");
	assert_string_equal(lack.why, "because");
	assert_string_equal(lack.detail, "details");
	vc_names_destroy(names);
	/* found in full later: it is not said any more */
	assert_int_equal(vc_packed_make(&tables, fake_resolver(all_known), &count), 0);
	assert_int_equal(vc_names_create(fake_resolver(nothing_known), &names), 0);
	assert_int_equal(vc_names_add(names, &tables, &file), 0);
	assert_int_equal(vc_names_lacks(names, &lack, 1), 0);
	vc_names_destroy(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_packed_is_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(rows_are_sorted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(packing_again_keeps_and_betters, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_resolver_nothing_is_named, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(names_serve_other_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(hostile_rows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_lacking_is_said, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
