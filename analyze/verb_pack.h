/* SPDX-License-Identifier: Apache-2.0 */
/* What every verb needs that writes a copy of a file: nothing is lost without a word. */
#ifndef VC_ANALYZE_VERB_PACK_H
#define VC_ANALYZE_VERB_PACK_H

#include "analyze/model.h"

/** Refuses a file that holds what this program does not know: the copy would lose it. */
int vc_pack_refuse_newer(const char *path, struct vc_problem *problem);
/** Adds what was found damaged to the evidence: it cannot be seen in the copy. */
int vc_pack_note_faults(struct vc_model *model);

#endif
