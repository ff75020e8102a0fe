/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs that start, find and read recordings, for the command line.
 *
 * Each takes the arguments from its verb on (argv[0] is the verb), prints for a person, and gives
 * the exit status: 0 done, 1 done but incomplete, 2 nothing done, 64 usage; `run` gives the
 * program's own. Not thread safe; they may change signal masks and the working process at will.
 */
#ifndef VC_CAPTURE_OUTSIDE_OUTSIDE_H
#define VC_CAPTURE_OUTSIDE_OUTSIDE_H

#include <stdint.h>

int vc_outside_run(int argc, char **argv);
int vc_outside_snapshot(int argc, char **argv);
int vc_outside_extract(int argc, char **argv);
int vc_outside_ps(int argc, char **argv);
int vc_outside_clean(int argc, char **argv);
int vc_outside_doctor(int argc, char **argv);

/**
 * A snapshot of a process as it is now, recorded or not, with the stacks of its threads, as a new
 * file. Says what went wrong; 0 or an exit status.
 */
int vc_outside_look(uint64_t pid, const char *path);

#endif
