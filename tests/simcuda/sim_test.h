/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the simulated driver share: cmocka, result checks, a current context. */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sim_cuda.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

#define assert_result(call, expected) assert_int_equal((call), (expected))
#define assert_success(call) assert_int_equal((call), CUDA_SUCCESS)

static inline size_t unused_memory(void)
{
	size_t unused = 0, total = 0;

	assert_success(cuMemGetInfo_v2(&unused, &total));
	return unused;
}

/* A group set-up: the primary context of device 0 becomes current. */
static inline int use_primary(void **state)
{
	CUcontext context;

	(void)state;
	assert_success(cuInit(0));
	assert_success(cuDevicePrimaryCtxRetain(&context, 0));
	assert_success(cuCtxSetCurrent(context));
	return 0;
}

static inline int leave_primary(void **state)
{
	(void)state;
	assert_success(cuDevicePrimaryCtxRelease_v2(0));
	assert_success(cuCtxSetCurrent(NULL));
	return 0;
}

#endif
