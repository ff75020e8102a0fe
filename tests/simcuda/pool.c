/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools and stream-ordered allocation.
 *
 * A pool takes device memory in steps of 32 MiB and keeps it until a synchronisation, which gives
 * back what is unused beyond the release threshold. Frees take effect at once, since nothing here
 * runs late. A destroyed pool lives on until its last pointer is freed.
 */
#include "sim.h"

#define CHUNK (32 * SIM_MIB)

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_object *pools; /* all that exist, by their next */

static uint64_t round_up(uint64_t size, uint64_t unit)
{
	return (size + unit - 1) / unit * unit;
}

static struct sim_object *make_pool(int device, uint64_t maximum)
{
	struct sim_object *pool = sim_object_create(SIM_POOL);

	if (!pool)
		return NULL;
	pool->device = device;
	pool->pool.maximum = maximum;
	pool->pool.heap = sim_heap_create(device, false, 1);
	for (unsigned int i = 0; i < 3; i++)
		pool->pool.reuse[i] = 1;
	if (!pool->pool.heap) {
		sim_object_destroy(pool);
		return NULL;
	}
	pthread_mutex_lock(&pool_lock);
	pool->next = pools;
	pools = pool;
	pthread_mutex_unlock(&pool_lock);
	return pool;
}

CUresult sim_pool_start(int device)
{
	struct sim_object *pool = make_pool(device, 0);

	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->pool.standing = true;
	sim_devices[device].default_pool = pool;
	atomic_store(&sim_devices[device].pool, pool);
	return CUDA_SUCCESS;
}

struct sim_object *sim_pool_find(CUmemoryPool pool)
{
	struct sim_object *object = sim_object_find(SIM_POOL, (uint64_t)pool);

	return object && !object->pool.doomed ? object : NULL;
}

static void raise_marks(struct sim_object *pool)
{
	if (pool->pool.used > pool->pool.used_high)
		pool->pool.used_high = pool->pool.used;
	if (pool->pool.reserved > pool->pool.reserved_high)
		pool->pool.reserved_high = pool->pool.reserved;
}

/* Accounts for one more allocation, taking device memory if the pool's is used up. */
static bool debit(struct sim_object *pool, uint64_t size)
{
	bool paid = true;

	pthread_mutex_lock(&pool_lock);
	if (pool->pool.maximum && size > pool->pool.maximum - pool->pool.used)
		paid = false;
	if (paid && pool->pool.used + size > pool->pool.reserved) {
		uint64_t missing = pool->pool.used + size - pool->pool.reserved;
		uint64_t step = round_up(missing, CHUNK);

		if (!sim_charge(pool->device, step)) {
			step = round_up(missing, SIM_GRANULE);
			paid = sim_charge(pool->device, step);
		}
		if (paid)
			pool->pool.reserved += step;
	}
	if (paid) {
		pool->pool.used += size;
		raise_marks(pool);
	}
	pthread_mutex_unlock(&pool_lock);
	return paid;
}

static void trim(struct sim_object *pool, uint64_t keep)
{
	uint64_t used = round_up(pool->pool.used, SIM_GRANULE);
	uint64_t target = used > keep ? used : keep;

	if (pool->pool.reserved > target) {
		sim_uncharge(pool->device, pool->pool.reserved - target);
		pool->pool.reserved = target;
	}
}

/* The lock is held. A destroyed pool goes with its last pointer. */
static void bury(struct sim_object *pool)
{
	struct sim_object **link = &pools;

	if (!pool->pool.doomed || pool->pool.used)
		return;
	trim(pool, 0);
	while (*link != pool)
		link = &(*link)->next;
	*link = pool->next;
	sim_object_destroy(pool);
}

void sim_pool_credit(struct sim_object *pool, uint64_t size)
{
	pthread_mutex_lock(&pool_lock);
	pool->pool.used -= round_up(size, SIM_SLOT);
	bury(pool);
	pthread_mutex_unlock(&pool_lock);
}

void sim_pools_settle(int device)
{
	pthread_mutex_lock(&pool_lock);
	for (struct sim_object *pool = pools; pool; pool = pool->next)
		if (pool->device == device)
			trim(pool, pool->pool.threshold);
	pthread_mutex_unlock(&pool_lock);
}

