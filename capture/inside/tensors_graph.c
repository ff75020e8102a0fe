/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gradients, nodes of the autograd graph, and what they save for the backward pass.
 *
 * A saved tensor is read by `_raw_saved_X` and `.data`, which give what was packed and never run a
 * hook. What only a hook could give is looked for behind it: the objects that its closure reaches. Releases
 * without `.data` (2.6, 2.2): there what has no hook is unpacked.
 */
#include <string.h>

#include "capture/inside/tensor_facts.h"
#include "capture/inside/tensors_parts.h"

#define BEHIND_MAX 400u

/* ---- gradients ---- */

static void put_gradient(struct vc_tensors *walk, struct vc_python_object *tensor,
			 struct vc_python_object *grad, const char *how)
{
	uint32_t name = vc_tensors_name(walk, tensor);

	vc_tensors_put_all(walk, grad, VC_FOUND_GRADIENT,
			   name ? name : vc_tensors_text(walk, "leaf", NULL, NULL),
			   vc_tensors_text(walk, how, NULL, NULL), 1);
}

/* The gradient that frameworks for large models keep beside the parameter. */
static void main_gradient(struct vc_tensors *walk, struct vc_python_object *parameter)
{
	struct vc_python_object *grad;

	grad = vc_py.PyObject_GenericGetAttr(parameter, walk->torch.text_main_grad);
	if (!grad) {
		vc_py.PyErr_Clear();
		return;
	}
	if (vc_heap_kind(&walk->torch, grad) == VC_HEAP_TENSOR)
		put_gradient(walk, parameter, grad, "main_grad");
	vc_tensors_keep(walk, grad);
}

void vc_tensors_gradients(struct vc_tensors *walk)
{
	struct vc_torch *torch = &walk->torch;
	struct vc_array *tensors = &walk->by_kind[VC_HEAP_TENSOR];

	for (uint64_t i = 0; i < tensors->count && !vc_tensors_stop(walk); i++) {
		struct vc_python_object *tensor = vc_tensors_item(tensors, i);
		struct vc_tensor_facts facts;
		struct vc_heap_type type = vc_heap_type(torch, vc_py_type(tensor));

		if (type.main_grad && vc_tensors_name(walk, tensor))
			main_gradient(walk, tensor);
		facts = vc_tensor_facts(walk, tensor);
		if (facts.grad)
			put_gradient(walk, tensor, facts.grad, ".grad");
	}
}

/* ---- nodes ---- */

/* A node comes in once; its row has the number that it has in walk->nodes. */
static void push(struct vc_tensors *walk, struct vc_python_object *node)
{
	struct vc_walk_node *row;
	bool is_new = false;

	if (!node || vc_heap_kind(&walk->torch, node) != VC_HEAP_NODE)
		return;
	if (vc_set_find(&walk->nodes, node) != VC_NOT_THERE)
		return;
	row = vc_walk_row(walk->file, VC_WALK_NODES, sizeof(*row), NULL);
	if (!row || vc_set_add(&walk->pages, &walk->nodes, node, &is_new) == VC_NOT_THERE)
		return;
	row->object = (uintptr_t)node;
	row->name = vc_tensors_type_text(walk, vc_py_type(node));
	vc_py.Py_IncRef(node);
	vc_tensors_keep(walk, node);
}

/* The node that made a tensor; NULL. A view's may be built anew on reading: its base's. */
static struct vc_python_object *node_of(struct vc_tensors *walk, struct vc_python_object *tensor)
{
	struct vc_tensor_facts facts = vc_tensor_facts(walk, tensor);

	return facts.base ? vc_tensor_facts(walk, facts.base).grad_fn : facts.grad_fn;
}

static void push_of(struct vc_tensors *walk, struct vc_python_object *tensor)
{
	push(walk, node_of(walk, tensor));
}

/* Name of the parameter that a tensor is in another type, as autocast makes them; 0: none. */
static uint32_t cast_of(struct vc_tensors *walk, struct vc_python_object *tensor)
{
	struct vc_python_object *node = node_of(walk, tensor), *pairs, *pair, *leaf;

	if (!node || strcmp(vc_py_type_name(vc_py_type(node)), "ToCopyBackward0"))
		return 0;
	pairs = vc_node_facts(walk, node).next;
	if (!pairs || vc_sequence_length(pairs) != 1)
		return 0;
	pair = vc_sequence_items(pairs)[0];
	if (!vc_object_is_sequence(pair) || !vc_sequence_length(pair) ||
	    vc_heap_kind(&walk->torch, vc_sequence_items(pair)[0]) != VC_HEAP_NODE)
		return 0;
	leaf = vc_node_facts(walk, vc_sequence_items(pair)[0]).leaf;
	return leaf ? vc_tensors_name(walk, leaf) : 0;
}

