/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/interpreter_cells.h"

#include "capture/inside/interpreter_api.h"
#include "capture/inside/text.h"
#include "formats/walk.h"

#define CELLS_MAX 4096 /* the last ones */
#define KEY_BYTES 512u

/* A new reference; attributes of the instance itself, as none of these is computed. NULL: not there. */
static struct vc_python_object *attribute(struct vc_python_object *object, const char *name)
{
	struct vc_python_object *text = vc_py.PyUnicode_InternFromString(name), *value = NULL;

	if (text) {
		value = vc_py.PyObject_GenericGetAttr(object, text);
		vc_py.Py_DecRef(text);
	}
	vc_py.PyErr_Clear();
	return value;
}

/* The one shell of the process: a new reference. */
static struct vc_python_object *shell_of(void)
{
	struct vc_python_object *class, *name, *shell = NULL;

	class = vc_py_global(vc_py_module("IPython.core.interactiveshell"), "InteractiveShell");
	if (!class || !vc_py.PyType_IsSubtype(vc_py_type(class), vc_py.PyType_Type))
		return NULL;
	name = vc_py.PyUnicode_InternFromString("_instance");
	if (name) {
		shell = vc_py._PyType_Lookup(class, name);
		vc_py.Py_DecRef(name);
	}
	vc_py.PyErr_Clear();
	if (!shell || !vc_py.PyType_IsSubtype(vc_py_type(shell), class))
		return NULL;
	vc_py.Py_IncRef(shell);
	return shell;
}

static void put_cell(struct vc_walk_file *walk, const char *file, uint64_t number)
{
	char key[KEY_BYTES];
	struct vc_text text = vc_text_in(key, sizeof(key));

	vc_text_add(&text, VC_FACT_CELL);
	vc_text_add(&text, file);
	vc_walk_fact_number(walk, key, number, "ipython");
}

static void put_cells(struct vc_walk_file *walk, struct vc_python_object *cells)
{
	struct vc_python_object *key, *value;
	long position = 0, before = vc_py.PyDict_Size(cells) - CELLS_MAX;

	while (vc_py.PyDict_Next(cells, &position, &key, &value)) {
		const char *file = before-- > 0 ? NULL : vc_py_text(key);
		uint64_t number = file ? vc_py_number(value, 0) : 0;

		if (number)
			put_cell(walk, file, number);
	}
}

void vc_cells_walk(struct vc_walk_file *walk)
{
	struct vc_python_object *shell = shell_of(), *compiler, *cells;

	compiler = shell ? attribute(shell, "compile") : NULL;
	cells = compiler ? attribute(compiler, "_filename_map") : NULL;
	if (cells && vc_py_is(cells, VC_PYTHON_DICT))
		put_cells(walk, cells);
	if (cells)
		vc_py.Py_DecRef(cells);
	if (compiler)
		vc_py.Py_DecRef(compiler);
	if (shell)
		vc_py.Py_DecRef(shell);
}
