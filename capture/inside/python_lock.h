/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which thread has the interpreter's lock, told without it.
 *
 * Read from the lock itself (python_layout.def, from 3.13 on the interpreter's own table) through the
 * kernel, which answers with an error where a load would fault: meanwhile the thread may go on, end
 * and be freed. What is said was the same before and after, and is one of the interpreter's own
 * threads; else nothing is said. System calls are made, so this is not for hooks.
 */
#ifndef VC_CAPTURE_INSIDE_PYTHON_LOCK_H
#define VC_CAPTURE_INSIDE_PYTHON_LOCK_H

#include <stdbool.h>
#include <stddef.h>

/** "thread 4711 (python3) in load of data.py:33". False: nobody has it, or it cannot be told. */
bool vc_python_lock_holder(char *ret, size_t size);

#endif
