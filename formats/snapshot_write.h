/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the tables of one snapshot to a file (.vramcore).
 *
 * The file appears under its name only when it is whole: it is written beside it under a name of
 * its own and never takes the place of another file. Equal tables give equal bytes. Not thread
 * safe for one set of tables; not for use inside a host process.
 */
#ifndef VC_FORMATS_SNAPSHOT_WRITE_H
#define VC_FORMATS_SNAPSHOT_WRITE_H

#include "formats/cursor.h"
#include "formats/tables.h"

/** Longest string and most rows a table may have: more cannot be read back. */
#define VC_SNAPSHOT_STRING_MAX (16u << 20)
#define VC_SNAPSHOT_ROWS_MAX (1ull << 26)

/**
 * Writes *tables (which must pass vc_tables_check) to a new file, mode 0600. VC_E_EXISTS where
 * there is one of that name. On failure nothing is left behind, and *fault (may be NULL) says what
 * failed; its system_error is the errno of VC_E_IO and VC_E_PERMISSION.
 */
int vc_snapshot_write(const char *path, const struct vc_tables *tables, struct vc_fault *fault);
/** The same to a seekable, empty file that is open for writing; it is not closed nor synced. */
int vc_snapshot_write_descriptor(int descriptor, const struct vc_tables *tables,
				 struct vc_fault *fault);

#endif
