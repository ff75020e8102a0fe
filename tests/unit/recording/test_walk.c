/* SPDX-License-Identifier: Apache-2.0 */
/* The walk file: the recorder's writer, the reader, and every way a file can be damaged. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/inside/store.h"
#include "capture/inside/walk_file.h"
#include "formats/walk_read.h"
#include "recording_test.h"

#define ROWS 5000u
#define TEXTS 700u

static char folder[64];

struct row {
	uint64_t value, text, more;
};

static int start(void **state)
{
	struct vc_store_options options = {.directory = folder, .name = "walk.vrec",
					   .budget = 64 << 20};

	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/vramcore-walk-XXXXXX");
	return !mkdtemp(folder) || vc_store_start(&options, NULL) != 0;
}

static int end(void **state)
{
	(void)state;
	vc_store_unlink();
	return rmdir(folder);
}

/* Two kinds in turns, so that their pieces interleave. */
static uint32_t write_walk(void)
{
	struct vc_walk_file *walk = vc_walk_begin(42);

	assert_non_null(walk);
	assert_null(vc_walk_begin(43));
	for (uint64_t i = 0; i < ROWS; i++) {
		char text[32];
		uint64_t number;
		size_t length = (size_t)snprintf(text, sizeof(text), "text %u",
						 (unsigned)(i % TEXTS));
		struct row *row = vc_walk_row(walk, VC_WALK_BLOCKS, sizeof(*row), &number);
		uint64_t *small = vc_walk_row(walk, VC_WALK_SEGMENTS, 8, NULL);

		assert_non_null(row);
		assert_true(number == i);
		row->value = i * 3;
		row->text = vc_walk_string(walk, text, length);
		assert_true(row->text != 0);
		*small = i;
	}
	((struct row *)vc_walk_row_at(walk, VC_WALK_BLOCKS, 1234))->more = 99;
	assert_null(vc_walk_row_at(walk, VC_WALK_BLOCKS, ROWS));
	assert_int_equal(vc_walk_string(walk, "", 0), 0);
	vc_walk_fact(walk, "backend", "native", "torch");
	vc_walk_fact_number(walk, "reserved", 1u << 20, "torch");
	assert_false(vc_walk_full(walk));
	return vc_walk_finish(walk);
}

static uint8_t *read_file(uint32_t walk_plus_one, size_t *ret_length)
{
	char recording[128], path[160];
	struct stat facts;
	uint8_t *bytes;
	int descriptor;

	snprintf(recording, sizeof(recording), "%s/walk.vrec", folder);
	assert_true(vc_walk_path(recording, walk_plus_one, path, sizeof(path)));
	assert_int_equal(stat(path, &facts), 0);
	assert_int_equal(facts.st_mode & 07777, 0600);
	bytes = malloc((size_t)facts.st_size);
	descriptor = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(descriptor, bytes, (size_t)facts.st_size), facts.st_size);
	close(descriptor);
	assert_int_equal(unlink(path), 0);
	*ret_length = (size_t)facts.st_size;
	return bytes;
}

struct seen {
	struct vc_walk *walk;
	uint64_t rows;
};

static int see_row(void *self, uint64_t number, const void *row)
{
	const struct row *block = row;
	struct seen *seen = self;
	char text[32];

	assert_true(number == seen->rows++);
	assert_true(block->value == number * 3);
	assert_true(block->more == (number == 1234 ? 99 : 0));
	snprintf(text, sizeof(text), "text %u", (unsigned)(number % TEXTS));
	assert_string_equal(vc_walk_text(seen->walk, block->text), text);
	return 0;
}

/* A reader that knows more fields than were written. */
static int see_small(void *self, uint64_t number, const void *row)
{
	const uint64_t *words = row;

	assert_true(words[0] == number && words[1] == 0 && words[2] == 0);
	((struct seen *)self)->rows++;
	return 0;
}

static int see_fact(void *self, uint64_t number, const void *row)
{
	static const char *const expected[][3] = {{"backend", "native", "torch"},
						  {"reserved", "1048576", "torch"}};
	const struct vc_walk_fact *fact = row;
	struct seen *seen = self;

	assert_string_equal(vc_walk_text(seen->walk, fact->key), expected[number][0]);
	assert_string_equal(vc_walk_text(seen->walk, fact->value), expected[number][1]);
	assert_string_equal(vc_walk_text(seen->walk, fact->how), expected[number][2]);
	seen->rows++;
	return 0;
}

