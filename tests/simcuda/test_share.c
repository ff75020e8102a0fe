/* SPDX-License-Identifier: Apache-2.0 */
/* Imports: by descriptor and by pool in one process, by legacy IPC from another one. */
#include "sim_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEFT (960 * MIB)
#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static const char *self;

static void handles(void **state)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle handle, import;
	CUdeviceptr address;
	int fd = -1;

	(void)state;
	assert_success(cuMemCreate(&handle, 4 * MIB, &properties, 0));
	assert_result(cuMemExportToShareableHandle(&fd, handle, FD, 0), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemRelease(handle));
	properties.requestedHandleTypes = FD;
	assert_success(cuMemCreate(&handle, 4 * MIB, &properties, 0));
	assert_success(cuMemExportToShareableHandle(&fd, handle, FD, 0));
	assert_true(fd >= 0);
	assert_success(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)fd, FD));
	assert_int_not_equal(import, handle);
	assert_int_equal(unused_memory(), LEFT - 4 * MIB); /* the import costs nothing */
	assert_success(cuMemAddressReserve(&address, 4 * MIB, 0, 0, 0));
	assert_success(cuMemMap(address, 4 * MIB, 0, import, 0));
	assert_success(cuMemRelease(import));
	assert_result(cuMemRelease(import), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuMemUnmap(address, 4 * MIB));
	assert_success(cuMemAddressFree(address, 4 * MIB));
	assert_success(cuMemRelease(handle));
	assert_int_equal(unused_memory(), LEFT);
	assert_result(cuMemExportToShareableHandle(&fd, handle, FD, 0), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuMemImportFromShareableHandle(&import, (void *)(intptr_t)-1, FD),
		      CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(close(fd), 0);
}

static void pools(void **state)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .handleTypes = FD,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemPoolPtrExportData data;
	CUmemoryPool pool, import;
	CUdeviceptr address, there, more;
	int fd = -1;

	(void)state;
	assert_success(cuMemPoolCreate(&pool, &properties));
	assert_success(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
	assert_success(cuMemPoolImportFromShareableHandle(&import, (void *)(intptr_t)fd, FD, 0));
	assert_int_equal(close(fd), 0);
	assert_success(cuMemAllocFromPoolAsync(&address, 5000, pool, NULL));
	assert_result(cuMemAllocFromPoolAsync(&more, 5000, import, NULL),
		      CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemPoolExportPointer(&data, address));
	assert_result(cuMemPoolImportPointer(&there, pool, &data), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemPoolImportPointer(&there, import, &data));
	assert_int_not_equal(there, address);
	assert_int_equal(unused_memory(), LEFT - 32 * MIB);
	assert_success(cuMemFreeAsync(there, NULL));
	assert_result(cuMemFreeAsync(there, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemFreeAsync(address, NULL));
	memset(&data, 0, sizeof(data));
	assert_result(cuMemPoolImportPointer(&there, import, &data), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMemPoolDestroy(import));
	assert_success(cuMemPoolDestroy(pool));
	assert_int_equal(unused_memory(), LEFT);
}

/* The other process: opens what comes through its standard input. */
static int importer(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address, base;
	CUcontext context;
	size_t size, before, after, total;

	if (read(0, &handle, sizeof(handle)) != sizeof(handle))
		return 1;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuMemGetInfo_v2(&before, &total))
		return 2;
	if (cuIpcOpenMemHandle_v2(&address, handle, 1) ||
	    cuMemGetAddressRange_v2(&base, &size, address) || size != 3 * MIB)
		return 3;
	if (cuMemGetInfo_v2(&after, &total) || after != before)
		return 4;
	if (cuMemFree_v2(address) != CUDA_ERROR_INVALID_VALUE)
		return 5;
	if (cuIpcCloseMemHandle(address) != CUDA_SUCCESS)
		return 6;
	if (cuIpcCloseMemHandle(address) != CUDA_ERROR_INVALID_VALUE)
		return 7;
	return 0;
}

static void ipc(void **state)
{
	CUipcMemHandle handle;
	CUdeviceptr address, there;
	int ends[2], status;
	pid_t child;

	(void)state;
	assert_success(cuMemAlloc_v2(&address, 3 * MIB));
	assert_success(cuIpcGetMemHandle(&handle, address));
	assert_result(cuIpcOpenMemHandle_v2(&there, handle, 1), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child) {
		dup2(ends[0], 0);
		execl(self, self, "importer", (char *)NULL);
		_exit(98);
	}
	assert_int_equal(write(ends[1], &handle, sizeof(handle)), sizeof(handle));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(ends[1]);
	assert_success(cuMemFree_v2(address));
	assert_result(cuIpcGetMemHandle(&handle, address), CUDA_ERROR_INVALID_VALUE);
	handle.reserved[0] ^= 1; /* no longer one of the driver's */
	assert_result(cuIpcOpenMemHandle(&there, handle, 1), CUDA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handles),
		cmocka_unit_test(pools),
		cmocka_unit_test(ipc),
	};

	self = argv[0];
	if (argc > 1)
		return importer();
	return cmocka_run_group_tests(tests, use_primary, leave_primary);
}
