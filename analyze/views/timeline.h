/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a replayed trace looks like from afar: its curve, its steps, how long its blocks lived.
 *
 * Pure. Steps are inferred, never known: from marks of an optimizer's step, else from allocations
 * that come back at regular distances. Every rule is named with its result.
 */
#ifndef VC_ANALYZE_VIEWS_TIMELINE_H
#define VC_ANALYZE_VIEWS_TIMELINE_H

#include "analyze/arena.h"
#include "analyze/views/replay.h"

/** A run of moments of the curve. */
struct vc_timeline_bucket {
	uint64_t first, last;          /* moments, both included */
	uint64_t allocated, reserved;  /* the highest in it */
};

/**
 * The moments 0 .. count of a list in at most `most` runs of about the same length, none empty.
 * Room for `most`; returns how many.
 */
uint64_t vc_timeline_curve(const struct vc_replay *replay, const struct vc_replay_list *list,
			   uint64_t most, struct vc_timeline_bucket *buckets);

enum vc_steps_rule {
	VC_STEPS_NONE,
	VC_STEPS_MARKS,       /* marks named Optimizer.step or ProfilerStep begin or end them */
	VC_STEPS_PERIOD,      /* allocations of the same stack and size come back regularly */
};

struct vc_steps {
	enum vc_steps_rule rule;
	uint64_t *boundaries; /* moments that steps begin at, rising; whole steps are between two */
	uint64_t count;       /* boundaries: at least 2 where there is a rule */
	uint64_t witnesses;   /* marks, or kinds of allocations that agree on the period */
	const char *mark;     /* its name */
};
/** Looks for steps. Boundaries live as long as the arena. 0, VC_E_NO_MEMORY. */
int vc_steps_find(const struct vc_tables *tables, const struct vc_replay *replay,
		  uint32_t list, struct vc_arena *arena, struct vc_steps *ret);

/** Blocks that were allocated in the trace, by what became of them. */
struct vc_lifetimes {
	uint64_t never_freed, never_freed_bytes;
	uint64_t freed, freed_bytes;
	/* of those freed, where steps are known */
	uint64_t within_step, within_step_bytes;   /* no step began while they lived */
	uint64_t longer, longer_bytes;
	/* live before the trace began */
	uint64_t prior_kept, prior_kept_bytes;
	uint64_t prior_freed, prior_freed_bytes;
};
void vc_lifetimes_make(const struct vc_tables *tables, const struct vc_replay *replay,
		       const struct vc_replay_list *list, const struct vc_steps *steps,
		       struct vc_lifetimes *ret);

#endif
