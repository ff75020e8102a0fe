/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: reservations, handles of physical memory, and mappings between them.
 *
 * A handle's bytes live behind granules of its own that no program sees; a mapping points there,
 * so the same memory can be seen at several addresses. Everything is in whole granules of 2 MiB.
 * A handle keeps its memory until it has neither a reference nor a mapping. All of this belongs
 * to the process, not to a context. One lock guards mappings and reference counts.
 */
#include "sim.h"

static pthread_mutex_t map_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_mapping *free_mappings;

static struct sim_mapping *new_mapping(void)
{
	struct sim_mapping *mapping = free_mappings;

	if (!mapping) {
		const size_t count = 16384 / sizeof(*mapping);

		mapping = sim_pages(count * sizeof(*mapping));
		for (size_t i = 1; mapping && i < count; i++) {
			mapping[i].next = free_mappings;
			free_mappings = &mapping[i];
		}
		return mapping;
	}
	free_mappings = mapping->next;
	return mapping;
}

static bool whole_granules(uint64_t address, uint64_t size)
{
	return size && !((address | size) % SIM_GRANULE) && address + size > address;
}

static CUresult reserve(CUdeviceptr *ret, size_t size, size_t alignment, unsigned long long flags)
{
	struct sim_request request = { .space = &sim_main_space,
				       .size = size,
				       .alignment = alignment,
				       .kind = SIM_ROW_RESERVATION,
				       .device = -1,
				       .whole = true };
	struct sim_range *range;
	CUresult result;

	if (!ret || !whole_granules(0, size) || alignment & (alignment - 1) || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_range_create(&request, &range);
	if (result == CUDA_SUCCESS)
		*ret = range->base;
	return result;
}

/* The reservation that holds all of [address, address + size). */
static bool reserved(uint64_t address, uint64_t size, struct sim_range *ret)
{
	return sim_range_find(address, ret) && ret->kind == SIM_ROW_RESERVATION &&
	       size <= ret->span - (address - ret->base);
}

static bool any_mapping(uint64_t address, uint64_t size)
{
	struct sim_granule *granule = sim_granule_of(&sim_main_space, address);

	for (uint64_t i = 0; i < size / SIM_GRANULE; i++)
		if (atomic_load_explicit(&granule[i].mapping, memory_order_relaxed))
			return true;
	return false;
}

static CUresult unreserve(CUdeviceptr address, size_t size)
{
	struct sim_range range;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&map_lock);
	if (reserved(address, size, &range) && range.base == address && range.requested == size &&
	    !any_mapping(address, size))
		result = sim_range_destroy(address, 1u << SIM_ROW_RESERVATION, &range);
	pthread_mutex_unlock(&map_lock);
	return result;
}

