/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture and graphs, as far as memory goes.
 *
 * While a stream captures, an asynchronous allocation on it gets an address and no bytes: they
 * are charged when the graph is launched for the first time and given back with the graph. A
 * graph lives while its own handle or an executable made of it does. What it would run is not
 * written down.
 */
#include "sim.h"

static pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t charged[SIM_MAX_DEVICES], charged_high[SIM_MAX_DEVICES];

struct sim_object *sim_capturing(CUstream handle)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);

	if (!stream || !stream->stream.graph)
		return NULL;
	return sim_object_find(SIM_GRAPH, stream->stream.graph);
}

static struct sim_object *make_graph(int device)
{
	struct sim_object *graph = sim_object_create(SIM_GRAPH);

	if (!graph)
		return NULL;
	graph->device = device;
	graph->graph.references = 1;
	graph->graph.named = true;
	graph->row = sim_judge_add(SIM_ROW_GRAPH, sim_object_handle(graph), 0, -1, 0);
	return graph;
}

static void destroy_node_of(struct sim_object *node, void *graph)
{
	if (node->exec.graph == graph)
		sim_object_destroy(node);
}

/* The lock is held. */
static void drop_reference(struct sim_object *graph)
{
	struct sim_range gone;

	if (--graph->graph.references)
		return;
	for (uint32_t i = 0; i < graph->graph.count; i++)
		sim_range_destroy(graph->graph.range[i], 1u << SIM_ROW_GRAPH_MEMORY, &gone);
	if (graph->graph.backed) {
		sim_uncharge(graph->device, graph->graph.bytes);
		charged[graph->device] -= graph->graph.bytes;
	}
	sim_object_each(SIM_NODE, destroy_node_of, graph);
	sim_object_destroy(graph);
}

static struct sim_object *find_graph(CUgraph handle)
{
	struct sim_object *graph = sim_object_find(SIM_GRAPH, (uint64_t)handle);

	return graph && graph->graph.named ? graph : NULL;
}

static CUresult create(struct sim_object *context, CUgraph *ret, unsigned int flags)
{
	struct sim_object *graph;

	if (!ret || flags)
		return CUDA_ERROR_INVALID_VALUE;
	graph = make_graph(context->device);
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUgraph)sim_object_handle(graph);
	return CUDA_SUCCESS;
}

static CUresult destroy(CUgraph handle)
{
	struct sim_object *graph;

	pthread_mutex_lock(&graph_lock);
	graph = find_graph(handle);
	if (graph) {
		graph->graph.named = false;
		sim_judge_remove(graph->row);
		graph->row = SIM_NO_ROW;
		drop_reference(graph);
	}
	pthread_mutex_unlock(&graph_lock);
	return graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* --- capture --- */

/* Only a stream that was created can capture here, not the default ones. */
static CUresult begin(CUstream handle)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);
	struct sim_object *graph;

	if (!stream)
		return sim_stream_check(handle) != CUDA_SUCCESS ?
			       CUDA_ERROR_INVALID_HANDLE :
			       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (stream->stream.graph)
		return CUDA_ERROR_ILLEGAL_STATE;
	graph = make_graph(stream->device);
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->stream.graph = sim_object_handle(graph);
	return CUDA_SUCCESS;
}

static CUresult begin_to(CUstream handle, CUgraph into)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);
	struct sim_object *graph = find_graph(into);

	if (!stream || !graph)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->stream.graph)
		return CUDA_ERROR_ILLEGAL_STATE;
	stream->stream.graph = sim_object_handle(graph);
	return CUDA_SUCCESS;
}

static CUresult end(CUstream handle, CUgraph *ret)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream->stream.graph)
		return CUDA_ERROR_ILLEGAL_STATE;
	*ret = (CUgraph)stream->stream.graph;
	stream->stream.graph = 0;
	return CUDA_SUCCESS;
}

