/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime alone, on two simulated devices of 1 GiB with contexts of 64 MiB. It is linked as a
 * compiled CUDA program is, by the exported names.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "runtime.h"
#include "sim_test.h"

#define LEFT (960 * MIB)

/* What a program's own header would declare; the types are those of the functions behind. */
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void), cudaPeekAtLastError(void), cudaDeviceSynchronize(void);
cudaError_t cudaDriverGetVersion(int *ret), cudaRuntimeGetVersion(int *ret);
cudaError_t cudaGetDeviceCount(int *ret), cudaGetDevice(int *ret), cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *ret, int device);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags);
cudaError_t cudaMalloc(void **ret, size_t size), cudaFree(void *pointer);
cudaError_t cudaMallocAsync(void **ret, size_t size, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream);
cudaError_t cudaHostAlloc(void **ret, size_t size, unsigned int flags), cudaFreeHost(void *pointer);
cudaError_t cudaMemGetInfo(size_t *unused, size_t *total);
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, int kind);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
			      size_t width, size_t height, int kind, cudaStream_t stream);
cudaError_t cudaMemset(void *to, int value, size_t size);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *ret, const void *pointer);
cudaError_t cudaStreamCreate(cudaStream_t *ret), cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *ret, const void *host);
cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments,
			     size_t shared, cudaStream_t stream);
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *host,
				void **arguments);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, const void *host, int block,
							  size_t shared);
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **ret, unsigned int version,
					     unsigned long long flags, int *status);
cudaError_t cudaGraphAddNode(void);
void **__cudaRegisterFatBinary(void *image);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
			    int threads, void *thread, void *block, void *block_size,
			    void *grid_size, int *warp);
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
					 cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared,
				       cudaStream_t *stream);

static size_t unused_now(void)
{
	size_t unused = 0, total = 0;

	assert_int_equal(cudaMemGetInfo(&unused, &total), cudaSuccess);
	assert_int_equal(total, GIB);
	return unused;
}

static void versions_and_errors(void **state)
{
	int version = 0;

	(void)state;
	assert_int_equal(cudaRuntimeGetVersion(&version), cudaSuccess);
	assert_int_equal(version / 1000, STUB_CUDA_MAJOR);
	assert_int_equal(cudaDriverGetVersion(&version), cudaSuccess);
	assert_int_equal(version, 13000);
	assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation),
			    "cudaErrorMemoryAllocation");
	assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
	assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
	assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
	assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
	assert_int_equal(cudaGraphAddNode(), cudaErrorNotSupported); /* nobody wrote it */
}

