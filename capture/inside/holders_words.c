/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways from roots to tensors in words: which attribute, key, local variable, closure it is.
 *
 * A way is a chain of steps, and ways that begin alike share them, so that each object on a way is
 * named once. Items of long lists and dicts are not told apart: what 50,000 tensors hang on is said
 * once. Names are read from dicts and frames by identity; nothing is compared and nothing printed
 * by the program's own code.
 */
#include <string.h>

#include "capture/inside/frames.h"
#include "capture/inside/holders.h"

#define WAY_MAX 100000u
#define FEW 16u  /* items of a list that are told apart */
#define SOME 64u /* entries of a dict that are looked through */
#define KEY_DEPTH 3

struct words {
	struct vc_tensors *walk;
	struct vc_holders *holders;
};

static struct vc_python_object *object_at(const struct words *words, uint32_t number)
{
	return vc_set_at(&words->holders->objects, number);
}

static struct vc_way_end *end_at(const struct vc_holders *holders, uint32_t object)
{
	return (struct vc_way_end *)holders->ends.item + object;
}

static uint32_t text_of(const struct words *words, const char *text)
{
	return vc_walk_string(words->walk->file, text, strlen(text));
}

static const char *class_of(const struct vc_python_object *object)
{
	return vc_py_type_name(vc_py_type(object));
}

/* ---- rows ---- */

/* The row plus 1 of a step, which many ways may share; 0: no room. */
static uint32_t row_of(const struct words *words, struct vc_walk_step step)
{
	uint64_t fields[sizeof(step) / 8], hash;
	struct vc_walk_step *row;
	bool is_new = false;
	uint32_t number;

	memcpy(fields, &step, sizeof(step));
	hash = vc_check_words(fields, sizeof(fields) / 8, 0);
	number = vc_set_add(&words->walk->pages, &words->holders->steps, (void *)(uintptr_t)hash,
			    &is_new);
	if (number == VC_NOT_THERE)
		return 0;
	if (is_new) {
		row = vc_walk_row(words->walk->file, VC_WALK_STEPS, sizeof(*row), NULL);
		if (!row)
			return 0;
		*row = step;
	}
	return number + 1;
}

static struct vc_walk_step *step_row(const struct words *words, uint32_t row_plus_one)
{
	return row_plus_one ? vc_walk_row_at(words->walk->file, VC_WALK_STEPS, row_plus_one - 1) :
			      NULL;
}

/* ---- names ---- */

/* A key as the program would write it, of plain kinds; others by their class. */
static void key_text(const struct words *words, struct vc_text *text, struct vc_python_object *key,
		     int depth)
{
	const char *characters = vc_object_text(key, NULL);
	struct vc_python_object *type = vc_py_type(key);
	const uint32_t named = vc_tensors_name(words->walk, key);
	const char *name = named ? vc_walk_row_at(words->walk->file, VC_WALK_STRINGS, named) : NULL;

	if (name) { /* a parameter */
		vc_text_add(text, name);
	} else if (characters) {
		vc_text_character(text, '\'');
		vc_text_add(text, characters);
		vc_text_character(text, '\'');
	} else if (type == vc_py.PyLong_Type) {
		int64_t number = (int64_t)vc_py.PyLong_AsUnsignedLongLongMask(key);

		if (number < 0)
			vc_text_character(text, '-');
		vc_text_number(text, number < 0 ? -(uint64_t)number : (uint64_t)number);
	} else if (key == vc_py._Py_NoneStruct) {
		vc_text_add(text, "None");
	} else if (type == vc_py.PyTuple_Type && depth) {
		vc_text_character(text, '(');
		for (uint64_t i = 0; i < vc_sequence_length(key); i++) {
			vc_text_add(text, i ? ", " : "");
			key_text(words, text, vc_sequence_items(key)[i], depth - 1);
		}
		vc_text_character(text, ')');
	} else {
		vc_text_add(text, vc_py_type_name(type));
	}
}

