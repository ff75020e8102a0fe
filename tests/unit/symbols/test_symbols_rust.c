/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of Rust: those of the specification (RFC 2603) and its test vectors, those of a program
 * built here as another demangler writes them, and hostile ones.
 */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "analyze/demangle.h"
#include "analyze/demangle_rust.h"

static void check_name(const char *name, const char *expected)
{
	char *found = vc_demangle(name);

	if (!found)
		fail_msg("%s: refused", name);
	assert_string_equal(found, expected);
	free(found);
}

static void test_v0(void **state)
{
	(void)state;
	check_name("_RNvC6_123foo3bar", "123foo::bar");
	check_name("_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
		   "utf8_idents::\u10e1\u10d0\u10ed\u10db\u10d4\u10da\u10d0\u10d3_\u10d2\u10d4"
		   "\u10db\u10e0\u10d8\u10d4\u10da\u10d8_\u10e1\u10d0\u10d3\u10d8\u10da\u10d8");
	check_name("_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}");
	check_name("_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator8"
		   "Iterator9rpositionNCNgNpB9_6memchr7memrchrs_0E0Bb_",
		   "<core::slice::Iter<u8> as core::iter::iterator::Iterator>::rposition::<core::"
		   "slice::memchr::memrchr::{closure#1}>::{closure#0}");
	check_name("_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_E"
		   "Cs1iopQbuBiw2_3std",
		   "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>");
	check_name("_RNvMC0INtC8arrayvec8ArrayVechKj7b_E3new",
		   "<arrayvec::ArrayVec<u8, 123>>::new");
	check_name("_RMCs4fqI2P2rA04_13const_genericINtB0_6SignedKanb_E",
		   "<const_generic::Signed<-11>>");
	check_name("_RMCs4fqI2P2rA04_13const_genericINtB0_4BoolKb1_E",
		   "<const_generic::Bool<true>>");
	check_name("_RMCs4fqI2P2rA04_13const_genericINtB0_4CharKca_E",
		   "<const_generic::Char<'\\n'>>");
	check_name("_RMCs4fqI2P2rA04_13const_genericINtB0_4CharKc2202_E",
		   "<const_generic::Char<'\u2202'>>");
	check_name("_RNvNvMCs4fqI2P2rA04_13const_genericINtB4_3FooKpE3foo3FOO",
		   "<const_generic::Foo<_>>::foo::FOO");
	check_name("_RC3foo.llvm.9D1C9369", "foo");
}

static void test_older(void **state)
{
	(void)state;
	check_name("_ZN13test$u20$test4foob17h05af221e174051e9E", "test test::foob");
	check_name("_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
		   "3bar17h930b740aa94f1d3aE",
		   "<Test + 'static as foo::Bar<Test>>::bar");
	check_name("_ZN3foo3bar17h05af221e174051e9E.llvm.1234", "foo::bar");
	/* C++: no hash, or a last part that only looks like one */
	check_name("_ZN3foo3barE", "foo::bar");
	check_name("_ZN3foo17h0000000000000000E", "foo::h0000000000000000");
	check_name("_ZN3foo3barEv", "foo::bar()");
}

/* Every name of a real program, as llvm-cxxfilt has it. */
static void test_program(void **state)
{
	char name[4096], expected[4096];
	size_t count = 0;
	FILE *pairs;

	(void)state;
	if (!have_tool("rustc") || !have_tool("llvm-cxxfilt"))
		skip();
	enter_directory("rust");
	run("rustc -g -O -C symbol-mangling-version=v0 -o names '%s' 2>/dev/null",
	    source_path("names.rs"));
	run("nm names | awk '$3 ~ /^_R/ {print $3}' | sort -u > mangled");
	/* what llvm adds to a copy's name it writes behind it in brackets */
	run("llvm-cxxfilt < mangled | sed 's/ (\\.[^)]*)$//' | paste mangled - > pairs");
	pairs = fopen("pairs", "r");
	assert_non_null(pairs);
	while (fscanf(pairs, "%4095[^\t]\t%4095[^\n]\n", name, expected) == 2) {
		check_name(name, expected);
		count++;
	}
	fclose(pairs);
	printf("%zu names of a program agree\n", count);
	assert_true(count > 50);
}

/* Any part of a name, and names with one byte changed, are read or refused in no time. */
static void test_damaged(void **state)
{
	static const char *const names[] = {
		"_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator8"
		"Iterator9rpositionNCNgNpB9_6memchr7memrchrs_0E0Bb_",
		"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
		"_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$"
		"3bar17h930b740aa94f1d3aE",
	};
	char changed[256];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		for (size_t at = 0; at < length; at++) {
			memcpy(changed, names[i], length + 1);
			changed[at] = '\0';
			free(vc_demangle_rust(changed));
			for (int byte = 1; byte < 256; byte++) {
				memcpy(changed, names[i], length + 1);
				changed[at] = (char)byte;
				free(vc_demangle_rust(changed));
			}
		}
	}
}

static char *repeat(const char *start, const char *part, size_t times, const char *end)
{
	char *text = malloc(strlen(start) + times * strlen(part) + strlen(end) + 1), *at = text;

	assert_non_null(text);
	at = stpcpy(at, start);
	for (size_t i = 0; i < times; i++)
		at = stpcpy(at, part);
	strcpy(at, end);
	return text;
}

/* Names made to nest or to expand without end. */
static void test_bombs(void **state)
{
	struct {
		const char *start, *part;
		size_t times;
		const char *end;
	} bombs[] = {
		{"_RMC0", "R", 10000, "u"},
		{"_RMC0", "TB4_", 3000, "E"},
		{"_RNvMC0", "INtC1aB5_B5_E", 900, "1a"},
		{"_RIC0", "TB5_B5_", 2000, "E"},
		{"_RMC0F", "G", 1, "zzzzzzzzzz_Eu"},
		{"_RMC0D", "G", 1, "ZZZZ_C1aEL_"},
		{"_R", "Nv", 8000, "C1a1b"},
		{"_ZN", "1a", 8000, "17h05af221e174051e9E"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++) {
		char *name = repeat(bombs[i].start, bombs[i].part, bombs[i].times, bombs[i].end);
		clock_t start = clock();

		free(vc_demangle_rust(name));
		assert_true(clock() - start < CLOCKS_PER_SEC / 2);
		free(name);
	}
	/* doubles with each element: a tuple of the tuple before, twice */
	char name[4096] = "_RMC0";

	for (int i = 0; i < 60; i++)
		strcat(name, "TB4_B4_");
	free(vc_demangle_rust(name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_v0),	cmocka_unit_test(test_older),
		cmocka_unit_test(test_program), cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_bombs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
