/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shape of growth: when those blocks were born that are live at the end and were not at the
 * start. The rule stands in diff.h. Pure.
 */
#ifndef VC_ANALYZE_VIEWS_SHAPE_H
#define VC_ANALYZE_VIEWS_SHAPE_H

#include "analyze/views/diff.h"

/** Births of one site, as shares of the interval from 0 to 1. */
enum { VC_SHAPE_BINS = 100 };
struct vc_births {
	uint64_t count, bytes, largest;
	double first, last;
	uint64_t bin[VC_SHAPE_BINS];      /* bytes */
	uint32_t bin_count[VC_SHAPE_BINS];
	double bin_last[VC_SHAPE_BINS];
};

/** Adds a birth; those outside the interval count for its ends. */
void vc_births_add(struct vc_births *births, double share, uint64_t bytes);
/** Of the oldest ones that are as many bytes as the site grew by. */
enum vc_shape vc_births_shape(const struct vc_births *births, int64_t growth);

/** The interval between two files, on the axis and by birth number. */
struct vc_interval {
	bool same_process;
	uint64_t number; /* of births in the first file, where the process is the same */
	enum vc_column_index column; /* step or time */
	double start, length, zero;  /* zero: what the last file's values count from */
};
/** False where it has no length that is known. */
bool vc_interval_find(const struct vc_tables *first, const struct vc_tables *last,
		      enum vc_axis axis, struct vc_interval *ret);
/** Whether an allocation of the last file was born in it, and at which share of it. */
bool vc_interval_has(const struct vc_interval *interval, const struct vc_tables *last, uint64_t row,
		     double *ret_share);

/** Fills `shape` of the rows of a device that grew. 0, VC_E_NO_MEMORY. */
int vc_shape_find(const struct vc_diff_input *first, const struct vc_diff_input *last,
		  const struct vc_names *names, unsigned depth, enum vc_axis axis,
		  struct vc_diff_device *device, struct vc_arena *arena);

#endif
