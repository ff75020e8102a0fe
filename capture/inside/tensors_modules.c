/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules with their paths, parameters and buffers; optimizers with their state; the memory that
 * flat parameters stand for.
 */
#include <string.h>

#include "capture/inside/paths.h"
#include "capture/inside/tensor_facts.h"
#include "capture/inside/tensors_parts.h"

#define DEPTH_MAX 64

struct names {
	struct vc_tensors *walk;
	struct vc_text text;
	char buffer[1024];
};

/* Class of a wrapper whose only child is the model: its name says nothing. */
static bool wraps(const char *class, const char *child)
{
	static const char *const wrapper[] = {"DistributedDataParallel", "DataParallel",
					      "FullyShardedDataParallel", "OptimizedModule"};

	if (!strcmp(child, "_orig_mod") || !strcmp(child, "_fsdp_wrapped_module") ||
	    !strcmp(child, "_checkpoint_wrapped_module"))
		return true;
	for (size_t i = 0; i < sizeof(wrapper) / sizeof(wrapper[0]); i++)
		if (!strcmp(class, wrapper[i]) && !strcmp(child, "module"))
			return true;
	return false;
}

/* Puts what one of a module's dicts holds, under the path that stands in names->text. */
static void put_named(struct names *names, struct vc_python_object *dict,
		      enum vc_tensor_found found)
{
	struct vc_tensors *walk = names->walk;
	struct vc_python_object *key, *value;
	long position = 0;

	if (!dict || !vc_object_is(dict, VC_PYTHON_DICT))
		return;
	while (vc_py.PyDict_Next(dict, &position, &key, &value)) {
		const char *name = vc_object_text(key, NULL);
		uint32_t text, *place;
		bool is_new = false;

		if (!name || vc_heap_kind(&walk->torch, value) != VC_HEAP_TENSOR)
			continue;
		text = vc_tensors_text(walk, names->buffer, ".", name);
		if (found == VC_FOUND_PARAMETER && vc_set_find(&walk->named, value) == VC_NOT_THERE) {
			place = vc_array_add(&walk->pages, &walk->name, sizeof(*place));
			if (!place || vc_set_add(&walk->pages, &walk->named, value, &is_new) ==
					      VC_NOT_THERE)
				return;
			*place = text;
		}
		vc_tensors_put(walk, value, found, text, 0);
	}
}

static void module_below(struct names *names, struct vc_python_object *module, int depth);

static void children(struct names *names, struct vc_python_object *module,
		     struct vc_python_object *modules, int depth)
{
	const char *class = vc_py_type_name(vc_py_type(module));
	struct vc_python_object *key, *child;
	long position = 0;

	if (!modules || !vc_object_is(modules, VC_PYTHON_DICT) || depth >= DEPTH_MAX)
		return;
	while (vc_py.PyDict_Next(modules, &position, &key, &child)) {
		const char *name = vc_object_text(key, NULL);
		struct vc_text before = names->text;

		if (!name || vc_heap_kind(&names->walk->torch, child) != VC_HEAP_MODULE)
			continue;
		if (!wraps(class, name)) {
			vc_text_character(&names->text, '.');
			vc_text_add(&names->text, name);
		}
		module_below(names, child, depth + 1);
		names->text = before;
		names->buffer[before.length] = '\0';
	}
}

static void module_below(struct names *names, struct vc_python_object *module, int depth)
{
	struct vc_tensors *walk = names->walk;
	struct vc_python_object *dict;
	bool is_new = false;
	uint32_t *path;

	if (vc_tensors_stop(walk) || vc_set_find(&walk->modules, module) != VC_NOT_THERE)
		return;
	path = vc_array_add(&walk->pages, &walk->module_path, sizeof(*path));
	if (!path || vc_set_add(&walk->pages, &walk->modules, module, &is_new) == VC_NOT_THERE)
		return;
	*path = vc_walk_string(walk->file, names->buffer, names->text.length);
	vc_paths_note(module, names->buffer, names->text.length, vc_py_type_name(vc_py_type(module)));
	dict = vc_object_dict(module);
	if (!dict)
		return;
	put_named(names, vc_dict_find(dict, "_parameters"), VC_FOUND_PARAMETER);
	put_named(names, vc_dict_find(dict, "_buffers"), VC_FOUND_BUFFER);
	children(names, module, vc_dict_find(dict, "_modules"), depth);
	vc_py.Py_DecRef(dict);
}

/* Its children come into `child`; false: its __init__ is still to run. */
static bool note_children(struct vc_tensors *walk, struct vc_python_object *module,
			  struct vc_set *child)
{
	struct vc_python_object *dict = vc_object_dict(module), *modules, *key, *value;
	long position = 0;
	bool is_new;

