/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events. All work is done when its call returns: nothing has to be waited for. */
#include <time.h>

#include "sim.h"

CUresult sim_stream_check(CUstream stream)
{
	if ((uint64_t)stream <= 2) /* NULL, legacy, per-thread */
		return CUDA_SUCCESS;
	return sim_object_find(SIM_STREAM, (uint64_t)stream) ? CUDA_SUCCESS :
							       CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_stream_create(struct sim_object *context, CUstream *ret, unsigned int flags,
			   int priority)
{
	struct sim_object *stream;

	if (!ret || flags > 1)
		return CUDA_ERROR_INVALID_VALUE;
	stream = sim_object_create(SIM_STREAM);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->device = context->device;
	stream->context = sim_object_handle(context);
	stream->stream.flags = flags;
	stream->stream.priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
	stream->stream.id = sim_next_id();
	stream->row = sim_judge_add(SIM_ROW_STREAM, sim_object_handle(stream), 0, stream->device,
				    stream->context);
	*ret = (CUstream)sim_object_handle(stream);
	return CUDA_SUCCESS;
}

static CUresult destroy(enum sim_object_type type, uint64_t handle)
{
	struct sim_object *object = sim_object_find(type, handle);

	if (!object)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_object_destroy(object);
	return CUDA_SUCCESS;
}

static void destroy_owned(struct sim_object *object, void *context)
{
	if (object->context == *(uint64_t *)context)
		sim_object_destroy(object);
}

void sim_streams_destroy_all(uint64_t context)
{
	sim_object_each(SIM_STREAM, destroy_owned, &context);
	sim_object_each(SIM_EVENT, destroy_owned, &context);
}

/* Waiting for a stream makes no sense while its work is only written down. */
static CUresult check_idle(CUstream stream)
{
	if (sim_capturing(stream))
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	return sim_stream_check(stream);
}

static CUresult synchronize(struct sim_object *context, CUstream stream)
{
	CUresult result = check_idle(stream);

	if (result == CUDA_SUCCESS)
		sim_pools_settle(context->device);
	return result;
}

static CUresult stream_flags(CUstream handle, unsigned int *ret)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);

	if (sim_stream_check(handle) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = stream ? stream->stream.flags : 0;
	return CUDA_SUCCESS;
}

static CUresult stream_priority(CUstream handle, int *ret)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);

	if (sim_stream_check(handle) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = stream ? stream->stream.priority : 0;
	return CUDA_SUCCESS;
}

static CUresult stream_id(CUstream handle, unsigned long long *ret)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);

	if (sim_stream_check(handle) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = stream ? stream->stream.id : (uint64_t)handle;
	return CUDA_SUCCESS;
}

static CUresult stream_context(struct sim_object *context, CUstream handle, CUcontext *ret)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);

	if (sim_stream_check(handle) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (CUcontext)(stream ? stream->context : sim_object_handle(context));
	return CUDA_SUCCESS;
}

static CUresult stream_device(struct sim_object *context, CUstream handle, CUdevice *ret)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);

	if (sim_stream_check(handle) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = stream ? stream->device : context->device;
	return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	static __thread CUstreamCaptureMode now __attribute__((tls_model("initial-exec")));
	CUstreamCaptureMode before = now;

	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	now = *mode;
	*mode = before;
	return CUDA_SUCCESS;
}

static CUresult add_callback(CUstream stream, CUstreamCallback callback, void *argument)
{
	if (sim_stream_check(stream) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!callback)
		return CUDA_ERROR_INVALID_VALUE;
	callback(stream, CUDA_SUCCESS, argument);
	return CUDA_SUCCESS;
}

static CUresult launch_host(CUstream stream, CUhostFn function, void *argument)
{
	if (sim_stream_check(stream) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!function)
		return CUDA_ERROR_INVALID_VALUE;
	sim_capture_node(stream);
	function(argument);
	return CUDA_SUCCESS;
}

/* --- events --- */

