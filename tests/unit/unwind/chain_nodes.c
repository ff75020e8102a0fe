/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of call chains in C; compiled several times with different options. */
#include "tests/unit/unwind/chain.h"

#include <alloca.h>
#include <stdlib.h>

/* Keeps a value alive and unknown to the compiler, so that frames stay as they are. */
#define USE(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

static void plain(struct chain *chain, unsigned int at)
{
	chain_next(chain, at);
	USE(chain);
}

static void variable(struct chain *chain, unsigned int at)
{
	char *bytes = alloca(chain->padding[at - 1] + 16);

	USE(bytes);
	chain_next(chain, at);
	USE(bytes);
}

static void aligned(struct chain *chain, unsigned int at)
{
	_Alignas(64) char bytes[64];

	USE(bytes);
	chain_next(chain, at);
	USE(bytes);
}

static void aligned_variable(struct chain *chain, unsigned int at)
{
	_Alignas(128) char bytes[128];
	char *more = alloca(chain->padding[at - 1] + 1);

	USE(bytes);
	USE(more);
	chain_next(chain, at);
	USE(bytes);
	USE(more);
}

static void large(struct chain *chain, unsigned int at)
{
	char bytes[3000];

	USE(bytes);
	chain_next(chain, at);
	USE(bytes);
}

/* Needs all callee-saved registers, the frame pointer's too. */
static void busy(struct chain *chain, unsigned int at)
{
	uint64_t a[8];
	unsigned int i;

	for (i = 0; i < 8; i++)
		a[i] = at * (i + 3);
	chain_next(chain, at);
	for (i = 0; i < 8; i++)
		USE(a[i]);
}

static __thread struct chain *sorting;
static __thread unsigned int sorting_at;

static int compare(const void *left, const void *right)
{
	struct chain *chain = sorting;

	if (chain) {
		sorting = NULL;
		chain_next(chain, sorting_at);
	}
	return *(const int *)left - *(const int *)right;
}

/* Goes on from a callback of the C library. */
static void sort(struct chain *chain, unsigned int at)
{
	int numbers[2] = { 2, 1 };

	sorting = chain;
	sorting_at = at;
	qsort(numbers, 2, sizeof(numbers[0]), compare);
	USE(numbers);
}

chain_node *const CHAIN_NODES[] = { plain, variable, aligned, aligned_variable, large, busy, sort,
				    NULL };