	if (!dict)
		return false;
	modules = vc_dict_find(dict, "_modules");
	if (modules && vc_object_is(modules, VC_PYTHON_DICT))
		while (vc_py.PyDict_Next(modules, &position, &key, &value))
			vc_set_add(&walk->pages, child, value, &is_new);
	vc_py.Py_DecRef(dict);
	return modules;
}

/* The class of a model, below what wraps it. */
static const char *root_name(struct vc_python_object *module)
{
	const char *class = vc_py_type_name(vc_py_type(module));
	struct vc_python_object *dict, *modules, *key, *child;

	for (int depth = 0; depth < 4; depth++) {
		const char *name = NULL;
		long position = 0;

		dict = vc_object_dict(module);
		modules = dict ? vc_dict_find(dict, "_modules") : NULL;
		if (modules && vc_object_is(modules, VC_PYTHON_DICT) &&
		    vc_py.PyDict_Next(modules, &position, &key, &child))
			name = vc_object_text(key, NULL);
		vc_py.Py_DecRef(dict);
		if (!name || !wraps(class, name))
			break;
		module = child;
		class = vc_py_type_name(vc_py_type(module));
	}
	return class;
}

/* Roots are modules that are no other module's child; the second of a class is Linear#2. */
static void root_text(struct names *names, struct vc_python_object *module, struct vc_set *classes,
		      struct vc_array *counts)
{
	struct vc_tensors *walk = names->walk;
	const char *class = root_name(module);
	uint32_t text = vc_walk_string(walk->file, class, strlen(class)), number, *count;
	bool is_new = false;

	names->text = vc_text_in(names->buffer, sizeof(names->buffer));
	vc_text_add(&names->text, class);
	number = vc_set_add(&walk->pages, classes, (void *)((uintptr_t)text << 4), &is_new);
	if (number == VC_NOT_THERE || (is_new && !vc_array_add(&walk->pages, counts, sizeof(*count))))
		return;
	count = (uint32_t *)counts->item + number;
	if (++*count > 1) {
		vc_text_character(&names->text, '#');
		vc_text_number(&names->text, *count);
	}
}

void vc_tensors_modules(struct vc_tensors *walk)
{
	struct vc_array *modules = &walk->by_kind[VC_HEAP_MODULE], counts = {0};
	struct vc_set child = {0}, classes = {0};
	struct names names = {.walk = walk};

	for (uint64_t i = 0; i < modules->count; i++)
		note_children(walk, vc_tensors_item(modules, i), &child);
	for (uint64_t i = 0; i < modules->count; i++) {
		struct vc_python_object *module = vc_tensors_item(modules, i);
		struct vc_set none = {0};

		if (vc_set_find(&child, module) != VC_NOT_THERE ||
		    !note_children(walk, module, &none))
			module = NULL;
		vc_set_free(&walk->pages, &none);
		if (!module)
			continue;
		root_text(&names, module, &classes, &counts);
		module_below(&names, module, 0);
	}
	vc_set_free(&walk->pages, &child);
	vc_set_free(&walk->pages, &classes);
	vc_array_free(&walk->pages, &counts, sizeof(uint32_t));
}

/* ---- optimizers ---- */

static void name_parameter(struct vc_tensors *walk, struct vc_python_object *parameter,
			   const char *class, uint64_t group, uint64_t index)
{
	char buffer[VC_WALK_TEXT_MAX];
	struct vc_text text = vc_text_in(buffer, sizeof(buffer));
	uint32_t *place;
	bool is_new;

	if (vc_tensors_name(walk, parameter))
		return;
	vc_text_add(&text, class);
	vc_text_add(&text, ".group");
	vc_text_number(&text, group);
	vc_text_character(&text, '[');
	vc_text_number(&text, index);
	vc_text_character(&text, ']');
	place = vc_array_add(&walk->pages, &walk->name, sizeof(*place));
	if (!place ||
	    vc_set_add(&walk->pages, &walk->named, parameter, &is_new) == VC_NOT_THERE)
		return;
	*place = vc_walk_string(walk->file, buffer, text.length);
	vc_tensors_put(walk, parameter, VC_FOUND_PARAMETER, *place, 0);
}

static void put_group(struct vc_tensors *walk, struct vc_python_object *group, const char *class,
		      uint64_t number)
{
	struct vc_python_object *key, *value;
	long position = 0;

	while (vc_py.PyDict_Next(group, &position, &key, &value)) {
		const char *name = vc_object_text(key, NULL);

		if (!name)
			continue;
		if (strcmp(name, "params")) {
			vc_tensors_put_all(walk, value, VC_FOUND_OPTIMIZER, 0,
					   vc_tensors_text(walk, class, ".", name), 2);
			continue;
		}
		if (!vc_object_is_sequence(value))
			continue;
		for (uint64_t i = 0; i < vc_sequence_length(value); i++) {
			struct vc_python_object *parameter = vc_sequence_items(value)[i];

			if (vc_heap_kind(&walk->torch, parameter) == VC_HEAP_TENSOR)
				name_parameter(walk, parameter, class, number, i);
		}
	}
}

