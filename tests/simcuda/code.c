/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, libraries, kernels and launches: everything is accepted, nothing is read or run. Any
 * name is found as a function; no name is found as a global variable.
 */
#include <unistd.h>

#include "sim.h"

static CUresult load(struct sim_object *context, enum sim_object_type type, const void *image,
		     uint64_t *ret)
{
	struct sim_object *object;

	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	object = sim_object_create(type);
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->device = context ? context->device : -1;
	object->context = context ? sim_object_handle(context) : 0;
	object->row = sim_judge_add(type == SIM_MODULE ? SIM_ROW_MODULE : SIM_ROW_LIBRARY,
				    sim_object_handle(object), 0, object->device, object->context);
	*ret = sim_object_handle(object);
	return CUDA_SUCCESS;
}

static CUresult load_module(struct sim_object *context, CUmodule *ret, const void *image)
{
	uint64_t handle;
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	result = load(context, SIM_MODULE, image, &handle);
	if (result == CUDA_SUCCESS)
		*ret = (CUmodule)handle;
	return result;
}

static CUresult load_module_file(struct sim_object *context, CUmodule *ret, const char *path)
{
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	return access(path, R_OK) ? CUDA_ERROR_FILE_NOT_FOUND : load_module(context, ret, path);
}

static CUresult load_library(CUlibrary *ret, const void *image)
{
	uint64_t handle;
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	result = load(NULL, SIM_LIBRARY, image, &handle);
	if (result == CUDA_SUCCESS)
		*ret = (CUlibrary)handle;
	return result;
}

static CUresult load_library_file(CUlibrary *ret, const char *path)
{
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	return access(path, R_OK) ? CUDA_ERROR_FILE_NOT_FOUND : load_library(ret, path);
}

static void destroy_child(struct sim_object *object, void *parent)
{
	if (object->code.parent == *(uint64_t *)parent)
		sim_object_destroy(object);
}

static CUresult unload(enum sim_object_type type, uint64_t handle)
{
	struct sim_object *object = sim_object_find(type, handle);

	if (!object)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_object_each(SIM_FUNCTION, destroy_child, &handle);
	sim_object_each(SIM_KERNEL, destroy_child, &handle);
	sim_object_destroy(object);
	return CUDA_SUCCESS;
}

static void unload_owned(struct sim_object *object, void *context)
{
	if (object->context == *(uint64_t *)context)
		unload(object->type, sim_object_handle(object));
}

void sim_code_destroy_all(uint64_t context)
{
	sim_object_each(SIM_MODULE, unload_owned, &context);
}

/* The function or kernel of that name; the same one every time it is asked for. */
struct search {
	uint64_t parent;
	uint64_t name;
	struct sim_object *found;
};

/* FNV-1a, of 64 bits: that two names of one module share it will not be seen. */
static uint64_t hash_name(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	while (*name)
		hash = (hash ^ (unsigned char)*name++) * 0x100000001b3ull;
	return hash;
}

static void match(struct sim_object *object, void *argument)
{
	struct search *search = argument;

	if (object->code.parent == search->parent && object->code.name == search->name)
		search->found = object;
}

static CUresult find_code(enum sim_object_type parent_type, uint64_t parent,
			  enum sim_object_type type, const char *name, uint64_t *ret)
{
	struct search search = { .parent = parent };

	if (!name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_object_find(parent_type, parent))
		return CUDA_ERROR_INVALID_HANDLE;
	search.name = hash_name(name);
	sim_object_each(type, match, &search);
	if (!search.found) {
		search.found = sim_object_create(type);
		if (!search.found)
			return CUDA_ERROR_OUT_OF_MEMORY;
		search.found->code.parent = parent;
		search.found->code.name = search.name;
	}
	*ret = sim_object_handle(search.found);
	return CUDA_SUCCESS;
}

static CUresult get_function(CUfunction *ret, CUmodule module, const char *name)
{
	uint64_t handle;
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	result = find_code(SIM_MODULE, (uint64_t)module, SIM_FUNCTION, name, &handle);
	if (result == CUDA_SUCCESS)
		*ret = (CUfunction)handle;
	return result;
}

static CUresult get_kernel(CUkernel *ret, CUlibrary library, const char *name)
{
	uint64_t handle;
	CUresult result;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	result = find_code(SIM_LIBRARY, (uint64_t)library, SIM_KERNEL, name, &handle);
	if (result == CUDA_SUCCESS)
		*ret = (CUkernel)handle;
	return result;
}

/* A kernel can be launched as it is, so its function is the same handle. */
static CUresult kernel_function(CUfunction *ret, CUkernel kernel)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_object_find(SIM_KERNEL, (uint64_t)kernel))
		return CUDA_ERROR_INVALID_HANDLE;
	*ret = (CUfunction)kernel;
	return CUDA_SUCCESS;
}

static bool is_function(CUfunction function)
{
	return sim_object_find(SIM_FUNCTION, (uint64_t)function) ||
	       sim_object_find(SIM_KERNEL, (uint64_t)function);
}

