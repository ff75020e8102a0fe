/* SPDX-License-Identifier: Apache-2.0 */
/* A native and a Python stack of one call as one chain, and names of frames that nobody wrote. */
#include "tests/unit/analyze/cmocka.h"

#include "analyze/names.h"
#include "analyze/text.h"
#include "tests/unit/analyze/builder.h"
#include "tests/unit/analyze/fake_names.h"

static const struct fake_name known[] = {
	{"ext", 0x10, 0, "Pool::get(unsigned long)", "/src/ext/pool.cc", 88},
	{"tor", 0x20, 0, "at::empty", NULL, 0},
	{"lib", 0x30, 0, "qsort", NULL, 0},
	{0},
};

static struct vc_tables tables;
static struct vc_names *names;
static uint64_t extension, torch, libc, interpreter, program;

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(vc_tables_init(&tables), 0);
	extension = build_module(&tables, "/app/ext.so", "ext");
	torch = build_module(&tables, "/lib/libtorch_cpu.so", "tor");
	libc = build_module(&tables, "/lib/libc.so.6", "lib");
	interpreter = build_module(&tables, "/usr/lib/libpython3.12.so.1.0", "pyt");
	program = build_module(&tables, "/app/embeds", "emb");
	assert_int_equal(vc_names_create(fake_resolver(known), &names), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vc_names_destroy(names);
	vc_tables_deinit(&tables);
	return 0;
}

struct source {
	const char *function, *file;
	uint64_t line, entry;
};

/** Row of source_stacks plus 1. */
static uint64_t python(const struct source *frames)
{
	uint64_t stack = build_row(&tables, VC_TABLE_source_stacks), count = 0;

	build_set(&tables, VC_COL_source_stacks_first, stack, tables.rows[VC_TABLE_source_lists]);
	for (; frames[count].function; count++) {
		uint64_t frame = build_row(&tables, VC_TABLE_source_frames);
		uint64_t at = build_row(&tables, VC_TABLE_source_lists);

		build_text(&tables, VC_COL_source_frames_function, frame, frames[count].function);
		build_text(&tables, VC_COL_source_frames_file, frame, frames[count].file);
		build_set(&tables, VC_COL_source_frames_line, frame, frames[count].line);
		build_set(&tables, VC_COL_source_lists_frame, at, frame + 1);
		build_set(&tables, VC_COL_source_lists_entry, at, frames[count].entry);
	}
	build_set(&tables, VC_COL_source_stacks_count, stack, count);
	return stack + 1;
}

static void eval(uint64_t module, uint64_t low, uint64_t high)
{
	uint64_t row = build_row(&tables, VC_TABLE_python_code);

	build_set(&tables, VC_COL_python_code_module, row, module);
	build_set(&tables, VC_COL_python_code_low, row, low);
	build_set(&tables, VC_COL_python_code_high, row, high);
}

static struct vc_chain *chain_of(uint64_t native, uint64_t stack)
{
	uint64_t reference = vc_stack_reference(&tables, native, stack);
	uint32_t file;

	assert_int_equal(vc_names_add(names, &tables, &file), 0);
	assert_int_equal(vc_names_want(names, file, reference), 0);
	assert_int_equal(vc_names_want(names, file, reference), 0);
	assert_int_equal(vc_names_resolve(names), 0);
	assert_true(vc_names_place(names, file, reference) < vc_names_places(names, file));
	return vc_names_chain(names, file, reference);
}

static void written_as(const struct vc_chain *chain, const char *expected)
{
	struct vc_text text = {0};

	vc_chain_text(&text, chain, NULL);
	assert_string_equal(vc_text_get(&text), expected);
	vc_text_deinit(&text);
}

static void functions_are(const struct vc_chain *chain, const char *const *expected)
{
	uint32_t i = 0;

	for (; expected[i]; i++) {
		assert_true(i < chain->count);
		assert_string_equal(chain->frames[i]->function ? chain->frames[i]->function : "-",
				    expected[i]);
	}
	assert_int_equal(chain->count, i);
}

/* Python calls C calls Python calls C: each call of the interpreter is one native frame. */
static void test_alternate(void **state)
{
	uint64_t native = build_stack(&tables, (const struct build_frame[]){
		{torch, 0x20}, {interpreter, 0x900}, {interpreter, 0x150}, {libc, 0x30},
		{interpreter, 0x200}, {interpreter, 0x901}, {program, 0x70}, {0, 0}});
	uint64_t stack = python((const struct source[]){
		{"inner", "/app/a.py", 1, 0}, {"callback", "/app/a.py", 2, 1},
		{"outer", "/app/a.py", 3, 0}, {"<module>", "/app/a.py", 4, 1}, {0}});

	(void)state;
	eval(interpreter, 0x100, 0x200); /* a return address may be one past it */
	functions_are(chain_of(native, stack),
		      (const char *const[]){"at::empty", "inner", "callback", "qsort", "outer",
					    "<module>", "-", NULL});
	written_as(vc_names_chain(names, 0, vc_stack_reference(&tables, native, stack)),
		   "/app/a.py:1  inner  <- callback  <- outer  <- a.py:4 <module>");
}

