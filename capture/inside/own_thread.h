/* SPDX-License-Identifier: Apache-2.0 */
/* How a thread of the recorder is made: detached, all signals blocked, a stack of any size. */
#ifndef VC_CAPTURE_INSIDE_OWN_THREAD_H
#define VC_CAPTURE_INSIDE_OWN_THREAD_H

#include <stdbool.h>
#include <stddef.h>

/**
 * Starts one that calls run(NULL). False: the program has no threads, no address space is left for
 * it, or the system refuses. The caller's signal mask is as it was. CTX: not a signal handler.
 */
bool vc_own_thread_make(void *(*run)(void *), size_t stack_bytes);

#endif
