/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of hooked calls, as ids of the recording.
 *
 * Joins the unwinder (unwind.h), its list of loaded objects (modules.h) and the recording (store.h).
 * Inside the guard only; no allocation, no system call once the code on the stack has been seen.
 */
#ifndef VC_CAPTURE_INSIDE_STACK_H
#define VC_CAPTURE_INSIDE_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/unwind.h"

/** Who calls, natively and in Python; ids, 0: none. */
struct vc_stacks {
	uint32_t native; /* 0 also when none could be had (counted) */
	uint32_t python; /* with the place in the forward pass, where a node of a backward pass runs */
	uint64_t module_object; /* see vc_python_stack; of that place where Python runs none */
};
/** The stacks that start at these registers. */
void vc_stack_take(const struct vc_registers *from, struct vc_stacks *ret);
/** The native stack alone, of which nothing is kept; false when none could be had. */
bool vc_stack_view(const struct vc_registers *from, struct vc_native_stack *ret);
/** A new recording begins: what was written into the old one is written again. */
void vc_stack_forget(void);

#endif
