/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/tensors.h"

#include <string.h>
#include <time.h>

#include "capture/inside/holders.h"
#include "capture/inside/system.h"
#include "capture/inside/tensor_facts.h"
#include "capture/inside/tensors_parts.h"

#define TICKS_PER_LOOK 128u
#define DIMENSIONS_MAX 16u

static uint64_t time_of(clockid_t clock)
{
	struct timespec time = {0};

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t now(void)
{
	return time_of(CLOCK_MONOTONIC);
}

static bool is_over(clockid_t clock, uint64_t end)
{
	return end && time_of(clock) > end;
}

bool vc_tensors_stop(struct vc_tensors *walk)
{
	if (walk->pages.full || walk->cut)
		return true;
	if (++walk->ticks % TICKS_PER_LOOK == 0)
		walk->cut = is_over(CLOCK_MONOTONIC, walk->end.clock) ||
			    is_over(CLOCK_THREAD_CPUTIME_ID, walk->end.processor);
	return walk->cut;
}

bool vc_tensors_keep(struct vc_tensors *walk, struct vc_python_object *object)
{
	struct vc_python_object **place;

	if (!object)
		return true;
	place = vc_array_add(&walk->pages, &walk->kept, sizeof(*place));
	if (!place) {
		vc_py.Py_DecRef(object);
		return false;
	}
	*place = object;
	return true;
}

uint32_t vc_tensors_text(struct vc_tensors *walk, const char *a, const char *b, const char *c)
{
	char buffer[VC_WALK_TEXT_MAX];
	struct vc_text text = vc_text_in(buffer, sizeof(buffer));

	vc_text_add(&text, a ? a : "");
	vc_text_add(&text, b ? b : "");
	vc_text_add(&text, c ? c : "");
	return vc_walk_string(walk->file, buffer, text.length);
}

uint32_t vc_tensors_type_text(struct vc_tensors *walk, struct vc_python_object *type)
{
	struct vc_heap_type *known = vc_heap_type_known(&walk->torch, type);

	if (!known)
		return 0;
	if (!known->text)
		known->text = vc_tensors_text(walk, vc_py_type_name(type), NULL, NULL);
	return known->text;
}

/* ---- what a tensor is ---- */

/* Numbers of a tuple of PyTorch's own; 0: it is none, or has too many. */
static bool numbers_of(struct vc_python_object *tuple, int64_t *number, uint32_t *ret_count)
{
	uint64_t count;

	if (!tuple || !vc_object_is(tuple, VC_PYTHON_TUPLE))
		return false;
	count = vc_sequence_length(tuple);
	if (count > DIMENSIONS_MAX)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		struct vc_python_object *item = vc_sequence_items(tuple)[i];

		if (vc_py_type(item) != vc_py.PyLong_Type)
			return false; /* a symbol */
		number[i] = (int64_t)vc_py.PyLong_AsUnsignedLongLongMask(item);
	}
	*ret_count = (uint32_t)count;
	return true;
}

static uint32_t write_numbers(struct vc_tensors *walk, const int64_t *number, uint32_t count)
{
	char buffer[VC_WALK_TEXT_MAX];
	struct vc_text text = vc_text_in(buffer, sizeof(buffer));

	vc_text_character(&text, '[');
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			vc_text_add(&text, ", ");
		if (number[i] < 0)
			vc_text_character(&text, '-');
		vc_text_number(&text, (uint64_t)(number[i] < 0 ? -number[i] : number[i]));
	}
	vc_text_character(&text, ']');
	return vc_walk_string(walk->file, buffer, text.length);
}

/* Most tensors are like others: their texts are at hand. */
static uint32_t numbers_text(struct vc_tensors *walk, const int64_t *number, uint32_t count)
{
	struct vc_shape_text *text;
	uint64_t hash = count;

	if (count > VC_SHAPE_NUMBERS)
		return write_numbers(walk, number, count);
	for (uint32_t i = 0; i < count; i++)
		hash = (hash ^ (uint64_t)number[i]) * UINT64_C(0x9e3779b97f4a7c15);
	text = &walk->shapes[(hash >> 32) % VC_SHAPE_TEXTS];
	if (!text->text || text->count != count ||
	    memcmp(text->number, number, count * sizeof(*number))) {
		memcpy(text->number, number, count * sizeof(*number));
		text->count = count;
		text->text = write_numbers(walk, number, count);
	}
	return text->text;
}