/* The key under which a dict holds a value; NULL: none was found among the first ones. */
static struct vc_python_object *key_of(struct vc_python_object *dict,
				       const struct vc_python_object *value)
{
	struct vc_python_object *key, *held;
	long position = 0;

	for (uint32_t seen = 0; seen < SOME * 16; seen++) {
		if (!vc_py.PyDict_Next(dict, &position, &key, &held))
			return NULL;
		if (held == value)
			return key;
	}
	return NULL;
}

/* Name of the attribute by which an object holds a value, where it does; NULL. */
static const char *attribute_of(struct vc_python_object *object,
				const struct vc_python_object *value)
{
	struct vc_python_object *dict = vc_object_dict(object), *key;
	const char *name;

	if (!dict)
		return NULL;
	key = dict == value ? NULL : key_of(dict, value);
	name = key ? vc_object_text(key, NULL) : NULL;
	vc_py.Py_DecRef(dict); /* the object has it: the key stays */
	return name;
}

/* Whether it is the __dict__ of an object or the dict of a class. */
static bool is_own_dict(struct vc_python_object *object, const struct vc_python_object *dict)
{
	struct vc_python_object *own;
	bool is;

	if (vc_py_type(dict) != vc_py.PyDict_Type && !vc_object_is(dict, VC_PYTHON_DICT))
		return false;
	if (vc_object_is_type(object))
		return vc_object_field(object, VC_TYPE_DICT) == dict;
	if (vc_object_is(object, VC_PYTHON_DICT) || vc_object_is_sequence(object))
		return false;
	own = vc_object_dict(object);
	is = own == dict;
	vc_py.Py_DecRef(own);
	return is;
}

/* The owner and name under which an object's parent holds it as an attribute; NULL: not so. */
static const char *held_as(const struct words *words, uint32_t object,
			   struct vc_python_object **ret_owner)
{
	const struct vc_reach *reach = vc_holders_reach(words->holders, object);
	struct vc_python_object *child = object_at(words, object), *parent, *key;
	const struct vc_reach *above;

	if (reach->parent == VC_NO_OBJECT)
		return NULL;
	parent = object_at(words, reach->parent);
	above = vc_holders_reach(words->holders, reach->parent);
	if (vc_object_is(parent, VC_PYTHON_DICT) && above->parent != VC_NO_OBJECT &&
	    is_own_dict(object_at(words, above->parent), parent)) {
		*ret_owner = object_at(words, above->parent);
		key = key_of(parent, child);
		return key ? vc_object_text(key, NULL) : NULL;
	}
	if (vc_object_is(parent, VC_PYTHON_DICT) || vc_object_is_sequence(parent))
		return NULL;
	*ret_owner = parent;
	return attribute_of(parent, child);
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && !strcmp(text + length - tail, end);
}

/* ---- steps ---- */

static void fill_frame(const struct words *words, const struct vc_frame_view *frame,
		       struct vc_walk_step *step)
{
	step->owner = text_of(words, vc_frame_function(frame));
	step->file = text_of(words, vc_frame_file(frame));
}

/* The file and name of the module whose dict it is. */
static void fill_module(const struct words *words, struct vc_python_object *dict,
			struct vc_walk_step *step)
{
	const char *name = vc_object_text(vc_dict_find(dict, "__name__"), NULL);
	const char *file = vc_object_text(vc_dict_find(dict, "__file__"), NULL);

	step->owner = text_of(words, name ? name : "");
	step->file = text_of(words, file ? file : "");
}

static uint32_t root_step(const struct words *words, uint32_t object, const struct vc_reach *reach)
{
	const struct vc_root_way *way =
		(struct vc_root_way *)words->holders->roots.item + reach->root;
	struct vc_walk_step step = {.kind = reach->kind, .line = way->line};
	const char *name = way->name ? vc_object_text(way->name, NULL) : NULL;

	if (reach->kind == VC_STEP_LOCAL) {
		struct vc_frame_view frame = {
			.layout = vc_python_layout((uint16_t)vc_py.version), .code = way->owner};

		fill_frame(words, &frame, &step);
	} else if (reach->kind == VC_STEP_GLOBAL) {
		fill_module(words, way->owner, &step);
	}
	step.text = text_of(words, name ? name : class_of(object_at(words, object)));
	return row_of(words, step);
}

