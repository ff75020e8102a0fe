/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of other interfaces, and green contexts.
 *
 * External memory is taken as described: it costs nothing here, and what is mapped of it has
 * addresses of its own. A green context is a name for the device's own context, which it keeps; how
 * the device is divided is not written down.
 */
#include <unistd.h>

#include "sim.h"

/* --- external memory --- */

static CUresult import(struct sim_object *context, CUexternalMemory *ret,
		       const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description)
{
	struct sim_object *memory;

	if (!ret || !description || !description->size ||
	    (description->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
	     description->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD))
		return CUDA_ERROR_INVALID_VALUE;
	memory = sim_object_create(SIM_EXTERNAL);
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* The descriptor is the driver's from now on. */
	if (description->handle.fd > 2)
		close(description->handle.fd);
	memory->device = context->device;
	memory->context = sim_object_handle(context);
	memory->external.size = description->size;
	memory->row = sim_judge_add(SIM_ROW_IMPORT, sim_object_handle(memory), description->size,
				    memory->device, memory->context);
	*ret = (CUexternalMemory)sim_object_handle(memory);
	return CUDA_SUCCESS;
}

static CUresult map_buffer(struct sim_object *context, CUdeviceptr *ret, CUexternalMemory handle,
			   const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description)
{
	struct sim_object *memory = sim_object_find(SIM_EXTERNAL, (uint64_t)handle);
	struct sim_request request = { .space = &sim_main_space,
				       .kind = SIM_ROW_MAPPING,
				       .device = context->device,
				       .whole = true,
				       .context = sim_object_handle(context) };
	struct sim_range *range;
	CUresult result;

	if (!memory)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret || !description || !description->size || description->flags ||
	    description->offset > memory->external.size ||
	    description->size > memory->external.size - description->offset)
		return CUDA_ERROR_INVALID_VALUE;
	request.size = description->size;
	result = sim_range_create(&request, &range);
	if (result == CUDA_SUCCESS)
		*ret = range->base;
	return result;
}

static CUresult destroy(enum sim_object_type type, uint64_t handle)
{
	struct sim_object *object = sim_object_find(type, handle);

	if (!object)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_object_destroy(object);
	return CUDA_SUCCESS;
}

/* --- green contexts --- */

static CUresult describe(CUdevResourceDesc *ret, CUdevResource *resources, unsigned int count)
{
	struct sim_object *description;

	if (!ret || !resources || !count)
		return CUDA_ERROR_INVALID_VALUE;
	description = sim_object_create(SIM_RESOURCES);
	if (!description)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUdevResourceDesc)sim_object_handle(description);
	return CUDA_SUCCESS;
}

static CUresult create_green(CUgreenCtx *ret, CUdevResourceDesc description, CUdevice device,
			     unsigned int flags)
{
	struct sim_object *green;
	CUresult result;

	if (!ret || flags != CU_GREEN_CTX_DEFAULT_STREAM ||
	    !sim_object_find(SIM_RESOURCES, (uint64_t)description))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_primary_retain(device);
	if (result != CUDA_SUCCESS)
		return result;
	green = sim_object_create(SIM_GREEN);
	if (!green) {
		sim_primary_release(device);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	green->device = device;
	green->row = sim_judge_add(SIM_ROW_GREEN_CONTEXT, sim_object_handle(green), 0, device, 0);
	*ret = (CUgreenCtx)sim_object_handle(green);
	return CUDA_SUCCESS;
}

static CUresult destroy_green(CUgreenCtx handle)
{
	struct sim_object *green = sim_object_find(SIM_GREEN, (uint64_t)handle);
	CUdevice device = green ? green->device : 0;
	CUresult result = destroy(SIM_GREEN, (uint64_t)handle);

	if (result == CUDA_SUCCESS)
		sim_primary_release(device);
	return result;
}

static CUresult context_of_green(CUcontext *ret, CUgreenCtx handle)
{
	struct sim_object *green = sim_object_find(SIM_GREEN, (uint64_t)handle);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!green)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = (CUcontext)sim_object_handle(sim_devices[green->device].primary);
	return CUDA_SUCCESS;
}

static CUresult create_stream(CUstream *ret, CUgreenCtx handle, unsigned int flags, int priority)
{
	struct sim_object *green = sim_object_find(SIM_GREEN, (uint64_t)handle);

	if (!green)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags != 1) /* CU_STREAM_NON_BLOCKING, the only one there is */
		return CUDA_ERROR_INVALID_VALUE;
	return sim_stream_create(sim_devices[green->device].primary, ret, flags, priority);
}

SIM_ENTRY_CONTEXT(cuImportExternalMemory,
		  (CUexternalMemory *ret, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *description),
		  import(context, ret, description))
SIM_ENTRY_CONTEXT(cuExternalMemoryGetMappedBuffer,
		  (CUdeviceptr *ret, CUexternalMemory memory,
		   const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *description),
		  map_buffer(context, ret, memory, description))
SIM_ENTRY_CONTEXT(cuDestroyExternalMemory, (CUexternalMemory memory),
		  destroy(SIM_EXTERNAL, (uint64_t)memory))
SIM_ENTRY(cuDevResourceGenerateDesc,
	  (CUdevResourceDesc *ret, CUdevResource *resources, unsigned int count),
	  describe(ret, resources, count))
SIM_ENTRY(cuGreenCtxCreate,
	  (CUgreenCtx *ret, CUdevResourceDesc description, CUdevice device, unsigned int flags),
	  create_green(ret, description, device, flags))
SIM_ENTRY(cuGreenCtxDestroy, (CUgreenCtx green), destroy_green(green))
SIM_ENTRY(cuCtxFromGreenCtx, (CUcontext *ret, CUgreenCtx green), context_of_green(ret, green))
SIM_ENTRY(cuGreenCtxStreamCreate,
	  (CUstream *ret, CUgreenCtx green, unsigned int flags, int priority),
	  create_stream(ret, green, flags, priority))
