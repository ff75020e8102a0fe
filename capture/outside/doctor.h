/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's report, shared by its parts: findings, one a line or an object of a JSON list. */
#ifndef VC_CAPTURE_OUTSIDE_DOCTOR_H
#define VC_CAPTURE_OUTSIDE_DOCTOR_H

#include <stdbool.h>

struct vc_doctor {
	char **program;
	bool json, run, audit;
	int said, problems;
};

/** A finding: all is well. */
void vc_doctor_good(struct vc_doctor *doctor, const char *what, const char *detail);
/** A finding to know of. */
void vc_doctor_note(struct vc_doctor *doctor, const char *what, const char *detail);
/** A finding that stands in the way, and what to do about it. */
void vc_doctor_problem(struct vc_doctor *doctor, const char *what, const char *detail,
		       const char *advice);

/** Runs the program, or a probe of the driver, under observation and says what was seen. */
void vc_doctor_run(struct vc_doctor *doctor, const char *library);
/** The probe: what a small program does with the driver. Its exit status. */
int vc_doctor_probe(void);

#endif
