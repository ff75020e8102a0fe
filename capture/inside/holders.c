/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/holders.h"

#include <string.h>

#include "capture/inside/frames.h"
#include "capture/inside/tensor_facts.h"

#define FRAMES_MAX 20000u

struct pass {
	struct vc_tensors *walk;
	struct vc_holders *holders;
	uint32_t at; /* the object that is being looked at */
};

/* ---- adding objects ---- */

/* What the collector does not look at has nothing behind it. */
static bool worth_a_look(struct vc_python_object *object)
{
	return vc_object_collected(object) && vc_py.PyObject_GC_IsTracked(object);
}

static void add(struct pass *pass, struct vc_python_object *object, struct vc_reach reach)
{
	struct vc_holders *holders = pass->holders;
	struct vc_reach *place;
	bool is_new = false;
	uint32_t number = vc_set_add(&pass->walk->pages, &holders->objects, object, &is_new);

	if (number == VC_NOT_THERE)
		return;
	if (is_new) { /* the pass ends where there is no room for it */
		place = vc_array_add(&pass->walk->pages, &holders->reach, sizeof(*place));
		if (place)
			*place = reach;
	} else if (reach.kind != VC_STEP_BASE && reach.kind != VC_STEP_GRAD &&
		   vc_heap_kind(&pass->walk->torch, object) == VC_HEAP_TENSOR) {
		place = vc_holders_reach(holders, number);
		if (place->others < UINT8_MAX)
			place->others++;
	}
}

static void add_edge(struct pass *pass, struct vc_python_object *object, enum vc_step_kind kind,
		     uint32_t text)
{
	add(pass, object, (struct vc_reach){.parent = pass->at, .kind = (uint8_t)kind, .text = text});
}

/* Passes over what is not to be entered: it is known, and no way leads to it. */
static void add_closed(struct pass *pass, struct vc_python_object *object)
{
	add(pass, object, (struct vc_reach){.parent = VC_NO_OBJECT});
}

static void add_root(struct pass *pass, struct vc_python_object *object, struct vc_root_way way)
{
	struct vc_holders *holders = pass->holders;
	struct vc_root_way *place;
	enum vc_heap_kind kind;

	if (!object || vc_set_find(&holders->objects, object) != VC_NOT_THERE)
		return;
	kind = vc_heap_kind(&pass->walk->torch, object);
	if (kind == VC_HEAP_DULL || vc_py_type(object) == vc_py.PyModule_Type ||
	    (kind == VC_HEAP_OTHER && !worth_a_look(object)))
		return;
	place = vc_array_add(&pass->walk->pages, &holders->roots, sizeof(*place));
	if (!place)
		return;
	*place = way;
	add(pass, object, (struct vc_reach){.parent = VC_NO_OBJECT, .kind = (uint8_t)way.kind,
					    .root = (uint32_t)holders->roots.count - 1});
}

/* ---- roots ---- */

/* Folders that hold what is not the program's own: that of os.py, and that above torch's. */
struct folders {
	char folder[2][1024];
	size_t length[2];
};

static const char *file_of(const char *module)
{
	struct vc_python_object *loaded = vc_loaded_module(module);
	const char *file = NULL;

	if (loaded && vc_py_type(loaded) == vc_py.PyModule_Type)
		file = vc_object_text(vc_dict_find(vc_py.PyModule_GetDict(loaded), "__file__"),
				      NULL);
	return file ? file : "";
}

static void folder_of(const char *file, int up, char *folder, size_t size, size_t *ret_length)
{
	size_t length = strlen(file);

	*ret_length = 0;
	for (; length && up; length--)
		if (file[length - 1] == '/' && !--up)
			break;
	if (!length || length >= size)
		return;
	memcpy(folder, file, length);
	*ret_length = length;
}

static bool in_folders(const struct folders *folders, const char *file)
{
	for (size_t i = 0; i < 2; i++)
		if (folders->length[i] && !strncmp(file, folders->folder[i], folders->length[i]))
			return true;
	return *file == '<'; /* code that is imported from inside the interpreter */
}

static void find_folders(struct folders *ret)
{
	folder_of(file_of("os"), 1, ret->folder[0], sizeof(ret->folder[0]), &ret->length[0]);
	folder_of(file_of("torch"), 2, ret->folder[1], sizeof(ret->folder[1]), &ret->length[1]);
}

static void add_frame(struct pass *pass, const struct vc_frame_view *frame)
{
	struct vc_python_object *name, *value;
	struct vc_root_way way = {.kind = VC_STEP_LOCAL, .owner = frame->code};

	if (!vc_frame_is_function(frame))
		return;
	way.line = vc_frame_line(frame);
	for (uint32_t i = 0; i < vc_frame_locals(frame); i++) {
		value = vc_frame_local(frame, i, &name);
		way.name = name;
		add_root(pass, value, way);
	}
}