/* Memory on the host is handed out too, but costs no device anything. */
static CUresult check_properties(const CUmemAllocationProp *properties, int *device)
{
	if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	switch (properties->location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		*device = properties->location.id;
		return sim_device_valid(*device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		*device = -1;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult sim_handle_create(size_t size, const CUmemAllocationProp *properties, uint32_t kind,
			   uint64_t *ret)
{
	struct sim_request request = { .space = &sim_main_space,
				       .size = size,
				       .kind = SIM_ROW_NONE,
				       .whole = true };
	struct sim_object *handle;
	struct sim_range *backing;
	CUresult result = check_properties(properties, &request.device);

	if (!whole_granules(0, size))
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	request.charged = request.device >= 0 && kind == SIM_ROW_HANDLE;
	handle = sim_object_create(SIM_HANDLE);
	result = handle ? sim_range_create(&request, &backing) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		if (handle)
			sim_object_destroy(handle);
		return result;
	}
	handle->device = request.device;
	handle->handle.backing = backing->base;
	handle->handle.size = size;
	handle->handle.references = 1;
	handle->handle.properties = *properties;
	handle->handle.multicast = kind == SIM_ROW_MULTICAST;
	handle->row = sim_judge_add(kind, sim_object_handle(handle), size, request.device, 0);
	*ret = sim_object_handle(handle);
	return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *ret, size_t size,
		       const CUmemAllocationProp *properties, unsigned long long flags)
{
	uint64_t handle;
	CUresult result;

	if (!ret || flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_handle_create(size, properties, SIM_ROW_HANDLE, &handle);
	if (result == CUDA_SUCCESS)
		*ret = handle;
	return result;
}

/* Memory that a multicast object leads to; it keeps the memory. */
struct sim_binding {
	struct sim_binding *next;
	struct sim_object *memory;
	uint64_t offset, size, row;
};

static struct sim_binding *free_bindings;

static struct sim_binding *new_binding(void)
{
	struct sim_binding *binding = free_bindings;

	if (!binding)
		return sim_pages(sizeof(*binding));
	free_bindings = binding->next;
	return binding;
}

/* The lock is held. */
static void drop_unused(struct sim_object *handle);

static void drop_binding(struct sim_binding *binding)
{
	sim_judge_remove(binding->row);
	binding->memory->handle.mappings--;
	drop_unused(binding->memory);
	binding->next = free_bindings;
	free_bindings = binding;
}

static void drop_unused(struct sim_object *handle)
{
	struct sim_range gone;
	struct sim_binding *binding;

	if (handle->handle.references || handle->handle.mappings)
		return;
	while ((binding = handle->handle.bindings)) {
		handle->handle.bindings = binding->next;
		drop_binding(binding);
	}
	sim_judge_remove(handle->row);
	handle->row = SIM_NO_ROW;
	sim_range_destroy(handle->handle.backing, 1u << SIM_ROW_NONE, &gone);
	sim_object_destroy(handle);
}

/* A handle that only lives on in its mappings is none that a program may still use. */
static struct sim_object *find_handle(CUmemGenericAllocationHandle handle)
{
	struct sim_object *object = sim_object_find(SIM_HANDLE, handle);

	return object && object->handle.references ? object : NULL;
}

CUresult sim_handle_describe(uint64_t handle, CUmemAllocationProp *properties, uint64_t *size)
{
	struct sim_object *object = find_handle(handle);

	if (!object)
		return CUDA_ERROR_INVALID_HANDLE;
	*properties = object->handle.properties;
	*size = object->handle.size;
	return CUDA_SUCCESS;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
	struct sim_object *object;

	pthread_mutex_lock(&map_lock);
	object = find_handle(handle);
	if (object) {
		object->handle.references--;
		drop_unused(object);
	}
	pthread_mutex_unlock(&map_lock);
	return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static struct sim_mapping *mapping_at(uint64_t address)
{
	if (sim_space_of(address) != &sim_main_space)
		return NULL;
	return atomic_load_explicit(&sim_granule_of(&sim_main_space, address)->mapping,
				    memory_order_acquire);
}

static CUresult retain(CUmemGenericAllocationHandle *ret, void *address)
{
	struct sim_mapping *mapping;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&map_lock);
	mapping = mapping_at((uint64_t)address);
	if (mapping) {
		mapping->handle->handle.references++;
		*ret = sim_object_handle(mapping->handle);
	}
	pthread_mutex_unlock(&map_lock);
	return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The lock is held and everything has been checked. */
static CUresult enter_mapping(uint64_t address, uint64_t size, struct sim_object *handle)
{
	struct sim_granule *granule = sim_granule_of(&sim_main_space, address);
	struct sim_mapping *mapping = new_mapping();

	if (!mapping)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapping->base = address;
	mapping->size = size;
	mapping->handle = handle;
	mapping->access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	handle->handle.mappings++;
	mapping->row = sim_judge_add(SIM_ROW_MAPPING, address, size, handle->device,
				     sim_object_handle(handle));
	for (uint64_t i = 0; i < size / SIM_GRANULE; i++)
		atomic_store_explicit(&granule[i].mapping, mapping, memory_order_release);
	return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t size, size_t offset,
		    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct sim_object *object;
	struct sim_range range;
	CUresult result;

	/* The documentation of cuMemMap: the offset must be zero. */
	if (offset || flags || !whole_granules(address, size))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&map_lock);
	object = find_handle(handle);
	if (!object)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (size > object->handle.size || !reserved(address, size, &range))
		result = CUDA_ERROR_INVALID_VALUE;
	else if (any_mapping(address, size))
		result = CUDA_ERROR_ALREADY_MAPPED;
	else
		result = enter_mapping(address, size, object);
	pthread_mutex_unlock(&map_lock);
	return result;
}

/* --- multicast: objects that lead to memory of several devices, with no memory of their own --- */

static CUresult create_multicast(CUmemGenericAllocationHandle *ret,
				 const CUmulticastObjectProp *properties)
{
	static const CUmemAllocationProp nowhere = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST }
	};
	uint64_t handle;
	CUresult result;

	if (!ret || !properties || !properties->numDevices || properties->flags)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_handle_create(properties->size, &nowhere, SIM_ROW_MULTICAST, &handle);
	if (result == CUDA_SUCCESS)
		*ret = handle;
	return result;
}

static CUresult check_multicast(struct sim_object *multicast, size_t offset, size_t size)
{
	if (!multicast || !multicast->handle.multicast)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!size || (offset | size) % SIM_GRANULE || offset > multicast->handle.size ||
	    size > multicast->handle.size - offset)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Nothing is copied by way of such an object here. The lock is held. */
static CUresult bind_object(CUmemGenericAllocationHandle handle, size_t offset, size_t size,
			    struct sim_object *memory)
{
	struct sim_object *multicast = find_handle(handle);
	CUresult result = check_multicast(multicast, offset, size);
	struct sim_binding *binding;

	if (result != CUDA_SUCCESS)
		return result;
	if (!memory || memory->handle.multicast)
		return CUDA_ERROR_INVALID_HANDLE;
	binding = new_binding();
	if (!binding)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*binding = (struct sim_binding){ .next = multicast->handle.bindings,
					 .memory = memory,
					 .offset = offset,
					 .size = size };
	binding->row = sim_judge_add(SIM_ROW_BINDING, handle, size, memory->device, 0);
	memory->handle.mappings++;
	multicast->handle.bindings = binding;
	return CUDA_SUCCESS;
}

static CUresult bind_handle(CUmemGenericAllocationHandle handle, size_t offset, size_t size,
			    CUmemGenericAllocationHandle memory)
{
	CUresult result;

	pthread_mutex_lock(&map_lock);
	result = bind_object(handle, offset, size, find_handle(memory));
	pthread_mutex_unlock(&map_lock);
	return result;
}

static CUresult bind_address(CUmemGenericAllocationHandle handle, size_t offset, size_t size,
			     CUdeviceptr address)
{
	struct sim_mapping *mapping;
	CUresult result;

	pthread_mutex_lock(&map_lock);
	mapping = mapping_at(address);
	result = mapping ? bind_object(handle, offset, size, mapping->handle) :
			   CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&map_lock);
	return result;
}

