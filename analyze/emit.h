/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One report, as text for a person or as one JSON document; a verb says everything once.
 *
 * Values (vc_emit_number, ...) go to the JSON only, lines (vc_emit_line) to the text only, tables
 * to both: as aligned columns, or as a list of objects. All that reaches the output passes through
 * the escapes of text.h, so callers hand over strings from files as they are. JSON is always exact;
 * text rounds sizes unless `exact` is set. A table that is too wide loses the columns that may be
 * dropped, from the right, then its last column is cut, a chain of callers at a caller.
 * Write errors are found by vc_emit_finish. Not thread safe.
 */
#ifndef VC_ANALYZE_EMIT_H
#define VC_ANALYZE_EMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyze/arena.h"
#include "analyze/text.h"

/** What a column of a table holds. */
enum vc_cell_type {
	VC_CELL_TEXT,
	VC_CELL_CHAIN,         /* text that may be cut at "  <- " */
	VC_CELL_NUMBER,
	VC_CELL_SIGNED_NUMBER,
	VC_CELL_BYTES,
	VC_CELL_SIGNED_BYTES,
	VC_CELL_RATE,          /* bytes per something, need not be whole */
	VC_CELL_SHARE,         /* tenths of a percent */
	VC_CELL_REAL,          /* two decimals */
	VC_CELL_ADDRESS,
};

struct vc_emit_column {
	const char *key;       /* in JSON; NULL: not there */
	const char *title;     /* in text; NULL: not there */
	enum vc_cell_type type;
	bool may_drop;         /* where the width does not suffice */
};

struct vc_cell {
	uint64_t number;       /* NUMBER, BYTES, ADDRESS */
	int64_t amount;        /* SIGNED_NUMBER, SIGNED_BYTES, SHARE */
	double real;           /* RATE, REAL */
	const char *text; /* TEXT, CHAIN; elsewhere what the text shows instead; NULL: nothing */
	bool absent;           /* not known: "-", and null in JSON */
};

enum { VC_EMIT_COLUMNS_MAX = 16, VC_EMIT_DEPTH_MAX = 16 };

struct vc_emit {
	FILE *out;
	bool json, color;
	enum vc_text_exact exact;
	unsigned width;        /* columns of a line; 0: no limit */
	/* private */
	unsigned depth, rows_depth;
	bool comma[VC_EMIT_DEPTH_MAX];
	bool failed;
	struct vc_text line;
	struct vc_arena arena; /* cells of the table being made */
	const struct vc_emit_column *columns;
	unsigned column_count;
	struct vc_emit_text_row *first_row, **next_row;
};

void vc_emit_deinit(struct vc_emit *emit);

/** Starts the document: {"schema": "vramcore.diff/1", ... */
void vc_emit_begin(struct vc_emit *emit, const char *schema);
/** Ends it and flushes. 0, VC_E_NO_MEMORY, VC_E_IO. */
int vc_emit_finish(struct vc_emit *emit);

/* JSON only. `key` is NULL inside a list. */
void vc_emit_object(struct vc_emit *emit, const char *key);
void vc_emit_object_end(struct vc_emit *emit);
void vc_emit_list(struct vc_emit *emit, const char *key);
void vc_emit_list_end(struct vc_emit *emit);
void vc_emit_string(struct vc_emit *emit, const char *key, const char *value); /* NULL: null */
void vc_emit_number(struct vc_emit *emit, const char *key, uint64_t value);
void vc_emit_signed(struct vc_emit *emit, const char *key, int64_t value);
void vc_emit_real(struct vc_emit *emit, const char *key, double value);
void vc_emit_bool(struct vc_emit *emit, const char *key, bool value);
void vc_emit_null(struct vc_emit *emit, const char *key);
void vc_emit_address(struct vc_emit *emit, const char *key, uint64_t value);
/** Nanoseconds since 1970 as "2026-11-30T08:14:07.000000001Z"; null for 0. */
void vc_emit_time(struct vc_emit *emit, const char *key, uint64_t nanoseconds);

/* Text only. */

/** One line; newlines in it are written as any other control character. */
void vc_emit_line(struct vc_emit *emit, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** The same, standing out where colours are wanted. */
void vc_emit_heading(struct vc_emit *emit, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** The same, for what should worry. */
void vc_emit_warning(struct vc_emit *emit, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Both. `columns` must stay valid until the table's end; one table at a time. */
void vc_emit_table(struct vc_emit *emit, const char *key, const struct vc_emit_column *columns,
		   unsigned count);
/** A row: `cells` as many as columns. Values emitted until vc_emit_row_end belong to it. */
void vc_emit_row(struct vc_emit *emit, const struct vc_cell *cells);
void vc_emit_row_end(struct vc_emit *emit);
/** A row that only the text has, such as what is left over. */
void vc_emit_text_row(struct vc_emit *emit, const struct vc_cell *cells);
void vc_emit_table_end(struct vc_emit *emit);

#endif