/* A dict of one of sys's own functions: by thread; a new reference, NULL. */
static struct vc_python_object *by_thread(const char *name)
{
	struct vc_python_object *sys = vc_loaded_module("sys");

	return sys ? vc_builtin_call(sys, name) : NULL;
}

/* Those of all threads, the program's own first: a tensor is known by the program's name for it. */
static void frame_roots(struct pass *pass, const struct folders *folders)
{
	struct vc_python_object *frames = by_thread("_current_frames"), *key, *value;
	struct vc_frame_view frame;
	long position = 0;

	if (!frames || vc_py_type(frames) != vc_py.PyDict_Type)
		return;
	for (int library = 0; library < 2; library++) {
		position = 0;
		while (vc_py.PyDict_Next(frames, &position, &key, &value)) {
			bool more = vc_frame_of_object(value, &frame);

			for (uint32_t depth = 0; more && depth < FRAMES_MAX; depth++) {
				if (in_folders(folders, vc_frame_file(&frame)) == library)
					add_frame(pass, &frame);
				more = vc_frame_back(&frame, &frame);
			}
		}
	}
	/* frames that run are roots by their locals: they are not entered */
	position = 0;
	while (vc_py.PyDict_Next(frames, &position, &key, &value))
		add_closed(pass, value);
	vc_tensors_keep(pass->walk, frames);
}

static void exception_roots(struct pass *pass)
{
	struct vc_python_object *exceptions = by_thread("_current_exceptions"), *key, *value;
	long position = 0;

	if (!exceptions || vc_py_type(exceptions) != vc_py.PyDict_Type) {
		vc_py.Py_DecRef(exceptions);
		return;
	}
	while (vc_py.PyDict_Next(exceptions, &position, &key, &value)) {
		if (vc_py_type(value) == vc_py.PyTuple_Type && vc_sequence_length(value) > 1)
			value = vc_sequence_items(value)[1]; /* before 3.12 */
		if (value != vc_py._Py_NoneStruct)
			add_root(pass, value, (struct vc_root_way){.kind = VC_STEP_EXCEPTION});
	}
	vc_tensors_keep(pass->walk, exceptions);
}

static bool is_library(const struct folders *folders, struct vc_python_object *module_name,
		       struct vc_python_object *dict)
{
	const char *file = vc_object_text(vc_dict_find(dict, "__file__"), NULL);

	if (vc_object_is_text(module_name, "__main__") || vc_object_is_text(module_name, "sys"))
		return false;
	return !file || in_folders(folders, file);
}

static void module_globals(struct pass *pass, struct vc_python_object *dict)
{
	struct vc_python_object *key, *value;
	long position = 0;

	while (vc_py.PyDict_Next(dict, &position, &key, &value))
		add_root(pass, value, (struct vc_root_way){.kind = VC_STEP_GLOBAL, .name = key,
							   .owner = dict});
}

/* The program's own first; dicts of modules are roots each and not entered by a reference. */
static void global_roots(struct pass *pass, const struct folders *folders)
{
	struct vc_python_object *modules = vc_py.PyImport_GetModuleDict(), *key, *module;
	long position;

	for (int library = 0; library < 2; library++) {
		position = 0;
		while (vc_py.PyDict_Next(modules, &position, &key, &module)) {
			struct vc_python_object *dict;

			if (vc_py_type(module) != vc_py.PyModule_Type)
				continue;
			dict = vc_py.PyModule_GetDict(module);
			if (is_library(folders, key, dict) == library)
				module_globals(pass, dict);
		}
	}
}

static void close_modules(struct pass *pass)
{
	struct vc_python_object *modules = vc_py.PyImport_GetModuleDict(), *key, *module;
	long position = 0;

	add_closed(pass, modules);
	add_closed(pass, pass->walk->heap);
	while (vc_py.PyDict_Next(modules, &position, &key, &module))
		if (vc_py_type(module) == vc_py.PyModule_Type)
			add_closed(pass, vc_py.PyModule_GetDict(module));
}

/* ---- the pass ---- */

static void add_saved(struct pass *pass, const struct vc_saved_facts *facts, uint32_t text)
{
	struct vc_torch *torch = &pass->walk->torch;

	if (facts->data)
		add_edge(pass, facts->data,
			 vc_heap_kind(torch, facts->data) == VC_HEAP_TENSOR ? VC_STEP_SAVED :
									      VC_STEP_PACKED,
			 text);
	if (facts->hook)
		add_edge(pass, facts->hook, VC_STEP_UNPACK_HOOK, text);
}

