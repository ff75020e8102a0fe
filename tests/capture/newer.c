/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of a driver that is newer than the recorder are handed out as they are, counted once
 * each, and named in the evidence of every recording of the process; known harmless ones are not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "compare.h"
#include "formats/convert.h"
#include "formats/tables.h"
#include "functions.h"

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

static void *newer;

static int call(const char *name)
{
	int (*function)(void) = NULL;

	*(void **)&function = dlsym(newer, name);
	return function ? function() : -1;
}

static void check_evidence(uint64_t count, const char *names)
{
	struct test_recording recording;
	struct vc_recording_source source;
	struct vc_tables tables;
	bool found = false;
	int file;

	CHECK(!test_recording_open(getpid(), &recording));
	CHECK(test_counter(&recording, VC_COUNTER_UNHOOKED_SYMBOLS) == count);
	file = open(recording.path, O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0 && !vc_recording_source_descriptor(file, &source));
	CHECK(!vc_convert(&source, NULL, &tables, NULL));
	for (uint64_t i = 0; i < tables.rows[VC_TABLE_evidence]; i++) {
		uint64_t key = tables.column[VC_COL_evidence_key][i];
		uint64_t detail = tables.column[VC_COL_evidence_detail][i];

		if (strcmp(vc_tables_text(&tables, key), "unhooked_symbols"))
			continue;
		found = true;
		CHECK(tables.column[VC_COL_evidence_value][i] == count);
		if (strcmp(vc_tables_text(&tables, detail), names))
			fprintf(stderr, "detail: %s\n", vc_tables_text(&tables, detail));
		CHECK(!strcmp(vc_tables_text(&tables, detail), names));
	}
	CHECK(found == (count > 0));
	for (uint64_t i = 0; i < tables.rows[VC_TABLE_environment]; i++)
		CHECK(*vc_tables_text(&tables, tables.column[VC_COL_environment_name][i]) != '(');
	vc_tables_deinit(&tables);
	close(file);
}

int main(void)
{
	int (*ask)(const char *, void **, int, unsigned long long, int *) = NULL;
	void *libc = dlopen("libc.so.6", RTLD_NOW), *function = NULL;
	int status = -1;
	pid_t child;

	if (!test_functions_get("dlsym"))
		return 1;
	newer = dlopen(getenv("TEST_NEWER_DRIVER"), RTLD_NOW | RTLD_LOCAL);
	CHECK(newer && libc);
	if (failures)
		return 1;
	/* Before there is a recording. */
	CHECK(call("cuFutureAllocate") == 2 && call("cuFutureAllocate") == 2);
	CHECK(call("cuTexObjectCreate") == 1);
	CHECK(!dlsym(libc, "cuFutureShare"));
	CHECK(strstr(dlerror(), "undefined symbol: cuFutureShare"));
	CHECK(vramcore_start() == 1);
	check_evidence(1, "cuFutureAllocate");
	*(void **)&ask = dlsym(newer, "cuGetProcAddress_v2");
	CHECK(ask && !ask("cuMemAlloc", &function, 99000, 0, NULL) && function);
	CHECK(ask && !ask("cuTexObjectCreate", &function, 99000, 0, NULL) && function);
	CHECK(call("cuFutureShare") == 3);
	check_evidence(3, "cuFutureAllocate, cuMemAlloc, cuFutureShare");
	/* A child has what it was born with. */
	child = fork();
	if (!child) {
		CHECK(vramcore_start() == 1);
		check_evidence(3, "cuFutureAllocate, cuMemAlloc, cuFutureShare");
		_exit(failures);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
	return failures != 0;
}
