/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python stacks of another process, read from its memory by the layouts of formats/python_layout.
 *
 * Nothing runs in the process. What is read may change meanwhile, so that every pointer is followed
 * with a bound and every object is checked to be of the size its type has; a frame that does not fit ends
 * the stack.
 */
#ifndef VC_CAPTURE_OUTSIDE_PYTHON_STACKS_H
#define VC_CAPTURE_OUTSIDE_PYTHON_STACKS_H

#include "capture/outside/thread_stacks.h"
#include "formats/python_layout.h"

struct vc_python {
	const struct vc_memory *memory;
	const struct vc_python_layout *layout;
	uint64_t runtime; /* address of _PyRuntime */
	bool free_threaded;
};

/**
 * `version` as in python_layout.def, of a runtime at this address. False where the version is not
 * known, or the interpreter says of itself that it is laid out otherwise.
 */
bool vc_python_open(struct vc_python *python, const struct vc_memory *memory, uint64_t runtime,
		    uint16_t version);
/**
 * Fills the Python frames of those of the threads that run Python; gives how many have some.
 * What they own is freed with the thread.
 */
uint32_t vc_python_stacks(const struct vc_python *python, struct vc_thread_stack *threads,
			  uint32_t count);

#endif
