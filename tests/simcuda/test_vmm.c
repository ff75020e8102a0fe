/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations, handles and mappings on a 1 GiB device with 960 MiB left. */
#include "sim_test.h"

#define LEFT (960 * MIB)
#define G (2 * MIB) /* granularity */

static const CUmemAllocationProp on_device = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					       .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
static const CUmemAccessDesc read_write = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
					    CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

static void reservations_are_exact(void **state)
{
	CUdeviceptr address;

	(void)state;
	assert_result(cuMemAddressReserve(&address, G + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAddressReserve(&address, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAddressReserve(&address, G, 3 * G, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemAddressReserve(&address, 2 * GIB, 0, 0, 0)); /* more than the device */
	assert_int_equal(unused_memory(), LEFT);
	assert_result(cuMemAddressFree(address + G, 2 * GIB - G), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAddressFree(address, 2 * GIB - G), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemAddressFree(address, 2 * GIB + G), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemAddressFree(address, 2 * GIB));
	assert_result(cuMemAddressFree(address, 2 * GIB), CUDA_ERROR_INVALID_VALUE);
	for (size_t alignment = 4 * MIB; alignment <= 256 * MIB; alignment *= 2) {
		assert_success(cuMemAddressReserve(&address, 3 * G, alignment, 0, 0));
		assert_int_equal(address % alignment, 0);
		assert_success(cuMemAddressFree(address, 3 * G));
	}
}

static void handles_live_by_references_and_mappings(void **state)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr address;

	(void)state;
	assert_success(cuMemCreate(&handle, 10 * MIB, &on_device, 0));
	assert_int_equal(unused_memory(), LEFT - 10 * MIB);
	assert_success(cuMemAddressReserve(&address, 20 * MIB, 0, 0, 0));
	assert_success(cuMemMap(address, 10 * MIB, 0, handle, 0));
	assert_success(cuMemRelease(handle));
	assert_result(cuMemRelease(handle), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuMemMap(address + 10 * MIB, 10 * MIB, 0, handle, 0),
		      CUDA_ERROR_INVALID_HANDLE);
	assert_int_equal(unused_memory(), LEFT - 10 * MIB);
	assert_success(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(address + 5)));
	assert_int_equal(again, handle);
	assert_success(cuMemMap(address + 10 * MIB, 10 * MIB, 0, handle, 0));
	assert_success(cuMemUnmap(address, 10 * MIB));
	assert_success(cuMemUnmap(address + 10 * MIB, 10 * MIB));
	assert_int_equal(unused_memory(), LEFT - 10 * MIB); /* the second reference */
	assert_success(cuMemRelease(handle));
	assert_int_equal(unused_memory(), LEFT);
	assert_result(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address),
		      CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemAddressFree(address, 20 * MIB));
	assert_result(cuMemRelease(handle), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuMemCreate(&again, G, &on_device, 0));
	assert_int_not_equal(again, handle);
	assert_success(cuMemRelease(again));
}