static CUresult unbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
		       size_t size)
{
	struct sim_object *multicast;
	struct sim_binding **link, *binding;
	CUresult result;

	pthread_mutex_lock(&map_lock);
	multicast = find_handle(handle);
	result = check_multicast(multicast, offset, size);
	for (link = result == CUDA_SUCCESS ? &multicast->handle.bindings : NULL; link && *link;) {
		binding = *link;
		if (binding->offset < offset || binding->offset - offset >= size ||
		    binding->memory->device != device) {
			link = &binding->next;
			continue;
		}
		*link = binding->next;
		drop_binding(binding);
	}
	pthread_mutex_unlock(&map_lock);
	return result;
}

static CUresult add_multicast(CUmemGenericAllocationHandle handle, CUdevice device)
{
	struct sim_object *multicast = find_handle(handle);

	if (!multicast || !multicast->handle.multicast)
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_device_valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Whether the range consists of whole mappings without a gap; the lock is held. */
static bool whole_mappings(uint64_t address, uint64_t size)
{
	uint64_t at = address;

	while (at < address + size) {
		struct sim_mapping *mapping = mapping_at(at);

		if (!mapping || mapping->base != at || mapping->size > address + size - at)
			return false;
		at += mapping->size;
	}
	return true;
}

static void remove_mapping(struct sim_mapping *mapping)
{
	struct sim_granule *granule = sim_granule_of(&sim_main_space, mapping->base);
	struct sim_object *handle = mapping->handle;

	sim_judge_remove(mapping->row);
	for (uint64_t i = 0; i < mapping->size / SIM_GRANULE; i++)
		atomic_store_explicit(&granule[i].mapping, NULL, memory_order_release);
	mapping->next = free_mappings;
	free_mappings = mapping;
	handle->handle.mappings--;
	drop_unused(handle);
}

static CUresult unmap(CUdeviceptr address, size_t size)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!whole_granules(address, size))
		return result;
	pthread_mutex_lock(&map_lock);
	if (whole_mappings(address, size)) {
		for (uint64_t at = address; at < address + size;) {
			struct sim_mapping *mapping = mapping_at(at);

			at += mapping->size;
			remove_mapping(mapping);
		}
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&map_lock);
	return result;
}

