/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills, checked in full before a byte moves. Addresses outside the device arena are the
 * host's and taken as they are; inside it every byte must belong to an allocation.
 */
#include <string.h>

#include "sim.h"

static CUresult check(uint64_t address, uint64_t size, bool write)
{
	while (size) {
		char *bytes;
		uint64_t part;
		CUresult result = sim_translate(address, size, write, &bytes, &part);

		if (result != CUDA_SUCCESS)
			return result;
		address += part;
		size -= part;
	}
	return CUDA_SUCCESS;
}

static CUresult copy(uint64_t to, uint64_t from, uint64_t size)
{
	CUresult result = check(to, size, true);

	if (result == CUDA_SUCCESS)
		result = check(from, size, false);
	while (size && result == CUDA_SUCCESS) {
		char *target, *source;
		uint64_t target_part, source_part;

		result = sim_translate(to, size, true, &target, &target_part);
		if (result == CUDA_SUCCESS)
			result = sim_translate(from, size, false, &source, &source_part);
		if (result != CUDA_SUCCESS)
			break;
		if (source_part < target_part)
			target_part = source_part;
		memmove(target, source, target_part);
		to += target_part;
		from += target_part;
		size -= target_part;
	}
	return result;
}

static CUresult copy_device(uint64_t to, uint64_t from, uint64_t size, bool to_device,
			    bool from_device)
{
	struct sim_host host;

	if (!size)
		return CUDA_SUCCESS;
	if (to_device && !sim_space_of(to) && !sim_host_find(to, &host))
		return CUDA_ERROR_INVALID_VALUE;
	if (from_device && !sim_space_of(from) && !sim_host_find(from, &host))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(to, from, size);
}

static CUresult host_to_device(uint64_t to, const void *from, uint64_t size)
{
	return copy_device(to, (uint64_t)from, size, true, false);
}

static CUresult device_to_host(void *to, uint64_t from, uint64_t size)
{
	return copy_device((uint64_t)to, from, size, false, true);
}

static CUresult device_to_device(uint64_t to, uint64_t from, uint64_t size)
{
	return copy_device(to, from, size, true, true);
}

/* An asynchronous call is the same call once its stream has been looked at. */
static CUresult on_stream(CUstream stream, CUresult (*work)(uint64_t, uint64_t, uint64_t),
			  uint64_t to, uint64_t from, uint64_t size)
{
	CUresult result = sim_stream_check(stream);

	if (result == CUDA_SUCCESS)
		result = work(to, from, size);
	if (result == CUDA_SUCCESS)
		sim_capture_node(stream);
	return result;
}

static CUresult upload(uint64_t to, uint64_t from, uint64_t size)
{
	return copy_device(to, from, size, true, false);
}

static CUresult download(uint64_t to, uint64_t from, uint64_t size)
{
	return copy_device(to, from, size, false, true);
}

static CUresult any_copy(uint64_t to, uint64_t from, uint64_t size)
{
	return copy_device(to, from, size, false, false);
}

static CUresult copy_peer(CUcontext to_context, CUcontext from_context, uint64_t to, uint64_t from,
			  uint64_t size)
{
	struct sim_object *object;

	if (sim_context_find(to_context, &object) != CUDA_SUCCESS ||
	    sim_context_find(from_context, &object) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	return device_to_device(to, from, size);
}

/* --- two dimensions --- */

struct side {
	uint64_t address;
	uint64_t pitch;
};

static CUresult side_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
			size_t pitch, struct side *ret)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		ret->address = (uint64_t)host;
		break;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		ret->address = device;
		break;
	case CU_MEMORYTYPE_ARRAY:
		return CUDA_ERROR_NOT_SUPPORTED; /* arrays have no contents here */
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	ret->address += y * pitch + x;
	ret->pitch = pitch;
	return CUDA_SUCCESS;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *plan)
{
	struct side to, from;
	CUresult result;

	if (!plan)
		return CUDA_ERROR_INVALID_VALUE;
	result = side_of(plan->dstMemoryType, plan->dstHost, plan->dstDevice, plan->dstXInBytes,
			 plan->dstY, plan->dstPitch, &to);
	if (result == CUDA_SUCCESS)
		result = side_of(plan->srcMemoryType, plan->srcHost, plan->srcDevice,
				 plan->srcXInBytes, plan->srcY, plan->srcPitch, &from);
	if (result == CUDA_SUCCESS && plan->Height > 1 &&
	    (to.pitch < plan->WidthInBytes || from.pitch < plan->WidthInBytes))
		result = CUDA_ERROR_INVALID_VALUE;
	for (size_t y = 0; y < plan->Height && result == CUDA_SUCCESS; y++) {
		result = check(to.address + y * to.pitch, plan->WidthInBytes, true);
		if (result == CUDA_SUCCESS)
			result = check(from.address + y * from.pitch, plan->WidthInBytes, false);
	}
	for (size_t y = 0; y < plan->Height && result == CUDA_SUCCESS; y++)
		result = copy(to.address + y * to.pitch, from.address + y * from.pitch,
			      plan->WidthInBytes);
	return result;
}

