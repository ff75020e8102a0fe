/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an object is to the walk, told from its type alone, and PyTorch's own accessors.
 *
 * An object's type is asked, never the object: a proxy's __class__ would run. A tensor is read by
 * the descriptors of torch._C.TensorBase, so that no subclass gets in between. Of a type with a
 * __torch_dispatch__ of its own even sizes, device and address may be answered by its code: of such
 * a tensor only the storage and the type of its elements are asked, which never are. What is found
 * is kept for the time of one walk. CTX: the GIL held, inside vc_torch_quiet.
 */
#ifndef VC_CAPTURE_INSIDE_TENSOR_TYPES_H
#define VC_CAPTURE_INSIDE_TENSOR_TYPES_H

#include "capture/inside/objects.h"
#include "capture/inside/pages.h"

enum vc_heap_kind {
	VC_HEAP_OTHER,
	VC_HEAP_TENSOR,
	VC_HEAP_MODULE,
	VC_HEAP_OPTIMIZER,
	VC_HEAP_NODE,       /* of the autograd graph */
	VC_HEAP_SAVED,      /* a SavedTensor */
	VC_HEAP_DULL,       /* nothing behind it can be a tensor: numbers, texts, code */
};

#define VC_KIND_MEMOS 1024u

/** A descriptor of a node's type and the name of what it saves. */
struct vc_saved_name {
	struct vc_python_object *descriptor;
	struct vc_python_object *unpacked; /* that of the tensor itself, which runs hooks; NULL */
	char name[32];
	uint32_t text, detail; /* the walk's strings for it; 0: not made yet */
};

struct vc_heap_type {
	uint8_t kind;       /* enum vc_heap_kind */
	bool plain;         /* a tensor: torch.Tensor, Parameter or Buffer themselves */
	bool dispatches;    /* a tensor: of a class with its own __torch_dispatch__ */
	bool parameter;     /* a tensor: nn.Parameter or a subclass */
	bool main_grad;     /* a tensor: `main_grad` is nothing that its class computes */
	bool has_dict;      /* a node: its instances have attributes of their own */
	bool bare;          /* a saved tensor: of a release that shows nothing of it */
	uint8_t saved_count;/* a node: names from saved_first on */
	uint32_t saved_first;
	uint32_t text;      /* the walk's string for its name; 0: not made yet */
	struct vc_python_object *next_functions; /* a node: descriptor */
	struct vc_python_object *variable;       /* an AccumulateGrad: descriptor */
};

/** Accessors of TensorBase: VC_TENSOR_GETTER (an attribute), VC_TENSOR_METHOD (to be called). */
#define VC_TENSOR_ACCESSORS(GETTER, METHOD)                                                        \
	METHOD(data_ptr)                                                                           \
	METHOD(storage_offset)                                                                     \
	METHOD(element_size)                                                                       \
	METHOD(get_device)                                                                         \
	METHOD(_is_view)                                                                           \
	METHOD(stride)                                                                             \
	METHOD(untyped_storage)                                                                    \
	GETTER(grad)                                                                               \
	GETTER(grad_fn)                                                                            \
	GETTER(_base)                                                                              \
	GETTER(is_leaf)                                                                            \
	GETTER(retains_grad)                                                                       \
	GETTER(requires_grad)                                                                      \
	GETTER(layout)                                                                             \
	GETTER(dtype)                                                                              \
	GETTER(shape)                                                                              \
	GETTER(is_meta)

