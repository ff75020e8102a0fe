/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/text.h"

static struct vc_ledger_row *add_row(struct vc_ledger *ledger, const char *what, const char *key,
				     int64_t bytes, uint64_t count, const char *how)
{
	struct vc_ledger_row *row = &ledger->rows[ledger->count++];

	*row = (struct vc_ledger_row){what, key, bytes, 0, count, how};
	return row;
}

static int by_bytes(const void *a, const void *b)
{
	const struct vc_ledger_row *x = a, *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : strcmp(x->key, y->key);
}

/** Those of PyTorch, and those that the program told of. */
static void add_blocks(struct vc_ledger *ledger, const struct vc_account_device *device)
{
	if (device->torch_blocks)
		add_row(ledger, "blocks of PyTorch's allocator", "torch_block",
			(int64_t)device->torch_bytes, device->torch_blocks, "exact");
	if (device->block_count > device->torch_blocks)
		add_row(ledger, "blocks of the program's allocator", "block",
			(int64_t)(device->block_bytes - device->torch_bytes),
			device->block_count - device->torch_blocks, "exact");
}

/** Blocks by role, in the order of roles.def. */
static void add_roles(struct vc_ledger *ledger, const struct vc_tables *tables,
		      const struct vc_account *account, const struct vc_roles *roles,
		      uint32_t device_plus_one)
{
	struct vc_role_sum sums[VC_ROLES];

	vc_roles_sum(tables, account, roles, device_plus_one, sums);
	for (unsigned role = 0; role < VC_ROLES; role++) {
		const struct vc_role_sum *sum = &sums[role];
		const char *how = "exact, in part inferred";

		if (!sum->count)
			continue;
		if (role == VC_ROLE_UNKNOWN)
			how = "unknown";
		else if (!sum->inferred_bytes)
			how = "exact";
		else if (sum->inferred_bytes == sum->bytes)
			how = "inferred";
		add_row(ledger, vc_role_text[role], vc_role_key[role], (int64_t)sum->bytes,
			sum->count, how);
	}
}

/** Live memory by kind, largest first: blocks, and allocations that hold none. */
static void add_kinds(struct vc_ledger *ledger, const struct vc_account_device *device)
{
	unsigned by_role = ledger->count;

	for (unsigned kind = 0; kind < VC_KINDS; kind++) {
		if (!device->kind_count[kind])
			continue;
		if (kind == VC_KIND_BLOCK && by_role)
			continue;
		if (kind == VC_KIND_BLOCK)
			add_blocks(ledger, device);
		else if (vc_kind_bytes(kind) == VC_BYTES_DEVICE)
			add_row(ledger, vc_kind_text(kind), vc_kind_text(kind),
				(int64_t)device->kind_bytes[kind], device->kind_count[kind],
				"exact");
	}
	qsort(ledger->rows + by_role, ledger->count - by_role, sizeof(*ledger->rows), by_bytes);
}

/**
 * What the driver says that it keeps for itself of `other`, the bytes that are used and not recorded.
 * Gives the rest. Said of nothing where the two do not fit.
 */
static int64_t add_kept(struct vc_ledger *ledger, const struct vc_tables *tables, uint64_t row,
			int64_t other)
{
	uint64_t graphs = vc_value(tables, VC_COL_devices_graph_reserved, row);
	uint64_t used = vc_value(tables, VC_COL_devices_pool_used, row);
	uint64_t reserved = vc_value(tables, VC_COL_devices_pool_reserved, row);
	uint64_t pool = reserved > used ? reserved - used : 0;

	if (other < 0 || graphs > (uint64_t)other || pool > (uint64_t)other - graphs)
		return other;
	if (graphs)
		add_row(ledger, "memory of graphs", "graph_memory", (int64_t)graphs, 0, "driver");
	if (pool)
		add_row(ledger, "kept by the default memory pool, free", "pool_free", (int64_t)pool,
			0, "driver");
	return other - (int64_t)(graphs + pool);
}

static void add_rest(struct vc_ledger *ledger, const struct vc_tables *tables, uint64_t row,
		     int64_t known)
{
	int64_t total = (int64_t)vc_value(tables, VC_COL_devices_total, row);
	int64_t left = (int64_t)vc_value(tables, VC_COL_devices_free, row);
	int64_t other = total - left - known;

	ledger->used_known = vc_value(tables, VC_COL_devices_used_known, row) != 0;
	ledger->total_known = total != 0;
	if (!ledger->total_known)
		return;
	if (!ledger->used_known) {
		add_row(ledger, "free, or not seen (driver, other processes)", "free_or_not_seen",
			total - known, 0, "residual");
		return;
	}
	other = add_kept(ledger, tables, row, other);
	if (other >= 0)
		add_row(ledger, "driver: context, modules; other processes", "other", other, 0,
			"residual");
	else
		add_row(ledger, "recorded, but not in use by the device", "other", other, 0,
			"residual");
	add_row(ledger, "free", "free", left, 0, "cuMemGetInfo");
}

int vc_ledger_make(const struct vc_tables *tables, const struct vc_account *account,
		   const struct vc_roles *roles, uint32_t device_plus_one,
		   struct vc_ledger *ret)
{
	static const struct vc_account_device nothing;
	const struct vc_account_device *device = vc_account_find_device(account, device_plus_one);
	struct vc_ledger ledger = {0};
	int64_t values[VC_LEDGER_ROWS], shares[VC_LEDGER_ROWS], known;
	uint64_t row;
	int error;

	if (!device)
		device = &nothing;
	if (roles && roles->walked)
		add_roles(&ledger, tables, account, roles, device_plus_one);
	add_kinds(&ledger, device);
	if (device->torch_segments)
		add_row(&ledger, "cached by PyTorch, free", "torch_cached",
			(int64_t)device->torch_cached, 0, "exact");
	if (device->cached_allocations > device->torch_segments)
		add_row(&ledger, "cached by the program's allocator, free", "cached",
			(int64_t)(device->cached_bytes - device->torch_cached), 0, "exact");
	if (device->doubt_count)
		add_row(&ledger, "in doubt: calls that had not returned", "in_doubt",
			(int64_t)device->doubt_bytes, device->doubt_count, "at most");
	known = (int64_t)(device->reserved_bytes + device->doubt_bytes);
	if (device_plus_one && !vc_device_row(tables, device_plus_one - 1, &row)) {
		ledger.total = vc_value(tables, VC_COL_devices_total, row);
		add_rest(&ledger, tables, row, known);
	}
	if (!ledger.total_known)
		ledger.total = (uint64_t)known;
	for (unsigned i = 0; i < ledger.count; i++)
		values[i] = ledger.rows[i].bytes;
	error = vc_text_shares(values, ledger.count, (int64_t)ledger.total, shares);
	if (error)
		return error;
	for (unsigned i = 0; i < ledger.count; i++)
		ledger.rows[i].share = shares[i];
	*ret = ledger;
	return 0;
}
