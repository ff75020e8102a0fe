/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs under the recorder, on the simulated driver, each with folders of its own.
 */
#ifndef PROOF_VICTIM_H
#define PROOF_VICTIM_H

#include <sys/types.h>

struct victim {
	pid_t pid;
	char folder[64];
	char recordings[128], map[128], out[128]; /* map: of the driver in that process */
	char recording[512]; /* victim_recording */
};

/** Ends the judge with a message and status 2. */
void victim_trouble(const char *what) __attribute__((noreturn));
/**
 * Starts `program` (of the folder BIN the build has) with the recorder; `environment` is more
 * variables, NULL at the end (may be NULL itself). It dies with its judge.
 */
void victim_start(struct victim *victim, const char *bin, char *const arguments[],
		  const char *const environment[]);
/** Whether there is a recording of `pid`; its path goes to victim->recording. */
int victim_recording(struct victim *victim, pid_t pid);
/** Path of the list that the driver keeps in process `pid`: to victim->map. */
void victim_map(struct victim *victim, pid_t pid);
/** Waits for its end: the status of waitpid. */
int victim_wait(struct victim *victim);
/** Removes its folder with all in it. */
void victim_clean(struct victim *victim);
/** VRAMCORE_FULL is set: the long form. */
int victim_full(void);

#endif
