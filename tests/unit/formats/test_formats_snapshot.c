/* SPDX-License-Identifier: Apache-2.0 */
/* Writing and reading whole snapshots: what goes in comes out, and limits and names hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/snapshot_read.h"
#include "formats/snapshot_write.h"
#include "tests/unit/formats/file_bytes.h"
#include "tests/unit/formats/sample_tables.h"

static char folder[256], path[300];

static int start(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "%s/snapshot-XXXXXX", VC_TEST_BUILD);
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/a.vramcore", folder);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder); /* fails where anything was left behind */
}

static void print_faults(const struct vc_faults *faults)
{
	for (uint64_t i = 0; i < faults->count && i < VC_FAULTS_KEPT; i++)
		fprintf(stderr, "fault: %s at %s %llu\n", vc_error_text(faults->kept[i].error),
			faults->kept[i].section, (unsigned long long)faults->kept[i].offset);
}

static void write_new(const struct vc_tables *tables)
{
	struct vc_fault fault = {0};

	unlink(path);
	assert_int_equal(vc_snapshot_write(path, tables, &fault), 0);
}

static void read_whole(const struct vc_snapshot_options *options, struct vc_tables *ret)
{
	struct vc_faults faults = {0};

	assert_int_equal(vc_snapshot_read(path, options, ret, &faults), 0);
	print_faults(&faults);
	assert_int_equal(faults.count, 0);
}

static void comes_out_as_it_went_in(void **state)
{
	static const uint64_t sizes[] = {1, 2, 9, 100, 4097, 65536, 65537};

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct vc_tables written, read;

		sample_tables_fill(&written, sizes[i], i);
		write_new(&written);
		read_whole(NULL, &read);
		assert_true(sample_tables_equal(&written, &read));
		vc_tables_deinit(&written);
		vc_tables_deinit(&read);
	}
}

/* A table without rows is a table too. */
static void nearly_empty(void **state)
{
	struct vc_tables written, read;
	uint64_t row;

	(void)state;
	assert_int_equal(vc_tables_init(&written), 0);
	assert_int_equal(vc_tables_append(&written, VC_TABLE_process, &row), 0);
	write_new(&written);
	read_whole(NULL, &read);
	assert_true(sample_tables_equal(&written, &read));
	vc_tables_deinit(&written);
	vc_tables_deinit(&read);
}

static void three_ways_to_read(void **state)
{
	struct vc_tables written, read;
	struct vc_faults faults = {0};
	uint8_t *bytes;
	size_t length;
	int descriptor;

	(void)state;
	sample_tables_fill(&written, 50, 3);
	write_new(&written);
	bytes = file_bytes(path, &length);
	assert_true(vc_snapshot_probe(bytes, 64));
	assert_false(vc_snapshot_probe(bytes, 63));
	assert_int_equal(vc_snapshot_read_memory(bytes, length, NULL, &read, &faults), 0);
	assert_true(sample_tables_equal(&written, &read));
	vc_tables_deinit(&read);
	descriptor = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(lseek(descriptor, 17, SEEK_SET), 17);
	assert_int_equal(vc_snapshot_read_descriptor(descriptor, NULL, &read, &faults), 0);
	assert_true(sample_tables_equal(&written, &read));
	assert_int_equal(lseek(descriptor, 0, SEEK_CUR), 17);
	close(descriptor);
	assert_int_equal(faults.count, 0);
	vc_tables_deinit(&read);
	vc_tables_deinit(&written);
	free(bytes);
}