/* A file that does not say which code runs Python: all of it where the interpreter comes first. */
static void test_not_known_where(void **state)
{
	uint64_t native = build_stack(&tables, (const struct build_frame[]){
		{extension, 0x10}, {interpreter, 0x150}, {libc, 0x30}, {interpreter, 0x160}, {0, 0}});
	uint64_t stack = python((const struct source[]){
		{"step", "/app/train.py", 7, 1}, {"<module>", "/app/train.py", 9, 1}, {0}});
	const struct vc_chain *chain = chain_of(native, stack);

	(void)state;
	functions_are(chain, (const char *const[]){"Pool::get(unsigned long)", "step", "<module>",
						   "qsort", NULL});
	assert_int_equal(chain->user, 1);
	assert_int_equal(chain->native_user, 1);
	written_as(chain, "/app/train.py:7  step (in Pool::get pool.cc:88)  <- train.py:9 <module>");
}

/* A native stack that was cut has fewer calls of the interpreter: what is left comes last. */
static void test_cut(void **state)
{
	uint64_t native = build_stack(&tables, (const struct build_frame[]){
		{torch, 0x20}, {interpreter, 0x150}, {0, 0}});
	uint64_t stack = python((const struct source[]){
		{"a", "/app/a.py", 1, 1}, {"b", "/app/a.py", 2, 1}, {"c", "/app/a.py", 3, 1}, {0}});

	(void)state;
	eval(interpreter, 0x100, 0x200);
	functions_are(chain_of(native, stack),
		      (const char *const[]){"at::empty", "a", "b", "c", NULL});
}

/* Out of range, and columns that a damaged file may lack. */
static void test_damage(void **state)
{
	uint64_t native = build_stack(&tables, (const struct build_frame[]){
		{interpreter, 0x150}, {0, 0}});
	uint64_t stack = python((const struct source[]){{"a", "/app/a.py", 1, 1}, {0}});

	(void)state;
	eval(999, 0, UINT64_MAX);
	assert_int_equal(chain_of(native, stack)->count, 1);
	assert_int_equal(vc_names_want(names, 0, UINT64_C(77) << 32 | native), 0);
	assert_int_equal(vc_names_want(names, 0, stack << 32 | 77), 0);
	assert_int_equal(vc_names_resolve(names), 0);
	assert_int_equal(vc_names_chain(names, 0, UINT64_C(77) << 32 | native)->count, 0);
	assert_int_equal(vc_names_chain(names, 0, stack << 32 | 77)->count, 0);
	assert_int_equal(vc_names_place(names, 0, stack << 32 | 77), 0);
}

static void named(const char *function, const char *file, enum vc_owner owner,
		  const char *expected)
{
	uint64_t stack, reference, cell;
	uint32_t number;

	set_up(NULL); /* tables do not change once names know them */
	cell = build_row(&tables, VC_TABLE_framework);
	build_text(&tables, VC_COL_framework_key, cell, "cell /tmp/ipykernel_4711/77.py");
	build_text(&tables, VC_COL_framework_value, cell, "12");
	stack = python((const struct source[]){{function, file, 5, 0}, {0}});
	reference = vc_stack_reference(&tables, 0, stack);
	assert_int_equal(vc_names_add(names, &tables, &number), 0);
	assert_int_equal(vc_names_want(names, number, reference), 0);
	assert_int_equal(vc_names_resolve(names), 0);
	assert_int_equal(vc_names_chain(names, number, reference)->frames[0]->owner, owner);
	written_as(vc_names_chain(names, number, reference), expected);
	tear_down(NULL);
}

static void test_made_up_files(void **state)
{
	(void)state;
	named("<module>", "<ipython-input-12-0a1b2c>", VC_OWNER_USER, "cell In[12]:5  <module>");
	named("fit", "/tmp/ipykernel_4711/3054209.py", VC_OWNER_USER, "cell 3054209:5  fit");
	named("fit", "/tmp/ipykernel_4711/77.py", VC_OWNER_USER, "cell In[12]:5  fit");
	named("fit", "/tmp/ipykernel_4711/7.py", VC_OWNER_USER, "cell 7:5  fit");
	named("forward", "<eval_with_key>.3", VC_OWNER_LIBRARY,
	      "<eval_with_key>.3:5  forward (compiled code)");
	named("call", "/tmp/torchinductor_me/ab/cab.py", VC_OWNER_LIBRARY,
	      "tmp/torchinductor_me/ab/cab.py:5  call (compiled code)");
	named("kernel", "/home/me/.triton/cache/x/k.py", VC_OWNER_LIBRARY,
	      ".triton/cache/x/k.py:5  kernel (compiled code)");
	named("torch_dynamo_resume_in_train_at_step_at_42", "/app/t.py", VC_OWNER_USER,
	      "/app/t.py:5  train_at_step [compiled, from line 42 on]");
	named("launch", "/x/lib/python3.12/site-packages/triton/runtime/jit.py", VC_OWNER_LIBRARY,
	      "site-packages/triton/runtime/jit.py:5  launch (triton)");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_alternate, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_not_known_where, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cut, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
		cmocka_unit_test(test_made_up_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
