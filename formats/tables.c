/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/tables.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define ROWS_AT_FIRST 8u
#define TEXT_AT_FIRST 256u

const struct vc_column_info vc_column_info[VC_COLUMNS] = {
#define VC_TABLE(name, number, section)
#define VC_COLUMN(table, name, number, type) {#name, VC_TABLE_##table, number, VC_TYPE_##type},
#include "formats/tables.def"
#undef VC_TABLE
#undef VC_COLUMN
};

/*
 * Column number 1 is the first of its table, and the tables' columns follow one another in the
 * order of the tables: so a table's columns reach to the first one of the next table. Each
 * VC_TABLE below ends the sum of the table before it and begins its own.
 */
enum {
#define VC_TABLE(name, number, section)
#define VC_COLUMN(table, name, number, type) COLUMN_##table##_##number = VC_COL_##table##_##name,
#include "formats/tables.def"
#undef VC_TABLE
#undef VC_COLUMN
};
enum {
	COUNT_BEFORE = 0
#define VC_TABLE(name, number, section) \
	+COLUMN_##name##_1, COUNT_##name = -COLUMN_##name##_1
#define VC_COLUMN(table, name, number, type)
#include "formats/tables.def"
#undef VC_TABLE
#undef VC_COLUMN
					   +VC_COLUMNS
};
_Static_assert(COUNT_BEFORE == 0, "the first column of tables.def is that of the first table");

const struct vc_table_info vc_table_info[VC_TABLES] = {
#define VC_TABLE(table, table_number, table_section) \
	{                                            \
		.name = #table,                      \
		.section = table_section,            \
		.number = table_number,              \
		.first = (enum vc_column_index)COLUMN_##table##_1, \
		.columns = COUNT_##table,            \
	},
#define VC_COLUMN(table, name, number, type)
#include "formats/tables.def"
#undef VC_TABLE
#undef VC_COLUMN
};

const char *vc_kind_text(uint64_t kind)
{
	switch (kind) {
#define VC_KIND(name, number, text, bytes) \
	case number: \
		return text;
#include "formats/kinds.def"
#undef VC_KIND
	default:
		return "unknown";
	}
}

enum vc_kind_bytes vc_kind_bytes(uint64_t kind)
{
	switch (kind) {
#define VC_KIND(name, number, text, bytes) \
	case number: \
		return VC_BYTES_##bytes;
#include "formats/kinds.def"
#undef VC_KIND
	default:
		return VC_BYTES_NONE;
	}
}

const char *vc_trace_action_text(uint64_t action)
{
	switch (action) {
#define VC_TRACE_ACTION(name, number, text, sign) \
	case number: \
		return text;
#include "formats/trace_actions.def"
#undef VC_TRACE_ACTION
	default:
		return "";
	}
}

/* A private seed per struct keeps file contents that were chosen to collide from doing so. */
static uint64_t random_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uint64_t)(uintptr_t)&seed * 0x9e3779b97f4a7c15u;
	return seed;
}

int vc_tables_init(struct vc_tables *tables)
{
	struct vc_tables made = {.string_seed = random_seed()};
	uint64_t row;
	int error = 0;

	for (unsigned column = 0; column < VC_COLUMNS; column++) {
		if (vc_column_info[column].type == VC_TYPE_TEXT)
			continue;
		made.column[column] = calloc(ROWS_AT_FIRST, sizeof(uint64_t));
		if (!made.column[column])
			error = VC_E_NO_MEMORY;
	}
	for (unsigned table = 0; table < VC_TABLES; table++)
		made.capacity[table] = ROWS_AT_FIRST;
	made.text_offset = calloc(ROWS_AT_FIRST, sizeof(uint64_t));
	made.text = calloc(TEXT_AT_FIRST, 1);
	made.text_capacity = TEXT_AT_FIRST;
	if (!made.text_offset || !made.text)
		error = VC_E_NO_MEMORY;
	if (!error)
		error = vc_tables_string(&made, "", 0, &row);
	if (error) {
		vc_tables_deinit(&made);
		return error;
	}
	*tables = made;
	return 0;
}