static CUresult copy_2d_on(CUstream stream, const CUDA_MEMCPY2D *plan)
{
	CUresult result = sim_stream_check(stream);

	if (result == CUDA_SUCCESS)
		result = copy_2d(plan);
	if (result == CUDA_SUCCESS)
		sim_capture_node(stream);
	return result;
}

/* --- fills --- */

static void fill_bytes(char *bytes, uint64_t size, uint32_t value, unsigned int width)
{
	if (width == 1) {
		memset(bytes, (int)value, size);
		return;
	}
	for (uint64_t i = 0; i + width <= size; i += width)
		memcpy(bytes + i, &value, width);
}

/* Zeroes over whole pages are made by forgetting the pages: clearing 70 GiB costs nothing. */
static bool clear(uint64_t address, uint64_t size)
{
	struct sim_range range;
	uint64_t start = (address + 4095) / 4096 * 4096;
	uint64_t end = (address + size) / 4096 * 4096;

	if (size < SIM_GRANULE || !sim_range_find(address, &range) ||
	    range.kind == SIM_ROW_RESERVATION)
		return false;
	memset(sim_store(sim_space_of(address), address), 0, start - address);
	sim_space_punch(start, end - start);
	memset(sim_store(sim_space_of(address), end), 0, address + size - end);
	return true;
}

static CUresult fill(uint64_t address, uint32_t value, unsigned int width, uint64_t count)
{
	uint64_t size;
	CUresult result;

	if (__builtin_mul_overflow(count, (uint64_t)width, &size) || address % width)
		return CUDA_ERROR_INVALID_VALUE;
	if (!size)
		return CUDA_SUCCESS;
	if (!sim_space_of(address)) {
		struct sim_host host;

		if (!sim_host_find(address, &host) || address + size > host.address + host.size)
			return CUDA_ERROR_INVALID_VALUE;
	}
	result = check(address, size, true);
	if (result != CUDA_SUCCESS || (!value && sim_space_of(address) && clear(address, size)))
		return result;
	while (size && result == CUDA_SUCCESS) {
		char *bytes;
		uint64_t part;

		result = sim_translate(address, size, true, &bytes, &part);
		if (result != CUDA_SUCCESS)
			break;
		fill_bytes(bytes, part, value, width);
		address += part;
		size -= part;
	}
	return result;
}

static CUresult fill_on(CUstream stream, uint64_t address, uint32_t value, unsigned int width,
			uint64_t count)
{
	CUresult result = sim_stream_check(stream);

	if (result == CUDA_SUCCESS)
		result = fill(address, value, width, count);
	if (result == CUDA_SUCCESS)
		sim_capture_node(stream);
	return result;
}

static CUresult fill_2d(CUstream stream, uint64_t address, uint64_t pitch, uint32_t value,
			unsigned int element, uint64_t width, uint64_t height)
{
	CUresult result = sim_stream_check(stream);
	uint64_t line;

	if (__builtin_mul_overflow(width, (uint64_t)element, &line) || (height > 1 && pitch < line))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t y = 0; y < height && result == CUDA_SUCCESS; y++)
		result = check(address + y * pitch, line, true);
	for (uint64_t y = 0; y < height && result == CUDA_SUCCESS; y++)
		result = fill(address + y * pitch, value, element, width);
	return result;
}

#define WIDE(pointer) ((uint64_t)(pointer))

SIM_ENTRY_CONTEXT_TWIN(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t size),
		       any_copy(to, from, size))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpyAsync, _ptsz,
		       (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
		       on_stream(stream, any_copy, to, from, size))

SIM_ENTRY_CONTEXT(cuMemcpyHtoD, (CUdeviceptr_v1 to, const void *from, unsigned int size),
		  host_to_device(to, from, size))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t size),
		       host_to_device(to, from, size))
SIM_ENTRY_CONTEXT(cuMemcpyHtoDAsync,
		  (CUdeviceptr_v1 to, const void *from, unsigned int size, CUstream stream),
		  on_stream(stream, upload, to, WIDE(from), size))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpyHtoDAsync_v2, _ptsz,
		       (CUdeviceptr to, const void *from, size_t size, CUstream stream),
		       on_stream(stream, upload, to, WIDE(from), size))

