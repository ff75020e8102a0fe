/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder does in the program's Python interpreter.
 *
 * Everything here runs with the GIL held, on a thread of the program or on the helper's own. It is
 * silent: what raises is caught, the error indicator is as it was, no name appears in any module,
 * nothing is imported, printed or warned of, and the collector does not run meanwhile. What stays is
 * one function object among PyTorch's hooks of optimizers and one among its observers of failed
 * allocations; each is there once, also in forked children, which inherit them.
 */
#ifndef VC_CAPTURE_INSIDE_INTERPRETER_WORK_H
#define VC_CAPTURE_INSIDE_INTERPRETER_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/store.h"

/**
 * Registers the hooks. False: PyTorch is still being imported, try again later. What came of it is
 * *ret.
 */
bool vc_work_start(enum vc_helper_state *ret);
/**
 * Takes a moment with everything the interpreter can say about it; `at`: see vc_interpreter_ask.
 */
void vc_work_moment(const char *trigger, const char *moment, uint64_t step,
		    const struct vc_instant *at);
/**
 * Has the moment of the step that now begins on this thread wait for its backward pass: then the
 * forward pass is done and its graph alive. Nothing where it is not seen when one begins.
 */
void vc_work_before_backward(const char *trigger, uint64_t step);
/** A step ended: nothing waits for it any more. Whether its moment was taken before its backward pass. */
bool vc_work_backward_taken(uint64_t step);
/** The calling thread is the one that trains, as far as is known yet. */
void vc_work_first_thread(void);
/** Whether another thread than the calling one is known to train. */
bool vc_work_trains_elsewhere(void);
/**
 * Whether the calling thread holds the GIL by its own doing, inside or outside of the recorder.
 * Any context.
 */
bool vc_work_holds(void);
/**
 * The walk of a moment that this thread takes now, with the GIL held: the number of its file plus 1,
 * 0: none.
 */
uint32_t vc_work_walk(uint64_t number, bool failure);
/** Whether failed allocations of PyTorch come to its observer. Any context. */
bool vc_work_observes(void);
/** A new recording begins in a forked child. */
void vc_work_forget(void);

#endif
