/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of recordings share: conversion of a made recording, and look-ups in the result.
 */
#ifndef VC_TESTS_RECORDING_TEST_H
#define VC_TESTS_RECORDING_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "formats/convert.h"
#include "make_recording.h"

#define CELL(tables, name, row) ((tables)->column[VC_COL_##name][row])
#define TEXT(tables, name, row) vc_tables_text(tables, CELL(tables, name, row))
#define NO_ROW UINT64_MAX

/** vc_convert of a recording in memory. */
static inline int convert_made(const struct made_recording *made,
			       const struct vc_convert_options *options, struct vc_tables *ret,
			       struct vc_faults *faults)
{
	struct vc_recording_bytes bytes = {made->bytes, made->length};
	struct vc_recording_source source;

	vc_recording_source_memory(&bytes, &source);
	return vc_convert(&source, options, ret, faults);
}

/** The same, of a recording without damage. */
static inline void convert_whole(const struct made_recording *made,
				 const struct vc_convert_options *options, struct vc_tables *ret)
{
	struct vc_faults faults = {0};

	assert_int_equal(convert_made(made, options, ret, &faults), 0);
	assert_int_equal(faults.count, 0);
}

static inline struct vc_convert_options at_number(uint64_t number)
{
	return (struct vc_convert_options){.at = VC_AT_NUMBER, .number = number};
}

/** The row of `allocations` with this birth; NO_ROW: none. */
static inline uint64_t row_of(const struct vc_tables *tables, uint64_t birth)
{
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_allocations]; i++)
		if (CELL(tables, allocations_birth, i) == birth)
			return i;
	return NO_ROW;
}

/** State of the allocation with this birth; 0: not there. */
static inline uint64_t state_of(const struct vc_tables *tables, uint64_t birth)
{
	uint64_t row = row_of(tables, birth);

	return row == NO_ROW ? 0 : CELL(tables, allocations_state, row);
}

/** Value of an evidence row; 0: none. */
static inline uint64_t evidence_of(const struct vc_tables *tables, const char *key)
{
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_evidence]; i++)
		if (!strcmp(TEXT(tables, evidence_key, i), key))
			return CELL(tables, evidence_value, i);
	return 0;
}

/** Whether two results are the same, rows and texts. */
static inline int same_tables(const struct vc_tables *a, const struct vc_tables *b)
{
	for (unsigned table = 0; table < VC_TABLES; table++)
		if (a->rows[table] != b->rows[table])
			return 0;
	for (unsigned column = 0; column < VC_COLUMNS; column++) {
		uint64_t rows = a->rows[vc_column_info[column].table];

		if (a->column[column] &&
		    memcmp(a->column[column], b->column[column], rows * sizeof(uint64_t)))
			return 0;
	}
	return a->text_bytes == b->text_bytes && !memcmp(a->text, b->text, a->text_bytes);
}

static inline int has_fault(const struct vc_faults *faults, int error, const char *section)
{
	for (uint64_t i = 0; i < faults->count && i < VC_FAULTS_KEPT; i++)
		if (faults->kept[i].error == error && !strcmp(faults->kept[i].section, section))
			return 1;
	return 0;
}

#endif
