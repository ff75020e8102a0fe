/* SPDX-License-Identifier: Apache-2.0 */
/* How the runtime reaches the driver, its contexts, and errors. */
#include <dlfcn.h>
#include <pthread.h>

#include "runtime.h"

#define MOST_DEVICES 64

struct runtime_driver driver;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(CUcontext) primaries[MOST_DEVICES];
static __thread int thread_device;
static __thread cudaError_t last_error;

static const struct {
	const char *name;
	int version;
	size_t place;
} entries[] = {
#define DRIVER_ENTRY(name, version, symbol)                                                        \
	{ #name, version, __builtin_offsetof(struct runtime_driver, name) },
#include "driver_entries.def"
#undef DRIVER_ENTRY
};

static cudaError_t open_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	__typeof__(&cuGetProcAddress_v2) look_up =
		library ? (__typeof__(look_up))dlsym(library, "cuGetProcAddress_v2") : NULL;

	if (!look_up)
		return cudaErrorInsufficientDriver;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void **place = (void **)((char *)&driver + entries[i].place);
		CUdriverProcAddressQueryResult why;

		if (look_up(entries[i].name, place, entries[i].version, 0, &why) != CUDA_SUCCESS ||
		    !*place)
			return cudaErrorInsufficientDriver;
	}
	return cudaSuccess;
}

/* The driver is opened once; whether it could be is remembered. */
static cudaError_t open_once(void)
{
	static _Atomic bool tried;
	static cudaError_t result;

	if (tried)
		return result;
	pthread_mutex_lock(&lock);
	if (!tried) {
		result = open_driver();
		tried = true;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* Only success is remembered; in a child made by fork the driver's own functions refuse. */
cudaError_t runtime_start(void)
{
	static _Atomic bool started;
	cudaError_t result;

	if (started)
		return cudaSuccess;
	result = open_once();
	if (result == cudaSuccess)
		result = (cudaError_t)driver.cuInit(0);
	started = result == cudaSuccess;
	return result;
}

cudaError_t runtime_primary(int device, CUcontext *ret)
{
	cudaError_t result = cudaSuccess;
	CUcontext context;

	if (device < 0 || device >= MOST_DEVICES)
		return cudaErrorInvalidDevice;
	context = primaries[device];
	if (!context) {
		pthread_mutex_lock(&lock);
		context = primaries[device];
		if (!context)
			result = (cudaError_t)driver.cuDevicePrimaryCtxRetain(&context, device);
		if (result == cudaSuccess)
			primaries[device] = context;
		pthread_mutex_unlock(&lock);
		runtime_clear_start();
	}
	if (result == cudaSuccess)
		*ret = context;
	return result;
}

cudaError_t runtime_context(void)
{
	cudaError_t result = runtime_start();
	CUcontext context = NULL;

	if (result == cudaSuccess)
		result = (cudaError_t)driver.cuCtxGetCurrent(&context);
	if (result != cudaSuccess || context)
		return result;
	result = runtime_primary(thread_device, &context);
	return result == cudaSuccess ? (cudaError_t)driver.cuCtxSetCurrent(context) : result;
}

static cudaError_t set_device(int device)
{
	CUcontext context;
	cudaError_t result;
	int count = 0;

	driver.cuDeviceGetCount(&count);
	if (device < 0 || device >= count)
		return cudaErrorInvalidDevice;
	result = runtime_primary(device, &context);
	if (result == cudaSuccess)
		result = (cudaError_t)driver.cuCtxSetCurrent(context);
	if (result == cudaSuccess)
		thread_device = device;
	return result;
}

static cudaError_t get_device(int *ret)
{
	if (!ret)
		return cudaErrorInvalidValue;
	*ret = thread_device;
	return cudaSuccess;
}

cudaError_t runtime_note(cudaError_t error)
{
	if (error != cudaSuccess && error != cudaErrorNotReady)
		last_error = error;
	return error;
}

static cudaError_t write_version(int *ret, int version)
{
	if (!ret)
		return cudaErrorInvalidValue;
	*ret = version;
	return cudaSuccess;
}

/* Without a driver its version is 0, and that is no error. */
static cudaError_t driver_version(int *ret)
{
	if (open_once() != cudaSuccess)
		return write_version(ret, 0);
	return (cudaError_t)driver.cuDriverGetVersion(ret);
}

static const struct {
	cudaError_t number;
	const char *name;
	const char *text;
} errors[] = {
#define RUNTIME_ERROR(name, number, text) { name, #name, text },
#include "runtime_errors.def"
#undef RUNTIME_ERROR
};

static const char *describe(cudaError_t error, bool name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].number == error)
			return name ? errors[i].name : errors[i].text;
	return "unrecognized error code";
}

const char *stub_cudaGetErrorName(cudaError_t error)
{
	return describe(error, true);
}

const char *stub_cudaGetErrorString(cudaError_t error)
{
	return describe(error, false);
}

cudaError_t stub_cudaPeekAtLastError(void)
{
	return last_error;
}

cudaError_t stub_cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

RUNTIME_ALWAYS(cudaDriverGetVersion, (int *ret), driver_version(ret))
RUNTIME_ALWAYS(cudaRuntimeGetVersion, (int *ret), write_version(ret, RUNTIME_VERSION))
RUNTIME_STARTED(cudaSetDevice, (int device), set_device(device))
RUNTIME_STARTED(cudaGetDevice, (int *ret), get_device(ret))
RUNTIME_CALL(cudaDeviceSynchronize, (void), driver.cuCtxSynchronize())
