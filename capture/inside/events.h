/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hooks and the program's own reports tell the triggers (agent.c).
 *
 * All are safe on any thread inside the guard (vc_enter), take no lock and return at once; none but
 * vc_event_first_record makes a system call unless a trigger fires (then one futex wake).
 */
#ifndef VC_CAPTURE_INSIDE_EVENTS_H
#define VC_CAPTURE_INSIDE_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/**
 * The recording was just started by this thread (first context or allocation succeeded): starts
 * the agent. `descriptor` is the recording's, taken over (closed once the agent has it); -1 none.
 */
void vc_event_first_record(int descriptor);
/** The program ended step `step`. */
void vc_event_step(uint64_t step);
/** The program asked for a snapshot now (vramcore_snapshot). */
void vc_event_request(void);
/**
 * An allocating call failed for want of memory; `row` of failures (UINT32_MAX: not kept).
 * `final`: the thread failed before without a success between, or a framework reported it.
 */
void vc_event_failure(uint32_t row, bool final);
/** A call gave an error of earlier work on the device (`result`); `row` of failures, as above. */
void vc_event_error(uint32_t row, uint32_t result, uint16_t device_plus_one);
/** What had been told as final turned out to be a retry. */
void vc_event_failure_retried(uint32_t row);
/** PyTorch told its observer about the failure: called with the GIL held, before anything unwinds. */
void vc_event_failure_observed(void);
/** The process ends: exit handlers run. CTX: destructor. */
void vc_event_exit(void);

#endif
