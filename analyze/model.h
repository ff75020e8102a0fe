/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One opened file: its tables, what was found damaged in it, and short ways to ask.
 *
 * Filled by vc_model_open from a snapshot, a recording or a PyTorch snapshot, told apart by content.
 * Views take models and change nothing in them. Not thread safe.
 */
#ifndef VC_ANALYZE_MODEL_H
#define VC_ANALYZE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "analyze/problem.h"
#include "formats/tables.h"

struct vc_model {
	const char *path;          /* as given; the caller's */
	struct vc_tables tables;
	struct vc_faults faults;
	bool from_recording;       /* a .vrec, converted when it was opened */
	bool imported;             /* another program's file */
};

/** Columns to read; a table's other columns stay NULL. Small tables are always read whole. */
struct vc_wanted_columns {
	bool column[VC_COLUMNS];
	bool narrow_trace; /* columns of trace may be narrow: they are read by vc_value only */
};
/** Adds all columns of all tables but allocations and freed, which may be large. */
void vc_wanted_small(struct vc_wanted_columns *wanted);
/** Adds all columns of a table. */
void vc_wanted_table(struct vc_wanted_columns *wanted, enum vc_table_index table);

struct vc_limits;

/**
 * Opens a file; `limits` on imported ones, NULL: the usual. 0, or a negative VC_E_* with *problem
 * filled; then *ret is empty.
 */
int vc_model_open(const char *path, const struct vc_wanted_columns *wanted,
		  const struct vc_limits *limits, struct vc_model *ret,
		  struct vc_problem *problem);
/** Fine for a model that is all zero. */
void vc_model_close(struct vc_model *model);

/** A value; 0 where the column was not read or the row is not there. */
static inline uint64_t vc_value(const struct vc_tables *tables, enum vc_column_index column,
				uint64_t row)
{
	if (row >= tables->rows[vc_column_info[column].table])
		return 0;
	if (tables->column[column])
		return tables->column[column][row];
	return tables->narrow[column].cells ? vc_narrow_get(&tables->narrow[column], row) : 0;
}

/** A text of a STRING column; "" as above. */
static inline const char *vc_string(const struct vc_tables *tables, enum vc_column_index column,
				    uint64_t row)
{
	return vc_tables_text(tables, vc_value(tables, column, row));
}

/** Ordinals above are taken as "unknown": no machine has them. */
enum { VC_MODEL_DEVICES_MOST = 1024 };

/** True for another program's file. */
static inline bool vc_is_import(const struct vc_tables *tables)
{
	return tables->rows[VC_TABLE_origin] != 0;
}
/** Same process, at two moments: boot, pid and start agree and are known. */
bool vc_same_process(const struct vc_tables *a, const struct vc_tables *b);
/** Row of `devices` with this ordinal; VC_E_NOT_FOUND. */
int vc_device_row(const struct vc_tables *tables, uint64_t device, uint64_t *ret);

#endif
