/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, refusing, listing: root, directory, sources, summary and moments. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "recording_test.h"

static void fixed_check(struct made_recording *made)
{
	struct vc_root *root = made->root;

	root->fixed_check =
		vc_check_words((const uint64_t *)&root->fixed, sizeof(root->fixed) / 8, 0);
}

/* The check of the words 1, 2, 3 with number 4, worked out by the definition in FORMAT.md. */
static void test_check_words(void **state)
{
	const uint64_t words[3] = {1, 2, 3};

	(void)state;
	assert_true(vc_check_words(words, 3, 4) == 0x81e79b612ccca9aeu);
	assert_true(vc_check_words(words, 0, 0) == 0xd6e8feb86659fd93u);
}

static void test_refused(void **state)
{
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	made.root->fixed.read_version = 2;
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), VC_E_TOO_NEW);
	fixed_check(&made);
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), VC_E_TOO_NEW);
	assert_true(has_fault(&faults, VC_E_TOO_NEW, "root"));
	made.root->fixed.read_version = 1;
	made.root->fixed.write_version = 9; /* may be read all the same */
	fixed_check(&made);
	convert_whole(&made, NULL, &tables);
	vc_tables_deinit(&tables);
	made.root->fixed.record_bytes = 168;
	fixed_check(&made);
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), VC_E_CORRUPT);
	made.root->fixed.record_bytes = 160;
	fixed_check(&made);
	made.root->magic[0] = 0;
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), VC_E_NOT_A_RECORDING);
	made_end(&made);
}

/* A damaged root says so, and the rest is still shown. */
static void test_damaged_root(void **state)
{
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	made.root->fixed.pid ^= 4;
	made.root->clock ^= 1;
	made.root->used[VC_REC_RECORDS] ^= 16;
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), 0);
	assert_true(has_fault(&faults, VC_E_CHECKSUM, "root"));
	assert_true(has_fault(&faults, VC_E_CORRUPT, "root"));
	assert_int_equal(faults.count, 3);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 13);
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void chunk_refused(struct vc_chunk chunk, uint32_t index, int error)
{
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;

	made_golden(&made);
	made_chunk(&made, index, &chunk);
	if (error == VC_E_CHECKSUM)
		made.root->chunk[index].check ^= 1;
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), 0);
	if (error)
		assert_true(has_fault(&faults, error,
				      error == VC_E_TRUNCATED ? "threads" : "directory"));
	else
		assert_int_equal(faults.count, 0);
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void test_directory(void **state)
{
	const struct vc_chunk good = {.table = VC_REC_THREADS,
				      .first = 100,
				      .count = 10,
				      .offset = 1 << 20,
				      .bytes = 4096};
	struct vc_chunk chunk = good;

	(void)state;
	chunk_refused(good, 14, VC_E_TRUNCATED); /* past the end of the file */
	chunk_refused(good, 14, VC_E_CHECKSUM);
	chunk.offset = 65536; /* where another one lies */
	chunk_refused(chunk, 14, VC_E_CORRUPT);
	chunk.offset = 4096; /* in the root */
	chunk_refused(chunk, 14, VC_E_CORRUPT);
	chunk.offset = (1 << 20) + 8;
	chunk_refused(chunk, 14, VC_E_CORRUPT);
	chunk = good;
	chunk.count = 1000; /* more than its bytes hold */
	chunk_refused(chunk, 14, VC_E_CORRUPT);
	chunk = good;
	chunk.first = 2; /* numbers that another one has */
	chunk_refused(chunk, 14, VC_E_CORRUPT);
	chunk = good;
	chunk.bytes = UINT64_MAX - 4095;
	chunk_refused(chunk, 14, VC_E_CORRUPT);
	chunk = good;
	chunk.table = 0;
	chunk_refused(chunk, 14, VC_E_CORRUPT);
	chunk.table = 77; /* of a later version */
	chunk_refused(chunk, 14, 0);
}

