/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged snapshots. The golden file is cut at every length and has every bit flipped: what is
 * shown without a fault is what was written, every fault names a section and an offset, and
 * sections that are whole are shown. Flipped is every 5th bit of the front and every 29th of the
 * sections, the lengths are every fifth and those at the sections' ends; with VRAMCORE_FULL=1 all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "formats/snapshot_group.h"
#include "formats/snapshot_read.h"
#include "formats/snapshot_write.h"
#include "tests/unit/formats/file_bytes.h"
#include "tests/unit/formats/sample_tables.h"

static uint8_t *golden;
static size_t golden_length;
static struct vc_tables expected;
static struct vc_container_front front;

static int start(void **state)
{
	struct vc_faults faults = {0};

	(void)state;
	golden = file_bytes(VC_TEST_SOURCE "/tests/golden/snapshot-1.vramcore", &golden_length);
	if (vc_snapshot_read_memory(golden, golden_length, NULL, &expected, &faults) ||
	    vc_container_front_parse(golden, golden_length, &front, &faults) || faults.count)
		return -1;
	return 0;
}

static int stop(void **state)
{
	(void)state;
	free(golden);
	vc_tables_deinit(&expected);
	return 0;
}

/* Damaged bytes of which something can be shown; *faults is cleared first. */
static void read_bytes(const uint8_t *bytes, size_t length,
		       const struct vc_snapshot_options *options, struct vc_tables *ret,
		       struct vc_faults *faults)
{
	memset(faults, 0, sizeof(*faults));
	assert_int_equal(vc_snapshot_read_memory(bytes, length, options, ret, faults), 0);
}

static void golden_is_read_as_ever(void **state)
{
	size_t dump_length, length;
	uint8_t *dump = file_bytes(VC_TEST_SOURCE "/tests/golden/snapshot-1.txt", &dump_length);
	char *text = NULL;
	FILE *to = open_memstream(&text, &length);

	(void)state;
	assert_true(golden_length > 20000 && golden_length < 60000);
	for (unsigned table = 0; table < VC_TABLES; table++)
		assert_true(expected.rows[table] >= (table == VC_TABLE_process ? 1 : 2));
	sample_tables_dump(&expected, to);
	fclose(to);
	assert_int_equal(length, dump_length);
	assert_memory_equal(text, dump, length);
	free(text);
	free(dump);
}

static int find_table(const char *name)
{
	for (int i = 0; i < VC_TABLES; i++)
		if (!strcmp(vc_table_info[i].section, name))
			return i;
	return -1;
}

static bool is_reference(unsigned column)
{
	switch (vc_column_info[column].type) {
	case VC_TYPE_STRING:
	case VC_TYPE_ROW_modules:
	case VC_TYPE_ROW_stacks:
	case VC_TYPE_ROW_sites:
	case VC_TYPE_ROW_source_frames:
	case VC_TYPE_ROW_source_stacks:
	case VC_TYPE_ROW_segments:
	case VC_TYPE_ROW_blocks:
	case VC_TYPE_ROW_trace_details:
	case VC_TYPE_ROW_tensors:
	case VC_TYPE_ROW_storages:
	case VC_TYPE_ROW_graph_nodes:
	case VC_TYPE_ROW_holder_steps:
		return true;
	default:
		return vc_column_info[column].table == VC_TABLE_stacks ||
		       vc_column_info[column].table == VC_TABLE_source_stacks ||
		       vc_column_info[column].table == VC_TABLE_symbols;
	}
}

/* A table whose section is whole has all its rows and numbers; references may have become 0. */
static void assert_whole(const struct vc_tables *read, int table)
{
	/* Rows of failure_sites that point into a lost table are left out. */
	if (table == VC_TABLE_failure_sites &&
	    (read->rows[VC_TABLE_failures] != expected.rows[VC_TABLE_failures] ||
	     read->rows[VC_TABLE_sites] != expected.rows[VC_TABLE_sites]))
		return;
	assert_int_equal(read->rows[table], expected.rows[table]);
	for (unsigned i = vc_table_info[table].first;
	     i < vc_table_end((enum vc_table_index)table); i++) {
		const uint64_t *have = read->column[i], *want = expected.column[i];

		if (!want)
			continue;
		for (uint64_t row = 0; row < expected.rows[table]; row++)
			if (have[row] != want[row] && !(is_reference(i) && !have[row]))
				fail_msg("%s.%s[%llu] differs", vc_table_info[table].name,
					 vc_column_info[i].name, (unsigned long long)row);
	}
}

