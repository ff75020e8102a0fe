/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a report says why a caching allocator failed, and what would help (views/advice.h).
 */
#ifndef VC_ANALYZE_REPORT_ADVICE_H
#define VC_ANALYZE_REPORT_ADVICE_H

#include "analyze/report.h"
#include "analyze/views/advice.h"

/** What follows "GPU 0 could not give 2.00 GiB": ": the memory is fragmented" */
const char *vc_report_why(enum vc_advice_why why);
/** "5.10 GiB is free inside PyTorch's segments, the largest hole is 0.90 GiB" */
void vc_report_room(struct vc_emit *emit, const struct vc_advice *advice);
/** Two tables, each with an empty line before it: who pins, what would help for `requested`. */
void vc_report_advice(struct vc_emit *emit, struct vc_session *session,
		      const struct vc_advice *advice, uint64_t requested,
		      const struct vc_path_prefix *prefix);

#endif
