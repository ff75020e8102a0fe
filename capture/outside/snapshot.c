/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/outside/ask.h"
#include "capture/outside/json.h"
#include "capture/outside/locate.h"
#include "capture/outside/look.h"
#include "capture/outside/make_snapshot.h"
#include "capture/outside/outside.h"
#include "capture/outside/process.h"
#include "capture/outside/unrecorded.h"

struct snapshot {
	const char *of;         /* a process id or a file */
	const char *out;
	uint64_t moment_plus_one;
	bool all, stacks, tensors, json;
};

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "write this file instead of one named after its content", 0},
	{"all", 'a', NULL, 0, "of every recorded process of this user that runs on this machine", 0},
	{"tensors", 't', NULL, 0, "ask the program at its next safe instant: with PyTorch's tensors, their roles and holders", 0},
	{"with-stacks", 's', NULL, 0, "with the stacks of its threads, native and Python, and what each waits for", 0},
	{"dir", 'd', "DIR", 0, "look into this folder alone (default: $VRAMCORE_DIR and /dev/shm)", 0},
	{"moment", 'm', "N", 0, "show moment N of the recording instead of now (0 is the first trigger that fired)", 0},
	{"json", 'j', NULL, 0, "print JSON (schema vramcore.snapshot/1)", 0},
	{0},
};

