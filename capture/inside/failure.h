/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of calls that failed for want of memory, or with an error of earlier work on the device.
 *
 * A mark of the first kind keeps the request and what was live by site at that instant. It becomes
 * a retry with the thread's next success; whether it becomes a snapshot is the agent's decision
 * (events.h). An allocator that answers a failure with another try, and says so when it gives up
 * (PyTorch's), decides for itself: until it does, its further failures are part of the first. Of
 * the second kind (an illegal address, a failed assertion, memory that lost its bits) the first
 * few of a recording are kept, with their stack, and the first of each sort becomes a snapshot:
 * the context is lost, and every later call says the same. All others (not ready, invalid value)
 * are the program's business.
 */
#ifndef VC_CAPTURE_INSIDE_FAILURE_H
#define VC_CAPTURE_INSIDE_FAILURE_H

#include "capture/inside/effects.h"
#include "capture/inside/start.h"

/**
 * A call failed: keeps what is worth keeping. `device` is -1 where it is not known. Inside the
 * guard, with the recording open.
 */
void vc_failure_note(struct vc_call *call, vc_cu_result result, uint64_t requested, int device);
/** The same from outside the guard, for rows of which only the result is looked at. */
void vc_failure_result(enum vc_row row, vc_cu_result result, const struct vc_registers *caller);
/**
 * A framework's allocator gives up: it tried again by itself, and throws now. The failed calls of
 * the driver before are part of it. Inside the guard, with the recording open.
 */
struct vc_reported {
	uint64_t requested;
	uint32_t stack, python;
	enum vc_own_call call_name;
	int device;               /* -1: not known */
};
void vc_failure_reported(const struct vc_reported *reported);
/**
 * The framework gave this thread a block: the failure that it reported before was a retry if Python
 * still stands where it stood then. A library caught it (cuDNN, which tries several ways), or the
 * program did and asked for less.
 */
void vc_failure_block(uint32_t python);
/** A new recording begins. */
void vc_failure_forget(void);
/** An allocation of this thread succeeded. */
void vc_failure_over(void);

#endif
