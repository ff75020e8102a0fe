/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `top` and `holders` share of tensors: the roles of a session's first file.
 */
#ifndef VC_ANALYZE_VERB_TOP_TENSORS_H
#define VC_ANALYZE_VERB_TOP_TENSORS_H

#include "analyze/session.h"
#include "analyze/views/roles.h"

/** Whether what is asked for is about tensors: --role, or --by with one of its words. */
bool vc_top_is_of_tensors(const struct vc_command *command);
int vc_verb_top_tensors(const struct vc_command *command, struct vc_emit *emit,
			struct vc_problem *problem);

/** Adds a bit (1 << enum vc_role) for each role that --role names, separated by commas. */
int vc_option_roles(const struct vc_command *command, uint32_t *ret, struct vc_problem *problem);
/** Columns that roles need. */
void vc_session_wants_roles(struct vc_wanted_columns *wanted);
/** Counts, names and tells the roles; a problem where nothing is known of tensors. */
int vc_session_roles(struct vc_session *session, struct vc_roles *ret, struct vc_problem *problem);

#endif