/* 0: it is no number, so it is a file. */
static uint64_t pid_of(const char *text)
{
	char *end;
	uint64_t pid = strtoull(text, &end, 10);

	return !*end && end != text ? pid : 0;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct snapshot *snapshot = state->input;
	char *end;

	switch (key) {
	case 'o':
		snapshot->out = argument;
		return 0;
	case 'm':
		snapshot->moment_plus_one = strtoull(argument, &end, 10) + 1;
		if (*end || end == argument)
			argp_error(state, "--moment takes a number");
		return 0;
	case 'd':
		vc_locate_only(argument);
		return 0;
	case 'a':
		snapshot->all = true;
		return 0;
	case 't':
		snapshot->tensors = true;
		return 0;
	case 's':
		snapshot->stacks = true;
		return 0;
	case 'j':
		snapshot->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (snapshot->of)
			argp_usage(state);
		snapshot->of = argument;
		return 0;
	case ARGP_KEY_END:
		if (snapshot->stacks && snapshot->of && !pid_of(snapshot->of))
			argp_error(state, "--with-stacks goes with a process, not with a file");
		if (snapshot->tensors && (snapshot->moment_plus_one ||
					  (snapshot->of && !pid_of(snapshot->of))))
			argp_error(state, "--tensors asks a process: it goes without a file and --moment");
		if (!snapshot->of == !snapshot->all)
			argp_error(state, snapshot->all ? "--all goes without a process"
							: "no process and no recording given");
		if (snapshot->all && (snapshot->out || snapshot->moment_plus_one))
			argp_error(state, "--all goes without --output and --moment");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int not_recorded(uint64_t pid)
{
	char command[256];

	if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
		fprintf(stderr, "vramcore: %" PRIu64 ": no such process, and no recording of it is left "
				"(vramcore ps lists what there is)\n", pid);
		return 2;
	}
	vc_process_command(pid, command, sizeof(command));
	fprintf(stderr, "vramcore: %" PRIu64 " (%s) is not recorded: it was not started under vramcore "
			"run, or has not used the device yet\n", pid, command);
	if (vc_process_hides(pid))
		fprintf(stderr, "its files cannot be reached from here (that takes its user, or root): as its "
				"user, and inside its container where it is in one: vramcore ps, vramcore "
				"snapshot --all\n");
	vc_unrecorded(pid, stderr);
	return 2;
}

static int open_recording(const struct snapshot *snapshot, char *path)
{
	struct vc_recording_summary summary;
	uint64_t pid = pid_of(snapshot->of);
	int descriptor;

	if (pid) {
		descriptor = vc_locate_process(pid, path, &summary);
		if (descriptor < 0)
			not_recorded(pid);
		return descriptor;
	}
	snprintf(path, PATH_MAX, "%s", snapshot->of);
	descriptor = open(snapshot->of, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (descriptor < 0)
		fprintf(stderr, "vramcore: %s: %s\n", snapshot->of, strerror(errno));
	return descriptor;
}

/*
 * One recording to one file; gives the exit status. The descriptor stays the caller's. `pid` of the
 * running process it belongs to, 0: of none.
 */
static int take(const struct snapshot *snapshot, uint64_t pid, int descriptor, const char *recording)
{
	struct vc_make_snapshot wanted = {
		.folder = ".",
		.descriptor = descriptor,
		.recording = recording,
		.path = snapshot->out,
		.moment_plus_one = snapshot->moment_plus_one,
		.add = snapshot->stacks && pid ? vc_look_add_threads : NULL,
		.add_self = &pid,
	};
	struct vc_faults faults = {0};
	struct vc_fault fault = {0};
	char path[PATH_MAX];
	uint64_t bytes = 0;
	int error = snapshot->tensors ? vc_ask(recording, &wanted.moment_plus_one) : 0;

	wanted.remove_walk = snapshot->tensors && !error;
	if (error)
		fprintf(stderr, "vramcore: %" PRIu64 ": %s: this snapshot is without tensors\n", pid,
			error == VC_E_NOT_FOUND ? "the program did not answer (stopped, ended, or "
						  "without a thread of the recorder)"
						: vc_error_text(error));
	if (vc_make_snapshot(&wanted, path, &bytes, &faults, &fault) != 0) {
		vc_print_fault(fault.error == VC_E_EXISTS ? path : recording, &fault);
		return 2;
	}
	for (uint64_t i = 0; i < faults.count && i < VC_FAULTS_KEPT; i++)
		vc_print_fault(recording, &faults.kept[i]);
	if (snapshot->json) {
		printf("{\"schema\": \"vramcore.snapshot/1\", \"path\": ");
		vc_json_text(path);
		printf(", \"bytes\": %" PRIu64 ", \"faults\": %" PRIu64 "}\n", bytes, faults.count);
	} else {
		printf("%s\n", strncmp(path, "./", 2) == 0 ? path + 2 : path);
	}
	fflush(stdout);
	return faults.count || error ? 1 : 0;
}

struct every {
	const struct snapshot *snapshot;
	unsigned int taken, failed;
	int status;
};

/* Of a program that exec'd, only what it is now: the older recording is of the same process. */
static int take_running(void *self, const struct vc_located *found)
{
	struct every *every = self;
	struct vc_recording_summary newest;
	char path[PATH_MAX];
	uint64_t pid = vc_process_here(found->summary->pid, found->summary->start_ticks,
				       found->summary->pid_namespace);
	int descriptor, status;

	if (found->user != geteuid() ||
	    (strcmp(found->state, "running") != 0 && strcmp(found->state, "stopped") != 0))
		return 0;
	descriptor = vc_locate_process(pid, path, &newest);
	if (descriptor < 0)
		return 0;
	if (newest.start_time == found->summary->start_time) {
		status = take(every->snapshot, pid, descriptor, found->path);
		every->taken += status < 2;
		every->failed += status == 2;
		if (status > every->status)
			every->status = status;
	}
	close(descriptor);
	return 0;
}

static int take_all(const struct snapshot *snapshot)
{
	struct every every = {.snapshot = snapshot};

	vc_locate_all(take_running, &every);
	if (!every.taken && !every.failed) {
		fprintf(stderr, "vramcore: no process of yours is being recorded here "
				"(vramcore ps lists leftovers)\n");
		return 2;
	}
	return every.taken && every.status == 2 ? 1 : every.status;
}

int vc_outside_snapshot(int argc, char **argv)
{
	static const struct argp description = {
		.options = options,
		.parser = parse,
		.args_doc = "PID|FILE.vrec\n--all",
		.doc = "Writes a snapshot of a recorded process as it is now, running, stopped or dead, "
		       "or of a recording it left. The process is neither stopped nor asked.",
	};
	struct snapshot snapshot = {0};
	char recording[PATH_MAX], name[] = "vramcore snapshot";
	int descriptor, status;

	argv[0] = name;
	argp_err_exit_status = 64;
	argp_parse(&description, argc, argv, 0, NULL, &snapshot);
	if (snapshot.all)
		return take_all(&snapshot);
	descriptor = open_recording(&snapshot, recording);
	if (descriptor < 0)
		return 2;
	status = take(&snapshot, pid_of(snapshot.of), descriptor, recording);
	close(descriptor);
	return status;
}
