/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets that a stack of Python is read with, by version of CPython; see python_layout.def.
 *
 * Whoever reads takes the row of the version, compares what the interpreter itself says (the sizes
 * of its types; from 3.13 on the table of offsets at the start of _PyRuntime), and reads nothing
 * where the two differ. Builds without a global interpreter lock are laid out otherwise and are not
 * in the table. No libc: for hooks and for readers of other processes.
 */
#ifndef VC_FORMATS_PYTHON_LAYOUT_H
#define VC_FORMATS_PYTHON_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/** One row. -1: the version has no such thing. */
struct vc_python_layout {
	uint16_t version; /* 0x030b is 3.11 */
#define VC_PYTHON_FIELD(name) int16_t name;
#include "formats/python_layout.def"
};

/** The row of a version; NULL: it is not known. */
static inline const struct vc_python_layout *vc_python_layout(uint16_t version)
{
	static const struct vc_python_layout layout[] = {
#define VC_PYTHON_LAYOUT(version, ...) {version, __VA_ARGS__},
#include "formats/python_layout.def"
	};

	for (size_t i = 0; i < sizeof(layout) / sizeof(layout[0]); i++)
		if (layout[i].version == version)
			return &layout[i];
	return NULL;
}

/** An owner of a frame (frame_owner) from which on it is a mark on the C stack. */
#define VC_PYTHON_OWNER_MARK 3
/** tp_basicsize in every type object of these versions. */
#define VC_PYTHON_TYPE_NAME 24 /* const char * */
#define VC_PYTHON_TYPE_SIZE 32
/** ob_refcnt and ob_type in every object, ob_size in those of variable length. */
#define VC_PYTHON_OBJECT_TYPE 8
#define VC_PYTHON_OBJECT_SIZE 16
/** A reference in a frame has marks in its lowest bits (3.14); addresses of objects have none. */
#define VC_PYTHON_REFERENCE(word) ((word) & ~UINT64_C(7))

/** The word at unicode_state. */
#define VC_PYTHON_STATE_KIND(state) ((state) >> 2 & 7) /* bytes of a character */
#define VC_PYTHON_STATE_COMPACT(state) ((state) >> 5 & 1)
#define VC_PYTHON_STATE_ASCII(state) ((state) >> 6 & 1)

/**
 * The start of _PyRuntime, from 3.13 on: the magic, the version as Py_Version has it, whether there
 * is no global interpreter lock, then offsets, of which these are compared. Positions are in words
 * of 8 bytes.
 */
#define VC_PYTHON_DEBUG_MAGIC "xdebugpy"
enum vc_python_debug_word {
	VC_PYTHON_DEBUG_VERSION = 1,
	VC_PYTHON_DEBUG_FREE_THREADED = 2,
};
/** VC_PYTHON_DEBUG(field, position in 3.13, in 3.14) */
#define VC_PYTHON_DEBUGS(VC_PYTHON_DEBUG)        \
	VC_PYTHON_DEBUG(thread_frame, 23, 26)        \
	VC_PYTHON_DEBUG(frame_back, 29, 32)          \
	VC_PYTHON_DEBUG(frame_code, 30, 33)          \
	VC_PYTHON_DEBUG(frame_instruction, 31, 34)   \
	VC_PYTHON_DEBUG(frame_locals, 32, 35)        \
	VC_PYTHON_DEBUG(frame_owner, 33, 36)         \
	VC_PYTHON_DEBUG(code_file, 35, 40)           \
	VC_PYTHON_DEBUG(code_name, 36, 41)           \
	VC_PYTHON_DEBUG(code_qualified_name, 37, 42) \
	VC_PYTHON_DEBUG(code_line_table, 38, 43)     \
	VC_PYTHON_DEBUG(code_first_line, 39, 44)     \
	VC_PYTHON_DEBUG(code_local_names, 41, 46)    \
	VC_PYTHON_DEBUG(code_instructions, 43, 48)   \
	VC_PYTHON_DEBUG(interpreter_next, 8, 8)      \
	VC_PYTHON_DEBUG(interpreter_threads, 9, 9)   \
	VC_PYTHON_DEBUG(thread_next, 21, 24)         \
	VC_PYTHON_DEBUG(thread_id, 24, 27)           \
	VC_PYTHON_DEBUG(thread_native_id, 25, 28)

/** The interpreter's own table against ours: whether it is of this version and the two agree. */
static inline int vc_python_debug_agrees(const struct vc_python_layout *layout, const uint64_t *word)
{
	static const char magic[] = VC_PYTHON_DEBUG_MAGIC;
	const struct {
		int16_t offset;
		uint8_t position[2]; /* in 3.13, 3.14 */
	} compared[] = {
#define VC_PYTHON_DEBUG(field, in_13, in_14) {layout->field, {in_13, in_14}},
		VC_PYTHON_DEBUGS(VC_PYTHON_DEBUG)
#undef VC_PYTHON_DEBUG
	};

	for (int i = 0; i < 8; i++)
		if (((const char *)word)[i] != magic[i])
			return 0;
	if (word[VC_PYTHON_DEBUG_VERSION] >> 16 != layout->version)
		return 0;
	for (size_t i = 0; i < sizeof(compared) / sizeof(compared[0]); i++)
		if (word[compared[i].position[layout->version - 0x030d]] !=
		    (uint64_t)compared[i].offset)
			return 0;
	return 1;
}

#endif