/* Shape and strides, and with them bytes; returns the end of what it reaches in its storage. */
static uint64_t describe_shape(struct vc_tensors *walk, struct vc_python_object *tensor,
			       uint64_t size, struct vc_walk_tensor *row)
{
	struct vc_python_object *shape = vc_tensor_get(walk->torch.shape, tensor), *strides;
	int64_t length[DIMENSIONS_MAX], step[DIMENSIONS_MAX];
	uint32_t dimensions, steps;
	uint64_t elements = 1, last = 0;
	bool known;

	known = numbers_of(shape, length, &dimensions);
	if (shape)
		vc_py.Py_DecRef(shape);
	if (!known)
		return 0;
	row->shape = numbers_text(walk, length, dimensions);
	strides = vc_tensor_call(walk->torch.stride, tensor);
	known = numbers_of(strides, step, &steps) && steps == dimensions;
	if (strides)
		vc_py.Py_DecRef(strides);
	if (known)
		row->strides = numbers_text(walk, step, steps);
	for (uint32_t i = 0; i < dimensions; i++) {
		elements *= (uint64_t)length[i];
		if (known && length[i] > 0)
			last += (uint64_t)(length[i] - 1) * (uint64_t)step[i];
	}
	row->bytes = elements * size;
	return elements && known ? (row->offset + last + 1) * size : 0;
}

/* Fills a row; returns the end of what it reaches in its storage. */
static uint64_t describe(struct vc_tensors *walk, struct vc_python_object *tensor,
			 const struct vc_tensor_facts *facts, struct vc_walk_tensor *row)
{
	row->object = (uintptr_t)tensor;
	row->dtype = facts->dtype;
	row->type = vc_tensors_type_text(walk, vc_py_type(tensor));
	row->flags = facts->flags;
	row->data = facts->data;
	if (facts->flags & VC_TENSOR_DISPATCHES)
		return 0;
	row->device_plus_one = (uint32_t)(vc_tensor_number(walk->torch.get_device, tensor, -1) + 1);
	row->offset = facts->offset;
	return describe_shape(walk, tensor, facts->size, row);
}

/* ---- rows ---- */

static void strengthen(struct vc_tensors *walk, uint32_t number, enum vc_tensor_found found,
		       uint32_t name, uint32_t detail)
{
	struct vc_walk_tensor *row = vc_walk_row_at(walk->file, VC_WALK_TENSORS, number);
	struct vc_walk_storage *storage;

	if (!row || (row->found && row->found <= found))
		return;
	row->found = (uint16_t)found;
	row->name = name;
	row->detail = detail;
	storage = row->storage ?
		vc_walk_row_at(walk->file, VC_WALK_STORAGES, row->storage - 1) : NULL;
	if (!storage || (storage->found && storage->found <= found))
		return;
	storage->found = found;
	storage->tensor = number + 1;
}

static uint32_t storage_row(struct vc_tensors *walk, uint64_t address, uint64_t end,
			    const struct vc_walk_tensor *tensor)
{
	struct vc_walk_storage *row;
	bool is_new = false;
	uint32_t number = vc_set_add(&walk->pages, &walk->storages, (void *)(uintptr_t)address,
				     &is_new);

	if (number == VC_NOT_THERE)
		return VC_NOT_THERE;
	row = is_new ? vc_walk_row(walk->file, VC_WALK_STORAGES, sizeof(*row), NULL) :
		vc_walk_row_at(walk->file, VC_WALK_STORAGES, number);
	if (!row)
		return VC_NOT_THERE;
	row->address = address;
	row->device_plus_one = tensor->device_plus_one;
	row->tensors++;
	if (end > row->bytes)
		row->bytes = end;
	return number;
}

/* Its number; VC_NOT_THERE: no room. */
static uint32_t new_row(struct vc_tensors *walk, struct vc_python_object *tensor,
			struct vc_tensor_facts *facts)
{
	struct vc_walk_tensor filled = {0}, *row;
	uint64_t end = describe(walk, tensor, facts, &filled), number = 0;
	uint32_t storage = storage_row(walk, facts->storage, end, &filled);

	if (storage == VC_NOT_THERE)
		return VC_NOT_THERE;
	row = vc_walk_row(walk->file, VC_WALK_TENSORS, sizeof(*row), &number);
	if (!row)
		return VC_NOT_THERE;
	filled.storage = storage + 1;
	*row = filled;
	facts->row = (uint32_t)number + 1;
	return (uint32_t)number;
}

struct parts {
	struct vc_tensors *walk;
	struct vc_python_object *of, *grad;
	enum vc_tensor_found found;
	uint32_t name, detail;
	int depth;
};

