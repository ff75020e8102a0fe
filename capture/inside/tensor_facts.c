/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/tensor_facts.h"

#include <string.h>

/* ---- types of elements ---- */

struct dtype {
	uint32_t text; /* string: float32 */
	uint32_t size; /* of an element; 0: not asked yet */
};

static uint32_t dtype_text(struct vc_tensors *walk, struct vc_python_object *dtype)
{
	struct vc_python_object *text = vc_py.PyObject_Str(dtype);
	const char *words = vc_object_text(text, NULL);
	uint32_t number = 0;

	if (words)
		number = vc_tensors_text(walk, strncmp(words, "torch.", 6) ? words : words + 6, NULL,
					 NULL);
	vc_py.PyErr_Clear();
	vc_py.Py_DecRef(text);
	return number;
}

/* What is known of the elements of a tensor; NULL: no room. */
static struct dtype *dtype_of(struct vc_tensors *walk, struct vc_python_object *tensor)
{
	/* PyTorch has one object of each, for good */
	struct vc_python_object *dtype = vc_tensor_get(walk->torch.dtype, tensor);
	struct dtype *place;
	bool is_new = false;
	uint32_t number;

	if (!dtype)
		return NULL;
	vc_py.Py_DecRef(dtype);
	number = vc_set_add(&walk->pages, &walk->dtypes, dtype, &is_new);
	if (is_new && number != VC_NOT_THERE) {
		place = vc_array_add(&walk->pages, &walk->dtype, sizeof(*place));
		if (place)
			place->text = dtype_text(walk, dtype);
	}
	return number < walk->dtype.count ? (struct dtype *)walk->dtype.item + number : NULL;
}

/* Takes over a reference; NULL: there is none, or no room to hold it. */
static struct vc_python_object *held(struct vc_tensors *walk, struct vc_python_object *object)
{
	return vc_tensors_keep(walk, object) ? object : NULL;
}

/* ---- tensors ---- */

/* Where its memory is: 0 where it has none of its own. */
static void find_storage(struct vc_tensors *walk, struct vc_python_object *tensor,
			 struct dtype *dtype, struct vc_tensor_facts *facts)
{
	struct vc_torch *torch = &walk->torch;
	struct vc_python_object *layout = vc_tensor_get(torch->layout, tensor);
	int64_t offset;

	vc_py.Py_DecRef(layout); /* a constant */
	if (layout != torch->strided)
		return;
	facts->data = (uint64_t)vc_tensor_number(torch->data_ptr, tensor, 0);
	if (!facts->data || !dtype)
		return;
	if (!dtype->size)
		dtype->size = (uint32_t)vc_tensor_number(torch->element_size, tensor, 0);
	offset = vc_tensor_number(torch->storage_offset, tensor, -1);
	if (offset < 0 || !dtype->size)
		return;
	facts->size = dtype->size;
	facts->offset = (uint64_t)offset;
	/* 0 for a meta tensor */
	facts->storage = facts->data - facts->offset * facts->size;
}

/* Those of the graph: `base` of a view, else grad_fn; the gradient where it may be asked for. */
static void find_graph(struct vc_tensors *walk, struct vc_python_object *tensor,
		       struct vc_tensor_facts *facts)
{
	struct vc_torch *torch = &walk->torch;
	bool has_gradient;

	if (vc_tensor_is(torch->requires_grad, tensor))
		facts->flags |= VC_TENSOR_REQUIRES_GRAD;
	/* what has a grad_fn requires a gradient */
	if (!facts->flags || vc_tensor_is(torch->is_leaf, tensor))
		facts->flags |= VC_TENSOR_LEAF;
	if (vc_tensor_view(torch, tensor)) {
		facts->flags |= VC_TENSOR_VIEW;
		facts->base = held(walk, vc_tensor_get(torch->_base, tensor));
	} else if (!(facts->flags & VC_TENSOR_LEAF)) {
		facts->grad_fn = held(walk, vc_tensor_get(torch->grad_fn, tensor));
		facts->flags |= facts->grad_fn ? VC_TENSOR_HAS_GRAD_FN : 0;
	}
	/* of any other tensor PyTorch gives a warning together with it */
	has_gradient = facts->flags & VC_TENSOR_LEAF ||
		       (facts->flags & VC_TENSOR_REQUIRES_GRAD &&
			vc_tensor_is(torch->retains_grad, tensor));
	if (walk->full && has_gradient)
		facts->grad = held(walk, vc_tensor_get(torch->grad, tensor));
}