static void add_saved_row(struct vc_tensors *walk, uint32_t node, uint32_t tensor, uint32_t name,
			  bool packed)
{
	struct vc_walk_saved *row = vc_walk_row(walk->file, VC_WALK_SAVED, sizeof(*row), NULL);
	struct vc_walk_node *of = vc_walk_row_at(walk->file, VC_WALK_NODES, node);

	if (!row || !of)
		return;
	of->saved++;
	*row = (struct vc_walk_saved){node + 1, tensor + 1, name, packed};
}

static void put_saved(struct vc_tensors *walk, struct vc_python_object *value, uint32_t node,
		      uint32_t name, uint32_t detail, bool packed)
{
	uint32_t number, of, flag = 0;

	if (vc_object_is_sequence(value)) {
		for (uint64_t i = 0; i < vc_sequence_length(value); i++)
			if (vc_heap_kind(&walk->torch, vc_sequence_items(value)[i]) ==
			    VC_HEAP_TENSOR)
				put_saved(walk, vc_sequence_items(value)[i], node, name, detail,
					  packed);
		return;
	}
	of = vc_tensors_name(walk, value);
	if (!of && !packed) {
		of = cast_of(walk, value);
		flag = of ? VC_TENSOR_CAST : 0;
	}
	number = vc_tensors_put(walk, value, VC_FOUND_SAVED, of, detail);
	if (number == VC_NOT_THERE)
		return;
	if (packed)
		flag |= VC_TENSOR_PACKED;
	if (flag) {
		struct vc_walk_tensor *row = vc_walk_row_at(walk->file, VC_WALK_TENSORS, number);

		if (row)
			row->flags |= (uint16_t)flag;
	}
	add_saved_row(walk, node, number, name, packed);
}

/* ---- behind an unpack hook ---- */

static void saved_behind(struct vc_tensors *walk, struct vc_python_object *saved, uint32_t node,
			 uint32_t name, uint32_t detail);

struct behind {
	struct vc_tensors *walk;
	struct vc_array found; /* PyObject *: to be looked at */
	uint32_t node, name, detail, left;
};

static int visit_behind(struct vc_python_object *object, void *argument)
{
	struct behind *behind = argument;
	struct vc_tensors *walk = behind->walk;
	enum vc_heap_kind kind = vc_heap_kind(&walk->torch, object);
	struct vc_python_object **place;
	bool is_new = false;

	if (kind == VC_HEAP_TENSOR) {
		if (!vc_tensors_name(walk, object))
			put_saved(walk, object, behind->node, behind->name, behind->detail, true);
	} else if (kind == VC_HEAP_SAVED) {
		saved_behind(walk, object, behind->node, behind->name, behind->detail);
	} else if (kind == VC_HEAP_OTHER && behind->left && !vc_object_is_type(object) &&
		   vc_py_type(object) != vc_py.PyModule_Type &&
		   !(vc_py_type(object) == vc_py.PyDict_Type &&
		     vc_dict_find(object, "__builtins__"))) {
		vc_set_add(&walk->pages, &walk->hooks, object, &is_new);
		place = is_new ? vc_array_add(&walk->pages, &behind->found, sizeof(*place)) : NULL;
		if (place) {
			*place = object;
			behind->left--;
		}
	}
	return 0;
}

/* What the hook would need: tensors that its closure reaches through plain objects. */
static void look_behind(struct vc_tensors *walk, struct vc_python_object *hook, uint32_t node,
			uint32_t name)
{
	struct behind behind = {.walk = walk, .node = node, .name = name, .left = BEHIND_MAX};

	behind.detail = vc_tensors_text(walk, "kept to compute it again", NULL, NULL);
	visit_behind(hook, &behind);
	for (uint64_t i = 0; i < behind.found.count; i++)
		vc_object_visit_all(vc_tensors_item(&behind.found, i), visit_behind, &behind);
	vc_array_free(&walk->pages, &behind.found, sizeof(void *));
}

