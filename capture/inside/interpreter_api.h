/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's C API as the running process has it: functions found by name, none linked against.
 *
 * vc_interpreter_api_find asks the loader once, on a thread that may wait for it; after that the
 * table does not change. Who calls what is in it holds the GIL where interpreter_api.def says so.
 * Objects are opaque but for their type, whose place has been the same in all versions that are
 * served (3.9 to 3.14 with a GIL; free-threaded builds have other objects and are refused).
 */
#ifndef VC_CAPTURE_INSIDE_INTERPRETER_API_H
#define VC_CAPTURE_INSIDE_INTERPRETER_API_H

#include <stdbool.h>
#include <stdint.h>

/** A PyObject. */
struct vc_python_object;

#define VC_PYTHON_OPTIONAL 0xffff
#define VC_PYTHON_OLDEST 0x309
#define VC_PYTHON_NEWEST 0x30e

struct vc_python_api {
	uint32_t version; /* major << 8 | minor; 0: not found */
#define VC_PYTHON_FUNCTION(since, result, name, parameters) result (*name) parameters;
#define VC_PYTHON_DATA(since, name) struct vc_python_object *name;
#include "capture/inside/interpreter_api.def"
#undef VC_PYTHON_FUNCTION
#undef VC_PYTHON_DATA
};

/** Whether an interpreter could be found, and why not. */
enum vc_python_found {
	VC_PYTHON_FOUND,
	VC_PYTHON_NONE,          /* no interpreter in the process */
	VC_PYTHON_VERSION,       /* one of another version */
	VC_PYTHON_FREE_THREADED, /* no GIL */
	VC_PYTHON_INCOMPLETE,    /* it does not export what is needed */
};

/** Valid after vc_interpreter_api_find gave VC_PYTHON_FOUND. */
extern struct vc_python_api vc_py;

/** Fills vc_py, once it succeeded no more. CTX: a thread that may wait for the loader; one at a time. */
enum vc_python_found vc_interpreter_api_find(void);

/** Whether the interpreter runs and is not about to end. No GIL needed. */
bool vc_interpreter_alive(void);

/** An object's type. The GIL, or a reference and luck, keep it alive. */
static inline struct vc_python_object *vc_py_type(const struct vc_python_object *object)
{
	return ((struct vc_python_object *const *)object)[1];
}

/** Bits of PyType_GetFlags: an instance of such a type is of this built-in kind or of a subclass. */
enum vc_python_kind {
	VC_PYTHON_INTEGER = 24,
	VC_PYTHON_LIST = 25,
	VC_PYTHON_TUPLE = 26,
	VC_PYTHON_TEXT = 28,
	VC_PYTHON_DICT = 29,
};
/** Whether `object` (not NULL) is of a kind; runs nothing of the program's. */
bool vc_py_is(const struct vc_python_object *object, enum vc_python_kind kind);

/** A module that is loaded, by name; borrowed; NULL. */
struct vc_python_object *vc_py_module(const char *name);
/** What a module (NULL: none) has under a name, without its __getattr__; borrowed; NULL. */
struct vc_python_object *vc_py_global(struct vc_python_object *module, const char *name);
/** What a dict (anything else: nothing) has under a key; borrowed; NULL. */
struct vc_python_object *vc_py_item(struct vc_python_object *dict, const char *key);
/** A number, or `otherwise` where the object (NULL: none) is none. */
uint64_t vc_py_number(struct vc_python_object *number, uint64_t otherwise);
/** UTF-8 of a string, borrowed from it; NULL where the object (NULL: none) is none. */
const char *vc_py_text(struct vc_python_object *text);

/** Name of a type as it was defined ("Linear", "torch.Tensor"); lives as long as the type. */
const char *vc_py_type_name(const struct vc_python_object *type);

#endif
