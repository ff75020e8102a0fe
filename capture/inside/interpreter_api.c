/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/interpreter_api.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "capture/inside/resolve.h"
#include "capture/inside/settings.h"

struct vc_python_api vc_py;

struct entry {
	const char *name;
	uint32_t offset;
	uint32_t since;
};

static const struct entry entries[] = {
#define VC_PYTHON_FUNCTION(since, result, name, parameters)                                        \
	{#name, offsetof(struct vc_python_api, name), since},
#define VC_PYTHON_DATA(since, name) {#name, offsetof(struct vc_python_api, name), since},
#include "capture/inside/interpreter_api.def"
#undef VC_PYTHON_FUNCTION
#undef VC_PYTHON_DATA
};

/* "3.11.7 (main, ...)": as struct vc_python_api has it; 0: not a version. */
static uint32_t version_of(const char *text)
{
	uint64_t major, minor;

	if (!vc_parse_number(text, &text, &major) || *text++ != '.' ||
	    !vc_parse_number(text, &text, &minor) || major > 9 || minor > 255)
		return 0;
	return (uint32_t)(major << 8 | minor);
}

enum vc_python_found vc_interpreter_api_find(void)
{
	const char *(*version)(void);
	struct vc_python_api found = {0};

	if (vc_py.version)
		return VC_PYTHON_FOUND;
	*(void **)&version = vc_look_up(RTLD_DEFAULT, "Py_GetVersion");
	if (!version)
		return VC_PYTHON_NONE;
	found.version = version_of(version());
	if (strstr(version(), "free-threading"))
		return VC_PYTHON_FREE_THREADED;
	if (found.version < VC_PYTHON_OLDEST || found.version > VC_PYTHON_NEWEST)
		return VC_PYTHON_VERSION;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void **to = (void **)((char *)&found + entries[i].offset);

		*to = vc_look_up(RTLD_DEFAULT, entries[i].name);
		if (!*to && found.version >= entries[i].since)
			return VC_PYTHON_INCOMPLETE;
	}
	if (!found.Py_IsFinalizing)
		found.Py_IsFinalizing = found._Py_IsFinalizing;
	if (!found.PyThreadState_GetUnchecked)
		found.PyThreadState_GetUnchecked = found._PyThreadState_UncheckedGet;
	if (!found.Py_IsFinalizing || !found.PyThreadState_GetUnchecked)
		return VC_PYTHON_INCOMPLETE;
	vc_py = found;
	return VC_PYTHON_FOUND;
}

bool vc_interpreter_alive(void)
{
	return vc_py.version && vc_py.Py_IsInitialized() && !vc_py.Py_IsFinalizing();
}

bool vc_py_is(const struct vc_python_object *object, enum vc_python_kind kind)
{
	return vc_py.PyType_GetFlags(vc_py_type(object)) >> kind & 1;
}

const char *vc_py_type_name(const struct vc_python_object *type)
{
	/* after the head of an object of variable size */
	const char *name = ((const char *const *)type)[3], *last;

	last = strrchr(name, '.');
	return last ? last + 1 : name;
}

struct vc_python_object *vc_py_item(struct vc_python_object *dict, const char *key)
{
	return dict && vc_py_is(dict, VC_PYTHON_DICT) ? vc_py.PyDict_GetItemString(dict, key) : NULL;
}

struct vc_python_object *vc_py_module(const char *name)
{
	return vc_py_item(vc_py.PyImport_GetModuleDict(), name);
}

struct vc_python_object *vc_py_global(struct vc_python_object *module, const char *name)
{
	if (!module || !vc_py.PyType_IsSubtype(vc_py_type(module), vc_py.PyModule_Type))
		return NULL;
	return vc_py_item(vc_py.PyModule_GetDict(module), name);
}

uint64_t vc_py_number(struct vc_python_object *number, uint64_t otherwise)
{
	uint64_t value;

	if (!number || !vc_py_is(number, VC_PYTHON_INTEGER))
		return otherwise;
	value = vc_py.PyLong_AsUnsignedLongLongMask(number);
	if (value == UINT64_MAX && vc_py.PyErr_Occurred())
		vc_py.PyErr_Clear();
	return value;
}

const char *vc_py_text(struct vc_python_object *text)
{
	const char *characters = NULL;

	if (text && vc_py_is(text, VC_PYTHON_TEXT))
		characters = vc_py.PyUnicode_AsUTF8AndSize(text, NULL);
	if (!characters)
		vc_py.PyErr_Clear();
	return characters;
}
