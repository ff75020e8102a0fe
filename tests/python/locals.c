/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the walk reads of frames, as a library that a script loads (ctypes.PyDLL, which keeps the
 * interpreter's lock): a line for each frame, a line for each of its local variables.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "capture/inside/frames.h"
#include "capture/inside/resolve.h"

#define SHOWN __attribute__((visibility("default")))

SHOWN int locals_start(void);
SHOWN int locals_of(struct vc_python_object *object, char *ret, uint64_t size);

void *vc_look_up(void *handle, const char *name)
{
	return dlsym(handle, name);
}

int locals_start(void)
{
	return vc_interpreter_api_find() == VC_PYTHON_FOUND && vc_objects_good();
}

static int write_frame(const struct vc_frame_view *frame, FILE *to)
{
	struct vc_python_object *name, *value;

	fprintf(to, "frame %d %u %s|%s\n", vc_frame_is_function(frame), vc_frame_line(frame),
		vc_frame_function(frame), vc_frame_file(frame));
	for (uint32_t i = 0; vc_frame_is_function(frame) && i < vc_frame_locals(frame); i++) {
		value = vc_frame_local(frame, i, &name);
		if (value)
			fprintf(to, "local %s %llu\n", vc_object_text(name, NULL),
				(unsigned long long)(uintptr_t)value);
	}
	return 1;
}

/* Of a frame object and those that called it, or of a generator. Frames; -1: no room. */
int locals_of(struct vc_python_object *object, char *ret, uint64_t size)
{
	struct vc_frame_view frame;
	FILE *to = fmemopen(ret, size, "w");
	bool more = vc_py_type(object) == vc_py.PyFrame_Type, generator = !more;
	int frames = 0;

	if (!to)
		return -1;
	if (generator)
		frames = vc_frame_of_generator(object, &frame) && write_frame(&frame, to);
	else
		for (more = vc_frame_of_object(object, &frame); more;
		     more = vc_frame_back(&frame, &frame))
			frames += write_frame(&frame, to);
	return fclose(to) ? -1 : frames;
}
