/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of PyTorch's allocator, by the names that PyTorch gives them: of a PyTorch snapshot,
 * and of a recording.
 *
 * Pure: sums of segments and blocks. "Allocated" is what tensors have (active_allocated), "active"
 * also what waits for a stream, "requested" what was asked for before rounding, "reserved" what the
 * allocator holds of the driver, "inactive split" free blocks of segments that also hold others and
 * so cannot be given back.
 */
#ifndef VC_ANALYZE_VIEWS_TORCH_H
#define VC_ANALYZE_VIEWS_TORCH_H

#include "analyze/model.h"
#include "analyze/text.h"
#include "analyze/views/account.h"

struct vc_torch_numbers {
	uint64_t allocated, active, requested, reserved;
	uint64_t inactive, inactive_split, pending_free;
	bool requested_known;        /* torch 2.0 and later */
	uint64_t rounding_waste;     /* active less requested */
	uint64_t largest_free;       /* block */
	uint64_t segments, blocks, active_blocks, expandable;
	uint64_t events, ooms;       /* of its trace */
};

/** Sums of a device. `blocks` and, for events and OOMs, `trace` may be absent: then they are 0. */
void vc_torch_numbers(const struct vc_tables *tables, uint64_t device,
		      struct vc_torch_numbers *ret);
/** What a recording of a process with PyTorch tells of a device. */
struct vc_torch_recorded {
	uint64_t allocated, reserved, cached; /* sums of the blocks and allocations recorded */
	uint64_t segments, blocks;
	bool said;                            /* what PyTorch said itself is known */
	uint64_t said_allocated, said_reserved;
};
/** False: PyTorch's allocator told of nothing on this device. */
bool vc_torch_recorded(const struct vc_tables *tables, const struct vc_account *account,
		       uint32_t device_plus_one, struct vc_torch_recorded *ret);
/** "allocated 9.83 GiB, reserved 11.20 GiB, 312 segments, 4,120 blocks, trace of 100,000 events" */
void vc_torch_heading(struct vc_text *text, const struct vc_tables *tables, uint64_t device,
		      enum vc_text_exact exact);
/** What no such snapshot can tell. */
extern const char vc_torch_not_known[];

#endif
