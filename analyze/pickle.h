/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A restricted machine for pickle, protocols 2 to 5: opcodes of plain data only, nothing is ever
 * looked up or called.
 *
 * It reads a stream once from start to end and keeps the memo and what is open; all values are made
 * by values.h. What it does not take is refused by name and offset. Not thread safe.
 */
#ifndef VC_ANALYZE_PICKLE_H
#define VC_ANALYZE_PICKLE_H

#include "analyze/stream.h"
#include "analyze/values.h"

struct vc_pickle {
	uint64_t value;      /* what the pickle holds */
	unsigned protocol;
	uint64_t offset;     /* where it ended, or of the opcode that failed */
};

/** Runs it. ret->offset is set on failure too; values->what says more then. */
int vc_pickle_read(struct vc_stream *stream, struct vc_values *values, struct vc_pickle *ret);

#endif
