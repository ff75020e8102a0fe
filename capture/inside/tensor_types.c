/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/tensor_types.h"

#include <link.h>
#include <string.h>

#define SAVED_PREFIX "_raw_saved_"
#define MRO_MAX 64u

/* ---- finding PyTorch ---- */

static struct vc_python_object *of_module(const char *module, const char *name)
{
	struct vc_python_object *loaded = vc_loaded_module(module);

	if (!loaded || vc_py_type(loaded) != vc_py.PyModule_Type)
		return NULL;
	return vc_dict_find(vc_py.PyModule_GetDict(loaded), name);
}

static bool find_accessors(struct vc_torch *torch)
{
	struct vc_python_object *dict = vc_object_field(torch->base, VC_TYPE_DICT);
	const struct {
		const char *name;
		struct vc_python_object **to, *type;
	} wanted[] = {
#define VC_GETTER(name) {#name, &torch->name, vc_py.PyGetSetDescr_Type},
#define VC_METHOD(name) {#name, &torch->name, vc_py.PyMethodDescr_Type},
		VC_TENSOR_ACCESSORS(VC_GETTER, VC_METHOD)
#undef VC_GETTER
#undef VC_METHOD
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		*wanted[i].to = vc_dict_find(dict, wanted[i].name);
		if (!*wanted[i].to || vc_py_type(*wanted[i].to) != wanted[i].type)
			return false;
	}
	return true;
}

/* What storages have under a name, written in C: a method or a property; NULL: nothing of that type. */
static struct vc_python_object *storage_accessor(const char *name, struct vc_python_object *type)
{
	struct vc_python_object *base = of_module("torch._C", "StorageBase"), *found;

	found = base ? vc_dict_find(vc_object_field(base, VC_TYPE_DICT), name) : NULL;
	return found && vc_py_type(found) == type ? found : NULL;
}

static bool find_texts(struct vc_torch *torch)
{
	torch->text_data = vc_py.PyUnicode_InternFromString("data");
	torch->text_unpack_hook = vc_py.PyUnicode_InternFromString("unpack_hook");
	torch->text_main_grad = vc_py.PyUnicode_InternFromString("main_grad");
	return torch->text_data && torch->text_unpack_hook && torch->text_main_grad;
}

/* What torch._C's function without arguments gives as a number. */
static int64_t torch_number(const char *module, const char *name, int64_t otherwise)
{
	struct vc_python_object *function = of_module(module, name), *value;
	int64_t number = otherwise;

	if (!function)
		return otherwise;
	value = vc_py.PyObject_CallObject(function, NULL);
	if (!value)
		vc_py.PyErr_Clear();
	else if (value == vc_py._Py_NoneStruct)
		number = 0;
	else if (vc_object_is(value, VC_PYTHON_INTEGER))
		number = vc_py.PyLong_AsLongLong(value);
	else
		number = 1;
	if (value)
		vc_py.Py_DecRef(value);
	return number;
}

/* A context manager of torch._C's that keeps every __torch_function__ away, modes too. */
static bool enter_quiet(struct vc_torch *torch)
{
	struct vc_python_object *type = of_module("torch._C", "DisableTorchFunction"), *entered;

	if (!type)
		return false;
	torch->quiet = vc_py.PyObject_CallObject(type, NULL);
	entered = torch->quiet ? vc_py.PyObject_GetAttrString(torch->quiet, "__enter__") : NULL;
	if (entered) {
		struct vc_python_object *result = vc_py.PyObject_CallObject(entered, NULL);

		vc_py.Py_DecRef(entered);
		if (result) {
			vc_py.Py_DecRef(result);
			return true;
		}
	}
	vc_py.PyErr_Clear();
	if (torch->quiet)
		vc_py.Py_DecRef(torch->quiet);
	torch->quiet = NULL;
	return false;
}

static int find_c10(struct dl_phdr_info *info, size_t size, void *argument)
{
	const char *name = strrchr(info->dlpi_name, '/');
	struct vc_torch *torch = argument;

	(void)size;
	if (!name || strcmp(name, "/libc10.so") != 0)
		return 0;
	torch->c10_low = info->dlpi_addr;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			torch->c10_high = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
					  info->dlpi_phdr[i].p_memsz;
	return 1;
}

