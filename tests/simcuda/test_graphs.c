/* SPDX-License-Identifier: Apache-2.0 */
/* Capture and graph memory on a 1 GiB device with 960 MiB left. */
#include <stdbool.h>

#include "sim_test.h"

#define LEFT (960 * MIB)

static cuuint64_t reserved(void)
{
	cuuint64_t bytes = 0;

	assert_success(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
						    &bytes));
	return bytes;
}

static void memory_of_a_graph(void **state)
{
	CUstreamCaptureStatus status;
	CUstream stream;
	CUgraph graph, seen = NULL;
	CUgraphExec exec;
	CUdeviceptr captured, plain;
	size_t count = 9;

	(void)state;
	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuStreamIsCapturing(stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_success(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	assert_result(cuStreamBeginCapture(stream), CUDA_ERROR_ILLEGAL_STATE);
	assert_success(cuStreamGetCaptureInfo_v2(stream, &status, NULL, &seen, NULL, &count));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_int_equal(count, 0);
	assert_result(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_success(cuMemAllocAsync(&captured, 10 * MIB, stream));
	assert_success(cuMemAllocAsync(&plain, 1000, NULL)); /* another stream: not captured */
	assert_success(cuMemFreeAsync(captured, stream));
	assert_result(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_ptr_equal(graph, seen);
	assert_result(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
	assert_success(cuMemFreeAsync(plain, NULL));
	assert_success(cuStreamSynchronize(stream));
	assert_int_equal(unused_memory(), LEFT); /* an address, no bytes yet */
	assert_result(cuMemFree_v2(captured), CUDA_ERROR_INVALID_VALUE);

	assert_success(cuGraphInstantiateWithFlags(&exec, graph, 0));
	assert_int_equal(unused_memory(), LEFT);
	assert_success(cuGraphLaunch(exec, stream));
	assert_success(cuGraphLaunch(exec, stream));
	assert_int_equal(unused_memory(), LEFT - 10 * MIB);
	assert_int_equal(reserved(), 10 * MIB);
	assert_success(cuGraphDestroy(graph));
	assert_result(cuGraphDestroy(graph), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(unused_memory(), LEFT - 10 * MIB); /* the executable holds it */
	assert_success(cuGraphExecDestroy(exec));
	assert_result(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(unused_memory(), LEFT);
	assert_int_equal(reserved(), 0);
	assert_success(cuStreamDestroy_v2(stream));
}

static void launch_out_of_memory(void **state)
{
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr captured, plain;

	(void)state;
	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuStreamBeginCapture(stream));
	assert_success(cuMemAllocAsync(&captured, 900 * MIB, stream));
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_success(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	assert_success(cuMemAlloc_v2(&plain, 100 * MIB));
	assert_result(cuGraphLaunch(exec, stream), CUDA_ERROR_OUT_OF_MEMORY);
	assert_success(cuMemFree_v2(plain));
	assert_success(cuGraphLaunch(exec, stream));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_int_equal(unused_memory(), LEFT);
	assert_success(cuStreamDestroy_v2(stream));
}

static void what_cannot_capture(void **state)
{
	CUstream stream;

	(void)state;
	assert_result(cuStreamBeginCapture(NULL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuStreamDestroy_v2(stream));
	assert_result(cuStreamBeginCapture(stream), CUDA_ERROR_INVALID_HANDLE);
}

static size_t nodes_of(CUgraph graph)
{
	size_t count = 99;

	assert_success(cuGraphGetNodes(graph, NULL, &count));
	return count;
}

static void nodes_of_a_capture(void **state)
{
	CUlaunchConfig config = { 1, 1, 1, 32, 1, 1, 0, NULL, NULL, 0 };
	CUgraphNode nodes[4] = { NULL };
	CUmodule module;
	CUfunction kernel;
	CUstream stream;
	CUgraph graph;
	CUdeviceptr memory;
	size_t count = 4;

	(void)state;
	assert_success(cuModuleLoadData(&module, "image"));
	assert_success(cuModuleGetFunction(&kernel, module, "kernel"));
	assert_success(cuMemAlloc_v2(&memory, 4096));
	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	assert_success(cuStreamBeginCapture(stream));
	assert_success(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	assert_success(cuMemsetD8Async(memory, 1, 4096, stream));
	assert_success(cuMemsetD8Async(memory, 1, 4096, NULL)); /* not captured */
	config.hStream = stream;
	assert_success(cuLaunchKernelEx(&config, kernel, NULL, NULL));
	config.blockDimX = 2048;
	assert_result(cuLaunchKernelEx(&config, kernel, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_int_equal(nodes_of(graph), 3);
	assert_success(cuGraphGetNodes(graph, nodes, &count));
	assert_int_equal(count, 3);
	assert_non_null(nodes[2]);
	assert_ptr_not_equal(nodes[0], nodes[1]);
	assert_null(nodes[3]);
	count = 2;
	assert_success(cuGraphGetNodes(graph, nodes, &count));
	assert_int_equal(count, 2);
	assert_success(cuGraphDestroy(graph));
	assert_result(cuGraphGetNodes(graph, NULL, &count), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuMemFree_v2(memory));
	assert_success(cuModuleUnload(module));
	assert_success(cuStreamDestroy_v2(stream));
}

static bool captures(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	assert_success(cuStreamIsCapturing(stream, &status));
	return status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

static void streams_join_a_capture(void **state)
{
	const CUgraphNode *nodes = (const CUgraphNode *)8;
	CUstreamCaptureStatus status;
	CUstream first, second;
	CUgraph graph, seen = NULL;
	CUevent event;
	CUdeviceptr memory;
	size_t count = 9;

	(void)state;
	assert_success(cuStreamCreate(&first, 0));
	assert_success(cuStreamCreate(&second, 0));
	assert_success(cuEventCreate(&event, 0));
	assert_success(cuEventRecord(event, first));
	assert_success(cuStreamBeginCapture(first));
	assert_success(cuStreamWaitEvent(second, event, 0)); /* recorded before */
	assert_false(captures(second));
	assert_success(cuEventRecord(event, first));
	assert_success(cuStreamWaitEvent(second, event, 0));
	assert_true(captures(second));
	assert_success(cuStreamGetCaptureInfo_v2(second, &status, NULL, &seen, &nodes, &count));
	assert_null(nodes);
	assert_success(cuMemAllocAsync(&memory, MIB, second));
	assert_result(cuStreamEndCapture(second, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	assert_success(cuStreamEndCapture(first, &graph));
	assert_ptr_equal(graph, seen);
	assert_false(captures(second));
	assert_success(cuStreamWaitEvent(second, event, 0)); /* of a capture that is over */
	assert_false(captures(second));
	assert_success(cuGraphDestroy(graph));
	assert_success(cuEventDestroy_v2(event));
	assert_success(cuStreamDestroy_v2(first));
	assert_success(cuStreamDestroy_v2(second));
	assert_int_equal(unused_memory(), LEFT);
}

static void a_graph_with_much_memory(void **state)
{
	CUdeviceptr memory[200];
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;

	(void)state;
	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuStreamBeginCapture(stream));
	for (int i = 0; i < 200; i++)
		assert_success(cuMemAllocAsync(&memory[i], 2 * MIB, stream));
	assert_success(cuStreamEndCapture(stream, &graph));
	assert_success(cuGraphInstantiateWithFlags(&exec, graph, 0));
	assert_success(cuGraphLaunch(exec, stream));
	assert_int_equal(unused_memory(), LEFT - 400 * MIB);
	assert_success(cuMemFree_v2(memory[0]));
	assert_result(cuMemFree_v2(memory[0]), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuGraphLaunch(exec, stream));
	assert_success(cuMemFree_v2(memory[0]));
	assert_success(cuGraphExecDestroy(exec));
	assert_success(cuGraphDestroy(graph));
	assert_int_equal(unused_memory(), LEFT);
	assert_success(cuStreamDestroy_v2(stream));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_of_a_graph),
		cmocka_unit_test(launch_out_of_memory),
		cmocka_unit_test(nodes_of_a_capture),
		cmocka_unit_test(streams_join_a_capture),
		cmocka_unit_test(a_graph_with_much_memory),
		cmocka_unit_test(what_cannot_capture),
	};

	return cmocka_run_group_tests(tests, use_primary, leave_primary);
}