void vc_tables_deinit(struct vc_tables *tables)
{
	for (unsigned column = 0; column < VC_COLUMNS; column++) {
		free(tables->column[column]);
		vc_narrow_deinit(&tables->narrow[column]);
	}
	free(tables->text);
	free(tables->text_offset);
	free(tables->string_index);
	memset(tables, 0, sizeof(*tables));
}

static int grow(uint64_t **array, uint64_t entries)
{
	uint64_t *larger;

	if (entries > SIZE_MAX / sizeof(uint64_t))
		return VC_E_NO_MEMORY;
	larger = realloc(*array, entries * sizeof(uint64_t));
	if (!larger)
		return VC_E_NO_MEMORY;
	*array = larger;
	return 0;
}

int vc_tables_reserve(struct vc_tables *tables, enum vc_table_index table, uint64_t rows)
{
	const struct vc_table_info *info = &vc_table_info[table];
	uint64_t capacity = tables->capacity[table];

	if (rows <= capacity)
		return 0;
	if (rows > SIZE_MAX / 64)
		return VC_E_NO_MEMORY;
	capacity = rows > capacity * 2 ? rows : capacity * 2;
	for (unsigned column = info->first; column < vc_table_end(table); column++)
		if ((tables->column[column] && grow(&tables->column[column], capacity)) ||
		    (tables->narrow[column].cells &&
		     vc_narrow_grow(&tables->narrow[column], capacity)))
			return VC_E_NO_MEMORY;
	if (table == VC_TABLE_strings && grow(&tables->text_offset, capacity))
		return VC_E_NO_MEMORY;
	/* Columns that grew before one failed are larger than they need to be, and stay usable. */
	tables->capacity[table] = capacity;
	return 0;
}

int vc_tables_narrow(struct vc_tables *tables, enum vc_column_index column)
{
	int error = vc_narrow_init(&tables->narrow[column],
				   tables->capacity[vc_column_info[column].table]);

	if (error)
		return error;
	free(tables->column[column]);
	tables->column[column] = NULL;
	return 0;
}

int vc_tables_append(struct vc_tables *tables, enum vc_table_index table, uint64_t *ret)
{
	const struct vc_table_info *info = &vc_table_info[table];
	uint64_t row = tables->rows[table];

	if (table == VC_TABLE_strings)
		return VC_E_INVALID;
	if (row >= tables->capacity[table]) {
		int error = vc_tables_reserve(tables, table, row + 1);

		if (error)
			return error;
	}
	for (unsigned column = info->first; column < vc_table_end(table); column++)
		if (tables->column[column])
			tables->column[column][row] = 0;
	tables->rows[table] = row + 1;
	*ret = row;
	return 0;
}

/* ---- strings ---- */

size_t vc_tables_text_length(const struct vc_tables *tables, uint64_t row)
{
	uint64_t next;

	if (row >= tables->rows[VC_TABLE_strings])
		return 0;
	next = row + 1 < tables->rows[VC_TABLE_strings] ? tables->text_offset[row + 1] :
							  tables->text_bytes;
	return next - tables->text_offset[row] - 1;
}

/* Entry of the index that holds these bytes, or the empty one where they belong. */
static uint64_t *index_entry(const struct vc_tables *tables, const char *bytes, size_t length)
{
	uint64_t mask = tables->string_index_size - 1;
	uint64_t at = XXH3_64bits_withSeed(bytes, length, tables->string_seed) & mask;

	for (;; at = (at + 1) & mask) {
		uint64_t row_plus_one = tables->string_index[at];

		if (!row_plus_one || (vc_tables_text_length(tables, row_plus_one - 1) == length &&
				      !memcmp(tables->text + tables->text_offset[row_plus_one - 1],
					      bytes, length)))
			return &tables->string_index[at];
	}
}

static int index_build(struct vc_tables *tables, uint64_t size)
{
	uint64_t *index = calloc(size, sizeof(uint64_t));

	if (!index)
		return VC_E_NO_MEMORY;
	free(tables->string_index);
	tables->string_index = index;
	tables->string_index_size = size;
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_strings]; row++) {
		uint64_t *entry = index_entry(tables, tables->text + tables->text_offset[row],
					      vc_tables_text_length(tables, row));

		if (!*entry)
			*entry = row + 1;
	}
	return 0;
}