bool vc_torch_quiet(struct vc_torch *torch, struct vc_pages *pages, const char **ret_why)
{
	memset(torch, 0, sizeof(*torch));
	torch->pages = pages;
	*ret_why = "torch is not loaded";
	torch->base = of_module("torch._C", "TensorBase");
	if (!torch->base) /* its name before 2.1 */
		torch->base = of_module("torch._C", "_TensorBase");
	torch->tensor = of_module("torch", "Tensor");
	torch->parameter = of_module("torch.nn.parameter", "Parameter");
	torch->collector = vc_loaded_module("gc");
	if (!torch->base || !torch->tensor || !torch->parameter || !torch->collector)
		return false;
	*ret_why = "this version of torch has other tensors";
	torch->buffer = of_module("torch.nn.parameter", "Buffer");
	torch->module = of_module("torch.nn.modules.module", "Module");
	torch->optimizer = of_module("torch.optim.optimizer", "Optimizer");
	torch->strided = of_module("torch", "strided");
	torch->mkldnn = of_module("torch", "_mkldnn");
	torch->storage_data_ptr = storage_accessor("data_ptr", vc_py.PyMethodDescr_Type);
	torch->storage_device = storage_accessor("device", vc_py.PyGetSetDescr_Type);
	if (!torch->strided || !torch->storage_data_ptr || !find_accessors(torch) ||
	    !find_texts(torch))
		return false;
	dl_iterate_phdr(find_c10, torch);
	torch->operators = torch_number("torch._C", "_len_torch_dispatch_stack", 1) == 0 &&
			   torch_number("torch._C._functorch", "peek_interpreter_stack", 1) == 0;
	return enter_quiet(torch);
}

void vc_torch_done(struct vc_torch *torch)
{
	if (torch->quiet) {
		struct vc_python_object *leave, *none = vc_py._Py_NoneStruct, *result = NULL;

		leave = vc_py.PyObject_GetAttrString(torch->quiet, "__exit__");
		if (leave)
			result = vc_py.PyObject_CallFunctionObjArgs(leave, none, none, none, NULL);
		vc_py.PyErr_Clear();
		if (result)
			vc_py.Py_DecRef(result);
		if (leave)
			vc_py.Py_DecRef(leave);
		vc_py.Py_DecRef(torch->quiet);
	}
	for (size_t i = 0; i < 3; i++) {
		struct vc_python_object *text[] = {torch->text_data, torch->text_unpack_hook,
						   torch->text_main_grad};

		if (text[i])
			vc_py.Py_DecRef(text[i]);
	}
	vc_array_free(torch->pages, &torch->saved_names, sizeof(struct vc_saved_name));
	vc_array_free(torch->pages, &torch->type, sizeof(struct vc_heap_type));
	vc_set_free(torch->pages, &torch->types);
}

/* ---- types ---- */

static bool is_dull(const struct vc_python_object *type)
{
	const struct vc_python_object *dull[] = {
		vc_py.PyUnicode_Type, vc_py.PyLong_Type, vc_py.PyFloat_Type, vc_py.PyBool_Type,
		vc_py.PyCode_Type, vc_py.PyGetSetDescr_Type, vc_py.PyMethodDescr_Type,
		vc_py.PyBytes_Type, vc_py.PyWrapperDescr_Type, vc_py.PyMemberDescr_Type,
	};

	for (size_t i = 0; i < sizeof(dull) / sizeof(dull[0]); i++)
		if (type == dull[i])
			return true;
	return false;
}

/* Whether a class before TensorBase and torch.Tensor has its own __torch_dispatch__. */
static bool dispatches(const struct vc_torch *torch, struct vc_python_object *mro)
{
	for (uint64_t i = 0; i < vc_sequence_length(mro); i++) {
		struct vc_python_object *class = vc_sequence_items(mro)[i];

		if (class == torch->tensor || class == torch->base)
			return false;
		if (vc_dict_find(vc_object_field(class, VC_TYPE_DICT), "__torch_dispatch__"))
			return true;
	}
	return false;
}

static void look_at_tensor(const struct vc_torch *torch, struct vc_python_object *type,
			   struct vc_python_object *mro, struct vc_heap_type *ret)
{
	ret->kind = VC_HEAP_TENSOR;
	ret->plain = type == torch->tensor || type == torch->parameter || type == torch->buffer;
	ret->dispatches = !ret->plain && dispatches(torch, mro);
	for (uint64_t i = 0; i < vc_sequence_length(mro); i++)
		if (vc_sequence_items(mro)[i] == torch->parameter)
			ret->parameter = true;
	ret->main_grad = !vc_type_find(type, "main_grad");
}

/* "_saved_X" beside "_raw_saved_X", "saved_tensors" in an autograd.Function; NULL. */
static struct vc_python_object *unpacked_of(struct vc_python_object *dict, const char *raw)
{
	struct vc_python_object *found = vc_dict_find(dict, raw + sizeof("_raw") - 1);

	if (!found)
		found = vc_dict_find(dict, raw + sizeof("_raw_") - 1);
	return found && vc_py_type(found) == vc_py.PyGetSetDescr_Type ? found : NULL;
}

/* What a class has of _raw_saved_*: descriptors of torch's own. */
static void add_saved(struct vc_torch *torch, struct vc_python_object *class,
		      struct vc_heap_type *ret)
{
	struct vc_python_object *dict = vc_object_field(class, VC_TYPE_DICT), *key, *value;
	long position = 0;

