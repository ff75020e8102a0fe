/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/make_snapshot.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/outside/process.h"
#include "formats/convert.h"
#include "formats/snapshot_write.h"
#include "formats/walk_read.h"

#define NAMES_TRIED 1000

static const char *text_of(const struct vc_tables *tables, enum vc_column_index column)
{
	return vc_tables_text(tables, tables->column[column][0]);
}

/* What may stand in a file name; all else, slashes above all, becomes an underscore. */
static void copy_plain(char *to, size_t size, const char *from)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	size_t i = 0;

	for (; from[i] && i + 1 < size; i++)
		to[i] = strchr(good, from[i]) ? from[i] : '_';
	to[i] = 0;
}

/* HOST.RANK.PID.stepN.TRIGGER */
static void name_snapshot(const struct vc_tables *tables, char *ret, size_t size)
{
	uint64_t rank_plus_one = tables->column[VC_COL_process_rank_plus_one][0];
	char host[65], trigger[33], rank[24] = "-";

	copy_plain(host, sizeof(host), text_of(tables, VC_COL_process_host));
	copy_plain(trigger, sizeof(trigger), text_of(tables, VC_COL_process_trigger));
	if (rank_plus_one)
		snprintf(rank, sizeof(rank), "%" PRIu64, rank_plus_one - 1);
	snprintf(ret, size, "%s.%s.%" PRIu64 ".step%" PRIu64 ".%s", *host ? host : "localhost", rank,
		 tables->column[VC_COL_process_pid][0], tables->column[VC_COL_process_step][0],
		 *trigger ? trigger : "now");
}

/* Makes a folder, with those above it. */
static int make_folder(const char *folder)
{
	char path[PATH_MAX];

	if (mkdir(folder, 0700) == 0 || errno == EEXIST)
		return 0;
	if (errno != ENOENT || snprintf(path, sizeof(path), "%s", folder) >= (int)sizeof(path))
		return VC_E_IO;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return VC_E_IO;
		*slash = '/';
	}
	return mkdir(folder, 0700) == 0 || errno == EEXIST ? 0 : VC_E_IO;
}

/* Names that are taken get a number; two writers with one name both end up with whole files. */
static int write_named(const struct vc_make_snapshot *wanted, const struct vc_tables *tables,
		       char *ret_path, struct vc_fault *fault)
{
	char name[256];
	int result = VC_E_EXISTS;

	if (make_folder(wanted->folder) != 0)
		return vc_fault_set(fault, VC_E_IO, NULL, 0);
	name_snapshot(tables, name, sizeof(name));
	for (int i = 1; result == VC_E_EXISTS && i < NAMES_TRIED; i++) {
		char number[16] = "";

		if (i > 1)
			snprintf(number, sizeof(number), ".%d", i);
		if (snprintf(ret_path, PATH_MAX, "%s/%s%s.vramcore", wanted->folder, name, number) >=
		    PATH_MAX)
			return vc_fault_set(fault, VC_E_LIMIT, NULL, 0);
		result = vc_snapshot_write(ret_path, tables, fault);
	}
	return result;
}

static int find_failure(void *self, enum vc_item state, uint64_t number, const void *item,
			uint64_t offset)
{
	struct vc_convert_options *options = self;

	(void)offset;
	if (state != VC_ITEM_GOOD)
		return 0;
	if (number + 1 == options->number) {
		options->number = ((const struct vc_failure_row *)item)->number;
		options->at = VC_AT_NUMBER;
		return 1;
	}
	return 0;
}

static void choose_moment(const struct vc_make_snapshot *wanted,
			  const struct vc_recording_source *source,
			  struct vc_convert_options *options)
{
	struct vc_recording recording;

	if (wanted->moment_plus_one) {
		options->at = VC_AT_MOMENT;
		options->number = wanted->moment_plus_one - 1;
	} else if (wanted->failure_plus_one &&
		   vc_recording_open(source, &recording, NULL, NULL) == 0) {
		options->number = wanted->failure_plus_one;
		options->moment = "oom";
		vc_recording_scan(&recording, VC_REC_FAILURES, find_failure, options);
		vc_recording_close(&recording);
	}
}

/* A descriptor of the walk file that goes with the moment, -1: there is none. */
static int open_walk(const struct vc_make_snapshot *wanted,
		     const struct vc_recording_source *source, char *ret_path,
		     struct vc_recording_source *ret)
{
	int descriptor;

	if (!wanted->recording || wanted->failure_plus_one)
		return -1;
	descriptor = vc_walk_find(wanted->recording,
				  vc_recording_walk(source, wanted->moment_plus_one), ret_path,
				  PATH_MAX);
	if (descriptor >= 0 && vc_recording_source_descriptor(descriptor, ret) != 0) {
		close(descriptor);
		return -1;
	}
	return descriptor;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

int vc_make_snapshot(const struct vc_make_snapshot *wanted, char *ret_path, uint64_t *ret_bytes,
		     struct vc_faults *faults, struct vc_fault *fault)
{
	struct vc_convert_options options = {.trigger = wanted->trigger, .time = now()};
	struct vc_recording_summary summary;
	struct vc_recording_source source, walk;
	char walk_path[PATH_MAX];
	struct vc_tables tables;
	struct stat status;
	int walk_descriptor;
	int result = 0;

	if (wanted->source)
		source = *wanted->source;
	else
		result = vc_recording_source_descriptor(wanted->descriptor, &source);
	if (!result)
		result = vc_recording_peek(&source, &summary);
	if (result)
		return vc_fault_set(fault, result, NULL, 0);
	options.state = vc_process_state_text(summary.pid, summary.start_ticks, summary.boot_id,
					      summary.pid_namespace);
	if (!strcmp(options.state, "dead"))
		options.time = 0; /* nothing happened after the last thing recorded */
	if (wanted->time)
		options.time = wanted->time;
	choose_moment(wanted, &source, &options);
	walk_descriptor = open_walk(wanted, &source, walk_path, &walk);
	if (walk_descriptor >= 0)
		options.walk = &walk;
	result = vc_convert(&source, &options, &tables, faults);
	if (walk_descriptor >= 0)
		close(walk_descriptor);
	if (result) {
		*fault = faults->count && faults->count <= VC_FAULTS_KEPT ?
				 faults->kept[faults->count - 1] :
				 (struct vc_fault){.error = result};
		return result;
	}
	if (wanted->add)
		result = wanted->add(wanted->add_self, &tables);
	if (result) {
		vc_tables_deinit(&tables);
		return vc_fault_set(fault, result, NULL, 0);
	}
	if (wanted->path) {
		snprintf(ret_path, PATH_MAX, "%s", wanted->path);
		result = vc_snapshot_write(wanted->path, &tables, fault);
	} else {
		result = write_named(wanted, &tables, ret_path, fault);
	}
	vc_tables_deinit(&tables);
	if (!result && walk_descriptor >= 0 && wanted->remove_walk)
		unlink(walk_path);
	if (!result)
		*ret_bytes = stat(ret_path, &status) == 0 ? (uint64_t)status.st_size : 0;
	return result;
}

void vc_print_fault(const char *of, const struct vc_fault *fault)
{
	fprintf(stderr, "vramcore: %s: %s", of, vc_error_text(fault->error));
	if (fault->section[0])
		fprintf(stderr, " in %s at byte %" PRIu64, fault->section, fault->offset);
	if (fault->system_error)
		fprintf(stderr, ": %s", strerror(fault->system_error));
	fputc('\n', stderr);
}
