/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/objects.h"

#include <string.h>

bool vc_objects_good(void)
{
	struct vc_python_object *type = vc_py.PyType_Type;
	struct vc_python_object *mro = vc_object_field(type, VC_TYPE_MRO);
	struct vc_python_object *list = vc_py.PyList_Type, *tuple = vc_py.PyTuple_Type;

	return vc_py_type(type) == type && !strcmp(vc_type_full_name(type), "type") &&
	       mro && vc_py_type(mro) == tuple && vc_sequence_length(mro) == 2 &&
	       vc_sequence_items(mro)[0] == type &&
	       vc_type_flags(type) == vc_py.PyType_GetFlags(type) && vc_type_collected(list) &&
	       (uint64_t)vc_object_field(list, VC_TYPE_BASIC_SIZE) == 40 &&
	       vc_object_field(list, VC_TYPE_TRAVERSE) &&
	       vc_object_field(vc_py.PyFunction_Type, VC_TYPE_DESCRIPTOR_GET) &&
	       !vc_object_field(list, VC_TYPE_DESCRIPTOR_GET);
}

const char *vc_object_text(struct vc_python_object *text, size_t *ret_length)
{
	const char *characters;
	long length;

	if (!text || vc_py_type(text) != vc_py.PyUnicode_Type)
		return NULL;
	characters = vc_py.PyUnicode_AsUTF8AndSize(text, &length);
	if (!characters) {
		vc_py.PyErr_Clear(); /* a lone surrogate */
		return NULL;
	}
	if (ret_length)
		*ret_length = (size_t)length;
	return characters;
}

bool vc_object_is_text(const struct vc_python_object *text, const char *characters)
{
	return text && vc_py_type(text) == vc_py.PyUnicode_Type &&
	       !vc_py.PyUnicode_CompareWithASCIIString((struct vc_python_object *)text, characters);
}

struct vc_python_object *vc_dict_find(struct vc_python_object *dict, const char *key)
{
	struct vc_python_object *name, *value;
	long position = 0;

	if (!dict || !vc_object_is(dict, VC_PYTHON_DICT))
		return NULL;
	while (vc_py.PyDict_Next(dict, &position, &name, &value))
		if (vc_object_is_text(name, key))
			return value;
	return NULL;
}

struct vc_python_object *vc_loaded_module(const char *name)
{
	/* keys are strings: nothing of the program's compares them */
	return vc_py.PyDict_GetItemString(vc_py.PyImport_GetModuleDict(), name);
}

struct vc_python_object *vc_object_dict(struct vc_python_object *object)
{
	struct vc_python_object *dict, **place;

	if (vc_py.PyObject_GenericGetDict) {
		dict = vc_py.PyObject_GenericGetDict(object, NULL);
		if (!dict)
			vc_py.PyErr_Clear();
		return dict;
	}
	place = vc_py._PyObject_GetDictPtr(object);
	if (!place || !*place)
		return NULL;
	vc_py.Py_IncRef(*place);
	return *place;
}

struct vc_python_object *vc_type_find(struct vc_python_object *type, const char *name)
{
	struct vc_python_object *mro = vc_object_field(type, VC_TYPE_MRO);

	if (!mro || vc_py_type(mro) != vc_py.PyTuple_Type)
		return NULL;
	for (uint64_t i = 0; i < vc_sequence_length(mro); i++) {
		struct vc_python_object *of = vc_sequence_items(mro)[i], *found;

		if (!vc_object_is_type(of))
			continue;
		found = vc_dict_find(vc_object_field(of, VC_TYPE_DICT), name);
		if (found)
			return found;
	}
	return NULL;
}

struct vc_python_object *vc_descriptor_get(struct vc_python_object *descriptor,
					   struct vc_python_object *object)
{
	vc_object_descriptor_get get;
	struct vc_python_object *value;

	*(void **)&get = vc_object_field(vc_py_type(descriptor), VC_TYPE_DESCRIPTOR_GET);
	value = get(descriptor, object, vc_py_type(object));
	if (!value)
		vc_py.PyErr_Clear();
	return value;
}

struct vc_python_object *vc_builtin_call(struct vc_python_object *module, const char *name)
{
	struct vc_python_object *function, *value;

	function = vc_dict_find(vc_py.PyModule_GetDict(module), name);
	if (!function || vc_py_type(function) != vc_py.PyCFunction_Type)
		return NULL;
	value = vc_py.PyObject_CallObject(function, NULL);
	if (!value)
		vc_py.PyErr_Clear();
	return value;
}
