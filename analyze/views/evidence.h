/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was not seen, of one file or several: the last line of every report.
 *
 * Pure. Effects are those of counters.def: BYTES makes the evidence incomplete. So do damaged
 * sections, deaths that are missing, and blocks that lie in no recorded allocation.
 */
#ifndef VC_ANALYZE_VIEWS_EVIDENCE_H
#define VC_ANALYZE_VIEWS_EVIDENCE_H

#include "analyze/arena.h"
#include "analyze/model.h"
#include "analyze/names.h"
#include "analyze/views/account.h"

enum vc_effect { VC_EFFECT_PLAIN, VC_EFFECT_NOTE, VC_EFFECT_BYTES };

struct vc_evidence_item {
	unsigned file;
	const char *key;      /* of counters.def, or "damaged", "deaths_missing", ... */
	uint64_t value;
	enum vc_effect effect;
	const char *text;     /* a clause: "3 stacks not kept: no room for new ones" */
};

struct vc_evidence {
	bool complete;
	struct vc_evidence_item *items;  /* NOTE and BYTES that happened; PLAIN not 0 */
	uint64_t count;
	uint64_t seen, lost;             /* allocations, of the last file */
};

/** Gathers. `accounts` may be NULL, else one a model. 0, VC_E_NO_MEMORY. */
int vc_evidence_make(const struct vc_model *models, const struct vc_account *accounts,
		     unsigned count, struct vc_arena *arena, struct vc_evidence *ret);

#endif
