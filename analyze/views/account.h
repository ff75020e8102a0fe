/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every row of `allocations` counts for, so that sums by any key add up to the device's total.
 *
 * Counted is device memory (kinds of class DEVICE). Where a program reported what its own allocator
 * hands out (blocks), the bytes that blocks cover belong to the blocks; the rest of such an
 * allocation is "cached": reserved, free, and nobody's. An allocation belongs to the program's
 * allocator when it holds a block, or when the driver was called from the same place in the code
 * (runtime library apart) as for one that does, or by PyTorch's allocator where that tells of its
 * blocks, or when the file says that it is a segment. So
 *     reserved = live (blocks and other allocations) + cached,  and in doubt beside it.
 * Blocks are placed by address, through mappings into physical handles. Bytes of blocks outside
 * every allocation, or more than the allocation has left, are told apart and not counted.
 * In doubt are rows whose allocating or freeing call had not returned.
 */
#ifndef VC_ANALYZE_VIEWS_ACCOUNT_H
#define VC_ANALYZE_VIEWS_ACCOUNT_H

#include <stdbool.h>

#include "analyze/arena.h"
#include "formats/tables.h"

enum vc_account_mode {
	VC_ACCOUNT_AUTO,         /* by blocks where there are any */
	VC_ACCOUNT_BLOCKS,       /* blocks only: other allocations are left out */
	VC_ACCOUNT_ALLOCATIONS,  /* blocks are left out: what the driver gave */
};

enum { VC_KINDS = 32 };          /* kinds.def has fewer */

/** Rows alike in stack, kind, device and one more column, if wished. */
struct vc_account_group {
	uint64_t stack;          /* row of stacks plus 1 */
	uint64_t extra;          /* value of the column asked for, else 0 */
	uint32_t kind;
	uint32_t device_plus_one;
	uint64_t bytes, count;   /* live: blocks, or allocations without blocks */
	uint64_t cached_bytes, cached_count; /* of the program's allocator */
	uint64_t doubt_bytes, doubt_count;
};

struct vc_account_device {
	uint32_t device_plus_one;
	uint64_t reserved_bytes, reserved_count;  /* allocations, not in doubt */
	uint64_t live_bytes, live_count;          /* see above */
	uint64_t block_bytes, block_count;        /* the part of live that is blocks */
	uint64_t cached_bytes, cached_allocations;/* allocations that blocks are taken from */
	uint64_t doubt_bytes, doubt_count;
	/* of these, PyTorch's allocator: its allocations, what is free in them; its blocks */
	uint64_t torch_reserved, torch_segments, torch_cached;
	uint64_t torch_bytes, torch_blocks;
	uint64_t torch_allocated;                 /* sizes of its blocks, wherever they lie */
	/* live, by kind; those that are not device memory too */
	uint64_t kind_bytes[VC_KINDS], kind_count[VC_KINDS];
};

struct vc_account {
	struct vc_account_group *groups;
	uint64_t group_count;
	uint64_t rows;            /* of allocations that were looked at */
	uint32_t *group_of_row;   /* one a row; UINT32_MAX: counts for nothing */
	struct vc_account_device *devices; /* by ordinal, the unknown device first */
	uint32_t device_count;
	bool has_blocks;          /* live ones, and they are counted */
	bool has_torch;           /* PyTorch's allocator told of its blocks, live or gone */
	uint64_t outside_bytes;   /* of blocks, in no allocation */
	uint64_t overlap_bytes;   /* of blocks, more than their allocation holds */
	/* private */
	uint8_t *row_part;
	uint64_t *block_bytes;    /* bytes a block counts for, by row; NULL: no blocks */
};

/**
 * Counts. Columns of allocations that must be present: state, kind, address, size,
 * device_plus_one, stack; parent and birth are used where present. `extra` is a column of
 * allocations or VC_COLUMNS. 0, VC_E_NO_MEMORY.
 */
int vc_account_make(const struct vc_tables *tables, enum vc_account_mode mode,
		    enum vc_column_index extra, struct vc_account *ret);
void vc_account_deinit(struct vc_account *account);

/** Bytes that a row counts as live for: its size, or 0 (cached, in doubt, not device memory). */
uint64_t vc_account_row_bytes(const struct vc_account *account, const struct vc_tables *tables,
			      uint64_t row);
/** Whether a row is memory that the program's allocator makes blocks of, or a mapping of such. */
bool vc_account_row_is_segment(const struct vc_account *account, uint64_t row);
/** The same, and the allocator is PyTorch's. */
bool vc_account_row_is_torch(const struct vc_account *account, uint64_t row);
/** What was counted for a device; NULL nothing. */
const struct vc_account_device *vc_account_find_device(const struct vc_account *account,
						       uint32_t device_plus_one);

/** Positions of the devices that hold memory, the fullest first; NULL: out of memory. */
uint32_t *vc_account_order(const struct vc_account *account, struct vc_arena *arena,
			   uint32_t *ret_count);
/** What is counted as live on a device: "blocks", "allocations", or both; "block" of one. */
const char *vc_account_unit(const struct vc_account_device *device);
/** Live bytes of the device that has most. */
uint64_t vc_account_most_live(const struct vc_account *account);

#endif
