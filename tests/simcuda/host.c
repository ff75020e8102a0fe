/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned and registered host memory: a sorted list under one lock. */
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

#define PAGE 4096ull
#define ALLOC_FLAGS 0x7u
#define REGISTER_FLAGS 0xfu

static pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_host *hosts; /* by address, apart from each other */
static size_t host_count, host_room;

/* Number of the first entry that ends behind the address. */
static size_t position(uint64_t address)
{
	size_t low = 0, high = host_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (hosts[middle].address + hosts[middle].size > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

bool sim_host_find(uint64_t address, struct sim_host *ret)
{
	size_t at;
	bool found;

	pthread_mutex_lock(&host_lock);
	at = position(address);
	found = at < host_count && hosts[at].address <= address;
	if (found)
		*ret = hosts[at];
	pthread_mutex_unlock(&host_lock);
	return found;
}

static bool make_room(void)
{
	size_t room = host_room ? host_room * 2 : 1024;
	struct sim_host *more;

	if (host_count < host_room)
		return true;
	more = sim_pages(room * sizeof(*more));
	if (!more)
		return false;
	if (host_count) {
		memcpy(more, hosts, host_count * sizeof(*more));
		munmap(hosts, host_room * sizeof(*hosts));
	}
	hosts = more;
	host_room = room;
	return true;
}

static CUresult insert(struct sim_host host)
{
	CUresult result = CUDA_SUCCESS;
	size_t at;

	pthread_mutex_lock(&host_lock);
	at = position(host.address);
	if (at < host_count && hosts[at].address < host.address + host.size)
		result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	else if (!make_room())
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		host.row = sim_judge_add(host.registered ? SIM_ROW_HOST_REGISTERED :
							   SIM_ROW_HOST_PINNED,
					 host.address, host.size, host.device, host.context);
		memmove(hosts + at + 1, hosts + at, (host_count - at) * sizeof(*hosts));
		hosts[at] = host;
		host_count++;
	}
	pthread_mutex_unlock(&host_lock);
	return result;
}

static void remove_at(size_t at)
{
	struct sim_host host = hosts[at];

	sim_judge_remove(host.row);
	memmove(hosts + at, hosts + at + 1, (host_count - at - 1) * sizeof(*hosts));
	host_count--;
	if (!host.registered)
		munmap((void *)host.address, (host.size + PAGE - 1) / PAGE * PAGE);
}

static bool remove_exact(uint64_t address, bool registered)
{
	size_t at;
	bool found;

	pthread_mutex_lock(&host_lock);
	at = position(address);
	found = at < host_count && hosts[at].address == address &&
		hosts[at].registered == registered;
	if (found)
		remove_at(at);
	pthread_mutex_unlock(&host_lock);
	return found;
}

void sim_host_destroy_all(uint64_t context)
{
	pthread_mutex_lock(&host_lock);
	for (size_t i = host_count; i-- > 0;)
		if (hosts[i].context == context)
			remove_at(i);
	pthread_mutex_unlock(&host_lock);
}

static CUresult allocate(struct sim_object *context, void **ret, size_t size, unsigned int flags)
{
	struct sim_host host = { .size = size,
				 .flags = flags,
				 .context = sim_object_handle(context),
				 .device = context->device };
	uint64_t span = (size + PAGE - 1) / PAGE * PAGE;
	void *memory;
	CUresult result;

	if (!ret || !size || flags & ~ALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	memory = span < size ? NULL : sim_pages(span);
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	host.address = (uint64_t)memory;
	result = insert(host);
	if (result == CUDA_SUCCESS)
		*ret = memory;
	else
		munmap(memory, span);
	return result;
}

static CUresult release(void *memory)
{
	return remove_exact((uint64_t)memory, false) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult pin(struct sim_object *context, void *memory, size_t size, unsigned int flags)
{
	struct sim_host host = { .address = (uint64_t)memory,
				 .size = size,
				 .flags = flags,
				 .registered = true,
				 .context = sim_object_handle(context),
				 .device = context->device };

	if (!memory || !size || flags & ~REGISTER_FLAGS || host.address + size < host.address)
		return CUDA_ERROR_INVALID_VALUE;
	return insert(host);
}

static CUresult unpin(void *memory)
{
	struct sim_host host;

	if (remove_exact((uint64_t)memory, true))
		return CUDA_SUCCESS;
	return sim_host_find((uint64_t)memory, &host) && !host.registered ?
		       CUDA_ERROR_INVALID_VALUE :
		       CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static CUresult device_pointer(CUdeviceptr *ret, void *memory, unsigned int flags)
{
	struct sim_host host;

	if (!ret || flags || !sim_host_find((uint64_t)memory, &host))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUdeviceptr)memory;
	return CUDA_SUCCESS;
}

static CUresult device_pointer_v1(CUdeviceptr_v1 *ret, void *memory, unsigned int flags)
{
	CUdeviceptr wide;
	CUresult result = device_pointer(ret ? &wide : NULL, memory, flags);

	if (result != CUDA_SUCCESS)
		return result;
	if (wide > UINT32_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUdeviceptr_v1)wide;
	return CUDA_SUCCESS;
}

static CUresult get_flags(unsigned int *ret, void *memory)
{
	struct sim_host host;

	if (!ret || !sim_host_find((uint64_t)memory, &host))
		return CUDA_ERROR_INVALID_VALUE;
	*ret = host.flags;
	return CUDA_SUCCESS;
}

SIM_ENTRY_CONTEXT(cuMemAllocHost, (void **ret, unsigned int size), allocate(context, ret, size, 0))
SIM_ENTRY_CONTEXT(cuMemAllocHost_v2, (void **ret, size_t size), allocate(context, ret, size, 0))
SIM_ENTRY_CONTEXT(cuMemHostAlloc, (void **ret, size_t size, unsigned int flags),
		  allocate(context, ret, size, flags))
SIM_ENTRY_CONTEXT(cuMemFreeHost, (void *memory), release(memory))
SIM_ENTRY_CONTEXT(cuMemHostRegister, (void *memory, size_t size, unsigned int flags),
		  pin(context, memory, size, flags))
SIM_ENTRY_CONTEXT(cuMemHostRegister_v2, (void *memory, size_t size, unsigned int flags),
		  pin(context, memory, size, flags))
SIM_ENTRY_CONTEXT(cuMemHostUnregister, (void *memory), unpin(memory))
SIM_ENTRY_CONTEXT(cuMemHostGetDevicePointer,
		  (CUdeviceptr_v1 *ret, void *memory, unsigned int flags),
		  device_pointer_v1(ret, memory, flags))
SIM_ENTRY_CONTEXT(cuMemHostGetDevicePointer_v2,
		  (CUdeviceptr *ret, void *memory, unsigned int flags),
		  device_pointer(ret, memory, flags))
SIM_ENTRY_CONTEXT(cuMemHostGetFlags, (unsigned int *ret, void *memory), get_flags(ret, memory))
