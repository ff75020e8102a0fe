/* SPDX-License-Identifier: Apache-2.0 */
/* Functions, lines and inlined chains of programs built by several compilers, and the session. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyze/demangle.h"
#include "formats/error.h"

struct variant {
	const char *name, *c, *cc, *flags;
};

static const struct variant variants[] = {
	{"gcc4", "gcc", "g++", "-gdwarf-4"},
	{"gcc5", "gcc", "g++", "-gdwarf-5"},
	{"clang4", "clang", "clang++", "-gdwarf-4"},
	{"clang5", "clang", "clang++", "-gdwarf-5"},
	{"gcc_compressed", "gcc", "g++", "-g -gz=zlib"},
	{"gcc_zstd", "gcc", "g++", "-gdwarf-5 -Wl,--compress-debug-sections=zstd"},
	{"gcc_split4", "gcc", "g++", "-gdwarf-4 -gsplit-dwarf"},
	{"gcc_split5", "gcc", "g++", "-gdwarf-5 -gsplit-dwarf"},
	{"gcc_lto", "gcc", "g++", "-g -flto=1"},
};

static void check_c(const struct variant *variant)
{
	struct answer answer;

	build(variant->c, "chain.c", "chain", variant->flags);
	answer = ask(NULL, "chain", NULL, marked_offset("chain", "chain"));
	assert_int_equal(answer.symbol.source, VC_SYMBOL_DEBUG);
	assert_int_equal(answer.symbol.count, 3);
	check_frame(&answer, 0, "innermost", "chain.c", "innermost");
	check_frame(&answer, 1, "middle", "chain.c", "middle");
	check_frame(&answer, 2, "outer", "chain.c", "outer");
	assert_int_equal(answer.report.state, VC_MODULE_DEBUG);
	assert_string_equal(answer.report.debug_path, "chain");
	answer_end(&answer);

	answer = ask(NULL, "chain", build_id_of("chain"), marked_offset("chain", "main"));
	assert_int_equal(answer.symbol.count, 1);
	check_frame(&answer, 0, "main", "chain.c", "main");
	assert_true(answer.report.verified);
	assert_string_equal(answer.report.detail, "");
	answer_end(&answer);
}

static void check_cc(const struct variant *variant)
{
	struct answer answer;

	build(variant->cc, "templates.cc", "templates", variant->flags);
	answer = ask(NULL, "templates", NULL, marked_offset("templates", "template"));
	assert_int_equal(answer.symbol.count, 2);
	check_frame(&answer, 0, "holder<double>::grow(int)", "templates.cc", "grow");
	check_frame(&answer, 1, "double* fill<double, 3>(holder<double>&)", "templates.cc", "fill");
	assert_string_equal(answer.symbol.frames[1].linkage_name, "_Z4fillIdLi3EEPT_R6holderIS0_E");
	answer_end(&answer);

	answer = ask(NULL, "templates", NULL, marked_offset("templates", "local"));
	check_frame(&answer, answer.symbol.count - 1, "outer::inner::nested()::local::method()",
		    "templates.cc", "method");
	answer_end(&answer);

	answer = ask(NULL, "templates", NULL, marked_offset("templates", "hidden"));
	assert_int_equal(answer.symbol.count, 1);
	check_frame(&answer, 0,
		    "(anonymous namespace)::helper((anonymous namespace)::hidden const&)",
		    "templates.cc", "helper");
	answer_end(&answer);
}

/*
 * The compilers name a lambda differently, and gcc gives an inlined function of an unnamed
 * namespace no linkage name; so places are compared, and only parts of names.
 */
static void check_lambda(const char *mark)
{
	struct answer answer = ask(NULL, "templates", NULL, marked_offset("templates", mark));
	const struct vc_source_frame *frames = answer.symbol.frames;

	assert_int_equal(answer.symbol.count, 2);
	assert_non_null(strstr(frames[0].function, "in_lambda"));
	assert_int_equal(frames[0].line, marked_line("templates.cc", "in_lambda"));
	assert_int_equal(frames[1].line, marked_line("templates.cc", mark));
	assert_string_equal(frames[1].file, source_path("templates.cc"));
	assert_non_null(frames[1].function);
	assert_non_null(strstr(frames[1].function, "operator()"));
	answer_end(&answer);
}

static void test_chains(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		if (!have_tool(variants[i].c) || !have_tool(variants[i].cc))
			continue;
		printf("variant %s\n", variants[i].name);
		enter_directory(variants[i].name);
		check_c(&variants[i]);
		check_cc(&variants[i]);
		check_lambda("lambda");
		check_lambda("in_block");
	}
}

/* A relative name of a source and relative include directories come out as one clean path. */
static void test_paths_are_clean(void **state)
{
	struct answer answer;

	(void)state;
	enter_directory("paths");
	run("mkdir -p deep/er && cp '%s' chain.c", source_path("chain.c"));
	run("cp '%s' mark.h", source_path("mark.h"));
	for (int version = 4; version <= 5; version++) {
		run("cd deep/er && gcc -w -O2 -fPIE -pie -DVC_PIE=1 -gdwarf-%d "
		    "-o ../../chain .././../chain.c",
		    version);
		run("./chain > chain.marks");
		answer = ask(NULL, "chain", NULL, marked_offset("chain", "plain"));
		assert_string_equal(answer.symbol.frames[0].file, VC_TEST_BUILD "/paths/chain.c");
		answer_end(&answer);
	}
}

