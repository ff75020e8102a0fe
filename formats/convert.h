/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording at one moment, as tables: the one way from a .vrec to what is stored and analysed.
 *
 * The moment is a number S (recording.h). Allocations are those that lived at S, by the records
 * and the freed ring, plus what the program was in the middle of. Totals (sites, devices'
 * running totals, counters) are those of the time of reading: they are not kept by moment. Rows of
 * `allocations` are sorted by birth, since neighbours in time share stack, size, stream and
 * thread; rows in doubt, which have no number yet, come first with birth 0. Rows of `freed` are in
 * the order of the ring. The same bytes give the same tables. Not thread safe; runs outside the
 * host, which needs neither stop nor help.
 */
#ifndef VC_FORMATS_CONVERT_H
#define VC_FORMATS_CONVERT_H

#include "formats/recording_read.h"
#include "formats/tables.h"

enum vc_convert_at {
	VC_AT_NOW,    /* the clock as it stands; of a copy made for a moment: that moment */
	VC_AT_NUMBER, /* `number` is S */
	VC_AT_MOMENT, /* `number` is a row of the recording's moments */
};

/** Zero-fill; zero means the default. */
struct vc_convert_options {
	enum vc_convert_at at;
	uint64_t number;
	const struct vc_recording_source *walk; /* the walk file of the moment; NULL: none */
	const char *state;   /* of the process: running, stopped, dead (default unknown) */
	const char *trigger; /* where no row of moments says it (default request) */
	const char *moment;  /* the same (default now) */
	uint64_t time;       /* CLOCK_REALTIME where no row says it; default: that of the last */
			     /* thing that was recorded */
	uint64_t freed_max;  /* rows of `freed` at most, the newest (default 65,536) */
	uint64_t rows_max;   /* rows of `allocations` before VC_E_LIMIT (default 16,777,216) */
};

/**
 * Converts. What is damaged is left out and reported in *faults (may be NULL) and in the evidence;
 * on an error *ret is untouched and the first fault added to *faults is that error. The caller
 * calls vc_tables_deinit. Options may be NULL.
 */
int vc_convert(const struct vc_recording_source *source, const struct vc_convert_options *options,
	       struct vc_tables *ret, struct vc_faults *faults);

#endif
