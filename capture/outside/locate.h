/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds recordings: in $VRAMCORE_DIR, in /dev/shm, and in the folders that `vramcore run` makes
 * there. A recording in a memfd is found through /proc/PID/task.
 */
#ifndef VC_CAPTURE_OUTSIDE_LOCATE_H
#define VC_CAPTURE_OUTSIDE_LOCATE_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/recording_read.h"

#define VC_RECORDING_PREFIX "vramcore-"
#define VC_RECORDING_SUFFIX ".vrec"
#define VC_RUN_FOLDER_PREFIX "vramcore-run-"

/** One recording found. The descriptor is open during the call only. */
struct vc_located {
	const char *path;
	int descriptor;
	const struct vc_recording_summary *summary;
	const char *state;        /* vc_process_state_text */
	uint64_t user;            /* owner of the file */
};

/** From now on only this folder, and what `vramcore run` makes in it, is searched. */
void vc_locate_only(const char *folder);
/** Calls `visit` for every recording found; not 0 ends the search and is given back. */
int vc_locate_all(int (*visit)(void *self, const struct vc_located *found), void *self);
/** Calls `visit` for each folder that `vramcore run` made; not 0 ends the search. */
int vc_locate_run_folders(int (*visit)(void *self, const char *path), void *self);
/**
 * Opens the newest recording of a process: a descriptor, or -1 where there is none. *ret_path
 * (PATH_MAX bytes) gets where it was.
 */
int vc_locate_process(uint64_t pid, char *ret_path, struct vc_recording_summary *ret_summary);

/** Removes the walk files of a recording; `name` is its name in the folder. */
void vc_locate_remove_walks(const char *folder, const char *name);

#endif
