/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, capture and graphs: passed on to the driver. */
#include "runtime.h"

RUNTIME_CALL(cudaStreamCreate, (cudaStream_t *ret), driver.cuStreamCreate(ret, 0))
RUNTIME_CALL(cudaStreamCreateWithFlags, (cudaStream_t *ret, unsigned int flags),
	     driver.cuStreamCreate(ret, flags))
RUNTIME_CALL(cudaStreamCreateWithPriority,
	     (cudaStream_t *ret, unsigned int flags, int priority),
	     driver.cuStreamCreateWithPriority(ret, flags, priority))
RUNTIME_CALL(cudaStreamDestroy, (cudaStream_t stream), driver.cuStreamDestroy(stream))
RUNTIME_CALL(cudaStreamSynchronize, (cudaStream_t stream), driver.cuStreamSynchronize(stream))
RUNTIME_CALL(cudaStreamQuery, (cudaStream_t stream), driver.cuStreamQuery(stream))
RUNTIME_CALL(cudaStreamGetPriority, (cudaStream_t stream, int *ret),
	     driver.cuStreamGetPriority(stream, ret))
RUNTIME_CALL(cudaStreamWaitEvent,
	     (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
	     driver.cuStreamWaitEvent(stream, event, flags))
RUNTIME_CALL(cudaStreamAddCallback,
	     (cudaStream_t stream, CUstreamCallback callback, void *argument, unsigned int flags),
	     driver.cuStreamAddCallback(stream, callback, argument, flags))
RUNTIME_CALL(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *argument),
	     driver.cuLaunchHostFunc(stream, function, argument))

RUNTIME_CALL(cudaEventCreate, (cudaEvent_t *ret), driver.cuEventCreate(ret, 0))
RUNTIME_CALL(cudaEventCreateWithFlags, (cudaEvent_t *ret, unsigned int flags),
	     driver.cuEventCreate(ret, flags))
RUNTIME_CALL(cudaEventDestroy, (cudaEvent_t event), driver.cuEventDestroy(event))
RUNTIME_CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream),
	     driver.cuEventRecord(event, stream))
RUNTIME_CALL(cudaEventRecordWithFlags,
	     (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
	     driver.cuEventRecordWithFlags(event, stream, flags))
RUNTIME_CALL(cudaEventQuery, (cudaEvent_t event), driver.cuEventQuery(event))
RUNTIME_CALL(cudaEventSynchronize, (cudaEvent_t event), driver.cuEventSynchronize(event))
RUNTIME_CALL(cudaEventElapsedTime, (float *ret, cudaEvent_t from, cudaEvent_t to),
	     driver.cuEventElapsedTime(ret, from, to))

RUNTIME_STARTED(cudaThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *mode),
		driver.cuThreadExchangeStreamCaptureMode(mode))
RUNTIME_CALL(cudaStreamBeginCapture, (cudaStream_t stream, CUstreamCaptureMode mode),
	     driver.cuStreamBeginCapture(stream, mode))
RUNTIME_CALL(cudaStreamBeginCaptureToGraph,
	     (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
	      const cudaGraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
	     driver.cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode))
RUNTIME_CALL(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *ret),
	     driver.cuStreamEndCapture(stream, ret))
RUNTIME_CALL(cudaStreamIsCapturing, (cudaStream_t stream, CUstreamCaptureStatus *ret),
	     driver.cuStreamIsCapturing(stream, ret))
#if STUB_CUDA_MAJOR >= 13
RUNTIME_CALL(cudaStreamGetCaptureInfo,
	     (cudaStream_t stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	      cudaGraph_t *graph, const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges,
	      size_t *count),
	     driver.cuStreamGetCaptureInfo(stream, status, id, graph, nodes, edges, count))
#else
RUNTIME_CALL(cudaStreamGetCaptureInfo_v2,
	     (cudaStream_t stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	      cudaGraph_t *graph, const cudaGraphNode_t **nodes, size_t *count),
	     driver.cuStreamGetCaptureInfo(stream, status, id, graph, nodes, count))
#endif

RUNTIME_CALL(cudaGraphInstantiate,
	     (cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags),
	     driver.cuGraphInstantiateWithFlags(ret, graph, flags))
RUNTIME_CALL(cudaGraphInstantiateWithFlags,
	     (cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags),
	     driver.cuGraphInstantiateWithFlags(ret, graph, flags))
RUNTIME_CALL(cudaGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream),
	     driver.cuGraphLaunch(exec, stream))
RUNTIME_STARTED(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
		driver.cuGraphGetNodes(graph, nodes, count))
RUNTIME_STARTED(cudaGraphExecDestroy, (cudaGraphExec_t exec), driver.cuGraphExecDestroy(exec))
RUNTIME_STARTED(cudaGraphDestroy, (cudaGraph_t graph), driver.cuGraphDestroy(graph))
