/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: exact frees, bounds of copies, figures worked out by hand for a 1 GiB device. */
#include "sim_test.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The tests' environment gives device 0 1 GiB and a context 64 MiB: 960 MiB are left. */
#define LEFT (960 * MIB)

static size_t fill(CUdeviceptr *addresses, size_t room, size_t size)
{
	size_t count = 0;

	while (count < room && cuMemAlloc_v2(&addresses[count], size) == CUDA_SUCCESS)
		count++;
	return count;
}

static void figures_at_the_limit(void **state)
{
	/* 20 MiB: 48 times. 1 MiB takes a whole 2 MiB: 480. 3 MiB takes 4: 240. One byte less than
	 * 1 MiB takes 2048 slots, two to a slab: 960. 512 bytes: 480 slabs of 4096; 513: of 2048.
	 */
	static const struct { size_t size, count; } figures[] = {
		{ 20 * MIB, 48 }, { MIB, 480 },		{ 3 * MIB, 240 },
		{ MIB - 1, 960 }, { 512, 480 * 4096 },	{ 513, 480 * 2048 },
		{ LEFT, 1 },	  { LEFT + 1, 0 },
	};
	const size_t room = 480 * 4096 + 1;
	CUdeviceptr *addresses = malloc(room * sizeof(*addresses));

	(void)state;
	assert_non_null(addresses);
	assert_int_equal(unused_memory(), LEFT);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		size_t count = fill(addresses, room, figures[i].size);
		CUdeviceptr more;

		assert_int_equal(count, figures[i].count);
		if (count)
			assert_result(cuMemAlloc_v2(&more, 2 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
		while (count)
			assert_success(cuMemFree_v2(addresses[--count]));
		assert_int_equal(unused_memory(), LEFT);
	}
	free(addresses);
}

/* Holes of a full device are found again, whatever was looked for in vain before. */
static void holes_are_found(void **state)
{
	/* 300 slots of 4096: 13 to a slab, with 196 over; 480 slabs. */
	const size_t slots = 512, room = 13 * 480;
	static CUdeviceptr addresses[13 * 480 + 1];
	CUdeviceptr more;

	(void)state;
	assert_int_equal(fill(addresses, room + 1, 300 * slots), room);
	assert_success(cuMemFree_v2(addresses[0]));
	assert_success(cuMemFree_v2(addresses[2]));
	assert_result(cuMemAlloc_v2(&more, 301 * slots), CUDA_ERROR_OUT_OF_MEMORY);
	assert_success(cuMemFree_v2(addresses[1]));
	assert_result(cuMemAlloc_v2(&more, 901 * slots), CUDA_ERROR_OUT_OF_MEMORY);
	assert_success(cuMemAlloc_v2(&more, 900 * slots));
	assert_result(cuMemAlloc_v2(&addresses[0], 300 * slots), CUDA_ERROR_OUT_OF_MEMORY);
	assert_success(cuMemAlloc_v2(&addresses[0], 196 * slots)); /* what is over in a slab */
	assert_success(cuMemFree_v2(addresses[0]));
	assert_success(cuMemFree_v2(more));
	for (size_t i = 3; i < room; i++)
		assert_success(cuMemFree_v2(addresses[i]));
	assert_int_equal(unused_memory(), LEFT);
}

struct helper {
	CUcontext context;
	CUdeviceptr address;
	CUresult result;
};

static void *allocate_elsewhere(void *argument)
{
	struct helper *helper = argument;

	helper->result = cuCtxSetCurrent(helper->context);
	if (helper->result == CUDA_SUCCESS)
		helper->result = cuMemAlloc_v2(&helper->address, 100);
	return NULL;
}

/* Small memory keeps its slab; what an earlier owner wrote is not the next one's to see. */
static void small_memory_comes_back_clear(void **state)
{
	CUdeviceptr keep, first, second;
	uint64_t value = 7;

	(void)state;
	assert_success(cuMemAlloc_v2(&keep, 512));
	assert_success(cuMemAlloc_v2(&first, 1024));
	assert_success(cuMemcpyHtoD_v2(first + 8, &value, sizeof(value)));
	assert_success(cuMemFree_v2(first));
	assert_success(cuMemAlloc_v2(&second, 1024));
	assert_int_equal(first, second);
	assert_success(cuMemcpyDtoH_v2(&value, second + 8, sizeof(value)));
	assert_int_equal(value, 0);
	assert_success(cuMemFree_v2(second));
	assert_success(cuMemFree_v2(keep));
}

/* Threads have slabs of their own; on a full device they use each other's. */
static void full_device_is_shared(void **state)
{
	struct helper helper = { 0 };
	CUdeviceptr small, rest;
	pthread_t thread;

	(void)state;
	assert_success(cuCtxGetCurrent(&helper.context));
	assert_success(cuMemAlloc_v2(&small, 100));
	assert_success(cuMemAlloc_v2(&rest, LEFT - 2 * MIB));
	assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, &helper), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_success(helper.result);
	assert_int_equal(helper.address / (2 * MIB), small / (2 * MIB));
	assert_success(cuMemFree_v2(small));
	assert_success(cuMemFree_v2(rest));
	assert_success(cuMemFree_v2(helper.address));
	assert_int_equal(unused_memory(), LEFT);
}

