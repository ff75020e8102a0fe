/* SPDX-License-Identifier: Apache-2.0 */
/* simcuda-judge FILE: prints the rows of a judge's file, one a line; 0 if it could be read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "judge.h"

int main(int argc, char **argv)
{
	struct sim_judge judge;
	int error;

	if (argc != 2) {
		fprintf(stderr, "usage: simcuda-judge FILE\n");
		return 64;
	}
	error = sim_judge_read(argv[1], &judge);
	if (error) {
		fprintf(stderr, "simcuda-judge: %s: %s\n", argv[1], strerror(-error));
		return 2;
	}
	for (size_t i = 0; i < judge.count; i++) {
		const struct sim_judge_row *row = &judge.rows[i];

		printf("%s address=0x%" PRIx64 " size=%" PRIu64 " device=%" PRId32
		       " context=0x%" PRIx64 " thread=%" PRIu32 " serial=%" PRIu64 "\n",
		       sim_judge_kind(row->kind), row->address, row->size, row->device,
		       row->context, row->thread, row->serial);
	}
	if (judge.lost)
		printf("lost %" PRIu64 "\n", judge.lost);
	error = judge.lost ? 1 : 0;
	sim_judge_close(&judge);
	return error;
}
