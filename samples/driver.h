/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few functions of the CUDA driver that the samples call, looked up in libcuda.so.1 at run time,
 * so that they build without a toolkit and run on the real driver or on the simulated one.
 */
#ifndef SAMPLES_DRIVER_H
#define SAMPLES_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef uint64_t device_pointer;

struct driver {
	int (*init)(unsigned int flags);
	int (*device_get)(int *device, int ordinal);
	int (*device_name)(char *name, int length, int device);
	int (*primary_context_retain)(void **context, int device);
	int (*context_set_current)(void *context);
	int (*memory_allocate)(device_pointer *pointer, size_t bytes);
	int (*memory_free)(device_pointer pointer);
	int (*memory_info)(size_t *free, size_t *total);
};

/** Opens the driver and makes the primary context of device 0 current; ends the program if it cannot. */
void driver_open(struct driver *driver);

#endif