/* Reads damaged bytes; `whole` is a bit for each section of the front that is not touched. */
static void assert_honest(const uint8_t *bytes, size_t length, uint64_t whole)
{
	struct vc_faults faults = {0};
	struct vc_tables read;
	int error = vc_snapshot_read_memory(bytes, length, NULL, &read, &faults);

	assert_true(faults.count > 0);
	for (uint64_t i = 0; i < faults.count && i < VC_FAULTS_KEPT; i++) {
		assert_true(faults.kept[i].error < 0);
		assert_true(faults.kept[i].section[0]);
		assert_true(faults.kept[i].offset <= golden_length);
	}
	if (error) {
		assert_int_equal(whole, 0);
		return;
	}
	assert_int_equal(vc_tables_check(&read, NULL), 0);
	for (unsigned i = 0; i < front.sections; i++)
		if (whole >> i & 1)
			assert_whole(&read, find_table(front.section[i].name));
	vc_tables_deinit(&read);
}

/* The last byte of a section, or one byte to either side. */
static bool is_edge(uint64_t length)
{
	for (unsigned i = 0; i < front.sections; i++)
		if (length + 1 >= front.section[i].offset + front.section[i].bytes &&
		    length <= front.section[i].offset + front.section[i].bytes + 1)
			return true;
	return false;
}

static void cut_at_every_length(void **state)
{
	(void)state;
	for (size_t length = 0; length < golden_length; length++) {
		uint8_t *bytes;
		uint64_t whole = 0;

		if (!getenv("VRAMCORE_FULL") && length > front.front_bytes && length % 5 && !is_edge(length))
			continue;
		bytes = malloc(length ? length : 1); /* so that reads past it show */
		assert_non_null(bytes);
		memcpy(bytes, golden, length);
		for (unsigned i = 0; i < front.sections; i++)
			if (front.section[i].offset + front.section[i].bytes <= length)
				whole |= 1ull << i;
		assert_honest(bytes, length, whole);
		free(bytes);
	}
}

static void every_bit_flipped(void **state)
{
	/* odd: every bit of a byte in turn */
	unsigned stride = getenv("VRAMCORE_FULL") ? 1 : 29, front_stride = getenv("VRAMCORE_FULL") ? 1 : 5;

	(void)state;
	for (size_t bit = 0; bit < golden_length * 8;
	     bit += bit / 8 < front.front_bytes ? front_stride : stride) {
		uint64_t at = bit / 8, whole = (1ull << front.sections) - 1;

		if (at < front.front_bytes)
			whole = 0; /* that there is a fault is enough */
		for (unsigned i = 0; i < front.sections; i++)
			if (at >= front.section[i].offset &&
			    at < front.section[i].offset + front.section[i].bytes)
				whole &= ~(1ull << i);
		golden[at] ^= (uint8_t)(1u << bit % 8);
		assert_honest(golden, golden_length, whole);
		golden[at] ^= (uint8_t)(1u << bit % 8);
	}
}

static void bytes_behind_the_end(void **state)
{
	uint8_t *bytes = calloc(1, golden_length + 1);

	(void)state;
	memcpy(bytes, golden, golden_length);
	assert_honest(bytes, golden_length + 1, (1ull << front.sections) - 1);
	free(bytes);
}

/* ---- several row groups ---- */

static struct vc_tables large;
static uint8_t *large_bytes;
static size_t large_length;
static struct vc_container_front large_front;

static void make_large(void)
{
	static const char path[] = VC_TEST_BUILD "/large.vramcore";
	struct vc_faults faults = {0};
	uint64_t row;

	assert_int_equal(vc_tables_init(&large), 0);
	assert_int_equal(vc_tables_append(&large, VC_TABLE_process, &row), 0);
	for (uint64_t i = 0; i < 3 * VC_GROUP_ROWS; i++) {
		assert_int_equal(vc_tables_append(&large, VC_TABLE_stacks, &row), 0);
		large.column[VC_COL_stacks_end][row] = i * i % 1000003;
		assert_int_equal(vc_tables_append(&large, VC_TABLE_allocations, &row), 0);
		large.column[VC_COL_allocations_birth][row] = i + 1;
		large.column[VC_COL_allocations_stack][row] = i + 1;
	}
	remove(path);
	assert_int_equal(vc_snapshot_write(path, &large, NULL), 0);
	large_bytes = file_bytes(path, &large_length);
	remove(path);
	assert_int_equal(vc_container_front_parse(large_bytes, large_length, &large_front, &faults),
			 0);
	assert_int_equal(faults.count, 0);
}

