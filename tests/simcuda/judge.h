/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reader of the judge's file (SIMCUDA_MAP), for tests that compare a recorder's view with the
 * truth.
 *
 * sim_judge_read copies the allocated rows, sorted by kind, then address, then serial. It may
 * read the file of a living process: then rows of calls under way may or may not be there. Plain
 * C, no locks; not for signal handlers.
 */
#ifndef SIM_JUDGE_H
#define SIM_JUDGE_H

#include <stddef.h>

#include "judge_file.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sim_judge {
	struct sim_judge_row *rows; /* sorted */
	size_t count;
	uint64_t lost; /* rows the driver had no room for */
	int32_t pid;   /* of the process that wrote it */
};

/** Fills *ret; 0, or a negative errno value. The caller closes it. */
int sim_judge_read(const char *path, struct sim_judge *ret);
void sim_judge_close(struct sim_judge *judge);
/** The row of that kind at that address, or NULL. */
const struct sim_judge_row *sim_judge_find(const struct sim_judge *judge, uint32_t kind,
					   uint64_t address);
/** Number of rows of one kind, and their bytes if total is not NULL. */
size_t sim_judge_count(const struct sim_judge *judge, uint32_t kind, uint64_t *total);
/** The word for a kind, "?" for an unknown one. */
const char *sim_judge_kind(uint32_t kind);

#ifdef __cplusplus
}
#endif
#endif
