/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch says of a tensor, a node of the graph and what a node saved: each asked once in a walk.
 *
 * Holders and roles are found in passes of their own over the same objects, and PyTorch's accessors
 * take most of a walk's time. What they give is held until the walk is over: ids are not used twice
 * meanwhile, and a saved tensor refers into its node. Private to the walk (tensors_parts.h); CTX as
 * there.
 */
#ifndef VC_CAPTURE_INSIDE_TENSOR_FACTS_H
#define VC_CAPTURE_INSIDE_TENSOR_FACTS_H

#include "capture/inside/tensors_parts.h"

struct vc_tensor_facts {
	uint64_t storage; /* address; 0: none of its own */
	uint64_t data;    /* of a tensor with a storage, as `offset` and `size` */
	uint64_t offset;  /* elements */
	struct vc_python_object *grad_fn; /* not of a view: reading it may build it anew */
	struct vc_python_object *base;    /* of a view */
	struct vc_python_object *grad;    /* of a leaf, or retained; in a full walk */
	uint32_t size;    /* bytes of an element */
	uint32_t dtype;   /* string */
	uint16_t flags;   /* enum vc_tensor_flag, as far as the tensor itself tells */
	bool looked_into; /* its parts were put: it has no memory of its own */
	uint32_t row;     /* plus 1, of the walk file; 0: not put yet */
};

struct vc_saved_facts {
	struct vc_python_object *data; /* what was packed; NULL: released */
	struct vc_python_object *hook; /* NULL: none */
};

/** One SavedTensor of a node. */
struct vc_saved_item {
	struct vc_saved_facts facts;
	struct vc_python_object *saved; /* where there is a hook */
	uint32_t name;    /* number: vc_saved_text */
	uint32_t reserved;
};

struct vc_node_facts {
	struct vc_python_object *next; /* tuple of (node, number); NULL: none, or a leaf's */
	struct vc_python_object *leaf; /* tensor of an AccumulateGrad; NULL */
	uint32_t first, count;         /* in walk->saved_items: empty but in a full walk */
};

struct vc_tensor_facts vc_tensor_facts(struct vc_tensors *walk, struct vc_python_object *tensor);
/** Until others are asked; NULL: no room. */
struct vc_tensor_facts *vc_tensor_facts_at(struct vc_tensors *walk,
					   struct vc_python_object *tensor);
struct vc_node_facts vc_node_facts(struct vc_tensors *walk, struct vc_python_object *node);
struct vc_saved_facts vc_saved_facts(struct vc_tensors *walk, struct vc_python_object *saved);
struct vc_saved_item vc_saved_item(const struct vc_tensors *walk, uint32_t number);
/** What a node's type calls what it saved: "mat1", and "AddmmBackward0.mat1", as strings. */
struct vc_saved_name vc_saved_text(struct vc_tensors *walk, struct vc_python_object *node,
				   uint32_t number);
void vc_tensor_facts_free(struct vc_tensors *walk);

#endif
