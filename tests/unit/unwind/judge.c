/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of the unwinder with libgcc. */
#include "tests/unit/unwind/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unwind.h>

enum { DEEPEST = 1024, FRESH_EVERY = 61 };

struct judge_counts judge_counts;

struct listing {
	uint32_t count;
	uint64_t pc[DEEPEST];
};

static __thread struct vc_unwind_state *state;
static __thread uint64_t random_state = 88172645463325252u;
static __thread uint64_t taken;
static __thread struct listing expected;

struct vc_unwind_state *judge_state_new(void)
{
	void *memory = mmap(NULL, VC_UNWIND_STATE_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

void judge_state_free(struct vc_unwind_state *old)
{
	munmap(old, VC_UNWIND_STATE_BYTES);
}

struct vc_unwind_state *judge_state(void)
{
	if (!state)
		state = judge_state_new();
	return state;
}

static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *argument)
{
	struct listing *listing = argument;

	if (listing->count == DEEPEST)
		return _URC_END_OF_STACK;
	listing->pc[listing->count++] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

/* Both lists from the frame that called the judge outwards. */
static int same(const struct vc_native_stack *got, const struct listing *want, uint32_t skip)
{
	uint32_t count = want->count - skip;
	uint32_t i;

	/* libgcc ends some stacks with a frame at address 0. */
	while (count > 0 && want->pc[skip + count - 1] == 0)
		count--;
	if (count > VC_UNWIND_MAX_FRAMES) {
		count = VC_UNWIND_MAX_FRAMES;
		if (got->end != VC_STACK_LIMIT)
			return 0;
	} else if (count < VC_UNWIND_MAX_FRAMES && got->end != VC_STACK_COMPLETE) {
		return 0;
	}
	if (got->count != count)
		return 0;
	for (i = 0; i < count; i++) {
		if (got->pcs[count - 1 - i] != want->pc[skip + i])
			return 0;
	}
	return 1;
}

static void print(const struct vc_native_stack *got, const struct listing *want, uint32_t skip)
{
	uint32_t i;

	fprintf(stderr, "stack of %u frames, end %u; libgcc has %u\n", got->count, got->end,
		want->count - skip);
	for (i = 0; i < got->count || i < want->count - skip; i++)
		fprintf(stderr, "  %3u  %16llx  %16llx\n", i,
			i < got->count ? (unsigned long long)got->pcs[got->count - 1 - i] : 0,
			i < want->count - skip ? (unsigned long long)want->pc[skip + i] : 0);
}

static void compare(const struct vc_registers *from, uint32_t skip)
{
	struct vc_native_stack stack;
	struct vc_native_stack fresh;

	if (vc_unwind(judge_state(), from, &stack) != 0) {
		__atomic_fetch_add(&judge_counts.mismatches, 1, __ATOMIC_RELAXED);
		return;
	}
	__atomic_fetch_add(&judge_counts.stacks, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&judge_counts.frames, stack.count, __ATOMIC_RELAXED);
	if (!same(&stack, &expected, skip) &&
	    __atomic_fetch_add(&judge_counts.mismatches, 1, __ATOMIC_RELAXED) == 0)
		print(&stack, &expected, skip);
	if (++taken % FRESH_EVERY == 0) {
		struct vc_unwind_state *anew = judge_state_new();

		vc_unwind(anew, from, &fresh);
		if (fresh.hash != stack.hash || fresh.count != stack.count)
			__atomic_fetch_add(&judge_counts.hash_mismatches, 1, __ATOMIC_RELAXED);
		judge_state_free(anew);
	}
}

#if defined(__x86_64__)
enum { OWN_FRAMES = 1 }; /* libgcc lists the function that asks, the unwinder begins above it */
#else
enum { OWN_FRAMES = 0 };
#endif

__attribute__((noinline)) void judge_here(void)
{
	struct vc_registers from;

	VC_REGISTERS_OF_CALLER(&from);
	expected.count = 0;
	_Unwind_Backtrace(add, &expected);
	if (OWN_FRAMES == 0 && expected.count > 0)
		expected.pc[0] = from.pc; /* the same function, but another place in it */
	compare(&from, OWN_FRAMES);
}

__attribute__((noinline)) void judge_leaf(struct chain *chain)
{
	judge_here();
	__asm__ volatile("" : : "r"(chain) : "memory");
}

__attribute__((noinline)) void judge_take(struct vc_unwind_state *with,
						   struct vc_native_stack *ret)
{
	struct vc_registers from;

	VC_REGISTERS_OF_CALLER(&from);
	vc_unwind(with, &from, ret);
	if (OWN_FRAMES == 0)
		ret->count--; /* this function; the hash still has it */
}

void judge_seed(uint64_t seed)
{
	random_state = seed * 0x9e3779b97f4a7c15u + 1;
}

uint32_t judge_random(uint32_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 33) % below;
}

chain_node *judge_node(void)
{
	static chain_node *const *const lists[] = { chain_o0_nodes, chain_o2_nodes, chain_fp_nodes,
						    chain_os_nodes, chain_cpp_nodes };
	chain_node *const *list = lists[judge_random(sizeof(lists) / sizeof(lists[0]))];
	uint32_t count = 0;

	while (list[count])
		count++;
	return list[judge_random(count)];
}

void judge_shuffle(struct chain *chain, unsigned int from, unsigned int length)
{
	unsigned int i;

	chain->leaf = judge_leaf;
	chain->length = length;
	for (i = from; i < length; i++) {
		chain->node[i] = judge_node();
		chain->padding[i] = judge_random(20) * 16;
	}
}
