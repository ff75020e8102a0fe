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

/** Where neighbours are looked for: around [low, high), of things like `kind`, within `inside`. */
struct vicinity {
	uint64_t low, high, kind;
	uint64_t inside_low, inside_high;
};

/** True if blocks lie in [low, high). */
static bool has_blocks(const struct vc_tables *tables, uint64_t low, uint64_t high)
{
	const uint64_t *kind = tables->column[VC_COL_allocations_kind];
	const uint64_t *start = tables->column[VC_COL_allocations_address];

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_allocations]; row++)
		if (kind[row] == VC_KIND_BLOCK && start[row] >= low && start[row] < high)
			return true;
	return false;
}

static struct vicinity vicinity_of(const struct vc_tables *tables, struct vc_where *where)
{
	struct vicinity around = {
		.low = where->address,
		.high = where->address,
		.kind = VC_KIND_LINEAR,
		.inside_high = UINT64_MAX,
	};
	uint64_t holder = where->holders[0], kind, low, high;

	if (!where->holder_count)
		return around;
	kind = vc_value(tables, VC_COL_allocations_kind, holder);
	low = vc_value(tables, VC_COL_allocations_address, holder);
	high = low + vc_value(tables, VC_COL_allocations_size, holder);
	where->hole = kind != VC_KIND_BLOCK && has_blocks(tables, low, high);
	if (where->hole) {
		around.kind = VC_KIND_BLOCK;
		around.inside_low = low;
		around.inside_high = high;
	} else {
		around.kind = kind;
		around.low = low;
		around.high = high;
	}
	return around;
}

static void find_neighbours(const struct vc_tables *tables, struct vc_where *where)
{
	const uint64_t *kind = tables->column[VC_COL_allocations_kind];
	const uint64_t *start = tables->column[VC_COL_allocations_address];
	const uint64_t *size = tables->column[VC_COL_allocations_size];
	uint64_t holder = where->holder_count ? where->holders[0] : UINT64_MAX;
	struct vicinity around = vicinity_of(tables, where);

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_allocations]; row++) {
		uint64_t end = start[row] + size[row];

		if (row == holder || !vc_kind_has_address(kind[row]) || end < start[row] ||
		    !is_neighbour(kind[row], around.kind) || start[row] < around.inside_low ||
		    end > around.inside_high)
			continue;
		if (end <= around.low &&
		    (!where->before_known || around.low - end < where->before_gap)) {
			where->before_known = true;
			where->before = row;
			where->before_gap = around.low - end;
		}
		if (start[row] >= around.high && size[row] &&
		    (!where->after_known || start[row] - around.high < where->after_gap)) {
			where->after_known = true;
			where->after = row;
			where->after_gap = start[row] - around.high;
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