static uint32_t local_step(const struct words *words, struct vc_walk_step step,
			   const struct vc_frame_view *frame, struct vc_python_object *child)
{
	struct vc_python_object *name;

	for (uint32_t i = 0; i < vc_frame_locals(frame); i++) {
		struct vc_python_object *value = vc_frame_local(frame, i, &name);
		const char *text = value ? vc_object_text(name, NULL) : NULL;

		/* a cell is reached before what is in it */
		if (!text || (value != child && !(vc_py_type(child) == vc_py.PyCell_Type &&
						  vc_object_field(child, VC_CELL_VALUE) == value)))
			continue;
		step.text = text_of(words, text);
		fill_frame(words, frame, &step);
		return row_of(words, step);
	}
	step.kind = VC_STEP_INSIDE;
	step.text = text_of(words, "the stack of a frame");
	return row_of(words, step);
}

static uint32_t function_step(const struct words *words, struct vc_walk_step step,
			      struct vc_python_object *function, struct vc_python_object *child)
{
	struct vc_python_object *name;
	const char *text;

	step.kind = VC_STEP_INSIDE;
	if (vc_py_type(child) == vc_py.PyTuple_Type)
		step.kind = vc_sequence_length(child) && vc_py_type(vc_sequence_items(child)[0]) ==
								 vc_py.PyCell_Type ?
			VC_STEP_CLOSURE : VC_STEP_DEFAULTS;
	name = vc_type_find(vc_py.PyFunction_Type, "__qualname__");
	name = name ? vc_descriptor_get(name, function) : NULL;
	text = vc_object_text(name, NULL);
	step.text = text_of(words, text ? text : "a function");
	vc_py.Py_DecRef(name);
	return row_of(words, step);
}

static uint32_t item_step(const struct words *words, struct vc_walk_step step,
			  struct vc_python_object *sequence, struct vc_python_object *child)
{
	step.kind = VC_STEP_ELEMENT;
	step.count = vc_sequence_length(sequence);
	for (uint64_t i = 0; step.count <= FEW && i < step.count; i++)
		if (vc_sequence_items(sequence)[i] == child) {
			step.line = (uint32_t)i + 1;
			break;
		}
	step.text = text_of(words, class_of(sequence));
	return row_of(words, step);
}

static uint32_t key_step(const struct words *words, struct vc_walk_step step,
			 struct vc_python_object *dict, struct vc_python_object *child)
{
	char buffer[128];
	struct vc_text text = vc_text_in(buffer, sizeof(buffer));
	struct vc_python_object *key;

	step.count = (uint64_t)vc_py.PyDict_Size(dict);
	key = step.count <= SOME ? key_of(dict, child) : NULL;
	step.kind = key ? VC_STEP_KEY : VC_STEP_DICT;
	if (key)
		key_text(words, &text, key, KEY_DEPTH);
	else
		vc_text_add(&text, class_of(dict));
	step.text = vc_walk_string(words->walk->file, buffer, text.length);
	return row_of(words, step);
}

static uint32_t attribute_step(const struct words *words, struct vc_walk_step step,
			       struct vc_python_object *owner, const char *name)
{
	bool is_class = vc_object_is_type(owner);

	step.kind = VC_STEP_ATTRIBUTE;
	step.text = text_of(words, name);
	step.owner = text_of(words, is_class ? vc_py_type_name(owner) : class_of(owner));
	return row_of(words, step);
}

/* Path of a module, 0: it has none. */
static uint32_t module_path(const struct words *words, struct vc_python_object *object)
{
	uint32_t number = vc_set_find(&words->walk->modules, object);

	return number == VC_NOT_THERE ? 0 : ((uint32_t *)words->walk->module_path.item)[number];
}

/*
 * A step from a module's own dict to what hangs on it: a child module becomes its path, a hook
 * says so, a parameter is an attribute. `name` is how the dict is called.
 */
static uint32_t module_item_step(const struct words *words, struct vc_walk_step step,
				 struct vc_python_object *module, const char *name,
				 struct vc_python_object *dict, struct vc_python_object *child)
{
	const struct vc_walk_step *above = step_row(words, step.parent);
	struct vc_python_object *key = key_of(dict, child);
	const char *text = key ? vc_object_text(key, NULL) : NULL;

