/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why no report could be made: what is wrong, where, and what to try.
 *
 * Plain data with room of its own, so that telling of a lack of memory needs none. Filled by
 * whatever failed, printed once, by main.
 */
#ifndef VC_ANALYZE_PROBLEM_H
#define VC_ANALYZE_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/error.h"

enum vc_exit {
	VC_EXIT_COMPLETE = 0,
	VC_EXIT_INCOMPLETE = 1,
	VC_EXIT_NOTHING = 2,
	VC_EXIT_FAIL_ON = 3,
	VC_EXIT_USAGE = 64,
};

struct vc_problem {
	enum vc_exit status;  /* VC_EXIT_NOTHING or VC_EXIT_USAGE */
	int error;            /* negative VC_E_* or 0 */
	char path[512];       /* file it is about, "" none */
	char section[32];
	bool has_offset;
	uint64_t offset;
	char what[512];
	char hint[256];       /* what to try; "" nothing */
};

/** Fills *problem with exit status 2; returns `error`. */
int vc_problem_set(struct vc_problem *problem, int error, const char *path, const char *hint,
		   const char *format, ...) __attribute__((format(printf, 5, 6)));
/** The same from what a reader found. */
int vc_problem_fault(struct vc_problem *problem, const char *path, const struct vc_fault *fault);
/** Fills *problem with exit status 64; returns VC_E_INVALID. */
int vc_problem_usage(struct vc_problem *problem, const char *hint, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
