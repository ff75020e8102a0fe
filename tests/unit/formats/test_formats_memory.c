/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation fails once: the Nth one of a write and of a read, for N = 1, 2, ... until none
 * fails. The sanitized build finds what is not freed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "formats/snapshot_read.h"
#include "formats/snapshot_write.h"
#include "tests/unit/formats/sample_tables.h"

#define PATH VC_TEST_BUILD "/memory.vramcore"

static uint64_t until_failure; /* 0: none fails */
static bool failed;

static bool fails(void)
{
	if (!until_failure || --until_failure)
		return false;
	failed = true;
	return true;
}

/* The linker puts these in the place of the functions they are named after (--wrap). */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
	return fails() ? NULL : __real_realloc(old, bytes);
}

static bool has_fault(const struct vc_faults *faults, int error)
{
	for (uint64_t i = 0; i < faults->count && i < VC_FAULTS_KEPT; i++)
		if (faults->kept[i].error == error)
			return true;
	return false;
}

static void every_allocation_may_fail(void **state)
{
	struct vc_tables written, read;
	uint64_t writes = 0, reads = 0;

	(void)state;
	sample_tables_fill(&written, 300, 1);
	do {
		int error;

		unlink(PATH);
		failed = false;
		until_failure = ++writes;
		error = vc_snapshot_write(PATH, &written, NULL);
		until_failure = 0;
		assert_int_equal(error, failed ? VC_E_NO_MEMORY : 0);
		assert_int_equal(access(PATH, F_OK), failed ? -1 : 0);
	} while (failed);
	do {
		struct vc_faults faults = {0};
		int error;

		failed = false;
		until_failure = ++reads;
		error = vc_snapshot_read(PATH, NULL, &read, &faults);
		until_failure = 0;
		if (failed)
			assert_true(error == VC_E_NO_MEMORY ||
				    (!error && has_fault(&faults, VC_E_NO_MEMORY)));
		else
			assert_true(!error && !faults.count);
		if (!error) {
			assert_int_equal(vc_tables_check(&read, NULL), 0);
			assert_int_equal(sample_tables_equal(&written, &read), !failed);
			vc_tables_deinit(&read);
		}
	} while (failed);
	assert_true(writes > 10 && reads > 100);
	unlink(PATH);
	vc_tables_deinit(&written);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
