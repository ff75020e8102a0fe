/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays and mipmapped arrays: they cost device memory, rounded up to granules, and hold nothing.
 * Sparse and deferred-mapping ones cost nothing either.
 */
#include "sim.h"

static pthread_mutex_t array_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned int element_size(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

/* Bytes of one level; 0 if the description makes no sense. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int level)
{
	uint64_t width = shape->Width >> level;
	uint64_t height = shape->Height >> level;
	uint64_t depth = shape->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP) ?
				 shape->Depth :
				 shape->Depth >> level;
	uint64_t bytes = element_size(shape->Format) * (uint64_t)shape->NumChannels;

	if (!shape->Width ||
	    (shape->NumChannels != 1 && shape->NumChannels != 2 && shape->NumChannels != 4))
		return 0;
	if (__builtin_mul_overflow(bytes, width ? width : 1, &bytes) ||
	    __builtin_mul_overflow(bytes, height ? height : 1, &bytes) ||
	    __builtin_mul_overflow(bytes, depth ? depth : 1, &bytes))
		return UINT64_MAX;
	return bytes;
}

static CUresult create(struct sim_object *context, enum sim_object_type type,
		       const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels, uint64_t *ret)
{
	struct sim_object *array;
	uint64_t bytes = 0;

	if (!shape || !levels || levels > 32 || !level_bytes(shape, 0))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < levels; i++)
		if (__builtin_add_overflow(bytes, level_bytes(shape, i), &bytes))
			return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes > UINT64_MAX - SIM_GRANULE)
		return CUDA_ERROR_OUT_OF_MEMORY;
	bytes = (bytes + SIM_GRANULE - 1) / SIM_GRANULE * SIM_GRANULE;
	if (shape->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
		bytes = 0;
	array = sim_object_create(type);
	if (!array || !sim_charge(context->device, bytes)) {
		if (array)
			sim_object_destroy(array);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	array->device = context->device;
	array->context = sim_object_handle(context);
	array->array.descriptor = *shape;
	array->array.levels = levels;
	array->array.bytes = bytes;
	array->row = sim_judge_add(type == SIM_ARRAY ? SIM_ROW_ARRAY : SIM_ROW_MIPMAP,
				   sim_object_handle(array), bytes, array->device, array->context);
	*ret = sim_object_handle(array);
	return CUDA_SUCCESS;
}

static void remove_array(struct sim_object *array, void *unused)
{
	struct sim_object *level;
	uint64_t bytes = array->array.bytes;
	int device = array->device;

	(void)unused;
	for (unsigned int i = 0; array->type == SIM_MIPMAP && i < array->array.levels; i++) {
		level = sim_object_find(SIM_ARRAY, array->array.level[i]);
		if (level)
			sim_object_destroy(level);
	}
	sim_object_destroy(array);
	sim_uncharge(device, bytes);
}

static void remove_owned(struct sim_object *array, void *context)
{
	if (array->context == *(uint64_t *)context)
		remove_array(array, NULL);
}

void sim_arrays_destroy_all(uint64_t context)
{
	pthread_mutex_lock(&array_lock);
	sim_object_each(SIM_MIPMAP, remove_owned, &context);
	sim_object_each(SIM_ARRAY, remove_owned, &context);
	pthread_mutex_unlock(&array_lock);
}

static CUresult destroy(enum sim_object_type type, uint64_t handle)
{
	struct sim_object *array;
	CUresult result = CUDA_SUCCESS;

	pthread_mutex_lock(&array_lock);
	array = sim_object_find(type, handle);
	if (!array)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (type == SIM_ARRAY && array->array.level[0])
		result = CUDA_ERROR_INVALID_VALUE; /* a level belongs to its mipmapped array */
	else
		remove_array(array, NULL);
	pthread_mutex_unlock(&array_lock);
	return result;
}

static CUresult create_3d(struct sim_object *context, CUarray *ret,
			  const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	uint64_t handle;
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	result = create(context, SIM_ARRAY, shape, 1, &handle);
	if (result == CUDA_SUCCESS)
		*ret = (CUarray)handle;
	return result;
}

static CUresult create_2d(struct sim_object *context, CUarray *ret,
			  const CUDA_ARRAY_DESCRIPTOR *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR full = { 0 };

	if (!shape)
		return CUDA_ERROR_INVALID_VALUE;
	full.Width = shape->Width;
	full.Height = shape->Height;
	full.Format = shape->Format;
	full.NumChannels = shape->NumChannels;
	return create_3d(context, ret, &full);
}

