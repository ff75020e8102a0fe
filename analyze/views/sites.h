/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds the memory, summed by site or by another key, largest first.
 *
 * Pure: reads an account (and the names of its stacks), makes rows in an arena. Groups whose keys
 * are equal become one row, so sites that differ only in where code was loaded are one.
 */
#ifndef VC_ANALYZE_VIEWS_SITES_H
#define VC_ANALYZE_VIEWS_SITES_H

#include "analyze/arena.h"
#include "analyze/names.h"
#include "analyze/views/account.h"

/** VC_BY(NAME, text, column of allocations that rows are grouped by, or VC_COLUMNS) */
#define VC_BYS(VC_BY)                                          \
	VC_BY(SITE, "site", VC_COLUMNS)                        \
	VC_BY(KIND, "kind", VC_COLUMNS)                        \
	VC_BY(DEVICE, "device", VC_COLUMNS)                    \
	VC_BY(STREAM, "stream", VC_COL_allocations_stream)     \
	VC_BY(THREAD, "thread", VC_COL_allocations_thread)     \
	VC_BY(LIBRARY, "library", VC_COLUMNS)                  \
	VC_BY(PHASE, "phase", VC_COL_allocations_phase)        \
	VC_BY(SIZE, "size", VC_COL_allocations_size)           \
	VC_BY(SEGMENT, "segment", VC_COL_allocations_segment)  \
	VC_BY(POOL, "pool", VC_COL_allocations_pool)           \
	VC_BY(STATE, "state", VC_COL_allocations_block_state)  \
	VC_BY(METADATA, "metadata", VC_COL_allocations_metadata)

enum vc_by {
#define VC_BY(name, text, column) VC_BY_##name,
	VC_BYS(VC_BY)
#undef VC_BY
	VC_BY_COUNT
};
extern const char *const vc_by_text[VC_BY_COUNT];
extern const enum vc_column_index vc_by_column[VC_BY_COUNT];

struct vc_site_row {
	uint64_t key;                 /* equal in all files for the same thing */
	uint64_t bytes, count;        /* live */
	uint64_t cached_bytes, cached_count;
	uint64_t doubt_bytes, doubt_count;
	uint64_t value;               /* device plus one, stream, thread, size, kind */
	const char *text;             /* kind, library, phase; NULL else */
	const struct vc_chain *chain; /* of the largest group */
};

struct vc_sites {
	struct vc_site_row *rows;     /* by live bytes, then cached, then key */
	uint64_t count;
	uint64_t bytes, blocks;       /* sums of live bytes and counts */
};

struct vc_sites_options {
	enum vc_by by;
	uint32_t device_plus_one;     /* of this device only; UINT32_MAX: of all */
	unsigned depth;               /* see vc_chain_key */
};

/** Sums. Rows live as long as the arena, chains as long as the names. 0, VC_E_NO_MEMORY. */
int vc_sites_make(const struct vc_tables *tables, const struct vc_account *account,
		  const struct vc_names *names, uint32_t file,
		  const struct vc_sites_options *options, struct vc_arena *arena,
		  struct vc_sites *ret);

/** What is left out when only the first rows are shown. */
struct vc_sites_rest {
	uint64_t shown, count;
	struct vc_site_row sum;
};
/**
 * Shares of live bytes, in tenths of a percent: of the first `most` rows (0: all), then of the
 * rest. They add up to 1000. 0, VC_E_NO_MEMORY.
 */
int vc_sites_shares(const struct vc_sites *sites, uint64_t most, struct vc_arena *arena,
		    int64_t **ret, struct vc_sites_rest *ret_rest);
/** True where any row has cached bytes. */
bool vc_sites_have_cached(const struct vc_sites *sites);

#endif