/* Where frame `number` of a section begins. */
static size_t frame_offset(const char *name, unsigned number)
{
	for (unsigned i = 0; i < large_front.sections; i++) {
		const struct vc_container_section *section = &large_front.section[i];
		size_t at = section->offset + sizeof(Elf64_Chdr);

		if (strcmp(section->name, name))
			continue;
		while (number--)
			at += ZSTD_findFrameCompressedSize(large_bytes + at, large_length - at);
		return at;
	}
	fail();
	return 0;
}

/* A broken group in the middle: the others are there, and rows keep their numbers. */
static void groups_around_a_broken_one(void **state)
{
	static const size_t places[] = {0, 4, 6, 9, 40}; /* in the frame: magic, header, block */
	struct vc_faults faults;
	struct vc_tables read;

	(void)state;
	make_large();
	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		size_t at = frame_offset(".vramcore.stacks", 1) + places[i];

		large_bytes[at] ^= 0x08;
		read_bytes(large_bytes, large_length, NULL, &read, &faults);
		large_bytes[at] ^= 0x08;
		assert_true(faults.count >= 1);
		assert_string_equal(faults.kept[0].section, ".vramcore.stacks");
		assert_int_equal(faults.kept[0].offset, at - places[i]);
		assert_int_equal(read.rows[VC_TABLE_stacks], 3 * VC_GROUP_ROWS);
		for (uint64_t row = 0; row < 3 * VC_GROUP_ROWS; row++) {
			bool lost = row / VC_GROUP_ROWS == 1;

			assert_true(read.column[VC_COL_stacks_end][row] ==
				    (lost ? 0 : large.column[VC_COL_stacks_end][row]));
		}
		vc_tables_deinit(&read);
		/* Nothing refers to rows of allocations by number: they close up. */
		at = frame_offset(".vramcore.allocations", 1) + places[i];
		large_bytes[at] ^= 0x08;
		read_bytes(large_bytes, large_length, NULL, &read, &faults);
		large_bytes[at] ^= 0x08;
		assert_int_equal(faults.count, 1);
		assert_int_equal(read.rows[VC_TABLE_allocations], 2 * VC_GROUP_ROWS);
		assert_true(read.column[VC_COL_allocations_birth][VC_GROUP_ROWS] ==
			    2 * VC_GROUP_ROWS + 1);
		vc_tables_deinit(&read);
	}
	/* Cut in the last group: two groups, and the place of the cut. */
	read_bytes(large_bytes, large_length - 1, NULL, &read, &faults);
	assert_int_equal(faults.kept[0].error, VC_E_TRUNCATED);
	assert_int_equal(faults.kept[0].offset, large_length - 1);
	vc_tables_deinit(&read);
	free(large_bytes);
	vc_tables_deinit(&large);
}

/* ---- files that are made to deceive: their checksums are right ---- */

/* A file of two sections: one row of process, and `group` (with its own frame) as `table`. */
static size_t seal(enum vc_table_index table, const uint8_t *group, size_t length, uint64_t rows,
		   struct vc_buffer *out)
{
	struct vc_container_front sealed = {.sections = 1};
	struct vc_container_section *section = &sealed.section[0];
	Elf64_Chdr header = {.ch_type = 2, .ch_size = length, .ch_addralign = 1};
	struct vc_buffer data = {0}, bytes = {0};
	size_t bound = ZSTD_compressBound(length);
	uint8_t *room;

	vc_buffer_put(&data, &header, sizeof(header));
	room = vc_buffer_room(&data, bound);
	data.length -= bound - ZSTD_compress(room, bound, group, length, 1);
	snprintf(section->name, sizeof(section->name), "%s", vc_table_info[table].section);
	section->rows = rows;
	section->bytes = data.length;
	section->hash = XXH64(data.bytes, data.length, 0);
	assert_int_equal(vc_container_front_build(&sealed, &bytes), 0);
	section->offset = bytes.length;
	sealed.file_bytes = bytes.length + data.length;
	out->length = bytes.length = 0;
	assert_int_equal(vc_container_front_build(&sealed, out), 0);
	vc_buffer_put(out, data.bytes, data.length);
	vc_buffer_deinit(&data);
	vc_buffer_deinit(&bytes);
	return out->length;
}

