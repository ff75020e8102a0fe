/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: what can be asked about them. */
#include <string.h>

#include "runtime.h"

#define NONE -1

static cudaError_t get_count(int *ret)
{
	if (!ret)
		return cudaErrorInvalidValue;
	*ret = 0;
	return (cudaError_t)driver.cuDeviceGetCount(ret);
}

static int attribute_of(int device, int attribute)
{
	int value = 0;

	driver.cuDeviceGetAttribute(&value, (CUdevice_attribute)attribute, device);
	return value;
}

static void fill_properties(struct cudaDeviceProp *ret, int device)
{
	size_t total = 0;

	driver.cuDeviceGetName(ret->name, sizeof(ret->name), device);
	driver.cuDeviceGetUuid(&ret->uuid, device);
	driver.cuDeviceTotalMem(&total, device);
#define DEVICE_PROPERTY(type, field, count, attribute)                                             \
	for (int i = 0; i < (count) && (attribute) != -1; i++)                                     \
		ret->field[i] = (attribute) ? (type)attribute_of(device, (attribute) + i) :        \
					      (type)total;
#include "device_properties.def"
#undef DEVICE_PROPERTY
}

static cudaError_t get_properties(struct cudaDeviceProp *ret, int device)
{
	int count = 0;

	if (!ret)
		return cudaErrorInvalidValue;
	driver.cuDeviceGetCount(&count);
	if (device < 0 || device >= count)
		return cudaErrorInvalidDevice;
	memset(ret, 0, sizeof(*ret));
	fill_properties(ret, device);
	return cudaSuccess;
}

static cudaError_t enable_peer(int peer, unsigned int flags)
{
	CUcontext context;
	cudaError_t result = runtime_primary(peer, &context);

	return result == cudaSuccess ? (cudaError_t)driver.cuCtxEnablePeerAccess(context, flags) :
				       result;
}

RUNTIME_STARTED(cudaGetDeviceCount, (int *ret), get_count(ret))
RUNTIME_STARTED(cudaGetDeviceProperties, (struct cudaDeviceProp *ret, int device),
		get_properties(ret, device))
RUNTIME_STARTED(cudaGetDeviceProperties_v2, (struct cudaDeviceProp *ret, int device),
		get_properties(ret, device))
RUNTIME_STARTED(cudaDeviceGetAttribute, (int *ret, int attribute, int device),
		driver.cuDeviceGetAttribute(ret, (CUdevice_attribute)attribute, device))
RUNTIME_STARTED(cudaDeviceGetPCIBusId, (char *ret, int size, int device),
		driver.cuDeviceGetPCIBusId(ret, size, device))
RUNTIME_STARTED(cudaDeviceGetByPCIBusId, (int *ret, const char *text),
		driver.cuDeviceGetByPCIBusId(ret, text))
RUNTIME_STARTED(cudaDeviceCanAccessPeer, (int *ret, int device, int peer),
		driver.cuDeviceCanAccessPeer(ret, device, peer))
RUNTIME_CALL(cudaDeviceEnablePeerAccess, (int peer, unsigned int flags), enable_peer(peer, flags))
RUNTIME_CALL(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
	     driver.cuCtxGetStreamPriorityRange(least, greatest))
RUNTIME_CALL(cudaDeviceGetLimit, (size_t *ret, int limit),
	     driver.cuCtxGetLimit(ret, (CUlimit)limit))
RUNTIME_CALL(cudaDeviceSetLimit, (int limit, size_t value),
	     driver.cuCtxSetLimit((CUlimit)limit, value))
RUNTIME_STARTED(cudaDeviceGetDefaultMemPool, (cudaMemPool_t *ret, int device),
		driver.cuDeviceGetDefaultMemPool(ret, device))
RUNTIME_STARTED(cudaDeviceGetMemPool, (cudaMemPool_t *ret, int device),
		driver.cuDeviceGetMemPool(ret, device))
RUNTIME_STARTED(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
		driver.cuDeviceSetMemPool(device, pool))
RUNTIME_STARTED(cudaDeviceGetGraphMemAttribute, (int device, int attribute, void *ret),
		driver.cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute, ret))
