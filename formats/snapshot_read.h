/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a snapshot (.vramcore) into tables.
 *
 * Every input is hostile: nothing is allocated by a length that was not checked against the bytes
 * that are there, and memory and time are bounded by limits, each with a name in
 * struct vc_snapshot_options. Damage is not an end: what is whole is loaded, and every fault names
 * the section and the offset in the file. No fault means that all bytes of the file were verified.
 * Tables that are handed out always pass vc_tables_check. One thread per call; not for use inside
 * a host process.
 */
#ifndef VC_FORMATS_SNAPSHOT_READ_H
#define VC_FORMATS_SNAPSHOT_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/container.h"
#include "formats/tables.h"

/** Limits where the options say nothing else. */
#define VC_SNAPSHOT_READ_ROWS_MAX (1ull << 26)
#define VC_SNAPSHOT_READ_BYTES_MAX (4ull << 30)

/** All zero: every column, the usual limits. */
struct vc_snapshot_options {
	bool some_columns;   /* only the columns in `columns`, and the strings */
	uint64_t columns[(VC_COLUMNS + 63) / 64];
	uint64_t rows_max;   /* rows of one table; 0: VC_SNAPSHOT_READ_ROWS_MAX */
	uint64_t bytes_max;  /* of tables, and read and decoded; 0: VC_SNAPSHOT_READ_BYTES_MAX */
};

/** Asks for a column; the first call turns "every column" into "only these". */
static inline void vc_snapshot_want(struct vc_snapshot_options *options,
				    enum vc_column_index column)
{
	options->some_columns = true;
	options->columns[column / 64] |= 1ull << column % 64;
}

/** Whether the first bytes of a file (64 are enough) are those of a snapshot. */
bool vc_snapshot_probe(const void *bytes, size_t length);

/**
 * Reads a file. `options` may be NULL. 0 with no faults: complete. 0 with faults: damaged, *ret
 * holds what is whole (vc_tables_deinit it in any case of 0). Negative: nothing can be shown, *ret
 * is untouched and the last fault says why. *faults (may be NULL) is added to, not cleared.
 * A column that was not asked for is NULL; a table of which none was asked for has no rows. Runs of
 * frames are checked where both columns of `stacks` that say them, and `frames`, are asked for.
 */
int vc_snapshot_read(const char *path, const struct vc_snapshot_options *options,
		     struct vc_tables *ret, struct vc_faults *faults);
/** The same from an open regular file, which is left open; its position does not matter. */
int vc_snapshot_read_descriptor(int descriptor, const struct vc_snapshot_options *options,
				struct vc_tables *ret, struct vc_faults *faults);
/** The same from memory. */
int vc_snapshot_read_memory(const void *bytes, size_t length,
			    const struct vc_snapshot_options *options, struct vc_tables *ret,
			    struct vc_faults *faults);
/** Only what the front says: fast, whatever the size of the file. Errors and faults as above. */
int vc_snapshot_read_front(const char *path, struct vc_container_front *ret,
			   struct vc_faults *faults);

#endif