static struct vc_tensor_facts ask_tensor(struct vc_tensors *walk, struct vc_python_object *tensor)
{
	struct vc_tensor_facts facts = {0};
	struct dtype *dtype = dtype_of(walk, tensor);

	facts.dtype = dtype ? dtype->text : 0;
	find_graph(walk, tensor, &facts);
	if (vc_heap_type(&walk->torch, vc_py_type(tensor)).dispatches) {
		facts.flags |= VC_TENSOR_DISPATCHES;
		facts.storage = facts.data = vc_tensor_storage_itself(&walk->torch, tensor);
	} else {
		find_storage(walk, tensor, dtype, &facts);
	}
	return facts;
}

struct vc_tensor_facts *vc_tensor_facts_at(struct vc_tensors *walk, struct vc_python_object *tensor)
{
	struct vc_tensor_facts *place;
	bool is_new = false;
	uint32_t number = vc_set_add(&walk->pages, &walk->asked_tensors, tensor, &is_new);

	if (!is_new)
		return number < walk->tensor_facts.count ?
			(struct vc_tensor_facts *)walk->tensor_facts.item + number : NULL;
	place = vc_array_add(&walk->pages, &walk->tensor_facts, sizeof(*place));
	if (place)
		*place = ask_tensor(walk, tensor); /* which asks no other one */
	return place;
}

struct vc_tensor_facts vc_tensor_facts(struct vc_tensors *walk, struct vc_python_object *tensor)
{
	const struct vc_tensor_facts *facts = vc_tensor_facts_at(walk, tensor);

	return facts ? *facts : (struct vc_tensor_facts){0};
}

/* ---- what was saved ---- */

/* A property of a SavedTensor, which PyTorch's own code answers; NULL: none. */
static struct vc_python_object *property(struct vc_tensors *walk, struct vc_python_object *saved,
					 struct vc_python_object *name)
{
	struct vc_python_object *value = vc_py.PyObject_GetAttr(saved, name);

	if (!value)
		vc_py.PyErr_Clear(); /* data of one that was released */
	value = held(walk, value);
	return value == vc_py._Py_NoneStruct ? NULL : value;
}

static struct vc_saved_facts ask_saved(struct vc_tensors *walk, struct vc_python_object *saved)
{
	struct vc_saved_facts facts = {0};

	facts.data = property(walk, saved, walk->torch.text_data);
	if (facts.data)
		facts.hook = property(walk, saved, walk->torch.text_unpack_hook);
	return facts;
}

struct vc_saved_facts vc_saved_facts(struct vc_tensors *walk, struct vc_python_object *saved)
{
	struct vc_saved_facts facts, *place;
	bool is_new = false;
	uint32_t number = vc_set_add(&walk->pages, &walk->asked_saved, saved, &is_new);

	if (!is_new && number < walk->saved_facts.count)
		return ((struct vc_saved_facts *)walk->saved_facts.item)[number];
	facts = ask_saved(walk, saved);
	place = is_new ? vc_array_add(&walk->pages, &walk->saved_facts, sizeof(*place)) : NULL;
	if (place) {
		*place = facts;
		vc_py.Py_IncRef(saved);
		vc_tensors_keep(walk, saved);
	}
	return facts;
}

/* ---- nodes ---- */

/* Whether there is a hook: then the object is held, since it is known by its address. */
static bool add_item(struct vc_tensors *walk, struct vc_python_object *saved, uint32_t name,
		     struct vc_node_facts *facts)
{
	struct vc_saved_item *item;

	if (vc_heap_kind(&walk->torch, saved) != VC_HEAP_SAVED)
		return false;
	item = vc_array_add(&walk->pages, &walk->saved_items, sizeof(*item));
	if (!item)
		return false;
	*item = (struct vc_saved_item){.facts = ask_saved(walk, saved), .name = name};
	facts->count++;
	if (item->facts.hook)
		item->saved = saved;
	return item->facts.hook;
}

/* What a release keeps that shows nothing of it, unpacked where no hook would run. */
static void add_unpacked(struct vc_tensors *walk, struct vc_python_object *unpacked, uint32_t name,
			 struct vc_node_facts *facts)
{
	bool several = unpacked && vc_object_is_sequence(unpacked);
	uint64_t count = several ? vc_sequence_length(unpacked) : unpacked != NULL;
	struct vc_saved_item *item;

