/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device code: what compiled programs register at their start, kernels, launches.
 *
 * A wheel registers some 24,000 kernels before main, so that a registration only appends a row;
 * the rows are sorted at the first look-up. A binary is loaded into the driver at the first use of
 * one of its kernels.
 */
#include <pthread.h>
#include <stdlib.h>

#include "runtime.h"

struct binary {
	const void *image;
	CUlibrary library;
	bool gone;
};

struct kernel {
	const void *host; /* the address that the program knows it by */
	const char *name;
	struct binary *binary;
	CUkernel handle;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel *kernels;
static size_t count, room, sorted;

void **stub___cudaRegisterFatBinary(void *image)
{
	struct binary *binary = stub_object(sizeof(*binary));

	if (!binary)
		abort(); /* before main there is nobody to tell */
	binary->image = image;
	return (void **)binary;
}

void stub___cudaRegisterFatBinaryEnd(void **handle)
{
	(void)handle;
}

void stub___cudaUnregisterFatBinary(void **handle)
{
	struct binary *binary = (struct binary *)handle;

	if (binary)
		binary->gone = true;
}

char stub___cudaInitModule(void **handle)
{
	(void)handle;
	return 1;
}

void stub___cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
				 int threads, void *thread, void *block, void *block_size,
				 void *grid_size, int *warp)
{
	const struct kernel row = { host, name, (struct binary *)handle, NULL };

	(void)device, (void)threads, (void)thread, (void)block;
	(void)block_size, (void)grid_size, (void)warp;
	pthread_mutex_lock(&lock);
	if (count == room) {
		room = room ? 2 * room : 32768;
		kernels = realloc(kernels, room * sizeof(*kernels));
		if (!kernels)
			abort();
	}
	kernels[count++] = row;
	pthread_mutex_unlock(&lock);
}

static int by_host(const void *a, const void *b)
{
	const struct kernel *one = a, *other = b;

	return one->host < other->host ? -1 : one->host > other->host;
}

/* The lock is held. */
static struct kernel *find_kernel(const void *host)
{
	const struct kernel key = { .host = host };
	struct kernel *found;

	if (sorted != count)
		qsort(kernels, count, sizeof(*kernels), by_host);
	sorted = count;
	found = count ? bsearch(&key, kernels, count, sizeof(*kernels), by_host) : NULL;
	return found && !found->binary->gone ? found : NULL;
}

static cudaError_t load(struct kernel *kernel)
{
	struct binary *binary = kernel->binary;
	CUresult result = CUDA_SUCCESS;

	if (!binary->library)
		result = driver.cuLibraryLoadData(&binary->library, binary->image, NULL, NULL, 0,
						  NULL, NULL, 0);
	if (result == CUDA_SUCCESS)
		result = driver.cuLibraryGetKernel(&kernel->handle, binary->library, kernel->name);
	return (cudaError_t)result;
}

static cudaError_t get_kernel(cudaKernel_t *ret, const void *host)
{
	cudaError_t result = cudaSuccess;
	struct kernel *kernel;

	if (!ret)
		return cudaErrorInvalidValue;
	pthread_mutex_lock(&lock);
	kernel = find_kernel(host);
	if (!kernel)
		result = cudaErrorInvalidDeviceFunction;
	else if (!kernel->handle)
		result = load(kernel);
	if (result == cudaSuccess)
		*ret = kernel->handle;
	pthread_mutex_unlock(&lock);
	return result;
}

/* --- launches --- */

struct configuration {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};

#define MOST_CONFIGURATIONS 64
static __thread struct configuration pushed[MOST_CONFIGURATIONS];
static __thread unsigned int depth;

unsigned int stub___cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
					      cudaStream_t stream)
{
	const struct configuration configuration = { grid, block, shared, stream };

	if (depth == MOST_CONFIGURATIONS)
		return 1;
	pushed[depth++] = configuration;
	return 0;
}

static cudaError_t pop(dim3 *grid, dim3 *block, size_t *shared, cudaStream_t *stream)
{
	if (!depth)
		return cudaErrorInvalidConfiguration;
	depth--;
	*grid = pushed[depth].grid;
	*block = pushed[depth].block;
	*shared = pushed[depth].shared;
	*stream = pushed[depth].stream;
	return cudaSuccess;
}