static bool host_can_read(CUdeviceptr address)
{
	int ends[2];
	ssize_t written;

	assert_int_equal(pipe(ends), 0);
	/* The kernel looks before we do: it refuses instead of raising a signal. */
	written = write(ends[1], (void *)(uintptr_t)address, 1);
	assert_true(written == 1 || errno == EFAULT);
	close(ends[0]);
	close(ends[1]);
	return written == 1;
}

static void addresses_are_apart_and_aligned(void **state)
{
	static const size_t sizes[] = { 1, 512, 513, 100000, MIB, 5 * MIB };
	CUdeviceptr address[6];

	(void)state;
	for (int i = 0; i < 6; i++) {
		assert_success(cuMemAlloc_v2(&address[i], sizes[i]));
		assert_int_equal(address[i] % 512, 0);
		for (int j = 0; j < i; j++)
			assert_true(address[i] + sizes[i] <= address[j] ||
				    address[j] + sizes[j] <= address[i]);
	}
	for (int i = 0; i < 6; i++)
		assert_success(cuMemFree_v2(address[i]));
}

static void frees_are_exact(void **state)
{
	static const size_t sizes[] = { 2000, 4 * MIB };
	int local;

	(void)state;
	for (int i = 0; i < 2; i++) {
		CUdeviceptr address;

		assert_success(cuMemAlloc_v2(&address, sizes[i]));
		assert_result(cuMemFree_v2(address + 1), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemFree_v2(address + 512), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemFree_v2(address - 512), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemFree_v2(address + sizes[i]), CUDA_ERROR_INVALID_VALUE);
		assert_success(cuMemFree_v2(address));
		assert_result(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	}
	assert_result(cuMemFree_v2((CUdeviceptr)(uintptr_t)&local), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemFree_v2(1), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemFree_v2(UINT64_MAX), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree_v2(0));
}

static void arguments_are_checked(void **state)
{
	CUdeviceptr address = 77;
	size_t pitch = 78;

	(void)state;
	assert_result(cuMemAlloc_v2(NULL, 1), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAlloc_v2(&address, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	assert_result(cuMemAlloc_v2(&address, SIZE_MAX - 3 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
	assert_result(cuMemAllocPitch_v2(&address, &pitch, 10, 10, 5), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAllocPitch_v2(&address, &pitch, SIZE_MAX / 2, 8, 4),
		      CUDA_ERROR_OUT_OF_MEMORY);
	assert_result(cuMemAllocManaged(&address, 10, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(address, 77);
	assert_int_equal(pitch, 78);
}

static void pitched(void **state)
{
	CUdeviceptr address, base;
	size_t pitch, size;

	(void)state;
	assert_success(cuMemAllocPitch_v2(&address, &pitch, 1000, 30, 4));
	assert_int_equal(pitch, 1024);
	assert_success(cuMemGetAddressRange_v2(&base, &size, address + 5000));
	assert_int_equal(base, address);
	assert_int_equal(size, 1024 * 30);
	assert_success(cuMemFree_v2(address));
	assert_result(cuMemGetAddressRange_v2(&base, &size, address), CUDA_ERROR_NOT_FOUND);
}

static void managed_is_the_hosts_too(void **state)
{
	CUdeviceptr address;
	char *host, byte;
	size_t before = unused_memory();

	(void)state;
	assert_success(cuMemAllocManaged(&address, 3 * MIB, CU_MEM_ATTACH_GLOBAL));
	assert_int_equal(unused_memory(), before); /* it is where it is touched: not counted */
	host = (char *)(uintptr_t)address;
	host[5] = 42;
	assert_success(cuMemcpyDtoH_v2(&byte, address + 5, 1));
	assert_int_equal(byte, 42);
	assert_success(cuMemsetD8_v2(address, 7, 3 * MIB));
	assert_int_equal(host[3 * MIB - 1], 7);
	assert_true(host_can_read(address));
	assert_success(cuMemFree_v2(address));
	assert_false(host_can_read(address));
	assert_result(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

static void first_abi_is_32_bit(void **state)
{
	CUdeviceptr_v1 address, base;
	unsigned int pitch, size, unused, total;
	char text[6];

	(void)state;
	assert_success(cuMemAlloc(&address, 4000));
	assert_success(cuMemcpyHtoD(address, "hello", 6));
	assert_success(cuMemcpyDtoH(text, address, 6));
	assert_string_equal(text, "hello");
	assert_success(cuMemGetAddressRange(&base, &size, address + 10));
	assert_int_equal(base, address);
	assert_int_equal(size, 4000);
	assert_result(cuMemFree(address + 512), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree(address));
	assert_result(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemAllocPitch(&address, &pitch, 100, 3, 8));
	assert_int_equal(pitch, 512);
	assert_success(cuMemFree_v2(address)); /* one address space: the other ABI frees it too */
	assert_success(cuMemGetInfo(&unused, &total));
	assert_int_equal(total, 1u << 30);
	assert_int_equal(unused, LEFT);
}

static void copies_stay_inside(void **state)
{
	static const size_t sizes[] = { 1000, 3 * MIB };
	char buffer[16];

	(void)state;
	for (int i = 0; i < 2; i++) {
		CUdeviceptr a, b, end;

		assert_success(cuMemAlloc_v2(&a, sizes[i]));
		assert_success(cuMemAlloc_v2(&b, sizes[i]));
		end = a + sizes[i];
		assert_success(cuMemcpyHtoD_v2(end - 8, "1234567", 8));
		assert_success(cuMemcpyDtoD_v2(b, end - 8, 8));
		assert_success(cuMemcpyDtoH_v2(buffer, b, 8));
		assert_string_equal(buffer, "1234567");
		assert_success(cuMemcpyHtoDAsync_v2_ptsz(a, "abc", 4, NULL));
		assert_success(cuMemcpyAsync((CUdeviceptr)(uintptr_t)buffer, a, 4, NULL));
		assert_string_equal(buffer, "abc");
		assert_success(cuMemcpy_ptds(b, a, 4));
		assert_result(cuMemcpyHtoD_v2(end - 7, "1234567", 8), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemcpyDtoH_v2(buffer, end - 7, 8), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemcpyDtoD_v2(b, end - 7, 8), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemcpyDtoD_v2(end - 7, b, 8), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemcpyDtoH_v2(buffer, end, 1), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemcpyDtoH_v2(buffer, a, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)buffer, "1", 2),
			      CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemcpyDtoH_v2(buffer, (CUdeviceptr)(uintptr_t)buffer, 2),
			      CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemsetD8_v2(a, 1, sizes[i] + 1), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemsetD32_v2(a, 1, sizes[i] / 4 + 1), CUDA_ERROR_INVALID_VALUE);
		assert_result(cuMemsetD32_v2(a + 2, 1, 1), CUDA_ERROR_INVALID_VALUE);
		assert_success(cuMemFree_v2(a));
		assert_success(cuMemFree_v2(b));
		assert_result(cuMemcpyDtoH_v2(buffer, a, 1), CUDA_ERROR_INVALID_VALUE);
	}
}

static void fills(void **state)
{
	CUdeviceptr address;
	uint32_t words[4];

	(void)state;
	assert_success(cuMemAlloc_v2(&address, 8 * MIB));
	assert_success(cuMemsetD32_v2(address, 0x01020304, 2 * MIB));
	assert_success(cuMemcpyDtoH_v2(words, address + 8 * MIB - 16, 16));
	assert_int_equal(words[3], 0x01020304);
	assert_success(cuMemsetD8Async(address + 1, 0, 8 * MIB - 2, NULL)); /* all but two bytes */
	assert_success(cuMemcpyDtoH_v2(words, address, 16));
	assert_int_equal(words[0], 4);
	assert_int_equal(words[1], 0);
	assert_success(cuMemcpyDtoH_v2(words, address + 8 * MIB - 16, 16));
	assert_int_equal(words[3], 0x01000000);
	assert_success(cuMemsetD16_v2(address, 0x0506, 4));
	assert_success(cuMemcpyDtoH_v2(words, address, 16));
	assert_int_equal(words[1], 0x05060506);
	assert_success(cuMemFree_v2(address));
}

static void two_dimensions(void **state)
{
	char lines[3][4] = { "abc", "def", "ghi" }, back[3][4] = { "" };
	CUDA_MEMCPY2D plan = { .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = lines,
			       .srcPitch = 4, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			       .WidthInBytes = 4, .Height = 3 };
	CUdeviceptr address;
	size_t pitch;

	(void)state;
	assert_success(cuMemAllocPitch_v2(&address, &pitch, 4, 3, 4));
	plan.dstDevice = address;
	plan.dstPitch = pitch;
	assert_success(cuMemcpy2D_v2(&plan));
	assert_success(cuMemcpyDtoH_v2(back[1], address + pitch, 4));
	assert_string_equal(back[1], "def");
	plan.Height = 4;
	assert_result(cuMemcpy2D_v2(&plan), CUDA_ERROR_INVALID_VALUE);
	plan.Height = 3;
	plan.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	assert_result(cuMemcpy2D_v2(&plan), CUDA_ERROR_NOT_SUPPORTED);
	assert_success(cuMemFree_v2(address));
}

static void pinned_host(void **state)
{
	CUdeviceptr device;
	unsigned int flags;
	char *memory, local;

	(void)state;
	assert_success(cuMemHostAlloc((void **)&memory, 10000, CU_MEMHOSTALLOC_PORTABLE));
	memory[9999] = 1;
	assert_success(cuMemHostGetFlags(&flags, memory));
	assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE);
	assert_success(cuMemHostGetDevicePointer_v2(&device, memory + 5, 0));
	assert_result(cuMemFreeHost(memory + 1), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemHostUnregister(memory), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFreeHost(memory));
	assert_result(cuMemFreeHost(memory), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemFreeHost(&local), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemHostGetDevicePointer_v2(&device, memory, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAllocHost_v2((void **)&memory, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemHostAlloc((void **)&memory, 1, 64), CUDA_ERROR_INVALID_VALUE);
}

static void registered_host(void **state)
{
	static char memory[8192];

	(void)state;
	assert_success(cuMemHostRegister_v2(memory, 8192, 0));
	assert_result(cuMemHostRegister_v2(memory, 8192, 0),
		      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_result(cuMemHostRegister_v2(memory + 100, 10, 0),
		      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_result(cuMemFreeHost(memory), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemHostUnregister(memory + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_success(cuMemHostUnregister(memory));
	assert_result(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_success(cuMemHostRegister(memory, 100, 0));
	assert_success(cuMemHostUnregister(memory));
}

static void pointer_questions(void **state)
{
	CUpointer_attribute what[] = { CU_POINTER_ATTRIBUTE_RANGE_SIZE,
				       CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
				       CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
	size_t size;
	CUdeviceptr address, start;
	unsigned int type;
	void *data[] = { &size, &start, &type };
	CUcontext context, current;

	(void)state;
	assert_success(cuMemAlloc_v2(&address, 700));
	assert_success(cuPointerGetAttributes(3, what, data, address + 699));
	assert_int_equal(size, 700);
	assert_int_equal(start, address);
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_success(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address));
	assert_success(cuCtxGetCurrent(&current));
	assert_ptr_equal(context, current);
	assert_result(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 700),
		      CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFree_v2(address));
	assert_success(cuPointerGetAttributes(3, what, data, address));
	assert_int_equal(size, 0);
	assert_int_equal(type, 0);
}

static void device_memory_is_not_the_hosts(void **state)
{
	CUdeviceptr address;

	(void)state;
	assert_success(cuMemAlloc_v2(&address, 4 * MIB));
	assert_false(host_can_read(address));
	assert_success(cuMemFree_v2(address));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_at_the_limit),
		cmocka_unit_test(small_memory_comes_back_clear),
		cmocka_unit_test(holes_are_found),
		cmocka_unit_test(full_device_is_shared),
		cmocka_unit_test(addresses_are_apart_and_aligned),
		cmocka_unit_test(frees_are_exact),
		cmocka_unit_test(arguments_are_checked),
		cmocka_unit_test(pitched),
		cmocka_unit_test(managed_is_the_hosts_too),
		cmocka_unit_test(first_abi_is_32_bit),
		cmocka_unit_test(copies_stay_inside),
		cmocka_unit_test(fills),
		cmocka_unit_test(two_dimensions),
		cmocka_unit_test(pinned_host),
		cmocka_unit_test(registered_host),
		cmocka_unit_test(pointer_questions),
		cmocka_unit_test(device_memory_is_not_the_hosts),
	};

	return cmocka_run_group_tests(tests, use_primary, leave_primary);
}
