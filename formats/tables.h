/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of one snapshot in memory: what a conversion fills, a writer stores, a reader loads
 * and the analysis works on.
 *
 * Every column of tables.def but the text of `strings` is an array of 64-bit numbers, one a row.
 * A column that a reader was not asked for is NULL, and so is one that is kept narrow: that only
 * who asked for it finds, by vc_tables_has and model.h's vc_value. All memory belongs to the struct and is freed
 * by vc_tables_deinit. Not thread safe; not for use inside a host process.
 */
#ifndef VC_FORMATS_TABLES_H
#define VC_FORMATS_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/error.h"
#include "formats/narrow.h"

enum vc_table_index {
#define VC_TABLE(name, number, section) VC_TABLE_##name,
#define VC_COLUMN(table, name, number, type)
#include "formats/tables.def"
#undef VC_TABLE
#undef VC_COLUMN
	VC_TABLES
};

/** One number for every column of every table, in the order of tables.def. */
enum vc_column_index {
#define VC_TABLE(name, number, section)
#define VC_COLUMN(table, name, number, type) VC_COL_##table##_##name,
#include "formats/tables.def"
#undef VC_TABLE
#undef VC_COLUMN
	VC_COLUMNS
};

/** What the numbers of a column mean; see tables.def. */
enum vc_column_type {
	VC_TYPE_NUMBER,
	VC_TYPE_ADDRESS,
	VC_TYPE_BYTES,
	VC_TYPE_TIME,
	VC_TYPE_STRING,
	VC_TYPE_KIND,
	VC_TYPE_STATE,
	VC_TYPE_BIRTH,
	VC_TYPE_TEXT,
	VC_TYPE_ROW_modules,
	VC_TYPE_ROW_stacks,
	VC_TYPE_ROW_sites,
	VC_TYPE_ROW_source_frames,
	VC_TYPE_ROW_source_stacks,
	VC_TYPE_ROW_segments,
	VC_TYPE_ROW_blocks,
	VC_TYPE_ROW_trace_details,
	VC_TYPE_ROW_tensors,
	VC_TYPE_ROW_storages,
	VC_TYPE_ROW_graph_nodes,
	VC_TYPE_ROW_holder_steps,
};

struct vc_column_info {
	const char *name;
	enum vc_table_index table;
	uint16_t number;
	enum vc_column_type type;
};

struct vc_table_info {
	const char *name;
	const char *section;
	uint16_t number;
	enum vc_column_index first; /* its columns are first .. first + columns - 1 */
	uint16_t columns;
};

extern const struct vc_table_info vc_table_info[VC_TABLES];
extern const struct vc_column_info vc_column_info[VC_COLUMNS];

/** One past the last column of a table. */
static inline unsigned vc_table_end(enum vc_table_index table)
{
	return vc_table_info[table].first + (unsigned)vc_table_info[table].columns;
}

/** State of a row of `allocations` at the moment. */
enum vc_allocation_state {
	VC_STATE_LIVE = 1,
	VC_STATE_IN_DOUBT = 2,    /* the allocating call had not returned */
	VC_STATE_BEING_FREED = 3, /* the freeing call had not returned */
};

enum vc_kind {
#define VC_KIND(name, number, text, bytes) VC_KIND_##name = number,
#include "formats/kinds.def"
#undef VC_KIND
};

/** What the size of a kind means; see kinds.def. */
enum vc_kind_bytes {
	VC_BYTES_NONE,
	VC_BYTES_DEVICE,
	VC_BYTES_HOST,
	VC_BYTES_MANAGED,
	VC_BYTES_VIRTUAL,
	VC_BYTES_INSIDE,
	VC_BYTES_FOREIGN,
};

/** Text of a kind ("linear"); "unknown" for numbers that are not in kinds.def. */
const char *vc_kind_text(uint64_t kind);
/** What the size of a kind means; VC_BYTES_NONE for numbers that are not in kinds.def. */
enum vc_kind_bytes vc_kind_bytes(uint64_t kind);

/** How a recorded stack ended. */
enum vc_stack_end {
	VC_STACK_COMPLETE = 0,
	VC_STACK_LIMIT = 1,       /* more frames than are kept */
	VC_STACK_NO_RULE = 2,     /* no unwind data for a frame */
	VC_STACK_OUTSIDE = 3,     /* the next frame lies outside the thread's stack */
	VC_STACK_SKIPPED = 4,     /* not taken: called from inside the recorder */
};

/** What became of a failed allocation. */
enum vc_failure_outcome {
	VC_FAILURE_OPEN = 0,      /* nothing more is known */
	VC_FAILURE_RETRIED = 1,   /* the thread's next allocation succeeded: a retry */
	VC_FAILURE_OUT_OF_MEMORY = 2,
	VC_FAILURE_ERROR = 3,     /* not for want of memory: the result says what of earlier work */
	VC_FAILURE_REPORTED = 4,  /* what a framework asked for; its own failure has a row */
};

