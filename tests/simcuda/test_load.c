/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size and load: an 80 GiB device filled to its limit, long churn, four threads at once. The
 * figures are checked; the time is not. Resident memory stays small throughout.
 */
#include "sim_test.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>

#define DEVICE (80 * GIB)
#define OVERHEAD (512 * MIB)

static void fill_and_empty(void **state)
{
	static CUdeviceptr addresses[4100];
	size_t count = 0;

	(void)state;
	/* (81920 - 512) / 20 = 4070.4 */
	while (count < 4100 && cuMemAlloc_v2(&addresses[count], 20 * MIB) == CUDA_SUCCESS)
		count++;
	assert_int_equal(count, 4070);
	assert_int_equal(unused_memory(), 8 * MIB);
	for (size_t i = 0; i < count; i++)
		assert_success(cuMemFree_v2(addresses[i]));
	assert_int_equal(unused_memory(), DEVICE - OVERHEAD);
}

/* Ever new sizes: released addresses must be merged for the next ones to fit. */
static void addresses_do_not_run_out(void **state)
{
	CUdeviceptr address;

	(void)state;
	for (size_t i = 1; i < 4000; i++) {
		assert_success(cuMemAlloc_v2(&address, (i * 37 % 4000 + 600) * 8 * MIB));
		assert_success(cuMemFree_v2(address));
	}
	assert_success(cuMemAddressReserve(&address, 1200 * GIB, 0, 0, 0));
	assert_success(cuMemAddressFree(address, 1200 * GIB));
}

/* What threads keep for their next allocation is there for others when space is short. */
static void kept_addresses_come_back(void **state)
{
	static CUdeviceptr addresses[64][8];
	CUdeviceptr most;

	(void)state;
	for (size_t i = 0; i < 64 * 8; i++)
		assert_success(cuMemAlloc_v2(&addresses[i / 8][i % 8], (i / 8 + 1) * 2 * MIB));
	for (size_t i = 0; i < 64 * 8; i++)
		assert_success(cuMemFree_v2(addresses[i / 8][i % 8]));
	/* 33 GiB have been used of 16 x 80 + 64 = 1344. */
	assert_success(cuMemAddressReserve(&most, 1320 * GIB, 0, 0, 0));
	assert_result(cuMemAddressReserve(&addresses[0][0], 30 * GIB, 0, 0, 0),
		      CUDA_ERROR_OUT_OF_MEMORY);
	assert_success(cuMemAddressFree(most, 1320 * GIB));
}

static void clearing_costs_nothing(void **state)
{
	CUdeviceptr address;
	char byte = 1;

	(void)state;
	assert_success(cuMemAlloc_v2(&address, 70 * GIB));
	assert_success(cuMemcpyHtoD_v2(address + 40 * GIB, &byte, 1));
	assert_success(cuMemsetD8_v2(address, 0, 70 * GIB));
	assert_success(cuMemcpyDtoH_v2(&byte, address + 40 * GIB, 1));
	assert_int_equal(byte, 0);
	assert_success(cuMemFree_v2(address));
}

static size_t shared_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	size_t kib = 0;

	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "RssShmem: %zu", &kib) == 1)
			break;
	fclose(file);
	return kib;
}

static void freed_bytes_go(void **state)
{
	CUdeviceptr address;

	(void)state;
	assert_success(cuMemAlloc_v2(&address, 64 * MIB));
	assert_success(cuMemsetD8_v2(address, 1, 64 * MIB));
	assert_true(shared_kib() >= 64 * 1024);
	assert_success(cuMemFree_v2(address));
	assert_true(shared_kib() < 16 * 1024);
}

struct churner {
	CUcontext context;
	unsigned int seed;
	unsigned int errors;
};

/* Writes its own mark into everything it holds and finds it again: no two threads share a byte. */
static void *churn(void *argument)
{
	struct churner *self = argument;
	CUdeviceptr held[32] = { 0 };
	unsigned int random = self->seed;

	if (cuCtxSetCurrent(self->context))
		self->errors++;
	for (int i = 0; i < 50000; i++) {
		unsigned int slot, found = 0, mark;

		random = random * 1103515245u + 12345u;
		slot = random >> 16 & 31;
		mark = self->seed << 8 | slot;
		if (held[slot]) {
			self->errors += cuMemcpyDtoH_v2(&found, held[slot], 4) || found != mark;
			self->errors += cuMemFree_v2(held[slot]) != CUDA_SUCCESS;
			held[slot] = 0;
		} else {
			size_t size = 4 + (random >> 4) % (random & 0x100000 ? 3000 : 3000000);
			CUresult result = i % 3 ? cuMemAlloc_v2(&held[slot], size) :
						  cuMemAllocAsync(&held[slot], size, NULL);

			self->errors += result != CUDA_SUCCESS;
			self->errors += cuMemcpyHtoD_v2(held[slot], &mark, 4) != CUDA_SUCCESS;
		}
		if (i % 1000 == 0)
			self->errors += cuCtxSynchronize() != CUDA_SUCCESS;
	}
	for (int i = 0; i < 32; i++)
		self->errors += cuMemFree_v2(held[i]) != CUDA_SUCCESS;
	return NULL;
}

static void four_threads(void **state)
{
	struct churner churners[4];
	pthread_t threads[4];
	CUcontext context;

	(void)state;
	assert_success(cuCtxGetCurrent(&context));
	for (unsigned int i = 0; i < 4; i++) {
		churners[i] = (struct churner){ context, i + 1, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &churners[i]), 0);
	}
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(churners[i].errors, 0);
	}
	assert_success(cuCtxSynchronize());
	assert_int_equal(unused_memory(), DEVICE - OVERHEAD);
}

static void stays_small(void **state)
{
	struct rusage usage;

	(void)state;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	assert_in_range(usage.ru_maxrss, 1, 200 * 1024); /* KiB; the sparse store, not 80 GiB */
#else
	(void)usage;
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fill_and_empty),
		cmocka_unit_test(addresses_do_not_run_out),
		cmocka_unit_test(kept_addresses_come_back),
		cmocka_unit_test(clearing_costs_nothing),
		cmocka_unit_test(freed_bytes_go),
		cmocka_unit_test(four_threads),
		cmocka_unit_test(stays_small),
	};

	return cmocka_run_group_tests(tests, use_primary, leave_primary);
}