static void only_what_was_asked_for(void **state)
{
	struct vc_tables written, read;

	(void)state;
	sample_tables_fill(&written, 1000, 4);
	write_new(&written);
	for (unsigned column = 0; column < VC_COLUMNS; column++) {
		enum vc_table_index table = vc_column_info[column].table;
		struct vc_snapshot_options options = {0};

		vc_snapshot_want(&options, (enum vc_column_index)column);
		read_whole(&options, &read);
		for (unsigned other = 0; other < VC_COLUMNS; other++)
			assert_true(!read.column[other] ==
				    (other != column || table == VC_TABLE_strings));
		for (unsigned other = VC_TABLE_process; other < VC_TABLES; other++)
			assert_int_equal(read.rows[other],
					 other == table ? written.rows[table] : 0);
		assert_int_equal(read.rows[VC_TABLE_strings], written.rows[VC_TABLE_strings]);
		if (table != VC_TABLE_strings)
			assert_memory_equal(read.column[column], written.column[column],
					    written.rows[table] * sizeof(uint64_t));
		vc_tables_deinit(&read);
	}
	vc_tables_deinit(&written);
}

static void front_says_what_is_in_it(void **state)
{
	struct vc_container_front front;
	struct vc_faults faults = {0};
	struct vc_tables tables;
	struct stat status;
	uint64_t row, host;

	(void)state;
	sample_tables_fill(&tables, 7, 5);
	row = 0;
	assert_int_equal(vc_tables_string(&tables, "gpu-17", 6, &host), 0);
	tables.column[VC_COL_process_host][row] = host;
	tables.column[VC_COL_process_step][row] = 50000;
	tables.column[VC_COL_process_pid][row] = 4711;
	write_new(&tables);
	assert_int_equal(vc_snapshot_read_front(path, &front, &faults), 0);
	assert_int_equal(faults.count, 0);
	assert_string_equal(front.host, "gpu-17");
	assert_int_equal(front.step, 50000);
	assert_int_equal(front.pid, 4711);
	assert_int_equal(front.devices, 7);
	assert_int_equal(front.sections, VC_TABLES);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(front.file_bytes, status.st_size);
	assert_int_equal(status.st_mode & 07777, 0600);
	/* Small tables first. */
	assert_string_equal(front.section[0].name, ".vramcore.environment");
	assert_string_equal(front.section[VC_TABLES - 1].name, ".vramcore.allocations");
	vc_tables_deinit(&tables);
}

static void equal_tables_give_equal_bytes(void **state)
{
	struct vc_tables tables;
	uint8_t *one, *other;
	size_t one_length, other_length;

	(void)state;
	sample_tables_fill(&tables, 300, 6);
	write_new(&tables);
	one = file_bytes(path, &one_length);
	write_new(&tables);
	other = file_bytes(path, &other_length);
	assert_int_equal(one_length, other_length);
	assert_memory_equal(one, other, one_length);
	free(one);
	free(other);
	vc_tables_deinit(&tables);
}

static void never_takes_the_place_of_a_file(void **state)
{
	struct vc_fault fault = {0};
	struct vc_tables tables;
	struct stat status;
	char other[320];

	(void)state;
	sample_tables_fill(&tables, 3, 7);
	unlink(path);
	close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(vc_snapshot_write(path, &tables, &fault), VC_E_EXISTS);
	assert_int_equal(fault.error, VC_E_EXISTS);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 0);
	unlink(path);
	/* Nor is a link followed, even to nowhere. */
	assert_int_equal(symlink("nowhere", path), 0);
	assert_int_equal(vc_snapshot_write(path, &tables, &fault), VC_E_EXISTS);
	unlink(path);
	snprintf(other, sizeof(other), "%s/missing/a.vramcore", folder);
	assert_int_equal(vc_snapshot_write(other, &tables, &fault), VC_E_NOT_FOUND);
	vc_tables_deinit(&tables);
}

static uint64_t file_size(void)
{
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	return (uint64_t)status.st_size;
}

/* A write that fails at any place leaves nothing behind (stop() finds it) and says why. */
static void no_room(void **state)
{
	struct rlimit before, small;
	struct vc_tables tables;
	uint64_t size;

	(void)state;
	sample_tables_fill(&tables, 20, 10);
	write_new(&tables);
	size = file_size();
	unlink(path);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small = before;
	for (uint64_t room = 0; room < size; room += 97) {
		struct vc_fault fault = {0};
		int error;

		small.rlim_cur = room;
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		error = vc_snapshot_write(path, &tables, &fault);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
		assert_int_equal(error, VC_E_IO);
		assert_int_equal(fault.error, VC_E_IO);
		assert_int_equal(fault.system_error, EFBIG);
		assert_int_equal(access(path, F_OK), -1);
	}
	small.rlim_cur = size;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	write_new(&tables);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, SIG_DFL);
	vc_tables_deinit(&tables);
}

