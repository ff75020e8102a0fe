/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judge of the unwinder: takes the running stack with it and with libgcc, and compares. Each
 * thread gets its own state at its first use; mismatches are counted over all threads, and the
 * first one is printed.
 */
#ifndef VC_TESTS_UNIT_UNWIND_JUDGE_H
#define VC_TESTS_UNIT_UNWIND_JUDGE_H

#include <stdint.h>

#include "capture/inside/unwind.h"
#include "tests/unit/unwind/chain.h"

struct judge_counts {
	uint64_t stacks;
	uint64_t frames;
	uint64_t mismatches;
	uint64_t hash_mismatches; /* of a replayed stack against the same one taken anew */
};
extern struct judge_counts judge_counts;

/** The calling thread's state. */
struct vc_unwind_state *judge_state(void);

/** A zeroed state, and its release. */
struct vc_unwind_state *judge_state_new(void);
void judge_state_free(struct vc_unwind_state *state);

/** Compares the stack of the caller. */
void judge_here(void);

/** The same as the leaf of a chain. */
void judge_leaf(struct chain *chain);

/** The stack of the caller with the given state, not compared. */
void judge_take(struct vc_unwind_state *state, struct vc_native_stack *ret);

/** Random numbers of the calling thread. */
uint32_t judge_random(uint32_t below);
void judge_seed(uint64_t seed);

/** Any node of the libraries that have unwind data. */
chain_node *judge_node(void);

/** Gives nodes and paddings from `from` on new random values. */
void judge_shuffle(struct chain *chain, unsigned int from, unsigned int length);

#endif
