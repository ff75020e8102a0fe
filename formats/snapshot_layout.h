/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the writer and the reader of snapshots share about row groups. See FORMAT.md.
 *
 * A group: first row (u64), rows (u32), columns (u32), then a directory entry of 24 bytes for each
 * column, then their data, one after the other in the order of the directory.
 */
#ifndef VC_FORMATS_SNAPSHOT_LAYOUT_H
#define VC_FORMATS_SNAPSHOT_LAYOUT_H

#include <stdint.h>

#include "formats/tables.h"

#define VC_SNAPSHOT_GROUP_HEAD_BYTES 16u
#define VC_SNAPSHOT_DIRECTORY_BYTES 24u
#define VC_SNAPSHOT_GROUP_BYTES_MAX (64u << 20)
#define VC_SNAPSHOT_GROUP_COLUMNS_MAX 1024u

/** Flags of a directory entry. */
#define VC_COLUMN_MAY_IGNORE 1u /* readers that do not know the column may leave it out */

/** Type numbers in the directory; never used again. */
static inline uint8_t vc_snapshot_type_number(enum vc_column_type type)
{
	switch (type) {
	case VC_TYPE_NUMBER:
		return 1;
	case VC_TYPE_ADDRESS:
		return 2;
	case VC_TYPE_BYTES:
		return 3;
	case VC_TYPE_TIME:
		return 4;
	case VC_TYPE_STRING:
		return 5;
	case VC_TYPE_KIND:
		return 6;
	case VC_TYPE_STATE:
		return 7;
	case VC_TYPE_BIRTH:
		return 8;
	case VC_TYPE_TEXT:
		return 9;
	case VC_TYPE_ROW_modules:
		return 10;
	case VC_TYPE_ROW_stacks:
		return 11;
	case VC_TYPE_ROW_sites:
		return 12;
	case VC_TYPE_ROW_source_frames:
		return 13;
	case VC_TYPE_ROW_source_stacks:
		return 14;
	case VC_TYPE_ROW_segments:
		return 15;
	case VC_TYPE_ROW_blocks:
		return 16;
	case VC_TYPE_ROW_trace_details:
		return 17;
	case VC_TYPE_ROW_tensors:
		return 18;
	case VC_TYPE_ROW_storages:
		return 19;
	case VC_TYPE_ROW_graph_nodes:
		return 20;
	case VC_TYPE_ROW_holder_steps:
		return 21;
	}
	return 0;
}

/** All columns but those that change what the others mean may be left out. */
static inline uint32_t vc_snapshot_column_flags(unsigned column)
{
	switch (column) {
	case VC_COL_strings_text:
	case VC_COL_allocations_state:
	case VC_COL_allocations_kind:
	case VC_COL_freed_kind:
	case VC_COL_trace_action:
		return 0;
	default:
		return VC_COLUMN_MAY_IGNORE;
	}
}

/**
 * Column that the writer tries as the key of another one: the same stack mostly asks for the same
 * size, and the same size is mostly asked for in the same way. -1: none.
 */
static inline int vc_snapshot_key_column(unsigned column)
{
	if (column == VC_COL_allocations_stack || column == VC_COL_freed_stack)
		return -1;
	if (column == VC_COL_allocations_requested)
		return VC_COL_allocations_size;
	if (column == VC_COL_freed_requested)
		return VC_COL_freed_size;
	if (vc_column_info[column].table == VC_TABLE_allocations)
		return VC_COL_allocations_stack;
	if (vc_column_info[column].table == VC_TABLE_freed)
		return VC_COL_freed_stack;
	return -1;
}

/** Columns stand in the directory by rank: a key before what it is the key of. */
#define VC_SNAPSHOT_KEY_RANKS 3u
static inline unsigned vc_snapshot_key_rank(unsigned column)
{
	switch (column) {
	case VC_COL_allocations_stack:
	case VC_COL_freed_stack:
		return 0;
	case VC_COL_allocations_size:
	case VC_COL_freed_size:
		return 1;
	case VC_COL_allocations_requested:
	case VC_COL_freed_requested:
		return 3;
	default:
		return 2;
	}
}

#endif
