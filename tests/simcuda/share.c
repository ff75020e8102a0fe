/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that comes from elsewhere: shareable handles, pool pointers, and legacy IPC.
 *
 * What is passed between processes is a description. An import has addresses of its own and costs
 * its device nothing, as on a real machine, but it does not show the exporter's bytes.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define MAGIC 0x657261685343ull /* "CShare" */

enum what { A_HANDLE = 1, A_POOL, A_POOL_POINTER, AN_ALLOCATION };

struct description {
	uint64_t magic;
	uint32_t what;
	int32_t pid;
	int32_t device;
	uint32_t location; /* CUmemLocationType */
	uint64_t address;
	uint64_t size;
	uint8_t reserved[24];
};

_Static_assert(sizeof(struct description) == CU_IPC_HANDLE_SIZE, "fits what is passed on");

/* The description in a descriptor that the program owns, as a real one would. */
static CUresult to_descriptor(const struct description *description, void *ret)
{
	int fd = memfd_create("simcuda-shared", MFD_CLOEXEC);

	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (write(fd, description, sizeof(*description)) != sizeof(*description)) {
		close(fd);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	memcpy(ret, &fd, sizeof(fd));
	return CUDA_SUCCESS;
}

static bool makes_sense(const struct description *description, enum what what)
{
	return description->magic == MAGIC && description->what == (uint32_t)what &&
	       (description->device == -1 || sim_device_valid(description->device));
}

static CUresult from_descriptor(void *handle, enum what what, struct description *ret)
{
	int fd = (int)(intptr_t)handle;

	if (pread(fd, ret, sizeof(*ret), 0) != sizeof(*ret) || !makes_sense(ret, what))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult export_handle(void *ret, CUmemGenericAllocationHandle handle,
			      CUmemAllocationHandleType type)
{
	struct description description = { .magic = MAGIC, .what = A_HANDLE, .pid = getpid() };
	CUmemAllocationProp properties;
	CUresult result = sim_handle_describe(handle, &properties, &description.size);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ret || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !(properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
		return CUDA_ERROR_INVALID_VALUE;
	description.location = properties.location.type;
	description.device = properties.location.id;
	return to_descriptor(&description, ret);
}

static CUresult import_handle(CUmemGenericAllocationHandle *ret, void *shared,
			      CUmemAllocationHandleType type)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED };
	struct description description;
	uint64_t handle;
	CUresult result;

	if (!ret || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	result = from_descriptor(shared, A_HANDLE, &description);
	if (result != CUDA_SUCCESS)
		return result;
	properties.location.type = (CUmemLocationType)description.location;
	properties.location.id = description.device;
	properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	result = sim_handle_create(description.size, &properties, SIM_ROW_IMPORT, &handle);
	if (result == CUDA_SUCCESS)
		*ret = handle;
	return result;
}

static CUresult export_pool(void *ret, CUmemoryPool handle, CUmemAllocationHandleType type)
{
	struct description description = { .magic = MAGIC, .what = A_POOL, .pid = getpid() };
	struct sim_object *pool = sim_pool_find(handle);

	if (!pool)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || pool->pool.standing)
		return CUDA_ERROR_INVALID_VALUE;
	description.device = pool->device;
	return to_descriptor(&description, ret);
}

static CUresult import_pool(CUmemoryPool *ret, void *shared, CUmemAllocationHandleType type)
{
	struct description description;
	CUresult result;

	if (!ret || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	result = from_descriptor(shared, A_POOL, &description);
	return result != CUDA_SUCCESS ? result : sim_pool_import(description.device, ret);
}

/* Describes the allocation that starts or lies at the address, if it is of the kind. */
static CUresult describe(uint64_t address, uint32_t kind, enum what what, void *ret)
{
	struct description description = { .magic = MAGIC, .what = what, .pid = getpid() };
	struct sim_range range;

	if (!ret || !sim_range_find(address, &range) || range.kind != kind)
		return CUDA_ERROR_INVALID_VALUE;
	description.device = range.device;
	description.address = range.base;
	description.size = range.requested;
	memcpy(ret, &description, sizeof(description));
	return CUDA_SUCCESS;
}

static CUresult import_range(struct sim_object *context, const struct description *description,
			     uint32_t kind, CUdeviceptr *ret)
{
	struct sim_request request = { .space = &sim_main_space,
				       .size = description->size,
				       .kind = kind,
				       .device = description->device,
				       .whole = true,
				       .context = sim_object_handle(context) };
	struct sim_range *range;
	CUresult result = sim_range_create(&request, &range);

	if (result == CUDA_SUCCESS)
		*ret = range->base;
	return result;
}

static CUresult import_pool_pointer(struct sim_object *context, CUdeviceptr *ret,
				    CUmemoryPool handle, const CUmemPoolPtrExportData *data)
{
	struct sim_object *pool = sim_pool_find(handle);
	struct description description;

	if (!ret || !data)
		return CUDA_ERROR_INVALID_VALUE;
	if (!pool)
		return CUDA_ERROR_INVALID_HANDLE;
	memcpy(&description, data, sizeof(description));
	if (!pool->pool.imported || !makes_sense(&description, A_POOL_POINTER))
		return CUDA_ERROR_INVALID_VALUE;
	return import_range(context, &description, SIM_ROW_IMPORT, ret);
}

static CUresult open_ipc(struct sim_object *context, CUdeviceptr *ret, CUipcMemHandle handle,
			 unsigned int flags)
{
	struct description description;

	memcpy(&description, &handle, sizeof(description));
	if (!ret || flags > 1 || !makes_sense(&description, AN_ALLOCATION))
		return CUDA_ERROR_INVALID_VALUE;
	if (description.pid == getpid()) /* not for the exporter itself */
		return CUDA_ERROR_INVALID_CONTEXT;
	return import_range(context, &description, SIM_ROW_IPC, ret);
}

static CUresult close_ipc(CUdeviceptr address)
{
	struct sim_range gone;

	return sim_range_destroy(address, 1u << SIM_ROW_IPC, &gone);
}

SIM_ENTRY(cuMemExportToShareableHandle,
	  (void *ret, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
	   unsigned long long flags),
	  flags ? CUDA_ERROR_INVALID_VALUE : export_handle(ret, handle, type))
SIM_ENTRY(cuMemImportFromShareableHandle,
	  (CUmemGenericAllocationHandle *ret, void *shared, CUmemAllocationHandleType type),
	  import_handle(ret, shared, type))
SIM_ENTRY(cuMemPoolExportToShareableHandle,
	  (void *ret, CUmemoryPool pool, CUmemAllocationHandleType type, unsigned long long flags),
	  flags ? CUDA_ERROR_INVALID_VALUE : export_pool(ret, pool, type))
SIM_ENTRY(cuMemPoolImportFromShareableHandle,
	  (CUmemoryPool *ret, void *shared, CUmemAllocationHandleType type,
	   unsigned long long flags),
	  flags ? CUDA_ERROR_INVALID_VALUE : import_pool(ret, shared, type))
SIM_ENTRY(cuMemPoolExportPointer, (CUmemPoolPtrExportData *ret, CUdeviceptr address),
	  describe(address, SIM_ROW_ASYNC, A_POOL_POINTER, ret))
SIM_ENTRY_CONTEXT(cuMemPoolImportPointer,
		  (CUdeviceptr *ret, CUmemoryPool pool, CUmemPoolPtrExportData *data),
		  import_pool_pointer(context, ret, pool, data))
SIM_ENTRY_CONTEXT(cuIpcGetMemHandle, (CUipcMemHandle *ret, CUdeviceptr address),
		  describe(address, SIM_ROW_LINEAR, AN_ALLOCATION, ret))
SIM_ENTRY_CONTEXT(cuIpcOpenMemHandle,
		  (CUdeviceptr *ret, CUipcMemHandle handle, unsigned int flags),
		  open_ipc(context, ret, handle, flags))
SIM_ENTRY_CONTEXT(cuIpcOpenMemHandle_v2,
		  (CUdeviceptr *ret, CUipcMemHandle handle, unsigned int flags),
		  open_ipc(context, ret, handle, flags))
SIM_ENTRY_CONTEXT(cuIpcCloseMemHandle, (CUdeviceptr address), close_ipc(address))