static CUresult capture_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
			     CUgraph *graph, size_t *dependencies)
{
	struct sim_object *found = sim_capturing(stream);

	if (sim_stream_check(stream) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	*status = found ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
	if (id)
		*id = found ? sim_object_handle(found) : 0;
	if (graph && found)
		*graph = (CUgraph)sim_object_handle(found);
	if (dependencies)
		*dependencies = 0;
	return CUDA_SUCCESS;
}

CUresult sim_graph_allocate(struct sim_object *context, struct sim_object *graph, size_t size,
			    CUdeviceptr *ret)
{
	struct sim_request request = { .space = &sim_main_space,
				       .size = size,
				       .kind = SIM_ROW_GRAPH_MEMORY,
				       .device = graph->device,
				       .whole = true };
	struct sim_range *range;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	(void)context;
	if (!ret || !size)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&graph_lock);
	if (graph->graph.count < SIM_GRAPH_RANGES)
		result = sim_range_create(&request, &range);
	if (result == CUDA_SUCCESS) {
		graph->graph.range[graph->graph.count++] = range->base;
		graph->graph.bytes += range->span;
		*ret = range->base;
	}
	pthread_mutex_unlock(&graph_lock);
	return result;
}

CUresult sim_graph_free(struct sim_object *graph, uint64_t address)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&graph_lock);
	for (uint32_t i = 0; i < graph->graph.count; i++)
		if (graph->graph.range[i] == address)
			result = CUDA_SUCCESS;
	pthread_mutex_unlock(&graph_lock);
	return result;
}

/* The range of a living graph that starts there. */
struct owner {
	uint64_t address;
	struct sim_object *graph;
	uint32_t range;
};

static void match_owner(struct sim_object *graph, void *argument)
{
	struct owner *owner = argument;

	for (uint32_t i = 0; i < graph->graph.count; i++) {
		if (graph->graph.range[i] != owner->address)
			continue;
		owner->graph = graph;
		owner->range = i;
	}
}

CUresult sim_graph_free_now(uint64_t address)
{
	struct owner owner = { .address = address };
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&graph_lock);
	sim_object_each(SIM_GRAPH, match_owner, &owner);
	if (owner.graph && owner.graph->graph.backed &&
	    !(owner.graph->graph.freed & 1u << owner.range)) {
		owner.graph->graph.freed |= 1u << owner.range;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&graph_lock);
	return result;
}

/* --- nodes --- */

static CUresult add_node(CUgraphNode *ret, CUgraph handle)
{
	struct sim_object *graph = find_graph(handle), *node;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!graph)
		return CUDA_ERROR_INVALID_HANDLE;
	node = sim_object_create(SIM_NODE);
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->exec.graph = graph;
	*ret = (CUgraphNode)sim_object_handle(node);
	return CUDA_SUCCESS;
}

static CUresult add_allocation(CUgraphNode *ret, CUgraph handle,
			       CUDA_MEM_ALLOC_NODE_PARAMS *parameters)
{
	struct sim_object *graph = find_graph(handle);
	CUresult result;

	if (!ret || !parameters || !parameters->bytesize ||
	    parameters->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    parameters->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!graph)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sim_device_valid(parameters->poolProps.location.id))
		return CUDA_ERROR_INVALID_DEVICE;
	/* All memory of a graph is charged to one device here. */
	if (graph->graph.count && graph->device != parameters->poolProps.location.id)
		return CUDA_ERROR_NOT_SUPPORTED;
	graph->device = parameters->poolProps.location.id;
	result = sim_graph_allocate(NULL, graph, parameters->bytesize, &parameters->dptr);
	return result == CUDA_SUCCESS ? add_node(ret, handle) : result;
}

static CUresult add_free(CUgraphNode *ret, CUgraph handle, CUdeviceptr address)
{
	struct sim_object *graph = find_graph(handle);
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!graph)
		return CUDA_ERROR_INVALID_HANDLE;
	result = sim_graph_free(graph, address);
	return result == CUDA_SUCCESS ? add_node(ret, handle) : result;
}