static CUresult get_global(CUmodule module, const char *name)
{
	if (!sim_object_find(SIM_MODULE, (uint64_t)module))
		return CUDA_ERROR_INVALID_HANDLE;
	return name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

static CUresult launch(CUfunction function, const unsigned int size[6], CUstream stream)
{
	if (!is_function(function) || sim_stream_check(stream) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_HANDLE;
	for (unsigned int i = 0; i < 6; i++)
		if (!size[i])
			return CUDA_ERROR_INVALID_VALUE;
	if ((uint64_t)size[3] * size[4] * size[5] > 1024)
		return CUDA_ERROR_INVALID_VALUE;
	sim_capture_node(stream);
	return CUDA_SUCCESS;
}

static CUresult launch_configured(const CUlaunchConfig *config, CUfunction function)
{
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(function,
		      (const unsigned int[]){ config->gridDimX, config->gridDimY, config->gridDimZ,
					      config->blockDimX, config->blockDimY,
					      config->blockDimZ },
		      config->hStream);
}

static CUresult function_attribute(int *ret, int attribute, CUfunction function)
{
	static const int values[] = { 1024, 0, 0, 0, 32, 90, 90 };

	if (!is_function(function))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret || attribute < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = (size_t)attribute < sizeof(values) / sizeof(values[0]) ? values[attribute] : 0;
	return CUDA_SUCCESS;
}

static CUresult need_function(CUfunction function)
{
	return is_function(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult occupancy(int *blocks, CUfunction function, int block_size)
{
	if (!is_function(function))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!blocks || block_size <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	*blocks = block_size > 1024 ? 0 : 2048 / block_size;
	return CUDA_SUCCESS;
}

static CUresult loading_mode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = CU_MODULE_EAGER_LOADING;
	return CUDA_SUCCESS;
}

#define SIZE ((const unsigned int[]){ grid_x, grid_y, grid_z, block_x, block_y, block_z })

SIM_ENTRY_CONTEXT(cuModuleLoad, (CUmodule *ret, const char *path),
		  load_module_file(context, ret, path))
SIM_ENTRY_CONTEXT(cuModuleLoadData, (CUmodule *ret, const void *image),
		  load_module(context, ret, image))
SIM_ENTRY_CONTEXT(cuModuleLoadDataEx,
		  (CUmodule *ret, const void *image, unsigned int count, CUjit_option *options,
		   void **values),
		  ((void)count, (void)options, (void)values, load_module(context, ret, image)))
SIM_ENTRY_CONTEXT(cuModuleLoadFatBinary, (CUmodule *ret, const void *image),
		  load_module(context, ret, image))
SIM_ENTRY_CONTEXT(cuModuleUnload, (CUmodule module), unload(SIM_MODULE, (uint64_t)module))
SIM_ENTRY_CONTEXT(cuModuleGetFunction, (CUfunction *ret, CUmodule module, const char *name),
		  get_function(ret, module, name))
SIM_ENTRY_CONTEXT(cuModuleGetGlobal,
		  (CUdeviceptr_v1 *ret, unsigned int *size, CUmodule module, const char *name),
		  ((void)ret, (void)size, get_global(module, name)))
SIM_ENTRY_CONTEXT(cuModuleGetGlobal_v2,
		  (CUdeviceptr *ret, size_t *size, CUmodule module, const char *name),
		  ((void)ret, (void)size, get_global(module, name)))
SIM_ENTRY(cuModuleGetLoadingMode, (CUmoduleLoadingMode *mode), loading_mode(mode))
SIM_ENTRY(cuLibraryLoadData,
	  (CUlibrary *ret, const void *image, CUjit_option *jit, void **jit_values,
	   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
	  ((void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count,
	   load_library(ret, image)))
SIM_ENTRY(cuLibraryLoadFromFile,
	  (CUlibrary *ret, const char *path, CUjit_option *jit, void **jit_values,
	   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
	  ((void)jit, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count,
	   load_library_file(ret, path)))
SIM_ENTRY(cuLibraryUnload, (CUlibrary library), unload(SIM_LIBRARY, (uint64_t)library))
SIM_ENTRY(cuLibraryGetKernel, (CUkernel *ret, CUlibrary library, const char *name),
	  get_kernel(ret, library, name))
SIM_ENTRY(cuKernelGetFunction, (CUfunction *ret, CUkernel kernel), kernel_function(ret, kernel))
SIM_ENTRY(cuKernelGetAttribute,
	  (int *ret, CUfunction_attribute attribute, CUkernel kernel, CUdevice device),
	  ((void)device, function_attribute(ret, (int)attribute, (CUfunction)kernel)))
SIM_ENTRY_CONTEXT(cuFuncGetAttribute,
		  (int *ret, CUfunction_attribute attribute, CUfunction function),
		  function_attribute(ret, (int)attribute, function))
SIM_ENTRY_CONTEXT(cuFuncSetAttribute,
		  (CUfunction function, CUfunction_attribute attribute, int value),
		  ((void)attribute, (void)value, need_function(function)))
SIM_ENTRY_CONTEXT(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache config),
		  ((void)config, need_function(function)))
SIM_ENTRY_CONTEXT(cuFuncLoad, (CUfunction function), need_function(function))
SIM_ENTRY_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor,
		  (int *blocks, CUfunction function, int block_size, size_t shared),
		  ((void)shared, occupancy(blocks, function, block_size)))
SIM_ENTRY_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
		  (int *blocks, CUfunction function, int block_size, size_t shared,
		   unsigned int flags),
		  ((void)shared, (void)flags, occupancy(blocks, function, block_size)))
SIM_ENTRY_CONTEXT_TWIN(cuLaunchKernel, _ptsz,
		       (CUfunction function, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared, CUstream stream,
			void **parameters, void **extra),
		       ((void)shared, (void)parameters, (void)extra,
			launch(function, SIZE, stream)))
SIM_ENTRY_CONTEXT_TWIN(cuLaunchCooperativeKernel, _ptsz,
		       (CUfunction function, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared, CUstream stream,
			void **parameters),
		       ((void)shared, (void)parameters, launch(function, SIZE, stream)))
SIM_ENTRY_CONTEXT_TWIN(cuLaunchKernelEx, _ptsz,
		       (const CUlaunchConfig *config, CUfunction function, void **parameters,
			void **extra),
		       ((void)parameters, (void)extra, launch_configured(config, function)))
