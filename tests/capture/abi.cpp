/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's own declarations of the driver's interface against the toolkit's header: arity,
 * and size and kind of every parameter of every row; sizes, offsets and values of what is read.
 * All is checked by the compiler.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "capture/cuda_abi.h"

template <class A, class B> struct same_parameter {
	static constexpr bool value = sizeof(A) == sizeof(B) &&
				      std::is_pointer<A>::value == std::is_pointer<B>::value &&
				      std::is_class<A>::value == std::is_class<B>::value;
};
/* A handle of ours is a plain pointer: what it points at is nobody's business. */
template <class A, class B> struct same_parameter<A *, B *> {
	static constexpr bool value = true;
};
template <class A> struct same_parameter<A **, void **> : std::true_type {
};

template <class A, class B> constexpr bool parameter_fits()
{
	return same_parameter<A, B>::value;
}
/* Pointed-at sizes matter where the recorder reads what the driver wrote. */
template <class A, class B> constexpr bool written_fits()
{
	if constexpr (std::is_pointer<A>::value && std::is_pointer<B>::value) {
		using theirs = std::remove_pointer_t<A>;
		using ours = std::remove_pointer_t<B>;

		/* Ours may leave a thing that it never reads open (void). */
		if constexpr (std::is_void<ours>::value)
			return true;
		else
			return sizeof(theirs) == sizeof(ours);
	} else {
		return true;
	}
}

template <class... A> struct pack {
};
template <class A, class B> struct packs_fit : std::false_type {
};
template <> struct packs_fit<pack<>, pack<>> : std::true_type {
};
template <class A, class... As, class B, class... Bs>
struct packs_fit<pack<A, As...>, pack<B, Bs...>> {
	static constexpr bool value = parameter_fits<A, B>() && written_fits<A, B>() &&
				      packs_fit<pack<As...>, pack<Bs...>>::value;
};
template <class Theirs, class Ours> struct fits : std::false_type {
};
template <class R, class... A, class S, class... B> struct fits<R(A...), S(B...)> {
	static constexpr bool value = sizeof(R) == sizeof(S) &&
				      packs_fit<pack<A...>, pack<B...>>::value;
};

#define VC_HOOK(symbol, parameters, arguments, effect, ...)                                        \
	static_assert(fits<decltype(::symbol), vc_cu_result parameters>::value, #symbol);
#define VC_HOOK_OWN(symbol, parameters, arguments)                                                 \
	static_assert(fits<decltype(::symbol), vc_cu_result parameters>::value, #symbol);
#include "capture/hooks.def"
#define VC_DRIVER_CALL(symbol, parameters)                                                         \
	static_assert(fits<decltype(::symbol), vc_cu_result parameters>::value, #symbol);
#include "capture/driver_calls.def"

/* The check itself: it must see a wrong size, a wrong arity and a value in place of a pointer. */
static_assert(!fits<CUresult(CUdeviceptr *, size_t), int(uint32_t *, size_t)>::value, "pointee");
static_assert(!fits<CUresult(CUdeviceptr *, size_t), int(uint64_t *, uint32_t)>::value, "size");
static_assert(!fits<CUresult(CUdeviceptr *, size_t), int(uint64_t *)>::value, "arity");
static_assert(!fits<CUresult(CUdeviceptr, size_t), int(void *, size_t)>::value, "kind");

static_assert(sizeof(CUmemAllocationProp) == sizeof(vc_cu_allocation_properties), "size");
static_assert(offsetof(CUmemAllocationProp, location) ==
		      offsetof(vc_cu_allocation_properties, location), "offset");
static_assert(sizeof(CUmemPoolProps) == sizeof(vc_cu_pool_properties), "size");
static_assert(offsetof(CUmemPoolProps, location) == offsetof(vc_cu_pool_properties, location),
	      "offset");
static_assert(sizeof(CUmemLocation) == sizeof(vc_cu_location), "size");
static_assert(offsetof(CUmemLocation, id) == offsetof(vc_cu_location, id), "offset");
static_assert(sizeof(CUmemPoolPtrExportData) == sizeof(vc_cu_pool_export), "size");
static_assert(sizeof(CUipcMemHandle) == sizeof(vc_cu_ipc_handle), "size");
static_assert(sizeof(CUmulticastObjectProp) == sizeof(vc_cu_multicast_properties), "size");
static_assert(offsetof(CUmulticastObjectProp, size) ==
		      offsetof(vc_cu_multicast_properties, size), "offset");
static_assert(sizeof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC) == sizeof(vc_cu_external_memory), "size");
static_assert(offsetof(CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size) ==
		      offsetof(vc_cu_external_memory, size), "offset");
static_assert(sizeof(CUDA_EXTERNAL_MEMORY_BUFFER_DESC) == sizeof(vc_cu_external_buffer), "size");
static_assert(sizeof(CUDA_ARRAY_DESCRIPTOR_v1) == sizeof(vc_cu_array_shape32), "size");
static_assert(sizeof(CUDA_ARRAY_DESCRIPTOR_v2) == sizeof(vc_cu_array_shape), "size");
static_assert(sizeof(CUDA_ARRAY3D_DESCRIPTOR_v1) == sizeof(vc_cu_array3d_shape32), "size");
static_assert(sizeof(CUDA_ARRAY3D_DESCRIPTOR_v2) == sizeof(vc_cu_array3d_shape), "size");
static_assert(offsetof(CUDA_ARRAY3D_DESCRIPTOR_v2, Flags) == offsetof(vc_cu_array3d_shape, flags),
	      "offset");
static_assert((int)CU_GRAPH_NODE_TYPE_MEM_ALLOC == (int)VC_CU_NODE_ALLOCATE, "value");
static_assert(offsetof(CUgraphNodeParams, type) == 0, "offset");
static_assert(CUDA_ARRAY3D_SPARSE == (int)VC_CU_ARRAY_SPARSE, "value");
static_assert(CUDA_ARRAY3D_DEFERRED_MAPPING == (int)VC_CU_ARRAY_DEFERRED, "value");
static_assert(sizeof(CUuuid) == sizeof(vc_cu_uuid), "size");
static_assert(CUDA_SUCCESS == (int)VC_CU_SUCCESS, "value");
static_assert((int)CUDA_ERROR_OUT_OF_MEMORY == (int)VC_CU_OUT_OF_MEMORY, "value");
static_assert((int)CUDA_ERROR_DEINITIALIZED == (int)VC_CU_DEINITIALIZED, "value");
static_assert((int)CUDA_ERROR_SHARED_OBJECT_INIT_FAILED == (int)VC_CU_LIBRARY_MISSING, "value");
static_assert((int)CUDA_ERROR_NOT_SUPPORTED == (int)VC_CU_NOT_SUPPORTED, "value");
static_assert((int)CU_MEM_LOCATION_TYPE_DEVICE == (int)VC_CU_LOCATION_DEVICE, "value");

int main()
{
	return 0;
}
