/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a snapshot is taken: chosen steps, every N steps or seconds, use of a device, a signal,
 * failure, exit, request.
 *
 * A trigger takes a moment (vc_store_moment: one number) on the thread it fires on and wakes the
 * agent; everything else happens elsewhere. vc_triggers_poll is the agent's.
 */
#ifndef VC_CAPTURE_INSIDE_TRIGGERS_H
#define VC_CAPTURE_INSIDE_TRIGGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/store.h"

/** Reads the settings; once per recording, before the agent starts. */
void vc_triggers_start(void);
/** Whether moments of steps are to be those before a backward pass. */
bool vc_trigger_wants_backward(void);
/** Installs the handler of VRAMCORE_ON_SIGNAL, where that signal is at its default. CTX: agent. */
void vc_triggers_watch_signal(void);
/** Fires what depends on time and use. CTX: agent. */
void vc_triggers_poll(void);
/**
 * Takes a moment and wakes the agent. Names are static texts. `failure_plus_one`: see struct
 * vc_moment_row. Gives the row, UINT32_MAX where none was kept. Any context; the driver is asked
 * nothing.
 */
uint32_t vc_trigger(const char *trigger, const char *moment, uint64_t failure_plus_one);
/**
 * The same for a step and, where `at` is not NULL, an instant that are past. On a thread of the
 * program, not in a signal handler: the driver is asked what its memory is.
 */
uint32_t vc_trigger_at(const char *trigger, const char *moment, uint64_t step,
		       const struct vc_instant *at);
/**
 * The interpreter's hooks are in place, on a thread that has the GIL: where the first step of an
 * optimizer is to be shown at its peak, its tensors are looked at before its backward pass.
 */
void vc_trigger_first_backward(void);
/**
 * A backward pass is about to begin on this thread, with the GIL held, and the moment of this step
 * waits for it: takes it, or what is needed of it.
 */
void vc_trigger_before_backward(const char *trigger, uint64_t step);
/** Nanoseconds until a timed trigger is due; UINT64_MAX where there is none. */
uint64_t vc_triggers_due(void);

#endif