static CUresult allocate(struct sim_object *context, struct sim_object *pool, CUdeviceptr *ret,
			 size_t size)
{
	struct sim_request request = { .space = &sim_main_space,
				       .size = size,
				       .kind = SIM_ROW_ASYNC,
				       .pool = pool,
				       .context = sim_object_handle(context) };
	struct sim_range *range;
	uint64_t cost = round_up(size, SIM_SLOT);
	CUresult result;

	if (!ret || !size || !pool || pool->pool.imported)
		return CUDA_ERROR_INVALID_VALUE;
	if (cost < size || !debit(pool, cost))
		return CUDA_ERROR_OUT_OF_MEMORY;
	request.heap = pool->pool.heap;
	request.device = pool->device;
	result = sim_range_create(&request, &range);
	if (result == CUDA_SUCCESS)
		*ret = range->base;
	else
		sim_pool_credit(pool, size);
	return result;
}

static CUresult allocate_current(struct sim_object *context, CUdeviceptr *ret, size_t size,
				 CUstream stream)
{
	CUresult result = sim_stream_check(stream);
	struct sim_object *graph = sim_capturing(stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (graph)
		return sim_graph_allocate(context, graph, size, ret);
	return allocate(context, atomic_load(&sim_devices[context->device].pool), ret, size);
}

static CUresult allocate_from(struct sim_object *context, CUdeviceptr *ret, size_t size,
			      CUmemoryPool pool, CUstream stream)
{
	CUresult result = sim_stream_check(stream);
	struct sim_object *object = sim_pool_find(pool);
	struct sim_object *graph = sim_capturing(stream);

	if (result != CUDA_SUCCESS)
		return result;
	if (!object)
		return CUDA_ERROR_INVALID_HANDLE;
	if (graph)
		return sim_graph_allocate(context, graph, size, ret);
	return allocate(context, object, ret, size);
}

static CUresult free_async(CUdeviceptr address, CUstream stream)
{
	CUresult result = sim_stream_check(stream);
	struct sim_object *graph = sim_capturing(stream);

	if (result != CUDA_SUCCESS)
		return result;
	return graph ? sim_graph_free(graph, address) : sim_free_device(address);
}

CUresult sim_pool_import(int device, CUmemoryPool *ret)
{
	struct sim_object *pool = make_pool(device, 0);

	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->pool.imported = true;
	pool->row = sim_judge_add(SIM_ROW_POOL, sim_object_handle(pool), 0, device, 0);
	*ret = (CUmemoryPool)sim_object_handle(pool);
	return CUDA_SUCCESS;
}

static CUresult create(CUmemoryPool *ret, const CUmemPoolProps *properties)
{
	struct sim_object *pool;

	if (!ret || !properties || properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!sim_device_valid(properties->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	pool = make_pool(properties->location.id, properties->maxSize);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->row = sim_judge_add(SIM_ROW_POOL, sim_object_handle(pool), 0, pool->device, 0);
	*ret = (CUmemoryPool)sim_object_handle(pool);
	return CUDA_SUCCESS;
}

static CUresult destroy(CUmemoryPool handle)
{
	struct sim_object *pool;

	pthread_mutex_lock(&pool_lock);
	pool = sim_pool_find(handle);
	if (!pool || pool->pool.standing) {
		pthread_mutex_unlock(&pool_lock);
		return pool ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	}
	if (atomic_load(&sim_devices[pool->device].pool) == pool)
		atomic_store(&sim_devices[pool->device].pool,
			     sim_devices[pool->device].default_pool);
	sim_judge_remove(pool->row);
	pool->row = SIM_NO_ROW;
	pool->pool.threshold = 0;
	pool->pool.doomed = true;
	bury(pool);
	pthread_mutex_unlock(&pool_lock);
	return CUDA_SUCCESS;
}

static CUresult trim_to(CUmemoryPool handle, size_t keep)
{
	struct sim_object *pool = sim_pool_find(handle);

	if (!pool)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&pool_lock);
	trim(pool, keep);
	pthread_mutex_unlock(&pool_lock);
	return CUDA_SUCCESS;
}

static CUresult attribute(CUmemoryPool handle, CUmemPool_attribute which, void *value, bool set)
{
	struct sim_object *pool = sim_pool_find(handle);
	cuuint64_t *number = value;
	CUresult result = CUDA_SUCCESS;

	if (!pool)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&pool_lock);
	switch (which) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		if (set)
			pool->pool.reuse[which - 1] = *(int *)value;
		else
			*(int *)value = pool->pool.reuse[which - 1];
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		if (set)
			pool->pool.threshold = *number;
		else
			*number = pool->pool.threshold;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		if (set && *number)
			result = CUDA_ERROR_INVALID_VALUE;
		else if (set)
			pool->pool.reserved_high = pool->pool.reserved;
		else
			*number = pool->pool.reserved_high;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (set && *number)
			result = CUDA_ERROR_INVALID_VALUE;
		else if (set)
			pool->pool.used_high = pool->pool.used;
		else
			*number = pool->pool.used_high;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		if (set)
			result = CUDA_ERROR_INVALID_VALUE;
		else
			*number = which == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? pool->pool.used :
									      pool->pool.reserved;
		break;
	default:
		result = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&pool_lock);
	return result;
}