static CUresult add_any(CUgraphNode *ret, CUgraph handle, CUgraphNodeParams *parameters)
{
	if (!parameters)
		return CUDA_ERROR_INVALID_VALUE;
	switch ((int)parameters->type) {
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return add_allocation(ret, handle, (CUDA_MEM_ALLOC_NODE_PARAMS *)&parameters->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return add_free(ret, handle, parameters->free.dptr);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return add_node(ret, handle);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

static CUresult destroy_node(CUgraphNode handle)
{
	struct sim_object *node = sim_object_find(SIM_NODE, (uint64_t)handle);

	if (!node)
		return CUDA_ERROR_INVALID_HANDLE;
	if (node->exec.graph->graph.count)
		return CUDA_ERROR_NOT_SUPPORTED;
	sim_object_destroy(node);
	return CUDA_SUCCESS;
}

static CUresult clone_graph(struct sim_object *context, CUgraph *ret, CUgraph handle)
{
	struct sim_object *graph = find_graph(handle);

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!graph)
		return CUDA_ERROR_INVALID_HANDLE;
	return graph->graph.count ? CUDA_ERROR_NOT_SUPPORTED : create(context, ret, 0);
}

/* --- executables --- */

static CUresult instantiate(CUgraphExec *ret, CUgraph handle)
{
	struct sim_object *graph, *exec = NULL;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&graph_lock);
	graph = find_graph(handle);
	if (graph && graph->graph.count && graph->graph.references > 1) {
		pthread_mutex_unlock(&graph_lock);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	if (graph)
		exec = sim_object_create(SIM_GRAPH_EXEC);
	if (exec) {
		exec->device = graph->device;
		exec->exec.graph = graph;
		graph->graph.references++;
		exec->row = sim_judge_add(SIM_ROW_GRAPH_EXEC, sim_object_handle(exec), 0, -1, 0);
		*ret = (CUgraphExec)sim_object_handle(exec);
	}
	pthread_mutex_unlock(&graph_lock);
	if (!graph)
		return CUDA_ERROR_INVALID_HANDLE;
	return exec ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult launch(CUgraphExec handle, CUstream stream)
{
	struct sim_object *exec, *graph;
	CUresult result = sim_stream_check(stream);

	if (result != CUDA_SUCCESS)
		return result;
	pthread_mutex_lock(&graph_lock);
	exec = sim_object_find(SIM_GRAPH_EXEC, (uint64_t)handle);
	graph = exec ? exec->exec.graph : NULL;
	if (!graph) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else if (!graph->graph.backed) {
		if (sim_charge(graph->device, graph->graph.bytes)) {
			graph->graph.backed = true;
			charged[graph->device] += graph->graph.bytes;
			if (charged[graph->device] > charged_high[graph->device])
				charged_high[graph->device] = charged[graph->device];
		} else {
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (result == CUDA_SUCCESS)
		graph->graph.freed = 0;
	pthread_mutex_unlock(&graph_lock);
	return result;
}

static CUresult upload(CUgraphExec handle, CUstream stream)
{
	if (!sim_object_find(SIM_GRAPH_EXEC, (uint64_t)handle))
		return CUDA_ERROR_INVALID_HANDLE;
	return sim_stream_check(stream);
}

static CUresult destroy_exec(CUgraphExec handle)
{
	struct sim_object *exec;

	pthread_mutex_lock(&graph_lock);
	exec = sim_object_find(SIM_GRAPH_EXEC, (uint64_t)handle);
	if (exec) {
		struct sim_object *graph = exec->exec.graph;

		sim_object_destroy(exec);
		drop_reference(graph);
	}
	pthread_mutex_unlock(&graph_lock);
	return exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult memory_attribute(CUdevice device, CUgraphMem_attribute which, void *value)
{
	cuuint64_t *number = value;

	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || (unsigned int)which > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&graph_lock);
	if (which == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
	    which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		*number = charged_high[device];
	else
		*number = charged[device];
	pthread_mutex_unlock(&graph_lock);
	return CUDA_SUCCESS;
}

SIM_ENTRY_CONTEXT(cuGraphCreate, (CUgraph *ret, unsigned int flags), create(context, ret, flags))
SIM_ENTRY(cuGraphDestroy, (CUgraph graph), destroy(graph))
SIM_ENTRY_CONTEXT(cuGraphInstantiate,
		  (CUgraphExec *ret, CUgraph graph, CUgraphNode *node, char *log, size_t size),
		  ((void)node, (void)log, (void)size, instantiate(ret, graph)))
SIM_ENTRY_CONTEXT(cuGraphInstantiate_v2,
		  (CUgraphExec *ret, CUgraph graph, CUgraphNode *node, char *log, size_t size),
		  ((void)node, (void)log, (void)size, instantiate(ret, graph)))
SIM_ENTRY_CONTEXT(cuGraphInstantiateWithFlags,
		  (CUgraphExec *ret, CUgraph graph, unsigned long long flags),
		  ((void)flags, instantiate(ret, graph)))
SIM_ENTRY_CONTEXT_TWIN(cuGraphInstantiateWithParams, _ptsz,
		       (CUgraphExec *ret, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
		       parameters ? instantiate(ret, graph) : CUDA_ERROR_INVALID_VALUE)
SIM_ENTRY_CONTEXT(cuGraphClone, (CUgraph *ret, CUgraph graph),
		  clone_graph(context, ret, graph))
SIM_ENTRY(cuGraphAddMemAllocNode,
	  (CUgraphNode *ret, CUgraph graph, const CUgraphNode *dependencies, size_t count,
	   CUDA_MEM_ALLOC_NODE_PARAMS *parameters),
	  ((void)dependencies, (void)count, add_allocation(ret, graph, parameters)))
SIM_ENTRY(cuGraphAddMemFreeNode,
	  (CUgraphNode *ret, CUgraph graph, const CUgraphNode *dependencies, size_t count,
	   CUdeviceptr address),
	  ((void)dependencies, (void)count, add_free(ret, graph, address)))
SIM_ENTRY(cuGraphAddNode,
	  (CUgraphNode *ret, CUgraph graph, const CUgraphNode *dependencies, size_t count,
	   CUgraphNodeParams *parameters),
	  ((void)dependencies, (void)count, add_any(ret, graph, parameters)))
SIM_ENTRY(cuGraphAddNode_v2,
	  (CUgraphNode *ret, CUgraph graph, const CUgraphNode *dependencies,
	   const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *parameters),
	  ((void)dependencies, (void)edges, (void)count, add_any(ret, graph, parameters)))
SIM_ENTRY(cuGraphDestroyNode, (CUgraphNode node), destroy_node(node))
SIM_ENTRY_CONTEXT_TWIN(cuStreamBeginCaptureToGraph, _ptsz,
		       (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
			const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
		       ((void)dependencies, (void)edges, (void)count, (void)mode,
			begin_to(stream, graph)))
SIM_ENTRY_CONTEXT_TWIN(cuGraphLaunch, _ptsz, (CUgraphExec exec, CUstream stream),
		       launch(exec, stream))
SIM_ENTRY_CONTEXT_TWIN(cuGraphUpload, _ptsz, (CUgraphExec exec, CUstream stream),
		       upload(exec, stream))
SIM_ENTRY(cuGraphExecDestroy, (CUgraphExec exec), destroy_exec(exec))
SIM_ENTRY(cuDeviceGetGraphMemAttribute,
	  (CUdevice device, CUgraphMem_attribute which, void *value),
	  memory_attribute(device, which, value))
SIM_ENTRY(cuDeviceGraphMemTrim, (CUdevice device),
	  sim_device_valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE)
SIM_ENTRY_CONTEXT_TWIN(cuStreamBeginCapture, _ptsz, (CUstream stream), begin(stream))
SIM_ENTRY_CONTEXT_TWIN(cuStreamBeginCapture_v2, _ptsz,
		       (CUstream stream, CUstreamCaptureMode mode), ((void)mode, begin(stream)))
SIM_ENTRY_CONTEXT_TWIN(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *ret),
		       end(stream, ret))
SIM_ENTRY_CONTEXT_TWIN(cuStreamIsCapturing, _ptsz,
		       (CUstream stream, CUstreamCaptureStatus *status),
		       capture_info(stream, status, NULL, NULL, NULL))
SIM_ENTRY_CONTEXT_TWIN(cuStreamGetCaptureInfo, _ptsz,
		       (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
		       capture_info(stream, status, id, NULL, NULL))
SIM_ENTRY_CONTEXT_TWIN(cuStreamGetCaptureInfo_v2, _ptsz,
		       (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
			CUgraph *graph, const CUgraphNode **nodes, size_t *count),
		       ((void)nodes, capture_info(stream, status, id, graph, count)))
SIM_ENTRY_CONTEXT_TWIN(cuStreamGetCaptureInfo_v3, _ptsz,
		       (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
			CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **edges,
			size_t *count),
		       ((void)nodes, (void)edges, capture_info(stream, status, id, graph, count)))
