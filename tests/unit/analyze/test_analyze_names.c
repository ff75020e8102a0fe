/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as people know them: whose code, which keys are equal, how they are written. */
#include "tests/unit/analyze/cmocka.h"

#include "analyze/names.h"
#include "analyze/text.h"
#include "tests/unit/analyze/builder.h"
#include "tests/unit/analyze/fake_names.h"

/* The same program built twice: other offsets, another build-id, equal lines. */
static const struct fake_name names_known[] = {
	{"old", 0x10, 0, "pool_get", "/src/pool.c", 30},
	{"old", 0x11, 0, "pool_get", "/src/pool.c", 44},
	{"old", 0x20, 0, "push<int>", "/usr/include/c++/12/vec.h", 9},
	{"old", 0x20, 1, "void ns::Model<float>::forward(int, char) const", "/src/app/train.cc",
	 100},
	{"old", 0x30, 0, "step", "/src/app/train.cc", 200},
	{"old", 0x40, 0, "main", "/src/app/main.cc", 7},
	{"old", 0x50, 0, "cudaMalloc", NULL, 0},
	{"new", 0x110, 0, "pool_get", "/other/place/pool.c", 30},
	{"new", 0x120, 0, "push<int>", "/usr/include/c++/12/vec.h", 9},
	{"new", 0x120, 1, "void ns::Model<float>::forward(int, char) const", "/src/app/train.cc",
	 100},
	{"new", 0x130, 0, "step", "/src/app/train.cc", 200},
	{"new", 0x131, 0, "step", "/src/app/train.cc", 201},
	{"new", 0x140, 0, "main", "/src/app/main.cc", 7},
	{0},
};

static struct vc_tables first, second;
static struct vc_names *names;
static uint64_t old_module, new_module, driver, blas_1, blas_2, unknown;

static int set_up(void **state)
{
	uint32_t file;

	(void)state;
	assert_int_equal(vc_tables_init(&first), 0);
	assert_int_equal(vc_tables_init(&second), 0);
	old_module = build_module(&first, "/a/prog", "old");
	driver = build_module(&first, "/usr/lib/libcuda.so.1", "drv");
	blas_1 = build_module(&first, "/usr/lib/libcublas.so.12", "b12");
	unknown = build_module(&first, "/opt/libfoo.so", "foo");
	build_module(&second, "/tmp/padding", "pad"); /* other numbers for modules */
	new_module = build_module(&second, "/a/prog", "new");
	blas_2 = build_module(&second, "/usr/lib/libcublas.so.13", "b13");
	assert_int_equal(vc_names_create(fake_resolver(names_known), &names), 0);
	(void)file;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	vc_names_destroy(names);
	vc_tables_deinit(&first);
	vc_tables_deinit(&second);
	return 0;
}

/** Adds the tables once all stacks are in; names all stacks. */
static void resolve_all(void)
{
	const struct vc_tables *tables[] = {&first, &second};

	for (unsigned i = 0; i < 2; i++) {
		uint32_t file;

		assert_int_equal(vc_names_add(names, tables[i], &file), 0);
		assert_int_equal(file, i);
		for (uint64_t row = 0; row < tables[i]->rows[VC_TABLE_stacks]; row++)
			assert_int_equal(vc_names_want(names, file, row + 1), 0);
	}
	assert_int_equal(vc_names_resolve(names), 0);
}

static void written_as(const struct vc_chain *chain, const char *expected)
{
	struct vc_path_prefix prefix = {0};
	struct vc_text text = {0};

	vc_path_prefix_add(&prefix, chain);
	vc_chain_text(&text, chain, &prefix);
	assert_string_equal(vc_text_get(&text), expected);
	vc_text_deinit(&text);
	vc_path_prefix_deinit(&prefix);
}

