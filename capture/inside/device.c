/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/device.h"

#include <errno.h>
#include <string.h>

#include "capture/inside/thread.h"

static uint64_t described; /* a bit for each device */

_Static_assert(VC_DEVICES_MAX <= 64, "one bit for each device");

void vc_device_forget(void)
{
	described = 0;
}

void vc_device_used(int device)
{
	struct vc_device_facts facts = {0};
	char name[256] = "", pci[32] = "";
	struct vc_cu_uuid uuid = {{0}};
	size_t total = 0;
	int version = 0;

	if (device < 0 || device >= (int)VC_DEVICES_MAX ||
	    __atomic_load_n(&described, __ATOMIC_RELAXED) >> device & 1 ||
	    __atomic_fetch_or(&described, UINT64_C(1) << device, __ATOMIC_RELAXED) >> device & 1)
		return;
	if (vc_driver.cuDeviceGetName && vc_driver.cuDeviceGetName(name, sizeof(name), device))
		name[0] = '\0';
	if (vc_driver.cuDeviceGetPCIBusId &&
	    vc_driver.cuDeviceGetPCIBusId(pci, sizeof(pci), device))
		pci[0] = '\0';
	if (vc_driver.cuDeviceGetUuid && !vc_driver.cuDeviceGetUuid(&uuid, device))
		memcpy(facts.uuid, uuid.bytes, sizeof(facts.uuid));
	if (vc_driver.cuDeviceTotalMem_v2 && !vc_driver.cuDeviceTotalMem_v2(&total, device))
		facts.total = total;
	if (vc_driver.cuDriverGetVersion && !vc_driver.cuDriverGetVersion(&version))
		facts.driver_version = (uint32_t)version;
	name[sizeof(name) - 1] = pci[sizeof(pci) - 1] = '\0';
	facts.name = name;
	facts.pci = pci;
	vc_store_device_add((uint32_t)device, &facts);
}

/* Records of these carry no context: they outlive it. */
static bool outlives_context(uint8_t kind)
{
	const uint64_t kinds = VC_KINDS(VC_KIND_POOL) | VC_KINDS(VC_KIND_RESERVATION) |
			       VC_KINDS(VC_KIND_HANDLE) | VC_KINDS(VC_KIND_HOST_HANDLE) |
			       VC_KINDS(VC_KIND_MAPPING) | VC_KINDS(VC_KIND_GRAPH_ALLOCATION);

	return VC_KINDS(kind) & kinds;
}

static void ask_context(uint64_t *context, int *device)
{
	vc_cu_context current = NULL;
	vc_cu_device number = -1;

	if (vc_driver.cuCtxGetCurrent && !vc_driver.cuCtxGetCurrent(&current))
		*context = VC_HANDLE(current);
	if (vc_driver.cuCtxGetDevice && !vc_driver.cuCtxGetDevice(&number))
		*device = number;
}

/* What an import is: the driver tells how much lies at an address, or whose memory a handle is. */
static void complete_import(const struct vc_call *call, struct vc_birth *birth)
{
	struct vc_cu_allocation_properties properties;
	vc_cu_pointer base;
	size_t size;

	if (birth->size)
		return;
	if (call->references) {
		if (vc_driver.cuMemGetAllocationPropertiesFromHandle &&
		    !vc_driver.cuMemGetAllocationPropertiesFromHandle(&properties, birth->address) &&
		    properties.location.type == VC_CU_LOCATION_DEVICE)
			birth->device_plus_one = (uint16_t)(properties.location.id + 1);
	} else if (vc_driver.cuMemGetAddressRange_v2 &&
		   !vc_driver.cuMemGetAddressRange_v2(&base, &size, birth->address)) {
		birth->size = birth->requested = size - (size_t)(birth->address - base);
	}
}

void vc_device_complete(const struct vc_call *call, struct vc_birth *birth)
{
	uint64_t context = vc_thread_local.context;
	int device = vc_thread_local.device;

	vc_thread_local.allocates = true;
	if (birth->kind == VC_KIND_IMPORT)
		complete_import(call, birth);
	if (call->no_device || call->location) {
		vc_device_used((int)birth->device_plus_one - 1);
		return;
	}
	if (!vc_thread_local.context_known) {
		context = 0;
		device = -1;
		ask_context(&context, &device);
	} else if (device < 0 && vc_driver.cuCtxGetDevice &&
		   !vc_driver.cuCtxGetDevice(&device)) {
		vc_thread_local.device = (int16_t)device;
	}
	if (!outlives_context(birth->kind))
		birth->context = context;
	if (!birth->device_plus_one)
		birth->device_plus_one = (uint16_t)(device + 1);
	if (!birth->device_plus_one)
		vc_store_count(VC_COUNTER_DEVICE_UNKNOWN);
	vc_device_used((int)birth->device_plus_one - 1);
}

/* ---- memory ---- */

uint64_t vc_device_free(int device, int *ret_device, uint64_t *ret_total)
{
	size_t free_bytes, total;
	int current;

	if (vc_graph_captures() || !vc_driver.cuCtxGetDevice || !vc_driver.cuMemGetInfo_v2 ||
	    vc_driver.cuCtxGetDevice(&current) || (device >= 0 && device != current))
		return 0;
	*ret_device = current;
	if (vc_driver.cuMemGetInfo_v2(&free_bytes, &total))
		return 0;
	*ret_total = total;
	return (uint64_t)free_bytes + 1;
}

static uint64_t graph_memory(int device, int attribute)
{
	uint64_t bytes = 0;

	if (!vc_driver.cuDeviceGetGraphMemAttribute ||
	    vc_driver.cuDeviceGetGraphMemAttribute(device, attribute, &bytes))
		return 0;
	return bytes + 1;
}

static uint64_t pool_memory(vc_cu_pool pool, int attribute)
{
	uint64_t bytes = 0;

	if (vc_driver.cuMemPoolGetAttribute(pool, attribute, &bytes))
		return 0;
	return bytes + 1;
}

static void ask_memory(struct vc_device_memory *ret)
{
	uint64_t context = 0, total;
	int device = -1;
	vc_cu_pool pool;

	ask_context(&context, &device);
	if (!context || device < 0 || device >= 8)
		return;
	ret->device_plus_one = (uint32_t)device + 1;
	ret->free = vc_device_free(device, &device, &total);
	ret->graph_used = graph_memory(device, VC_CU_GRAPH_USED);
	ret->graph_reserved = graph_memory(device, VC_CU_GRAPH_RESERVED);
	if (!vc_driver.cuDeviceGetDefaultMemPool || !vc_driver.cuMemPoolGetAttribute ||
	    vc_driver.cuDeviceGetDefaultMemPool(&pool, device))
		return;
	ret->pool_used = pool_memory(pool, VC_CU_POOL_USED);
	ret->pool_reserved = pool_memory(pool, VC_CU_POOL_RESERVED);
}

void vc_device_memory(struct vc_device_memory *ret)
{
	int saved = errno;

	*ret = (struct vc_device_memory){0};
	if (vc_thread_local.asking || vc_graph_captures() ||
	    !(vc_thread_local.allocates || vc_thread_local.context_known))
		return;
	vc_thread_local.asking = true;
	ask_memory(ret);
	vc_thread_local.asking = false;
	errno = saved;
}
