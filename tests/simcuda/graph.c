/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture and graphs, as far as memory goes.
 *
 * While a stream captures, an asynchronous allocation on it gets an address and no bytes: they
 * are charged when the graph is launched for the first time and given back with the graph. A
 * graph lives while its own handle or an executable made of it does. Of what it would run only the
 * number of nodes is kept.
 */
#include "sim.h"

static pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t charged[SIM_MAX_DEVICES], charged_high[SIM_MAX_DEVICES];

/* One piece of memory of a graph; given back to a list, never to the system. */
struct sim_graph_range {
	uint64_t base;
	bool freed; /* since the last launch */
	struct sim_graph_range *next;
};

static struct sim_graph_range *free_ranges;

/* The lock is held. */
static struct sim_graph_range *new_range(void)
{
	struct sim_graph_range *range;

	if (!free_ranges) {
		const size_t count = 4096 / sizeof(*range);

		range = sim_pages(count * sizeof(*range));
		for (size_t i = 0; range && i < count; i++) {
			range[i].next = free_ranges;
			free_ranges = &range[i];
		}
	}
	range = free_ranges;
	if (range)
		free_ranges = range->next;
	return range;
}

static struct sim_graph_range *find_range(const struct sim_object *graph, uint64_t address)
{
	struct sim_graph_range *range = graph->graph.ranges;

	while (range && range->base != address)
		range = range->next;
	return range;
}

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
	while (graph->graph.ranges) {
		struct sim_graph_range *range = graph->graph.ranges;

		sim_range_destroy(range->base, 1u << SIM_ROW_GRAPH_MEMORY, &gone);
		graph->graph.ranges = range->next;
		range->next = free_ranges;
		free_ranges = range;
	}
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

struct search {
	uint64_t graph;
	bool found;
};

static void match_capture(struct sim_object *stream, void *argument)
{
	struct search *search = argument;

	search->found |= stream->stream.graph == search->graph;
}

static void leave(struct sim_object *stream, void *argument)
{
	if (stream->stream.graph != *(uint64_t *)argument)
		return;
	stream->stream.graph = 0;
	stream->stream.joined = false;
}

/* Streams that joined leave with the one that began. */
static CUresult end(CUstream handle, CUgraph *ret)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream->stream.graph)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (stream->stream.joined)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	*ret = (CUgraph)stream->stream.graph;
	sim_object_each(SIM_STREAM, leave, ret);
	return CUDA_SUCCESS;
}

void sim_capture_join(CUstream handle, uint64_t graph)
{
	struct sim_object *stream = sim_object_find(SIM_STREAM, (uint64_t)handle);
	struct search search = { .graph = graph };

	if (!stream || stream->stream.graph || !graph)
		return;
	sim_object_each(SIM_STREAM, match_capture, &search);
	if (!search.found)
		return;
	stream->stream.graph = graph;
	stream->stream.joined = true;
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

static void no_dependencies(const CUgraphNode **nodes, const CUgraphEdgeData **edges)
{
	if (nodes)
		*nodes = NULL;
	if (edges)
		*edges = NULL;
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
	struct sim_graph_range *entry;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	(void)context;
	if (!ret || !size)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&graph_lock);
	entry = new_range();
	if (entry)
		result = sim_range_create(&request, &range);
	if (result == CUDA_SUCCESS) {
		*entry = (struct sim_graph_range){ .base = range->base,
						   .next = graph->graph.ranges };
		graph->graph.ranges = entry;
		graph->graph.bytes += range->span;
		*ret = range->base;
	} else if (entry) {
		entry->next = free_ranges;
		free_ranges = entry;
	}
	pthread_mutex_unlock(&graph_lock);
	return result;
}

