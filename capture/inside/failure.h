/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of allocations that failed for want of memory.
 *
 * A mark keeps the request and what was live by site at that instant. It becomes a retry with the
 * thread's next success; whether it becomes a snapshot is the agent's decision (events.h).
 */
#ifndef VC_CAPTURE_INSIDE_FAILURE_H
#define VC_CAPTURE_INSIDE_FAILURE_H

#include "capture/inside/effects.h"

/** The driver said out of memory. `device` is -1 where it is not known. Inside the guard. */
void vc_failure_mark(struct vc_call *call, vc_cu_result result, uint64_t requested, int device);
/** An allocation of this thread succeeded. */
void vc_failure_over(void);

#endif
