/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot, torch 1.13 to 2.15) as
 * tables: a pickle, plain or packed with gzip or zstd.
 *
 * Segments become allocations, active blocks become blocks inside them, so that every view works on
 * them; the dump's own numbers stay in segments, blocks and trace. Nothing of a pickle is executed.
 */
#ifndef VC_ANALYZE_LOAD_TORCH_H
#define VC_ANALYZE_LOAD_TORCH_H

#include <stdbool.h>

#include "analyze/limits.h"
#include "analyze/model.h"

/** Whether the first bytes of a file are those of a pickle, or of something packed. */
bool vc_torch_is(const unsigned char *start, size_t length);

/** Reads it. `limits` may be NULL. 0, or a negative VC_E_* with *problem filled. */
int vc_torch_load(int descriptor, const char *path, const struct vc_wanted_columns *wanted,
		  const struct vc_limits *limits, struct vc_tables *ret,
		  struct vc_problem *problem);

#endif
