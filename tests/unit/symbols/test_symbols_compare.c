/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inlined chains of a large program against those of another symbolizer, llvm-symbolizer.
 *
 * Function, file and line of every frame must be equal at 98 of 100 addresses. Names are compared
 * as the linker knows them, but for what the two read in different places: the suffix of a clone
 * (".isra.0"), and which of the names of a constructor or destructor is given.
 */
#include "fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESSES = 2000, STEP = 23 };

struct sample {
	uint64_t addresses[ADDRESSES];
	size_t count;
};

/* Addresses all over the sized functions of the program. */
static void choose_addresses(const char *program, struct sample *sample)
{
	char command[256];
	uint64_t start, size;
	FILE *output;

	snprintf(command, sizeof(command),
		 "nm -S --defined-only %s | awk 'NF == 4 && $3 ~ /[tTwW]/ {print $1, $2}'",
		 program);
	output = popen(command, "r");
	assert_non_null(output);
	sample->count = 0;
	while (fscanf(output, "%" SCNx64 " %" SCNx64, &start, &size) == 2)
		for (uint64_t at = 0; at < size && sample->count < ADDRESSES; at += STEP)
			sample->addresses[sample->count++] = start + at;
	pclose(output);
	assert_true(sample->count >= 200);
}

static void normalize(char *name)
{
	char *at = name + 1;

	name[strcspn(name, ".")] = '\0';
	if (strncmp(name, "_Z", 2))
		return;
	for (; *at; at++)
		if ((at[-1] == 'C' || at[-1] == 'D') && strchr("012345", *at) &&
		    (at[1] == 'E' || at[1] == 'I'))
			*at = '#';
}

static void cut_newline(char *line)
{
	line[strcspn(line, "\n")] = '\0';
}

/* One frame of the other: a line of the function, a line "file:line:column". */
static bool same_frame(const struct vc_source_frame *frame, char *name, char *place)
{
	const char *own = frame->linkage_name ? frame->linkage_name : frame->function, *base;
	char own_name[8192];
	unsigned long line;
	char *colon;

	snprintf(own_name, sizeof(own_name), "%s", own ? own : "??");
	normalize(own_name);
	normalize(name);
	colon = strrchr(place, ':');
	assert_non_null(colon);
	*colon = '\0';
	colon = strrchr(place, ':');
	assert_non_null(colon);
	*colon = '\0';
	line = strtoul(colon + 1, NULL, 10);
	base = strrchr(place, '/') ? strrchr(place, '/') + 1 : place;
	if (!frame->file)
		return !strcmp(own_name, name) && !strcmp(base, "??");
	return !strcmp(own_name, name) && line == frame->line &&
	       !strcmp(base,
		       strrchr(frame->file, '/') ? strrchr(frame->file, '/') + 1 : frame->file);
}

/* Reads the other's frames for one address, up to a blank line. */
static bool same_chain(const struct vc_symbol *symbol, FILE *output)
{
	static char name[8192], place[8192];
	bool same = true;
	size_t count = 0;

	while (fgets(name, sizeof(name), output) && name[0] != '\n') {
		assert_non_null(fgets(place, sizeof(place), output));
		cut_newline(name);
		cut_newline(place);
		same = same && count < symbol->count &&
		       same_frame(&symbol->frames[count], name, place);
		count++;
	}
	return same && count == symbol->count;
}

static size_t compare(const char *program, const struct sample *sample)
{
	struct vc_module_key key = {.path = program};
	struct vc_symbols *symbols;
	char command[256];
	size_t same = 0;
	FILE *file = fopen("addresses", "w");

	assert_non_null(file);
	assert_int_equal(vc_symbols_create(NULL, &symbols), 0);
	for (size_t i = 0; i < sample->count; i++) {
		fprintf(file, "0x%" PRIx64 "\n", sample->addresses[i]);
		assert_int_equal(vc_symbols_want(symbols, 0, &key, sample->addresses[i] + 1), 0);
	}
	fclose(file);
	assert_int_equal(vc_symbols_resolve(symbols, NULL, NULL), 0);
	snprintf(command, sizeof(command),
		 "llvm-symbolizer --inlines --functions=linkage "
		 "--no-demangle --obj=%s < addresses",
		 program);
	file = popen(command, "r");
	assert_non_null(file);
	for (size_t i = 0; i < sample->count; i++) {
		struct vc_symbol symbol;

		assert_int_equal(vc_symbols_get(symbols, 0, sample->addresses[i] + 1, &symbol), 0);
		same += same_chain(&symbol, file);
	}
	assert_int_equal(pclose(file), 0);
	vc_symbols_destroy(symbols);
	return same;
}

static void test_compare(void **state)
{
	static const char *const compilers[] = {"g++ -gdwarf-5", "clang++ -gdwarf-4"};
	static struct sample sample;

	(void)state;
	enter_directory("compare");
	for (size_t i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		size_t same;

		if (compilers[i][0] == 'c' && !have_tool("clang++"))
			continue;
		run("%s -std=c++17 -w -O2 -o standard '%s'", compilers[i],
		    source_path("standard.cc"));
		choose_addresses("standard", &sample);
		same = compare("standard", &sample);
		printf("%s: %zu of %zu addresses as llvm-symbolizer has them, %.2f %%\n",
		       compilers[i], same, sample.count, 100 * (double)same / (double)sample.count);
		assert_true(same * 100 >= sample.count * 98);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_compare),
	};

	if (!have_tool("llvm-symbolizer") || !have_tool("g++") || !have_tool("nm"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
