/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error numbers of the file formats, and the place a fault was found at.
 *
 * Functions of formats/ return 0 or a negative VC_E_*; none prints, and none formats text. Readers
 * of files pass a struct vc_fault along, which keeps what the caller needs for one clear line.
 */
#ifndef VC_FORMATS_ERROR_H
#define VC_FORMATS_ERROR_H

#include <stddef.h>
#include <stdint.h>

enum vc_error_number {
#define VC_ERROR(name, number, text) VC_E_##name = -(number),
#include "formats/errors.def"
#undef VC_ERROR
};

/** Where in a file something was found wrong. Plain data, owned by the caller. */
struct vc_fault {
	int error;          /* negative VC_E_*, 0: none */
	char section[32];   /* section or table, "" where it does not apply */
	uint64_t offset;    /* bytes from the start of the file */
	int system_error;   /* errno where error is IO or PERMISSION, else 0 */
};

/** Faults met while the rest of a file was still readable; the first VC_FAULTS_KEPT are kept. */
#define VC_FAULTS_KEPT 16
struct vc_faults {
	uint64_t count;
	struct vc_fault kept[VC_FAULTS_KEPT];
};

/** Text of an error number; never NULL; static storage. */
const char *vc_error_text(int error);

/** Fills *fault (may be NULL) and returns `error`. Section may be NULL. */
int vc_fault_set(struct vc_fault *fault, int error, const char *section, uint64_t offset);

/** Adds a copy of *fault to *faults (NULL: dropped). */
void vc_faults_add(struct vc_faults *faults, const struct vc_fault *fault);

#endif