static int reserve_text(struct vc_tables *tables, uint64_t bytes)
{
	uint64_t capacity = tables->text_capacity;
	char *larger;

	if (bytes <= capacity - tables->text_bytes)
		return 0;
	if (bytes > SIZE_MAX / 4 || capacity > SIZE_MAX / 4)
		return VC_E_NO_MEMORY;
	capacity = bytes > capacity ? capacity + bytes : capacity * 2;
	larger = realloc(tables->text, capacity);
	if (!larger)
		return VC_E_NO_MEMORY;
	tables->text = larger;
	tables->text_capacity = capacity;
	return 0;
}

static void add_string(struct vc_tables *tables, const char *bytes, size_t length)
{
	char *to = tables->text + tables->text_bytes;

	if (length)
		memcpy(to, bytes, length);
	to[length] = 0;
	tables->text_offset[tables->rows[VC_TABLE_strings]++] = tables->text_bytes;
	tables->text_bytes += length + 1;
}

int vc_tables_string(struct vc_tables *tables, const char *bytes, size_t length, uint64_t *ret)
{
	uint64_t rows = tables->rows[VC_TABLE_strings], size = tables->string_index_size;
	uint64_t *entry;
	int error;

	if (length && memchr(bytes, 0, length))
		return VC_E_INVALID;
	if (length > SIZE_MAX / 4)
		return VC_E_NO_MEMORY;
	if ((rows + 1) * 2 > size) {
		for (size = size ? size : 64; (rows + 1) * 2 > size; size *= 2)
			;
		error = index_build(tables, size);
		if (error)
			return error;
	}
	entry = index_entry(tables, bytes, length);
	if (*entry) {
		*ret = *entry - 1;
		return 0;
	}
	error = vc_tables_reserve(tables, VC_TABLE_strings, rows + 1);
	if (!error)
		error = reserve_text(tables, length + 1);
	if (error)
		return error;
	add_string(tables, bytes, length);
	*entry = rows + 1;
	*ret = rows;
	return 0;
}

int vc_tables_put_text(struct vc_tables *tables, enum vc_column_index column, uint64_t row,
		       const char *text)
{
	uint64_t string;
	int error = vc_tables_string(tables, text, strlen(text), &string);

	if (!error)
		tables->column[column][row] = string;
	return error;
}

int vc_tables_load_strings(struct vc_tables *tables, const uint64_t *lengths, uint64_t count,
			   const char *bytes)
{
	uint64_t total = 0;
	int error;

	for (uint64_t i = 0; i < count; i++)
		if (__builtin_add_overflow(total, lengths[i] + 1, &total) || !(lengths[i] + 1))
			return VC_E_NO_MEMORY;
	error = vc_tables_reserve(tables, VC_TABLE_strings, tables->rows[VC_TABLE_strings] + count);
	if (!error)
		error = reserve_text(tables, total);
	if (error)
		return error;
	for (uint64_t i = 0; i < count; i++) {
		add_string(tables, bytes, lengths[i]);
		bytes += lengths[i];
	}
	free(tables->string_index); /* built again by the next vc_tables_string */
	tables->string_index = NULL;
	tables->string_index_size = 0;
	return 0;
}

const char *vc_tables_text(const struct vc_tables *tables, uint64_t row)
{
	if (row >= tables->rows[VC_TABLE_strings])
		return "";
	return tables->text + tables->text_offset[row];
}

/* ---- references ---- */

static bool table_present(const struct vc_tables *tables, enum vc_table_index table)
{
	const struct vc_table_info *info = &vc_table_info[table];

	if (table == VC_TABLE_strings)
		return true;
	for (unsigned column = info->first; column < vc_table_end(table); column++)
		if (tables->column[column])
			return true;
	return false;
}

/*
 * Whether values of a column refer to rows of a table, and if so the first value that does not.
 * failure_sites counts rows from 0: it has no way to say "none".
 */
