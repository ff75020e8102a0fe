/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes tables as a memory snapshot of PyTorch, a pickle that torch.cuda._memory_viz reads.
 *
 * Of an imported snapshot everything that the tables hold comes back, keys that a row did not have
 * are left out, frames and stacks are shared. Of a recording: allocations become segments, blocks
 * of caching allocators the blocks in them. Not thread safe.
 */
#ifndef VC_ANALYZE_TORCH_WRITE_H
#define VC_ANALYZE_TORCH_WRITE_H

#include <stdio.h>

#include "analyze/limits.h"
#include "analyze/names.h"
#include "formats/tables.h"

/** Writes an imported snapshot; all columns are there. 0, VC_E_IO, VC_E_NO_MEMORY, VC_E_LIMIT. */
int vc_torch_write(FILE *out, const struct vc_tables *tables, const struct vc_limits *limits);

/**
 * The same of a recording, file 0 of `names`; its stacks were named before. *left_out: blocks that
 * overlap others or reach out of their allocation, which this form cannot hold.
 */
int vc_torch_write_recording(FILE *out, const struct vc_tables *tables,
			     const struct vc_names *names, const struct vc_limits *limits,
			     uint64_t *left_out);

/** Whether a row of `allocations` becomes a segment. */
bool vc_torch_is_segment(const struct vc_tables *tables, uint64_t row);

#endif
