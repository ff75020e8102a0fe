/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a walk file (walk.h) that say what PyTorch's tensors are and what keeps them alive.
 *
 * Rows refer to rows of other kinds by number plus 1 (0: none) and to strings by their ids. All
 * addresses are of the process at the moment. FORMAT.md is normative.
 */
#ifndef VC_FORMATS_WALK_TENSORS_H
#define VC_FORMATS_WALK_TENSORS_H

#include <stdint.h>

/** As what a tensor was found: the strongest of the ways it can be reached, lowest number first. */
enum vc_tensor_found {
#define VC_TENSOR_FOUND(name, number, text) VC_FOUND_##name = number,
#include "formats/tensor_found.def"
#undef VC_TENSOR_FOUND
};

enum vc_tensor_flag {
	VC_TENSOR_REQUIRES_GRAD = 1,
	VC_TENSOR_LEAF = 2,
	VC_TENSOR_VIEW = 4,
	VC_TENSOR_HAS_GRAD_FN = 8,
	VC_TENSOR_DISPATCHES = 16, /* its class answers for it: shape and strides were not asked */
	VC_TENSOR_PACKED = 32,     /* what a hook made of a saved tensor */
	VC_TENSOR_INNER = 64,      /* a part of a tensor that has no storage of its own */
	VC_TENSOR_CAST = 128,      /* a saved one: a parameter (`name`) in another type */
};

/** A tensor that has memory. */
struct vc_walk_tensor {
	uint64_t object;     /* its Python object */
	uint64_t data;       /* its first element */
	uint64_t offset;     /* elements from the start of the storage */
	uint64_t bytes;      /* elements times their size: what it would be without holes */
	uint32_t storage;    /* row plus 1 */
	uint32_t dtype;      /* string: float32 */
	uint32_t shape;      /* string: [32, 1558]; "" unknown */
	uint32_t strides;    /* string; "" unknown */
	uint32_t name;       /* string: of the parameter it is, or belongs to; "" none */
	uint32_t detail;     /* string: key of the optimizer's state, node and name of a saved one */
	uint32_t type;       /* string: its class */
	uint16_t found;      /* enum vc_tensor_found */
	uint16_t flags;      /* enum vc_tensor_flag */
	uint32_t device_plus_one; /* 0: host memory */
	uint32_t reserved;
};

/** Memory that tensors share. */
struct vc_walk_storage {
	uint64_t address;
	uint64_t bytes;      /* end of what its tensors reach, where known */
	uint32_t tensors;
	uint32_t tensor;     /* row plus 1: the one found by the strongest way */
	uint32_t found;      /* enum vc_tensor_found: the strongest */
	uint32_t device_plus_one;
};

/** A node of the autograd graph. */
struct vc_walk_node {
	uint64_t object;
	uint32_t name;       /* string: AddmmBackward0 */
	uint32_t saved;      /* tensors that it holds: rows of saved tensors */
};

/** A tensor that a node keeps for the backward pass. */
struct vc_walk_saved {
	uint32_t node;       /* row plus 1 */
	uint32_t tensor;     /* row plus 1 */
	uint32_t name;       /* string: self, mat1 */
	uint32_t packed;     /* 1: not the tensor itself, but what a hook made of it */
};

/** What keeps a storage alive: one shortest way from a root. */
struct vc_walk_holder {
	uint32_t storage;    /* row plus 1 */
	uint32_t step;       /* row plus 1: the last step; the others are its parents */
	uint32_t ways;       /* further references to tensors of the storage that were seen */
	uint32_t depth;      /* objects on the way */
};

/** A step of such ways; ways that begin alike share their steps. */
struct vc_walk_step {
	uint32_t parent;     /* row plus 1, lower than its own number; 0: a root */
	uint32_t kind;       /* enum vc_step_kind */
	uint32_t text;       /* string: name, key, function */
	uint32_t owner;      /* string: module, class or function it belongs to */
	uint32_t file;       /* string */
	uint32_t line;       /* 0: unknown */
	uint64_t count;      /* items of a container, nodes passed */
};

enum vc_step_kind {
#define VC_STEP_KIND(name, number, text) VC_STEP_##name = number,
#include "formats/step_kinds.def"
#undef VC_STEP_KIND
};

enum vc_walked {
	VC_WALKED_FULL = 1,      /* gradients and saved tensors were read */
	VC_WALKED_CUT = 2,       /* the time was up */
	VC_WALKED_NO_MEMORY = 4, /* the limit of memory was reached */
	VC_WALKED_HOLDERS = 8,   /* holders were looked for */
	VC_WALKED_FROZEN = 16,   /* objects were out of the collector's sight (gc.freeze) */
	VC_WALKED_HOLDERS_CUT = 64, /* the time for holders was up: of some the way is known */
	VC_WALKED_BESIDE = 256,  /* another thread was in PyTorch: gradients and saved tensors were not read */
	VC_WALKED_APART = 128,   /* by the converter: at another instant than the moment, see FORMAT.md */
	VC_WALKED_MODE = 32,     /* below a dispatch mode: parts of sparse tensors were not asked for */
};

/** The walk itself: at most one row. */
struct vc_walk_walk {
	uint64_t flags;        /* enum vc_walked */
	uint64_t nanoseconds;  /* all of it */
	uint64_t holder_nanoseconds;
	uint64_t objects;      /* of the interpreter's heap */
	uint64_t reached;      /* of them, from the roots */
	uint64_t tensors;      /* Python objects that are tensors */
	uint64_t without_memory; /* of them: fake, meta, wrappers, emptied */
	uint64_t memory;       /* bytes it took for itself at most */
	uint64_t opaque;       /* saved tensors that only their hook could give */
	uint32_t thread;
	uint32_t why;          /* string: why there was no walk; "" there was */
};

#endif
