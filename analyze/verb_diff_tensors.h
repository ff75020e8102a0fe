/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of `diff --by role|module|tensor`, for one device.
 */
#ifndef VC_ANALYZE_VERB_DIFF_TENSORS_H
#define VC_ANALYZE_VERB_DIFF_TENSORS_H

#include "analyze/emit.h"
#include "analyze/session.h"
#include "analyze/views/diff_tensors.h"

/** What is shown, and how; `rows` at most (0: all). */
struct vc_diff_tensors_report {
	struct vc_emit *emit;
	struct vc_session *session;
	const struct vc_diff *diff;
	enum vc_tensors_by by;
	uint64_t rows;
	const uint64_t *live;      /* of the device, one a file */
};
/** Two lines below the row of what grew, from column `site` on: what keeps it, and what it is. */
void vc_diff_emit_holder(struct vc_emit *emit, struct vc_session *session, const char *holder,
			 const char *what, unsigned columns, unsigned site);
/** A list of one number a file, in JSON. */
void vc_diff_emit_numbers(struct vc_emit *emit, const char *key, const uint64_t *values,
			  uint64_t count);
/** Below the device's heading. */
void vc_diff_tensors_emit(const struct vc_diff_tensors_report *report,
			  const struct vc_diff_tensors *tensors);
/** "linear", "new, once", "gone". */
const char *vc_diff_shape_text(enum vc_shape shape, bool is_new, bool is_gone);

#endif
