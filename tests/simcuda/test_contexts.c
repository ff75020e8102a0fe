/* SPDX-License-Identifier: Apache-2.0 */
/* Start, contexts and devices: what fails before cuInit, without a context, after its end. */
#include "sim_test.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The environment: two devices of 1 GiB and 512 MiB, 64 MiB for a context. */
#define OVERHEAD (64 * MIB)

static void before_init(void **state)
{
	CUdeviceptr address;
	CUcontext context;
	const char *text;
	int number;

	(void)state;
	assert_result(cuMemAlloc_v2(&address, 1), CUDA_ERROR_NOT_INITIALIZED);
	assert_result(cuMemFree_v2(0), CUDA_ERROR_NOT_INITIALIZED);
	assert_result(cuDeviceGetCount(&number), CUDA_ERROR_NOT_INITIALIZED);
	assert_result(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
	assert_result(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
	assert_result(cuInit(1), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuDriverGetVersion(&number));
	assert_int_equal(number, 13000);
	assert_success(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	assert_string_equal(text, "CUDA_ERROR_OUT_OF_MEMORY");
	assert_success(cuGetErrorString(CUDA_SUCCESS, &text));
	assert_string_equal(text, "no error");
	assert_result(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
	assert_null(text);
	assert_success(cuInit(0));
	assert_success(cuInit(0));
}

static void no_context(void **state)
{
	CUdeviceptr address;
	CUcontext context = (CUcontext)(uintptr_t)1;
	CUdevice device;
	CUstream stream;
	void *host;

	(void)state;
	assert_success(cuCtxGetCurrent(&context));
	assert_null(context);
	assert_result(cuMemAlloc_v2(&address, 1), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuMemFree_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuMemAllocAsync(&address, 1, NULL), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuMemAllocHost_v2(&host, 1), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuCtxPopCurrent_v2(&context), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuCtxSetCurrent((CUcontext)(uintptr_t)0x1234), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuCtxDestroy_v2(NULL), CUDA_ERROR_INVALID_CONTEXT);
}

static void devices(void **state)
{
	CUuuid first, second;
	CUdevice device;
	char text[32];
	size_t bytes;
	int number;

	(void)state;
	assert_success(cuDeviceGetCount(&number));
	assert_int_equal(number, 2);
	assert_success(cuDeviceGet(&device, 1));
	assert_result(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
	assert_success(cuDeviceTotalMem_v2(&bytes, 0));
	assert_int_equal(bytes, GIB);
	assert_success(cuDeviceTotalMem_v2(&bytes, 1));
	assert_int_equal(bytes, 512 * MIB);
	assert_success(cuDeviceGetUuid_v2(&first, 0));
	assert_success(cuDeviceGetUuid_v2(&second, 1));
	assert_memory_not_equal(&first, &second, sizeof(first));
	assert_success(cuDeviceGetPCIBusId(text, sizeof(text), 1));
	assert_string_equal(text, "0000:19:00.0");
	assert_success(cuDeviceGetByPCIBusId(&device, text));
	assert_int_equal(device, 1);
	assert_success(cuDeviceGetName(text, sizeof(text), 0));
	assert_string_equal(text, "Simulated GPU");
	assert_success(cuDeviceGetAttribute(&number, (CUdevice_attribute)75, 0));
	assert_int_equal(number, 9);
	assert_result(cuDeviceGetAttribute(&number, (CUdevice_attribute)75, 2),
		      CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuDeviceGetAttribute(&number, (CUdevice_attribute)9999, 0),
		      CUDA_ERROR_INVALID_VALUE);
}

static void primary_counts(void **state)
{
	CUcontext first, second;
	CUdeviceptr address;
	unsigned int flags;
	int active;

	(void)state;
	assert_result(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	assert_success(cuDevicePrimaryCtxRetain(&first, 0));
	assert_success(cuDevicePrimaryCtxRetain(&second, 0));
	assert_ptr_equal(first, second);
	assert_result(cuCtxDestroy_v2(first), CUDA_ERROR_INVALID_CONTEXT);
	assert_success(cuCtxSetCurrent(first));
	assert_int_equal(unused_memory(), GIB - OVERHEAD);
	assert_success(cuMemAlloc_v2(&address, 10 * MIB));
	assert_success(cuDevicePrimaryCtxRelease(0));
	assert_int_equal(unused_memory(), GIB - OVERHEAD - 10 * MIB);
	assert_result(cuDevicePrimaryCtxSetFlags(0, 4), CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
	assert_success(cuDevicePrimaryCtxSetFlags_v2(0, 4));
	assert_success(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(flags, 4);
	assert_int_equal(active, 1);
	assert_success(cuDevicePrimaryCtxRelease_v2(0));
	assert_success(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 0);
	assert_result(cuMemFree_v2(address), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_success(cuDevicePrimaryCtxRetain(&second, 0));
	assert_ptr_equal(first, second);
	assert_int_equal(unused_memory(), GIB - OVERHEAD); /* its memory went with it */
	assert_result(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuDevicePrimaryCtxReset_v2(0));
	assert_result(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	assert_success(cuCtxSetCurrent(NULL));
}

static void destroy_frees(void **state)
{
	CUcontext other, context, current;
	CUdeviceptr address[3], kept;
	CUstream stream;
	CUarray array;
	CUDA_ARRAY_DESCRIPTOR shape = { 100, 100, CU_AD_FORMAT_FLOAT, 1 };
	void *host;

	(void)state;
	assert_success(cuCtxCreate_v2(&other, 0, 0));
	assert_success(cuMemAlloc_v2(&kept, 100));
	assert_success(cuCtxCreate_v2(&context, 0, 0));
	assert_success(cuMemAlloc_v2(&address[0], 100));
	assert_success(cuMemAlloc_v2(&address[1], 30 * MIB));
	assert_success(cuMemAllocAsync(&address[2], 100, NULL));
	assert_success(cuMemAllocHost_v2(&host, 100));
	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuArrayCreate_v2(&array, &shape));
	assert_success(cuCtxDestroy_v2(context));
	assert_success(cuCtxGetCurrent(&current));
	assert_ptr_equal(current, other); /* the destroyed one was popped */
	for (int i = 0; i < 3; i++)
		assert_result(cuMemFree_v2(address[i]), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuCtxDestroy_v2(context), CUDA_ERROR_INVALID_CONTEXT);
	assert_result(cuCtxSetCurrent(context), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(unused_memory(), GIB - OVERHEAD - 2 * MIB); /* the slab of kept */
	assert_success(cuMemFree_v2(kept));
	assert_success(cuCtxDestroy(other));
}

static void stack(void **state)
{
	CUcontext a, b, out;
	unsigned int version, flags;
	CUdevice device;

	(void)state;
	assert_success(cuCtxCreate_v3(&a, NULL, 0, 4, 0));
	assert_success(cuCtxCreate_v4(&b, &(CUctxCreateParams){ 0 }, 0, 1));
	assert_ptr_not_equal(a, b);
	assert_success(cuCtxGetDevice(&device));
	assert_int_equal(device, 1);
	assert_success(cuCtxPopCurrent_v2(&out));
	assert_ptr_equal(out, b);
	assert_success(cuCtxGetDevice(&device));
	assert_int_equal(device, 0);
	assert_success(cuCtxGetFlags(&flags));
	assert_int_equal(flags, 4);
	assert_success(cuCtxPushCurrent_v2(b));
	assert_success(cuCtxSetCurrent(a));
	assert_success(cuCtxPopCurrent(&out));
	assert_ptr_equal(out, a);
	assert_success(cuCtxGetCurrent(&out));
	assert_ptr_equal(out, a);
	assert_success(cuCtxGetApiVersion(b, &version));
	assert_int_equal(version, 3020);
	assert_success(cuCtxAttach(&out, 0));
	assert_success(cuCtxDetach(a));
	assert_success(cuCtxGetDevice(&device));
	assert_success(cuCtxDetach(a));
	assert_result(cuCtxDetach(a), CUDA_ERROR_INVALID_CONTEXT);
	assert_success(cuCtxGetCurrent(&out));
	assert_null(out);
	assert_success(cuCtxDestroy_v2(b));
	assert_result(cuCtxCreate_v2(&a, 0, 2), CUDA_ERROR_INVALID_DEVICE);
	assert_result(cuCtxCreate_v2(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

static void *destroy_it(void *context)
{
	return (void *)(uintptr_t)cuCtxDestroy_v2((CUcontext)context);
}

static void destroyed_elsewhere(void **state)
{
	CUcontext context;
	CUdeviceptr address;
	pthread_t thread;
	void *result;

	(void)state;
	assert_success(cuCtxCreate_v2(&context, 0, 0));
	assert_int_equal(pthread_create(&thread, NULL, destroy_it, context), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
	assert_result(cuMemAlloc_v2(&address, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_success(cuCtxCreate_v2(&context, 0, 0)); /* may get the same place, not the handle */
	assert_success(cuCtxDestroy_v2(context));
	assert_result(cuMemAlloc_v2(&address, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_success(cuCtxSetCurrent(NULL));
}

static void contexts_cost_memory(void **state)
{
	CUcontext context[16];
	int count = 0;

	(void)state;
	/* 512 MiB of device 1 hold 8 contexts of 64 MiB. */
	while (count < 9 && cuCtxCreate_v2(&context[count], 0, 1) == CUDA_SUCCESS)
		count++;
	assert_int_equal(count, 8);
	assert_result(cuCtxCreate_v2(&context[8], 0, 1), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(unused_memory(), 0);
	while (count)
		assert_success(cuCtxDestroy_v2(context[--count]));
}

static void peers(void **state)
{
	CUcontext here, there;
	int can;

	(void)state;
	assert_success(cuDeviceCanAccessPeer(&can, 0, 1));
	assert_int_equal(can, 1);
	assert_success(cuCtxCreate_v2(&there, 0, 1));
	assert_success(cuCtxCreate_v2(&here, 0, 0));
	assert_result(cuCtxDisablePeerAccess(there), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
	assert_success(cuCtxEnablePeerAccess(there, 0));
	assert_result(cuCtxEnablePeerAccess(there, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
	assert_result(cuCtxEnablePeerAccess(here, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
	assert_success(cuCtxDisablePeerAccess(there));
	assert_success(cuCtxDestroy_v2(here));
	assert_success(cuCtxDestroy_v2(there));
}

static void a_child_is_not_initialised(void **state)
{
	int status;
	pid_t child;

	(void)state;
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		CUdeviceptr address;

		if (cuMemAlloc_v2(&address, 1) != CUDA_ERROR_NOT_INITIALIZED)
			_exit(1);
		_exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_init),
		cmocka_unit_test(no_context),
		cmocka_unit_test(devices),
		cmocka_unit_test(primary_counts),
		cmocka_unit_test(destroy_frees),
		cmocka_unit_test(stack),
		cmocka_unit_test(destroyed_elsewhere),
		cmocka_unit_test(contexts_cost_memory),
		cmocka_unit_test(peers),
		cmocka_unit_test(a_child_is_not_initialised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
