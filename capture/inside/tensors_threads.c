/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether another thread may be inside PyTorch at this moment, without the interpreter's lock.
 *
 * It changes gradients and saved tensors there, and whoever reads them meanwhile crashes. A thread
 * that is in a backward pass is seen by its frames. One that has allocated of PyTorch's memory may be
 * in any operator, unless its innermost frame is the standard library's, where threads wait; so may
 * one that waits for the lock between two instructions, which cannot be told apart. None can begin an
 * operator while this thread has the lock.
 */
#include <pthread.h>
#include <string.h>

#include "capture/inside/frames.h"
#include "capture/inside/tensors_parts.h"
#include "capture/inside/thread.h"

#define FRAMES_MAX 20000u

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && !strcmp(text + length - tail, end);
}

static bool is_backward(const struct vc_frame_view *frame)
{
	const char *file = vc_frame_file(frame);

	return ends_with(file, "/torch/autograd/graph.py") ||
	       ends_with(file, "/torch/autograd/__init__.py");
}

/* A file of the standard library: beside os.py, and in no folder of packages. */
static bool is_standard(const char *file)
{
	struct vc_python_object *os = vc_loaded_module("os");
	const char *beside = NULL, *end;

	if (os && vc_py_type(os) == vc_py.PyModule_Type)
		beside = vc_object_text(vc_dict_find(vc_py.PyModule_GetDict(os), "__file__"), NULL);
	end = beside ? strrchr(beside, '/') : NULL;
	return *file == '<' || (end && !strncmp(file, beside, (size_t)(end - beside) + 1) &&
				!strstr(file, "-packages/"));
}

static bool is_inside(struct vc_python_object *object, uint64_t identity)
{
	struct vc_frame_view frame;
	bool more = vc_frame_of_object(object, &frame);

	if (!more)
		return true; /* not known */
	if (vc_thread_allocates(identity) && !is_standard(vc_frame_file(&frame)))
		return true;
	for (uint32_t depth = 0; more && depth < FRAMES_MAX; depth++) {
		if (is_backward(&frame))
			return true;
		more = vc_frame_back(&frame, &frame);
	}
	return false;
}

bool vc_tensors_others(void)
{
	struct vc_python_object *sys = vc_loaded_module("sys"), *frames, *key, *value;
	uint64_t identity;
	long position = 0;
	bool inside = false;

	frames = sys ? vc_builtin_call(sys, "_current_frames") : NULL;
	if (!frames || vc_py_type(frames) != vc_py.PyDict_Type) {
		vc_py.Py_DecRef(frames);
		return true;
	}
	while (!inside && vc_py.PyDict_Next(frames, &position, &key, &value)) {
		identity = vc_py.PyLong_AsUnsignedLongLongMask(key);
		inside = identity != (uint64_t)pthread_self() && is_inside(value, identity);
	}
	vc_py.Py_DecRef(frames);
	return inside;
}
