/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which node of PyTorch's autograd graph runs on a thread, and where in the forward pass it was made.
 *
 * PyTorch is heard of both: of a node when its tensor gets it, on the thread and at the line of Python
 * that computes the tensor; and when the engine calls it in a backward pass, on whatever thread. A
 * node is known by its address together with what it is and the number it was given when it was made,
 * so that one that takes the place of another is never taken for it. That the engine's call still
 * goes on is told by the native stack: its return address is there, where it was. So a tie is exact,
 * or there is none: nodes that only add up gradients, those that PyTorch makes anew for views, and
 * those made before the recording have none. A node made by a backward pass (create_graph) counts as
 * made where the one was that ran, unless Python made it.
 *
 * Inside the guard, with the recording open; any thread. No lock, no system call in steady state.
 */
#ifndef VC_CAPTURE_INSIDE_AUTOGRAD_H
#define VC_CAPTURE_INSIDE_AUTOGRAD_H

#include <stdint.h>

#include "capture/inside/unwind.h"

/** A place in the forward pass; 0: none known. */
struct vc_forward {
	uint32_t python;        /* id in stacks, of frames of Python */
	uint64_t module_object; /* as of vc_python_stack */
};

/** A tensor gets this node, which therefore is whole and was made by what runs on this thread. */
void vc_autograd_made(const uint64_t *node);

/** The engine calls this node: the registers of its caller. */
void vc_autograd_runs(const uint64_t *node, const struct vc_registers *caller);

/** Where the node was made that runs in this stack, which is the calling thread's own. */
struct vc_forward vc_autograd_forward(const struct vc_native_stack *stack);

/** A new recording begins: what was known was of another. */
void vc_autograd_forget(void);

#endif
