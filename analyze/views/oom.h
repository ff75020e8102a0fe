/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last allocation that failed for good, and what was live then.
 *
 * Pure. A failure that was retried with success is taken only when there is no other. As everywhere
 * (account.h), blocks of the program's allocator stand for the memory they lie in: sites whose
 * allocations hold blocks in this file are not rows, what blocks leave of them is cached.
 *
 * A recording keeps with each failure what was live by site. An imported file with a trace has been
 * turned back to the failure before (vc_at_failure): then its own tables say what was live.
 */
#ifndef VC_ANALYZE_VIEWS_OOM_H
#define VC_ANALYZE_VIEWS_OOM_H

#include <stdbool.h>

#include "analyze/arena.h"
#include "analyze/names.h"
#include "analyze/views/account.h"

struct vc_oom_row {
	uint64_t key;
	const struct vc_chain *chain;
	uint64_t kind;
	uint64_t bytes, count;
};

struct vc_oom {
	uint64_t failure;       /* row of failures */
	uint64_t total_failures, retried;
	struct vc_oom_row *rows;/* live by site when it failed, largest first */
	uint64_t count;
	uint64_t bytes;         /* sum of the rows */
	uint64_t cached;        /* in the allocator's memory, free */
	uint64_t live;          /* device memory by the recorder's count */
	uint64_t unlisted;      /* live less rows and cached: sites past those that were kept */
	/* of a file that was turned back, else 0 */
	uint64_t reserved, hole;/* bytes of segments; the largest hole in one */
	bool fragmented;        /* what is cached would have sufficed, no hole does */
};

/** How many allocations failed: errors of earlier work on the device are none. */
uint64_t vc_oom_count(const struct vc_tables *tables);
/** Row of the failure to show; VC_E_NOT_FOUND: none. */
int vc_oom_pick(const struct vc_tables *tables, uint64_t *ret);
/** Sums its sites by key. 0, VC_E_NO_MEMORY. */
int vc_oom_make(const struct vc_tables *tables, const struct vc_account *account,
		const struct vc_names *names, uint64_t failure, struct vc_arena *arena,
		struct vc_oom *ret);
/** The same from tables that were turned back to the failure. */
int vc_oom_make_back(const struct vc_tables *tables, const struct vc_account *account,
		     const struct vc_names *names, uint64_t failure, struct vc_arena *arena,
		     struct vc_oom *ret);

#endif
