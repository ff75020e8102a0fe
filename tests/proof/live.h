/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is allocated at a moment, by a recording and by the driver's own list, in one form.
 *
 * For judges, which run outside the recorded program. Rows are sorted by kind, address, birth.
 */
#ifndef PROOF_LIVE_H
#define PROOF_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/convert.h"

struct live_row {
	uint64_t kind, address, size;
	int device;               /* -1: none */
	uint64_t state;           /* enum vc_allocation_state */
	uint64_t birth, thread;
	bool met;                 /* the judge's */
};

struct live {
	struct live_row *row;
	size_t count;
	uint64_t number;          /* S */
	uint64_t step;
	uint64_t deaths_missing;
	uint64_t in_doubt, being_freed;
	uint64_t faults;
};

/** A recording at a moment; 0, or the converter's error. */
int live_of_recording(const char *path, const struct vc_convert_options *options, struct live *ret);
/** The same from tables. */
void live_of_tables(const struct vc_tables *tables, struct live *ret);
/** The driver's list; 0, or -1 where there is none. */
int live_of_judge(const char *path, struct live *ret);
void live_free(struct live *live);

void live_say(const char *where, const char *what, const struct live_row *row);
/** Differences in kind, address, size, device, said on standard error; 0: none. */
unsigned int live_compare(const char *where, const struct live *judge, const struct live *recorded);

#endif