static void visit_saved(struct pass *pass, struct vc_python_object *saved)
{
	struct vc_saved_facts facts;

	if (!pass->walk->full)
		return;
	facts = vc_saved_facts(pass->walk, saved);
	add_saved(pass, &facts, 0);
}

static int visit(struct vc_python_object *object, void *argument)
{
	struct pass *pass = argument;
	enum vc_heap_kind kind = vc_heap_kind(&pass->walk->torch, object);

	if (kind == VC_HEAP_DULL)
		return 0;
	if (kind == VC_HEAP_SAVED)
		visit_saved(pass, object);
	else if (kind == VC_HEAP_TENSOR || worth_a_look(object))
		add_edge(pass, object, 0, 0);
	return pass->walk->pages.full;
}

static void pass_tensor(struct pass *pass, struct vc_python_object *tensor)
{
	struct vc_tensors *walk = pass->walk;
	struct vc_tensor_facts facts = vc_tensor_facts(walk, tensor);
	uint64_t *place;
	uint32_t *number;

	if (facts.storage) {
		place = vc_array_add(&walk->pages, &pass->holders->address, sizeof(*place));
		number = vc_array_add(&walk->pages, &pass->holders->tensors, sizeof(*number));
		if (!place || !number)
			return;
		*place = facts.storage;
		*number = pass->at;
	}
	if (facts.base)
		add_edge(pass, facts.base, VC_STEP_BASE, 0);
	if (facts.grad_fn)
		add_edge(pass, facts.grad_fn, VC_STEP_GRAD_FN, 0);
	if (facts.grad)
		add_edge(pass, facts.grad, VC_STEP_GRAD, 0);
}

static void pass_node(struct pass *pass, struct vc_python_object *node)
{
	struct vc_tensors *walk = pass->walk;
	struct vc_node_facts facts = vc_node_facts(walk, node);
	struct vc_saved_item item;

	for (uint32_t i = 0; i < facts.count; i++) {
		item = vc_saved_item(walk, facts.first + i);
		add_saved(pass, &item.facts, vc_saved_text(walk, node, item.name).text);
	}
	if (facts.leaf)
		add_edge(pass, facts.leaf, VC_STEP_LEAF, 0);
	for (uint64_t i = 0; facts.next && i < vc_sequence_length(facts.next); i++) {
		struct vc_python_object *pair = vc_sequence_items(facts.next)[i], *next;

		if (!vc_object_is_sequence(pair) || !vc_sequence_length(pair))
			continue;
		next = vc_sequence_items(pair)[0];
		if (vc_heap_kind(&walk->torch, next) == VC_HEAP_NODE)
			add_edge(pass, next, VC_STEP_NODES, 0);
	}
}

/* Looks at every object that was added and not looked at yet. */
static void pass_on(struct pass *pass)
{
	struct vc_tensors *walk = pass->walk;

	for (; pass->at < pass->holders->reach.count && !vc_tensors_stop(walk); pass->at++) {
		struct vc_python_object *object = vc_set_at(&pass->holders->objects, pass->at);
		const struct vc_reach *reach = vc_holders_reach(pass->holders, pass->at);
		enum vc_heap_kind kind = vc_heap_kind(&walk->torch, object);

		if (reach->parent == VC_NO_OBJECT && !reach->kind)
			continue; /* closed */
		if (kind == VC_HEAP_TENSOR)
			pass_tensor(pass, object);
		else if (kind == VC_HEAP_NODE)
			pass_node(pass, object);
		/* of a running frame the locals are roots; one of a traceback is entered, but not
		 * the frames that called it */
		if (vc_py_type(object) == vc_py.PyFrame_Type && reach->parent != VC_NO_OBJECT &&
		    vc_py_type(vc_set_at(&pass->holders->objects, reach->parent)) ==
			    vc_py.PyFrame_Type)
			continue;
		vc_object_visit_all(object, visit, pass);
	}
}

/* ---- what no root reaches ---- */

struct inside {
	const struct vc_set *rest;
	uint32_t *count;
};

static int count_inside(struct vc_python_object *object, void *argument)
{
	struct inside *inside = argument;
	uint32_t number = vc_set_find(inside->rest, object);

	if (number != VC_NOT_THERE)
		inside->count[number]++;
	return 0;
}

static bool in_own_gradient(struct vc_tensors *walk, struct vc_python_object *tensor)
{
	struct vc_python_object *grad, *node;
	bool is;

	if (!vc_tensor_is(walk->torch.is_leaf, tensor))
		return false;
	grad = vc_tensor_get(walk->torch.grad, tensor);
	if (!grad)
		return false;
	node = vc_tensor_get(walk->torch.grad_fn, grad);
	is = node != NULL;
	vc_py.Py_DecRef(node);
	vc_py.Py_DecRef(grad);
	return is;
}

