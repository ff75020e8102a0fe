/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call chains chosen at run time: a chain is a list of nodes, functions of several libraries that
 * each lay out their frame in their own way and call the next node; the last calls the leaf.
 */
#ifndef VC_TESTS_UNIT_UNWIND_CHAIN_H
#define VC_TESTS_UNIT_UNWIND_CHAIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct chain;
typedef void chain_node(struct chain *chain, unsigned int at);

enum { CHAIN_LONGEST = 600 };

struct chain {
	chain_node *node[CHAIN_LONGEST];
	unsigned int length;
	unsigned int padding[CHAIN_LONGEST]; /* bytes the nodes with variable frames take */
	void (*leaf)(struct chain *chain);
};

static inline void chain_next(struct chain *chain, unsigned int at)
{
	if (at == chain->length)
		chain->leaf(chain);
	else
		chain->node[at](chain, at + 1);
}

/* Nodes of each library, ended by NULL. */
extern chain_node *const chain_o0_nodes[];
extern chain_node *const chain_o2_nodes[];
extern chain_node *const chain_fp_nodes[];
extern chain_node *const chain_os_nodes[];
extern chain_node *const chain_cpp_nodes[];
extern chain_node *const chain_no_hdr_nodes[];

/* Places in the lists of the C libraries. */
enum { NODE_PLAIN, NODE_VARIABLE, NODE_ALIGNED, NODE_ALIGNED_VARIABLE, NODE_LARGE, NODE_BUSY,
       NODE_SORT };

#ifdef __cplusplus
}
#endif

#endif
