/* SPDX-License-Identifier: Apache-2.0 */
/* Frames, stacks and details of a PyTorch snapshot, each kept once. */
#include <stdlib.h>
#include <string.h>

#include "analyze/torch_records.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Frames copied because a stack came in parts. Python writes 1,000 at once: few are longer. */
#define EXTENDED_MOST (UINT64_C(1) << 23)

/* ---- interning ---- */

static bool same_cells(const struct vc_tables *tables, const struct vc_torch_row *wanted, uint64_t row)
{
	unsigned first = vc_table_info[wanted->table].first;

	for (unsigned i = 0; i < wanted->count; i++)
		if (tables->column[first + i][row] != wanted->cells[i])
			return false;
	return true;
}

static uint64_t hash_of(const struct vc_torch *torch, const uint64_t *cells, uint64_t count)
{
	return XXH3_64bits_withSeed(cells, count * sizeof(*cells), torch->tables->string_seed);
}

static int grow_index(struct vc_interned *interned, uint64_t **ret)
{
	uint64_t size = interned->size ? interned->size * 2 : 1024;
	uint64_t *index = calloc(size, sizeof(*index));

	if (!index)
		return VC_E_NO_MEMORY;
	*ret = index;
	interned->size = size;
	return 0;
}

static void put_index(uint64_t *index, uint64_t size, uint64_t hash, uint64_t row_plus_one)
{
	uint64_t slot = hash & (size - 1);

	while (index[slot])
		slot = (slot + 1) & (size - 1);
	index[slot] = row_plus_one;
}

static int rehash_rows(struct vc_torch *torch, struct vc_interned *interned,
		       enum vc_table_index table, uint64_t columns)
{
	unsigned first = vc_table_info[table].first;
	uint64_t *index, cells[VC_TORCH_DETAIL_WORDS];
	int error = grow_index(interned, &index);

	if (error)
		return error;
	for (uint64_t row = 0; row < torch->tables->rows[table]; row++) {
		for (unsigned i = 0; i < columns; i++)
			cells[i] = torch->tables->column[first + i][row];
		put_index(index, interned->size, hash_of(torch, cells, columns), row + 1);
	}
	free(interned->index);
	interned->index = index;
	return 0;
}

int vc_torch_check_records(struct vc_torch *torch, enum vc_table_index table)
{
	if (torch->tables->rows[table] >= torch->values.limits->most[VC_LIMIT_RECORDS])
		return vc_values_limit(&torch->values, VC_LIMIT_RECORDS);
	return 0;
}

int vc_torch_append(struct vc_torch *torch, enum vc_table_index table, uint64_t *ret)
{
	int error = vc_torch_check_records(torch, table);

	return error ? error : vc_tables_append(torch->tables, table, ret);
}

int vc_torch_intern_row(struct vc_torch *torch, struct vc_interned *interned,
			struct vc_torch_row wanted, uint64_t *ret)
{
	unsigned first = vc_table_info[wanted.table].first;
	uint64_t slot, row;
	int error = 0;

	if (interned->count * 2 >= interned->size)
		error = rehash_rows(torch, interned, wanted.table, wanted.count);
	if (error)
		return error;
	slot = hash_of(torch, wanted.cells, wanted.count) & (interned->size - 1);
	for (; interned->index[slot]; slot = (slot + 1) & (interned->size - 1)) {
		row = interned->index[slot] - 1;
		if (same_cells(torch->tables, &wanted, row)) {
			*ret = row;
			return 0;
		}
	}
	error = vc_torch_append(torch, wanted.table, &row);
	if (error)
		return error;
	for (unsigned i = 0; i < wanted.count; i++)
		torch->tables->column[first + i][row] = wanted.cells[i];
	interned->index[slot] = row + 1;
	interned->count++;
	*ret = row;
	return 0;
}

/* ---- stacks ---- */

static uint64_t stack_hash(const struct vc_torch *torch, const uint64_t *frames, uint64_t count,
			   uint64_t forward)
{
	return hash_of(torch, frames, count) + forward * 0x9e3779b97f4a7c15u;
}

static bool same_stack(const struct vc_tables *tables, uint64_t row, const uint64_t *frames,
		       uint64_t count, uint64_t forward)
{
	const uint64_t *list = tables->column[VC_COL_source_lists_frame] +
			       tables->column[VC_COL_source_stacks_first][row];

	return tables->column[VC_COL_source_stacks_count][row] == count &&
	       tables->column[VC_COL_source_stacks_forward][row] == forward &&
	       !memcmp(list, frames, count * sizeof(*frames));
}

static int grow_stacks(struct vc_torch *torch)
{
	const struct vc_tables *tables = torch->tables;
	uint64_t *index;
	int error = grow_index(&torch->stacks, &index);

	if (error)
		return error;
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_source_stacks]; row++)
		put_index(index, torch->stacks.size,
			  stack_hash(torch,
				     tables->column[VC_COL_source_lists_frame] +
					     tables->column[VC_COL_source_stacks_first][row],
				     tables->column[VC_COL_source_stacks_count][row],
				     tables->column[VC_COL_source_stacks_forward][row]),
			  row + 1);
	free(torch->stacks.index);
	torch->stacks.index = index;
	return 0;
}

