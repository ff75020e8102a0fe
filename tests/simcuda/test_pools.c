/* SPDX-License-Identifier: Apache-2.0 */
/* Stream-ordered allocation and pools on a 1 GiB device with 960 MiB left. */
#include "sim_test.h"

#define LEFT (960 * MIB)

static cuuint64_t get(CUmemoryPool pool, CUmemPool_attribute which)
{
	cuuint64_t value = 0;

	assert_success(cuMemPoolGetAttribute(pool, which, &value));
	return value;
}

static CUmemoryPool make_pool(int device)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, device } };
	CUmemoryPool pool;

	assert_success(cuMemPoolCreate(&pool, &properties));
	return pool;
}

static void reserved_and_used(void **state)
{
	CUmemoryPool pool;
	CUdeviceptr a, b;
	cuuint64_t value = 0;

	(void)state;
	assert_success(cuDeviceGetDefaultMemPool(&pool, 0));
	assert_success(cuMemAllocAsync(&a, 1000, NULL));
	/* 1000 bytes are two slots; the pool takes its first step of 32 MiB. */
	assert_int_equal(get(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1024);
	assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 32 * MIB);
	assert_int_equal(unused_memory(), LEFT - 32 * MIB);
	assert_success(cuMemAllocAsync_ptsz(&b, 40 * MIB, CU_STREAM_PER_THREAD));
	assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
	assert_success(cuMemFreeAsync(b, NULL));
	assert_result(cuMemFreeAsync(b, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemFreeAsync(a + 512, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(unused_memory(), LEFT - 64 * MIB); /* kept until a synchronisation */
	assert_int_equal(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 40 * MIB + 1024);
	assert_success(cuStreamSynchronize(NULL));
	assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 2 * MIB);
	assert_int_equal(get(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 64 * MIB);
	assert_success(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
	assert_int_equal(get(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 1024);
	assert_result(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
		      CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree_v2(a)); /* the plain free takes it too */
	assert_success(cuCtxSynchronize());
	assert_int_equal(unused_memory(), LEFT);
}

static void threshold_keeps(void **state)
{
	cuuint64_t threshold = 100 * MIB;
	CUmemoryPool pool = make_pool(0);
	CUdeviceptr address;

	(void)state;
	assert_success(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	assert_success(cuMemAllocFromPoolAsync(&address, 200 * MIB, pool, NULL));
	assert_int_equal(unused_memory(), LEFT - 224 * MIB);
	assert_success(cuMemFreeAsync(address, NULL));
	assert_success(cuCtxSynchronize());
	assert_int_equal(unused_memory(), LEFT - 100 * MIB);
	assert_success(cuMemPoolTrimTo(pool, 10 * MIB));
	assert_int_equal(unused_memory(), LEFT - 10 * MIB);
	assert_success(cuMemPoolDestroy(pool));
	assert_int_equal(unused_memory(), LEFT);
}

static void destroy_with_pointers_out(void **state)
{
	CUmemoryPool pool = make_pool(0), current;
	CUdeviceptr address, more;
	cuuint64_t value;
	char byte = 9;

	(void)state;
	assert_success(cuDeviceSetMemPool(0, pool));
	assert_success(cuMemAllocAsync(&address, 5000, NULL));
	assert_success(cuMemPoolDestroy(pool));
	assert_success(cuDeviceGetMemPool(&current, 0));
	assert_ptr_not_equal(current, pool);
	assert_result(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuMemAllocFromPoolAsync(&more, 1, pool, NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
		      CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuMemcpyHtoD_v2(address + 4999, &byte, 1)); /* still good */
	assert_int_equal(unused_memory(), LEFT - 32 * MIB);
	assert_success(cuMemFreeAsync(address, NULL));
	assert_int_equal(unused_memory(), LEFT); /* the last pointer took the pool along */
	assert_result(cuMemFreeAsync(address, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void limits(void **state)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				      .maxSize = 10 * MIB };
	CUdeviceptr addresses[31], one;
	CUmemoryPool pool;
	int count = 0;

	(void)state;
	/* 960 MiB hold 30 times 32 MiB. */
	while (count < 31 && !cuMemAllocAsync(&addresses[count], 32 * MIB, NULL))
		count++;
	assert_int_equal(count, 30);
	assert_result(cuMemAllocAsync(&one, 1, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	while (count)
		assert_success(cuMemFreeAsync(addresses[--count], NULL));
	assert_success(cuCtxSynchronize());
	assert_success(cuMemPoolCreate(&pool, &properties));
	assert_result(cuMemAllocFromPoolAsync(&one, 10 * MIB + 1, pool, NULL),
		      CUDA_ERROR_OUT_OF_MEMORY);
	assert_success(cuMemAllocFromPoolAsync(&one, 10 * MIB, pool, NULL));
	assert_success(cuMemFreeAsync(one, NULL));
	assert_success(cuMemPoolDestroy(pool));
}

static void arguments(void **state)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, 7 } };
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 1 },
				   CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemoryPool pool, standing;
	CUdeviceptr address;

	(void)state;
	assert_result(cuMemAllocAsync(&address, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAllocAsync(NULL, 1, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAllocAsync(&address, 1, (CUstream)(uintptr_t)0x1000),
		      CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuMemAllocAsync(&address, SIZE_MAX, NULL), CUDA_ERROR_OUT_OF_MEMORY);
	assert_result(cuMemPoolCreate(&pool, &properties), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuDeviceGetDefaultMemPool(&standing, 0));
	assert_result(cuMemPoolDestroy(standing), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemPoolSetAccess(standing, &access, 1));
	access.location.id = 2;
	assert_result(cuMemPoolSetAccess(standing, &access, 1), CUDA_ERROR_INVALID_VALUE);
	pool = make_pool(1);
	assert_result(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemPoolDestroy(pool));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reserved_and_used),
		cmocka_unit_test(threshold_keeps),
		cmocka_unit_test(destroy_with_pointers_out),
		cmocka_unit_test(limits),
		cmocka_unit_test(arguments),
	};

	return cmocka_run_group_tests(tests, use_primary, leave_primary);
}