	for (uint64_t i = 0; i < count; i++) {
		struct vc_python_object *one = several ? vc_sequence_items(unpacked)[i] : unpacked;

		item = vc_heap_kind(&walk->torch, one) == VC_HEAP_TENSOR ?
			vc_array_add(&walk->pages, &walk->saved_items, sizeof(*item)) : NULL;
		if (!item)
			continue;
		*item = (struct vc_saved_item){.facts.data = one, .name = name};
		facts->count++;
	}
}

/* One name's: what is left of it is held where it is needed. */
static void ask_name(struct vc_tensors *walk, struct vc_python_object *node, uint32_t number,
		     struct vc_node_facts *facts)
{
	struct vc_saved_name name = *vc_saved_name(&walk->torch, number);
	struct vc_python_object *value = vc_descriptor_get(name.descriptor, node);
	bool hooks = false;

	if (!value)
		return;
	if (vc_saved_bare(&walk->torch, value))
		add_unpacked(walk, held(walk, vc_saved_unpacked(&walk->torch, node, &name, value)),
			     number, facts);
	else if (!vc_object_is_sequence(value))
		hooks = add_item(walk, value, number, facts);
	else
		for (uint64_t j = 0; j < vc_sequence_length(value); j++)
			hooks |= add_item(walk, vc_sequence_items(value)[j], number, facts);
	if (hooks)
		vc_tensors_keep(walk, value);
	else
		vc_py.Py_DecRef(value);
}

static void ask_names(struct vc_tensors *walk, struct vc_python_object *node,
		      const struct vc_heap_type *type, struct vc_node_facts *facts)
{
	facts->first = (uint32_t)walk->saved_items.count;
	for (uint32_t i = 0; i < type->saved_count; i++)
		ask_name(walk, node, type->saved_first + i, facts);
}

static struct vc_node_facts ask_node(struct vc_tensors *walk, struct vc_python_object *node)
{
	struct vc_heap_type type = vc_heap_type(&walk->torch, vc_py_type(node));
	struct vc_node_facts facts = {0};

	if (walk->full)
		ask_names(walk, node, &type, &facts);
	if (type.variable) {
		facts.leaf = held(walk, vc_tensor_get(type.variable, node));
		return facts;
	}
	facts.next = held(walk, vc_descriptor_get(type.next_functions, node));
	if (facts.next && !vc_object_is_sequence(facts.next))
		facts.next = NULL;
	return facts;
}

struct vc_node_facts vc_node_facts(struct vc_tensors *walk, struct vc_python_object *node)
{
	struct vc_node_facts facts, *place;
	bool is_new = false;
	uint32_t number = vc_set_add(&walk->pages, &walk->asked_nodes, node, &is_new);

	if (!is_new && number < walk->node_facts.count)
		return ((struct vc_node_facts *)walk->node_facts.item)[number];
	facts = ask_node(walk, node);
	place = is_new ? vc_array_add(&walk->pages, &walk->node_facts, sizeof(*place)) : NULL;
	if (place) {
		*place = facts;
		vc_py.Py_IncRef(node); /* it may be an object that was made for us only */
		vc_tensors_keep(walk, node);
	}
	return facts;
}

struct vc_saved_item vc_saved_item(const struct vc_tensors *walk, uint32_t number)
{
	return ((struct vc_saved_item *)walk->saved_items.item)[number];
}

struct vc_saved_name vc_saved_text(struct vc_tensors *walk, struct vc_python_object *node,
				   uint32_t number)
{
	struct vc_saved_name *name = vc_saved_name(&walk->torch, number);

	if (!name->detail) {
		name->text = vc_tensors_text(walk, name->name, NULL, NULL);
		name->detail = vc_tensors_text(walk, vc_py_type_name(vc_py_type(node)), ".",
					       name->name);
	}
	return *name;
}

void vc_tensor_facts_free(struct vc_tensors *walk)
{
	vc_set_free(&walk->pages, &walk->dtypes);
	vc_array_free(&walk->pages, &walk->dtype, sizeof(struct dtype));
	vc_set_free(&walk->pages, &walk->asked_tensors);
	vc_array_free(&walk->pages, &walk->tensor_facts, sizeof(struct vc_tensor_facts));
	vc_set_free(&walk->pages, &walk->asked_nodes);
	vc_array_free(&walk->pages, &walk->node_facts, sizeof(struct vc_node_facts));
	vc_array_free(&walk->pages, &walk->saved_items, sizeof(struct vc_saved_item));
	vc_set_free(&walk->pages, &walk->asked_saved);
	vc_array_free(&walk->pages, &walk->saved_facts, sizeof(struct vc_saved_facts));
}
