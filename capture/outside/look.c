/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/look.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/outside/locate.h"
#include "capture/outside/make_snapshot.h"
#include "capture/outside/outside.h"
#include "capture/outside/process.h"
#include "capture/outside/thread_stacks.h"
#include "capture/outside/unrecorded.h"
#include "formats/snapshot_write.h"

int vc_look_add_threads(void *self, struct vc_tables *tables)
{
	struct vc_thread_stacks stacks;
	int error = vc_thread_stacks_read(*(const uint64_t *)self, VC_LOOK_SECONDS, &stacks);

	if (error == VC_E_PERMISSION) /* it is gone: nothing stands anywhere */
		return 0;
	if (error)
		return error;
	error = vc_thread_stacks_add(&stacks, tables);
	vc_thread_stacks_free(&stacks);
	return error;
}

/* ---- a process that is not recorded ---- */

/* The rank, where the launcher's variables can be read; plus 1. */
static uint64_t rank_plus_one(uint64_t pid)
{
	static const char *const names[] = {
#define VC_RANK_NAME(rank, world) rank "=",
#include "formats/rank_names.def"
#undef VC_RANK_NAME
	};
	size_t best = sizeof(names) / sizeof(names[0]), size = 0;
	char path[64], *line = NULL;
	uint64_t rank = 0;
	FILE *environment;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/environ", pid);
	environment = fopen(path, "re");
	while (environment && getdelim(&line, &size, 0, environment) > 0)
		for (size_t i = 0; i < best; i++)
			if (!strncmp(line, names[i], strlen(names[i]))) {
				rank = strtoull(line + strlen(names[i]), NULL, 10) + 1;
				best = i;
			}
	free(line);
	if (environment)
		fclose(environment);
	return rank;
}

static int fill_process(uint64_t pid, struct vc_tables *tables)
{
	struct vc_process process = {0};
	char path[64], program[PATH_MAX] = "", command[4096], host[65] = "";
	struct timespec now;
	uint64_t row;
	ssize_t length;
	int error = vc_tables_append(tables, VC_TABLE_process, &row);

	if (error)
		return error;
	vc_process_read(pid, &process);
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/exe", pid);
	length = readlink(path, program, sizeof(program) - 1);
	program[length < 0 ? 0 : length] = 0;
	vc_process_command(pid, command, sizeof(command));
	gethostname(host, sizeof(host) - 1);
	tables->column[VC_COL_process_pid][row] = pid;
	tables->column[VC_COL_process_parent_pid][row] = process.parent_pid;
	tables->column[VC_COL_process_rank_plus_one][row] = rank_plus_one(pid);
	tables->column[VC_COL_process_snapshot_time][row] =
		(uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
	error = vc_tables_put_text(tables, VC_COL_process_program, row, program);
	if (!error)
		error = vc_tables_put_text(tables, VC_COL_process_command, row, command);
	if (!error)
		error = vc_tables_put_text(tables, VC_COL_process_host, row, host);
	if (!error)
		error = vc_tables_put_text(tables, VC_COL_process_moment, row, "now");
	if (!error)
		error = vc_tables_put_text(tables, VC_COL_process_trigger, row, "request");
	return error ? error : vc_tables_put_text(tables, VC_COL_process_state, row,
						  process.state == 'T' || process.state == 't' ?
							  "stopped" : "running");
}

int vc_look_unrecorded(uint64_t pid, struct vc_tables *ret)
{
	struct vc_tables tables;
	uint64_t row;
	int error = vc_tables_init(&tables);

	if (error)
		return error;
	error = fill_process(pid, &tables);
	if (!error)
		error = vc_tables_append(&tables, VC_TABLE_evidence, &row);
	if (!error) {
		tables.column[VC_COL_evidence_value][row] = 1;
		error = vc_tables_put_text(&tables, VC_COL_evidence_key, row, "not_recorded");
	}
	if (!error)
		error = vc_look_add_threads(&pid, &tables);
	if (error)
		vc_tables_deinit(&tables);
	else
		*ret = tables;
	return error;
}

static int complain(uint64_t pid, const struct vc_fault *fault)
{
	char of[24];

	snprintf(of, sizeof(of), "%" PRIu64, pid);
	vc_print_fault(of, fault);
	return 2;
}

/* Gone, but what it left is still there: its memory is shown, and no threads. */
static int look_recorded(uint64_t pid, int descriptor, const char *path)
{
	struct vc_make_snapshot wanted = {
		.descriptor = descriptor,
		.path = path,
		.add = vc_look_add_threads,
		.add_self = &pid,
	};
	struct vc_faults faults = {0};
	struct vc_fault fault = {0};
	char made[PATH_MAX];
	uint64_t bytes;
	int error = vc_make_snapshot(&wanted, made, &bytes, &faults, &fault);

	close(descriptor);
	return error ? complain(pid, &fault) : 0;
}

int vc_outside_look(uint64_t pid, const char *path)
{
	struct vc_recording_summary summary;
	struct vc_process process;
	struct vc_tables tables;
	struct vc_fault fault = {0};
	char recording[PATH_MAX];
	int descriptor = vc_locate_process(pid, recording, &summary);

	if (descriptor >= 0)
		return look_recorded(pid, descriptor, path);
	if (!vc_process_read(pid, &process)) {
		fprintf(stderr, "vramcore: %" PRIu64 ": no such process, and no recording of it is left "
				"(vramcore ps lists what there is)\n", pid);
		return 2;
	}
	fault.error = vc_look_unrecorded(pid, &tables);
	if (fault.error)
		return complain(pid, &fault);
	if (vc_snapshot_write(path, &tables, &fault) != 0)
		complain(pid, &fault);
	vc_tables_deinit(&tables);
	return fault.error ? 2 : 0;
}
