/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reports say of PyTorch snapshots alone: torch's own numbers, by torch's names.
 */
#ifndef VC_ANALYZE_REPORT_TORCH_H
#define VC_ANALYZE_REPORT_TORCH_H

#include "analyze/emit.h"
#include "formats/tables.h"

/** The numbers of a device: lines, and an object "torch". */
void vc_report_torch(struct vc_emit *emit, const struct vc_tables *tables, uint64_t device);
/** The allocator's settings: a line with those that are set, and an object "allocator_settings". */
void vc_report_torch_settings(struct vc_emit *emit, const struct vc_tables *tables);

#endif
