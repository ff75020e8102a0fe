/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramcore oom --message: the out-of-memory messages of a log, read and checked.
 */
#ifndef VC_ANALYZE_VERB_OOM_MESSAGE_H
#define VC_ANALYZE_VERB_OOM_MESSAGE_H

#include "analyze/emit.h"
#include "analyze/problem.h"

/** `path` "-" is standard input; at most `most` messages in the list, 0 all. An exit status. */
int vc_oom_message_report(const char *path, uint64_t most, struct vc_emit *emit,
			  struct vc_problem *problem);

#endif