static bool reference_end(const struct vc_tables *tables, unsigned column, uint64_t *ret)
{
	enum vc_table_index target;
	uint64_t none = 1;

	switch (vc_column_info[column].type) {
	case VC_TYPE_STRING:
		target = VC_TABLE_strings;
		none = 0;
		break;
	case VC_TYPE_ROW_modules:
		target = VC_TABLE_modules;
		break;
	case VC_TYPE_ROW_stacks:
		target = VC_TABLE_stacks;
		break;
	case VC_TYPE_ROW_sites:
		target = VC_TABLE_sites;
		break;
	case VC_TYPE_ROW_source_frames:
		target = VC_TABLE_source_frames;
		break;
	case VC_TYPE_ROW_source_stacks:
		target = VC_TABLE_source_stacks;
		break;
	case VC_TYPE_ROW_segments:
		target = VC_TABLE_segments;
		break;
	case VC_TYPE_ROW_blocks:
		target = VC_TABLE_blocks;
		break;
	case VC_TYPE_ROW_trace_details:
		target = VC_TABLE_trace_details;
		break;
	case VC_TYPE_ROW_tensors:
		target = VC_TABLE_tensors;
		break;
	case VC_TYPE_ROW_storages:
		target = VC_TABLE_storages;
		break;
	case VC_TYPE_ROW_graph_nodes:
		target = VC_TABLE_graph_nodes;
		break;
	case VC_TYPE_ROW_holder_steps:
		target = VC_TABLE_holder_steps;
		break;
	default:
		if (column == VC_COL_failure_sites_failure)
			target = VC_TABLE_failures;
		else if (column == VC_COL_failure_sites_site)
			target = VC_TABLE_sites;
		else
			return false;
		none = 0;
	}
	if (!table_present(tables, target))
		return false;
	*ret = tables->rows[target] + none;
	return true;
}

/* A maximum is found much faster than a first offender, and nearly every column has none. */
static bool all_below(const uint64_t *values, uint64_t count, uint64_t end)
{
	uint64_t highest = 0;

	for (uint64_t i = 0; i < count; i++)
		highest = values[i] > highest ? values[i] : highest;
	return !count || highest < end;
}

/* Columns that say a run of rows of another table. */
struct run_columns {
	enum vc_column_index first, count;
	enum vc_table_index target;
};
static const struct run_columns runs[] = {
	{VC_COL_stacks_first, VC_COL_stacks_count, VC_TABLE_frames},
	{VC_COL_source_stacks_first, VC_COL_source_stacks_count, VC_TABLE_source_lists},
	{VC_COL_symbols_first, VC_COL_symbols_count, VC_TABLE_symbol_frames},
};
enum { RUNS = sizeof(runs) / sizeof(runs[0]) };

static enum vc_table_index run_table(const struct run_columns *run)
{
	return vc_column_info[run->first].table;
}

static bool run_good(const struct vc_tables *tables, const struct run_columns *run, uint64_t row)
{
	uint64_t first = tables->column[run->first][row];
	uint64_t count = tables->column[run->count][row];
	uint64_t rows = tables->rows[run->target];

	return first <= rows && count <= rows - first;
}

/* Rows whose runs can be checked: all of the table, or none. */
static uint64_t run_rows(const struct vc_tables *tables, const struct run_columns *run)
{
	bool checkable = tables->column[run->first] && tables->column[run->count] &&
			 table_present(tables, run->target);

	return checkable ? tables->rows[run_table(run)] : 0;
}

int vc_tables_check(const struct vc_tables *tables, struct vc_fault *fault)
{
	if (!tables->rows[VC_TABLE_strings] || *vc_tables_text(tables, 0))
		return vc_fault_set(fault, VC_E_RANGE, vc_table_info[VC_TABLE_strings].section, 0);
	if (table_present(tables, VC_TABLE_process) && tables->rows[VC_TABLE_process] != 1)
		return vc_fault_set(fault, VC_E_RANGE, vc_table_info[VC_TABLE_process].section, 0);
	for (unsigned column = 0; column < VC_COLUMNS; column++) {
		enum vc_table_index table = vc_column_info[column].table;
		uint64_t end;

		if (tables->column[column] && reference_end(tables, column, &end) &&
		    !all_below(tables->column[column], tables->rows[table], end))
			return vc_fault_set(fault, VC_E_RANGE, vc_table_info[table].section, 0);
	}
	for (unsigned i = 0; i < RUNS; i++)
		for (uint64_t row = 0; row < run_rows(tables, &runs[i]); row++)
			if (!run_good(tables, &runs[i], row))
				return vc_fault_set(fault, VC_E_RANGE,
						    vc_table_info[run_table(&runs[i])].section, 0);
	return 0;
}

