/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PyTorch snapshot written as JSON: what json.dumps makes of the dict, NaN and Infinity included.
 *
 * It reads a stream once from start to end and keeps what is open; all values are made by values.h,
 * in the order a pickle makes them: lists in batches, dicts when they end. A list of two small
 * numbers is a tuple of them: JSON has no tuples. Depth, values that wait, strings and all that
 * values.h makes are bounded by limits.def. Strings may hold any bytes; lone surrogates are kept as
 * three bytes each, as pickles keep them. Not thread safe.
 */
#ifndef VC_ANALYZE_TORCH_JSON_H
#define VC_ANALYZE_TORCH_JSON_H

#include "analyze/stream.h"
#include "analyze/values.h"

/** Whether these first bytes are those of a JSON object or list; blanks, a BOM may come first. */
bool vc_torch_json_is(const uint8_t *start, size_t length);

/** Reads it. *offset is where it ended, or failed; values->what says more then. */
int vc_torch_json_read(struct vc_stream *stream, struct vc_values *values, uint64_t *ret,
		       uint64_t *offset);

#endif
