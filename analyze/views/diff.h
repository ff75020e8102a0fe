/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grew between two files or over several, by site, for one device.
 *
 * Pure. Sites are matched by key (names.h). The interval is in steps where both ends know theirs
 * and they differ, else in seconds. The shape of a growth is told from when the blocks were born
 * that are live in the last file and were not in the first; of these, oldest first, as many bytes as
 * the site grew by: what it frees and allocates anew in each step is no growth.
 *   once       all within one hundredth of the interval
 *   stopped    none in the second half of the interval
 *   linear     at least four, and at every point of the interval the share of bytes born so far
 *              differs from the share of the interval gone by by at most a tenth plus the largest
 *              block's share
 *   irregular  all else
 */
#ifndef VC_ANALYZE_VIEWS_DIFF_H
#define VC_ANALYZE_VIEWS_DIFF_H

#include "analyze/arena.h"
#include "analyze/model.h"
#include "analyze/names.h"
#include "analyze/views/account.h"

enum vc_shape {
	VC_SHAPE_NONE,
	VC_SHAPE_ONCE,
	VC_SHAPE_STOPPED,
	VC_SHAPE_LINEAR,
	VC_SHAPE_IRREGULAR
};
/** "linear"; "-" for none. */
const char *vc_shape_text(enum vc_shape shape);

/** What the horizontal axis counts. */
enum vc_axis { VC_AXIS_NONE, VC_AXIS_STEPS, VC_AXIS_SECONDS };

struct vc_diff_input {
	const struct vc_tables *tables;
	const struct vc_account *account;
	uint32_t file;                 /* number in the names */
};

struct vc_diff_row {
	uint64_t key;
	const struct vc_chain *chain;  /* of the last file that has it */
	uint64_t *bytes, *count;       /* live, one a file */
	int64_t growth, count_growth;  /* last less first */
	double rate;                   /* bytes a step (second); 0 where the axis is none */
	double fit; /* r squared of the line through all files; of three or more */
	enum vc_shape shape;
	bool is_new, is_gone;          /* nothing of it in the first; in the last */
};

struct vc_diff_device {
	uint32_t device_plus_one;
	uint64_t *live, *cached, *reserved;    /* one a file */
	uint64_t total, room;          /* of the device; free or cached in the last file */
	bool room_known;
	int64_t growth;                /* of live, last less first */
	uint64_t grown;                /* sum of the rows that grew */
	struct vc_diff_row *rows; /* that changed: largest growth first, largest shrinking last */
	uint64_t count, grew, shrank, unchanged; /* count = grew + shrank */
	double rate;                   /* of live, as for a row */
	double lasting_rate;           /* without what grew once or stopped growing */
	bool full_known;               /* at the lasting rate the device gets full ... */
	double full_in;                /* ... in this many steps (seconds) */
};

struct vc_diff {
	enum vc_axis axis;
	double *x;                     /* of each file: step, or seconds since the first */
	double seconds_per_step;       /* 0 unknown */
	struct vc_diff_device *devices; /* that have memory in any file, the worst first */
	uint32_t device_count;
	uint64_t files;
};

/** Compares; `depth` as in vc_chain_key. 0, VC_E_NO_MEMORY, VC_E_INVALID (less than 2 files). */
int vc_diff_make(const struct vc_diff_input *inputs, unsigned count, const struct vc_names *names,
		 unsigned depth, struct vc_arena *arena, struct vc_diff *ret);

/** Line through points by least squares: slope, and r squared (0 where y does not vary). */
void vc_fit_line(const double *x, const double *y, unsigned count, double *slope, double *fit);

#endif
