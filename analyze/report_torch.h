/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reports say of PyTorch alone: torch's own numbers, by torch's names.
 */
#ifndef VC_ANALYZE_REPORT_TORCH_H
#define VC_ANALYZE_REPORT_TORCH_H

#include "analyze/emit.h"
#include "analyze/views/map.h"

/** The numbers of a device: lines, and an object "torch". */
void vc_report_torch(struct vc_emit *emit, const struct vc_tables *tables, uint64_t device);
/** The same of a recording; nothing where PyTorch's allocator told of nothing. */
void vc_report_torch_recorded(struct vc_emit *emit, const struct vc_tables *tables,
			      const struct vc_account *account, const struct vc_map *map,
			      uint32_t device_plus_one);
/** The allocator's settings: a line with those that are set, and an object "allocator_settings". */
void vc_report_torch_settings(struct vc_emit *emit, const struct vc_tables *tables);

#endif
