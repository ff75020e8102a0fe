/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a golden snapshot and the dump of what is in it.
 *
 * usage: make_snapshot FILE.vramcore FILE.txt
 *
 * A golden file is made once for each version of the format, is kept as it is, and must be read for
 * ever. This program says where the present one came from; a build with another libzstd may give
 * other bytes with the same contents.
 */
#include <stdio.h>
#include <stdlib.h>

#include "formats/snapshot_write.h"
#include "tests/unit/formats/sample_tables.h"

#define ROWS 96
#define START 20261130

int main(int argc, char **argv)
{
	struct vc_tables tables;
	struct vc_fault fault;
	FILE *dump;

	if (argc != 3) {
		fprintf(stderr, "usage: make_snapshot FILE.vramcore FILE.txt\n");
		return 64;
	}
	sample_tables_fill_plausible(&tables, ROWS, START);
	if (vc_snapshot_write(argv[1], &tables, &fault)) {
		fprintf(stderr, "make_snapshot: %s: %s\n", argv[1], vc_error_text(fault.error));
		return 1;
	}
	dump = fopen(argv[2], "wx");
	if (!dump) {
		perror(argv[2]);
		return 1;
	}
	sample_tables_dump(&tables, dump);
	vc_tables_deinit(&tables);
	return fclose(dump) ? 1 : 0;
}
