/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/where.h"

#include <string.h>

#include "analyze/model.h"

bool vc_kind_has_address(uint64_t kind)
{
	if (kind == VC_KIND_HANDLE || kind == VC_KIND_HOST_HANDLE || kind == VC_KIND_ARRAY ||
	    kind == VC_KIND_MIPMAPPED_ARRAY || kind == VC_KIND_TENSOR)
		return false;
	return vc_kind_bytes(kind) != VC_BYTES_NONE;
}

/** True if [start, start + size) holds the address. */
static bool holds(uint64_t start, uint64_t size, uint64_t address)
{
	return address >= start && address - start < size;
}

/** Puts a row into a list sorted by `key`, rising, and keeps the first VC_WHERE_MOST. */
static void insert(const uint64_t *key, uint64_t row, bool falling, uint64_t *list,
		   unsigned *count)
{
	unsigned at = *count;

	while (at && (falling ? key[list[at - 1]] < key[row] : key[list[at - 1]] > key[row]))
		at--;
	if (at == VC_WHERE_MOST)
		return;
	if (*count < VC_WHERE_MOST)
		(*count)++;
	memmove(&list[at + 1], &list[at], (*count - at - 1) * sizeof(*list));
	list[at] = row;
}

/** Blocks have blocks as neighbours, allocations have allocations. */
static bool is_neighbour(uint64_t kind, uint64_t holder_kind)
{
	if (kind == VC_KIND_BLOCK || holder_kind == VC_KIND_BLOCK)
		return kind == holder_kind;
	return kind != VC_KIND_RESERVATION || holder_kind == VC_KIND_RESERVATION;
}

static void find_neighbours(const struct vc_tables *tables, struct vc_where *where)
{
	const uint64_t *kind = tables->column[VC_COL_allocations_kind];
	const uint64_t *start = tables->column[VC_COL_allocations_address];
	const uint64_t *size = tables->column[VC_COL_allocations_size];
	uint64_t low = where->address, high = where->address, holder = UINT64_MAX;
	uint64_t holder_kind = VC_KIND_LINEAR;

	if (where->holder_count) {
		holder = where->holders[0];
		holder_kind = kind[holder];
		low = start[holder];
		high = low + size[holder];
	}
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_allocations]; row++) {
		uint64_t end = start[row] + size[row];

		if (row == holder || !vc_kind_has_address(kind[row]) || end < start[row] ||
		    !is_neighbour(kind[row], holder_kind))
			continue;
		if (end <= low && (!where->before_known || low - end < where->before_gap)) {
			where->before_known = true;
			where->before = row;
			where->before_gap = low - end;
		}
		if (start[row] >= high && size[row] &&
		    (!where->after_known || start[row] - high < where->after_gap)) {
			where->after_known = true;
			where->after = row;
			where->after_gap = start[row] - high;
		}
	}
}

void vc_where_find(const struct vc_tables *tables, uint64_t address, struct vc_where *ret)
{
	const uint64_t *kind = tables->column[VC_COL_allocations_kind];
	const uint64_t *start = tables->column[VC_COL_allocations_address];
	const uint64_t *size = tables->column[VC_COL_allocations_size];
	const uint64_t *death = tables->column[VC_COL_freed_death];

	memset(ret, 0, sizeof(*ret));
	ret->address = address;
	if (!kind || !start || !size)
		return; /* the table is damaged: the evidence says so */
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_allocations]; row++)
		if (vc_kind_has_address(kind[row]) && holds(start[row], size[row], address))
			insert(size, row, false, ret->holders, &ret->holder_count);
	if (tables->rows[VC_TABLE_allocations])
		find_neighbours(tables, ret);
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_freed]; row++) {
		if (!vc_kind_has_address(vc_value(tables, VC_COL_freed_kind, row)) ||
		    !holds(vc_value(tables, VC_COL_freed_address, row),
			   vc_value(tables, VC_COL_freed_size, row), address))
			continue;
		ret->freed_total++;
		insert(death, row, true, ret->freed, &ret->freed_count);
	}
}
