/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over tensors as a library that a script of Python loads (ctypes.PyDLL, which keeps the
 * GIL): a walk is asked for, the file it wrote is read by the script.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "capture/inside/interpreter_api.h"
#include "capture/inside/resolve.h"
#include "capture/inside/store.h"
#include "capture/inside/tensors.h"

#define SHOWN __attribute__((visibility("default")))

SHOWN int probe_start(const char *folder);
SHOWN int probe_walk(int full, int holders, uint64_t milliseconds, uint64_t memory, char *path,
		     uint64_t size);

void *vc_look_up(void *handle, const char *name)
{
	return dlsym(handle, name);
}

int probe_start(const char *folder)
{
	struct vc_store_options options = {.directory = folder, .name = "probe.vrec",
					   .budget = UINT64_C(1) << 30};

	if (vc_interpreter_api_find() != VC_PYTHON_FOUND)
		return -100;
	return vc_store_start(&options, NULL);
}

int probe_walk(int full, int holders, uint64_t milliseconds, uint64_t memory, char *path,
	       uint64_t size)
{
	struct vc_tensors_wish wish = {.full = full, .holders = holders, .memory = memory};
	struct vc_walk_file *file = vc_walk_begin(1);
	uint32_t number;
	int walked;

	if (!file)
		return -1;
	wish.processor = milliseconds * 1000000u;
	walked = vc_tensors_walk(&wish, file);
	number = vc_walk_finish(file);
	if (!number || !vc_walk_path(vc_store_path(), number, path, size))
		return -2;
	return walked;
}
