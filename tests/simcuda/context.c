/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: created, primary, and current to a thread.
 *
 * A device has one primary context whose handle stays the same for the life of the process. What a
 * thread has current is a stack of handles; a context destroyed by another thread is noticed at the
 * next call. Destroying a context frees all that was allocated while it was current; memory of
 * cuMemCreate and reservations belong to the process and stay.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define MAX_FLAGS 0xff

uint64_t sim_context_overhead = 512 * SIM_MIB;

/* Held while contexts come and go. */
static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;

static __thread struct {
	struct sim_object *top;
	uint32_t depth;
	uint64_t handle[SIM_CONTEXT_DEPTH];
} current __attribute__((tls_model("initial-exec")));

/*
 * SIMCUDA_HIDDEN_CONTEXT: the devices whose primary contexts threads find without asking; threads
 * get them in turn, in the order of their first need.
 */
static int hidden_devices[SIM_MAX_DEVICES];
static unsigned int hidden_count;
static _Atomic unsigned int hidden_next;

static CUresult push(uint64_t handle);
static CUresult primary_retain(CUcontext *ret, CUdevice device);

static void set_top(void)
{
	current.top = NULL;
	if (current.depth)
		current.top = sim_object_find(SIM_CONTEXT, current.handle[current.depth - 1]);
}

static CUresult no_current(struct sim_object **ret)
{
	CUcontext context;
	CUresult result;

	if (current.depth)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (!hidden_count)
		return CUDA_ERROR_INVALID_CONTEXT;
	result = primary_retain(
		&context, hidden_devices[atomic_fetch_add(&hidden_next, 1) % hidden_count]);
	if (result != CUDA_SUCCESS)
		return result;
	push((uint64_t)context);
	*ret = current.top;
	return CUDA_SUCCESS;
}

CUresult sim_current(struct sim_object **ret)
{
	struct sim_object *top = current.top;

	if (SIM_UNLIKELY(!top))
		return no_current(ret);
	if (SIM_UNLIKELY(sim_object_handle(top) != current.handle[current.depth - 1] ||
			 !atomic_load_explicit(&top->context_data.active, memory_order_relaxed)))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*ret = top;
	return CUDA_SUCCESS;
}

CUresult sim_context_find(CUcontext context, struct sim_object **ret)
{
	struct sim_object *object = sim_object_find(SIM_CONTEXT, (uint64_t)context);

	if (!object)
		return CUDA_ERROR_INVALID_CONTEXT;
	*ret = object;
	return CUDA_SUCCESS;
}

CUresult sim_context_start(void)
{
	const char *hidden = getenv("SIMCUDA_HIDDEN_CONTEXT");

	while (hidden && *hidden && hidden_count < SIM_MAX_DEVICES) {
		int device = atoi(hidden);

		hidden_devices[hidden_count++] =
			sim_device_valid(device) ? device : sim_device_count - 1;
		hidden += strcspn(hidden, ",");
		hidden += *hidden == ',';
	}
	for (int i = 0; i < sim_device_count; i++) {
		struct sim_object *object = sim_object_create(SIM_CONTEXT);

		if (!object)
			return CUDA_ERROR_OUT_OF_MEMORY;
		object->device = i;
		object->context_data.primary = true;
		object->context_data.id = sim_next_id();
		sim_devices[i].primary = object;
	}
	return CUDA_SUCCESS;
}

static CUresult wake(struct sim_object *object)
{
	static const size_t limits[CU_LIMIT_MAX] = { 1024, 7 * SIM_MIB, 8 * SIM_MIB, 2, 2048, 128 };

	if (!sim_charge(object->device, sim_context_overhead))
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(object->context_data.limit, limits, sizeof(limits));
	object->context_data.peers = 0;
	object->row = sim_judge_add(SIM_ROW_CONTEXT, sim_object_handle(object),
				    sim_context_overhead, object->device, 0);
	atomic_store(&object->context_data.active, 1);
	return CUDA_SUCCESS;
}

static void put_to_sleep(struct sim_object *object)
{
	uint64_t handle = sim_object_handle(object);

	atomic_store(&object->context_data.active, 0);
	sim_streams_destroy_all(handle);
	sim_code_destroy_all(handle);
	sim_arrays_destroy_all(handle);
	sim_host_destroy_all(handle);
	sim_range_destroy_all(handle);
	sim_pools_settle(object->device);
	sim_uncharge(object->device, sim_context_overhead);
	sim_judge_remove(object->row);
	object->row = SIM_NO_ROW;
}