static bool valid_access(const CUmemAccessDesc *access)
{
	if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
	    access->flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
	    access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		return false;
	if (access->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		return sim_device_valid(access->location.id);
	return access->location.type == CU_MEM_LOCATION_TYPE_HOST ||
	       access->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
	       access->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* One word of access per mapping: here every device that was named sees the same. */
static CUresult set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
			   size_t count)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	if (!access || !count || !whole_granules(address, size))
		return result;
	for (size_t i = 0; i < count; i++)
		if (!valid_access(&access[i]))
			return result;
	pthread_mutex_lock(&map_lock);
	if (whole_mappings(address, size)) {
		for (uint64_t at = address; at < address + size;) {
			struct sim_mapping *mapping = mapping_at(at);

			mapping->access = access[count - 1].flags;
			at += mapping->size;
		}
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&map_lock);
	return result;
}

static CUresult get_access(unsigned long long *flags, const CUmemLocation *location,
			   CUdeviceptr address)
{
	struct sim_mapping *mapping;

	if (!flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&map_lock);
	mapping = mapping_at(address);
	if (mapping)
		*flags = mapping->access;
	pthread_mutex_unlock(&map_lock);
	return mapping ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult granularity(size_t *ret, const CUmemAllocationProp *properties)
{
	int device;
	CUresult result = check_properties(properties, &device);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*ret = SIM_GRANULE;
	return result;
}

static CUresult get_properties(CUmemAllocationProp *ret, CUmemGenericAllocationHandle handle)
{
	struct sim_object *object = find_handle(handle);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!object)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = object->handle.properties;
	return CUDA_SUCCESS;
}

/* Bytes of one mapping, for sim_translate. */
static CUresult translate_mapped(uint64_t address, bool write, char **bytes, uint64_t *part)
{
	struct sim_mapping *mapping;
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&map_lock);
	mapping = mapping_at(address);
	if (mapping && mapping->access >= (write ? 3u : 1u)) {
		uint64_t backing = mapping->handle->handle.backing + (address - mapping->base);

		*bytes = sim_store(&sim_main_space, backing);
		*part = mapping->size - (address - mapping->base);
		if (write)
			sim_range_touch(backing);
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&map_lock);
	return result;
}

