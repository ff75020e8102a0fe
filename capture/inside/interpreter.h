/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper in the program's Python interpreter: how it comes to run, and how long is waited for it.
 *
 * The first block that PyTorch reports starts one thread of the recorder. It queues a pending call,
 * which the main thread runs between two instructions; where that does not happen within 50 ms a
 * second thread asks for the interpreter's lock. Both find the same job, whoever comes first does
 * it (interpreter_work.h), who comes too late finds nothing to do. Nobody of the program waits but
 * the end of the interpreter for a job that a thread of the recorder does there, and
 * the recorder waits no longer than a deadline: without the interpreter a moment is taken all the
 * same, and it is said that the interpreter's part is missing. Nothing is tried while the
 * interpreter ends. A forked child knows nothing of the job of its parent and starts at its own
 * first block.
 */
#ifndef VC_CAPTURE_INSIDE_INTERPRETER_H
#define VC_CAPTURE_INSIDE_INTERPRETER_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/store.h"

/** PyTorch reported a block of a device; all calls but the first cost a load. CTX: hook. */
void vc_interpreter_first_block(void);

/** Whether the helper is in place, so that a moment can be asked of it. Any context. */
bool vc_interpreter_ready(void);

/** Triggers whose moment may be a little later, when the interpreter can be asked. */
enum vc_interpreter_trigger {
	VC_INTERPRETER_STEP,
	VC_INTERPRETER_EVERY_STEP,
	VC_INTERPRETER_EVERY,
	VC_INTERPRETER_USED,
	VC_INTERPRETER_SIGNAL,
	VC_INTERPRETER_REQUEST,
	VC_INTERPRETER_ASKED,
	VC_INTERPRETER_TRIGGERS
};
/**
 * Asks for a moment at the program's next safe instant; it is taken without the interpreter where a
 * second goes by. `at`: what the moment is the moment of; NULL: when it is taken. False: the helper
 * is not in place or has such a request, and the caller takes it at once. One futex call; with
 * a trigger that only one thread or handler uses, any context.
 */
bool vc_interpreter_ask(enum vc_interpreter_trigger trigger, uint64_t step,
			const struct vc_instant *at);
/** A step ended on this thread, which holds the GIL: does what waits. */
void vc_interpreter_step(void);
/**
 * The interpreter is about to end: none of the recorder's threads goes into it any more, and one
 * that is there is waited for, ten seconds at most. The caller holds the GIL, which is given back meanwhile.
 */
void vc_interpreter_close(void);
/** It has begun (again). The GIL is held. */
void vc_interpreter_open(void);
/** Takes what was asked for and not yet taken, without the interpreter. CTX: the process ends. */
void vc_interpreter_finish(void);

/** Threads of the recorder that are the helper's. */
unsigned int vc_interpreter_threads(void);
/** Ends them, as far as they can be: see keeper.h. */
void vc_interpreter_stop(void);
/** A new recording begins in a forked child. */
void vc_interpreter_forget(void);

#endif