static CUresult push(uint64_t handle)
{
	if (current.depth == SIM_CONTEXT_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	current.handle[current.depth++] = handle;
	set_top();
	return CUDA_SUCCESS;
}

static CUresult create(CUcontext *ret, unsigned int flags, CUdevice device)
{
	struct sim_object *object;
	CUresult result;

	if (!ret || flags > MAX_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (current.depth == SIM_CONTEXT_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object = sim_object_create(SIM_CONTEXT);
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->device = device;
	object->context_data.flags = flags;
	object->context_data.attached = 1;
	object->context_data.id = sim_next_id();
	pthread_mutex_lock(&context_lock);
	result = wake(object);
	pthread_mutex_unlock(&context_lock);
	if (result != CUDA_SUCCESS) {
		sim_object_destroy(object);
		return result;
	}
	push(sim_object_handle(object));
	*ret = (CUcontext)sim_object_handle(object);
	return CUDA_SUCCESS;
}

/* Execution affinity and graphics interop need what is not simulated. */
static CUresult create_parameters(CUcontext *ret, const CUctxCreateParams *parameters,
				  unsigned int flags, CUdevice device)
{
	if (parameters && (parameters->execAffinityParams || parameters->cigParams))
		return CUDA_ERROR_NOT_SUPPORTED;
	return create(ret, flags, device);
}

static CUresult destroy(CUcontext context)
{
	struct sim_object *object;

	pthread_mutex_lock(&context_lock);
	if (sim_context_find(context, &object) != CUDA_SUCCESS || object->context_data.primary) {
		pthread_mutex_unlock(&context_lock);
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	put_to_sleep(object);
	sim_object_destroy(object);
	pthread_mutex_unlock(&context_lock);
	if (current.depth && current.handle[current.depth - 1] == (uint64_t)context) {
		current.depth--;
		set_top();
	}
	return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
	struct sim_object *object;

	if (!context) {
		if (current.depth)
			current.depth--;
		set_top();
		return CUDA_SUCCESS;
	}
	if (sim_context_find(context, &object) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!current.depth)
		return push((uint64_t)context);
	current.handle[current.depth - 1] = (uint64_t)context;
	set_top();
	return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *ret)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = current.depth ? (CUcontext)current.handle[current.depth - 1] : NULL;
	return CUDA_SUCCESS;
}

static CUresult push_current(CUcontext context)
{
	struct sim_object *object;

	if (sim_context_find(context, &object) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	return push((uint64_t)context);
}

static CUresult pop_current(CUcontext *ret)
{
	if (!current.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	current.depth--;
	if (ret)
		*ret = (CUcontext)current.handle[current.depth];
	set_top();
	return CUDA_SUCCESS;
}

static CUresult attach(struct sim_object *context, CUcontext *ret, unsigned int flags)
{
	if (!ret || flags)
		return CUDA_ERROR_INVALID_VALUE;
	context->context_data.attached++;
	*ret = (CUcontext)sim_object_handle(context);
	return CUDA_SUCCESS;
}

static CUresult detach(CUcontext context)
{
	struct sim_object *object;

	if (sim_context_find(context, &object) != CUDA_SUCCESS || object->context_data.primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	return --object->context_data.attached ? CUDA_SUCCESS : destroy(context);
}

/* The context that a NULL or given handle means. */
static CUresult given_or_current(CUcontext context, struct sim_object **ret)
{
	return context ? sim_context_find(context, ret) : sim_current(ret);
}

static CUresult api_version(CUcontext context, unsigned int *version)
{
	struct sim_object *object;
	CUresult result = given_or_current(context, &object);

	if (result != CUDA_SUCCESS)
		return result;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 3020;
	return CUDA_SUCCESS;
}

static CUresult get_id(CUcontext context, unsigned long long *ret)
{
	struct sim_object *object;
	CUresult result = given_or_current(context, &object);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = object->context_data.id;
	return CUDA_SUCCESS;
}

static CUresult get_device(CUcontext context, CUdevice *ret)
{
	struct sim_object *object;
	CUresult result = given_or_current(context, &object);

	if (result != CUDA_SUCCESS)
		return result;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = object->device;
	return CUDA_SUCCESS;
}

static CUresult synchronize(CUcontext context)
{
	struct sim_object *object;
	CUresult result = given_or_current(context, &object);

	if (result == CUDA_SUCCESS)
		sim_pools_settle(object->device);
	return result;
}

static CUresult get_flags(struct sim_object *context, unsigned int *flags)
{
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context->context_data.flags;
	return CUDA_SUCCESS;
}

static CUresult set_flags(struct sim_object *context, unsigned int flags)
{
	if (flags > MAX_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	context->context_data.flags = flags;
	return CUDA_SUCCESS;
}

static CUresult get_limit(struct sim_object *context, size_t *value, CUlimit limit)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if ((unsigned int)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*value = context->context_data.limit[limit];
	return CUDA_SUCCESS;
}

static CUresult set_limit(struct sim_object *context, CUlimit limit, size_t value)
{
	if ((unsigned int)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	context->context_data.limit[limit] = value;
	return CUDA_SUCCESS;
}

static CUresult write_number(int *ret, int value)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = value;
	return CUDA_SUCCESS;
}

static CUresult priority_range(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

static CUresult primary_retain(CUcontext *ret, CUdevice device)
{
	struct sim_object *primary;
	CUresult result = CUDA_SUCCESS;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	primary = sim_devices[device].primary;
	pthread_mutex_lock(&context_lock);
	if (atomic_load(&primary->context_data.active))
		atomic_fetch_add(&primary->context_data.active, 1);
	else
		result = wake(primary);
	pthread_mutex_unlock(&context_lock);
	if (result == CUDA_SUCCESS)
		*ret = (CUcontext)sim_object_handle(primary);
	return result;
}

static CUresult primary_release(CUdevice device, bool reset)
{
	struct sim_object *primary;
	CUresult result = CUDA_SUCCESS;
	uint32_t active;

	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	primary = sim_devices[device].primary;
	pthread_mutex_lock(&context_lock);
	active = atomic_load(&primary->context_data.active);
	if (!active && !reset)
		result = CUDA_ERROR_INVALID_CONTEXT;
	else if (active && (reset || active == 1))
		put_to_sleep(primary);
	else if (active)
		atomic_store(&primary->context_data.active, active - 1);
	pthread_mutex_unlock(&context_lock);
	return result;
}

CUresult sim_primary_retain(CUdevice device)
{
	CUcontext context;

	return primary_retain(&context, device);
}

void sim_primary_release(CUdevice device)
{
	primary_release(device, false);
}

static CUresult primary_flags(CUdevice device, unsigned int flags, bool only_asleep)
{
	struct sim_object *primary;

	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags > MAX_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	primary = sim_devices[device].primary;
	if (only_asleep && atomic_load(&primary->context_data.active))
		return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
	primary->context_data.flags = flags;
	return CUDA_SUCCESS;
}

static CUresult primary_state(CUdevice device, unsigned int *flags, int *active)
{
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = sim_devices[device].primary->context_data.flags;
	*active = atomic_load(&sim_devices[device].primary->context_data.active) != 0;
	return CUDA_SUCCESS;
}

/* Which contexts a context may reach is only remembered, for the results of the calls. */
static CUresult peer_access(struct sim_object *context, CUcontext handle, bool enable)
{
	struct sim_object *peer;
	uint32_t bit;
	bool enabled;

	if (sim_context_find(handle, &peer) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (peer->device == context->device)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	bit = 1u << peer->device;
	enabled = context->context_data.peers & bit;
	if (enable && enabled)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	if (!enable && !enabled)
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	context->context_data.peers ^= bit;
	return CUDA_SUCCESS;
}

SIM_ENTRY_CONTEXT(cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags),
		  flags ? CUDA_ERROR_INVALID_VALUE : peer_access(context, peer, true))
SIM_ENTRY_CONTEXT(cuCtxDisablePeerAccess, (CUcontext peer), peer_access(context, peer, false))
SIM_ENTRY(cuCtxCreate, (CUcontext *ret, unsigned int flags, CUdevice device),
	  create(ret, flags, device))
SIM_ENTRY(cuCtxCreate_v2, (CUcontext *ret, unsigned int flags, CUdevice device),
	  create(ret, flags, device))
SIM_ENTRY(cuCtxCreate_v3,
	  (CUcontext *ret, CUexecAffinityParam *parameters, int count, unsigned int flags,
	   CUdevice device),
	  parameters && count ? CUDA_ERROR_NOT_SUPPORTED : create(ret, flags, device))
SIM_ENTRY(cuCtxCreate_v4,
	  (CUcontext *ret, CUctxCreateParams *parameters, unsigned int flags, CUdevice device),
	  create_parameters(ret, parameters, flags, device))
SIM_ENTRY(cuCtxDestroy, (CUcontext context), destroy(context))
SIM_ENTRY(cuCtxDestroy_v2, (CUcontext context), destroy(context))
SIM_ENTRY(cuCtxSetCurrent, (CUcontext context), set_current(context))
SIM_ENTRY(cuCtxGetCurrent, (CUcontext *ret), get_current(ret))
SIM_ENTRY(cuCtxPushCurrent, (CUcontext context), push_current(context))
SIM_ENTRY(cuCtxPushCurrent_v2, (CUcontext context), push_current(context))
SIM_ENTRY(cuCtxPopCurrent, (CUcontext *ret), pop_current(ret))
SIM_ENTRY(cuCtxPopCurrent_v2, (CUcontext *ret), pop_current(ret))
SIM_ENTRY_CONTEXT(cuCtxAttach, (CUcontext *ret, unsigned int flags), attach(context, ret, flags))
SIM_ENTRY(cuCtxDetach, (CUcontext context), detach(context))
SIM_ENTRY(cuCtxGetDevice, (CUdevice *device), get_device(NULL, device))
SIM_ENTRY(cuCtxGetDevice_v2, (CUdevice *device, CUcontext context), get_device(context, device))
SIM_ENTRY(cuCtxGetApiVersion, (CUcontext context, unsigned int *version),
	  api_version(context, version))
SIM_ENTRY(cuCtxGetId, (CUcontext context, unsigned long long *id), get_id(context, id))
SIM_ENTRY(cuCtxSynchronize, (void), synchronize(NULL))
SIM_ENTRY(cuCtxSynchronize_v2, (CUcontext context), synchronize(context))
SIM_ENTRY_CONTEXT(cuCtxGetFlags, (unsigned int *flags), get_flags(context, flags))
SIM_ENTRY_CONTEXT(cuCtxSetFlags, (unsigned int flags), set_flags(context, flags))
SIM_ENTRY_CONTEXT(cuCtxGetLimit, (size_t *value, CUlimit limit), get_limit(context, value, limit))
SIM_ENTRY_CONTEXT(cuCtxSetLimit, (CUlimit limit, size_t value), set_limit(context, limit, value))
SIM_ENTRY_CONTEXT(cuCtxGetCacheConfig, (CUfunc_cache *config), write_number((int *)config, 0))
SIM_ENTRY_CONTEXT(cuCtxSetCacheConfig, (CUfunc_cache config), ((void)config, CUDA_SUCCESS))
SIM_ENTRY_CONTEXT(cuCtxResetPersistingL2Cache, (void), CUDA_SUCCESS)
SIM_ENTRY_CONTEXT(cuCtxGetStreamPriorityRange, (int *least, int *greatest),
		  priority_range(least, greatest))
SIM_ENTRY(cuDevicePrimaryCtxRetain, (CUcontext *ret, CUdevice device), primary_retain(ret, device))
SIM_ENTRY(cuDevicePrimaryCtxRelease, (CUdevice device), primary_release(device, false))
SIM_ENTRY(cuDevicePrimaryCtxRelease_v2, (CUdevice device), primary_release(device, false))
SIM_ENTRY(cuDevicePrimaryCtxReset, (CUdevice device), primary_release(device, true))
SIM_ENTRY(cuDevicePrimaryCtxReset_v2, (CUdevice device), primary_release(device, true))
SIM_ENTRY(cuDevicePrimaryCtxSetFlags, (CUdevice device, unsigned int flags),
	  primary_flags(device, flags, true))
SIM_ENTRY(cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned int flags),
	  primary_flags(device, flags, false))
SIM_ENTRY(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *flags, int *active),
	  primary_state(device, flags, active))
