/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a recorded process looks hung, and why. A guess from outside, always with its reason: a
 * program that reports steps is measured against its own longest step so far.
 */
#ifndef VC_CAPTURE_OUTSIDE_HUNG_H
#define VC_CAPTURE_OUTSIDE_HUNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/recording_read.h"

/**
 * `state` is that of vc_process_state_text, `now` CLOCK_REALTIME in nanoseconds. Where the process
 * looks hung the reason is written to *reason: "no step for 41 min, the longest before took 3.1 s".
 */
bool vc_hung(const struct vc_recording_summary *summary, const char *state, uint64_t now,
	     char *reason, size_t size);
/** A duration as a person says it: "4 s", "41 min", "3 h", "2 d". */
void vc_duration_text(uint64_t nanoseconds, char *text, size_t size);

#endif