CUresult sim_graph_free(struct sim_object *graph, uint64_t address)
{
	bool found;

	pthread_mutex_lock(&graph_lock);
	found = find_range(graph, address) != NULL;
	pthread_mutex_unlock(&graph_lock);
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The range of a living graph that starts there. */
struct owner {
	uint64_t address;
	struct sim_object *graph;
	struct sim_graph_range *range;
};

static void match_owner(struct sim_object *graph, void *argument)
{
	struct owner *owner = argument;

	struct sim_graph_range *range = find_range(graph, owner->address);

	if (!range)
		return;
	owner->graph = graph;
	owner->range = range;
}

CUresult sim_graph_free_now(uint64_t address)
{
	struct owner owner = { .address = address };
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	pthread_mutex_lock(&graph_lock);
	sim_object_each(SIM_GRAPH, match_owner, &owner);
	if (owner.graph && owner.graph->graph.backed && !owner.range->freed) {
		owner.range->freed = true;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&graph_lock);
	return result;
}

/* --- nodes --- */

static struct sim_object *make_node(struct sim_object *graph)
{
	struct sim_object *node = sim_object_create(SIM_NODE);

	if (node)
		node->exec.graph = graph;
	return node;
}

void sim_capture_node(CUstream stream)
{
	struct sim_object *graph = sim_capturing(stream);

	if (graph)
		make_node(graph);
}

static CUresult add_node(CUgraphNode *ret, CUgraph handle)
{
	struct sim_object *graph = find_graph(handle), *node;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!graph)
		return CUDA_ERROR_INVALID_HANDLE;
	node = make_node(graph);
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
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
	if (graph->graph.ranges && graph->device != parameters->poolProps.location.id)
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

struct listing {
	const struct sim_object *graph;
	CUgraphNode *nodes;
	size_t room, count;
};

static void list_node(struct sim_object *node, void *argument)
{
	struct listing *listing = argument;

	if (node->exec.graph != listing->graph)
		return;
	if (listing->nodes && listing->count < listing->room)
		listing->nodes[listing->count] = (CUgraphNode)sim_object_handle(node);
	listing->count++;
}

/* Without room for them only their number; what is left of the room is cleared. */
static CUresult get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	struct listing listing = { .graph = find_graph(handle), .nodes = nodes };

	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!listing.graph)
		return CUDA_ERROR_INVALID_HANDLE;
	listing.room = nodes ? *count : 0;
	sim_object_each(SIM_NODE, list_node, &listing);
	for (size_t i = listing.count; nodes && i < listing.room; i++)
		nodes[i] = NULL;
	*count = nodes && listing.count > listing.room ? listing.room : listing.count;
	return CUDA_SUCCESS;
}

static CUresult destroy_node(CUgraphNode handle)
{
	struct sim_object *node = sim_object_find(SIM_NODE, (uint64_t)handle);

	if (!node)
		return CUDA_ERROR_INVALID_HANDLE;
	if (node->exec.graph->graph.ranges)
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
	return graph->graph.ranges ? CUDA_ERROR_NOT_SUPPORTED : create(context, ret, 0);
}

/* --- executables --- */

static CUresult instantiate(CUgraphExec *ret, CUgraph handle)
{
	struct sim_object *graph, *exec = NULL;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&graph_lock);
	graph = find_graph(handle);
	if (graph && graph->graph.ranges && graph->graph.references > 1) {
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
		for (struct sim_graph_range *range = graph->graph.ranges; range; range = range->next)
			range->freed = false;
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
SIM_ENTRY(cuGraphGetNodes, (CUgraph graph, CUgraphNode *nodes, size_t *count),
	  get_nodes(graph, nodes, count))
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
		       (no_dependencies(nodes, NULL),
			capture_info(stream, status, id, graph, count)))
SIM_ENTRY_CONTEXT_TWIN(cuStreamGetCaptureInfo_v3, _ptsz,
		       (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
			CUgraph *graph, const CUgraphNode **nodes, const CUgraphEdgeData **edges,
			size_t *count),
		       (no_dependencies(nodes, edges),
			capture_info(stream, status, id, graph, count)))
