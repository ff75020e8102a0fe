/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables with made-up contents for tests: the same on every machine and in every run. They are
 * filled by tables.def alone, so that a table or column added there is in every test at once.
 */
#ifndef VC_TESTS_SAMPLE_TABLES_H
#define VC_TESTS_SAMPLE_TABLES_H

#include <stdbool.h>
#include <stdio.h>

#include "formats/tables.h"

/** A sequence of numbers that depends on its start only. */
struct sample_numbers {
	uint64_t state;
};
uint64_t sample_next(struct sample_numbers *numbers);

/**
 * Every table with `rows` rows (process: one) of varied shapes and edge values (0, 2^64 - 1), all
 * references good. `start` chooses the contents.
 */
void sample_tables_fill(struct vc_tables *tables, uint64_t rows, uint64_t start);

/** The same with values that a program could have: sums do not overflow, two devices. */
void sample_tables_fill_plausible(struct vc_tables *tables, uint64_t rows, uint64_t start);

/** Whether two sets of tables are equal; says the first difference on stderr. */
bool sample_tables_equal(const struct vc_tables *one, const struct vc_tables *other);

/** Every number and string, one column a line. */
void sample_tables_dump(const struct vc_tables *tables, FILE *to);

#endif
