/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over PyTorch's tensors: what each live byte of them is, and what keeps it alive.
 *
 * One pass over the interpreter's heap, the modules, the optimizers and the autograd graph. It runs
 * with the GIL held on the thread that trains; on any other one `full` must be false: PyTorch
 * changes gradients and saved tensors without the GIL, so only the heap and the graph's shape are
 * read then. None of the program's code runs (no __torch_function__, no __torch_dispatch__, no
 * property, no unpack hook, no operator but the accessors of plain sparse tensors), the collector
 * is off for that time, no device memory is asked for, and what was held is let go. Pages of its
 * own take what it needs. Rows go to a walk file. CTX: a thread of the interpreter, GIL held.
 */
#ifndef VC_CAPTURE_INSIDE_TENSORS_H
#define VC_CAPTURE_INSIDE_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/walk_file.h"

struct vc_tensors_wish {
	bool full;           /* this is the thread that trains; not so while others are in PyTorch too */
	bool holders;        /* what keeps them alive too */
	uint64_t processor;  /* nanoseconds of this thread's processor time it may take; 0: no limit */
	uint64_t clock;      /* the same by the clock, for a thread that hardly gets to run */
	uint64_t memory;     /* bytes at most; 0: VC_TENSORS_MEMORY */
};

#define VC_TENSORS_MEMORY (UINT64_C(256) << 20)

/** Walks. False: nothing of it can be said, and the row of the walk says why. */
bool vc_tensors_walk(const struct vc_tensors_wish *wish, struct vc_walk_file *file);

#endif
