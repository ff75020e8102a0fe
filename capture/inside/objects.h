/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of CPython by their layout, for passes over millions of them.
 *
 * The fields used here (head of an object, PyTypeObject up to tp_mro, lists, tuples, cells,
 * functions) lie where they lie in all versions that interpreter_api.h serves; vc_objects_good
 * compares them with what the interpreter itself says before anything else is read. All of it runs
 * with the GIL held and runs nothing of the program's.
 */
#ifndef VC_CAPTURE_INSIDE_OBJECTS_H
#define VC_CAPTURE_INSIDE_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/inside/interpreter_api.h"

typedef struct vc_python_object *(*vc_object_descriptor_get)(struct vc_python_object *descriptor,
							     struct vc_python_object *object,
							     struct vc_python_object *type);
typedef int (*vc_object_visit)(struct vc_python_object *object, void *argument);
typedef int (*vc_object_traverse)(struct vc_python_object *object, vc_object_visit visit,
				  void *argument);

/** Offsets; of a type object where no other is named. */
enum vc_object_place {
	VC_OBJECT_TYPE = 8,
	VC_OBJECT_SIZE = 16,          /* of one with a variable size */
	VC_TYPE_NAME = 24,
	VC_TYPE_BASIC_SIZE = 32,
	VC_TYPE_VECTORCALL = 56,      /* offset in an instance */
	VC_TYPE_FLAGS = 168,
	VC_TYPE_TRAVERSE = 184,
	VC_TYPE_DICT = 264,
	VC_TYPE_DESCRIPTOR_GET = 272,
	VC_TYPE_DICT_OFFSET = 288,
	VC_TYPE_IS_COLLECTED = 328,  /* function, of an instance */
	VC_TYPE_MRO = 344,
	VC_LIST_ITEMS = 24,           /* of a list: pointer to them */
	VC_TUPLE_ITEMS = 24,          /* of a tuple: they themselves */
	VC_CELL_VALUE = 16,           /* of a cell */
};

static inline void *vc_object_field(const struct vc_python_object *object, size_t offset)
{
	return *(void *const *)((const char *)object + offset);
}

/** References to an object; a large number for one that never dies. */
static inline uint64_t vc_object_references(const struct vc_python_object *object)
{
	int64_t count = *(const int64_t *)object;

	if (vc_py.version < 0x30c)
		return (uint64_t)count;
	return (int32_t)count < 0 ? UINT32_MAX : (uint32_t)count;
}

static inline uint64_t vc_type_flags(const struct vc_python_object *type)
{
	return *(const uint64_t *)((const char *)type + VC_TYPE_FLAGS);
}
static inline bool vc_object_is(const struct vc_python_object *object, enum vc_python_kind kind)
{
	return vc_type_flags(vc_py_type(object)) >> kind & 1;
}
/** Whether instances of a type can be part of a cycle. */
static inline bool vc_type_collected(const struct vc_python_object *type)
{
	return vc_type_flags(type) >> 14 & 1;
}
static inline const char *vc_type_full_name(const struct vc_python_object *type)
{
	return vc_object_field(type, VC_TYPE_NAME);
}

/** Length and items of a list or tuple (or of a subclass's own part). */
static inline uint64_t vc_sequence_length(const struct vc_python_object *sequence)
{
	return *(const uint64_t *)((const char *)sequence + VC_OBJECT_SIZE);
}
static inline struct vc_python_object *const *
vc_sequence_items(const struct vc_python_object *sequence)
{
	if (vc_object_is(sequence, VC_PYTHON_LIST))
		return vc_object_field(sequence, VC_LIST_ITEMS);
	return (void *)((const char *)sequence + VC_TUPLE_ITEMS);
}
static inline bool vc_object_is_sequence(const struct vc_python_object *object)
{
	return vc_type_flags(vc_py_type(object)) & (1u << VC_PYTHON_LIST | 1u << VC_PYTHON_TUPLE);
}

/** Whether an object is a type. */
static inline bool vc_object_is_type(const struct vc_python_object *object)
{
	return vc_type_flags(vc_py_type(object)) >> 31 & 1;
}
/** Whether the collector could meet it: a type that is no part of the heap has no visiting. */
static inline bool vc_object_collected(struct vc_python_object *object)
{
	struct vc_python_object *type = vc_py_type(object);
	int (*is_collected)(struct vc_python_object *object);

	if (!vc_type_collected(type))
		return false;
	*(void **)&is_collected = vc_object_field(type, VC_TYPE_IS_COLLECTED);
	return !is_collected || is_collected(object);
}

/** Visits what an object refers to; the visitor's result where it is not 0. */
static inline int vc_object_visit_all(struct vc_python_object *object, vc_object_visit visit,
				      void *argument)
{
	vc_object_traverse traverse;

	if (!vc_object_collected(object))
		return 0;
	*(void **)&traverse = vc_object_field(vc_py_type(object), VC_TYPE_TRAVERSE);
	return traverse ? traverse(object, visit, argument) : 0;
}

/** Whether the offsets hold in this interpreter. */
bool vc_objects_good(void);
/** Whether `text` (NULL: no) is a string with these characters. */
bool vc_object_is_text(const struct vc_python_object *text, const char *characters);
/** UTF-8 of a string object (no subclass), borrowed from it; NULL: it is none. */
const char *vc_object_text(struct vc_python_object *text, size_t *ret_length);
/** What a dict holds under a string; borrowed; NULL. Compares strings only: runs no __eq__. */
struct vc_python_object *vc_dict_find(struct vc_python_object *dict, const char *key);
/** The same for a module that is loaded. */
struct vc_python_object *vc_loaded_module(const char *name);
/**
 * Calls a function of a module without arguments, where it is the interpreter's own and not one
 * that the program put there; a new reference, NULL. An error it raises is forgotten.
 */
struct vc_python_object *vc_builtin_call(struct vc_python_object *module, const char *name);
/** The __dict__ of an object by the interpreter's own way, a new reference; NULL: none. */
struct vc_python_object *vc_object_dict(struct vc_python_object *object);
/** What the classes of a type have under a name, by their order; borrowed; NULL. */
struct vc_python_object *vc_type_find(struct vc_python_object *type, const char *name);
/** What a descriptor gives of an object, a new reference; NULL: it raised (cleared). */
struct vc_python_object *vc_descriptor_get(struct vc_python_object *descriptor,
					   struct vc_python_object *object);

#endif