static CUresult create_event(struct sim_object *context, CUevent *ret, unsigned int flags)
{
	struct sim_object *event;

	if (!ret || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	event = sim_object_create(SIM_EVENT);
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->device = context->device;
	event->context = sim_object_handle(context);
	event->event.flags = flags;
	event->row = sim_judge_add(SIM_ROW_EVENT, sim_object_handle(event), 0, event->device,
				   event->context);
	*ret = (CUevent)sim_object_handle(event);
	return CUDA_SUCCESS;
}

static CUresult record(CUevent handle, CUstream stream)
{
	struct sim_object *event = sim_object_find(SIM_EVENT, (uint64_t)handle);
	struct sim_object *graph = sim_capturing(stream);
	struct timespec now;

	if (!event || sim_stream_check(stream) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	atomic_store(&event->event.graph, graph ? sim_object_handle(graph) : 0);
	clock_gettime(CLOCK_MONOTONIC, &now);
	atomic_store(&event->event.nanoseconds,
		     (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
	return CUDA_SUCCESS;
}

static CUresult check_event(struct sim_object *context, CUevent handle, bool settle)
{
	if (!sim_object_find(SIM_EVENT, (uint64_t)handle))
		return CUDA_ERROR_INVALID_HANDLE;
	if (settle)
		sim_pools_settle(context->device);
	return CUDA_SUCCESS;
}

static CUresult wait_event(CUstream stream, CUevent handle)
{
	struct sim_object *event = sim_object_find(SIM_EVENT, (uint64_t)handle);

	if (!event || sim_stream_check(stream) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_capture_join(stream, atomic_load(&event->event.graph));
	return CUDA_SUCCESS;
}

static CUresult elapsed(float *ret, CUevent first, CUevent second)
{
	struct sim_object *a = sim_object_find(SIM_EVENT, (uint64_t)first);
	struct sim_object *b = sim_object_find(SIM_EVENT, (uint64_t)second);
	uint64_t from, to;

	if (!a || !b || (a->event.flags | b->event.flags) & 2) /* made without timing */
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	from = atomic_load(&a->event.nanoseconds);
	to = atomic_load(&b->event.nanoseconds);
	if (!from || !to)
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = (float)((double)(int64_t)(to - from) / 1e6);
	return CUDA_SUCCESS;
}

SIM_ENTRY_CONTEXT(cuStreamCreate, (CUstream *ret, unsigned int flags),
		  sim_stream_create(context, ret, flags, 0))
SIM_ENTRY_CONTEXT(cuStreamCreateWithPriority, (CUstream *ret, unsigned int flags, int priority),
		  sim_stream_create(context, ret, flags, priority))
SIM_ENTRY(cuStreamDestroy, (CUstream stream), destroy(SIM_STREAM, (uint64_t)stream))
SIM_ENTRY(cuStreamDestroy_v2, (CUstream stream), destroy(SIM_STREAM, (uint64_t)stream))
SIM_ENTRY_CONTEXT_TWIN(cuStreamSynchronize, _ptsz, (CUstream stream), synchronize(context, stream))
SIM_ENTRY_CONTEXT_TWIN(cuStreamQuery, _ptsz, (CUstream stream), check_idle(stream))
SIM_ENTRY_CONTEXT_TWIN(cuStreamWaitEvent, _ptsz,
		       (CUstream stream, CUevent event, unsigned int flags),
		       ((void)flags, wait_event(stream, event)))
SIM_ENTRY_CONTEXT_TWIN(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned int *flags),
		       stream_flags(stream, flags))
SIM_ENTRY_CONTEXT_TWIN(cuStreamGetPriority, _ptsz, (CUstream stream, int *priority),
		       stream_priority(stream, priority))
SIM_ENTRY_CONTEXT_TWIN(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long *id),
		       stream_id(stream, id))
SIM_ENTRY_CONTEXT_TWIN(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext *ret),
		       stream_context(context, stream, ret))
SIM_ENTRY_CONTEXT_TWIN(cuStreamGetDevice, _ptsz, (CUstream stream, CUdevice *ret),
		       stream_device(context, stream, ret))
SIM_ENTRY_CONTEXT_TWIN(cuStreamAddCallback, _ptsz,
		       (CUstream stream, CUstreamCallback callback, void *argument,
			unsigned int flags),
		       ((void)flags, add_callback(stream, callback, argument)))
SIM_ENTRY_CONTEXT_TWIN(cuLaunchHostFunc, _ptsz,
		       (CUstream stream, CUhostFn function, void *argument),
		       launch_host(stream, function, argument))
SIM_ENTRY(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode), exchange_mode(mode))
SIM_ENTRY_CONTEXT(cuEventCreate, (CUevent *ret, unsigned int flags),
		  create_event(context, ret, flags))
SIM_ENTRY(cuEventDestroy, (CUevent event), destroy(SIM_EVENT, (uint64_t)event))
SIM_ENTRY(cuEventDestroy_v2, (CUevent event), destroy(SIM_EVENT, (uint64_t)event))
SIM_ENTRY_CONTEXT_TWIN(cuEventRecord, _ptsz, (CUevent event, CUstream stream),
		       record(event, stream))
SIM_ENTRY_CONTEXT_TWIN(cuEventRecordWithFlags, _ptsz,
		       (CUevent event, CUstream stream, unsigned int flags),
		       ((void)flags, record(event, stream)))
SIM_ENTRY_CONTEXT(cuEventQuery, (CUevent event), check_event(context, event, false))
SIM_ENTRY_CONTEXT(cuEventSynchronize, (CUevent event), check_event(context, event, true))
SIM_ENTRY_CONTEXT(cuEventElapsedTime, (float *ret, CUevent first, CUevent second),
		  elapsed(ret, first, second))
SIM_ENTRY_CONTEXT(cuEventElapsedTime_v2, (float *ret, CUevent first, CUevent second),
		  elapsed(ret, first, second))
