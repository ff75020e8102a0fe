/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of Python of the calling thread, read without the interpreter's help or its lock.
 *
 * CPython 3.9 to 3.14 with a global interpreter lock. Only a thread itself changes its chain of
 * frames, and whoever asks stands in a C call, so the chain is whole; the code objects on it are
 * held by their frames. Of an interpreter that is ending, or whose layout is not as known
 * (python_layout.h), nothing is read. Code is known by its address together with what else tells it
 * apart, since addresses are used again; names and line table are copied at first sight and decoded
 * by the reader.
 *
 * Inside the guard, outside signal handlers that interrupted the interpreter. No allocation, no
 * Python call but PyGILState_GetThisThreadState and Py_IsFinalizing, no system call in steady state,
 * errno kept.
 */
#ifndef VC_CAPTURE_INSIDE_PYTHON_H
#define VC_CAPTURE_INSIDE_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/unwind.h"

/**
 * Id in stacks of the Python frames of this thread; 0: it runs no Python, or none that can be read.
 * `forward`, where it is not 0, is the id of such a stack too: then the id is that of both together
 * (vc_python_forward), and there may be no frames beside it.
 * *ret_module_object: the object that stands as first local in the innermost frame of the code given
 * to vc_python_module_code, where there are others none of a class GraphModule; 0: none. It is an address
 * to compare, not to follow.
 */
uint32_t vc_python_stack(uint32_t forward, uint64_t *ret_module_object);

/** Address of the code object that runs for every module of a model; 0: none. Any thread. */
void vc_python_module_code(uint64_t code);

/**
 * From now on nothing of Python is read, and no thread is reading it any more (waits 100 ms at
 * most): for the interpreter's own exit handlers, since it frees the states of other threads when
 * it ends. CTX: any thread, outside a hook.
 */
void vc_python_stop(void);
/** Ends that, for an interpreter that was initialised anew. */
void vc_python_resume(void);

/** A new recording begins: forgets code objects and looks for an interpreter among all loaded objects. */
void vc_python_begin(void);
/** The object that holds this address was seen on a stack for the first time. */
void vc_python_object(uint64_t address);

/**
 * Finds out which frames of a new native stack run Python, where that is not known yet.
 * `row_of`: row of a module in the recording plus 1, by the unwinder's number of it.
 */
void vc_python_evals(const struct vc_native_stack *stack, uint32_t (*row_of)(uint32_t number));
/** A new recording begins. */
void vc_python_evals_forget(void);

#endif
