/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/frames.h"

#include <string.h>

#define LOCALS_MAX 4096u
#define CODE_OPTIMIZED 1u /* of co_flags: locals are in the frame */

/* Where names and number of the local variables are in a code object, and a frame in its object. */
struct places {
	uint16_t names, count, flags;
	int16_t frame;
};

static struct places places(void)
{
	if (vc_py.version < 0x30b)
		return (struct places){72, 28, 36, -1};
	if (vc_py.version == 0x30b)
		return (struct places){96, 76, 48, 24};
	return (struct places){96, 72, 48, 24};
}

static bool view(const char *frame, struct vc_frame_view *ret)
{
	struct vc_frame_view made = {.layout = vc_python_layout((uint16_t)vc_py.version)};
	uint64_t code;

	if (!frame || !made.layout)
		return false;
	made.frame = frame;
	code = *(const uint64_t *)(frame + made.layout->frame_code);
	made.code = (void *)(uintptr_t)VC_PYTHON_REFERENCE(code);
	if (!made.code || vc_py_type(made.code) != vc_py.PyCode_Type)
		return false;
	*ret = made;
	return true;
}

bool vc_frame_of_object(struct vc_python_object *object, struct vc_frame_view *ret)
{
	int16_t inner = places().frame;

	return view(inner < 0 ? (const char *)object : vc_object_field(object, (size_t)inner), ret);
}

bool vc_frame_of_generator(struct vc_python_object *object, struct vc_frame_view *ret)
{
	const struct vc_python_layout *layout = vc_python_layout((uint16_t)vc_py.version);
	uint64_t size = *(const uint64_t *)((const char *)vc_py.PyGen_Type + VC_TYPE_BASIC_SIZE);

	/* up to 3.10 it has a frame object, which is walked by itself */
	if (vc_py.version < 0x30b || !layout || size < (uint64_t)layout->frame_locals)
		return false;
	return view((const char *)object + size - layout->frame_locals, ret);
}

bool vc_frame_back(const struct vc_frame_view *frame, struct vc_frame_view *ret)
{
	const char *back = frame->frame;

	/* marks on the C stack are passed */
	for (int marks = 0; marks < 64; marks++) {
		back = *(const char *const *)(back + frame->layout->frame_back);
		if (!back)
			return false;
		if (view(back, ret))
			return true;
	}
	return false;
}

static struct vc_python_object *names_of(const struct vc_frame_view *frame)
{
	struct vc_python_object *names = vc_object_field(frame->code, places().names);

	return names && vc_py_type(names) == vc_py.PyTuple_Type ? names : NULL;
}

uint32_t vc_frame_locals(const struct vc_frame_view *frame)
{
	int32_t count = *(const int32_t *)((const char *)frame->code + places().count);
	struct vc_python_object *names = names_of(frame);

	if (!names || count < 0 || (uint32_t)count > LOCALS_MAX ||
	    (uint64_t)count > vc_sequence_length(names))
		return 0;
	return (uint32_t)count;
}

struct vc_python_object *vc_frame_local(const struct vc_frame_view *frame, uint32_t number,
					struct vc_python_object **ret_name)
{
	const uint64_t *local = (const void *)(frame->frame + frame->layout->frame_locals);
	struct vc_python_object *value = (void *)(uintptr_t)VC_PYTHON_REFERENCE(local[number]);

	*ret_name = vc_sequence_items(names_of(frame))[number];
	if (value && vc_py_type(value) == vc_py.PyCell_Type)
		value = vc_object_field(value, VC_CELL_VALUE);
	return value;
}

uint32_t vc_frame_line(const struct vc_frame_view *frame)
{
	const struct vc_python_layout *layout = frame->layout;
	const char *instruction;
	int64_t offset;
	int line;

	if (layout->frame_unit)
		offset = *(const int32_t *)(frame->frame + layout->frame_instruction) *
			 layout->frame_unit;
	else {
		instruction = *(const char *const *)(frame->frame + layout->frame_instruction);
		offset = instruction - ((const char *)frame->code + layout->code_instructions);
	}
	if (offset < 0 || offset > INT32_MAX)
		offset = 0;
	line = vc_py.PyCode_Addr2Line(frame->code, (int)offset);
	return line > 0 ? (uint32_t)line : 0;
}

static const char *text_at(const struct vc_frame_view *frame, int16_t place)
{
	const char *text;

	if (place < 0)
		return "";
	text = vc_object_text(vc_object_field(frame->code, (size_t)place), NULL);
	return text ? text : "";
}

const char *vc_frame_file(const struct vc_frame_view *frame)
{
	return text_at(frame, frame->layout->code_file);
}

const char *vc_frame_function(const struct vc_frame_view *frame)
{
	const char *text = text_at(frame, frame->layout->code_qualified_name);

	return *text ? text : text_at(frame, frame->layout->code_name);
}

bool vc_frame_is_function(const struct vc_frame_view *frame)
{
	return *(const uint32_t *)((const char *)frame->code + places().flags) & CODE_OPTIMIZED;
}
