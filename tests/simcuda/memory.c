/* SPDX-License-Identifier: Apache-2.0 */
/* Linear, pitched and managed device memory, and what can be asked about an address. */
#include "sim.h"

#define PITCH 512ull

static CUresult allocate(struct sim_object *context, struct sim_space *space, uint32_t kind,
			 uint64_t size, uint64_t *ret)
{
	struct sim_request request = { .space = space,
				       .size = size,
				       .kind = kind,
				       .device = context->device,
				       .charged = kind != SIM_ROW_MANAGED,
				       .whole = kind == SIM_ROW_MANAGED,
				       .context = sim_object_handle(context) };
	struct sim_range *range;
	CUresult result;

	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	if (!space)
		return CUDA_ERROR_OUT_OF_MEMORY;
	request.heap = sim_heap_at(sim_devices[context->device].heaps, sim_thread_shard());
	result = sim_range_create(&request, &range);
	if (result == CUDA_SUCCESS)
		*ret = range->base;
	return result;
}

static CUresult allocate_linear(struct sim_object *context, CUdeviceptr *ret, size_t size)
{
	uint64_t address;
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	result = allocate(context, &sim_main_space, SIM_ROW_LINEAR, size, &address);
	if (result == CUDA_SUCCESS)
		*ret = address;
	return result;
}

static CUresult allocate_linear_v1(struct sim_object *context, CUdeviceptr_v1 *ret,
				   unsigned int size)
{
	uint64_t address;
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	result = allocate(context, sim_space_low(), SIM_ROW_LINEAR, size, &address);
	if (result == CUDA_SUCCESS)
		*ret = (CUdeviceptr_v1)address;
	return result;
}

static CUresult allocate_pitch(struct sim_object *context, struct sim_space *space, uint64_t *ret,
			       size_t *pitch, size_t width, size_t height, unsigned int element)
{
	size_t line = (width + PITCH - 1) / PITCH * PITCH;
	size_t size;
	CUresult result;

	if (!width || !height || (element != 4 && element != 8 && element != 16) || line < width)
		return CUDA_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(line, height, &size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = allocate(context, space, SIM_ROW_PITCHED, size, ret);
	if (result == CUDA_SUCCESS)
		*pitch = line;
	return result;
}

static CUresult allocate_pitch_v2(struct sim_object *context, CUdeviceptr *ret, size_t *pitch,
				  size_t width, size_t height, unsigned int element)
{
	uint64_t address;
	CUresult result;

	if (!ret || !pitch)
		return CUDA_ERROR_INVALID_VALUE;
	result = allocate_pitch(context, &sim_main_space, &address, pitch, width, height, element);
	if (result == CUDA_SUCCESS)
		*ret = address;
	return result;
}

static CUresult allocate_pitch_v1(struct sim_object *context, CUdeviceptr_v1 *ret,
				  unsigned int *pitch, unsigned int width, unsigned int height,
				  unsigned int element)
{
	uint64_t address;
	size_t line;
	CUresult result;

	if (!ret || !pitch)
		return CUDA_ERROR_INVALID_VALUE;
	result = allocate_pitch(context, sim_space_low(), &address, &line, width, height, element);
	if (result == CUDA_SUCCESS) {
		*ret = (CUdeviceptr_v1)address;
		*pitch = (unsigned int)line;
	}
	return result;
}

static CUresult allocate_managed(struct sim_object *context, CUdeviceptr *ret, size_t size,
				 unsigned int flags)
{
	uint64_t address;
	CUresult result;

	if (!ret || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	result = allocate(context, &sim_main_space, SIM_ROW_MANAGED, size, &address);
	if (result == CUDA_SUCCESS)
		*ret = address;
	return result;
}

CUresult sim_free_device(uint64_t address)
{
	struct sim_range gone;
	CUresult result;

	if (!address)
		return CUDA_SUCCESS;
	result = sim_range_destroy(address, SIM_FREEABLE, &gone);
	if (result != CUDA_SUCCESS)
		return sim_graph_free_now(address) == CUDA_SUCCESS ? CUDA_SUCCESS : result;
	if (gone.kind == SIM_ROW_ASYNC)
		sim_pool_credit(gone.pool, gone.requested);
	return result;
}

/* --- questions about an address --- */

struct place {
	uint64_t base;
	uint64_t size;
	int device;
	uint64_t context;
	uint64_t pool;
	uint64_t id;
	bool host;
	bool managed;
};

static bool find_place(uint64_t address, struct place *ret)
{
	struct sim_range range;
	struct sim_host host;

	if (sim_range_find(address, &range)) {
		const struct place found = { range.base,
					     range.requested,
					     range.device,
					     range.context,
					     range.pool ? sim_object_handle(range.pool) : 0,
					     range.id,
					     false,
					     range.kind == SIM_ROW_MANAGED };

		*ret = found;
		if (range.kind == SIM_ROW_RESERVATION)
			sim_mapping_device(address, &ret->device);
		return address - range.base < range.requested;
	}
	if (sim_host_find(address, &host)) {
		const struct place found = { .base = host.address,
					     .size = host.size,
					     .device = host.device,
					     .context = host.context,
					     .host = true };

		*ret = found;
		return true;
	}
	return false;
}

static CUresult address_range(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	struct place place;

	if (!find_place(address, &place))
		return CUDA_ERROR_NOT_FOUND;
	if (base)
		*base = place.base;
	if (size)
		*size = place.size;
	return CUDA_SUCCESS;
}

static CUresult address_range_v1(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 address)
{
	CUdeviceptr wide;
	size_t bytes;
	CUresult result = address_range(&wide, &bytes, address);

	if (result != CUDA_SUCCESS)
		return result;
	if (base)
		*base = (CUdeviceptr_v1)wide;
	if (size)
		*size = (unsigned int)bytes;
	return CUDA_SUCCESS;
}

static CUresult pointer_attribute(void *data, int attribute, const struct place *place,
				  CUdeviceptr address)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*(CUcontext *)data = (CUcontext)place->context;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data = place->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!place->host && !place->managed)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)address;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		*(unsigned long long *)data = place->id;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(unsigned int *)data = place->managed;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = place->device;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = place->base;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = place->size;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned int *)data = 1;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(CUmemoryPool *)data = (CUmemoryPool)place->pool;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static CUresult get_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	struct place place;

	if (!data || !find_place(address, &place))
		return CUDA_ERROR_INVALID_VALUE;
	return pointer_attribute(data, (int)attribute, &place, address);
}

