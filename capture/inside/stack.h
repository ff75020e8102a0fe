/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of hooked calls, as ids of the recording.
 *
 * Joins the unwinder (unwind.h), its list of loaded objects (modules.h) and the recording (store.h).
 * Inside the guard only; no allocation, no system call once the code on the stack has been seen.
 */
#ifndef VC_CAPTURE_INSIDE_STACK_H
#define VC_CAPTURE_INSIDE_STACK_H

#include <stdint.h>

#include "capture/inside/unwind.h"

/** Id of the stack that starts at these registers; 0 when none could be had (counted). */
uint32_t vc_stack_capture(const struct vc_registers *from);
/** A new recording begins: what was written into the old one is written again. */
void vc_stack_forget(void);

#endif