struct progress {
	uint64_t calls, done, total;
};

static void count_progress(void *context, uint64_t done, uint64_t total)
{
	struct progress *progress = context;

	assert_true(done >= progress->done && done <= total);
	*progress = (struct progress){progress->calls + 1, done, total};
}

static void test_session(void **state)
{
	struct vc_module_key chain = {.path = "chain"}, gone = {.path = "/nowhere/gone.so"};
	struct progress progress = {0};
	struct vc_symbols *symbols;
	struct vc_module_report report;
	struct vc_symbol symbol;
	uint64_t plain, whole;

	(void)state;
	enter_directory("session");
	build("gcc", "chain.c", "chain", "-g");
	plain = marked_offset("chain", "plain");
	whole = marked_offset("chain", "main");
	assert_int_equal(vc_symbols_create(NULL, &symbols), 0);
	assert_int_equal(vc_symbols_resolve(symbols, NULL, NULL), 0); /* nothing to do */
	assert_int_equal(vc_symbols_want(symbols, 9, &gone, 0x123), 0);
	assert_int_equal(vc_symbols_want(symbols, 2, &chain, plain), 0);
	assert_int_equal(vc_symbols_want(symbols, 2, &chain, plain), 0);
	assert_int_equal(vc_symbols_want(symbols, 2, NULL, 0), 0);
	assert_int_equal(vc_symbols_get(symbols, 2, plain, &symbol), VC_E_NOT_FOUND);
	assert_int_equal(vc_symbols_module_report(symbols, 2, &report), VC_E_NOT_FOUND);
	assert_int_equal(vc_symbols_resolve(symbols, count_progress, &progress), 0);
	assert_true(progress.calls >= 2);
	assert_int_equal(progress.done, 3);
	assert_int_equal(progress.total, 3);

	assert_int_equal(vc_symbols_get(symbols, 2, plain, &symbol), 0);
	assert_string_equal(symbol.frames[0].function, "plain");
	assert_int_equal(vc_symbols_get(symbols, 2, 0, &symbol), 0);
	assert_string_equal(symbol.frames[0].function, "chain+0x0");
	assert_int_equal(symbol.source, VC_SYMBOL_OFFSET);
	assert_int_equal(vc_symbols_get(symbols, 9, 0x123, &symbol), 0);
	assert_string_equal(symbol.frames[0].function, "gone.so+0x123");
	assert_int_equal(vc_symbols_get(symbols, 2, whole, &symbol), VC_E_NOT_FOUND);
	assert_int_equal(vc_symbols_get(symbols, 3, plain, &symbol), VC_E_NOT_FOUND);

	/* A second round keeps the answers of the first. */
	assert_int_equal(vc_symbols_want(symbols, 2, &chain, whole), 0);
	assert_int_equal(vc_symbols_resolve(symbols, NULL, NULL), 0);
	assert_int_equal(vc_symbols_get(symbols, 2, whole, &symbol), 0);
	assert_string_equal(symbol.frames[0].function, "main");
	assert_int_equal(vc_symbols_get(symbols, 2, plain, &symbol), 0);
	assert_string_equal(symbol.frames[0].function, "plain");
	assert_int_equal(vc_symbols_module_report(symbols, 2, &report), 0);
	assert_int_equal(report.by_source[VC_SYMBOL_DEBUG], 2);
	assert_int_equal(report.by_source[VC_SYMBOL_OFFSET], 1);
	vc_symbols_destroy(symbols);
	vc_symbols_destroy(NULL);
}

/* Back-reference number `index` as it is written in a name. */
static void append_reference(char *name, unsigned index)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t length = strlen(name);

	if (index == 0)
		sprintf(name + length, "S_");
	else if (index <= 36)
		sprintf(name + length, "S%c_", digits[index - 1]);
	else
		sprintf(name + length, "S%c%c_", digits[(index - 1) / 36],
			digits[(index - 1) % 36]);
}

static void test_demangle(void **state)
{
	char bomb[2048] = "_Z1f1aIiiE", *text;
	clock_t start = clock();

	(void)state;
	text = vc_demangle("_ZN5outer4poolIdLi3EE4takeEm");
	assert_string_equal(text, "outer::pool<double, 3>::take(unsigned long)");
	free(text);
	assert_null(vc_demangle(NULL));
	assert_null(vc_demangle("main"));
	assert_null(vc_demangle("_Z"));
	assert_null(vc_demangle("_ZN5outer"));
	/* Doubles with every step: 2^60 letters in the end. */
	for (unsigned i = 1; i <= 60; i++) {
		strcat(bomb, "S_I");
		append_reference(bomb, i);
		append_reference(bomb, i);
		strcat(bomb, "E");
	}
	assert_null(vc_demangle(bomb));
	assert_true(clock() - start < CLOCKS_PER_SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_demangle),
		cmocka_unit_test(test_session),
		cmocka_unit_test(test_paths_are_clean),
		cmocka_unit_test(test_chains),
	};

	if (!have_tool("gcc") || !have_tool("g++") || !have_tool("readelf"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
