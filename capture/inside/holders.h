/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps tensors alive: one breadth-first pass from the roots over the interpreter's heap and
 * the autograd graph.
 *
 * Roots, in this order: local variables of every thread's frames, exceptions being handled, globals
 * of the program's modules, then of all others. Each object has one parent, so that every way is a
 * shortest one. What no root reaches is told apart by the collector's own rule: held from C (more
 * references than from inside), garbage in a cycle, or the cycle of create_graph that no collector
 * sees. Private to the walk (tensors_parts.h); CTX as there.
 */
#ifndef VC_CAPTURE_INSIDE_HOLDERS_H
#define VC_CAPTURE_INSIDE_HOLDERS_H

#include "capture/inside/tensors_parts.h"

#define VC_NO_OBJECT UINT32_MAX

/** How an object was reached, where more is known than that its parent refers to it. */
struct vc_reach {
	uint32_t parent;    /* number of the object; VC_NO_OBJECT: a root */
	uint32_t root;      /* of a root: its number in struct vc_holders */
	uint32_t text;      /* string: what was saved */
	uint8_t kind;       /* enum vc_step_kind; 0: by a plain reference */
	uint8_t others;     /* further references to a tensor; 255: that many or more */
	uint16_t reserved;
};

/** A root before it is put into words: what it names is alive as long as the walk. */
struct vc_root_way {
	uint32_t kind;      /* enum vc_step_kind */
	uint32_t line;
	struct vc_python_object *name; /* of the variable; NULL: see code */
	struct vc_python_object *owner; /* dict of the module, or code of the frame */
};

/** The way to an object in words: its last step. */
struct vc_way_end {
	uint32_t step;  /* row plus 1; 0: no room */
	uint32_t depth; /* objects on it; 0: not made yet */
};

struct vc_holders {
	struct vc_set objects;   /* number: order of the pass */
	struct vc_array reach;   /* struct vc_reach by number */
	struct vc_array roots;   /* struct vc_root_way */
	struct vc_array tensors; /* uint32_t: numbers of tensors with memory, nearest first */
	struct vc_array address; /* uint64_t: storage of each of them */
	struct vc_array ends;    /* struct vc_way_end by object; filled for words */
	struct vc_array way;     /* uint32_t: objects of the way that is put into words */
	struct vc_set steps;     /* hashes of steps; number = row */
};

/** The pass, into a struct of zeroes; what it found is whole unless the walk was cut. */
void vc_holders_find(struct vc_tensors *walk, struct vc_holders *ret);
/** Rows of holders and their steps for all storages that were found. */
void vc_holders_say(struct vc_tensors *walk, struct vc_holders *holders);
void vc_holders_free(struct vc_tensors *walk, struct vc_holders *holders);

static inline struct vc_reach *vc_holders_reach(const struct vc_holders *holders, uint32_t object)
{
	return (struct vc_reach *)holders->reach.item + object;
}

#endif
