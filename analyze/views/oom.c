/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/oom.h"

#include <stdlib.h>

#include "analyze/model.h"
#include "analyze/views/map.h"
#include "analyze/views/sites.h"

/** Failed for want of memory, not an error of earlier work, and not a part of another row's. */
static bool of_memory(const struct vc_tables *tables, uint64_t row)
{
	uint64_t outcome = vc_value(tables, VC_COL_failures_outcome, row);

	return outcome != VC_FAILURE_ERROR && outcome != VC_FAILURE_REPORTED;
}

int vc_oom_pick(const struct vc_tables *tables, uint64_t *ret)
{
	uint64_t newest = UINT64_MAX;

	for (uint64_t row = tables->rows[VC_TABLE_failures]; row-- > 0;) {
		if (!of_memory(tables, row))
			continue;
		if (newest == UINT64_MAX)
			newest = row;
		if (vc_value(tables, VC_COL_failures_outcome, row) != VC_FAILURE_RETRIED) {
			newest = row;
			break;
		}
	}
	if (newest == UINT64_MAX)
		return VC_E_NOT_FOUND;
	*ret = newest;
	return 0;
}

uint64_t vc_oom_count(const struct vc_tables *tables)
{
	uint64_t count = 0;

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_failures]; row++)
		count += of_memory(tables, row);
	return count;
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

/** Stacks, by row plus 1, whose allocations hold blocks. */
static bool *segment_stacks(const struct vc_tables *tables, const struct vc_account *account,
			    struct vc_arena *arena)
{
	uint64_t count = tables->rows[VC_TABLE_stacks] + 1;
	bool *segment = vc_arena_allocate(arena, count, sizeof(*segment));

	for (uint64_t i = 0; segment && i < account->group_count; i++) {
		uint64_t native = account->groups[i].stack & UINT32_MAX; /* of a pair, its lower half */

		if (account->groups[i].cached_count && native < count)
			segment[native] = true;
	}
	return segment;
}

/** Makes a row of each site that was live; the allocator's memory is summed in *segments. */
static uint64_t list_rows(const struct vc_tables *tables, const struct vc_names *names,
			  const bool *segment, struct vc_oom *oom, uint64_t *segments)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_failure_sites]; i++) {
		struct vc_oom_row *row = &oom->rows[count];
		uint64_t site = vc_value(tables, VC_COL_failure_sites_site, i);
		uint64_t stack = vc_value(tables, VC_COL_sites_stack, site);
		uint64_t bytes = vc_value(tables, VC_COL_failure_sites_bytes, i);

		if (vc_value(tables, VC_COL_failure_sites_failure, i) != oom->failure)
			continue;
		row->kind = vc_value(tables, VC_COL_sites_kind, site);
		if (row->kind != VC_KIND_BLOCK && vc_kind_bytes(row->kind) != VC_BYTES_DEVICE)
			continue;
		if (row->kind != VC_KIND_BLOCK && segment[stack]) {
			*segments += bytes;
			continue;
		}
		row->chain = vc_names_chain(names, 0,
					    vc_stack_reference(tables, stack,
							       vc_value(tables,
									VC_COL_sites_python,
									site)));
		row->key = row->chain->count ? vc_chain_key(row->chain, 0) : 0;
		row->bytes = bytes;
		row->count = vc_value(tables, VC_COL_failure_sites_count, i);
		oom->bytes += bytes;
		count++;
	}
	return count;
}

static struct vc_oom start(const struct vc_tables *tables, uint64_t failure)
{
	struct vc_oom oom = {.failure = failure, .total_failures = vc_oom_count(tables),
			     .live = vc_value(tables, VC_COL_failures_live, failure)};

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_failures]; i++)
		oom.retried += vc_value(tables, VC_COL_failures_outcome, i) == VC_FAILURE_RETRIED;
	return oom;
}

int vc_oom_make(const struct vc_tables *tables, const struct vc_account *account,
		const struct vc_names *names, uint64_t failure, struct vc_arena *arena,
		struct vc_oom *ret)
{
	struct vc_oom oom = start(tables, failure);
	bool *segment = segment_stacks(tables, account, arena);
	uint64_t count, segments = 0, blocks = 0;

	oom.rows = vc_arena_allocate(arena, tables->rows[VC_TABLE_failure_sites],
				     sizeof(*oom.rows));
	if (!oom.rows || !segment)
		return VC_E_NO_MEMORY;
	count = list_rows(tables, names, segment, &oom, &segments);
	qsort(oom.rows, count, sizeof(*oom.rows), by_key);
	for (uint64_t i = 0; i < count; i++) {
		struct vc_oom_row *row = &oom.rows[i],
				  *last = &oom.rows[oom.count ? oom.count - 1 : 0];

		blocks += row->kind == VC_KIND_BLOCK ? row->bytes : 0;
		if (oom.count && last->key == row->key) {
			last->bytes += row->bytes;
			last->count += row->count;
		} else {
			oom.rows[oom.count++] = *row;
		}
	}
	qsort(oom.rows, oom.count, sizeof(*oom.rows), by_bytes);
	oom.cached = segments > blocks ? segments - blocks : 0;
	oom.unlisted = oom.live > oom.bytes + oom.cached ? oom.live - oom.bytes - oom.cached : 0;
	*ret = oom;
	return 0;
}

/** Holes in the segments of the device, and whether they are why it failed. */
static int find_holes(const struct vc_tables *tables, const struct vc_account *account,
		      uint32_t device_plus_one, struct vc_arena *arena, struct vc_oom *oom)
{
	uint64_t requested = vc_value(tables, VC_COL_failures_requested, oom->failure);
	struct vc_map map;
	int error = vc_map_make(tables, account, arena, &map);

	for (uint32_t i = 0; !error && i < map.device_count; i++) {
		const struct vc_map_device *device = &map.devices[i];

		if (device->device_plus_one != device_plus_one)
			continue;
		oom->hole = device->largest_hole;
		oom->fragmented = device->free >= requested && device->largest_hole < requested;
	}
	return error;
}

int vc_oom_make_back(const struct vc_tables *tables, const struct vc_account *account,
		     const struct vc_names *names, uint64_t failure, struct vc_arena *arena,
		     struct vc_oom *ret)
{
	uint64_t number = vc_value(tables, VC_COL_failures_device, failure);
	struct vc_sites_options options = {
		.by = VC_BY_SITE, .device_plus_one = number < UINT32_MAX ? (uint32_t)number + 1 : 0};
	struct vc_oom oom = start(tables, failure);
	const struct vc_account_device *device =
		vc_account_find_device(account, options.device_plus_one);
	struct vc_sites sites;
	int error = vc_sites_make(tables, account, names, 0, &options, arena, &sites);

	if (error)
		return error;
	oom.rows = vc_arena_allocate(arena, sites.count, sizeof(*oom.rows));
	if (!oom.rows)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < sites.count; i++)
		if (sites.rows[i].count)
			oom.rows[oom.count++] = (struct vc_oom_row){
				.key = sites.rows[i].key, .chain = sites.rows[i].chain,
				.kind = VC_KIND_BLOCK, .bytes = sites.rows[i].bytes,
				.count = sites.rows[i].count};
	oom.bytes = sites.bytes;
	oom.live = device ? device->live_bytes : 0;
	oom.cached = device ? device->cached_bytes : 0;
	oom.reserved = device ? device->reserved_bytes : 0;
	error = find_holes(tables, account, options.device_plus_one, arena, &oom);
	if (!error)
		*ret = oom;
	return error;
}
