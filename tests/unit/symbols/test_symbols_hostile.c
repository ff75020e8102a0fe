/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged and made-up files: whatever stands in them, every address gets an answer, in bounded
 * time, and nothing is read that is not there (the sanitizers watch).
 */
#include "fixture.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MUTATIONS = 300, SECONDS_AT_MOST = 120 };

struct bytes {
	unsigned char *data;
	size_t size;
};

static uint64_t random_state;

static uint64_t random_number(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return below ? random_state % below : 0;
}

static struct bytes read_file(const char *path)
{
	struct bytes bytes = {0};
	FILE *file = fopen(path, "rb");
	long size;

	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	size = ftell(file);
	assert_true(size > 0);
	rewind(file);
	bytes.size = (size_t)size;
	bytes.data = malloc(bytes.size);
	assert_non_null(bytes.data);
	assert_int_equal(fread(bytes.data, 1, bytes.size, file), bytes.size);
	fclose(file);
	return bytes;
}

static void write_file(const char *path, const unsigned char *data, size_t size)
{
	FILE *file = fopen(path, "wb");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

/* A range of the file to damage: one of its sections with content, or its headers. */
static void choose_range(const struct bytes *whole, size_t *start, size_t *length)
{
	Elf64_Ehdr header;
	Elf64_Shdr section;
	uint64_t choice;

	memcpy(&header, whole->data, sizeof(header));
	choice = random_number(header.e_shnum + 4u);
	*start = 0;
	*length = whole->size;
	if (choice == header.e_shnum) {
		*length = 1024;
	} else if (choice == header.e_shnum + 1u) {
		*start = header.e_shoff;
		*length = (size_t)header.e_shnum * header.e_shentsize;
	} else if (choice < header.e_shnum) {
		memcpy(&section, whole->data + header.e_shoff + choice * sizeof(section),
		       sizeof(section));
		if (section.sh_type == SHT_NOBITS || section.sh_size == 0)
			return;
		*start = section.sh_offset;
		*length = section.sh_size;
	}
}

/* Writes a damaged copy of the file. */
static void damage(const struct bytes *whole, const char *path)
{
	static const unsigned char favourites[] = {0, 1, 0x7f, 0x80, 0xff};
	unsigned char *copy = malloc(whole->size);
	size_t start, length, size = whole->size;
	uint64_t changes = 1 + random_number(12);

	assert_non_null(copy);
	memcpy(copy, whole->data, whole->size);
	choose_range(whole, &start, &length);
	for (uint64_t i = 0; i < changes; i++) {
		unsigned char *at = copy + start + random_number(length);

		*at = random_number(2) ? favourites[random_number(sizeof(favourites))]
				       : (unsigned char)random_number(256);
	}
	if (random_number(4) == 0)
		size = random_number(whole->size);
	write_file(path, copy, size);
	free(copy);
}

static void check_answers(const char *path, const uint64_t *offsets, size_t count)
{
	struct vc_module_key key = {.path = path};
	struct vc_module_report report;
	struct vc_symbols *symbols;

	assert_int_equal(vc_symbols_create(NULL, &symbols), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(vc_symbols_want(symbols, 0, &key, offsets[i]), 0);
	assert_int_equal(vc_symbols_resolve(symbols, NULL, NULL), 0);
	for (size_t i = 0; i < count; i++) {
		struct vc_symbol symbol;
		size_t length = 0;

		assert_int_equal(vc_symbols_get(symbols, 0, offsets[i], &symbol), 0);
		assert_in_range(symbol.count, 1, 256);
		for (size_t f = 0; f < symbol.count; f++)
			length += symbol.frames[f].function ? strlen(symbol.frames[f].function) : 1;
		assert_true(length > 0);
	}
	assert_int_equal(vc_symbols_module_report(symbols, 0, &report), 0);
	assert_non_null(vc_module_state_text(report.state));
	vc_symbols_destroy(symbols);
}

static void mutate(const char *program, uint64_t seed)
{
	uint64_t offsets[40];
	struct bytes whole = read_file(program);

	random_state = seed;
	for (size_t i = 0; i < 40; i++)
		offsets[i] = 0x1000 + i * 29;
	offsets[0] = marked_offset(program, "chain");
	offsets[1] = marked_offset(program, "plain");
	offsets[2] = 0;
	offsets[3] = UINT64_MAX;
	for (int i = 0; i < MUTATIONS; i++) {
		damage(&whole, "damaged");
		check_answers("damaged", offsets, 40);
	}
	free(whole.data);
}

static void test_mutations(void **state)
{
	static const struct {
		const char *compiler, *flags;
	} variants[] = {
		{"gcc", "-g -gdwarf-5"},
		{"gcc", "-g -gdwarf-4 -gz=zlib"},
		{"gcc", "-g -gdwarf-5 -Wl,--compress-debug-sections=zstd"},
		{"clang", "-g -gdwarf-5"},
	};

	(void)state;
	enter_directory("mutations");
	alarm(SECONDS_AT_MOST); /* a hang ends the test */
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		if (!have_tool(variants[i].compiler))
			continue;
		build(variants[i].compiler, "chain.c", "chain", variants[i].flags);
		mutate("chain", 0x9e3779b97f4a7c15 + i);
	}
	alarm(0);
}

/* The links to debug files are read before anything is verified. */
static void test_damaged_link(void **state)
{
	struct bytes whole;
	Elf64_Ehdr header;
	uint64_t offset;

	(void)state;
	enter_directory("damaged_link");
	build("gcc", "chain.c", "chain", "-g -Wl,--build-id=none");
	run("cp chain full.dbg && strip -g chain && objcopy --add-gnu-debuglink=full.dbg chain");
	offset = marked_offset("chain", "chain");
	whole = read_file("chain");
	memcpy(&header, whole.data, sizeof(header));
	for (size_t i = 0; i < header.e_shnum; i++) {
		unsigned char *at = whole.data + header.e_shoff + i * sizeof(Elf64_Shdr);
		Elf64_Shdr section;

		memcpy(&section, at, sizeof(section));
		for (uint64_t size = 0; size < 16; size++) {
			Elf64_Shdr changed = section;

			changed.sh_size = size;
			memcpy(at, &changed, sizeof(changed));
			write_file("damaged", whole.data, whole.size);
			check_answers("damaged", &offset, 1);
		}
		memcpy(at, &section, sizeof(section));
	}
	free(whole.data);
}

/* The header of a section of chain, found by readelf; false: there is none. */
static bool find_section(const char *name, uint64_t *offset, uint64_t *size)
{
	char command[256];
	FILE *output;
	bool found;

	snprintf(command, sizeof(command),
		 "readelf -SW chain | tr -d '[]' | "
		 "awk '$2 == \"%s\" {print \"0x\" $5, \"0x\" $6}'",
		 name);
	output = popen(command, "r");
	assert_non_null(output);
	found = fscanf(output, "%" SCNi64 " %" SCNi64, (int64_t *)offset, (int64_t *)size) == 2;
	pclose(output);
	return found;
}

/*
 * Wherever a reference may stand among the entries, one that points back: to itself, to what came
 * just before, and to the first entry. Nothing may be visited again and again.
 */
static void test_backward_references(void **state)
{
	uint64_t start, size, offset;
	struct bytes whole;

	(void)state;
	enter_directory("backward");
	build("gcc", "chain.c", "chain", "-g -gdwarf-5");
	offset = marked_offset("chain", "chain");
	whole = read_file("chain");
	assert_true(find_section(".debug_info", &start, &size));
	assert_true(size > 100 && start + size <= whole.size);
	alarm(SECONDS_AT_MOST);
	for (uint64_t at = 12; at + 4 <= size; at++) {
		uint32_t targets[] = {(uint32_t)at, (uint32_t)at - 1, 12};
		unsigned char kept[4];

		memcpy(kept, whole.data + start + at, 4);
		for (size_t i = 0; i < 3; i++) {
			memcpy(whole.data + start + at, &targets[i], 4);
			write_file("damaged", whole.data, whole.size);
			check_answers("damaged", &offset, 1);
		}
		memcpy(whole.data + start + at, kept, 4);
	}
	alarm(0);
	free(whole.data);
}

/* A section that claims to be a terabyte once expanded, and one compressed in an unknown way. */
static void test_compression_claims(void **state)
{
	uint64_t start, size, claimed = (uint64_t)1 << 40;
	uint32_t type = 7;
	struct bytes whole;
	struct answer answer;
	Elf64_Chdr kept;

	(void)state;
	enter_directory("claims");
	build("gcc", "chain.c", "chain", "-g -gz=zlib");
	whole = read_file("chain");
	assert_true(find_section(".debug_info", &start, &size));
	memcpy(&kept, whole.data + start, sizeof(kept));
	assert_int_equal(kept.ch_type, ELFCOMPRESS_ZLIB);

	memcpy(whole.data + start + offsetof(Elf64_Chdr, ch_size), &claimed, sizeof(claimed));
	write_file("damaged", whole.data, whole.size);
	answer = ask(NULL, "damaged", NULL, marked_offset("chain", "chain"));
	assert_int_equal(answer.symbol.source, VC_SYMBOL_TABLE);
	assert_int_equal(answer.report.state, VC_MODULE_TABLE);
	assert_non_null(strstr(answer.report.detail, "damaged: damaged compressed section"));
	answer_end(&answer);

	memcpy(whole.data + start, &kept, sizeof(kept));
	memcpy(whole.data + start, &type, sizeof(type));
	write_file("damaged", whole.data, whole.size);
	answer = ask(NULL, "damaged", NULL, marked_offset("chain", "chain"));
	assert_int_equal(answer.symbol.source, VC_SYMBOL_TABLE);
	assert_non_null(strstr(answer.report.detail, "compressed in an unknown way"));
	answer_end(&answer);

	type = 2; /* zstd, it says, but it is not */
	memcpy(whole.data + start, &type, sizeof(type));
	write_file("damaged", whole.data, whole.size);
	answer = ask(NULL, "damaged", NULL, marked_offset("chain", "chain"));
	assert_int_equal(answer.symbol.source, VC_SYMBOL_TABLE);
	assert_non_null(strstr(answer.report.detail, "debug information damaged"));
	answer_end(&answer);
	free(whole.data);
}

static void test_every_length(void **state)
{
	struct bytes whole;
	uint64_t offset;

	(void)state;
	enter_directory("every_length");
	build("gcc", "chain.c", "chain", "-g");
	offset = marked_offset("chain", "chain");
	whole = read_file("chain");
	for (size_t size = 0; size < whole.size; size += 1 + whole.size / 400) {
		write_file("cut", whole.data, size);
		check_answers("cut", &offset, 1);
	}
	free(whole.data);
}

/*
 * Debug information written by hand: 100,000 functions, each with the same list of 100,000 ranges,
 * in 3 MB. Reading all of it would take many minutes; it is given up, and said.
 */
static const char range_bomb[] =
	"__asm__(\".section .debug_abbrev\\n\"\n"
	"\".byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0\\n\" /* unit: low_pc, high_pc */\n"
	"\".byte 2, 0x2e, 0, 0x55, 0x17, 0, 0, 0\\n\" /* function: ranges */\n"
	"\".section .debug_info\\n\"\n"
	"\".long 2f - 1f\\n1: .short 4\\n.long 0\\n.byte 8\\n\"\n"
	"\".byte 1\\n.quad 0x1000, 0x100000\\n\"\n"
	"\".rept 100000\\n.byte 2\\n.long 0\\n.endr\\n.byte 0\\n2:\\n\"\n"
	"\".section .debug_ranges\\n.rept 100000\\n.quad 1, 2\\n.endr\\n.quad 0, 0\\n\"\n"
	"\".text\");\n"
	"#include \"mark.h\"\n"
	"int main(void) { mark(\"bomb\"); AFTER; return 0; }\n";

static void test_range_bomb(void **state)
{
	struct answer answer;
	FILE *source;

	(void)state;
	enter_directory("range_bomb");
	source = fopen("bomb.c", "w");
	assert_non_null(source);
	assert_true(fputs(range_bomb, source) >= 0);
	assert_int_equal(fclose(source), 0);
	run("gcc -w -O1 -fPIE -pie -DVC_PIE=1 -I%s/programs -o bomb bomb.c", VC_TEST_SOURCE);
	run("./bomb > bomb.marks");
	alarm(SECONDS_AT_MOST);
	answer = ask(NULL, "bomb", NULL, marked_offset("bomb", "bomb"));
	alarm(0);
	check_frame(&answer, 0, "main", NULL, NULL);
	assert_int_equal(answer.symbol.source, VC_SYMBOL_TABLE);
	assert_non_null(strstr(answer.report.detail, "takes too long"));
	answer_end(&answer);
}

/* Functions inlined into each other deeper than anybody does. */
static void test_deep_inlining(void **state)
{
	enum { DEPTH = 400 };
	struct answer answer;
	FILE *source;

	(void)state;
	enter_directory("deep");
	source = fopen("deep.c", "w");
	assert_non_null(source);
	fprintf(source, "#include \"mark.h\"\n"
			"static INLINE void f0(void) { mark(\"deep\"); AFTER; }\n");
	for (int i = 1; i < DEPTH; i++)
		fprintf(source, "static INLINE void f%d(void) { f%d(); AFTER; }\n", i, i - 1);
	fprintf(source, "int main(void) { f%d(); return 0; }\n", DEPTH - 1);
	fclose(source);
	run("gcc -w -g -O1 -fPIE -pie -DVC_PIE=1 -I%s/programs -o deep deep.c", VC_TEST_SOURCE);
	run("./deep > deep.marks");
	answer = ask(NULL, "deep", NULL, marked_offset("deep", "deep"));
	assert_in_range(answer.symbol.count, 200, 256);
	assert_string_equal(answer.symbol.frames[answer.symbol.count - 1].function, "main");
	answer_end(&answer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_link),
		cmocka_unit_test(test_compression_claims),
		cmocka_unit_test(test_backward_references),
		cmocka_unit_test(test_every_length),
		cmocka_unit_test(test_range_bomb),
		cmocka_unit_test(test_deep_inlining),
		cmocka_unit_test(test_mutations),
	};

	if (!have_tool("gcc") || !have_tool("objcopy") || !have_tool("strip"))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