	while (dict && vc_py.PyDict_Next(dict, &position, &key, &value)) {
		const char *name = vc_object_text(key, NULL);
		struct vc_saved_name *saved;

		if (!name || strncmp(name, SAVED_PREFIX, sizeof(SAVED_PREFIX) - 1) ||
		    vc_py_type(value) != vc_py.PyGetSetDescr_Type || ret->saved_count == UINT8_MAX)
			continue;
		saved = vc_array_add(torch->pages, &torch->saved_names, sizeof(*saved));
		if (!saved)
			return;
		ret->saved_count++;
		saved->descriptor = value;
		saved->unpacked = unpacked_of(dict, name);
		strncpy(saved->name, name + sizeof(SAVED_PREFIX) - 1, sizeof(saved->name) - 1);
	}
}

/* Generated nodes, those written in C++ (CopyBackwards), and those of autograd.Function. */
static void look_at_node(struct vc_torch *torch, struct vc_python_object *type,
			 struct vc_python_object *mro, struct vc_heap_type *ret)
{
	struct vc_python_object *next = vc_type_find(type, "next_functions"), *variable;

	if (!next || vc_py_type(next) != vc_py.PyGetSetDescr_Type)
		return;
	ret->kind = VC_HEAP_NODE;
	ret->next_functions = next;
	ret->has_dict = vc_object_field(type, VC_TYPE_DICT_OFFSET) || vc_type_flags(type) >> 4 & 1;
	ret->saved_first = (uint32_t)torch->saved_names.count;
	for (uint64_t i = 0; i < vc_sequence_length(mro); i++)
		add_saved(torch, vc_sequence_items(mro)[i], ret);
	variable = vc_type_find(type, "variable");
	if (variable && vc_py_type(variable) == vc_py.PyGetSetDescr_Type &&
	    !strcmp(vc_py_type_name(type), "AccumulateGrad"))
		ret->variable = variable;
}

static void look_at(struct vc_torch *torch, struct vc_python_object *type, struct vc_heap_type *ret)
{
	struct vc_python_object *mro = vc_object_field(type, VC_TYPE_MRO);

	if (is_dull(type)) {
		ret->kind = VC_HEAP_DULL;
		return;
	}
	if (!mro || vc_py_type(mro) != vc_py.PyTuple_Type || vc_sequence_length(mro) > MRO_MAX)
		return;
	for (uint64_t i = 0; i < vc_sequence_length(mro); i++) {
		const struct vc_python_object *class = vc_sequence_items(mro)[i];

		if (class == torch->base) {
			look_at_tensor(torch, type, mro, ret);
			return;
		}
		if (torch->module && class == torch->module)
			ret->kind = VC_HEAP_MODULE;
		else if (torch->optimizer && class == torch->optimizer)
			ret->kind = VC_HEAP_OPTIMIZER;
	}
	if (ret->kind)
		return;
	if (!strcmp(vc_py_type_name(type), "SavedTensor") && vc_type_find(type, "register_hooks")) {
		ret->kind = VC_HEAP_SAVED;
		ret->bare = !vc_type_find(type, "unpack_hook");
	} else {
		look_at_node(torch, type, mro, ret);
	}
}

/* Number of its row, made where the type is new; VC_NOT_THERE: no room. */
static uint32_t number_of(struct vc_torch *torch, struct vc_python_object *type)
{
	struct vc_heap_type looked = {0}, *known;
	uint32_t number = vc_set_find(&torch->types, type);
	bool is_new = false;

	if (number != VC_NOT_THERE)
		return number;
	look_at(torch, type, &looked);
	known = vc_array_add(torch->pages, &torch->type, sizeof(*known));
	if (!known)
		return VC_NOT_THERE;
	*known = looked;
	return vc_set_add(torch->pages, &torch->types, type, &is_new);
}

struct vc_heap_type *vc_heap_type_known(struct vc_torch *torch, struct vc_python_object *type)
{
	struct vc_kind_memo *memo = &torch->memo[(uintptr_t)type >> 4 & (VC_KIND_MEMOS - 1)];
	struct vc_heap_type *row = (struct vc_heap_type *)torch->type.item;
	uint32_t number;

	if (memo->type == type)
		return row + memo->number;
	number = number_of(torch, type);
	if (number == VC_NOT_THERE)
		return NULL;
	row = (struct vc_heap_type *)torch->type.item;
	*memo = (struct vc_kind_memo){type, row[number].kind, number};
	return row + number;
}

/* ---- saved tensors of older releases ---- */

/* As pybind11 lays out an object that holds one thing, by a shared pointer. */
struct bound {
	void *head[2], *value, *holder[2], *weak;
	uint8_t owned : 1, simple : 1;
};

