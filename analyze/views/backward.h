/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that were made in a backward pass, by their stacks (VC_ROLE_BACKWARD of role_rules.def).
 *
 * Pure. The innermost function of a stack that a rule names decides: what a node of the graph makes
 * is a gradient on its way, what is made again in it (by a checkpoint, by a hook that brings back
 * what was saved) is what it would be in a forward pass.
 */
#ifndef VC_ANALYZE_VIEWS_BACKWARD_H
#define VC_ANALYZE_VIEWS_BACKWARD_H

#include "analyze/names.h"

enum vc_backward {
	VC_BACKWARD_NONE,     /* not in a backward pass, as far as is known */
	VC_BACKWARD_GRADIENT,
	VC_BACKWARD_AGAIN
};

enum vc_backward vc_backward_of(const struct vc_chain *chain);
/** Whether the failed call that the moment shows was made in a backward pass; its stack was asked for. */
bool vc_backward_failed(const struct vc_tables *tables, const struct vc_names *names, uint32_t file);
/** Row of failures that the moment shows, plus 1; 0: none. */
uint64_t vc_failure_of_moment(const struct vc_tables *tables);

#endif
