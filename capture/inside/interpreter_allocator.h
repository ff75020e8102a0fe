/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch says of its own allocator at a moment: back end, limits, totals, and its list of
 * segments and blocks, which alone knows stream, pool, what was asked for, and what is to be freed.
 *
 * The list costs PyTorch some microseconds for each block, so it is left out where there are too
 * many of them and where PyTorch records the history of its allocations, which would come with it.
 * What was left out is said by a fact. CTX: GIL held, errors are the caller's to restore.
 */
#ifndef VC_CAPTURE_INSIDE_INTERPRETER_ALLOCATOR_H
#define VC_CAPTURE_INSIDE_INTERPRETER_ALLOCATOR_H

#include <stdbool.h>

#include "capture/inside/walk_file.h"

/** Writes facts, segments and blocks. `failure`: an allocation failed, so that time matters less. */
void vc_allocator_walk(struct vc_walk_file *walk, bool failure);

#endif