/* What an optimizer keeps of one parameter: by key. */
static void put_state(struct vc_tensors *walk, struct vc_python_object *parameter,
		      struct vc_python_object *state, const char *class)
{
	uint32_t name = vc_tensors_name(walk, parameter);
	struct vc_python_object *key, *value;
	long position = 0;

	if (!vc_object_is(state, VC_PYTHON_DICT)) {
		vc_tensors_put_all(walk, state, VC_FOUND_OPTIMIZER, name,
				   vc_tensors_text(walk, class, NULL, NULL), 3);
		return;
	}
	while (vc_py.PyDict_Next(state, &position, &key, &value)) {
		const char *words = vc_object_text(key, NULL);

		vc_tensors_put_all(walk, value, VC_FOUND_OPTIMIZER, name,
				   vc_tensors_text(walk, class, words ? "." : NULL, words), 3);
	}
}

static void put_optimizer(struct vc_tensors *walk, struct vc_python_object *optimizer)
{
	const char *class = vc_py_type_name(vc_py_type(optimizer));
	struct vc_python_object *dict = vc_object_dict(optimizer), *groups, *state, *key, *value;
	long position = 0;

	if (!dict)
		return;
	groups = vc_dict_find(dict, "param_groups");
	if (groups && vc_object_is_sequence(groups))
		for (uint64_t i = 0; i < vc_sequence_length(groups); i++)
			if (vc_object_is(vc_sequence_items(groups)[i], VC_PYTHON_DICT))
				put_group(walk, vc_sequence_items(groups)[i], class, i);
	state = vc_dict_find(dict, "state");
	if (state && vc_object_is(state, VC_PYTHON_DICT))
		while (vc_py.PyDict_Next(state, &position, &key, &value))
			put_state(walk, key, value, class);
	vc_py.Py_DecRef(dict);
}

void vc_tensors_optimizers(struct vc_tensors *walk)
{
	struct vc_array *optimizers = &walk->by_kind[VC_HEAP_OPTIMIZER];

	for (uint64_t i = 0; i < optimizers->count; i++)
		put_optimizer(walk, vc_tensors_item(optimizers, i));
}

/* ---- flat parameters ---- */

/* A tensor that is an attribute of another; NULL. Nothing that a class computes. */
static struct vc_python_object *attribute(struct vc_tensors *walk, struct vc_python_object *tensor,
					  struct vc_python_object *name)
{
	struct vc_python_object *value = vc_py.PyObject_GenericGetAttr(tensor, name);

	vc_py.PyErr_Clear();
	if (!value || !vc_tensors_keep(walk, value) ||
	    vc_heap_kind(&walk->torch, value) != VC_HEAP_TENSOR)
		return NULL;
	return value;
}

/*
 * FSDP's flat parameter is its shard or the whole of it, by turns; what it is not at the moment
 * hangs on attributes. Other parameters have none of them.
 */
void vc_tensors_flat(struct vc_tensors *walk)
{
	static const struct {
		const char *attribute;
		enum vc_tensor_found found;
	} part[] = {{"_local_shard", VC_FOUND_PARAMETER},
		    {"_mp_shard", VC_FOUND_PARAMETER},
		    {"_full_param_padded", VC_FOUND_PARAMETER},
		    {"_full_prec_full_param_padded", VC_FOUND_PARAMETER},
		    {"_saved_grad_shard", VC_FOUND_GRADIENT}};
	enum { PARTS = sizeof(part) / sizeof(part[0]) };
	struct vc_python_object *name[PARTS], *value;
	struct vc_array *tensors = &walk->by_kind[VC_HEAP_TENSOR];

	if (!vc_loaded_module("torch.distributed.fsdp._flat_param"))
		return;
	for (size_t i = 0; i < PARTS; i++) {
		name[i] = vc_py.PyUnicode_InternFromString(part[i].attribute);
		if (!name[i] || !vc_tensors_keep(walk, name[i]))
			return;
	}
	for (uint64_t at = 0; at < tensors->count && !vc_tensors_stop(walk); at++) {
		struct vc_python_object *tensor = vc_tensors_item(tensors, at);
		uint32_t text;

		if (!vc_heap_type(&walk->torch, vc_py_type(tensor)).parameter ||
		    !attribute(walk, tensor, name[0]))
			continue;
		text = vc_tensors_name(walk, tensor);
		if (!text)
			text = vc_tensors_text(walk, "flat parameter", NULL, NULL);
		for (size_t i = 0; i < PARTS; i++) {
			value = attribute(walk, tensor, name[i]);
			if (value && vc_tensor_facts(walk, value).storage)
				vc_tensors_put(walk, value, part[i].found, text,
					       vc_tensors_text(walk, part[i].attribute, NULL, NULL));
		}
	}
}
