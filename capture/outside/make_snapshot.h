/* SPDX-License-Identifier: Apache-2.0 */
/* Turns one moment of a recording into a snapshot file. */
#ifndef VC_CAPTURE_OUTSIDE_MAKE_SNAPSHOT_H
#define VC_CAPTURE_OUTSIDE_MAKE_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/recording_read.h"
#include "formats/tables.h"

struct vc_make_snapshot {
	int descriptor;            /* of the recording */
	const struct vc_recording_source *source; /* instead of descriptor: where it is in no file */
	uint64_t time;             /* of the core it is in; 0: now, or its end where the process is dead */
	/** Adds to the tables before they are written (NULL: nothing to add). */
	int (*add)(void *self, struct vc_tables *tables);
	void *add_self;
	uint64_t moment_plus_one;  /* row of moments; 0: now */
	uint64_t failure_plus_one; /* row of failures whose moment is shown; 0: none */
	const char *trigger;       /* where no moment row says it: "request", "signal", "killed", "oom" */
	const char *recording;     /* its path, beside which walk files lie; NULL: it has none */
	bool remove_walk;          /* once the snapshot is written */
	const char *folder;        /* made when missing; the name is made from the content */
	const char *path;          /* instead of folder: this very file */
};

/**
 * Writes the file; never over one that exists. *ret_path (PATH_MAX bytes) gets its name, *ret_bytes
 * its size. Faults of the recording go into the snapshot's evidence and to *faults. 0 or a negative
 * VC_E_*, *fault then says where.
 */
int vc_make_snapshot(const struct vc_make_snapshot *wanted, char *ret_path, uint64_t *ret_bytes,
		     struct vc_faults *faults, struct vc_fault *fault);

/** One line to standard error: what it is about (a path or a process), what, and where in it. */
void vc_print_fault(const char *of, const struct vc_fault *fault);

#endif