static void what_is_written_is_read(void **state)
{
	struct vc_recording_bytes held;
	struct vc_recording_source source;
	struct vc_faults faults = {0};
	struct vc_walk walk;
	struct seen seen = {.walk = &walk};
	size_t length;

	(void)state;
	held.bytes = read_file(write_walk(), &length);
	held.length = length;
	vc_recording_source_memory(&held, &source);
	assert_int_equal(vc_walk_open(&source, &walk, &faults, NULL), 0);
	assert_true(walk.head.number == 42);
	assert_true(walk.head.pid == (uint64_t)getpid());
	assert_true(walk.head.bytes == length);
	assert_true(vc_walk_count(&walk, VC_WALK_BLOCKS) == ROWS);
	assert_int_equal(vc_walk_scan(&walk, VC_WALK_BLOCKS, sizeof(struct row), see_row, &seen), 0);
	assert_true(seen.rows == ROWS);
	seen.rows = 0;
	assert_int_equal(vc_walk_scan(&walk, VC_WALK_SEGMENTS, 24, see_small, &seen), 0);
	assert_true(seen.rows == ROWS);
	seen.rows = 0;
	assert_int_equal(vc_walk_scan(&walk, VC_WALK_FACTS, sizeof(struct vc_walk_fact), see_fact,
				      &seen), 0);
	assert_true(seen.rows == 2);
	assert_int_equal(faults.count, 0);
	assert_string_equal(vc_walk_text(&walk, 1u << 30), "");
	assert_int_equal(faults.count, 1);
	vc_walk_close(&walk);
	free((void *)held.bytes);
}

static int count_row(void *self, uint64_t number, const void *row)
{
	(void)number;
	(void)row;
	++*(uint64_t *)self;
	return 0;
}

/* A flipped bit is an error, or a fault, or lies in bytes that mean nothing. */
static void damage_shows(void **state)
{
	struct vc_recording_bytes held;
	struct vc_recording_source source;
	struct vc_walk walk;
	size_t length, refused = 0, said = 0;
	uint64_t rows;
	uint8_t *bytes;

	(void)state;
	bytes = read_file(write_walk(), &length);
	for (size_t at = 0; at < length; at += at < 4096 ? 1 : 997) {
		struct vc_faults faults = {0};

		bytes[at] ^= 0x10;
		held = (struct vc_recording_bytes){bytes, length};
		vc_recording_source_memory(&held, &source);
		rows = 0;
		if (vc_walk_open(&source, &walk, &faults, NULL)) {
			refused++;
		} else {
			vc_walk_scan(&walk, VC_WALK_BLOCKS, 24, count_row, &rows);
			vc_walk_scan(&walk, VC_WALK_SEGMENTS, 8, count_row, &rows);
			vc_walk_scan(&walk, VC_WALK_FACTS, 16, count_row, &rows);
			said += faults.count != 0;
			assert_true(faults.count || rows == 2 * ROWS + 2);
			assert_true(!faults.count || at >= VC_WALK_DATA_OFFSET);
			vc_walk_close(&walk);
		}
		assert_true(refused || at >= 16);
		bytes[at] ^= 0x10;
	}
	assert_true(refused > sizeof(struct vc_walk_head));
	assert_true(said > 100);
	free(bytes);
}

static void cut_files_are_refused(void **state)
{
	struct vc_recording_bytes held;
	struct vc_recording_source source;
	struct vc_walk walk;
	size_t length;
	uint8_t *bytes;

	(void)state;
	bytes = read_file(write_walk(), &length);
	for (size_t kept = 0; kept < length; kept += kept < 200 ? 1 : 1013) {
		held = (struct vc_recording_bytes){bytes, kept};
		vc_recording_source_memory(&held, &source);
		assert_int_not_equal(vc_walk_open(&source, &walk, NULL, NULL), 0);
	}
	free(bytes);
}

static void a_full_file_stays_good(void **state)
{
	struct vc_walk_file *walk = vc_walk_begin(1);
	struct vc_recording_bytes held;
	struct vc_recording_source source;
	struct vc_walk read;
	uint64_t rows = 0, seen = 0;
	size_t length;

	(void)state;
	while (vc_walk_row(walk, VC_WALK_BLOCKS, 4096, NULL))
		rows++;
	assert_true(vc_walk_full(walk));
	assert_true(rows > 1000 && rows * 4096 <= 32 << 20);
	held.bytes = read_file(vc_walk_finish(walk), &length);
	held.length = length;
	vc_recording_source_memory(&held, &source);
	assert_int_equal(vc_walk_open(&source, &read, NULL, NULL), 0);
	vc_walk_scan(&read, VC_WALK_BLOCKS, 4096, count_row, &seen);
	assert_true(seen == rows);
	vc_walk_close(&read);
	free((void *)held.bytes);
}

static void an_abandoned_file_is_gone(void **state)
{
	struct vc_walk_file *walk = vc_walk_begin(1);

	(void)state;
	assert_non_null(walk);
	vc_walk_abandon(walk);
	/* the folder holds the recording alone: see end() */
	walk = vc_walk_begin(2);
	assert_non_null(walk);
	vc_walk_abandon(walk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(damage_shows),
		cmocka_unit_test(cut_files_are_refused),
		cmocka_unit_test(a_full_file_stays_good),
		cmocka_unit_test(an_abandoned_file_is_gone),
	};

	return cmocka_run_group_tests(tests, start, end);
}