static void test_user_code(void **state)
{
	uint64_t stack = build_stack(&first, (const struct build_frame[]){
		{driver, 1}, {old_module, 0x50}, {old_module, 0x20}, {old_module, 0x30},
		{old_module, 0x40}, {0, 0}});
	const struct vc_chain *chain;

	(void)state;
	resolve_all();
	chain = vc_names_chain(names, 0, stack);
	assert_int_equal(chain->count, 6); /* one address holds two functions */
	assert_int_equal(chain->frames[0]->owner, VC_OWNER_DRIVER);
	assert_int_equal(chain->frames[1]->owner, VC_OWNER_DRIVER); /* linked statically */
	assert_int_equal(chain->frames[2]->owner, VC_OWNER_SYSTEM); /* an inlined template of C++ */
	assert_int_equal(chain->frames[3]->owner, VC_OWNER_USER);
	assert_int_equal(chain->user, 3);
	assert_true(chain->has_user);
	written_as(chain, "app/train.cc:100  ns::Model<float>::forward  <- step"
			  "  <- main.cc:7 main");
	assert_int_equal(vc_names_count(names).frames, 5);
	assert_int_equal(vc_names_count(names).named, 4);
}

static void test_rebuild(void **state)
{
	uint64_t old = build_stack(&first, (const struct build_frame[]){
		{old_module, 0x10}, {old_module, 0x20}, {old_module, 0x30}, {old_module, 0x40},
		{0, 0}});
	uint64_t same = build_stack(&second, (const struct build_frame[]){
		{new_module, 0x110}, {new_module, 0x120}, {new_module, 0x130}, {new_module, 0x140},
		{0, 0}});
	uint64_t other = build_stack(&second, (const struct build_frame[]){
		{new_module, 0x110}, {new_module, 0x120}, {new_module, 0x131}, {new_module, 0x140},
		{0, 0}});
	uint64_t key;

	(void)state;
	resolve_all();
	key = vc_chain_key(vc_names_chain(names, 0, old), 0);
	assert_int_not_equal(key, 0);
	assert_true(key == vc_chain_key(vc_names_chain(names, 1, same), 0));
	assert_false(key == vc_chain_key(vc_names_chain(names, 1, other), 0)); /* line 201 */
	/* of the two innermost user functions the line of the third does not count */
	assert_true(vc_chain_key(vc_names_chain(names, 0, old), 2) ==
		    vc_chain_key(vc_names_chain(names, 1, other), 2));
}

static void test_library(void **state)
{
	uint64_t twelve = build_stack(&first, (const struct build_frame[]){
		{driver, 9}, {blas_1, 0x900}, {blas_1, 0x800}, {old_module, 0x30},
		{old_module, 0x40}, {0, 0}});
	uint64_t thirteen = build_stack(&second, (const struct build_frame[]){
		{blas_2, 0x1}, {new_module, 0x130}, {new_module, 0x140}, {0, 0}});
	uint64_t direct = build_stack(&second, (const struct build_frame[]){
		{new_module, 0x130}, {new_module, 0x140}, {0, 0}});
	uint64_t alone = build_stack(&first, (const struct build_frame[]){
		{driver, 9}, {blas_1, 0x900}, {0, 0}});

	(void)state;
	resolve_all();
	assert_true(vc_chain_key(vc_names_chain(names, 0, twelve), 0) ==
		    vc_chain_key(vc_names_chain(names, 1, thirteen), 0));
	assert_false(vc_chain_key(vc_names_chain(names, 1, direct), 0) ==
		     vc_chain_key(vc_names_chain(names, 1, thirteen), 0));
	written_as(vc_names_chain(names, 0, twelve),
		   "app/train.cc:200  step (in cuBLAS)  <- main.cc:7 main");
	assert_false(vc_names_chain(names, 0, alone)->has_user);
	assert_int_equal(vc_names_chain(names, 0, alone)->user, 1);
	written_as(vc_names_chain(names, 0, alone), "libcublas.so.12+0x900 (cuBLAS)");
}

static void test_unnamed(void **state)
{
	uint64_t a = build_stack(&first, (const struct build_frame[]){{unknown, 0x77}, {0, 0}});
	uint64_t b = build_stack(&first, (const struct build_frame[]){{unknown, 0x78}, {0, 0}});
	uint64_t none = build_stack(&first, (const struct build_frame[]){{0, 0}});

	(void)state;
	resolve_all();
	assert_false(vc_chain_key(vc_names_chain(names, 0, a), 0) ==
		     vc_chain_key(vc_names_chain(names, 0, b), 0));
	written_as(vc_names_chain(names, 0, a), "libfoo.so+0x77");
	written_as(vc_names_chain(names, 0, none), "(no stack)");
	written_as(vc_names_chain(names, 0, 0), "(no stack)");
	written_as(vc_names_chain(names, 0, 999), "(no stack)");
}

