/* SPDX-License-Identifier: Apache-2.0 */
/* SIMCUDA_HIDDEN_CONTEXT=1 with two devices: a context is current that no call has set. */
#include "sim_test.h"

#include <pthread.h>

static void *in_a_thread(void *argument)
{
	CUdeviceptr *address = argument;

	return (void *)(uintptr_t)cuMemAlloc_v2(address, 3000);
}

static void appears_by_itself(void **state)
{
	CUdeviceptr address[2];
	CUcontext context, primary;
	pthread_t thread;
	void *result;
	CUdevice device;

	(void)state;
	assert_success(cuInit(0));
	assert_success(cuCtxGetCurrent(&context));
	assert_null(context);
	assert_success(cuMemAlloc_v2(&address[0], 1000));
	assert_success(cuCtxGetDevice(&device));
	assert_int_equal(device, 1);
	assert_success(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					     address[0]));
	assert_int_equal(device, 1);
	assert_success(cuCtxGetCurrent(&context));
	assert_success(cuDevicePrimaryCtxRetain(&primary, 1));
	assert_ptr_equal(context, primary);
	assert_int_equal(pthread_create(&thread, NULL, in_a_thread, &address[1]), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((uintptr_t)result, CUDA_SUCCESS);
	assert_success(cuMemFree_v2(address[0]));
	assert_success(cuMemFree_v2(address[1]));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(appears_by_itself) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
