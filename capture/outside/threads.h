/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says of the threads of a process, without stopping one. */
#ifndef VC_CAPTURE_OUTSIDE_THREADS_H
#define VC_CAPTURE_OUTSIDE_THREADS_H

#include "capture/outside/thread_stacks.h"

/** Where a thread stands that is not running. */
struct vc_thread_place {
	uint64_t stack_pointer, instruction; /* 0: it runs, or it may not be read */
};

/**
 * Fills number, name, state and wait of one thread. False where it is gone.
 * `ret_error` gets an errno where its place may not be read, else 0.
 */
bool vc_thread_look(uint64_t pid, uint32_t thread, struct vc_thread_stack *ret,
		    struct vc_thread_place *ret_place, int *ret_error);

#endif
