/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and places of the runtime's structures: of our header, or of the real one. */
#include <stddef.h>

#ifdef REAL_RUNTIME_HEADER
#include <cuda_runtime_api.h>
#define FACTS layout_facts_real
#define COUNT layout_count_real
#define VERSION layout_version_real
#define VERSION_VALUE CUDART_VERSION
#else
#include "runtime.h"
#define FACTS layout_facts_ours
#define COUNT layout_count_ours
#define VERSION layout_version_ours
#define VERSION_VALUE RUNTIME_VERSION
#endif

#ifndef STUB_CUDA_MAJOR
#define STUB_CUDA_MAJOR 13
#endif

#define SIZE(type) { "size of " #type, sizeof(type) },
#define PLACE(type, field) { #type " " #field, offsetof(type, field) },
#define VALUE(name) { #name, (size_t)(name) },

extern const struct fact {
	const char *name;
	size_t value;
} FACTS[];
extern const size_t COUNT;
extern const int VERSION;

const int VERSION = VERSION_VALUE;

const struct fact FACTS[] = {
	SIZE(struct cudaDeviceProp)
#define DEVICE_PROPERTY(type, field, count, attribute) PLACE(struct cudaDeviceProp, field)
#include "device_properties.def"
#undef DEVICE_PROPERTY
	PLACE(struct cudaDeviceProp, uuid)
	SIZE(struct cudaPointerAttributes)
	PLACE(struct cudaPointerAttributes, hostPointer)
	SIZE(struct cudaFuncAttributes)
	PLACE(struct cudaFuncAttributes, numRegs)
	PLACE(struct cudaFuncAttributes, preferredShmemCarveout)
	SIZE(cudaLaunchConfig_t)
	PLACE(cudaLaunchConfig_t, dynamicSmemBytes)
	PLACE(cudaLaunchConfig_t, numAttrs)
	VALUE(cudaMemcpyDefault)
	VALUE(cudaMemoryTypeManaged)
#define RUNTIME_ERROR(name, number, text) VALUE(name)
#include "runtime_errors.def"
#undef RUNTIME_ERROR
};

const size_t COUNT = sizeof(FACTS) / sizeof(FACTS[0]);