/* A launch's refusal of its sizes has a number of its own here. */
static cudaError_t launched(CUresult result)
{
	return result == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration :
						    (cudaError_t)result;
}

static cudaError_t launch_kernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
				 size_t shared, cudaStream_t stream)
{
	if (!kernel)
		return cudaErrorInvalidDeviceFunction;
	return launched(driver.cuLaunchKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x,
					      block.y, block.z, (unsigned int)shared, stream,
					      arguments, NULL));
}

static cudaError_t launch(const void *host, dim3 grid, dim3 block, void **arguments,
			  size_t shared, cudaStream_t stream)
{
	cudaKernel_t kernel = NULL;
	cudaError_t result = get_kernel(&kernel, host);

	return result == cudaSuccess ?
		       launch_kernel(kernel, grid, block, arguments, shared, stream) :
		       result;
}

static cudaError_t launch_cooperative(const void *host, dim3 grid, dim3 block, void **arguments,
				      size_t shared, cudaStream_t stream)
{
	cudaKernel_t kernel = NULL;
	cudaError_t result = get_kernel(&kernel, host);

	if (result != cudaSuccess)
		return result;
	return launched(driver.cuLaunchCooperativeKernel((CUfunction)kernel, grid.x, grid.y, grid.z,
							 block.x, block.y, block.z,
							 (unsigned int)shared, stream, arguments));
}

static cudaError_t launch_extended(const cudaLaunchConfig_t *config, const void *host,
				   void **arguments)
{
	cudaKernel_t kernel = NULL;
	cudaError_t result = config ? get_kernel(&kernel, host) : cudaErrorInvalidConfiguration;
	CUlaunchConfig wanted;

	if (result != cudaSuccess)
		return result;
	wanted = (CUlaunchConfig){ .gridDimX = config->gridDim.x,
				   .gridDimY = config->gridDim.y,
				   .gridDimZ = config->gridDim.z,
				   .blockDimX = config->blockDim.x,
				   .blockDimY = config->blockDim.y,
				   .blockDimZ = config->blockDim.z,
				   .sharedMemBytes = (unsigned int)config->dynamicSmemBytes,
				   .hStream = config->stream,
				   .attrs = config->attrs,
				   .numAttrs = config->numAttrs };
	return launched(driver.cuLaunchKernelEx(&wanted, (CUfunction)kernel, arguments, NULL));
}

/* --- what can be asked about a kernel --- */

static cudaError_t function_of(const void *host, CUfunction *ret)
{
	cudaKernel_t kernel = NULL;
	cudaError_t result = get_kernel(&kernel, host);

	return result == cudaSuccess ? (cudaError_t)driver.cuKernelGetFunction(ret, kernel) :
				       result;
}

static int attribute_of(CUfunction function, int attribute)
{
	int value = 0;

	driver.cuFuncGetAttribute(&value, (CUfunction_attribute)attribute, function);
	return value;
}

static cudaError_t function_attributes(struct cudaFuncAttributes *ret, const void *host)
{
	CUfunction function = NULL;
	cudaError_t result = ret ? function_of(host, &function) : cudaErrorInvalidValue;

	if (result != cudaSuccess)
		return result;
	*ret = (struct cudaFuncAttributes){
		.maxThreadsPerBlock = attribute_of(function, 0),
		.sharedSizeBytes = (size_t)attribute_of(function, 1),
		.constSizeBytes = (size_t)attribute_of(function, 2),
		.localSizeBytes = (size_t)attribute_of(function, 3),
		.numRegs = attribute_of(function, 4),
		.ptxVersion = attribute_of(function, 5),
		.binaryVersion = attribute_of(function, 6),
		.cacheModeCA = attribute_of(function, 7),
		.maxDynamicSharedSizeBytes = attribute_of(function, 8),
		.preferredShmemCarveout = attribute_of(function, 9),
	};
	return cudaSuccess;
}

