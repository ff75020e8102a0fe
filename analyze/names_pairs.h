/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chains of calls that have two stacks: one of native frames and one of Python's. Private to names.c.
 *
 * The two become one chain, innermost first: where a native frame lies in code that runs Python
 * (python_code) the frames of Python up to the next entry stand in its place. Where the file does
 * not say which code that is, all of them stand in the place of the first frame of an interpreter.
 * Other frames of the interpreter itself are left out.
 */
#ifndef VC_ANALYZE_NAMES_PAIRS_H
#define VC_ANALYZE_NAMES_PAIRS_H

#include "analyze/arena.h"
#include "analyze/names.h"

struct vc_pair {
	uint64_t reference; /* see vc_stack_reference; 0: empty */
	struct vc_chain chain;
	uint64_t number;    /* counted from 0 */
};
/** Pairs of one file that were asked for. */
struct vc_pairs {
	struct vc_pair **slot; /* open hash table, in the arena of the names */
	size_t size;
	uint64_t count;
};

static inline uint64_t vc_pair_native(uint64_t reference)
{
	return reference & UINT32_MAX;
}
static inline uint64_t vc_pair_python(uint64_t reference)
{
	return reference >> 32;
}
static inline bool vc_is_pair(uint64_t reference)
{
	return vc_pair_native(reference) && vc_pair_python(reference);
}

/** Adds one; those there already are fine. 0, VC_E_NO_MEMORY. */
int vc_pairs_want(struct vc_pairs *pairs, uint64_t reference, struct vc_arena *arena);
/** NULL: it was not asked for. */
struct vc_pair *vc_pairs_find(const struct vc_pairs *pairs, uint64_t reference);

/** Makes a pair's chain out of those of its two stacks. 0, VC_E_NO_MEMORY. */
int vc_pair_merge(const struct vc_tables *tables, struct vc_arena *arena,
		  const struct vc_chain *native, const struct vc_chain *python,
		  struct vc_pair *pair);

#endif