static void maps_are_checked(void **state)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address, plain;
	int device = -1;

	(void)state;
	assert_success(cuMemCreate(&handle, 2 * G, &on_device, 0));
	assert_success(cuMemAddressReserve(&address, 4 * G, 0, 0, 0));
	assert_success(cuMemAlloc_v2(&plain, 2 * G));
	assert_result(cuMemMap(plain, G, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemMap(address + 1, G, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemMap(address, G + 1, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemMap(address, 3 * G, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemMap(address, G, G, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemMap(address + 3 * G, 2 * G, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemMap(address, G, 0, 12345, 0), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuMemMap(address, 2 * G, 0, handle, 0));
	assert_result(cuMemMap(address + G, 2 * G, 0, handle, 0), CUDA_ERROR_ALREADY_MAPPED);
	assert_result(cuMemAddressFree(address, 4 * G), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemUnmap(address, G), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemUnmap(address + G, G), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemUnmap(address, 3 * G), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemSetAccess(address, 3 * G, &read_write, 1), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemMap(address + 2 * G, 2 * G, 0, handle, 0));
	assert_success(cuMemSetAccess(address, 4 * G, &read_write, 1));
	assert_success(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
	assert_int_equal(device, 0);
	assert_result(cuMemUnmap(address + G, 2 * G), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuMemUnmap(address, 3 * G), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemUnmap(address, 4 * G)); /* two whole mappings at once */
	assert_result(cuMemUnmap(address, 4 * G), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemAddressFree(address, 4 * G));
	assert_success(cuMemRelease(handle));
	assert_success(cuMemFree_v2(plain));
}

static void aliases_and_access(void **state)
{
	CUmemGenericAllocationHandle first, second;
	CUmemAccessDesc read_only = read_write;
	CUdeviceptr address;
	unsigned long long flags;
	char text[8] = "";

	(void)state;
	read_only.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	assert_success(cuMemCreate(&first, G, &on_device, 0));
	assert_success(cuMemCreate(&second, G, &on_device, 0));
	assert_success(cuMemAddressReserve(&address, 4 * G, 0, 0, 0));
	assert_success(cuMemMap(address, G, 0, first, 0));
	assert_success(cuMemMap(address + G, G, 0, second, 0));
	assert_success(cuMemMap(address + 2 * G, G, 0, first, 0));
	assert_result(cuMemcpyHtoD_v2(address, "x", 1), CUDA_ERROR_INVALID_VALUE); /* no access */
	assert_success(cuMemSetAccess(address, 3 * G, &read_write, 1));
	assert_success(cuMemcpyHtoD_v2(address + G - 4, "abcdefg", 8)); /* over the border */
	assert_success(cuMemcpyDtoH_v2(text, address + 3 * G - 4, 4));
	assert_string_equal(text, "abcd"); /* the alias shows the first handle's end */
	assert_success(cuMemcpyDtoH_v2(text, address + G, 4));
	assert_string_equal(text, "efg");
	assert_result(cuMemcpyDtoH_v2(text, address + 3 * G - 4, 8), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemSetAccess(address, G, &read_only, 1));
	assert_success(cuMemGetAccess(&flags, &read_only.location, address));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
	assert_result(cuMemcpyHtoD_v2(address, "x", 1), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemcpyDtoH_v2(text, address, 1));
	assert_success(cuMemUnmap(address, 3 * G));
	assert_success(cuMemAddressFree(address, 4 * G));
	assert_success(cuMemRelease(first));
	assert_success(cuMemRelease(second));
}

static void handle_arguments_and_limit(void **state)
{
	CUmemAllocationProp properties = on_device;
	CUmemGenericAllocationHandle handle, handles[33];
	size_t granularity;
	int count = 0;

	(void)state;
	assert_success(cuMemGetAllocationGranularity(&granularity, &on_device,
						     CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	assert_int_equal(granularity, G);
	assert_result(cuMemCreate(&handle, G - 1, &on_device, 0), CUDA_ERROR_INVALID_VALUE);
	properties.location.id = 2;
	assert_result(cuMemCreate(&handle, G, &properties, 0), CUDA_ERROR_INVALID_DEVICE);
	properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA; /* node 2: no device 2 */
	assert_success(cuMemCreate(&handle, G, &properties, 0));
	assert_int_equal(unused_memory(), LEFT);
	assert_success(cuMemGetAllocationPropertiesFromHandle(&properties, handle));
	assert_int_equal(properties.location.id, 2);
	assert_success(cuMemRelease(handle));
	assert_result(cuMemGetAllocationPropertiesFromHandle(&properties, handle),
		      CUDA_ERROR_INVALID_HANDLE);
	/* 960 MiB hold 32 times 30 MiB. */
	while (count < 33 && !cuMemCreate(&handles[count], 30 * MIB, &on_device, 0))
		count++;
	assert_int_equal(count, 32);
	assert_result(cuMemCreate(&handle, G, &on_device, 0), CUDA_ERROR_OUT_OF_MEMORY);
	while (count)
		assert_success(cuMemRelease(handles[--count]));
	assert_int_equal(unused_memory(), LEFT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reservations_are_exact),
		cmocka_unit_test(handles_live_by_references_and_mappings),
		cmocka_unit_test(maps_are_checked),
		cmocka_unit_test(aliases_and_access),
		cmocka_unit_test(handle_arguments_and_limit),
	};

	return cmocka_run_group_tests(tests, use_primary, leave_primary);
}