static void put_inner(struct vc_tensors *walk, struct vc_python_object *tensor,
		      enum vc_tensor_found found, uint32_t name, uint32_t detail, int depth);

static void put_part(struct parts *parts, struct vc_python_object *part)
{
	uint32_t number;

	if (part == parts->of || part == parts->grad || parts->depth <= 0 ||
	    vc_heap_kind(&parts->walk->torch, part) != VC_HEAP_TENSOR)
		return;
	if (!vc_tensor_facts(parts->walk, part).storage) {
		put_inner(parts->walk, part, parts->found, parts->name, parts->detail,
			  parts->depth - 1);
		return;
	}
	number = vc_tensors_put(parts->walk, part, parts->found, parts->name, parts->detail);
	if (number != VC_NOT_THERE) {
		struct vc_walk_tensor *row =
			vc_walk_row_at(parts->walk->file, VC_WALK_TENSORS, number);

		if (row)
			row->flags |= VC_TENSOR_INNER;
	}
}

static int visit_part(struct vc_python_object *part, void *argument)
{
	struct parts *parts = argument;
	struct vc_python_object *key, *value;
	long position = 0;

	put_part(parts, part);
	if (vc_py_type(part) == vc_py.PyDict_Type) /* its __dict__ */
		while (vc_py.PyDict_Next(part, &position, &key, &value))
			put_part(parts, value);
	return 0;
}

/* Parts of a plain sparse tensor, which operators give. They are views: they are kept. */
static void put_sparse(struct parts *parts)
{
	static const char *const accessor[] = {"_indices",     "_values",      "crow_indices",
					       "col_indices", "ccol_indices", "row_indices",
					       "values"};
	struct vc_tensors *walk = parts->walk;
	struct vc_python_object *dict = vc_object_field(walk->torch.base, VC_TYPE_DICT);

	for (size_t i = 0; i < sizeof(accessor) / sizeof(accessor[0]); i++) {
		struct vc_python_object *method = vc_dict_find(dict, accessor[i]), *part;

		/* those of other layouts raise */
		part = method ? vc_tensor_call(method, parts->of) : NULL;
		if (part && vc_tensors_keep(walk, part))
			put_part(parts, part);
	}
}

/* Sparse and wrapper tensors (DTensor, ...) own no storage: their parts do. */
static void put_inner(struct vc_tensors *walk, struct vc_python_object *tensor,
		      enum vc_tensor_found found, uint32_t name, uint32_t detail, int depth)
{
	struct vc_heap_type type = vc_heap_type(&walk->torch, vc_py_type(tensor));
	struct parts parts = {walk, tensor, NULL, found, name, detail, depth};
	struct vc_python_object *layout;

	if (!type.dispatches) {
		if (vc_tensor_is(walk->torch.is_meta, tensor))
			return;
		layout = vc_tensor_get(walk->torch.layout, tensor);
		if (layout)
			vc_py.Py_DecRef(layout);
		if (layout == walk->torch.mkldnn)
			return;
		if (type.plain && walk->torch.operators && layout && layout != walk->torch.strided)
			put_sparse(&parts);
	}
	parts.grad = vc_tensor_facts(walk, tensor).grad;
	vc_object_visit_all(tensor, visit_part, &parts);
}

uint32_t vc_tensors_put(struct vc_tensors *walk, struct vc_python_object *tensor,
			enum vc_tensor_found found, uint32_t name, uint32_t detail)
{
	struct vc_tensor_facts *facts = vc_tensor_facts_at(walk, tensor);
	uint32_t number;

	if (!facts)
		return VC_NOT_THERE;
	number = facts->row - 1;
	if (!facts->row) {
		if (vc_tensors_stop(walk))
			return VC_NOT_THERE;
		if (!facts->storage) {
			bool is_new = !facts->looked_into;

			facts->looked_into = true;
			walk->summary.without_memory += is_new;
			if (is_new || found != VC_FOUND_OBJECT)
				put_inner(walk, tensor, found, name, detail, 3);
			return VC_NOT_THERE;
		}
		number = new_row(walk, tensor, facts);
		if (number == VC_NOT_THERE)
			return VC_NOT_THERE;
	}
	strengthen(walk, number, found, name, detail);
	return number;
}

void vc_tensors_put_all(struct vc_tensors *walk, struct vc_python_object *value,
			enum vc_tensor_found found, uint32_t name, uint32_t detail, int depth)
{
	struct vc_python_object *key, *item;
	long position = 0;

