/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of any thread of the interpreter and what their local variables hold.
 *
 * Read where they lie: asking a frame for f_locals leaves a copy in it up to 3.12, which would keep
 * the values alive. CTX: the GIL held; frames are those of a moment at which no Python runs.
 */
#ifndef VC_CAPTURE_INSIDE_FRAMES_H
#define VC_CAPTURE_INSIDE_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/objects.h"
#include "formats/python_layout.h"

struct vc_frame_view {
	const struct vc_python_layout *layout;
	const char *frame;             /* where its fields are */
	struct vc_python_object *code;
};

/** Of a frame object; false: it has no code to be read, or the version is not known. */
bool vc_frame_of_object(struct vc_python_object *object, struct vc_frame_view *ret);
/** Of a generator or coroutine that waits. */
bool vc_frame_of_generator(struct vc_python_object *object, struct vc_frame_view *ret);
/** The frame that called it; false: none. */
bool vc_frame_back(const struct vc_frame_view *frame, struct vc_frame_view *ret);
/** Number of local variables. */
uint32_t vc_frame_locals(const struct vc_frame_view *frame);
/** One of them: its name, and what it holds (NULL: nothing). A cell stands for what is in it. */
struct vc_python_object *vc_frame_local(const struct vc_frame_view *frame, uint32_t number,
					struct vc_python_object **ret_name);
/** The line it is at; 0: unknown. */
uint32_t vc_frame_line(const struct vc_frame_view *frame);
/** File and function of its code, borrowed; "" unknown. */
const char *vc_frame_file(const struct vc_frame_view *frame);
const char *vc_frame_function(const struct vc_frame_view *frame);
/** Whether it is a function's (a module's locals are its globals). */
bool vc_frame_is_function(const struct vc_frame_view *frame);

#endif