static void devices(void **state)
{
	struct cudaDeviceProp properties;
	int count = 0, device = 9;

	(void)state;
	assert_int_equal(cudaGetDeviceCount(&count), cudaSuccess);
	assert_int_equal(count, 2);
	assert_int_equal(cudaGetDevice(&device), cudaSuccess);
	assert_int_equal(device, 0);
	memset(&properties, 0x55, sizeof(properties));
	assert_int_equal(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
	assert_string_equal(properties.name, "Simulated GPU");
	assert_int_equal(properties.totalGlobalMem[0], GIB);
	assert_int_equal(properties.major[0], 9);
	assert_int_equal(properties.maxGridSize[0], 2147483647);
	assert_int_equal(properties.maxGridSize[2], 65535);
	assert_int_equal(properties.warpSize[0], 32);
	assert_int_equal(properties.pciBusID[0], 0x19);
	assert_int_equal(properties.maxSurface3D[1], 0);
	assert_int_equal(properties.reserved[0], 0);
	assert_int_equal(cudaGetDeviceProperties(&properties, 2), cudaErrorInvalidDevice);
	assert_int_equal(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
	assert_int_equal(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
	cudaGetLastError();
}

static void memory(void **state)
{
	struct cudaPointerAttributes attributes;
	char text[32] = "what goes in comes out", back[32] = "";
	void *block, *host;

	(void)state;
	assert_int_equal(unused_now(), LEFT);
	assert_int_equal(cudaMalloc(&block, 0), cudaSuccess);
	assert_null(block);
	assert_int_equal(cudaFree(NULL), cudaSuccess);
	assert_int_equal(cudaMalloc(&block, 4 * MIB), cudaSuccess);
	assert_int_equal(unused_now(), LEFT - 4 * MIB);
	assert_int_equal(cudaMemcpy(block, text, sizeof(text), cudaMemcpyDefault), cudaSuccess);
	assert_int_equal(cudaMemcpy(back, block, sizeof(back), cudaMemcpyDefault), cudaSuccess);
	assert_string_equal(back, text);
	assert_int_equal(cudaMemcpy2DAsync(back, 1, (char *)block + 5, 2, 1, 3, cudaMemcpyDefault,
					   NULL),
			 cudaSuccess);
	assert_true(back[0] == text[5] && back[1] == text[7] && back[2] == text[9]);
	assert_int_equal(cudaMemcpy(back, block, 1, 5), cudaErrorInvalidMemcpyDirection);
	assert_int_equal(cudaMemset(block, 0x21, 3), cudaSuccess);
	assert_int_equal(cudaMemcpy(back, block, 4, cudaMemcpyDefault), cudaSuccess);
	assert_memory_equal(back, "!!!t", 4);
	assert_int_equal(cudaPointerGetAttributes(&attributes, (char *)block + 100), cudaSuccess);
	assert_int_equal(attributes.type, cudaMemoryTypeDevice);
	assert_int_equal(attributes.device, 0);
	assert_ptr_equal(attributes.devicePointer, (char *)block + 100);
	assert_int_equal(cudaPointerGetAttributes(&attributes, text), cudaSuccess);
	assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
	assert_ptr_equal(attributes.hostPointer, text);
	assert_int_equal(cudaHostAlloc(&host, 4096, 0), cudaSuccess);
	assert_int_equal(cudaPointerGetAttributes(&attributes, host), cudaSuccess);
	assert_int_equal(attributes.type, cudaMemoryTypeHost);
	assert_int_equal(cudaFreeHost(host), cudaSuccess);
	assert_int_equal(cudaFree((char *)block + 512), cudaErrorInvalidValue);
	assert_int_equal(cudaFree(block), cudaSuccess);
	assert_int_equal(cudaMalloc(&block, 2 * GIB), cudaErrorMemoryAllocation);
	assert_null(block);
	assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
	assert_int_equal(cudaMallocAsync(&block, 1000, NULL), cudaSuccess);
	assert_int_equal(cudaFreeAsync(block, NULL), cudaSuccess);
	assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
	assert_int_equal(unused_now(), LEFT);
}

static void *other_thread(void *argument)
{
	int device = 9;
	void *block = NULL;

	(void)argument;
	cudaGetDevice(&device);
	if (device || cudaSetDevice(1) || cudaMalloc(&block, 2 * MIB))
		return NULL;
	return block;
}

/* A thread begins with device 0, whatever others have set; and each device has its own memory. */
static void threads_have_devices(void **state)
{
	struct cudaPointerAttributes attributes;
	pthread_t thread;
	void *block = NULL;

	(void)state;
	assert_int_equal(cudaSetDevice(0), cudaSuccess);
	assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
	assert_int_equal(pthread_join(thread, &block), 0);
	assert_non_null(block);
	assert_int_equal(unused_now(), LEFT);
	assert_int_equal(cudaPointerGetAttributes(&attributes, block), cudaSuccess);
	assert_int_equal(attributes.device, 1);
	assert_int_equal(cudaSetDevice(1), cudaSuccess);
	assert_int_equal(unused_now(), LEFT - 2 * MIB);
	assert_int_equal(cudaFree(block), cudaSuccess);
	assert_int_equal(cudaSetDevice(0), cudaSuccess);
}

static const char first_kernel, second_kernel, unknown_kernel;

static void kernels(void **state)
{
	struct cudaFuncAttributes attributes;
	const dim3 one = { 1, 1, 1 }, block = { 64, 2, 1 }, large = { 2048, 1, 1 };
	cudaLaunchConfig_t config = { .gridDim = one, .blockDim = block };
	dim3 grid, size;
	size_t shared = 0, nodes = 0;
	cudaStream_t stream = NULL, same = NULL;
	cudaGraph_t graph;
	void **binary = __cudaRegisterFatBinary((void *)"image");
	int blocks = 0;

	(void)state;
	__cudaRegisterFunction(binary, &second_kernel, NULL, "second", -1, NULL, NULL, NULL, NULL,
			       NULL);
	__cudaRegisterFunction(binary, &first_kernel, NULL, "first", -1, NULL, NULL, NULL, NULL,
			       NULL);
	assert_int_equal(cudaStreamCreate(&stream), cudaSuccess);
	assert_int_equal(cudaStreamBeginCapture(stream, 0), cudaSuccess);
	assert_int_equal(cudaLaunchKernel(&first_kernel, one, block, NULL, 0, stream), cudaSuccess);
	config.stream = stream;
	assert_int_equal(cudaLaunchKernelExC(&config, &second_kernel, NULL), cudaSuccess);
	assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
	assert_int_equal(cudaGraphGetNodes(graph, NULL, &nodes), cudaSuccess);
	assert_int_equal(nodes, 2);
	assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
	assert_int_equal(cudaLaunchKernel(&first_kernel, one, large, NULL, 0, NULL),
			 cudaErrorInvalidConfiguration);
	assert_int_equal(cudaLaunchKernel(&unknown_kernel, one, block, NULL, 0, NULL),
			 cudaErrorInvalidDeviceFunction);
	cudaGetLastError();
	assert_int_equal(cudaFuncGetAttributes(&attributes, &first_kernel), cudaSuccess);
	assert_int_equal(attributes.maxThreadsPerBlock, 1024);
	assert_int_equal(attributes.binaryVersion, 90);
	assert_int_equal(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &first_kernel, 256,
								       0),
			 cudaSuccess);
	assert_int_equal(blocks, 8);
	assert_int_equal(__cudaPushCallConfiguration(one, block, 7, stream), 0);
	assert_int_equal(__cudaPopCallConfiguration(&grid, &size, &shared, &same), cudaSuccess);
	assert_int_equal(size.x, 64);
	assert_int_equal(shared, 7);
	assert_ptr_equal(same, stream);
	assert_int_equal(__cudaPopCallConfiguration(&grid, &size, &shared, &same),
			 cudaErrorInvalidConfiguration);
	__cudaUnregisterFatBinary(binary);
	assert_int_equal(cudaLaunchKernel(&first_kernel, one, block, NULL, 0, NULL),
			 cudaErrorInvalidDeviceFunction);
	cudaGetLastError();
	assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
}

static void entry_points(void **state)
{
	void *function = NULL;
	int status = 9;

	(void)state;
	assert_int_equal(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 12000, 0,
							  &status),
			 cudaSuccess);
	assert_int_equal(status, 0);
	assert_ptr_equal(function, dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemCreate"));
	assert_int_equal(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, 0,
							  &status),
			 cudaSuccess);
	assert_null(function);
	assert_int_equal(status, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions_and_errors), cmocka_unit_test(devices),
		cmocka_unit_test(memory),	       cmocka_unit_test(threads_have_devices),
		cmocka_unit_test(kernels),	       cmocka_unit_test(entry_points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