	if (vc_heap_kind(&walk->torch, value) == VC_HEAP_TENSOR) {
		vc_tensors_put(walk, value, found, name, detail);
	} else if (depth > 0 && vc_object_is_sequence(value)) {
		for (uint64_t i = 0; i < vc_sequence_length(value); i++)
			vc_tensors_put_all(walk, vc_sequence_items(value)[i], found, name, detail,
					   depth - 1);
	} else if (depth > 0 && vc_object_is(value, VC_PYTHON_DICT)) {
		while (vc_py.PyDict_Next(value, &position, &key, &item))
			vc_tensors_put_all(walk, item, found, name, detail, depth - 1);
	}
}

uint32_t vc_tensors_name(const struct vc_tensors *walk, const void *parameter)
{
	uint32_t number = vc_set_find(&walk->named, parameter);

	return number == VC_NOT_THERE ? 0 : ((uint32_t *)walk->name.item)[number];
}

/* ---- the order of things ---- */

static bool collector_says(struct vc_tensors *walk, const char *name)
{
	struct vc_python_object *value = vc_builtin_call(walk->torch.collector, name);
	bool says = value && value != vc_py._Py_FalseStruct &&
		    (vc_py_type(value) != vc_py.PyLong_Type ||
		     vc_py.PyLong_AsUnsignedLongLongMask(value));

	if (value)
		vc_py.Py_DecRef(value);
	return says;
}

static int sort_object(struct vc_python_object *object, void *argument)
{
	struct vc_tensors *walk = argument;
	enum vc_heap_kind kind = vc_heap_kind(&walk->torch, object);
	struct vc_python_object **place;

	if (kind == VC_HEAP_OTHER || kind == VC_HEAP_DULL)
		return 0;
	place = vc_array_add(&walk->pages, &walk->by_kind[kind], sizeof(*place));
	if (place)
		*place = object;
	return 0;
}

static bool sort_heap(struct vc_tensors *walk)
{
	walk->heap = vc_builtin_call(walk->torch.collector, "get_objects");
	if (!walk->heap || vc_py_type(walk->heap) != vc_py.PyList_Type)
		return false;
	walk->summary.objects = vc_sequence_length(walk->heap);
	for (uint64_t i = 0; i < walk->summary.objects; i++)
		sort_object(vc_sequence_items(walk->heap)[i], walk);
	if (collector_says(walk, "get_freeze_count"))
		walk->summary.flags |= VC_WALKED_FROZEN;
	return true;
}

/* Objects out of the collector's sight, where a way from the roots leads to them. */
static void sort_reached(struct vc_tensors *walk, const struct vc_holders *found)
{
	struct vc_set listed = {0};
	bool is_new = false;

	for (size_t kind = 0; kind <= VC_HEAP_DULL; kind++)
		for (uint64_t i = 0; i < walk->by_kind[kind].count; i++)
			vc_set_add(&walk->pages, &listed, vc_tensors_item(&walk->by_kind[kind], i),
				   &is_new);
	for (uint32_t i = 0; i < found->objects.pointer.count; i++) {
		struct vc_python_object *object = vc_set_at(&found->objects, i);

		if (vc_set_find(&listed, object) == VC_NOT_THERE)
			sort_object(object, walk);
	}
	vc_set_free(&walk->pages, &listed);
}

static uint64_t half_way(clockid_t clock, uint64_t end)
{
	uint64_t began = time_of(clock);

	return end > began ? began + (end - began) / 2 : end;
}

/* What tensors are matters more than what keeps them: that has half of the time. */
static void find_holders(struct vc_tensors *walk, struct vc_holders *found)
{
	struct vc_tensors_end end = walk->end;

	walk->end.processor = half_way(CLOCK_THREAD_CPUTIME_ID, end.processor);
	walk->end.clock = half_way(CLOCK_MONOTONIC, end.clock);
	vc_holders_find(walk, found);
	walk->holders_cut = walk->cut;
	walk->cut = false;
	walk->end = end;
}