/* For an address that is nothing of the driver's, every value is the zero of its type. */
static void clear_attribute(void *data, int attribute)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(unsigned int *)data = 0;
		return;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = -2;
		return;
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*(uint64_t *)data = 0;
		return;
	default:
		return;
	}
}

static CUresult get_attributes(unsigned int count, CUpointer_attribute *attributes, void **data,
			       CUdeviceptr address)
{
	struct place place;
	bool known = find_place(address, &place);

	if (!count || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++)
		if (!known || pointer_attribute(data[i], (int)attributes[i], &place, address))
			clear_attribute(data[i], (int)attributes[i]);
	return CUDA_SUCCESS;
}

SIM_ENTRY_CONTEXT(cuMemAlloc, (CUdeviceptr_v1 *ret, unsigned int size),
		  allocate_linear_v1(context, ret, size))
SIM_ENTRY_CONTEXT(cuMemAlloc_v2, (CUdeviceptr *ret, size_t size),
		  allocate_linear(context, ret, size))
SIM_ENTRY_CONTEXT(cuMemAllocPitch,
		  (CUdeviceptr_v1 *ret, unsigned int *pitch, unsigned int width,
		   unsigned int height, unsigned int element),
		  allocate_pitch_v1(context, ret, pitch, width, height, element))
SIM_ENTRY_CONTEXT(cuMemAllocPitch_v2,
		  (CUdeviceptr *ret, size_t *pitch, size_t width, size_t height,
		   unsigned int element),
		  allocate_pitch_v2(context, ret, pitch, width, height, element))
SIM_ENTRY_CONTEXT(cuMemAllocManaged, (CUdeviceptr *ret, size_t size, unsigned int flags),
		  allocate_managed(context, ret, size, flags))
SIM_ENTRY_CONTEXT(cuMemFree, (CUdeviceptr_v1 address), sim_free_device(address))
SIM_ENTRY_CONTEXT(cuMemFree_v2, (CUdeviceptr address), sim_free_device(address))
SIM_ENTRY_CONTEXT(cuMemGetAddressRange,
		  (CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 address),
		  address_range_v1(base, size, address))
SIM_ENTRY_CONTEXT(cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *size, CUdeviceptr address),
		  address_range(base, size, address))
SIM_ENTRY(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr address),
	  get_attribute(data, attribute, address))
SIM_ENTRY(cuPointerGetAttributes,
	  (unsigned int count, CUpointer_attribute *attributes, void **data, CUdeviceptr address),
	  get_attributes(count, attributes, data, address))