/* All blocks come through pool_get, by two lines of it, for three callers: those are the sites. */
static void test_common(void **state)
{
	uint64_t a = build_stack(&first, (const struct build_frame[]){
		{old_module, 0x10}, {old_module, 0x30}, {old_module, 0x40}, {0, 0}});
	uint64_t b = build_stack(&first, (const struct build_frame[]){
		{old_module, 0x11}, {old_module, 0x20}, {old_module, 0x40}, {0, 0}});
	uint64_t c = build_stack(&first, (const struct build_frame[]){
		{old_module, 0x11}, {old_module, 0x40}, {0, 0}});
	struct vc_chain *chains[3];

	(void)state;
	resolve_all();
	chains[0] = vc_names_chain(names, 0, a);
	chains[1] = vc_names_chain(names, 0, b);
	chains[2] = vc_names_chain(names, 0, c);
	assert_int_equal(vc_names_common((struct vc_chain *const[]){chains[0]}, 1), 0);
	assert_int_equal(chains[0]->shown, 0); /* one stack has nothing in common */
	assert_int_equal(vc_names_common(chains, 3), 1);
	assert_int_equal(chains[0]->shown, 1);
	assert_int_equal(chains[1]->shown, 2); /* past the inlined template as well */
	written_as(chains[0], "app/train.cc:200  step  <- main.cc:7 main");
}

/* One function allocates everything, in two lines, and has one caller: it is what is shown. */
static void test_common_busy_function(void **state)
{
	uint64_t a = build_stack(&first, (const struct build_frame[]){
		{old_module, 0x10}, {old_module, 0x40}, {0, 0}});
	uint64_t b = build_stack(&first, (const struct build_frame[]){
		{old_module, 0x11}, {old_module, 0x40}, {0, 0}});
	struct vc_chain *chains[2];

	(void)state;
	resolve_all();
	chains[0] = vc_names_chain(names, 0, a);
	chains[1] = vc_names_chain(names, 0, b);
	assert_int_equal(vc_names_common(chains, 2), 0);
	assert_int_equal(chains[0]->shown, 0);
	assert_int_equal(chains[1]->shown, 0);
}

/* Nothing is left of a stack that is all allocator: then it is shown from its start. */
static void test_common_keeps_last(void **state)
{
	uint64_t a = build_stack(&first, (const struct build_frame[]){{old_module, 0x10}, {0, 0}});
	uint64_t b = build_stack(&first, (const struct build_frame[]){
		{old_module, 0x11}, {old_module, 0x30}, {0, 0}});
	struct vc_chain *chains[2];

	(void)state;
	resolve_all();
	chains[0] = vc_names_chain(names, 0, a);
	chains[1] = vc_names_chain(names, 0, b);
	assert_int_equal(vc_names_common(chains, 2), 0);
	assert_int_equal(chains[1]->shown, 0);
}

/* Functions as C++ writes them, and as they are shown. */
static void test_functions(void **state)
{
	static const struct {
		const char *demangled, *shown;
	} cases[] = {
		{"plain", "plain"},
		{"f(int, char const*)", "f"},
		{"int ns::g<float, 3>(std::vector<int> const&)", "ns::g<float, 3>"},
		{"(anonymous namespace)::h(int)", "(anonymous namespace)::h"},
		{"main::{lambda(int)#1}::operator()(int) const",
		 "main::{lambda(int)#1}::operator()"},
		{"A::operator<(A const&) const", "A::operator<"},
		{"operator new(unsigned long)", "operator new"},
		{"std::map<std::__cxx11::basic_string<char>, std::vector<int>>::find(int)",
		 "std::map<>::find"},
		{"broken<<<(", "broken<<<("},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct vc_frame_name frame = {.function = cases[i].demangled, .file = "b.cc",
						    .line = 1, .module = "/m", .build_id = ""};
		struct vc_text text = {0};

		vc_frame_text(&text, &frame, NULL);
		assert_memory_equal(vc_text_get(&text), "b.cc:1  ", 8);
		assert_string_equal(vc_text_get(&text) + 8, cases[i].shown);
		vc_text_deinit(&text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions),
		cmocka_unit_test_setup_teardown(test_user_code, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_rebuild, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_library, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unnamed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_common, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_common_busy_function, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_common_keeps_last, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