/** Adds frames to source_lists. They may lie in it, so it is grown first. */
static int add_frames(struct vc_torch *torch, const uint64_t *frames, uint64_t count)
{
	struct vc_tables *tables = torch->tables;
	const uint64_t *list = tables->column[VC_COL_source_lists_frame];
	uint64_t rows = tables->rows[VC_TABLE_source_lists];
	bool inside = frames >= list && frames < list + rows;
	uint64_t at = inside ? (uint64_t)(frames - list) : 0;
	int error;

	if (count > torch->values.limits->most[VC_LIMIT_RECORDS] - rows)
		return vc_values_limit(&torch->values, VC_LIMIT_RECORDS);
	error = vc_tables_reserve(tables, VC_TABLE_source_lists, rows + count);
	if (error)
		return error;
	if (inside)
		frames = tables->column[VC_COL_source_lists_frame] + at;
	memcpy(tables->column[VC_COL_source_lists_frame] + rows, frames, count * sizeof(*frames));
	/* which of them an interpreter was called for a dump does not say */
	memset(tables->column[VC_COL_source_lists_entry] + rows, 0, count * sizeof(*frames));
	tables->rows[VC_TABLE_source_lists] = rows + count;
	return 0;
}

/** Row of the stack of these frames (rows plus 1), made where there is none. */
static int intern_stack(struct vc_torch *torch, const uint64_t *frames, uint64_t count,
			uint64_t forward, uint64_t *ret)
{
	struct vc_tables *tables = torch->tables;
	struct vc_interned *stacks = &torch->stacks;
	uint64_t slot, row, first;
	int error = 0;

	if (stacks->count * 2 >= stacks->size)
		error = grow_stacks(torch);
	if (error)
		return error;
	slot = stack_hash(torch, frames, count, forward) & (stacks->size - 1);
	for (; stacks->index[slot]; slot = (slot + 1) & (stacks->size - 1)) {
		row = stacks->index[slot] - 1;
		if (same_stack(tables, row, frames, count, forward)) {
			*ret = row;
			return 0;
		}
	}
	first = tables->rows[VC_TABLE_source_lists];
	error = add_frames(torch, frames, count);
	if (!error)
		error = vc_torch_append(torch, VC_TABLE_source_stacks, &row);
	if (error)
		return error;
	tables->column[VC_COL_source_stacks_first][row] = first;
	tables->column[VC_COL_source_stacks_count][row] = count;
	tables->column[VC_COL_source_stacks_forward][row] = forward;
	stacks->index[slot] = row + 1;
	stacks->count++;
	*ret = row;
	return 0;
}

int vc_torch_stack_with_forward(struct vc_torch *torch, uint64_t stack, uint64_t forward,
				uint64_t *ret)
{
	const struct vc_tables *tables = torch->tables;
	uint64_t first = stack ? tables->column[VC_COL_source_stacks_first][stack - 1] : 0;
	uint64_t count = stack ? tables->column[VC_COL_source_stacks_count][stack - 1] : 0;
	uint64_t row;
	int error;

	error = intern_stack(torch, tables->column[VC_COL_source_lists_frame] + first, count,
			     forward, &row);
	if (!error)
		*ret = row + 1;
	return error;
}


int vc_torch_make_list(void *context, uint64_t list, const uint64_t *items, uint64_t count,
		     uint64_t *ret)
{
	struct vc_torch *torch = context;
	bool more = vc_value_tag(list) == VC_TORCH_STACK;
	uint64_t kept = 0, row, *frames;
	const uint64_t *before = NULL;
	int error;

	if (vc_value_tag(items[0]) != VC_TORCH_FRAME ||
	    (!more && vc_value_tag(list) != VC_VALUE_NEW_LIST))
		return VC_E_NOT_FOUND;
	for (uint64_t i = 0; i < count; i++)
		if (vc_value_tag(items[i]) != VC_TORCH_FRAME)
			return vc_values_wrong(&torch->values, VC_E_CORRUPT,
					       "a stack holds %s among its frames",
					       vc_value_kind(items[i]));
	if (more) { /* what came before is copied: stacks never change */
		row = vc_value_content(list);
		kept = torch->tables->column[VC_COL_source_stacks_count][row];
		torch->extended += kept;
		if (torch->extended > EXTENDED_MOST)
			return vc_values_wrong(&torch->values, VC_E_CORRUPT,
					       "stacks grow by too few frames at a time");
		before = torch->tables->column[VC_COL_source_lists_frame] +
			 torch->tables->column[VC_COL_source_stacks_first][row];
	}
	frames = malloc((kept + count) * sizeof(*frames));
	if (!frames)
		return VC_E_NO_MEMORY;
	if (kept)
		memcpy(frames, before, kept * sizeof(*frames));
	for (uint64_t i = 0; i < count; i++)
		frames[kept + i] = vc_value_content(items[i]) + 1;
	error = intern_stack(torch, frames, kept + count, 0, &row);
	free(frames);
	if (!error)
		*ret = vc_value_make(VC_TORCH_STACK, row);
	return error;
}