bool sim_mapping_device(uint64_t address, int *ret)
{
	const struct sim_mapping *mapping;

	pthread_mutex_lock(&map_lock);
	mapping = mapping_at(address);
	if (mapping)
		*ret = mapping->handle->device;
	pthread_mutex_unlock(&map_lock);
	return mapping != NULL;
}

CUresult sim_translate(uint64_t address, uint64_t size, bool write, char **bytes, uint64_t *part)
{
	struct sim_range range;
	CUresult result;

	if (!sim_space_of(address)) {
		*bytes = (char *)address;
		*part = size;
		return address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	if (!sim_range_find(address, &range))
		return CUDA_ERROR_INVALID_VALUE;
	if (range.kind == SIM_ROW_RESERVATION) {
		result = translate_mapped(address, write, bytes, part);
		if (result != CUDA_SUCCESS)
			return result;
	} else {
		if (address - range.base >= range.requested ||
		    size > range.requested - (address - range.base))
			return CUDA_ERROR_INVALID_VALUE;
		if (write)
			sim_range_touch(address);
		*bytes = sim_store(sim_space_of(address), address);
		*part = size;
	}
	if (*part > size)
		*part = size;
	return CUDA_SUCCESS;
}

SIM_ENTRY(cuMemAddressReserve,
	  (CUdeviceptr *ret, size_t size, size_t alignment, CUdeviceptr wish,
	   unsigned long long flags),
	  ((void)wish, reserve(ret, size, alignment, flags)))
SIM_ENTRY(cuMemAddressFree, (CUdeviceptr address, size_t size), unreserve(address, size))
SIM_ENTRY(cuMemCreate,
	  (CUmemGenericAllocationHandle *ret, size_t size, const CUmemAllocationProp *properties,
	   unsigned long long flags),
	  create(ret, size, properties, flags))
SIM_ENTRY(cuMemRelease, (CUmemGenericAllocationHandle handle), release(handle))
SIM_ENTRY(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *ret, void *address),
	  retain(ret, address))
SIM_ENTRY(cuMemMap,
	  (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
	   unsigned long long flags),
	  map(address, size, offset, handle, flags))
SIM_ENTRY(cuMemUnmap, (CUdeviceptr address, size_t size), unmap(address, size))
SIM_ENTRY(cuMemSetAccess,
	  (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count),
	  set_access(address, size, access, count))
SIM_ENTRY(cuMemGetAccess,
	  (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr address),
	  get_access(flags, location, address))
SIM_ENTRY(cuMemGetAllocationGranularity,
	  (size_t *ret, const CUmemAllocationProp *properties,
	   CUmemAllocationGranularity_flags option),
	  ((void)option, granularity(ret, properties)))
SIM_ENTRY(cuMemGetAllocationPropertiesFromHandle,
	  (CUmemAllocationProp *ret, CUmemGenericAllocationHandle handle),
	  get_properties(ret, handle))
SIM_ENTRY(cuMulticastCreate,
	  (CUmemGenericAllocationHandle *ret, const CUmulticastObjectProp *properties),
	  create_multicast(ret, properties))
SIM_ENTRY(cuMulticastAddDevice, (CUmemGenericAllocationHandle handle, CUdevice device),
	  add_multicast(handle, device))
SIM_ENTRY(cuMulticastBindMem,
	  (CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory,
	   size_t memory_offset, size_t size, unsigned long long flags),
	  memory_offset % SIM_GRANULE || flags ?
		  CUDA_ERROR_INVALID_VALUE :
		  bind_handle(handle, offset, size, memory))
SIM_ENTRY(cuMulticastBindAddr,
	  (CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr address, size_t size,
	   unsigned long long flags),
	  flags ? CUDA_ERROR_INVALID_VALUE : bind_address(handle, offset, size, address))
SIM_ENTRY(cuMulticastUnbind,
	  (CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t size),
	  !sim_device_valid(device) ? CUDA_ERROR_INVALID_DEVICE :
				      unbind(handle, device, offset, size))
