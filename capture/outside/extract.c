/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore extract: the snapshot of a process whose core file is left. */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/outside/core_find.h"
#include "capture/outside/core_stacks.h"
#include "capture/outside/json.h"
#include "capture/outside/make_snapshot.h"
#include "capture/outside/outside.h"
#include "capture/outside/process.h"
#include "capture/outside/unpack.h"

#define STACKS_SECONDS 20
#define STORED_CORES "/var/lib/systemd/coredump"

struct extract {
	const char *of;           /* a file, or the number of a process */
	const char *out, *recording;
	bool json, stacks;
	char path[PATH_MAX];      /* of the core */
	struct vc_unpacked unpacked;
	struct vc_core core;
	struct vc_core_recording found;
	uint64_t time;            /* the core was written */
	uint64_t stacks_read;     /* threads whose stacks are in the snapshot */
};

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "write this file instead of one named after its content", 0},
	{"recording", 'r', "FILE.vrec", 0, "the recording of the process, where it is no longer where the "
					   "process had it", 0},
	{"with-stacks", 's', NULL, 0, "with the stacks of its threads, native and Python", 0},
	{"json", 'j', NULL, 0, "print JSON (schema vramcore.extract/1)", 0},
	{0},
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct extract *extract = state->input;

	switch (key) {
	case 'o':
		extract->out = argument;
		return 0;
	case 'r':
		extract->recording = argument;
		return 0;
	case 's':
		extract->stacks = true;
		return 0;
	case 'j':
		extract->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (extract->of)
			argp_usage(state);
		extract->of = argument;
		return 0;
	case ARGP_KEY_END:
		if (!extract->of)
			argp_error(state, "no core file given");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int complain(const struct extract *extract, const char *what, const char *hint)
{
	fprintf(stderr, "vramcore: %s: %s\n", extract->path, what);
	if (hint)
		fprintf(stderr, "          (%s)\n", hint);
	return 2;
}

/* ---- the core ---- */

/* core.PROGRAM.USER.BOOT.PID.TIME, as systemd-coredump names them; the newest of a process. */
static bool find_stored(struct extract *extract)
{
	unsigned long long newest = 0;
	DIR *folder = opendir(STORED_CORES);
	struct dirent *entry;
	bool found = false;

	while (folder && (entry = readdir(folder))) {
		char *text = strdup(entry->d_name), *rest = text, *part, *last[3] = {"", "", ""};
		unsigned long long time;

		/* a packed one ends with .zst, .lz4 or .xz: the time is the last number */
		while (text && (part = strsep(&rest, "."))) {
			if (strspn(part, "0123456789") != strlen(part) || !*part)
				continue;
			last[0] = last[1];
			last[1] = last[2];
			last[2] = part;
		}
		time = strtoull(last[2], NULL, 10);
		if (text && !strcmp(last[1], extract->of) && time >= newest) {
			newest = time;
			found = true;
			snprintf(extract->path, sizeof(extract->path), "%s/%s", STORED_CORES,
				 entry->d_name);
		}
		free(text);
	}
	if (folder)
		closedir(folder);
	return found;
}

static int open_file(struct extract *extract, int *ret)
{
	struct stat about;
	int descriptor;

	snprintf(extract->path, sizeof(extract->path), "%s", extract->of);
	descriptor = open(extract->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (descriptor < 0 && errno == ENOENT &&
	    strspn(extract->of, "0123456789") == strlen(extract->of)) {
		if (!find_stored(extract))
			return complain(extract, "no such file, and no core of that process in "
					STORED_CORES, NULL);
		descriptor = open(extract->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	if (descriptor < 0)
		return complain(extract, strerror(errno), NULL);
	if (fstat(descriptor, &about) || !S_ISREG(about.st_mode)) {
		close(descriptor);
		return complain(extract, "not a file", NULL);
	}
	extract->time = (uint64_t)about.st_mtim.tv_sec * UINT64_C(1000000000) +
			(uint64_t)about.st_mtim.tv_nsec;
	*ret = descriptor;
	return 0;
}

static int open_core(struct extract *extract, int descriptor)
{
	char problem[PATH_MAX + 200];
	struct vc_fault fault = {0};

	if (vc_unpack(descriptor, &extract->unpacked, problem, sizeof(problem)) != 0)
		return complain(extract, problem, NULL);
	if (vc_core_open(extract->unpacked.descriptor, &extract->core, &fault) == 0)
		return 0;
	if (extract->unpacked.cut)
		return complain(extract, extract->unpacked.cut, NULL);
	if (fault.error == VC_E_INVALID)
		return complain(extract, "not a core file of a 64-bit process",
				"vramcore opens .vramcore, .vrec and PyTorch's snapshots by info, top, ...");
	return complain(extract, vc_error_text(fault.error), NULL);
}

/* ---- what is said ---- */

static int not_found(const struct extract *extract, enum vc_core_found found)
{
	const struct vc_core_recording *recording = &extract->found;
	char what[PATH_MAX + 300], process[64];

	snprintf(process, sizeof(process), "process %" PRIu64 " (%s)", extract->core.pid,
		 extract->core.program);
	switch (found) {
	case VC_CORE_TOO_NEW:
		return complain(extract, "its recording was made by a newer vramcore", NULL);
	case VC_CORE_OF_CHILD:
		snprintf(what, sizeof(what), "%s was not recorded: it never used the device; its parent "
			 "%" PRIu64 " was", process, recording->anchor.pid);
		return complain(extract, what, NULL);
	case VC_CORE_GONE:
		snprintf(what, sizeof(what), "the recording of %s is not in the core, and %s is gone",
			 process, extract->recording ? extract->recording :
				  *recording->anchor.path ? recording->anchor.path : "its memory");
		if (extract->core.cut_segments)
			return complain(extract, what, "the core ends too early");
		return complain(extract, what, "vramcore run --in-core keeps it in the core; --recording "
				"names a copy of it");
	case VC_CORE_NO_MEMORY:
		return complain(extract, vc_error_text(VC_E_NO_MEMORY), NULL);
	default:
		break;
	}
	if (extract->core.cut_segments) {
		snprintf(what, sizeof(what), "no recording of %s is left in it: %" PRIu64 " of %" PRIu64
			 " pieces of memory are missing", process, extract->core.cut_segments,
			 extract->core.segments);
		return complain(extract, what, "the core ends too early");
	}
	snprintf(what, sizeof(what), "%s was not recorded%s", process,
		 recording->library ? ": it had not used the device yet" : "");
	return complain(extract, what, recording->library ? NULL : "vramcore run -- PROGRAM records one");
}

/* What a reader of the snapshot could not tell from it. */
static void say_notes(const struct extract *extract, const struct vc_recording_summary *summary)
{
	const struct vc_core *core = &extract->core;

	if (extract->unpacked.cut)
		fprintf(stderr, "vramcore: %s: %s; %" PRIu64 " bytes unpacked\n", extract->path,
			extract->unpacked.cut, extract->unpacked.bytes);
	if (core->cut_segments)
		fprintf(stderr, "vramcore: %s: ends too early: %" PRIu64 " of %" PRIu64 " pieces of memory "
				"(%.1f MiB) are missing\n", extract->path, core->cut_segments,
			core->segments, (double)core->cut_bytes / (1 << 20));
	if (extract->found.descriptor >= 0 && !summary->ended &&
	    strcmp(vc_process_state_text(summary->pid, summary->start_ticks, summary->boot_id,
					 summary->pid_namespace), "dead") != 0)
		fprintf(stderr, "vramcore: %s: process %" PRIu64 " may still run: its recording, %s, shows it "
				"as it is now\n", extract->path, summary->pid, extract->found.path);
}

static void print_result(const struct extract *extract, const char *path, uint64_t bytes,
			 uint64_t faults)
{
	const struct vc_core *core = &extract->core;

	if (!extract->json) {
		printf("%s\n", strncmp(path, "./", 2) == 0 ? path + 2 : path);
		return;
	}
	printf("{\"schema\": \"vramcore.extract/1\", \"path\": ");
	vc_json_text(path);
	printf(", \"bytes\": %" PRIu64 ", \"faults\": %" PRIu64 ", \"pid\": %" PRIu64 ", \"signal\": %d, "
	       "\"threads\": %" PRIu64 ", \"recording\": ", bytes, faults, core->pid, core->signal,
	       core->threads);
	vc_json_text(extract->found.descriptor >= 0 ? extract->found.path : "");
	printf(", \"missing_pieces\": %" PRIu64 ", \"missing_bytes\": %" PRIu64 "}\n",
	       core->cut_segments, core->cut_bytes);
}

/* ---- the snapshot ---- */

/* A core names no threads: the recording names those that allocated. */
static void name_threads(struct vc_thread_stacks *stacks, const struct vc_tables *tables)
{
	for (uint32_t i = 0; i < stacks->threads; i++) {
		struct vc_thread_stack *thread = &stacks->thread[i];

		for (uint64_t row = 0; !thread->name[0] && row < tables->rows[VC_TABLE_threads]; row++)
			if (tables->column[VC_COL_threads_thread][row] == thread->thread)
				snprintf(thread->name, sizeof(thread->name), "%s",
					 vc_tables_text(tables,
							tables->column[VC_COL_threads_name][row]));
	}
}

/* Stacks that cannot be had are said, and cost nothing else. */
static int add_stacks(void *self, struct vc_tables *tables)
{
	struct extract *extract = self;
	struct vc_thread_stacks stacks = {0};
	int error = vc_core_stacks(&extract->core, STACKS_SECONDS, &stacks);

	if (error) {
		fprintf(stderr, "vramcore: %s: stacks: %s\n", extract->path, vc_error_text(error));
		return 0;
	}
	if (stacks.missing[0])
		fprintf(stderr, "vramcore: %s: %s\n", extract->path, stacks.missing);
	extract->stacks_read = stacks.threads;
	name_threads(&stacks, tables);
	error = vc_thread_stacks_add(&stacks, tables);
	vc_thread_stacks_free(&stacks);
	return error;
}

/* By the verb that shows them, so that they look the same everywhere. */
static void show_stacks(const char *path)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "vramcore", "hang", "--threads", path, (char *)NULL);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static int write_snapshot(struct extract *extract)
{
	struct vc_make_snapshot wanted = {
		.folder = ".",
		.path = extract->out,
		.source = &extract->found.source,
		.trigger = "core",
		.time = extract->time,
		.add = extract->stacks ? add_stacks : NULL,
		.add_self = extract,
	};
	struct vc_recording_summary summary;
	struct vc_faults faults = {0};
	struct vc_fault fault = {0};
	char path[PATH_MAX];
	uint64_t bytes = 0;

	if (vc_recording_peek(wanted.source, &summary) == 0)
		say_notes(extract, &summary);
	if (vc_make_snapshot(&wanted, path, &bytes, &faults, &fault) != 0) {
		vc_print_fault(fault.error == VC_E_EXISTS ? path : extract->path, &fault);
		return 2;
	}
	if (faults.count)
		fprintf(stderr, "vramcore: %s: %" PRIu64 " damaged or missing places in the recording; the "
				"evidence of the snapshot names them\n", extract->path, faults.count);
	print_result(extract, path, bytes, faults.count);
	if (extract->stacks_read && !extract->json)
		show_stacks(path);
	return faults.count ? 1 : 0;
}

static int extract_core(struct extract *extract, int descriptor)
{
	char copy[PATH_MAX];
	enum vc_core_found found;
	int status = open_core(extract, descriptor);

	if (status)
		return status;
	snprintf(copy, sizeof(copy), "%s", extract->path);
	found = vc_core_find(&extract->core, extract->recording, dirname(copy), &extract->found);
	status = found == VC_CORE_FOUND ? write_snapshot(extract) : not_found(extract, found);
	vc_core_forget(&extract->found);
	vc_core_close(&extract->core);
	return status;
}

int vc_outside_extract(int argc, char **argv)
{
	static const struct argp description = {
		.options = options,
		.parser = parse,
		.args_doc = "CORE",
		.doc = "Writes a snapshot of a recorded process from its core file: of the kernel, of gcore, as "
		       "systemd-coredump stores it (its process number will do), plain or packed with gzip, "
		       "zstd, lz4 or xz, whole or cut. Neither the program nor the recorder's library is needed.",
	};
	struct extract extract = {.unpacked = {.descriptor = -1}};
	char name[] = "vramcore extract";
	int descriptor = -1, status;

	argv[0] = name;
	argp_err_exit_status = 64;
	argp_parse(&description, argc, argv, 0, NULL, &extract);
	status = open_file(&extract, &descriptor);
	if (status)
		return status;
	status = extract_core(&extract, descriptor);
	if (extract.unpacked.descriptor >= 0 && extract.unpacked.descriptor != descriptor)
		close(extract.unpacked.descriptor);
	close(descriptor);
	return status;
}
