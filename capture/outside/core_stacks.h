/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the threads of a dead process were, from its core file: native stacks by libdw, Python
 * stacks by formats/python_layout.
 *
 * libdw is given bytes that anybody may have made, so that a process of its own does that work: it
 * may fail or never end, and costs the stacks alone. The program's files are needed for what was
 * called from them: unwind tables are not in a core.
 */
#ifndef VC_CAPTURE_OUTSIDE_CORE_STACKS_H
#define VC_CAPTURE_OUTSIDE_CORE_STACKS_H

#include "capture/outside/core.h"
#include "capture/outside/thread_stacks.h"

/**
 * Reads them, in `seconds` at most; what is missing is said in ret->missing. 0 or a negative VC_E_*.
 * The caller calls vc_thread_stacks_free.
 */
int vc_core_stacks(const struct vc_core *core, unsigned int seconds, struct vc_thread_stacks *ret);

#endif