static void create_graph_roots(struct pass *pass)
{
	struct vc_tensors *walk = pass->walk;
	struct vc_array *tensors = &walk->by_kind[VC_HEAP_TENSOR];

	for (uint64_t i = 0; walk->full && i < tensors->count; i++) {
		struct vc_python_object *tensor = vc_tensors_item(tensors, i);

		if (vc_set_find(&pass->holders->objects, tensor) == VC_NOT_THERE &&
		    in_own_gradient(walk, tensor))
			add_root(pass, tensor, (struct vc_root_way){.kind = VC_STEP_CREATE_GRAPH});
	}
	pass_on(pass);
}

static bool all_tensors_reached(const struct pass *pass)
{
	const struct vc_array *tensors = &pass->walk->by_kind[VC_HEAP_TENSOR];

	for (uint64_t i = 0; i < tensors->count; i++)
		if (vc_set_find(&pass->holders->objects, vc_tensors_item(tensors, i)) ==
		    VC_NOT_THERE)
			return false;
	return true;
}

/* Objects of the heap that were not reached, and references to each from among themselves. */
static bool find_rest(struct pass *pass, struct vc_set *rest, struct vc_array *counts)
{
	struct vc_tensors *walk = pass->walk;
	uint64_t objects = vc_sequence_length(walk->heap);
	struct inside inside = {rest, NULL};
	bool is_new;

	for (uint64_t i = 0; i < objects; i++) {
		struct vc_python_object *object = vc_sequence_items(walk->heap)[i];

		if (vc_set_find(&pass->holders->objects, object) != VC_NOT_THERE)
			continue;
		if (!vc_array_add(&walk->pages, counts, sizeof(uint32_t)) ||
		    vc_set_add(&walk->pages, rest, object, &is_new) == VC_NOT_THERE)
			return false;
	}
	inside.count = (uint32_t *)counts->item;
	for (uint32_t i = 0; i < rest->pointer.count; i++)
		vc_object_visit_all(vc_set_at(rest, i), count_inside, &inside);
	return true;
}

static void rest_roots(struct pass *pass, const struct vc_set *rest, const uint32_t *count,
		       enum vc_step_kind kind)
{
	for (uint32_t i = 0; i < rest->pointer.count; i++) {
		struct vc_python_object *object = vc_set_at(rest, i);
		bool root;

		if (vc_py_type(object) == vc_py.PyFrame_Type)
			continue;
		if (kind == VC_STEP_FROM_C) /* one reference is the list's */
			root = vc_object_references(object) - 1 > count[i];
		else
			root = vc_heap_kind(&pass->walk->torch, object) == VC_HEAP_TENSOR;
		if (root)
			add_root(pass, object, (struct vc_root_way){.kind = kind});
	}
	pass_on(pass);
}

static void unreached(struct pass *pass)
{
	struct vc_set rest = {0};
	struct vc_array counts = {0};

	create_graph_roots(pass);
	if (!all_tensors_reached(pass) && find_rest(pass, &rest, &counts)) {
		rest_roots(pass, &rest, (uint32_t *)counts.item, VC_STEP_FROM_C);
		rest_roots(pass, &rest, (uint32_t *)counts.item, VC_STEP_GARBAGE);
	}
	vc_set_free(&pass->walk->pages, &rest);
	vc_array_free(&pass->walk->pages, &counts, sizeof(uint32_t));
}

void vc_holders_find(struct vc_tensors *walk, struct vc_holders *ret)
{
	struct pass pass = {walk, ret, 0};
	struct folders folders;

	/* most objects are reached: no hashing anew at every doubling */
	vc_set_reserve(&walk->pages, &ret->objects, walk->summary.objects);
	find_folders(&folders);
	close_modules(&pass);
	frame_roots(&pass, &folders);
	exception_roots(&pass);
	global_roots(&pass, &folders);
	pass_on(&pass);
	walk->summary.reached = ret->objects.pointer.count;
	if (!vc_tensors_stop(walk)) /* else not all that a root reaches is known */
		unreached(&pass);
}

void vc_holders_free(struct vc_tensors *walk, struct vc_holders *holders)
{
	vc_set_free(&walk->pages, &holders->objects);
	vc_array_free(&walk->pages, &holders->reach, sizeof(struct vc_reach));
	vc_array_free(&walk->pages, &holders->roots, sizeof(struct vc_root_way));
	vc_array_free(&walk->pages, &holders->tensors, sizeof(uint32_t));
	vc_array_free(&walk->pages, &holders->address, sizeof(uint64_t));
	vc_array_free(&walk->pages, &holders->ends, sizeof(struct vc_way_end));
	vc_array_free(&walk->pages, &holders->way, sizeof(uint32_t));
	vc_set_free(&walk->pages, &holders->steps);
}
