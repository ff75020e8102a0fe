/* SPDX-License-Identifier: Apache-2.0 */
/* With little address space, cuInit fails and says so; the process goes on and may try again. */
#include "sim_test.h"

#include <sys/resource.h>

static void init_fails_cleanly(void **state)
{
	static const rlim_t spaces[] = { 64, 300, 500 }; /* GiB; twice 384 is needed */
	struct rlimit before, limit;
	CUdeviceptr address;
	CUcontext context;
	int count;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	limit = before;
	for (int i = 0; i < 3; i++) {
		limit.rlim_cur = spaces[i] * GIB;
		assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
		assert_result(cuInit(0), CUDA_ERROR_OUT_OF_MEMORY);
		assert_result(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
		assert_result(cuMemAlloc_v2(&address, 1), CUDA_ERROR_NOT_INITIALIZED);
	}
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_success(cuInit(0));
	assert_success(cuDevicePrimaryCtxRetain(&context, 0));
	assert_success(cuCtxSetCurrent(context));
	assert_success(cuMemAlloc_v2(&address, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(init_fails_cleanly) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
