/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of all kinds, copies, fills, and what can be asked about an address. */
#include <string.h>

#include "runtime.h"

#define DEVICE(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

/* No bytes are no memory, and no error. */
static cudaError_t allocate(void **ret, size_t size)
{
	if (!ret)
		return cudaErrorInvalidValue;
	*ret = NULL;
	return size ? (cudaError_t)driver.cuMemAlloc((CUdeviceptr *)ret, size) : cudaSuccess;
}

static cudaError_t allocate_async(void **ret, size_t size, cudaStream_t stream)
{
	if (!ret)
		return cudaErrorInvalidValue;
	*ret = NULL;
	return size ? (cudaError_t)driver.cuMemAllocAsync((CUdeviceptr *)ret, size, stream) :
		      cudaSuccess;
}

static cudaError_t check_kind(enum cudaMemcpyKind kind)
{
	return (unsigned int)kind <= cudaMemcpyDefault ? cudaSuccess :
							 cudaErrorInvalidMemcpyDirection;
}

static cudaError_t copy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
	cudaError_t result = check_kind(kind);

	if (result != cudaSuccess || !size)
		return result;
	return (cudaError_t)driver.cuMemcpy(DEVICE(to), DEVICE(from), size);
}

static cudaError_t copy_async(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
			      cudaStream_t stream)
{
	cudaError_t result = check_kind(kind);

	if (result != cudaSuccess || !size)
		return result;
	return (cudaError_t)driver.cuMemcpyAsync(DEVICE(to), DEVICE(from), size, stream);
}

static cudaError_t copy_2d(void *to, size_t to_pitch, const void *from, size_t from_pitch,
			   size_t width, size_t height, cudaStream_t stream)
{
	const CUDA_MEMCPY2D plan = { .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
				     .srcDevice = DEVICE(from),
				     .srcPitch = from_pitch,
				     .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
				     .dstDevice = DEVICE(to),
				     .dstPitch = to_pitch,
				     .WidthInBytes = width,
				     .Height = height };

	return (cudaError_t)driver.cuMemcpy2DAsync(&plan, stream);
}

static cudaError_t pointer_attributes(struct cudaPointerAttributes *ret, const void *pointer)
{
	CUpointer_attribute wanted[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					 CU_POINTER_ATTRIBUTE_IS_MANAGED,
					 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					 CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
					 CU_POINTER_ATTRIBUTE_HOST_POINTER };
	unsigned int type = 0, managed = 0;
	int device = -2;
	void *device_pointer = NULL, *host_pointer = NULL;
	void *values[] = { &type, &managed, &device, &device_pointer, &host_pointer };
	cudaError_t result;

	if (!ret)
		return cudaErrorInvalidValue;
	result = (cudaError_t)driver.cuPointerGetAttributes(5, wanted, values, DEVICE(pointer));
	if (result != cudaSuccess)
		return result;
	memset(ret, 0, sizeof(*ret));
	if (managed)
		ret->type = cudaMemoryTypeManaged;
	else if (type == CU_MEMORYTYPE_HOST)
		ret->type = cudaMemoryTypeHost;
	else if (type == CU_MEMORYTYPE_DEVICE)
		ret->type = cudaMemoryTypeDevice;
	ret->device = device;
	ret->devicePointer = device_pointer;
	ret->hostPointer = type ? host_pointer : (void *)(uintptr_t)pointer;
	return cudaSuccess;
}

RUNTIME_CALL(cudaMalloc, (void **ret, size_t size), allocate(ret, size))
RUNTIME_CALL(cudaMallocAsync, (void **ret, size_t size, cudaStream_t stream),
	     allocate_async(ret, size, stream))
RUNTIME_CALL(cudaMallocManaged, (void **ret, size_t size, unsigned int flags),
	     driver.cuMemAllocManaged((CUdeviceptr *)ret, size, flags))
RUNTIME_CALL(cudaMallocPitch, (void **ret, size_t *pitch, size_t width, size_t height),
	     driver.cuMemAllocPitch((CUdeviceptr *)ret, pitch, width, height, 4))
