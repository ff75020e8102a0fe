/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the walk share: tensors.c (the order of things, rows), tensors_modules.c
 * (modules and optimizers), tensors_graph.c (gradients, nodes, what they save), tensor_facts.c (what
 * PyTorch said of them), holders.c and holders_words.c (what keeps them alive). Private to them.
 */
#ifndef VC_CAPTURE_INSIDE_TENSORS_PARTS_H
#define VC_CAPTURE_INSIDE_TENSORS_PARTS_H

#include "capture/inside/tensor_types.h"
#include "capture/inside/tensors.h"
#include "capture/inside/text.h"
#include "formats/walk_tensors.h"

#define VC_WALK_TEXT_MAX 512
#define VC_SHAPE_TEXTS 64u
#define VC_SHAPE_NUMBERS 4u

/** A shape or strides, as numbers and as a string. */
struct vc_shape_text {
	int64_t number[VC_SHAPE_NUMBERS];
	uint32_t count, text;
};

/** When a walk ends at the latest, by its thread's processor time and by the clock; 0: never. */
struct vc_tensors_end {
	uint64_t processor, clock;
};

struct vc_tensors {
	struct vc_torch torch;
	struct vc_pages pages;
	struct vc_walk_file *file;
	bool full;
	bool cut;                 /* the time is up */
	bool holders_cut;         /* that for holders was: only some are known */
	uint32_t ticks;
	struct vc_tensors_end end;

	struct vc_python_object *heap;   /* list of everything that the collector sees */
	struct vc_array by_kind[VC_HEAP_DULL + 1]; /* PyObject * of tensors, modules, ... */
	struct vc_array kept;     /* PyObject *: references to what was made while walking */

	struct vc_set storages;   /* addresses; number = row */
	struct vc_set modules;    /* module objects that have a path */
	struct vc_array module_path; /* uint32_t: string, by number */
	struct vc_set named;      /* parameters that have a name */
	struct vc_array name;     /* uint32_t: string, by number */
	struct vc_set nodes;      /* number = row */
	struct vc_set hooks;      /* what lies behind hooks and was looked at */

	/* tensor_facts.c: objects that were asked, and what they said by number */
	struct vc_set asked_tensors, asked_nodes, asked_saved, dtypes;
	struct vc_array tensor_facts, node_facts, saved_facts, saved_items, dtype;

	struct vc_shape_text shapes[VC_SHAPE_TEXTS]; /* texts made last */

	struct vc_walk_walk summary;
};

/** Whether to stop; asks the clock now and then. */
bool vc_tensors_stop(struct vc_tensors *walk);
/** Takes over a reference until the walk is over; NULL is fine. Gives it back: false: no room. */
bool vc_tensors_keep(struct vc_tensors *walk, struct vc_python_object *object);
/** Id of a string made of up to three parts; NULL: left out. */
uint32_t vc_tensors_text(struct vc_tensors *walk, const char *a, const char *b, const char *c);
/** Id of a type's name as a string. */
uint32_t vc_tensors_type_text(struct vc_tensors *walk, struct vc_python_object *type);
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

/* tensors_threads.c */
/** Whether another thread may be inside PyTorch now, without the lock. */
bool vc_tensors_others(void);

/* tensors_modules.c */
void vc_tensors_modules(struct vc_tensors *walk);
void vc_tensors_optimizers(struct vc_tensors *walk);
void vc_tensors_flat(struct vc_tensors *walk);

/* tensors_graph.c */
void vc_tensors_gradients(struct vc_tensors *walk);
void vc_tensors_graph(struct vc_tensors *walk);

static inline struct vc_python_object *vc_tensors_item(const struct vc_array *array, uint64_t at)
{
	return ((struct vc_python_object **)array->item)[at];
}

#endif