/* The decoded group of a section of the golden file. */
static size_t golden_group(unsigned section, uint8_t **ret)
{
	const uint8_t *frame = golden + front.section[section].offset + sizeof(Elf64_Chdr);
	size_t frame_bytes = front.section[section].bytes - sizeof(Elf64_Chdr);
	size_t length = ZSTD_getFrameContentSize(frame, frame_bytes);

	*ret = malloc(length);
	assert_non_null(*ret);
	assert_int_equal(ZSTD_decompress(*ret, length, frame, frame_bytes), length);
	return length;
}

static void hostile_groups(void **state)
{
	struct sample_numbers numbers = {77};
	struct vc_buffer file = {0};
	unsigned shown = 0, rounds = getenv("VRAMCORE_FULL") ? 2000 : 500;

	(void)state;
	for (unsigned i = 0; i < front.sections; i++) {
		int table = find_table(front.section[i].name);
		uint8_t *group;
		size_t length = golden_group(i, &group);

		for (unsigned round = 0; round < rounds; round++) {
			struct vc_faults faults = {0};
			struct vc_tables read;
			size_t at = sample_next(&numbers) % length, used = length;
			uint8_t before;

			if (round % 3 == 0) /* mostly in the directory */
				at %= 16 + 24 * 24;
			if (at >= length)
				at = 0;
			before = group[at];
			group[at] = (uint8_t)(sample_next(&numbers) >> sample_next(&numbers) % 8);
			if (round % 16 == 0)
				used = sample_next(&numbers) % length;
			seal((enum vc_table_index)table, group, used, front.section[i].rows, &file);
			if (!vc_snapshot_read_memory(file.bytes, file.length, NULL, &read,
						     &faults)) {
				assert_int_equal(vc_tables_check(&read, NULL), 0);
				shown += read.rows[table] > 0;
				vc_tables_deinit(&read);
			}
			assert_true(faults.count > 0); /* other tables are missing at least */
			group[at] = before;
		}
		free(group);
	}
	assert_true(shown > 1000);
	vc_buffer_deinit(&file);
}

static void put_head(struct vc_buffer *group, uint64_t first, uint32_t rows, uint32_t columns)
{
	group->length = 0;
	vc_buffer_u64(group, first);
	vc_buffer_u32(group, rows);
	vc_buffer_u32(group, columns);
}

static void put_entry(struct vc_buffer *group, uint16_t number, uint8_t type, uint32_t flags,
		      uint64_t offset)
{
	vc_buffer_u16(group, number);
	vc_buffer_u8(group, type);
	vc_buffer_u8(group, VC_ENCODING_CONSTANT);
	vc_buffer_u32(group, flags);
	vc_buffer_u64(group, offset);
	vc_buffer_u64(group, 8);
}

/* The error of the threads table in a file with this one group. */
static int threads_error(const struct vc_buffer *group, uint64_t rows, struct vc_tables *ret)
{
	struct vc_buffer file = {0};
	struct vc_faults faults = {0};
	int error = 0;

	seal(VC_TABLE_threads, group->bytes, group->length, rows, &file);
	assert_int_equal(vc_snapshot_read_memory(file.bytes, file.length, NULL, ret, &faults), 0);
	for (uint64_t i = 0; i < faults.count && i < VC_FAULTS_KEPT; i++)
		if (!strcmp(faults.kept[i].section, ".vramcore.threads") && !error)
			error = faults.kept[i].error;
	vc_buffer_deinit(&file);
	return error;
}

/* Columns from the future: skipped where they say so, else the table is refused. */
static void unknown_columns(void **state)
{
	struct vc_buffer group = {0};
	struct vc_tables read;

	(void)state;
	for (unsigned flags = 0; flags < 2; flags++) {
		put_head(&group, 0, 5, 2);
		put_entry(&group, 1, 1, 1, 64);
		put_entry(&group, 999, 77, flags, 72);
		vc_buffer_u64(&group, 4711);
		vc_buffer_u64(&group, 5);
		if (flags) {
			assert_int_equal(threads_error(&group, 5, &read), 0);
			assert_int_equal(read.rows[VC_TABLE_threads], 5);
			assert_true(read.column[VC_COL_threads_thread][4] == 4711);
			assert_true(read.column[VC_COL_threads_name][4] == 0);
		} else {
			assert_int_equal(threads_error(&group, 5, &read), VC_E_UNKNOWN_COLUMN);
			assert_int_equal(read.rows[VC_TABLE_threads], 0);
		}
		vc_tables_deinit(&read);
	}
	vc_buffer_deinit(&group);
}

