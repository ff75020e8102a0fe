/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments, what lies in them and the holes between, by address; how fragmented they are.
 *
 * Pure. A segment is memory that the program's allocator makes blocks of: an allocation or mapping
 * with blocks in it, or one that the account or the dump knows as such. Other allocations have no
 * holes that anybody knows of and are only counted. Mappings side by side in one address
 * reservation are one segment, which grows as the allocator maps more (PyTorch's expandable
 * segments). Blocks outside every segment are in the account's evidence. Overlapping blocks count
 * once: the first one gets the bytes.
 *
 *     fragmentation = 1 - largest hole / bytes of all holes
 * "Pinned" is a segment of which blocks take at most VC_MAP_PINNED_SHARE-th: little keeps much from
 * going back. "Empty" is one without blocks: it could be given back.
 */
#ifndef VC_ANALYZE_VIEWS_MAP_H
#define VC_ANALYZE_VIEWS_MAP_H

#include <stdbool.h>

#include "analyze/arena.h"
#include "analyze/views/account.h"

enum { VC_MAP_PINNED_SHARE = 8 };

/** A block or a hole. */
struct vc_map_part {
	uint64_t address, size;
	uint64_t row;             /* of allocations; UINT64_MAX: a hole */
};

struct vc_map_segment {
	uint64_t row;             /* of allocations; of its first mapping */
	uint64_t address, size;
	uint32_t device_plus_one;
	uint64_t first_part, part_count;
	uint64_t used, free;
	uint64_t blocks, holes, largest_hole;
	bool pinned;
	bool torch;               /* of PyTorch's allocator, recorded */
};

struct vc_map_device {
	uint32_t device_plus_one;
	uint64_t first, count;            /* segments */
	uint64_t bytes, used, free;
	uint64_t blocks, holes, largest_hole;
	uint64_t fragmentation;           /* tenths of a percent */
	uint64_t empty, empty_bytes;
	uint64_t pinned, pinned_free;     /* segments, and the free bytes in them */
	uint64_t others, other_bytes;     /* allocations that are no segments */
};

struct vc_map {
	struct vc_map_segment *segments;  /* by device, then address */
	uint64_t segment_count;
	struct vc_map_part *parts;        /* of each segment, by address, without gaps */
	uint64_t part_count;
	struct vc_map_device *devices;    /* by ordinal, the unknown device first */
	uint32_t device_count;
};

/** Columns of allocations as for vc_account_make. All lives in the arena. 0, VC_E_NO_MEMORY. */
int vc_map_make(const struct vc_tables *tables, const struct vc_account *account,
		struct vc_arena *arena, struct vc_map *ret);
/** The segment with this address; NULL none. */
const struct vc_map_segment *vc_map_find(const struct vc_map *map, uint64_t address,
					 uint32_t device_plus_one);

/** Used bytes of a segment in `count` cells of `cell` bytes each, the last one may be shorter. */
void vc_map_cells(const struct vc_map *map, const struct vc_map_segment *segment, uint64_t cell,
		  uint64_t count, uint64_t *used);

#endif