/** What a row of `trace` says happened; see trace_actions.def. */
enum vc_trace_action {
	VC_TRACE_OTHER = 0,
#define VC_TRACE_ACTION(name, number, text, sign) VC_TRACE_##name = number,
#include "formats/trace_actions.def"
#undef VC_TRACE_ACTION
};
/** Its word; "" for numbers that are not in trace_actions.def. */
const char *vc_trace_action_text(uint64_t action);

/** Bits of the columns `keys`: what the other program's file had, so that it can be written back. */
enum vc_origin_key {
#define VC_ORIGIN_KEY(name, number, text) VC_KEY_##name = number,
#include "formats/origin_keys.def"
#undef VC_ORIGIN_KEY
};

/** What the value of an allocator setting was in the other program's file. */
enum vc_setting_type {
	VC_SETTING_TEXT = 0,
	VC_SETTING_NUMBER = 1,
	VC_SETTING_FRACTION = 2,
	VC_SETTING_BOOLEAN = 3,
	VC_SETTING_NONE = 4,
};

struct vc_tables {
	uint64_t rows[VC_TABLES];
	uint64_t *column[VC_COLUMNS];
	struct vc_narrow narrow[VC_COLUMNS];
	char *text;               /* all strings, each followed by NUL */
	uint64_t text_bytes;
	uint64_t *text_offset;    /* rows[VC_TABLE_strings] entries into text */
	/* private to tables.c */
	uint64_t capacity[VC_TABLES];
	uint64_t text_capacity;
	uint64_t *string_index;
	uint64_t string_index_size;
	uint64_t string_seed;
};

/** Makes *tables empty, with every column present and the string "" as row 0 of `strings`. */
int vc_tables_init(struct vc_tables *tables);
/** Frees all it owns; accepts a struct that is all zero. */
void vc_tables_deinit(struct vc_tables *tables);
/** Makes room for `rows` rows in all present columns of a table. */
int vc_tables_reserve(struct vc_tables *tables, enum vc_table_index table, uint64_t rows);
/** Adds one row of zeroes and gives its number. Not for `strings`. */
int vc_tables_append(struct vc_tables *tables, enum vc_table_index table, uint64_t *ret);
/** Keeps a column of an empty table narrow. 0, VC_E_NO_MEMORY. */
int vc_tables_narrow(struct vc_tables *tables, enum vc_column_index column);
/** Writes a row of a column that is there; see vc_narrow_put. */
static inline int vc_tables_put(struct vc_tables *tables, enum vc_column_index column,
				uint64_t row, uint64_t value)
{
	if (!tables->column[column])
		return vc_narrow_put(&tables->narrow[column], row, value);
	tables->column[column][row] = value;
	return 0;
}
static inline bool vc_tables_has(const struct vc_tables *tables, enum vc_column_index column)
{
	return tables->column[column] || tables->narrow[column].cells;
}
/** Row of `strings` for these bytes, added when new; length in bytes, no NUL inside. */
int vc_tables_string(struct vc_tables *tables, const char *bytes, size_t length, uint64_t *ret);
/** Puts a text into a cell of a STRING column of a row that is there. */
int vc_tables_put_text(struct vc_tables *tables, enum vc_column_index column, uint64_t row,
		       const char *text);
/**
 * Adds these strings as new rows without looking for equal ones: `lengths` has `count` entries and
 * `bytes` holds the strings one after the other, without NUL inside. For readers.
 */
int vc_tables_load_strings(struct vc_tables *tables, const uint64_t *lengths, uint64_t count,
			   const char *bytes);
/** A string by row: NUL-terminated, valid until the next vc_tables_string; "" when out of range. */
const char *vc_tables_text(const struct vc_tables *tables, uint64_t row);
/** Its length in bytes; 0 when out of range. */
size_t vc_tables_text_length(const struct vc_tables *tables, uint64_t row);
/**
 * Checks that every reference lies inside the table it refers to (strings, stacks, frames, modules,
 * sites, failures, ...), that row 0 of `strings` is "" and that `process` has one row. References into a
 * table none of whose columns is present are not checked. Returns a VC_E_RANGE with the table's
 * section name in *fault otherwise. A reader calls it before it hands tables out, so that the
 * analysis needs no checks of its own.
 */
int vc_tables_check(const struct vc_tables *tables, struct vc_fault *fault);
/**
 * Makes damaged tables pass vc_tables_check: references that dangle become 0 (none, ""), stacks
 * and symbols that dangle become empty, rows of failure_sites that dangle are left out, and `process` gets a
 * row of zeroes where it has none. One VC_E_RANGE per table that was changed goes to *faults (may
 * be NULL). Only for files that are known to be damaged.
 */
int vc_tables_repair(struct vc_tables *tables, struct vc_faults *faults);

#endif
