/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the walk share: tensors.c (the order of things, rows), tensors_modules.c
 * (modules and optimizers), tensors_graph.c (gradients, nodes, what they save), holders.c and
 * holders_words.c (what keeps them alive). Private to them.
 */
#ifndef VC_CAPTURE_INSIDE_TENSORS_PARTS_H
#define VC_CAPTURE_INSIDE_TENSORS_PARTS_H

#include "capture/inside/tensor_types.h"
#include "capture/inside/tensors.h"
#include "capture/inside/text.h"
#include "formats/walk_tensors.h"

#define VC_WALK_TEXT_MAX 512

struct vc_tensors {
	struct vc_torch torch;
	struct vc_pages pages;
	struct vc_walk_file *file;
	bool full;
	bool cut;                 /* the time is up */
	bool holders_cut;         /* that for holders was: only some are known */
	uint32_t ticks;
	uint64_t deadline;

	struct vc_python_object *heap;   /* list of everything that the collector sees */
	struct vc_array by_kind[VC_HEAP_DULL + 1]; /* PyObject * of tensors, modules, ... */
	struct vc_array kept;     /* PyObject *: references to what was made while walking */

	struct vc_set tensors;    /* tensor objects; number = row */
	struct vc_set storages;   /* addresses; number = row */
	struct vc_set wrappers;   /* tensors without memory that were looked into */
	struct vc_set modules;    /* module objects that have a path */
	struct vc_array module_path; /* uint32_t: string, by number */
	struct vc_set named;      /* parameters that have a name */
	struct vc_array name;     /* uint32_t: string, by number */
	struct vc_set nodes;      /* number = row */
	struct vc_set hooks;      /* what lies behind hooks and was looked at */
	struct vc_set dtypes;
	struct vc_array dtype_name; /* uint32_t: string, by number */

	struct vc_walk_walk summary;
};

/** Whether to stop; asks the clock now and then. */
bool vc_tensors_stop(struct vc_tensors *walk);
/** Takes over a reference until the walk is over; NULL is fine. Gives it back: false: no room. */
bool vc_tensors_keep(struct vc_tensors *walk, struct vc_python_object *object);
/** Id of a string made of up to three parts; NULL: left out. */
uint32_t vc_tensors_text(struct vc_tensors *walk, const char *a, const char *b, const char *c);
/**
 * The row of a tensor, made or made stronger; VC_NOT_THERE: it has no memory of its own, then its
 * parts were put, or no room. `name` and `detail` are strings.
 */
uint32_t vc_tensors_put(struct vc_tensors *walk, struct vc_python_object *tensor,
			enum vc_tensor_found found, uint32_t name, uint32_t detail);
/** The same for all tensors in a list, tuple or dict, `depth` levels down. */
void vc_tensors_put_all(struct vc_tensors *walk, struct vc_python_object *value,
			enum vc_tensor_found found, uint32_t name, uint32_t detail, int depth);
/** Name of a parameter, as a string; 0: none. */
uint32_t vc_tensors_name(const struct vc_tensors *walk, const void *parameter);

/* tensors_modules.c */
void vc_tensors_modules(struct vc_tensors *walk);
void vc_tensors_optimizers(struct vc_tensors *walk);
void vc_tensors_flat(struct vc_tensors *walk);

/* tensors_graph.c */
void vc_tensors_gradients(struct vc_tensors *walk);
void vc_tensors_graph(struct vc_tensors *walk);
/** One SavedTensor of a node: see struct vc_walk_saved. `packed`: it lies behind a hook. */
void vc_tensors_saved(struct vc_tensors *walk, struct vc_python_object *saved, uint32_t node,
		      uint32_t name, uint32_t detail);

static inline struct vc_python_object *vc_tensors_item(const struct vc_array *array, uint64_t at)
{
	return ((struct vc_python_object **)array->item)[at];
}

#endif
