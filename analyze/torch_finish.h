/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last steps of importing a PyTorch snapshot. Private to the importer.
 */
#ifndef VC_ANALYZE_TORCH_FINISH_H
#define VC_ANALYZE_TORCH_FINISH_H

#include "analyze/model.h"
#include "analyze/torch_records.h"

/** Takes what the file holds apart: which rows are segments, whose device events are. */
int vc_torch_take_top(struct vc_torch *torch, uint64_t value);
/** Makes allocations, freed, devices, evidence from segments, blocks and trace. */
int vc_torch_fill(struct vc_torch *torch, const struct vc_wanted_columns *wanted);

/** Times and metadata of live blocks from the trace; `freed`: rows of freed too. */
int vc_torch_use_trace(struct vc_tables *tables, bool freed);

#endif
