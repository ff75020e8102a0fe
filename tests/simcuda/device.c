/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: what can be asked about them. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sim.h"

#define LAST_ATTRIBUTE 147
#define FIRST_BUS 0x18

enum { ATTRIBUTE_BUS = 33, ATTRIBUTE_BOARD = 85 };

struct sim_device sim_devices[SIM_MAX_DEVICES];
int sim_device_count;

static CUresult get_count(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = sim_device_count;
	return CUDA_SUCCESS;
}

static CUresult get(CUdevice *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

static CUresult get_name(char *name, int length, CUdevice device)
{
	static const char text[] = "Simulated GPU";

	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!name || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	strncpy(name, text, (size_t)length);
	name[length - 1] = '\0';
	return CUDA_SUCCESS;
}

static CUresult get_uuid(CUuuid *uuid, CUdevice device)
{
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(uuid->bytes, "SIMCUDA-DEVICE--", sizeof(uuid->bytes));
	uuid->bytes[15] = (char)device;
	return CUDA_SUCCESS;
}

static CUresult total_memory(size_t *bytes, CUdevice device)
{
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = sim_devices[device].total;
	return CUDA_SUCCESS;
}

/* 32-bit amounts of the first ABI stop at the largest number. */
static unsigned int narrow(size_t bytes)
{
	return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

static CUresult total_memory_v1(unsigned int *bytes, CUdevice device)
{
	size_t total;
	CUresult result = total_memory(bytes ? &total : NULL, device);

	if (result == CUDA_SUCCESS)
		*bytes = narrow(total);
	return result;
}

static CUresult get_attribute(int *value, int attribute, CUdevice device)
{
	static const int values[LAST_ATTRIBUTE + 1] = {
#define SIM_ATTRIBUTE(number, value) [number] = value,
#include "device_attributes.def"
#undef SIM_ATTRIBUTE
	};

	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || attribute < 1 || attribute > LAST_ATTRIBUTE)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute == ATTRIBUTE_BUS)
		*value = FIRST_BUS + device;
	else if (attribute == ATTRIBUTE_BOARD)
		*value = device;
	else
		*value = values[attribute];
	return CUDA_SUCCESS;
}

static CUresult get_bus_id(char *text, int length, CUdevice device)
{
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!text || length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(text, (size_t)length, "0000:%02X:00.0",
		 (unsigned int)(FIRST_BUS + device) & 0xff);
	return CUDA_SUCCESS;
}

static CUresult by_bus_id(CUdevice *device, const char *text)
{
	char name[16];

	if (!device || !text)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < sim_device_count; i++) {
		get_bus_id(name, sizeof(name), i);
		if (!strcasecmp(name, text) || !strcasecmp(name + 5, text)) {
			*device = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

static CUresult capability(int *major, int *minor, CUdevice device)
{
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = 9;
	*minor = 0;
	return CUDA_SUCCESS;
}

static CUresult properties(CUdevprop *ret, CUdevice device)
{
	const CUdevprop fixed = { .maxThreadsPerBlock = 1024,
				  .maxThreadsDim = { 1024, 1024, 64 },
				  .maxGridSize = { 2147483647, 65535, 65535 },
				  .sharedMemPerBlock = 49152,
				  .totalConstantMemory = 65536,
				  .SIMDWidth = 32,
				  .memPitch = 2147483647,
				  .regsPerBlock = 65536,
				  .clockRate = 1500000,
				  .textureAlign = 512 };

	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = fixed;
	return CUDA_SUCCESS;
}

static CUresult can_access_peer(int *can, CUdevice device, CUdevice peer)
{
	if (!sim_device_valid(device) || !sim_device_valid(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	*can = device != peer;
	return CUDA_SUCCESS;
}

static CUresult memory_info(struct sim_object *context, size_t *unused, size_t *total)
{
	struct sim_device *device = &sim_devices[context->device];

	if (unused)
		*unused = device->total - atomic_load(&device->used);
	if (total)
		*total = device->total;
	return CUDA_SUCCESS;
}

static CUresult memory_info_v1(struct sim_object *context, unsigned int *unused,
			       unsigned int *total)
{
	size_t wide_unused, wide_total;
	CUresult result = memory_info(context, &wide_unused, &wide_total);

	if (unused)
		*unused = narrow(wide_unused);
	if (total)
		*total = narrow(wide_total);
	return result;
}

SIM_ENTRY(cuDeviceGetCount, (int *count), get_count(count))
SIM_ENTRY(cuDeviceGet, (CUdevice *device, int ordinal), get(device, ordinal))
SIM_ENTRY(cuDeviceGetName, (char *name, int length, CUdevice device),
	  get_name(name, length, device))
SIM_ENTRY(cuDeviceGetUuid, (CUuuid *uuid, CUdevice device), get_uuid(uuid, device))
SIM_ENTRY(cuDeviceGetUuid_v2, (CUuuid *uuid, CUdevice device), get_uuid(uuid, device))
SIM_ENTRY(cuDeviceTotalMem, (unsigned int *bytes, CUdevice device), total_memory_v1(bytes, device))
SIM_ENTRY(cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device), total_memory(bytes, device))
SIM_ENTRY(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device),
	  get_attribute(value, (int)attribute, device))
SIM_ENTRY(cuDeviceGetPCIBusId, (char *text, int length, CUdevice device),
	  get_bus_id(text, length, device))
SIM_ENTRY(cuDeviceGetByPCIBusId, (CUdevice *device, const char *text), by_bus_id(device, text))
SIM_ENTRY(cuDeviceComputeCapability, (int *major, int *minor, CUdevice device),
	  capability(major, minor, device))
SIM_ENTRY(cuDeviceGetProperties, (CUdevprop *ret, CUdevice device), properties(ret, device))
SIM_ENTRY(cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer),
	  can_access_peer(can, device, peer))
SIM_ENTRY_CONTEXT(cuMemGetInfo, (unsigned int *unused, unsigned int *total),
		  memory_info_v1(context, unused, total))
SIM_ENTRY_CONTEXT(cuMemGetInfo_v2, (size_t *unused, size_t *total),
		  memory_info(context, unused, total))
