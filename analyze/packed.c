/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/packed.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"

enum { FRAMES_AT_ONE_ADDRESS = 64 };

/* In the first `rows` rows only: packing adds new ones behind them. */
static bool find_among(const struct vc_tables *tables, uint64_t rows, uint64_t module,
		       uint64_t offset, struct vc_packed_run *ret)
{
	uint64_t low = 0, high = rows;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		uint64_t at_module = vc_value(tables, VC_COL_symbols_module, middle);
		uint64_t at_offset = vc_value(tables, VC_COL_symbols_offset, middle);

		if (at_module == module && at_offset == offset) {
			ret->first = vc_value(tables, VC_COL_symbols_first, middle);
			ret->count = vc_value(tables, VC_COL_symbols_count, middle);
			return ret->count > 0;
		}
		if (at_module < module || (at_module == module && at_offset < offset))
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

bool vc_packed_find(const struct vc_tables *tables, uint64_t module, uint64_t offset,
		    struct vc_packed_run *ret)
{
	return find_among(tables, tables->rows[VC_TABLE_symbols], module, offset, ret);
}

void vc_packed_frame(const struct vc_tables *tables, uint64_t row, struct vc_frame_name *ret)
{
	const char *function = vc_string(tables, VC_COL_symbol_frames_function, row);
	const char *file = vc_string(tables, VC_COL_symbol_frames_file, row);
	uint64_t line = vc_value(tables, VC_COL_symbol_frames_line, row);

	ret->function = *function ? function : NULL;
	ret->file = *file ? file : NULL;
	ret->line = line <= UINT32_MAX ? (uint32_t)line : 0;
	ret->inlined = vc_value(tables, VC_COL_symbol_frames_inlined, row) == 1;
}

/* ---- packing ---- */

struct address {
	uint64_t module, offset; /* row of modules plus 1 */
};

struct work {
	struct vc_tables *tables;
	const struct vc_resolver *resolver;
	struct address *addresses; /* sorted, each once */
	uint64_t count;
	uint64_t old_symbols, old_frames, old_modules; /* rows that were there before */
	struct vc_pack_count counted;
};

static int compare_addresses(const void *left, const void *right)
{
	const struct address *a = left, *b = right;

	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static int collect_addresses(struct work *work)
{
	uint64_t rows = work->tables->rows[VC_TABLE_frames], kept = 0;

	work->addresses = calloc(rows ? rows : 1, sizeof(*work->addresses));
	if (!work->addresses)
		return VC_E_NO_MEMORY;
	for (uint64_t row = 0; row < rows; row++) {
		struct address address = {
			vc_value(work->tables, VC_COL_frames_module, row),
			vc_value(work->tables, VC_COL_frames_offset, row),
		};

		if (address.module)
			work->addresses[work->count++] = address;
	}
	qsort(work->addresses, work->count, sizeof(*work->addresses), compare_addresses);
	for (uint64_t i = 0; i < work->count; i++)
		if (!kept || compare_addresses(&work->addresses[kept - 1], &work->addresses[i]))
			work->addresses[kept++] = work->addresses[i];
	work->count = work->counted.addresses = kept;
	return 0;
}

static int ask(struct work *work)
{
	const struct vc_resolver *resolver = work->resolver;
	int error = 0;

	for (uint64_t i = 0; i < work->count && !error; i++) {
		uint64_t module = work->addresses[i].module - 1;

		error = resolver->want(resolver->context, (uint32_t)module,
				       vc_string(work->tables, VC_COL_modules_path, module),
				       vc_string(work->tables, VC_COL_modules_build_id, module),
				       work->addresses[i].offset);
	}
	return error ? error : resolver->resolve(resolver->context);
}

static int set_text(struct vc_tables *tables, enum vc_column_index column, uint64_t row,
		    const char *text)
{
	return text ? vc_tables_put_text(tables, column, row, text) : 0;
}

static int add_frame(struct vc_tables *tables, const struct vc_frame_name *frame)
{
	uint64_t row;
	int error = vc_tables_append(tables, VC_TABLE_symbol_frames, &row);

	if (!error)
		error = set_text(tables, VC_COL_symbol_frames_function, row, frame->function);
	if (!error)
		error = set_text(tables, VC_COL_symbol_frames_file, row, frame->file);
	if (error)
		return error;
	tables->column[VC_COL_symbol_frames_line][row] = frame->line;
	tables->column[VC_COL_symbol_frames_inlined][row] = frame->inlined;
	return 0;
}

/* Names that stand in the file already: copied by number, since adding a text may move them all. */
static int copy_frame(struct vc_tables *tables, uint64_t from)
{
	uint64_t row;
	int error = vc_tables_append(tables, VC_TABLE_symbol_frames, &row);

	if (error)
		return error;
	for (unsigned i = vc_table_info[VC_TABLE_symbol_frames].first;
	     i < vc_table_end(VC_TABLE_symbol_frames); i++)
		tables->column[i][row] = tables->column[i][from];
	return 0;
}

/* What is known of one address: from the resolver, or from the file as it was. */
struct found {
	struct vc_frame_name frames[FRAMES_AT_ONE_ADDRESS];
	uint32_t count;
	struct vc_packed_run old; /* count 0: none, or not to be used */
};

static bool has_line(const struct vc_frame_name *frames, uint32_t count)
{
	return count && frames[0].file && frames[0].line;
}

static void find(const struct work *work, const struct address *address, struct found *found)
{
	const struct vc_resolver *resolver = work->resolver;

	memset(found, 0, sizeof(*found));
	while (found->count < FRAMES_AT_ONE_ADDRESS &&
	       !resolver->get(resolver->context, (uint32_t)(address->module - 1), address->offset,
			      found->count, &found->frames[found->count]))
		found->count++;
	if (has_line(found->frames, found->count) ||
	    !find_among(work->tables, work->old_symbols, address->module, address->offset,
			&found->old))
		found->old.count = 0;
}

static int add_symbol(struct work *work, const struct address *address)
{
	struct vc_tables *tables = work->tables;
	uint64_t row, first = tables->rows[VC_TABLE_symbol_frames];
	struct vc_frame_name innermost = {0};
	struct found found;
	int error = 0;

	find(work, address, &found);
	if (!found.count && !found.old.count)
		return 0;
	if (found.old.count)
		vc_packed_frame(tables, found.old.first, &innermost);
	else
		innermost = found.frames[0];
	work->counted.named += innermost.function != NULL;
	work->counted.with_lines += has_line(&innermost, 1);
	work->counted.kept += found.old.count > 0;
	for (uint64_t i = 0; i < found.old.count && !error; i++)
		error = copy_frame(tables, found.old.first + i);
	for (uint32_t i = 0; i < found.count && !found.old.count && !error; i++)
		error = add_frame(tables, &found.frames[i]);
	if (!error)
		error = vc_tables_append(tables, VC_TABLE_symbols, &row);
	if (error)
		return error;
	tables->column[VC_COL_symbols_module][row] = address->module;
	tables->column[VC_COL_symbols_offset][row] = address->offset;
	/* what was there before is dropped in the end */
	tables->column[VC_COL_symbols_first][row] = first - work->old_frames;
	tables->column[VC_COL_symbols_count][row] = tables->rows[VC_TABLE_symbol_frames] - first;
	return 0;
}

static bool find_old_module(const struct work *work, uint64_t module, uint64_t *ret)
{
	for (uint64_t row = 0; row < work->old_modules; row++) {
		if (vc_value(work->tables, VC_COL_symbol_modules_module, row) == module) {
			*ret = row;
			return true;
		}
	}
	return false;
}

static int add_module(struct work *work, uint64_t module)
{
	const struct vc_resolver *resolver = work->resolver;
	struct vc_tables *tables = work->tables;
	const char *detail = "", *lacks = NULL;
	uint64_t row, old;
	int error = vc_tables_append(tables, VC_TABLE_symbol_modules, &row);

	if (resolver->lacks)
		lacks = resolver->lacks(resolver->context, (uint32_t)(module - 1), &detail);
	if (error)
		return error;
	tables->column[VC_COL_symbol_modules_module][row] = module;
	if (!lacks)
		return 0;
	/* It lacked less when it was packed before. */
	if (find_old_module(work, module, &old) &&
	    !*vc_string(tables, VC_COL_symbol_modules_lacks, old))
		return 0;
	error = set_text(tables, VC_COL_symbol_modules_lacks, row, lacks);
	return error ? error : set_text(tables, VC_COL_symbol_modules_detail, row, detail);
}

static void drop_first_rows(struct vc_tables *tables, enum vc_table_index table, uint64_t rows)
{
	tables->rows[table] -= rows;
	for (unsigned i = vc_table_info[table].first; i < vc_table_end(table); i++)
		memmove(tables->column[i], tables->column[i] + rows,
			tables->rows[table] * sizeof(uint64_t));
}

static int add_all(struct work *work)
{
	uint64_t module = 0;
	int error = 0;

	for (uint64_t i = 0; i < work->count && !error; i++) {
		if (work->addresses[i].module != module) {
			module = work->addresses[i].module;
			error = add_module(work, module);
		}
		if (!error)
			error = add_symbol(work, &work->addresses[i]);
	}
	return error;
}

int vc_packed_make(struct vc_tables *tables, const struct vc_resolver *resolver,
		   struct vc_pack_count *ret)
{
	struct work work = {
		.tables = tables,
		.resolver = resolver,
		.old_symbols = tables->rows[VC_TABLE_symbols],
		.old_frames = tables->rows[VC_TABLE_symbol_frames],
		.old_modules = tables->rows[VC_TABLE_symbol_modules],
	};
	int error = collect_addresses(&work);

	if (!error)
		error = ask(&work);
	if (!error)
		error = add_all(&work);
	if (!error) {
		drop_first_rows(tables, VC_TABLE_symbols, work.old_symbols);
		drop_first_rows(tables, VC_TABLE_symbol_frames, work.old_frames);
		drop_first_rows(tables, VC_TABLE_symbol_modules, work.old_modules);
		*ret = work.counted;
	}
	free(work.addresses);
	return error;
}