/* ---- repair ---- */

/* One for each table: twenty columns that dangle for one reason say no more than one. */
static void add_range_fault(struct vc_faults *faults, enum vc_table_index table)
{
	const struct vc_fault *last = NULL;
	struct vc_fault fault;

	if (faults && faults->count && faults->count <= VC_FAULTS_KEPT)
		last = &faults->kept[faults->count - 1];
	if (last && last->error == VC_E_RANGE && !strcmp(last->section, vc_table_info[table].section))
		return;
	vc_fault_set(&fault, VC_E_RANGE, vc_table_info[table].section, 0);
	vc_faults_add(faults, &fault);
}

static void repair_column(struct vc_tables *tables, unsigned column, struct vc_faults *faults)
{
	enum vc_table_index table = vc_column_info[column].table;
	uint64_t *values = tables->column[column], end;

	if (!values || !reference_end(tables, column, &end) ||
	    all_below(values, tables->rows[table], end))
		return;
	for (uint64_t row = 0; row < tables->rows[table]; row++)
		if (values[row] >= end)
			values[row] = 0;
	add_range_fault(faults, table);
}

static void repair_failure_sites(struct vc_tables *tables, struct vc_faults *faults)
{
	const struct vc_table_info *info = &vc_table_info[VC_TABLE_failure_sites];
	uint64_t rows = tables->rows[VC_TABLE_failure_sites], kept = 0;

	for (uint64_t row = 0; row < rows; row++) {
		bool good = true;

		for (unsigned i = info->first; i < vc_table_end(VC_TABLE_failure_sites); i++) {
			uint64_t end;

			if (tables->column[i] && reference_end(tables, i, &end))
				good &= tables->column[i][row] < end;
		}
		if (!good)
			continue;
		for (unsigned i = info->first; i < vc_table_end(VC_TABLE_failure_sites); i++)
			if (tables->column[i])
				tables->column[i][kept] = tables->column[i][row];
		kept++;
	}
	tables->rows[VC_TABLE_failure_sites] = kept;
	if (kept != rows)
		add_range_fault(faults, VC_TABLE_failure_sites);
}

static void repair_runs(struct vc_tables *tables, const struct run_columns *run,
			struct vc_faults *faults)
{
	uint64_t rows = run_rows(tables, run);
	bool changed = false;

	for (uint64_t row = 0; row < rows; row++) {
		if (run_good(tables, run, row))
			continue;
		tables->column[run->first][row] = 0;
		tables->column[run->count][row] = 0;
		changed = true;
	}
	if (changed)
		add_range_fault(faults, run_table(run));
}

static int repair_strings(struct vc_tables *tables, struct vc_faults *faults)
{
	static const uint64_t length = 0;

	if (tables->rows[VC_TABLE_strings] && !*vc_tables_text(tables, 0))
		return 0;
	/* Without its first string no reference can be trusted to say "". */
	tables->rows[VC_TABLE_strings] = 0;
	tables->text_bytes = 0;
	add_range_fault(faults, VC_TABLE_strings);
	return vc_tables_load_strings(tables, &length, 1, "");
}

int vc_tables_repair(struct vc_tables *tables, struct vc_faults *faults)
{
	uint64_t row;
	int error = repair_strings(tables, faults);

	if (error)
		return error;
	if (table_present(tables, VC_TABLE_process) && tables->rows[VC_TABLE_process] != 1) {
		add_range_fault(faults, VC_TABLE_process);
		if (tables->rows[VC_TABLE_process])
			tables->rows[VC_TABLE_process] = 1;
		else if ((error = vc_tables_append(tables, VC_TABLE_process, &row)))
			return error;
	}
	repair_failure_sites(tables, faults);
	for (unsigned column = 0; column < VC_COLUMNS; column++)
		repair_column(tables, column, faults);
	for (unsigned i = 0; i < RUNS; i++)
		repair_runs(tables, &runs[i], faults);
	return 0;
}