/* `saved` is asked for where there is a hook only. */
static void put_facts(struct vc_tensors *walk, const struct vc_saved_facts *facts,
		      const struct vc_python_object *saved, uint32_t node, uint32_t name,
		      uint32_t detail)
{
	bool is_new = false, tensor;

	if (!facts->data)
		return;
	tensor = vc_heap_kind(&walk->torch, facts->data) == VC_HEAP_TENSOR;
	if (tensor || vc_object_is_sequence(facts->data))
		put_saved(walk, facts->data, node, name, detail, facts->hook != NULL);
	if (tensor || !facts->hook)
		return;
	walk->summary.opaque++;
	/* what was packed first: with it, a hook finds what it needs */
	vc_set_add(&walk->pages, &walk->hooks, saved, &is_new);
	if (is_new) {
		look_behind(walk, facts->data, node, name);
		look_behind(walk, facts->hook, node, name);
	}
}

static void saved_behind(struct vc_tensors *walk, struct vc_python_object *saved, uint32_t node,
			 uint32_t name, uint32_t detail)
{
	struct vc_saved_facts facts = vc_saved_facts(walk, saved);

	put_facts(walk, &facts, saved, node, name, detail);
}

/* ---- the graph ---- */

static void node_saved(struct vc_tensors *walk, struct vc_python_object *node, uint32_t number,
		       const struct vc_node_facts *facts)
{
	for (uint32_t i = 0; i < facts->count; i++) {
		struct vc_saved_item item = vc_saved_item(walk, facts->first + i);
		struct vc_saved_name name = vc_saved_text(walk, node, item.name);

		put_facts(walk, &item.facts, item.saved, number, name.text, name.detail);
	}
}

/* ctx.x of an autograd.Function. */
static void node_context(struct vc_tensors *walk, struct vc_python_object *node)
{
	const char *label = vc_py_type_name(vc_py_type(node));
	struct vc_python_object *dict = vc_object_dict(node), *key, *value;
	long position = 0;

	if (!dict)
		return;
	while (vc_py.PyDict_Next(dict, &position, &key, &value)) {
		const char *name = vc_object_text(key, NULL);

		if (name)
			vc_tensors_put_all(walk, value, VC_FOUND_CONTEXT, 0,
					   vc_tensors_text(walk, label, ".ctx.", name), 1);
	}
	vc_tensors_keep(walk, dict);
}

static void node_leaf(struct vc_tensors *walk, struct vc_python_object *leaf)
{
	uint32_t name;

	if (vc_heap_kind(&walk->torch, leaf) != VC_HEAP_TENSOR)
		return;
	name = vc_tensors_name(walk, leaf);
	vc_tensors_put(walk, leaf, name ? VC_FOUND_PARAMETER : VC_FOUND_CONTEXT, name,
		       name ? 0 : vc_tensors_text(walk, "leaf", NULL, NULL));
}

static void node_next(struct vc_tensors *walk, struct vc_python_object *pairs)
{
	for (uint64_t i = 0; i < vc_sequence_length(pairs); i++) {
		struct vc_python_object *pair = vc_sequence_items(pairs)[i];

		if (vc_object_is_sequence(pair) && vc_sequence_length(pair))
			push(walk, vc_sequence_items(pair)[0]);
	}
}

void vc_tensors_graph(struct vc_tensors *walk)
{
	struct vc_array *tensors = &walk->by_kind[VC_HEAP_TENSOR];
	struct vc_array *nodes = &walk->by_kind[VC_HEAP_NODE];
	uint64_t kept;

	for (uint64_t i = 0; i < tensors->count && !vc_tensors_stop(walk); i++)
		push_of(walk, vc_tensors_item(tensors, i));
	kept = walk->kept.count;
	for (uint64_t i = 0; i < kept; i++) /* gradients that have a graph of their own */
		if (vc_heap_kind(&walk->torch, vc_tensors_item(&walk->kept, i)) == VC_HEAP_TENSOR)
			push_of(walk, vc_tensors_item(&walk->kept, i));
	for (uint64_t i = 0; i < nodes->count; i++)
		push(walk, vc_tensors_item(nodes, i));
	for (uint32_t i = 0; i < walk->nodes.pointer.count && !vc_tensors_stop(walk); i++) {
		struct vc_python_object *node = vc_set_at(&walk->nodes, i);
		struct vc_node_facts facts = vc_node_facts(walk, node);

		node_saved(walk, node, i, &facts);
		if (vc_heap_type(&walk->torch, vc_py_type(node)).has_dict)
			node_context(walk, node);
		if (facts.leaf)
			node_leaf(walk, facts.leaf);
		if (facts.next)
			node_next(walk, facts.next);
	}
}
