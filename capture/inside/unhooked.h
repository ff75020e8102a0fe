/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the driver that a program was handed out without a wrapper and that are not known to
 * be harmless (harmless.def): counted, and the first few named, in every recording of the process.
 * Callable at any time on any thread, before the recording begins too.
 */
#ifndef VC_CAPTURE_INSIDE_UNHOOKED_H
#define VC_CAPTURE_INSIDE_UNHOOKED_H

#include <stdbool.h>

/** Whether a name looks like the driver's and is not one of harmless.def. */
bool vc_unhooked_suspect(const char *name);
/** A suspect function of the driver was handed out as it is. */
void vc_unhooked_handed_out(const char *name);
/** A recording begins: what was handed out before belongs to it. Inside the guard. */
void vc_unhooked_begin(void);

#endif
