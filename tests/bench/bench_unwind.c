/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nanoseconds per frame of the unwinder and of libgcc, at several depths.
 *
 * 200 chains of nodes without frame pointers (10 % of variable size, 3 % over-aligned),
 * each of which has the outer 60 % of the one before. Both methods run per capture, in turns.
 * Medians.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unwind.h>

#include "capture/inside/modules.h"
#include "capture/inside/unwind.h"
#include "tests/unit/unwind/chain.h"

enum { CHAINS = 200, ROUNDS = 40, SAMPLES = CHAINS * ROUNDS };

static struct vc_unwind_state *state;
static double own_ns[SAMPLES];
static double libgcc_ns[SAMPLES];
static unsigned int samples;
static unsigned int frames;
static double clock_cost;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context, void *argument)
{
	uint64_t *pcs = argument;

	pcs[pcs[0] < VC_UNWIND_MAX_FRAMES ? ++pcs[0] : 1] = _Unwind_GetIP(context);
	return _URC_NO_REASON;
}

static __attribute__((noinline)) void measure(struct chain *chain)
{
	static uint64_t pcs[VC_UNWIND_MAX_FRAMES + 1];
	struct vc_native_stack stack;
	struct vc_registers from;
	double start;
	double middle;
	double end;

	(void)chain;
	start = now();
	VC_REGISTERS_OF_CALLER(&from);
	vc_unwind(state, &from, &stack);
	middle = now();
	pcs[0] = 0;
	_Unwind_Backtrace(count_frame, pcs);
	end = now();
	if (samples < SAMPLES) {
		own_ns[samples] = middle - start - clock_cost;
		libgcc_ns[samples] = end - middle - clock_cost;
		samples++;
	}
	frames = stack.count;
}

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left;
	double b = *(const double *)right;

	return (a > b) - (a < b);
}

static chain_node *choose(void)
{
	chain_node *const *list = rand() % 2 ? chain_o2_nodes : chain_os_nodes;
	int chance = rand() % 100;

	if (chance < 10)
		return list[NODE_VARIABLE];
	if (chance < 13)
		return list[NODE_ALIGNED];
	return list[rand() % 2 ? NODE_PLAIN : NODE_BUSY];
}

static void bench(unsigned int depth)
{
	static struct chain chains[CHAINS];
	struct vc_unwind_counts before;
	struct vc_unwind_counts after;
	unsigned int i;
	unsigned int j;

	for (i = 0; i < CHAINS; i++) {
		struct chain *chain = &chains[i];

		if (i > 0)
			*chain = chains[i - 1];
		chain->leaf = measure;
		chain->length = depth;
		for (j = i > 0 ? depth * 6 / 10 : 0; j < depth; j++) {
			chain->node[j] = choose();
			chain->padding[j] = (unsigned int)(rand() % 8) * 16;
		}
	}
	for (i = 0; i < CHAINS; i++)
		chain_next(&chains[i], 0);
	samples = 0;
	vc_unwind_counts_of(state, &before);
	for (j = 0; j < ROUNDS; j++) {
		for (i = 0; i < CHAINS; i++)
			chain_next(&chains[i], 0);
	}
	vc_unwind_counts_of(state, &after);
	qsort(own_ns, samples, sizeof(double), by_value);
	qsort(libgcc_ns, samples, sizeof(double), by_value);
	printf("depth %3u: %3u frames, %2.0f%% replayed: %6.1f ns/frame, whole %6.0f ns "
	       "(p99 %6.0f); libgcc %6.1f ns/frame; ratio %.1f\n",
	       depth, frames,
	       100.0 * (double)(after.frames_replayed - before.frames_replayed) /
		       (double)(after.frames - before.frames),
	       own_ns[samples / 2] / frames, own_ns[samples / 2], own_ns[samples * 99 / 100],
	       libgcc_ns[samples / 2] / frames, libgcc_ns[samples / 2] / own_ns[samples / 2]);
}

int main(void)
{
	static const unsigned int depths[] = { 10, 40, 100 };
	unsigned int i;

	state = mmap(NULL, VC_UNWIND_STATE_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (state == MAP_FAILED)
		return 1;
	clock_cost = 1e9;
	for (i = 0; i < 10000; i++) {
		double start = now();
		double cost = now() - start;

		clock_cost = cost < clock_cost ? cost : clock_cost;
	}
	printf("dlclose not watched (each capture asks the loader):\n");
	for (i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		bench(depths[i]);
	vc_modules_watch_dlclose();
	printf("dlclose watched:\n");
	for (i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		bench(depths[i]);
	return 0;
}
