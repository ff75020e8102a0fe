/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, arrays and modules: handles that ended are never taken for living ones. */
#include "sim_test.h"

#define LEFT (960 * MIB)

static void streams(void **state)
{
	CUstream stream, next;
	CUcontext context, current;
	unsigned int flags;
	int priority;

	(void)state;
	assert_success(cuStreamCreateWithPriority(&stream, 1, -9));
	assert_success(cuStreamGetFlags(stream, &flags));
	assert_int_equal(flags, 1);
	assert_success(cuStreamGetPriority(stream, &priority));
	assert_int_equal(priority, -5);
	assert_success(cuStreamGetCtx(stream, &context));
	assert_success(cuCtxGetCurrent(&current));
	assert_ptr_equal(context, current);
	assert_success(cuStreamQuery(stream));
	assert_success(cuStreamSynchronize(stream));
	assert_success(cuStreamDestroy_v2(stream));
	assert_result(cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuStreamCreate(&next, 0));
	assert_ptr_not_equal(next, stream);
	assert_result(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuStreamDestroy(next));
	assert_result(cuStreamQuery((CUstream)(uintptr_t)0x7000), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuStreamQuery((CUstream)state), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuStreamQuery_ptsz(CU_STREAM_PER_THREAD));
	assert_result(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuStreamCreate(&next, 2), CUDA_ERROR_INVALID_VALUE);
}

static void events(void **state)
{
	CUevent first, second, untimed;
	float milliseconds = -1;

	(void)state;
	assert_success(cuEventCreate(&first, 0));
	assert_success(cuEventCreate(&second, 0));
	assert_success(cuEventCreate(&untimed, 2));
	assert_result(cuEventElapsedTime(&milliseconds, first, second), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuEventRecord(first, NULL));
	assert_success(cuEventRecord_ptsz(second, NULL));
	assert_success(cuEventRecord(untimed, NULL));
	assert_success(cuEventElapsedTime(&milliseconds, first, second));
	assert_true(milliseconds >= 0);
	assert_result(cuEventElapsedTime(&milliseconds, first, untimed),
		      CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuStreamWaitEvent(NULL, first, 0));
	assert_success(cuEventSynchronize(first));
	assert_success(cuEventDestroy_v2(first));
	assert_result(cuEventQuery(first), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuEventDestroy_v2(first), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuStreamWaitEvent(NULL, first, 0), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuStreamDestroy_v2((CUstream)second), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuEventDestroy(second));
	assert_success(cuEventDestroy(untimed));
}

static void arrays(void **state)
{
	CUDA_ARRAY_DESCRIPTOR shape = { 1024, 1024, CU_AD_FORMAT_FLOAT, 4 }, back;
	CUDA_ARRAY_DESCRIPTOR_v1 narrow = { 8, 8, CU_AD_FORMAT_UNSIGNED_INT8, 1 };
	CUDA_ARRAY3D_DESCRIPTOR cube = { 256, 256, 64, CU_AD_FORMAT_HALF, 1, 0 };
	CUarray array, small, level, same;
	CUmipmappedArray mipmap;

	(void)state;
	assert_success(cuArrayCreate_v2(&array, &shape));
	assert_int_equal(unused_memory(), LEFT - 16 * MIB); /* 1024 x 1024 x 16 bytes */
	assert_success(cuArrayGetDescriptor_v2(&back, array));
	assert_int_equal(back.NumChannels, 4);
	assert_success(cuArrayCreate(&small, &narrow));
	assert_int_equal(unused_memory(), LEFT - 18 * MIB);
	assert_success(cuArrayDestroy(array));
	assert_result(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	assert_success(cuArrayDestroy(small));
	/* 256 x 256 x 64 x 2 bytes = 8 MiB, halved three ways: 1 MiB more, rounded up to 10 MiB. */
	assert_success(cuMipmappedArrayCreate(&mipmap, &cube, 2));
	assert_int_equal(unused_memory(), LEFT - 10 * MIB);
	assert_success(cuMipmappedArrayGetLevel(&level, mipmap, 1));
	assert_success(cuMipmappedArrayGetLevel(&same, mipmap, 1));
	assert_ptr_equal(level, same);
	assert_result(cuMipmappedArrayGetLevel(&same, mipmap, 2), CUDA_ERROR_INVALID_VALUE);
	assert_result(cuArrayDestroy(level), CUDA_ERROR_INVALID_VALUE);
	assert_success(cuMipmappedArrayDestroy(mipmap));
	assert_result(cuArrayDestroy(level), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
	cube.Flags = CUDA_ARRAY3D_SPARSE;
	assert_success(cuArray3DCreate_v2(&array, &cube));
	assert_int_equal(unused_memory(), LEFT);
	assert_success(cuArrayDestroy(array));
	shape.Width = 64 * MIB; /* a terabyte */
	assert_result(cuArrayCreate_v2(&array, &shape), CUDA_ERROR_OUT_OF_MEMORY);
	shape.NumChannels = 3;
	assert_result(cuArrayCreate_v2(&array, &shape), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(unused_memory(), LEFT);
}

/* Mangled names differ late. */
#define LONG_NAME                                                                                  \
	"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm"

static void modules(void **state)
{
	CUmodule module;
	CUfunction function, again;
	CUlibrary library;
	CUkernel kernel;
	CUdeviceptr address;
	size_t size;

	(void)state;
	assert_success(cuModuleLoadData(&module, "anything"));
	assert_success(cuModuleGetFunction(&function, module, "kernel"));
	assert_success(cuModuleGetFunction(&again, module, LONG_NAME "1"));
	assert_ptr_not_equal(function, again);
	assert_success(cuModuleGetFunction(&function, module, LONG_NAME "2"));
	assert_ptr_not_equal(function, again);
	assert_success(cuModuleGetFunction(&function, module, "kernel"));
	assert_success(cuModuleGetFunction(&again, module, "kernel"));
	assert_ptr_equal(function, again);
	assert_success(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
	assert_result(cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL),
		      CUDA_ERROR_INVALID_VALUE);
	assert_result(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		      CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuModuleGetGlobal_v2(&address, &size, module, "x"), CUDA_ERROR_NOT_FOUND);
	assert_success(cuModuleUnload(module));
	assert_result(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuLaunchKernel_ptsz(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		      CUDA_ERROR_INVALID_HANDLE);
	assert_result(cuModuleLoad(&module, "/nonexistent"), CUDA_ERROR_FILE_NOT_FOUND);
	assert_success(cuLibraryLoadData(&library, "x", NULL, NULL, 0, NULL, NULL, 0));
	assert_success(cuLibraryGetKernel(&kernel, library, "kernel"));
	assert_success(cuKernelGetFunction(&function, kernel));
	assert_success(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	assert_success(cuLibraryUnload(library));
	assert_result(cuKernelGetFunction(&function, kernel), CUDA_ERROR_INVALID_HANDLE);
}

static void many_handles_never_repeat(void **state)
{
	CUevent event, before = NULL;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		assert_success(cuEventCreate(&event, 0));
		assert_ptr_not_equal(event, before);
		if (before)
			assert_result(cuEventQuery(before), CUDA_ERROR_INVALID_HANDLE);
		assert_success(cuEventDestroy_v2(event));
		before = event;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams),
		cmocka_unit_test(events),
		cmocka_unit_test(arrays),
		cmocka_unit_test(modules),
		cmocka_unit_test(many_handles_never_repeat),
	};

	return cmocka_run_group_tests(tests, use_primary, leave_primary);
}
