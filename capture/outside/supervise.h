/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: parent of the recorded program, which it neither delays nor outlives by more than
 * the last snapshots take.
 *
 * It forwards signals, turns moments that the recorders keep into snapshot files (one at a time, in
 * a process of its own, so that signals are never late), takes final snapshots of processes that
 * failed, and removes recordings once they are of no more use.
 */
#ifndef VC_CAPTURE_OUTSIDE_SUPERVISE_H
#define VC_CAPTURE_OUTSIDE_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "formats/recording_read.h"

#define VC_SUPERVISED_MAX 4096

/** One recording of a process under this supervisor. */
struct vc_supervised {
	char name[128];              /* in the folder; "" for a memfd */
	int descriptor;
	uint64_t pid, start_ticks, start_time;
	uint64_t moments_done;       /* rows of moments handed on */
	uint64_t request;            /* a snapshot from outside is due: signal number */
	uint64_t shown;              /* the last such signal that a snapshot was begun for */
	uint64_t files, bytes;       /* written for this process */
	bool finished;               /* dead, and nothing more to do */
	bool seen_dead;
	bool replaced;               /* the process runs another program now, with its own recording */
};

struct vc_supervisor {
	/* given */
	const char *folder;          /* of the recordings */
	const char *out;             /* of the snapshots, absolute */
	uint64_t max_files, max_bytes;
	bool keep;
	pid_t program;
	/* state */
	int socket, signals, folder_descriptor;
	struct vc_supervised *supervised;
	uint32_t count;
	pid_t worker;                /* converting now, 0 none */
	uint32_t worker_for;         /* index in supervised */
	bool program_ended;
	int program_status;          /* as waitpid gives it */
	uint64_t snapshots;          /* files written in all */
	uint64_t failed;             /* snapshots that could not be written */
};

/** Makes socket and signal descriptor; call before the program is started. 0 or a negative VC_E_*. */
int vc_supervisor_prepare(struct vc_supervisor *supervisor);
/** Runs until the program has ended and its last snapshots are written. */
void vc_supervisor_run(struct vc_supervisor *supervisor);
/** Processes started under this supervisor, by the count the library keeps; 0 unknown. */
uint64_t vc_supervisor_processes(const struct vc_supervisor *supervisor);
/** Removes what is left of the folder that is of no more use. */
void vc_supervisor_clean(struct vc_supervisor *supervisor);

#endif