RUNTIME_CALL(cudaFree, (void *pointer), driver.cuMemFree(DEVICE(pointer)))
RUNTIME_CALL(cudaFreeAsync, (void *pointer, cudaStream_t stream),
	     driver.cuMemFreeAsync(DEVICE(pointer), stream))
RUNTIME_CALL(cudaMallocHost, (void **ret, size_t size), driver.cuMemHostAlloc(ret, size, 0))
RUNTIME_CALL(cudaHostAlloc, (void **ret, size_t size, unsigned int flags),
	     driver.cuMemHostAlloc(ret, size, flags))
RUNTIME_CALL(cudaFreeHost, (void *pointer),
	     pointer ? driver.cuMemFreeHost(pointer) : CUDA_SUCCESS)
RUNTIME_CALL(cudaHostRegister, (void *pointer, size_t size, unsigned int flags),
	     driver.cuMemHostRegister(pointer, size, flags))
RUNTIME_CALL(cudaHostUnregister, (void *pointer), driver.cuMemHostUnregister(pointer))
RUNTIME_CALL(cudaHostGetDevicePointer, (void **ret, void *pointer, unsigned int flags),
	     driver.cuMemHostGetDevicePointer((CUdeviceptr *)ret, pointer, flags))
RUNTIME_CALL(cudaMemGetInfo, (size_t *unused, size_t *total), driver.cuMemGetInfo(unused, total))
RUNTIME_CALL(cudaMemcpy, (void *to, const void *from, size_t size, enum cudaMemcpyKind kind),
	     copy(to, from, size, kind))
RUNTIME_CALL(cudaMemcpyAsync,
	     (void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
	      cudaStream_t stream),
	     copy_async(to, from, size, kind, stream))
/* All addresses are in one space, so the devices need not be looked at. */
RUNTIME_CALL(cudaMemcpyPeerAsync,
	     (void *to, int to_device, const void *from, int from_device, size_t size,
	      cudaStream_t stream),
	     ((void)to_device, (void)from_device,
	      copy_async(to, from, size, cudaMemcpyDefault, stream)))
RUNTIME_CALL(cudaMemcpy2DAsync,
	     (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
	      size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
	     check_kind(kind) ? check_kind(kind) :
				copy_2d(to, to_pitch, from, from_pitch, width, height, stream))
RUNTIME_CALL(cudaMemset, (void *to, int value, size_t size),
	     driver.cuMemsetD8(DEVICE(to), (unsigned char)value, size))
RUNTIME_CALL(cudaMemsetAsync, (void *to, int value, size_t size, cudaStream_t stream),
	     driver.cuMemsetD8Async(DEVICE(to), (unsigned char)value, size, stream))
RUNTIME_CALL(cudaPointerGetAttributes, (struct cudaPointerAttributes *ret, const void *pointer),
	     pointer_attributes(ret, pointer))
RUNTIME_STARTED(cudaMemPoolGetAttribute, (cudaMemPool_t pool, int attribute, void *ret),
		driver.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, ret))
RUNTIME_STARTED(cudaMemPoolSetAttribute, (cudaMemPool_t pool, int attribute, void *value),
		driver.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value))
RUNTIME_STARTED(cudaMemPoolSetAccess,
		(cudaMemPool_t pool, const CUmemAccessDesc *access, size_t count),
		driver.cuMemPoolSetAccess(pool, access, count))
RUNTIME_STARTED(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep),
		driver.cuMemPoolTrimTo(pool, keep))
RUNTIME_CALL(cudaIpcGetMemHandle, (CUipcMemHandle *ret, void *pointer),
	     driver.cuIpcGetMemHandle(ret, DEVICE(pointer)))
RUNTIME_CALL(cudaIpcOpenMemHandle, (void **ret, CUipcMemHandle handle, unsigned int flags),
	     driver.cuIpcOpenMemHandle((CUdeviceptr *)ret, handle, flags))
RUNTIME_CALL(cudaIpcCloseMemHandle, (void *pointer), driver.cuIpcCloseMemHandle(DEVICE(pointer)))
