/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the reader of Python stacks (python*.c) share among themselves. */
#ifndef VC_CAPTURE_INSIDE_PYTHON_PARTS_H
#define VC_CAPTURE_INSIDE_PYTHON_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/python_layout.h"

/** Number of the recording, for what threads keep of it. */
extern uint32_t vc_python_recording;

/** An interpreter that can be read. Never changed once it is published. */
struct vc_python_interpreter {
	const struct vc_python_layout *layout;
	void *(*thread_state)(void);
	int (*finalizing)(void);
	uintptr_t runtime;   /* _PyRuntime; 0: not exported */
	uintptr_t eval;      /* _PyEval_EvalFrameDefault, 0 not exported */
	uint64_t generation; /* of the loaded objects when it was found */
};

/**
 * The interpreter of this process; NULL: none. Where an object was unloaded since it was found it is
 * looked for anew.
 */
const struct vc_python_interpreter *vc_python_interpreter(void);

/**
 * State of the calling thread, which it may read until vc_python_leave; 0: it has none, or may not
 * (vc_python_leave all the same).
 */
uintptr_t vc_python_enter(const struct vc_python_interpreter *interpreter);
/** False: what was read is worth nothing, the interpreter is ending. */
bool vc_python_leave(const struct vc_python_interpreter *interpreter);

static inline uintptr_t vc_python_word(uintptr_t object, int16_t offset)
{
	return *(const uintptr_t *)(object + (uintptr_t)offset);
}

/** An address that an object or frame may have. */
static inline bool vc_python_pointer(uintptr_t address)
{
	return address >= 4096 && !(address & 7);
}

/** The frame that a thread runs; 0: none. */
static inline uintptr_t vc_python_frame_of(const struct vc_python_layout *layout, uintptr_t thread)
{
	uintptr_t at;

	if (layout->thread_frame >= 0)
		return vc_python_word(thread, layout->thread_frame);
	at = vc_python_word(thread, layout->thread_cframe);
	return vc_python_pointer(at) ? vc_python_word(at, layout->cframe_frame) : 0;
}

/** Whether a frame is no frame of Python but a mark on the C stack. */
static inline bool vc_python_is_mark(const struct vc_python_layout *layout, uintptr_t frame)
{
	/* 3.11 has owners, but no marks */
	return layout->frame_owner >= 0 && layout->frame_entry < 0 &&
	       *(const uint8_t *)(frame + (uintptr_t)layout->frame_owner) >=
		       VC_PYTHON_OWNER_MARK;
}

#endif
