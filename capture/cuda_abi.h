/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's binary interface as far as the recorder needs it: types, sizes and constants.
 *
 * Own declarations, so that no toolkit is needed to build. Names are ours, layouts are those of
 * cuda.h; a test compares every row of hooks.def and driver_calls.def and every constant here with
 * the toolkit's header where there is one. Handles are plain pointers: they are never followed.
 */
#ifndef VC_CAPTURE_CUDA_ABI_H
#define VC_CAPTURE_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int vc_cu_result;
typedef int vc_cu_device;
typedef uint64_t vc_cu_pointer;
typedef uint32_t vc_cu_pointer32;     /* of the first ABI, CUDA before 3.2 */
typedef uint64_t vc_cu_memory_handle; /* CUmemGenericAllocationHandle */
typedef void *vc_cu_context;
typedef void *vc_cu_stream;
typedef void *vc_cu_pool;
typedef void *vc_cu_graph;
typedef void *vc_cu_array;
typedef void *vc_cu_object;           /* any other handle */

enum {
	VC_CU_SUCCESS = 0,
	VC_CU_OUT_OF_MEMORY = 2,
	VC_CU_DEINITIALIZED = 4,
	VC_CU_LIBRARY_MISSING = 303, /* CUDA_ERROR_SHARED_OBJECT_INIT_FAILED */
	VC_CU_NOT_SUPPORTED = 801,
};

enum {
	VC_CU_LOCATION_DEVICE = 1,
};

struct vc_cu_location {
	int type; /* VC_CU_LOCATION_* */
	int id;
};

struct vc_cu_allocation_properties {
	int type;
	int requested_handle_types;
	struct vc_cu_location location;
	void *win32_handle_meta_data;
	unsigned char flags[8];
};

struct vc_cu_pool_properties {
	int allocation_type;
	int handle_types;
	struct vc_cu_location location;
	void *win32_security_attributes;
	size_t maximum;
	unsigned short usage;
	unsigned char reserved[54];
};

struct vc_cu_pool_export {
	unsigned char reserved[64];
};

struct vc_cu_ipc_handle {
	unsigned char reserved[64];
};

struct vc_cu_uuid {
	char bytes[16];
};

#endif