static cudaError_t set_function_attribute(const void *host, int attribute, int value)
{
	CUfunction function = NULL;
	cudaError_t result = function_of(host, &function);

	if (result != cudaSuccess)
		return result;
	return (cudaError_t)driver.cuFuncSetAttribute(function, (CUfunction_attribute)attribute,
						      value);
}

static cudaError_t occupancy(int *ret, const void *host, int block, size_t shared,
			     unsigned int flags)
{
	CUfunction function = NULL;
	cudaError_t result = function_of(host, &function);

	if (result != cudaSuccess)
		return result;
	return (cudaError_t)driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		ret, function, block, shared, flags);
}

static cudaError_t entry_point(const char *name, void **ret, int version, unsigned long long flags,
			       int *status)
{
	CUdriverProcAddressQueryResult why = CU_GET_PROC_ADDRESS_SUCCESS;
	CUresult result = driver.cuGetProcAddress(name, ret, version, flags, &why);

	if (status)
		*status = (int)why;
	return (cudaError_t)result;
}

RUNTIME_CALL(__cudaGetKernel, (cudaKernel_t *ret, const void *host), get_kernel(ret, host))
RUNTIME_ALWAYS(__cudaPopCallConfiguration,
	       (dim3 *grid, dim3 *block, size_t *shared, cudaStream_t *stream),
	       pop(grid, block, shared, stream))
RUNTIME_CALL(__cudaLaunchKernel,
	     (cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
	      cudaStream_t stream),
	     launch_kernel(kernel, grid, block, arguments, shared, stream))
RUNTIME_CALL(cudaLaunchKernel,
	     (const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
	      cudaStream_t stream),
	     launch(host, grid, block, arguments, shared, stream))
RUNTIME_CALL(cudaLaunchCooperativeKernel,
	     (const void *host, dim3 grid, dim3 block, void **arguments, size_t shared,
	      cudaStream_t stream),
	     launch_cooperative(host, grid, block, arguments, shared, stream))
RUNTIME_CALL(cudaLaunchKernelExC,
	     (const cudaLaunchConfig_t *config, const void *host, void **arguments),
	     launch_extended(config, host, arguments))
RUNTIME_CALL(cudaFuncGetAttributes, (struct cudaFuncAttributes *ret, const void *host),
	     function_attributes(ret, host))
RUNTIME_CALL(cudaFuncSetAttribute, (const void *host, int attribute, int value),
	     set_function_attribute(host, attribute, value))
RUNTIME_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
	     (int *ret, const void *host, int block, size_t shared),
	     occupancy(ret, host, block, shared, 0))
RUNTIME_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	     (int *ret, const void *host, int block, size_t shared, unsigned int flags),
	     occupancy(ret, host, block, shared, flags))
RUNTIME_STARTED(cudaGetDriverEntryPoint,
		(const char *name, void **ret, unsigned long long flags, int *status),
		entry_point(name, ret, RUNTIME_VERSION, flags, status))
RUNTIME_STARTED(cudaGetDriverEntryPointByVersion,
		(const char *name, void **ret, unsigned int version, unsigned long long flags,
		 int *status),
		entry_point(name, ret, (int)version, flags, status))
RUNTIME_CALL(cudaLibraryLoadData,
	     (cudaLibrary_t *ret, const void *image, CUjit_option *jit, void **jit_values,
	      unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int size),
	     driver.cuLibraryLoadData(ret, image, jit, jit_values, jit_count, options, values,
				      size))
RUNTIME_CALL(cudaLibraryLoadFromFile,
	     (cudaLibrary_t *ret, const char *path, CUjit_option *jit, void **jit_values,
	      unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int size),
	     driver.cuLibraryLoadFromFile(ret, path, jit, jit_values, jit_count, options, values,
					  size))
RUNTIME_CALL(cudaLibraryUnload, (cudaLibrary_t library), driver.cuLibraryUnload(library))
RUNTIME_CALL(cudaLibraryGetKernel, (cudaKernel_t *ret, cudaLibrary_t library, const char *name),
	     driver.cuLibraryGetKernel(ret, library, name))