static CUresult set_access(CUmemoryPool handle, const CUmemAccessDesc *access, size_t count)
{
	if (!sim_pool_find(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	if (count && !access)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !sim_device_valid(access[i].location.id))
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult get_access(CUmemAccess_flags *flags, CUmemoryPool handle,
			   const CUmemLocation *location)
{
	if (!sim_pool_find(handle))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !sim_device_valid(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

static CUresult device_pool(CUmemoryPool *ret, CUdevice device, bool standing)
{
	struct sim_object *pool;

	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pool = standing ? sim_devices[device].default_pool : atomic_load(&sim_devices[device].pool);
	*ret = (CUmemoryPool)sim_object_handle(pool);
	return CUDA_SUCCESS;
}

static CUresult set_device_pool(CUdevice device, CUmemoryPool handle)
{
	struct sim_object *pool = sim_pool_find(handle);

	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pool)
		return CUDA_ERROR_INVALID_HANDLE;
	if (pool->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&sim_devices[device].pool, pool);
	return CUDA_SUCCESS;
}

/* The same questions by location, of CUDA 13; only pinned device memory has pools here. */
static CUresult located(const CUmemLocation *location, CUmemAllocationType type)
{
	if (!location)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

static CUresult location_pool(CUmemoryPool *ret, const CUmemLocation *location,
			      CUmemAllocationType type, bool standing)
{
	CUresult result = located(location, type);

	return result != CUDA_SUCCESS ? result : device_pool(ret, location->id, standing);
}

static CUresult set_location_pool(const CUmemLocation *location, CUmemAllocationType type,
				  CUmemoryPool pool)
{
	CUresult result = located(location, type);

	return result != CUDA_SUCCESS ? result : set_device_pool(location->id, pool);
}

SIM_ENTRY_CONTEXT_TWIN(cuMemAllocAsync, _ptsz, (CUdeviceptr *ret, size_t size, CUstream stream),
		       allocate_current(context, ret, size, stream))
SIM_ENTRY_CONTEXT_TWIN(cuMemAllocFromPoolAsync, _ptsz,
		       (CUdeviceptr *ret, size_t size, CUmemoryPool pool, CUstream stream),
		       allocate_from(context, ret, size, pool, stream))
SIM_ENTRY_CONTEXT_TWIN(cuMemFreeAsync, _ptsz, (CUdeviceptr address, CUstream stream),
		       free_async(address, stream))
SIM_ENTRY(cuMemPoolCreate, (CUmemoryPool *ret, const CUmemPoolProps *properties),
	  create(ret, properties))
SIM_ENTRY(cuMemPoolDestroy, (CUmemoryPool pool), destroy(pool))
SIM_ENTRY(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), trim_to(pool, keep))
SIM_ENTRY(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute which, void *value),
	  attribute(pool, which, value, false))
SIM_ENTRY(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute which, void *value),
	  attribute(pool, which, value, true))
SIM_ENTRY(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc *access, size_t count),
	  set_access(pool, access, count))
SIM_ENTRY(cuMemPoolGetAccess,
	  (CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location),
	  get_access(flags, pool, location))
SIM_ENTRY(cuDeviceGetDefaultMemPool, (CUmemoryPool *ret, CUdevice device),
	  device_pool(ret, device, true))
SIM_ENTRY(cuDeviceGetMemPool, (CUmemoryPool *ret, CUdevice device),
	  device_pool(ret, device, false))
SIM_ENTRY(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool), set_device_pool(device, pool))
SIM_ENTRY(cuMemGetDefaultMemPool,
	  (CUmemoryPool *ret, CUmemLocation *location, CUmemAllocationType type),
	  location_pool(ret, location, type, true))
SIM_ENTRY(cuMemGetMemPool, (CUmemoryPool *ret, CUmemLocation *location, CUmemAllocationType type),
	  location_pool(ret, location, type, false))
SIM_ENTRY(cuMemSetMemPool, (CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool),
	  set_location_pool(location, type, pool))
