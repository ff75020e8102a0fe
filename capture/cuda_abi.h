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
	VC_CU_NODE_ALLOCATE = 10,     /* type of a graph's node */
	VC_CU_CAPTURING = 1,          /* CU_STREAM_CAPTURE_STATUS_ACTIVE */
	VC_CU_GRAPH_USED = 0,         /* CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT */
	VC_CU_GRAPH_RESERVED = 2,     /* CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT */
	VC_CU_POOL_RESERVED = 5,      /* CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT */
	VC_CU_POOL_USED = 7,          /* CU_MEMPOOL_ATTR_USED_MEM_CURRENT */
	VC_CU_STREAM_PER_THREAD = 2,  /* handle: what 0 means to `_ptsz` functions */
	VC_CU_ARRAY_SPARSE = 0x40,    /* flags: no memory of its own */
	VC_CU_ARRAY_DEFERRED = 0x80,
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

/* CUDA_MEM_ALLOC_NODE_PARAMS */
struct vc_cu_node_allocation {
	struct vc_cu_pool_properties pool;
	const void *access;
	size_t access_count;
	size_t bytes;
	vc_cu_pointer pointer; /* the driver's answer */
};

/* CUgraphNodeParams */
struct vc_cu_node_parameters {
	int type; /* VC_CU_NODE_* */
	int reserved[3];
	union {
		long long reserved1[29];
		struct vc_cu_node_allocation allocation;
	};
	long long reserved2;
};

/** What a node of a graph allocates; NULL where it is of another type. */
static inline struct vc_cu_node_allocation *
vc_cu_node_allocates(struct vc_cu_node_parameters *parameters)
{
	return parameters && parameters->type == VC_CU_NODE_ALLOCATE ? &parameters->allocation :
								       NULL;
}

struct vc_cu_pool_export {
	unsigned char reserved[64];
};

struct vc_cu_ipc_handle {
	unsigned char reserved[64];
};

struct vc_cu_multicast_properties {
	unsigned int devices;
	size_t size;
	uint64_t handle_types, flags;
};

struct vc_cu_external_memory {
	int type;
	uint64_t handle[2];
	uint64_t size;
	unsigned int flags, reserved[16];
};

struct vc_cu_external_buffer {
	uint64_t offset, size;
	unsigned int flags, reserved[16];
};

struct vc_cu_array_shape {
	size_t width, height;
	int format;
	unsigned int channels;
};

struct vc_cu_array_shape32 {
	unsigned int width, height;
	int format;
	unsigned int channels;
};

struct vc_cu_array3d_shape {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
};

struct vc_cu_array3d_shape32 {
	unsigned int width, height, depth;
	int format;
	unsigned int channels, flags;
};

/** Bytes of an array before the driver rounds; 0 where a dimension means 1; 0 where unknown. */
static inline uint64_t vc_cu_array_bytes(uint64_t width, uint64_t height, uint64_t depth,
					 int format, unsigned int channels, unsigned int flags)
{
	unsigned int element;

	switch (format) {
	case 0x01: /* 8 bits */
	case 0x08:
		element = 1;
		break;
	case 0x02: /* 16 bits */
	case 0x09:
	case 0x10:
		element = 2;
		break;
	case 0x03: /* 32 bits */
	case 0x0a:
	case 0x20:
		element = 4;
		break;
	default: /* packed and planar formats */
		return 0;
	}
	if (flags & (VC_CU_ARRAY_SPARSE | VC_CU_ARRAY_DEFERRED))
		return 0;
	return (uint64_t)element * channels * (width ? width : 1) * (height ? height : 1) *
	       (depth ? depth : 1);
}

/** The same of all levels; each has half the extent of the one before. */
static inline uint64_t vc_cu_mipmap_bytes(const struct vc_cu_array3d_shape *shape, unsigned int levels)
{
	uint64_t bytes = 0;

	for (unsigned int level = 0; shape && level < levels && level < 32; level++)
		bytes += vc_cu_array_bytes(shape->width >> level, shape->height >> level,
					   shape->depth >> level, shape->format, shape->channels,
					   shape->flags);
	return bytes;
}

struct vc_cu_uuid {
	char bytes[16];
};

#endif