SIM_ENTRY_CONTEXT(cuMemcpyDtoH, (void *to, CUdeviceptr_v1 from, unsigned int size),
		  device_to_host(to, from, size))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t size),
		       device_to_host(to, from, size))
SIM_ENTRY_CONTEXT(cuMemcpyDtoHAsync,
		  (void *to, CUdeviceptr_v1 from, unsigned int size, CUstream stream),
		  on_stream(stream, download, WIDE(to), from, size))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpyDtoHAsync_v2, _ptsz,
		       (void *to, CUdeviceptr from, size_t size, CUstream stream),
		       on_stream(stream, download, WIDE(to), from, size))

SIM_ENTRY_CONTEXT(cuMemcpyDtoD, (CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int size),
		  device_to_device(to, from, size))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t size),
		       device_to_device(to, from, size))
SIM_ENTRY_CONTEXT(cuMemcpyDtoDAsync,
		  (CUdeviceptr_v1 to, CUdeviceptr_v1 from, unsigned int size, CUstream stream),
		  on_stream(stream, device_to_device, to, from, size))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpyDtoDAsync_v2, _ptsz,
		       (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
		       on_stream(stream, device_to_device, to, from, size))

SIM_ENTRY_CONTEXT_TWIN(cuMemcpyPeer, _ptds,
		       (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
			CUcontext from_context, size_t size),
		       copy_peer(to_context, from_context, to, from, size))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpyPeerAsync, _ptsz,
		       (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
			CUcontext from_context, size_t size, CUstream stream),
		       sim_stream_check(stream) != CUDA_SUCCESS ?
			       CUDA_ERROR_INVALID_HANDLE :
			       copy_peer(to_context, from_context, to, from, size))

SIM_ENTRY_CONTEXT_TWIN(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *plan), copy_2d(plan))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *plan), copy_2d(plan))
SIM_ENTRY_CONTEXT_TWIN(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *plan, CUstream stream),
		       copy_2d_on(stream, plan))

SIM_ENTRY_CONTEXT(cuMemsetD8, (CUdeviceptr_v1 to, unsigned char value, unsigned int count),
		  fill(to, value, 1, count))
SIM_ENTRY_CONTEXT_TWIN(cuMemsetD8_v2, _ptds, (CUdeviceptr to, unsigned char value, size_t count),
		       fill(to, value, 1, count))
SIM_ENTRY_CONTEXT_TWIN(cuMemsetD8Async, _ptsz,
		       (CUdeviceptr to, unsigned char value, size_t count, CUstream stream),
		       fill_on(stream, to, value, 1, count))
SIM_ENTRY_CONTEXT(cuMemsetD16, (CUdeviceptr_v1 to, unsigned short value, unsigned int count),
		  fill(to, value, 2, count))
SIM_ENTRY_CONTEXT_TWIN(cuMemsetD16_v2, _ptds, (CUdeviceptr to, unsigned short value, size_t count),
		       fill(to, value, 2, count))
SIM_ENTRY_CONTEXT_TWIN(cuMemsetD16Async, _ptsz,
		       (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),
		       fill_on(stream, to, value, 2, count))
SIM_ENTRY_CONTEXT(cuMemsetD32, (CUdeviceptr_v1 to, unsigned int value, unsigned int count),
		  fill(to, value, 4, count))
SIM_ENTRY_CONTEXT_TWIN(cuMemsetD32_v2, _ptds, (CUdeviceptr to, unsigned int value, size_t count),
		       fill(to, value, 4, count))
SIM_ENTRY_CONTEXT_TWIN(cuMemsetD32Async, _ptsz,
		       (CUdeviceptr to, unsigned int value, size_t count, CUstream stream),
		       fill_on(stream, to, value, 4, count))

SIM_ENTRY_CONTEXT_TWIN(cuMemsetD2D8_v2, _ptds,
		       (CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
			size_t height),
		       fill_2d(NULL, to, pitch, value, 1, width, height))
SIM_ENTRY_CONTEXT_TWIN(cuMemsetD2D8Async, _ptsz,
		       (CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
			size_t height, CUstream stream),
		       fill_2d(stream, to, pitch, value, 1, width, height))
SIM_ENTRY_CONTEXT_TWIN(cuMemsetD2D32_v2, _ptds,
		       (CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
			size_t height),
		       fill_2d(NULL, to, pitch, value, 4, width, height))
SIM_ENTRY_CONTEXT_TWIN(cuMemsetD2D32Async, _ptsz,
		       (CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
			size_t height, CUstream stream),
		       fill_2d(stream, to, pitch, value, 4, width, height))
