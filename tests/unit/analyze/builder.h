/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds tables by hand, for tests of what reads them: a few calls make a process with devices,
 * stacks and allocations. Ends the test program when memory runs out.
 */
#ifndef VC_TESTS_UNIT_ANALYZE_BUILDER_H
#define VC_TESTS_UNIT_ANALYZE_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "formats/tables.h"

/** Adds a row of zeroes; its number. */
uint64_t build_row(struct vc_tables *tables, enum vc_table_index table);
void build_set(struct vc_tables *tables, enum vc_column_index column, uint64_t row, uint64_t value);
void build_text(struct vc_tables *tables, enum vc_column_index column, uint64_t row,
		const char *text);
uint64_t build_string(struct vc_tables *tables, const char *text);

/** The process row: step (steps are known when not UINT64_MAX), moment, time in seconds. */
void build_process(struct vc_tables *tables, uint64_t step, const char *moment, uint64_t seconds,
		   uint64_t number);
/** A device with its total; `free` UINT64_MAX: not asked. */
void build_device(struct vc_tables *tables, uint64_t ordinal, const char *name, const char *uuid,
		  uint64_t total, uint64_t free_bytes);
/** Row of modules plus 1. */
uint64_t build_module(struct vc_tables *tables, const char *path, const char *build_id);
/** A stack of frames (module, offset), ended by module 0; row of stacks plus 1. */
struct build_frame {
	uint64_t module, offset;
};
uint64_t build_stack(struct vc_tables *tables, const struct build_frame *frames);
/** Row of evidence. */
void build_evidence(struct vc_tables *tables, const char *key, uint64_t value);

struct build_allocation {
	uint64_t kind, address, size, stack, step, birth, parent, stream, thread;
	uint64_t state;            /* 0: live */
	uint64_t device_plus_one;
	uint64_t seconds;
	const char *label;         /* NULL: none */
};
/** Row of allocations. */
uint64_t build_allocation(struct vc_tables *tables, struct build_allocation allocation);

#endif
