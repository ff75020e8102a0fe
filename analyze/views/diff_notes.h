/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has to be said about a comparison beside its numbers, and which rows of it are shown. Pure.
 */
#ifndef VC_ANALYZE_VIEWS_DIFF_NOTES_H
#define VC_ANALYZE_VIEWS_DIFF_NOTES_H

#include "analyze/views/diff.h"

enum { VC_DIFF_NOTES = 8 };
struct vc_diff_notes {
	bool same_moment;      /* all files show the same moment of a step */
	bool has_blocks;       /* a program's allocator reported what it hands out */
	unsigned count;
	const char *line[VC_DIFF_NOTES];
};

/** Looks at what the files are; `tensors`: they are compared by those. 0, VC_E_NO_MEMORY. */
int vc_diff_notes_make(const struct vc_diff_input *inputs, unsigned count, bool tensors,
		       struct vc_arena *arena, struct vc_diff_notes *ret);

/** Which rows of a device are shown: the first ones that grew and the last ones that shrank. */
struct vc_diff_shown {
	uint64_t first, last;          /* rows at either end */
	uint64_t grew, shrank;         /* rows between, not shown */
	int64_t grew_bytes, shrank_bytes;
};
/** `most` rows at most, 0: all; growth comes first, but something that shrank is shown too. */
struct vc_diff_shown vc_diff_choose(const struct vc_diff_device *device, uint64_t most);
bool vc_diff_is_shown(const struct vc_diff_device *device, const struct vc_diff_shown *shown,
		      uint64_t row);

/** How few sites make up most of the growth. */
struct vc_diff_explained {
	uint64_t sites;        /* 0: nothing grew */
	char share[32];        /* in percent, rounded down: "99.98", "100" */
};
struct vc_diff_explained vc_diff_explain(const struct vc_diff_device *device);

/** Nanoseconds from the start of recording to the moment; 0 unknown. */
uint64_t vc_diff_recorded(const struct vc_tables *tables);
/** Seconds as whole nanoseconds, at most 292 years. */
uint64_t vc_diff_nanoseconds(double seconds);

#endif