	if (!strcmp(name, "_modules") && module_path(words, child)) {
		if (above && above->kind == VC_STEP_MODULE)
			step.parent = above->parent;
		step.kind = VC_STEP_MODULE;
		step.text = module_path(words, child);
		return row_of(words, step);
	}
	if (ends_with(name, "_hooks"))
		return step.parent; /* the number of a hook says nothing */
	return text ? attribute_step(words, step, module, text) :
		      key_step(words, step, dict, child);
}

static uint32_t plain_step(const struct words *words, uint32_t object, struct vc_walk_step step)
{
	uint32_t parent_number = vc_holders_reach(words->holders, object)->parent;
	struct vc_python_object *parent = object_at(words, parent_number), *owner = NULL;
	struct vc_python_object *child = object_at(words, object);
	const char *name;

	if (is_own_dict(parent, child))
		return step.parent;
	if (vc_object_is_sequence(parent))
		return vc_py_type(child) == vc_py.PyCell_Type ? step.parent :
								item_step(words, step, parent, child);
	if (vc_object_is(parent, VC_PYTHON_DICT)) {
		name = held_as(words, parent_number, &owner);
		if (name && vc_heap_kind(&words->walk->torch, owner) == VC_HEAP_MODULE &&
		    name[0] == '_')
			return module_item_step(words, step, owner, name, parent, child);
	}
	name = held_as(words, object, &owner);
	if (name && vc_heap_kind(&words->walk->torch, owner) == VC_HEAP_MODULE && name[0] == '_') {
		if (!strcmp(name, "_modules") || !strcmp(name, "_parameters") ||
		    !strcmp(name, "_buffers"))
			return step.parent;
		if (ends_with(name, "_hooks")) {
			step.kind = VC_STEP_MODULE_HOOK;
			step.text = text_of(words, name[1] == 'f' ? "forward hook" : "hook");
			return row_of(words, step);
		}
	}
	if (name)
		return attribute_step(words, step, owner, name);
	if (vc_object_is(parent, VC_PYTHON_DICT))
		return key_step(words, step, parent, child);
	step.kind = VC_STEP_INSIDE;
	step.text = text_of(words, class_of(parent));
	return row_of(words, step);
}

/* By the parent's kind where it has parts with names of their own. */
static uint32_t reference_step(const struct words *words, uint32_t object, struct vc_walk_step step)
{
	uint32_t parent_number = vc_holders_reach(words->holders, object)->parent;
	struct vc_python_object *parent = object_at(words, parent_number);
	struct vc_python_object *child = object_at(words, object), *type = vc_py_type(parent);
	struct vc_frame_view frame;

	if (type == vc_py.PyCell_Type)
		return step.parent;
	if (type == vc_py.PyFunction_Type && !is_own_dict(parent, child))
		return function_step(words, step, parent, child);
	if (type == vc_py.PyFrame_Type && vc_frame_of_object(parent, &frame)) {
		step.kind = VC_STEP_FRAME_LOCAL;
		return local_step(words, step, &frame, child);
	}
	if ((type == vc_py.PyGen_Type || type == vc_py.PyCoro_Type ||
	     type == vc_py.PyAsyncGen_Type) &&
	    vc_frame_of_generator(parent, &frame)) {
		step.kind = VC_STEP_GENERATOR_LOCAL;
		return local_step(words, step, &frame, child);
	}
	if (type == vc_py.PyTraceBack_Type) {
		if (vc_py_type(child) != vc_py.PyFrame_Type || !vc_frame_of_object(child, &frame))
			return step.parent;
		step.kind = VC_STEP_FRAME;
		step.line = vc_frame_line(&frame);
		fill_frame(words, &frame, &step);
		return row_of(words, step);
	}
	if (vc_py_type(child) == vc_py.PyTraceBack_Type) {
		step.kind = VC_STEP_TRACEBACK;
		step.text = text_of(words, class_of(parent));
		return row_of(words, step);
	}
	return plain_step(words, object, step);
}

