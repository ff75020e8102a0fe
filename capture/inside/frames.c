/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/frames.h"

#include <string.h>

#define LOCALS_MAX 4096u
#define CODE_OPTIMIZED 1u /* of co_flags: locals are in the frame */

/* Offsets that hold in this interpreter; NULL: it is laid out otherwise. */
static const struct vc_python_layout *known_layout(void)
{
	const struct vc_python_layout *layout = vc_python_layout((uint16_t)vc_py.version);
	uint64_t code = *(const uint64_t *)((const char *)vc_py.PyCode_Type + VC_TYPE_BASIC_SIZE);
	uint64_t frame = *(const uint64_t *)((const char *)vc_py.PyFrame_Type + VC_TYPE_BASIC_SIZE);

	if (!layout || code != (uint64_t)layout->code_size || frame != (uint64_t)layout->frame_size)
		return NULL;
	if (layout->version >= 0x030d &&
	    (!vc_py._PyRuntime ||
	     !vc_python_debug_agrees(layout, (const uint64_t *)(const void *)vc_py._PyRuntime)))
		return NULL;
	return layout;
}

/* Of the C stack, between frames: in 3.12 it has code of its own. 3.11 has owners, but no marks. */
static bool is_mark(const struct vc_python_layout *layout, const char *frame)
{
	return layout->frame_owner >= 0 && layout->frame_entry < 0 &&
	       (uint8_t)frame[layout->frame_owner] >= VC_PYTHON_OWNER_MARK;
}

static bool view(const char *frame, struct vc_frame_view *ret)
{
	struct vc_frame_view made = {.layout = known_layout()};
	uint64_t code;

	if (!frame || !made.layout)
		return false;
	made.frame = frame;
	code = *(const uint64_t *)(frame + made.layout->frame_code);
	made.code = (void *)(uintptr_t)VC_PYTHON_REFERENCE(code);
	if (!made.code || vc_py_type(made.code) != vc_py.PyCode_Type ||
	    is_mark(made.layout, frame))
		return false;
	*ret = made;
	return true;
}

bool vc_frame_of_object(struct vc_python_object *object, struct vc_frame_view *ret)
{
	const struct vc_python_layout *layout = known_layout();

	if (!layout)
		return false;
	return view(layout->frame_of_object < 0 ?
			    (const char *)object :
			    vc_object_field(object, (size_t)layout->frame_of_object), ret);
}

bool vc_frame_of_generator(struct vc_python_object *object, struct vc_frame_view *ret)
{
	const struct vc_python_layout *layout = known_layout();
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

/* Names of the local variables, in up to three tuples, as their values lie in the frame. */
struct names {
	struct vc_python_object *tuple[3];
	uint32_t count[3];
};

static struct names names_of(const struct vc_frame_view *frame)
{
	const struct vc_python_layout *layout = frame->layout;
	const int16_t places[] = {layout->code_local_names, layout->code_cell_names,
				  layout->code_free_names};
	const char *code = (const char *)frame->code;
	int32_t count = *(const int32_t *)(code + layout->code_local_count);
	struct names names = {0};

	for (size_t i = 0; i < 3 && places[i] >= 0; i++) {
		struct vc_python_object *tuple = vc_object_field(frame->code, (size_t)places[i]);

		if (!tuple || vc_py_type(tuple) != vc_py.PyTuple_Type ||
		    vc_sequence_length(tuple) > LOCALS_MAX)
			return names;
		names.tuple[i] = tuple;
		names.count[i] = (uint32_t)vc_sequence_length(tuple);
		/* later ones of the first tuple are no variables */
		if (!i && (count < 0 || (uint32_t)count > names.count[0]))
			return (struct names){0};
		if (!i)
			names.count[0] = (uint32_t)count;
	}
	return names;
}

uint32_t vc_frame_locals(const struct vc_frame_view *frame)
{
	struct names names = names_of(frame);

	return names.count[0] + names.count[1] + names.count[2];
}

struct vc_python_object *vc_frame_local(const struct vc_frame_view *frame, uint32_t number,
					struct vc_python_object **ret_name)
{
	const uint64_t *local = (const void *)(frame->frame + frame->layout->frame_locals);
	struct vc_python_object *value = (void *)(uintptr_t)VC_PYTHON_REFERENCE(local[number]);
	struct names names = names_of(frame);

	for (size_t i = 0; i < 3; number -= names.count[i++])
		if (number < names.count[i]) {
			*ret_name = vc_sequence_items(names.tuple[i])[number];
			break;
		}
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
	return *(const uint32_t *)((const char *)frame->code + frame->layout->code_flags) &
	       CODE_OPTIMIZED;
}