static void walk_all(struct vc_tensors *walk, bool holders)
{
	struct vc_holders found = {0};
	uint64_t began = now();

	if (holders || walk->summary.flags & VC_WALKED_FROZEN)
		find_holders(walk, &found);
	if (walk->summary.flags & VC_WALKED_FROZEN)
		sort_reached(walk, &found);
	walk->summary.holder_nanoseconds = now() - began;
	vc_tensors_modules(walk);
	vc_tensors_optimizers(walk);
	vc_tensors_flat(walk);
	walk->summary.tensors = walk->by_kind[VC_HEAP_TENSOR].count;
	if (walk->full)
		vc_tensors_gradients(walk);
	vc_tensors_graph(walk);
	for (uint64_t i = 0; i < walk->by_kind[VC_HEAP_TENSOR].count; i++)
		vc_tensors_put(walk, vc_tensors_item(&walk->by_kind[VC_HEAP_TENSOR], i),
			       VC_FOUND_OBJECT, 0, 0);
	began = now();
	if (holders) {
		walk->summary.flags |= VC_WALKED_HOLDERS;
		vc_holders_say(walk, &found);
	}
	vc_holders_free(walk, &found);
	walk->summary.holder_nanoseconds += now() - began;
}

static void let_go(struct vc_tensors *walk)
{
	for (uint64_t i = 0; i < walk->kept.count; i++)
		vc_py.Py_DecRef(vc_tensors_item(&walk->kept, i));
	vc_array_free(&walk->pages, &walk->kept, sizeof(void *));
	if (walk->heap)
		vc_py.Py_DecRef(walk->heap);
	for (size_t i = 0; i < sizeof(walk->by_kind) / sizeof(walk->by_kind[0]); i++)
		vc_array_free(&walk->pages, &walk->by_kind[i], sizeof(void *));
	vc_set_free(&walk->pages, &walk->storages);
	vc_set_free(&walk->pages, &walk->modules);
	vc_array_free(&walk->pages, &walk->module_path, sizeof(uint32_t));
	vc_set_free(&walk->pages, &walk->named);
	vc_array_free(&walk->pages, &walk->name, sizeof(uint32_t));
	vc_set_free(&walk->pages, &walk->nodes);
	vc_set_free(&walk->pages, &walk->hooks);
	vc_tensor_facts_free(walk);
}

static void write_summary(struct vc_tensors *walk, const char *why, uint64_t began)
{
	struct vc_walk_walk *row;

	walk->summary.flags |= walk->full ? VC_WALKED_FULL : 0;
	walk->summary.flags |= walk->cut ? VC_WALKED_CUT : 0;
	walk->summary.flags |= walk->holders_cut ? VC_WALKED_HOLDERS_CUT : 0;
	walk->summary.flags |= walk->pages.full || vc_walk_full(walk->file) ? VC_WALKED_NO_MEMORY : 0;
	walk->summary.flags |= why || walk->torch.operators ? 0 : VC_WALKED_MODE;
	walk->summary.memory = walk->pages.most;
	walk->summary.thread = (uint32_t)vc_sys_gettid();
	walk->summary.why = why ? vc_tensors_text(walk, why, NULL, NULL) : 0;
	walk->summary.nanoseconds = now() - began;
	row = vc_walk_row(walk->file, VC_WALK_WALKS, sizeof(*row), NULL);
	if (row)
		*row = walk->summary;
}

bool vc_tensors_walk(const struct vc_tensors_wish *wish, struct vc_walk_file *file)
{
	struct vc_tensors walk = {.file = file, .full = wish->full};
	struct vc_python_object *error[3];
	uint64_t began = now();
	const char *why = NULL;
	bool collecting = false;

	if (wish->processor)
		walk.end.processor = time_of(CLOCK_THREAD_CPUTIME_ID) + wish->processor;
	if (wish->clock)
		walk.end.clock = began + wish->clock;
	walk.pages.limit = wish->memory ? wish->memory : VC_TENSORS_MEMORY;
	vc_py.PyErr_Fetch(&error[0], &error[1], &error[2]);
	if (!vc_objects_good())
		why = "this interpreter has other objects";
	else if (vc_torch_quiet(&walk.torch, &walk.pages, &why))
		why = NULL;
	if (!why && walk.full && vc_tensors_others()) {
		walk.full = false;
		walk.summary.flags |= VC_WALKED_BESIDE;
	}
	if (!why) {
		collecting = collector_says(&walk, "isenabled");
		if (collecting)
			vc_py.Py_DecRef(vc_builtin_call(walk.torch.collector, "disable"));
		if (sort_heap(&walk))
			walk_all(&walk, wish->holders);
		else
			why = "the heap cannot be listed";
	}
	write_summary(&walk, why, began);
	let_go(&walk);
	vc_torch_done(&walk.torch);
	if (collecting)
		vc_py.Py_DecRef(vc_builtin_call(walk.torch.collector, "enable"));
	vc_py.PyErr_Restore(error[0], error[1], error[2]);
	return !why;
}