/* An edge of the autograd graph. Nodes passed one after the other become one step. */
static uint32_t graph_step(const struct words *words, uint32_t object, struct vc_walk_step step,
			   const struct vc_reach *reach)
{
	const struct vc_walk_step *above = step_row(words, step.parent);

	step.kind = reach->kind;
	step.text = reach->text;
	if (reach->kind == VC_STEP_NODES) {
		step.count = 1;
		if (above && above->kind == VC_STEP_NODES) {
			step.count = above->count + 1;
			step.parent = above->parent;
		}
	}
	if (reach->kind == VC_STEP_NODES || reach->kind == VC_STEP_GRAD_FN)
		step.text = text_of(words, class_of(object_at(words, object)));
	return row_of(words, step);
}

static uint32_t one_step(const struct words *words, uint32_t object)
{
	const struct vc_reach *reach = vc_holders_reach(words->holders, object);
	struct vc_walk_step step = {0};

	if (reach->parent == VC_NO_OBJECT)
		return root_step(words, object, reach);
	step.parent = end_at(words->holders, reach->parent)->step;
	return reach->kind ? graph_step(words, object, step, reach) :
			     reference_step(words, object, step);
}

/* The end of the way to an object; where it is new the steps before it are made too. */
static struct vc_way_end way_to(struct vc_tensors *walk, struct vc_holders *holders, uint32_t object)
{
	struct words words = {walk, holders};
	struct vc_array *way = &holders->way;
	struct vc_way_end above = {0}, *end;
	uint32_t at = object, *place;

	way->count = 0;
	for (; at != VC_NO_OBJECT && !end_at(holders, at)->depth && way->count < WAY_MAX;
	     at = vc_holders_reach(holders, at)->parent) {
		place = vc_array_add(&walk->pages, way, sizeof(*place));
		if (!place)
			return above;
		*place = at;
	}
	if (at != VC_NO_OBJECT)
		above = *end_at(holders, at);
	for (uint64_t i = way->count; i-- > 0; above = *end) {
		at = ((uint32_t *)way->item)[i];
		end = end_at(holders, at);
		end->step = one_step(&words, at);
		end->depth = above.depth + 1;
	}
	return above;
}

/* ---- rows of holders ---- */

/* The first tensor of a storage has the shortest way; the others are further ways in. */
static void say_one(struct vc_tensors *walk, struct vc_holders *holders, uint32_t *row_of_storage,
		    uint32_t storage, uint32_t object)
{
	struct vc_walk_holder *row;
	struct vc_way_end end;
	uint64_t number = 0;
	uint32_t others = vc_holders_reach(holders, object)->others;

	if (row_of_storage[storage]) {
		row = vc_walk_row_at(walk->file, VC_WALK_HOLDERS, row_of_storage[storage] - 1);
		if (row)
			row->ways += others + 1;
		return;
	}
	row = vc_walk_row(walk->file, VC_WALK_HOLDERS, sizeof(*row), &number);
	if (!row)
		return;
	row_of_storage[storage] = (uint32_t)number + 1;
	row->storage = storage + 1;
	row->ways = others;
	end = way_to(walk, holders, object);
	row->depth = end.depth;
	row->step = end.step;
}

void vc_holders_say(struct vc_tensors *walk, struct vc_holders *holders)
{
	const uint32_t *tensor = (uint32_t *)holders->tensors.item;
	const uint64_t *address = (uint64_t *)holders->address.item;
	struct vc_array rows = {0};

	if (!vc_array_fill(&walk->pages, &holders->ends, sizeof(struct vc_way_end),
			   holders->reach.count) ||
	    !vc_array_fill(&walk->pages, &rows, sizeof(uint32_t), walk->storages.pointer.count))
		return;
	for (uint64_t i = 0; i < holders->tensors.count && !vc_tensors_stop(walk); i++) {
		uint32_t storage = vc_set_find(&walk->storages, (void *)(uintptr_t)address[i]);

		if (storage < rows.count)
			say_one(walk, holders, (uint32_t *)rows.item, storage, tensor[i]);
	}
	vc_array_free(&walk->pages, &rows, sizeof(uint32_t));
}
