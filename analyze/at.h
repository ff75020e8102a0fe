/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --at: shows a file with a trace as it was at an earlier moment.
 */
#ifndef VC_ANALYZE_AT_H
#define VC_ANALYZE_AT_H

#include "analyze/command.h"
#include "analyze/model.h"
#include "analyze/views/replay.h"

/** Columns that a replay reads. */
void vc_at_wants(struct vc_wanted_columns *wanted);
/** A usage problem where --at is given and not understood. */
int vc_at_check(const struct vc_command *command, struct vc_problem *problem);
/** Turns the model back to the moment of --at; nothing where it is not given. */
int vc_at_apply(const struct vc_command *command, struct vc_model *model,
		struct vc_problem *problem);
/**
 * Turns a file with a trace back to a row of failures. *ret: 0 where it has no such event, and
 * nothing changed; else the event's number of all such errors, from 1.
 */
int vc_at_failure(struct vc_model *model, uint64_t failure, uint64_t *ret,
		  struct vc_problem *problem);
/** What the replay found wrong, as evidence of the file. 0, VC_E_NO_MEMORY. */
int vc_at_evidence(struct vc_tables *tables, const struct vc_replay *replay);

#endif
