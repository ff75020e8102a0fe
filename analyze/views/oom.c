/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/oom.h"

#include <stdlib.h>

#include "analyze/model.h"

int vc_oom_pick(const struct vc_tables *tables, uint64_t *ret)
{
	uint64_t rows = tables->rows[VC_TABLE_failures];

	for (uint64_t row = rows; row-- > 0;) {
		if (vc_value(tables, VC_COL_failures_outcome, row) != VC_FAILURE_RETRIED) {
			*ret = row;
			return 0;
		}
	}
	if (!rows)
		return VC_E_NOT_FOUND;
	*ret = rows - 1;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct vc_oom_row *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static int by_bytes(const void *a, const void *b)
{
	const struct vc_oom_row *x = a, *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : by_key(a, b);
}

int vc_oom_make(const struct vc_tables *tables, const struct vc_names *names, uint32_t file,
		uint64_t failure, struct vc_arena *arena, struct vc_oom *ret)
{
	uint64_t rows = tables->rows[VC_TABLE_failure_sites], count = 0;
	struct vc_oom oom = {.failure = failure,
			     .total_failures = tables->rows[VC_TABLE_failures]};

	oom.rows = vc_arena_allocate(arena, rows, sizeof(*oom.rows));
	if (!oom.rows)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < oom.total_failures; i++)
		oom.retried += vc_value(tables, VC_COL_failures_outcome, i) == VC_FAILURE_RETRIED;
	for (uint64_t i = 0; i < rows; i++) {
		struct vc_oom_row *row = &oom.rows[count];
		uint64_t site = vc_value(tables, VC_COL_failure_sites_site, i);

		if (vc_value(tables, VC_COL_failure_sites_failure, i) != failure)
			continue;
		row->chain = vc_names_chain(names, file,
					    vc_value(tables, VC_COL_sites_stack, site));
		row->key = row->chain->count ? vc_chain_key(row->chain, 0) : 0;
		row->kind = vc_value(tables, VC_COL_sites_kind, site);
		row->bytes = vc_value(tables, VC_COL_failure_sites_bytes, i);
		row->count = vc_value(tables, VC_COL_failure_sites_count, i);
		oom.bytes += row->bytes;
		count++;
	}
	qsort(oom.rows, count, sizeof(*oom.rows), by_key);
	for (uint64_t i = 0; i < count; i++) {
		struct vc_oom_row *row = &oom.rows[i], *last = &oom.rows[oom.count ? oom.count - 1 : 0];

		if (oom.count && last->key == row->key) {
			last->bytes += row->bytes;
			last->count += row->count;
		} else {
			oom.rows[oom.count++] = *row;
		}
	}
	qsort(oom.rows, oom.count, sizeof(*oom.rows), by_bytes);
	oom.live = vc_value(tables, VC_COL_failures_live, failure);
	oom.unlisted = oom.live > oom.bytes ? oom.live - oom.bytes : 0;
	*ret = oom;
	return 0;
}