static CUresult create_2d_v1(struct sim_object *context, CUarray *ret,
			     const CUDA_ARRAY_DESCRIPTOR_v1 *shape)
{
	CUDA_ARRAY_DESCRIPTOR wide = { 0 };

	if (!shape)
		return CUDA_ERROR_INVALID_VALUE;
	wide.Width = shape->Width;
	wide.Height = shape->Height;
	wide.Format = shape->Format;
	wide.NumChannels = shape->NumChannels;
	return create_2d(context, ret, &wide);
}

static CUresult create_3d_v1(struct sim_object *context, CUarray *ret,
			     const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape)
{
	CUDA_ARRAY3D_DESCRIPTOR wide = { 0 };

	if (!shape)
		return CUDA_ERROR_INVALID_VALUE;
	wide.Width = shape->Width;
	wide.Height = shape->Height;
	wide.Depth = shape->Depth;
	wide.Format = shape->Format;
	wide.NumChannels = shape->NumChannels;
	wide.Flags = shape->Flags;
	return create_3d(context, ret, &wide);
}

static CUresult create_mipmap(struct sim_object *context, CUmipmappedArray *ret,
			      const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels)
{
	uint64_t handle;
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	result = create(context, SIM_MIPMAP, shape, levels, &handle);
	if (result == CUDA_SUCCESS)
		*ret = (CUmipmappedArray)handle;
	return result;
}

static CUresult get_level(CUarray *ret, CUmipmappedArray handle, unsigned int level)
{
	struct sim_object *mipmap, *array = NULL;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&array_lock);
	mipmap = sim_object_find(SIM_MIPMAP, (uint64_t)handle);
	if (mipmap && level < mipmap->array.levels) {
		array = sim_object_find(SIM_ARRAY, mipmap->array.level[level]);
		if (!array) {
			array = sim_object_create(SIM_ARRAY);
			if (array) {
				array->device = mipmap->device;
				array->array.descriptor = mipmap->array.descriptor;
				array->array.level[0] = (uint64_t)handle;
				mipmap->array.level[level] = sim_object_handle(array);
			}
		}
		if (array)
			*ret = (CUarray)sim_object_handle(array);
	}
	pthread_mutex_unlock(&array_lock);
	if (!mipmap)
		return CUDA_ERROR_INVALID_HANDLE;
	return array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult describe_3d(CUDA_ARRAY3D_DESCRIPTOR *ret, CUarray handle)
{
	struct sim_object *array = sim_object_find(SIM_ARRAY, (uint64_t)handle);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = array->array.descriptor;
	return CUDA_SUCCESS;
}

static CUresult describe_2d(CUDA_ARRAY_DESCRIPTOR *ret, CUarray handle)
{
	CUDA_ARRAY3D_DESCRIPTOR full;
	CUresult result = describe_3d(ret ? &full : NULL, handle);

	if (result != CUDA_SUCCESS)
		return result;
	ret->Width = full.Width;
	ret->Height = full.Height;
	ret->Format = full.Format;
	ret->NumChannels = full.NumChannels;
	return CUDA_SUCCESS;
}

SIM_ENTRY_CONTEXT(cuArrayCreate, (CUarray *ret, const CUDA_ARRAY_DESCRIPTOR_v1 *shape),
		  create_2d_v1(context, ret, shape))
SIM_ENTRY_CONTEXT(cuArrayCreate_v2, (CUarray *ret, const CUDA_ARRAY_DESCRIPTOR *shape),
		  create_2d(context, ret, shape))
SIM_ENTRY_CONTEXT(cuArray3DCreate, (CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR_v1 *shape),
		  create_3d_v1(context, ret, shape))
SIM_ENTRY_CONTEXT(cuArray3DCreate_v2, (CUarray *ret, const CUDA_ARRAY3D_DESCRIPTOR *shape),
		  create_3d(context, ret, shape))
SIM_ENTRY_CONTEXT(cuArrayDestroy, (CUarray array), destroy(SIM_ARRAY, (uint64_t)array))
SIM_ENTRY_CONTEXT(cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR *ret, CUarray array),
		  describe_2d(ret, array))
SIM_ENTRY_CONTEXT(cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR *ret, CUarray array),
		  describe_3d(ret, array))
SIM_ENTRY_CONTEXT(cuMipmappedArrayCreate,
		  (CUmipmappedArray *ret, const CUDA_ARRAY3D_DESCRIPTOR *shape,
		   unsigned int levels),
		  create_mipmap(context, ret, shape, levels))
SIM_ENTRY_CONTEXT(cuMipmappedArrayGetLevel,
		  (CUarray *ret, CUmipmappedArray mipmap, unsigned int level),
		  get_level(ret, mipmap, level))
SIM_ENTRY_CONTEXT(cuMipmappedArrayDestroy, (CUmipmappedArray mipmap),
		  destroy(SIM_MIPMAP, (uint64_t)mipmap))
