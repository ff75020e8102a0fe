/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIMTORCH_LOG=1: a line on standard error for each function that nobody wrote, at its first call.
 * SIMTORCH_COUNT=FILE: at exit the library appends a line "library symbol calls" for each function
 * that was called.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim_cuda.h"
#include "stub.h"

#define ENOUGH 512 /* bytes of an object that only has to be somebody's own */

static void log_call(uint32_t row, const char *answer)
{
	static _Atomic int wanted = -1;

	if (wanted < 0)
		wanted = getenv("SIMTORCH_LOG") != NULL;
	if (wanted && stub_counts[row] == 1)
		fprintf(stderr, "simtorch: %s: %s %s\n", STUB_NAME, stub_names[row], answer);
}

int stub_refuse(uint32_t row)
{
	log_call(row, "refused");
	return STUB_REFUSAL;
}

int stub_accept(uint32_t row)
{
	log_call(row, "accepted");
	return 0;
}

void *stub_object(size_t size)
{
	return calloc(1, size);
}

void stub_object_free(void *object)
{
	free(object);
}

__attribute__((destructor)) static void write_counts(void)
{
	const char *path = getenv("SIMTORCH_COUNT");
	int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;

	if (file < 0)
		return;
	for (uint32_t i = 0; i < stub_count; i++)
		if (stub_counts[i])
			dprintf(file, "%s %s %u\n", STUB_NAME, stub_names[i], stub_counts[i]);
	close(file);
}

/* --- the driver, as a library of NVIDIA's reaches it --- */

static void *driver_function(const char *name, int version)
{
	static __typeof__(&cuGetProcAddress_v2) look_up;
	CUdriverProcAddressQueryResult why;
	void *found = NULL;

	if (!look_up) {
		void *driver = dlopen("libcuda.so.1", RTLD_NOW);

		if (driver)
			look_up = (__typeof__(look_up))dlsym(driver, "cuGetProcAddress_v2");
	}
	if (!look_up || look_up(name, &found, version, 0, &why) != CUDA_SUCCESS)
		return NULL;
	return found;
}

#define DRIVER(symbol, name, version) ((__typeof__(&symbol))driver_function(name, version))

int stub_copy(void *to, const void *from, size_t size)
{
	static __typeof__(&cuMemcpy) copy;

	if (!copy)
		copy = DRIVER(cuMemcpy, "cuMemcpy", 4000);
	if (!copy)
		return CUDA_ERROR_NOT_INITIALIZED;
	return size ? (int)copy((CUdeviceptr)to, (CUdeviceptr)from, size) : 0;
}

void *stub_device_allocate(size_t size)
{
	static __typeof__(&cuMemAlloc_v2) allocate;
	CUdeviceptr address = 0;

	if (!allocate)
		allocate = DRIVER(cuMemAlloc_v2, "cuMemAlloc", 3020);
	if (!allocate || allocate(&address, size) != CUDA_SUCCESS)
		return NULL;
	return (void *)address;
}

void stub_device_free(void *address)
{
	static __typeof__(&cuMemFree_v2) release;

	if (!release)
		release = DRIVER(cuMemFree_v2, "cuMemFree", 3020);
	if (release && address)
		release((CUdeviceptr)address);
}

/* --- answers that write an output; see stub.h --- */

int stub_write_HANDLE(void **ret)
{
	void *object = ret ? stub_object(ENOUGH) : NULL;

	if (object)
		*ret = object;
	return object ? 0 : STUB_REFUSAL;
}

int stub_free(void *object)
{
	stub_object_free(object);
	return 0;
}

int stub_write_INT(int *ret)
{
	if (ret)
		*ret = 0;
	return 0;
}

int stub_write_SIZE(size_t *ret)
{
	if (ret)
		*ret = 0;
	return 0;
}

int stub_write_SIZES(size_t *ret, size_t *second)
{
	stub_write_SIZE(second);
	return stub_write_SIZE(ret);
}
