/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an address belongs to: what holds it now, what is next to it, what it was before.
 *
 * Pure; one pass over `allocations` and `freed`.
 */
#ifndef VC_ANALYZE_VIEWS_WHERE_H
#define VC_ANALYZE_VIEWS_WHERE_H

#include "analyze/arena.h"
#include "formats/tables.h"

enum { VC_WHERE_MOST = 32 };  /* entries kept of each list */
/** An address in nothing, no further from a neighbour, was meant for it: two large pages. */
enum { VC_WHERE_NEAR = 4 << 20 };

struct vc_where {
	uint64_t address;
	uint64_t holders[VC_WHERE_MOST]; /* rows of allocations that hold it, smallest first */
	unsigned holder_count;
	bool hole;                       /* the smallest holder has blocks, and none at the address */
	bool before_known, after_known;  /* neighbours of the smallest holder; in a hole, or where */
					 /* nothing holds it, of the address */
	uint64_t before, after;          /* rows of allocations of the same kind of bytes */
	uint64_t before_gap, after_gap;  /* bytes between */
	uint64_t freed[VC_WHERE_MOST];   /* rows of freed that held it, last to die first */
	unsigned freed_count;
	uint64_t freed_total;
};

/** True for kinds whose `address` is one of memory, not a handle. */
bool vc_kind_has_address(uint64_t kind);

void vc_where_find(const struct vc_tables *tables, uint64_t address, struct vc_where *ret);

#endif