struct vc_torch {
	struct vc_python_object *base;            /* torch._C.TensorBase */
	struct vc_python_object *tensor, *parameter, *buffer;
	struct vc_python_object *module, *optimizer; /* NULL: not loaded */
	struct vc_python_object *strided, *mkldnn;
	struct vc_python_object *storage_data_ptr; /* method of torch._C.StorageBase */
	struct vc_python_object *storage_device;   /* property of it; NULL: it has none */
	struct vc_python_object *quiet;           /* a DisableTorchFunction, entered */
	struct vc_python_object *collector;       /* module gc */
	struct vc_python_object *text_data, *text_unpack_hook, *text_main_grad;
#define VC_TENSOR_ACCESSOR(name) struct vc_python_object *name;
	VC_TENSOR_ACCESSORS(VC_TENSOR_ACCESSOR, VC_TENSOR_ACCESSOR)
#undef VC_TENSOR_ACCESSOR
	uint64_t c10_low, c10_high; /* where libc10.so is; 0: not known */
	bool operators;    /* dispatched operators may be called: no mode, no functorch */
	struct vc_pages *pages;
	struct vc_set types;           /* type objects */
	struct vc_array type;          /* struct vc_heap_type by number */
	struct vc_array saved_names;   /* struct vc_saved_name */
	struct vc_kind_memo {          /* kinds of the types asked for last, by their address */
		const struct vc_python_object *type;
		uint32_t kind;
		uint32_t number; /* of its row */
	} memo[VC_KIND_MEMOS];
};

/**
 * Finds PyTorch in the interpreter and has it ask no __torch_function__ on this thread until
 * vc_torch_done. False: torch is not loaded, or not as known; *ret_why says which.
 */
bool vc_torch_quiet(struct vc_torch *torch, struct vc_pages *pages, const char **ret_why);
void vc_torch_done(struct vc_torch *torch);

/** What is known of a type, until the next one is looked at; NULL: memory is full. */
struct vc_heap_type *vc_heap_type_known(struct vc_torch *torch, struct vc_python_object *type);
/** The same; once memory is full, new ones are "other". */
static inline struct vc_heap_type vc_heap_type(struct vc_torch *torch,
					       struct vc_python_object *type)
{
	const struct vc_heap_type *known = vc_heap_type_known(torch, type);

	return known ? *known : (struct vc_heap_type){0};
}
static inline enum vc_heap_kind vc_heap_kind(struct vc_torch *torch,
					     struct vc_python_object *object)
{
	struct vc_python_object *type = vc_py_type(object);
	struct vc_kind_memo *memo = &torch->memo[(uintptr_t)type >> 4 & (VC_KIND_MEMOS - 1)];

	if (__builtin_expect(memo->type != type, 0))
		return (enum vc_heap_kind)vc_heap_type(torch, type).kind;
	return (enum vc_heap_kind)memo->kind;
}
/** Until the next type is looked at. */
static inline struct vc_saved_name *vc_saved_name(const struct vc_torch *torch, uint32_t number)
{
	return (struct vc_saved_name *)torch->saved_names.item + number;
}

/** Whether a saved tensor, or the first of several, is of a release that shows nothing of it. */
bool vc_saved_bare(struct vc_torch *torch, struct vc_python_object *saved);
/**
 * What such a one keeps, unpacked by its node: a new reference to a tensor or a sequence. NULL where a hook would
 * run for it.
 */
struct vc_python_object *vc_saved_unpacked(struct vc_torch *torch, struct vc_python_object *node,
					   const struct vc_saved_name *name,
					   struct vc_python_object *saved);

/** A method of TensorBase called without arguments; a new reference, NULL: it raised (cleared). */
struct vc_python_object *vc_tensor_call(struct vc_python_object *method,
					struct vc_python_object *tensor);
/** The same for a number; `otherwise` where it is none. */
int64_t vc_tensor_number(struct vc_python_object *method, struct vc_python_object *tensor,
			 int64_t otherwise);
/** An attribute or method that gives True. */
bool vc_tensor_is(struct vc_python_object *getter, struct vc_python_object *tensor);
bool vc_tensor_view(const struct vc_torch *torch, struct vc_python_object *tensor);
/** An attribute as a new reference; NULL for None and where it raised. */
struct vc_python_object *vc_tensor_get(struct vc_python_object *getter,
				       struct vc_python_object *tensor);
/** Address of its storage by the storage's object, which asks nothing of the tensor's class. */
uint64_t vc_tensor_storage_itself(struct vc_torch *torch, struct vc_python_object *tensor);

#endif
