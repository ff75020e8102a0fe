/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failure injection. The environment of this test:
 * SIMCUDA_FAIL=cuMemAlloc_v2:3=2,cuMemCreate:1-2=2,cuMemFree_v2:2-=700,cuCtxCreate_v2:1=999
 */
#include "sim_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void the_third_call(void **state)
{
	CUdeviceptr address[4];

	(void)state;
	assert_success(cuMemAlloc_v2(&address[0], 10));
	assert_success(cuMemAlloc_v2(&address[1], 10));
	address[2] = 55;
	assert_result(cuMemAlloc_v2(&address[2], 10), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(address[2], 55);
	assert_success(cuMemAlloc_v2(&address[3], 10));
	assert_success(cuMemFree_v2(address[0]));
	assert_result(cuMemFree_v2(address[1]), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_result(cuMemFree_v2(address[1]), CUDA_ERROR_ILLEGAL_ADDRESS); /* from 2 on */
	assert_success(cuMemFreeAsync(address[1], NULL)); /* it had not been freed */
}

static void a_range_of_calls(void **state)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle handle;
	size_t before = unused_memory();
	CUcontext context;

	(void)state;
	assert_result(cuMemCreate(&handle, 2 * MIB, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_result(cuMemCreate(&handle, 2 * MIB, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(unused_memory(), before);
	assert_success(cuMemCreate(&handle, 2 * MIB, &properties, 0));
	assert_success(cuMemRelease(handle));
	assert_result(cuCtxCreate_v2(&context, 0, 0), CUDA_ERROR_UNKNOWN);
	assert_success(cuCtxCreate(&context, 0, 0)); /* another symbol counts by itself */
	assert_success(cuCtxDestroy_v2(context));
}

static int run_with(const char *self, const char *rule)
{
	pid_t child = fork();
	int status;

	if (!child) {
		setenv("SIMCUDA_FAIL", rule, 1);
		if (!freopen("/dev/null", "w", stderr))
			_exit(99);
		execl(self, self, "nothing", (char *)NULL);
		_exit(98);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static const char *self;

static void mistakes_stop_the_program(void **state)
{
	(void)state;
	assert_int_equal(run_with(self, "cuMemAlloc_v2:3=2"), 0);
	assert_int_equal(run_with(self, "cuMemAlloc_v3:3=2"), 70);
	assert_int_equal(run_with(self, "cuMemAlloc:0=2"), 70);
	assert_int_equal(run_with(self, "cuMemAlloc:1"), 70);
	assert_int_equal(run_with(self, "cuMemAlloc_v2:3=2;"), 70);
	assert_int_equal(run_with(self, "nonsense"), 70);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_third_call),
		cmocka_unit_test(a_range_of_calls),
		cmocka_unit_test(mistakes_stop_the_program),
	};

	self = argv[0];
	if (argc > 1) {
		int version;

		return cuDriverGetVersion(&version) != CUDA_SUCCESS;
	}
	return cmocka_run_group_tests(tests, use_primary, NULL);
}
