/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases of capture_misc share; see misc.c. */
#ifndef TESTS_CAPTURE_MISC_H
#define TESTS_CAPTURE_MISC_H

#include <stdbool.h>
#include <stdio.h>

/** Checks that did not hold. */
extern int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

/** Finds the driver and makes a context. */
bool begin(void);

/* misc_cost.c */
/** Allocates and frees, eight at a time, and reports a block. */
void churn(int rounds);
/** An allocation in steady state calls neither the heap nor the system. */
void quiet(void);
/** And uses little stack. */
void depth(void);

#endif
