/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps and phases, as the program or its NVTX ranges tell them.
 *
 * A thread's phase is one string, the names of the ranges it is in from the outermost on, joined
 * by " > "; leaving a range cuts the last name off. Ranges deeper than the limits are counted and
 * not named. Inside the guard, while recording.
 */
#ifndef VC_CAPTURE_INSIDE_PHASE_H
#define VC_CAPTURE_INSIDE_PHASE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/recording.h"

void vc_phase_set(const char *name, size_t length);
void vc_phase_push(const char *name, size_t length);
void vc_phase_pop(void);
/**
 * Step `step` ended, says `source`: kept in the recording, and told to the triggers, unless a source
 * that goes before it has counted a step.
 */
void vc_phase_step(enum vc_step_source source, uint64_t step);

#endif
