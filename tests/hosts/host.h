/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are run with and without the recorder: whatever they print must be the same.
 *
 * A case prints what it sees of itself and of the driver to standard output. What only holds under
 * the recorder (stacks, counters) is checked with HOST_EXPECT, which prints only when it fails.
 */
#ifndef TEST_HOSTS_HOST_H
#define TEST_HOSTS_HOST_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "capture/cuda_abi.h"
#include "compare.h"
#include "functions.h"

struct host_case {
	const char *name;
	void (*run)(void);
};
extern const struct host_case host_signal_cases[], host_process_cases[], host_memory_cases[],
	host_limit_cases[], host_quiet_cases[], host_life_cases[];

/** Calls, and prints result and errno. */
#define HOST_SAY(expression)                                                                       \
	do {                                                                                       \
		int host_result_;                                                                  \
                                                                                                   \
		errno = 4242;                                                                      \
		host_result_ = (int)(expression);                                                  \
		printf("%s: %d, errno %d\n", #expression, host_result_, errno);                    \
	} while (0)

#define HOST_EXPECT(condition)                                                                     \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			host_failures++;                                                           \
		}                                                                                  \
	} while (0)
extern int host_failures;

/** The recorder is in this process. */
bool host_recorded(void);
/** An address inside libvramcore.so. */
bool host_in_recorder(uintptr_t address);
/** A counter of this process's recording; 0 without one. */
uint64_t host_counter(enum vc_counter counter);
/** The driver's functions and a context. */
void host_begin(void);
void host_functions(void);
/** Allocates and frees `rounds` times 4 blocks; the number of calls that failed. */
int host_churn(int rounds);
/** All that a program can see of itself. */
void host_state(const char *where);
/** VRAMCORE_FULL=1: the long form. */
bool host_long(void);

#endif