static void impossible_groups(void **state)
{
	static const struct {
		uint64_t first;
		uint32_t rows, columns;
		uint64_t said;
	} cases[] = {
		{0, 5, 2, 4},                    /* more rows than the file says */
		{0, 5, 2, 6},                    /* fewer */
		{1, 5, 2, 6},                    /* one is left out */
		{UINT64_MAX, 5, 2, 5},
		{0, 65537, 2, 65537},            /* more than a group may have */
		{0, 5, 3, 5},                    /* a directory entry that is not there */
		{0, 5, 1, 5},                    /* bytes that belong to nothing */
		{0, 5, UINT32_MAX, 5},
	};
	struct vc_buffer group = {0};
	struct vc_tables read;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put_head(&group, cases[i].first, cases[i].rows, cases[i].columns);
		put_entry(&group, 1, 1, 1, 64);
		put_entry(&group, 2, 5, 1, 72);
		vc_buffer_u64(&group, 4711);
		vc_buffer_u64(&group, 0);
		assert_int_not_equal(threads_error(&group, cases[i].said, &read), 0);
		vc_tables_deinit(&read);
	}
	/* The same column twice, and a column of another type. */
	for (unsigned i = 0; i < 2; i++) {
		put_head(&group, 0, 5, 2);
		put_entry(&group, 1, 1, 1, 64);
		put_entry(&group, i ? 2 : 1, 1, 1, 72);
		vc_buffer_u64(&group, 4711);
		vc_buffer_u64(&group, 0);
		assert_int_equal(threads_error(&group, 5, &read), VC_E_CORRUPT);
		vc_tables_deinit(&read);
	}
	vc_buffer_deinit(&group);
}

/* A file of a few hundred bytes that decodes to very much: the limits end it. */
static void much_from_little(void **state)
{
	struct vc_snapshot_options options = {.bytes_max = 10 << 20};
	struct vc_faults faults = {0};
	struct vc_buffer file = {0};
	struct vc_tables read;
	uint8_t *zeroes = calloc(1, 60 << 20);

	(void)state;
	assert_non_null(zeroes);
	seal(VC_TABLE_threads, zeroes, 60 << 20, 1, &file);
	assert_true(file.length < 20000);
	read_bytes(file.bytes, file.length, &options, &read, &faults);
	assert_int_equal(faults.kept[0].error, VC_E_LIMIT);
	assert_string_equal(faults.kept[0].section, ".vramcore.threads");
	vc_tables_deinit(&read);
	free(zeroes);
	vc_buffer_deinit(&file);
}

/* Puts another value at a place of the first note and makes the hash of the front right again. */
static void newer_version(void **state)
{
	uint8_t *bytes = malloc(golden_length), *note;
	struct vc_faults faults = {0};
	struct vc_tables read;
	uint64_t hash;

	(void)state;
	assert_non_null(bytes);
	memcpy(bytes, golden, golden_length);
	note = memmem(bytes, golden_length, "VRAMCORE", 9);
	assert_non_null(note);
	note += 12;
	assert_int_equal(note[0], VC_CONTAINER_READ_VERSION);
	note[0]++;
	memset(note + 16, 0, 8);
	hash = XXH64(bytes, front.front_bytes, 0);
	memcpy(note + 16, &hash, 8);
	assert_int_equal(vc_snapshot_read_memory(bytes, golden_length, NULL, &read, &faults),
			 VC_E_TOO_NEW);
	assert_int_equal(faults.count, 1);
	assert_int_equal(faults.kept[0].offset, note - bytes);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_is_read_as_ever),
		cmocka_unit_test(cut_at_every_length),
		cmocka_unit_test(every_bit_flipped),
		cmocka_unit_test(bytes_behind_the_end),
		cmocka_unit_test(groups_around_a_broken_one),
		cmocka_unit_test(hostile_groups),
		cmocka_unit_test(unknown_columns),
		cmocka_unit_test(impossible_groups),
		cmocka_unit_test(much_from_little),
		cmocka_unit_test(newer_version),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