/*
 * Whether it keeps a tensor and not what a hook made of one: then its first field, the tensor, is that
 * without a value, which is a variable of libc10's.
 */
static bool without_hook(struct vc_torch *torch, struct vc_python_object *saved)
{
	const struct bound *bound = (const struct bound *)(const void *)saved;
	uint64_t tensor;

	if (vc_heap_kind(torch, saved) != VC_HEAP_SAVED || !torch->c10_high ||
	    (uint64_t)(uintptr_t)vc_object_field(vc_py_type(saved), VC_TYPE_BASIC_SIZE) < sizeof(*bound) ||
	    !bound->simple || !bound->value)
		return false;
	tensor = *(const uint64_t *)bound->value;
	return tensor && (tensor < torch->c10_low || tensor >= torch->c10_high);
}

bool vc_saved_bare(struct vc_torch *torch, struct vc_python_object *saved)
{
	if (vc_object_is_sequence(saved)) {
		if (!vc_sequence_length(saved))
			return false;
		saved = vc_sequence_items(saved)[0];
	}
	return vc_heap_kind(torch, saved) == VC_HEAP_SAVED && vc_heap_type(torch, vc_py_type(saved)).bare;
}

struct vc_python_object *vc_saved_unpacked(struct vc_torch *torch, struct vc_python_object *node,
					   const struct vc_saved_name *name,
					   struct vc_python_object *saved)
{
	bool several = vc_object_is_sequence(saved);
	uint64_t count = several ? vc_sequence_length(saved) : 1;

	for (uint64_t i = 0; i < count; i++)
		if (!without_hook(torch, several ? vc_sequence_items(saved)[i] : saved))
			return NULL;
	return name->unpacked ? vc_tensor_get(name->unpacked, node) : NULL;
}

/* ---- tensors ---- */

struct vc_python_object *vc_tensor_call(struct vc_python_object *method,
					struct vc_python_object *tensor)
{
	struct vc_python_object *arguments[1] = {tensor};
	struct vc_python_object *value = vc_py.PyObject_VectorcallDict(method, arguments, 1, NULL);

	if (!value)
		vc_py.PyErr_Clear();
	return value;
}

int64_t vc_tensor_number(struct vc_python_object *method, struct vc_python_object *tensor,
			 int64_t otherwise)
{
	struct vc_python_object *value = vc_tensor_call(method, tensor);
	int64_t number = otherwise;

	if (!value)
		return otherwise;
	if (vc_py_type(value) == vc_py.PyLong_Type)
		number = (int64_t)vc_py.PyLong_AsUnsignedLongLongMask(value);
	vc_py.Py_DecRef(value);
	return number;
}

struct vc_python_object *vc_tensor_get(struct vc_python_object *getter,
				       struct vc_python_object *tensor)
{
	struct vc_python_object *value = vc_descriptor_get(getter, tensor);

	if (value == vc_py._Py_NoneStruct) {
		vc_py.Py_DecRef(value);
		return NULL;
	}
	return value;
}

bool vc_tensor_is(struct vc_python_object *getter, struct vc_python_object *tensor)
{
	struct vc_python_object *value = vc_descriptor_get(getter, tensor);
	bool is = value == vc_py._Py_TrueStruct;

	if (value)
		vc_py.Py_DecRef(value);
	return is;
}

bool vc_tensor_view(const struct vc_torch *torch, struct vc_python_object *tensor)
{
	struct vc_python_object *value = vc_tensor_call(torch->_is_view, tensor);
	bool is = value == vc_py._Py_TrueStruct;

	if (value)
		vc_py.Py_DecRef(value);
	return is;
}

/* On the device "meta", as that of a fake tensor, at whose address one may not even look. */
static bool has_no_memory(const struct vc_torch *torch, struct vc_python_object *storage)
{
	struct vc_python_object *property = torch->storage_device;
	struct vc_python_object *device = property ? vc_descriptor_get(property, storage) : NULL;
	struct vc_python_object *text = device ? vc_py.PyObject_Str(device) : NULL;
	const char *words = text ? vc_object_text(text, NULL) : NULL;
	bool none = words && !strcmp(words, "meta");

	vc_py.PyErr_Clear();
	vc_py.Py_DecRef(text);
	vc_py.Py_DecRef(device);
	return none;
}

uint64_t vc_tensor_storage_itself(struct vc_torch *torch, struct vc_python_object *tensor)
{
	struct vc_python_object *storage = vc_tensor_call(torch->untyped_storage, tensor);
	int64_t address = storage && !has_no_memory(torch, storage) ?
				  vc_tensor_number(torch->storage_data_ptr, storage, 0) : 0;

	vc_py.Py_DecRef(storage);
	return (uint64_t)address;
}
