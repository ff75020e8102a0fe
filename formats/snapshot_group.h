/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes one row group of a snapshot into tables. For the reader of snapshots only.
 *
 * A group is taken whole or not at all. Bytes come from a hostile file; the caller has bounded
 * their number.
 */
#ifndef VC_FORMATS_SNAPSHOT_GROUP_H
#define VC_FORMATS_SNAPSHOT_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/column.h"
#include "formats/tables.h"

/** What all groups of a file share. */
struct vc_group_reader {
	struct vc_tables *tables;
	uint64_t rows_max;   /* of one table */
	uint64_t bytes_left; /* that tables may still take */
	struct vc_column_key *key;
	uint64_t *scratch; /* VC_GROUP_ROWS values for each of a few columns */
};

int vc_group_reader_init(struct vc_group_reader *reader, struct vc_tables *tables,
			 uint64_t rows_max, uint64_t bytes_max);
void vc_group_reader_deinit(struct vc_group_reader *reader);

/**
 * Adds a group to `table`. rows_end is the number of rows that the file says the table has. Where
 * groups before this one were lost (`damaged`), rows that others refer to by number are filled up
 * with zeroes, so that the numbers still mean what they meant.
 */
int vc_group_read(struct vc_group_reader *reader, enum vc_table_index table, const uint8_t *bytes,
		  size_t length, uint64_t rows_end, bool damaged);

#endif