static void refuses_bad_tables(void **state)
{
	struct vc_fault fault = {0};
	struct vc_tables tables;

	(void)state;
	sample_tables_fill(&tables, 3, 8);
	unlink(path);
	tables.column[VC_COL_allocations_stack][1] = 4;
	assert_int_equal(vc_snapshot_write(path, &tables, &fault), VC_E_RANGE);
	assert_string_equal(fault.section, ".vramcore.allocations");
	assert_int_equal(access(path, F_OK), -1);
	vc_tables_deinit(&tables);
}

static void limits_have_names(void **state)
{
	struct vc_snapshot_options options = {.rows_max = 99};
	struct vc_tables written, read;
	struct vc_faults faults = {0};

	(void)state;
	sample_tables_fill(&written, 100, 9);
	write_new(&written);
	assert_int_equal(vc_snapshot_read(path, &options, &read, &faults), 0);
	assert_true(faults.count > 0);
	assert_int_equal(faults.kept[0].error, VC_E_LIMIT);
	assert_string_equal(faults.kept[0].section, ".vramcore.environment");
	assert_true(read.rows[VC_TABLE_process] == 1);
	assert_true(read.rows[VC_TABLE_allocations] == 0);
	vc_tables_deinit(&read);
	memset(&faults, 0, sizeof(faults));
	options = (struct vc_snapshot_options){.bytes_max = 20000};
	assert_int_equal(vc_snapshot_read(path, &options, &read, &faults), 0);
	assert_true(faults.count > 0);
	assert_int_equal(faults.kept[0].error, VC_E_LIMIT);
	vc_tables_deinit(&read);
	options.rows_max = 101; /* the strings: "" comes on top */
	options.bytes_max = 100000000;
	read_whole(&options, &read);
	vc_tables_deinit(&read);
	vc_tables_deinit(&written);
}

static void not_a_snapshot(void **state)
{
	static const struct {
		const char *bytes;
		size_t length;
		int error;
	} cases[] = {
		{"", 0, VC_E_NOT_OURS},
		{"hello", 5, VC_E_NOT_OURS},
		{"\177ELF", 4, VC_E_TRUNCATED},
		{"\177ELF\2\2\1", 7, VC_E_OTHER_ENDIAN},
		{"VRAMCORE-RECORD\n", 16, VC_E_NOT_OURS},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vc_faults faults = {0};
		struct vc_tables read;

		assert_int_equal(vc_snapshot_read_memory(cases[i].bytes, cases[i].length, NULL,
							 &read, &faults),
				 cases[i].error);
		assert_int_equal(faults.count, 1);
		assert_int_equal(faults.kept[0].error, cases[i].error);
	}
	{
		struct vc_faults faults = {0};
		struct vc_tables read;

		assert_int_equal(vc_snapshot_read("/proc/self/exe", NULL, &read, &faults),
				 VC_E_NOT_OURS);
		assert_int_equal(vc_snapshot_read(folder, NULL, &read, &faults), VC_E_NOT_OURS);
		assert_int_equal(vc_snapshot_read("/nowhere", NULL, &read, &faults),
				 VC_E_NOT_FOUND);
		assert_int_equal(faults.count, 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_out_as_it_went_in),
		cmocka_unit_test(nearly_empty),
		cmocka_unit_test(three_ways_to_read),
		cmocka_unit_test(only_what_was_asked_for),
		cmocka_unit_test(front_says_what_is_in_it),
		cmocka_unit_test(equal_tables_give_equal_bytes),
		cmocka_unit_test(never_takes_the_place_of_a_file),
		cmocka_unit_test(no_room),
		cmocka_unit_test(refuses_bad_tables),
		cmocka_unit_test(limits_have_names),
		cmocka_unit_test(not_a_snapshot),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