/* Numbers that no chunk was made for are not there, and that is no damage. */
static void test_gap_between_chunks(void **state)
{
	struct vc_chunk chunk;
	struct made_recording made;
	struct vc_tables tables;
	uint64_t used;

	(void)state;
	made_golden(&made);
	chunk = made.root->chunk[VC_REC_THREADS - 1];
	used = vc_word_value(made.root->used[VC_REC_THREADS]);
	/* the rows keep their bytes but become rows 2 and 3; rows 0 and 1 have no chunk */
	chunk.first = 2;
	made_chunk(&made, VC_REC_THREADS - 1, &chunk);
	made.root->used[VC_REC_THREADS] = vc_word(used + 2);
	for (uint64_t i = 0; i < used; i++) {
		struct vc_thread_row *row =
			(struct vc_thread_row *)(made.bytes + made.base[VC_REC_THREADS]) + i;

		row->check = vc_check_words(&row->check + 1, 1, i + 2);
	}
	convert_whole(&made, NULL, &tables);
	assert_int_equal(tables.rows[VC_TABLE_threads], 2);
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* Rows that are reserved but not published are not there. */
static void test_unpublished(void **state)
{
	struct made_recording made;
	struct vc_tables tables;
	struct vc_site *site;

	(void)state;
	made_golden(&made);
	site = (struct vc_site *)(made.bytes + made.base[VC_REC_SITES]) + 3;
	site->stack = 77;
	made.root->used[VC_REC_SITES] = vc_word(4);
	made.root->chunks = vc_word(vc_word_value(made.root->chunks) + 1);
	convert_whole(&made, NULL, &tables);
	assert_int_equal(tables.rows[VC_TABLE_sites], 3);
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void test_device_without_facts(void **state)
{
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	made.root->device[3].live = vc_word(77);
	convert_whole(&made, NULL, &tables);
	assert_int_equal(tables.rows[VC_TABLE_devices], 2);
	assert_int_equal(CELL(&tables, devices_device, 1), 3);
	assert_int_equal(CELL(&tables, devices_live, 1), 77);
	assert_string_equal(TEXT(&tables, devices_name, 1), "");
	vc_tables_deinit(&tables);
	made_end(&made);
}

static int failing_read(void *self, uint64_t offset, void *buffer, size_t length,
			size_t *ret_length)
{
	const struct made_recording *made = self;

	/* a core file that lacks the pages of the records */
	if (offset >= made->base[VC_REC_RECORDS] && offset < made->base[VC_REC_FREED])
		return VC_E_NOT_FOUND;
	if (length > made->length - offset)
		length = made->length - offset;
	memcpy(buffer, made->bytes + offset, length);
	*ret_length = length;
	return 0;
}

static void test_source_with_holes(void **state)
{
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_recording_source source = {.read = failing_read, .self = &made};
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	source.length = made.length;
	assert_int_equal(vc_convert(&source, NULL, &tables, &faults), 0);
	assert_true(has_fault(&faults, VC_E_NOT_FOUND, "records"));
	assert_int_equal(tables.rows[VC_TABLE_allocations], 0);
	assert_int_equal(tables.rows[VC_TABLE_freed], 8);
	assert_int_equal(tables.rows[VC_TABLE_sites], 3);
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void test_descriptor(void **state)
{
	int descriptor = memfd_create("recording", MFD_CLOEXEC), ends[2];
	struct vc_recording_source source;
	struct vc_tables tables, same;
	struct made_recording made;

	(void)state;
	assert_true(descriptor >= 0);
	made_golden(&made);
	assert_int_equal(write(descriptor, made.bytes, made.length), made.length);
	assert_int_equal(vc_recording_source_descriptor(descriptor, &source), 0);
	assert_int_equal(source.length, made.length);
	convert_whole(&made, NULL, &same);
	assert_int_equal(vc_convert(&source, NULL, &tables, NULL), 0);
	assert_true(same_tables(&tables, &same));
	vc_tables_deinit(&tables);
	vc_tables_deinit(&same);
	close(descriptor);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(vc_recording_source_descriptor(ends[0], &source), VC_E_NOT_A_RECORDING);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(vc_recording_source_descriptor(-1, &source), VC_E_IO);
	made_end(&made);
}

static void test_peek(void **state)
{
	struct vc_recording_summary summary;
	struct vc_recording_bytes bytes;
	struct vc_recording_source source;
	struct made_recording made;

	(void)state;
	made_golden(&made);
	made.root->ended = vc_word(1);
	made.root->counter[VC_COUNTER_RECORDS_LOST] = vc_word(6);
	bytes = (struct vc_recording_bytes){made.bytes, made.length};
	vc_recording_source_memory(&bytes, &source);
	assert_int_equal(vc_recording_peek(&source, &summary), 0);
	assert_int_equal(summary.pid, 4242);
	assert_int_equal(summary.start_ticks, 777);
	assert_int_equal(summary.pid_namespace, 4026531836u);
	assert_int_equal(summary.boot_id[0], 0x10);
	assert_int_equal(summary.rank_plus_one, 4);
	assert_int_equal(summary.step_plus_one, 3);
	assert_int_equal(summary.last_event_time, 1000000029500u);
	assert_int_equal(summary.moments, 2);
	assert_int_equal(summary.devices, 1);
	assert_int_equal(summary.live[0], 5000);
	assert_int_equal(summary.ended, 1);
	assert_int_equal(summary.records_lost, 6);
	assert_int_equal(summary.clock, 30);
	assert_string_equal(summary.program, "/usr/bin/train");
	assert_string_equal(summary.job, "1337");
	made.root->fixed.pid++;
	assert_int_equal(vc_recording_peek(&source, &summary), VC_E_CHECKSUM);
	made_end(&made);
}

static void test_moments(void **state)
{
	struct vc_recording_moment *moment;
	struct vc_recording_bytes bytes;
	struct vc_recording_source source;
	struct made_recording made;
	size_t count;

	(void)state;
	made_golden(&made);
	bytes = (struct vc_recording_bytes){made.bytes, made.length};
	vc_recording_source_memory(&bytes, &source);
	assert_int_equal(vc_recording_moments(&source, &moment, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_int_equal(moment[1].row, 1);
	assert_int_equal(moment[1].number, 20);
	assert_int_equal(moment[1].time, 1000000020500u);
	assert_int_equal(moment[1].step, 2);
	assert_string_equal(moment[1].trigger, "step");
	assert_string_equal(moment[1].moment, "after-step");
	free(moment);
	made_end(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_check_words),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damaged_root),
		cmocka_unit_test(test_directory),
		cmocka_unit_test(test_gap_between_chunks),
		cmocka_unit_test(test_unpublished),
		cmocka_unit_test(test_device_without_facts),
		cmocka_unit_test(test_source_with_holes),
		cmocka_unit_test(test_descriptor),
		cmocka_unit_test(test_peek),
		cmocka_unit_test(test_moments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
