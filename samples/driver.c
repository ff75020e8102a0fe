/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *look_up(void *library, const char *symbol)
{
	void *function = dlsym(library, symbol);

	if (!function) {
		fprintf(stderr, "train: the driver has no %s\n", symbol);
		exit(2);
	}
	return function;
}

static void must(int result, const char *what)
{
	if (result != 0) {
		fprintf(stderr, "train: %s failed: driver error %d\n", what, result);
		exit(2);
	}
}

void driver_open(struct driver *driver)
{
	static const struct {
		const char *symbol;
		size_t offset;
	} functions[] = {
		{"cuInit", offsetof(struct driver, init)},
		{"cuDeviceGet", offsetof(struct driver, device_get)},
		{"cuDeviceGetName", offsetof(struct driver, device_name)},
		{"cuDevicePrimaryCtxRetain", offsetof(struct driver, primary_context_retain)},
		{"cuCtxSetCurrent", offsetof(struct driver, context_set_current)},
		{"cuMemAlloc_v2", offsetof(struct driver, memory_allocate)},
		{"cuMemFree_v2", offsetof(struct driver, memory_free)},
		{"cuMemGetInfo_v2", offsetof(struct driver, memory_info)},
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int device;

	if (!library) {
		fprintf(stderr, "train: no CUDA driver: %s\n", dlerror());
		exit(2);
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = look_up(library, functions[i].symbol);

		memcpy((char *)driver + functions[i].offset, &function, sizeof(function));
	}
	must(driver->init(0), "cuInit");
	must(driver->device_get(&device, 0), "cuDeviceGet");
	must(driver->primary_context_retain(&context, device), "cuDevicePrimaryCtxRetain");
	must(driver->context_set_current(context), "cuCtxSetCurrent");
}
