/* SPDX-License-Identifier: Apache-2.0 */
/* The walk along the frames of the calling thread, and what is kept of code met for the first time. */
#include "capture/inside/python.h"

#include <string.h>

#include "capture/inside/python_parts.h"
#include "capture/inside/store.h"
#include "capture/inside/thread.h"

#define FRAMES_MAX 512u
#define TEXT_BYTES 4096u
#define CODES_KEPT 256u
#define LENGTH_MAX (UINT64_C(1) << 24) /* of a string or line table that is looked at */
#define SAMPLE 16u                     /* bytes of a line table and of a path that are part of a print */

/* Of code that a thread met: what it was known by, and its row. */
struct met_code {
	_Alignas(64) struct vc_code_print print;
	uint32_t row;
};

/* A thread's pages. */
struct pages {
	uint64_t frames[FRAMES_MAX + 1]; /* and the place in the forward pass */
	char text[TEXT_BYTES];
	struct met_code met[CODES_KEPT];
	uint32_t recording; /* that rows are of */
};

_Static_assert(FRAMES_MAX <= VC_UNWIND_MAX_FRAMES, "a reader takes no longer stacks than native ones");
_Static_assert(sizeof(struct pages) <= VC_THREAD_PYTHON_BYTES, "the pages are too few");
_Static_assert(sizeof(struct met_code) == 64, "one line of the processor's cache");

static uint64_t module_code;

struct walk {
	const struct vc_python_layout *layout;
	int (*finalizing)(void);
	struct pages *pages;
	uint64_t *frames;
	uint64_t module_object;
	uint32_t count;
	bool cut;
	bool generated; /* that module is */
};

/* ---- texts ---- */

static uint32_t character_at(const uint8_t *data, uint32_t bytes, uint64_t i)
{
	uint16_t two;
	uint32_t four;

	if (bytes == 1)
		return data[i];
	if (bytes == 2) {
		memcpy(&two, data + 2 * i, sizeof(two));
		return two;
	}
	memcpy(&four, data + 4 * i, sizeof(four));
	return four;
}

/* UTF-8, 1 to 4 bytes. A byte of a path that is no text is kept by Python as U+DC80 to U+DCFF. */
static uint32_t put_character(char *to, uint32_t c)
{
	if (c >= 0xdc80 && c <= 0xdcff) {
		to[0] = (char)(c & 0xff);
		return 1;
	}
	if (c < 0x80) {
		to[0] = c ? (char)c : '?'; /* no string holds a NUL */
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 63));
		to[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	to[0] = (char)(0xf0 | (c >> 18 & 7));
	to[1] = (char)(0x80 | (c >> 12 & 63));
	to[2] = (char)(0x80 | (c >> 6 & 63));
	to[3] = (char)(0x80 | (c & 63));
	return 4;
}

/* A str as a string of the recording; *ret_whole is cleared where it was cut. 0: "" or none. */
static uint32_t keep_text(const struct walk *walk, uintptr_t object, bool *ret_whole)
{
	const struct vc_python_layout *layout = walk->layout;
	uint64_t length, done = 0;
	uint32_t state, bytes, used = 0;
	const uint8_t *data;

	if (!vc_python_pointer(object))
		return 0;
	length = vc_python_word(object, layout->unicode_length);
	state = *(const uint32_t *)(object + (uintptr_t)layout->unicode_state);
	bytes = VC_PYTHON_STATE_KIND(state);
	if (!VC_PYTHON_STATE_COMPACT(state) || (bytes != 1 && bytes != 2 && bytes != 4) ||
	    length > LENGTH_MAX) {
		*ret_whole = false;
		return 0;
	}
	data = (const uint8_t *)object + (VC_PYTHON_STATE_ASCII(state) ? layout->unicode_ascii :
									  layout->unicode_compact);
	while (done < length && used + 4 <= TEXT_BYTES)
		used += put_character(walk->pages->text + used, character_at(data, bytes, done++));
	*ret_whole &= done == length;
	return vc_store_string(walk->pages->text, used);
}

/* ---- code ---- */

/* Whether an object is a code object, by its type's size: no two types used here have one. */
static bool is_code(const struct vc_python_layout *layout, uintptr_t object)
{
	uintptr_t type = vc_python_word(object, VC_PYTHON_OBJECT_TYPE);

	return vc_python_pointer(type) &&
	       *(const int64_t *)(type + VC_PYTHON_TYPE_SIZE) == layout->code_size;
}

static uint64_t sample(const uint8_t *bytes, uint64_t length)
{
	uint64_t word[2] = {0};

	if (length >= SAMPLE)
		memcpy(word, bytes, SAMPLE); /* two loads */
	else
		memcpy(word, bytes, length);
	return ((word[0] * UINT64_C(0x9e3779b97f4a7c15)) ^ word[1]) + length;
}

/* The start of the line table and the end of the path. */
static uint64_t samples_of(const struct vc_python_layout *layout, uintptr_t lines, uintptr_t file)
{
	uint64_t mixed = sample((const uint8_t *)lines + layout->bytes_data,
				  vc_python_word(lines, VC_PYTHON_OBJECT_SIZE));
	uint32_t state;
	uint64_t length;
	const uint8_t *data;

	if (!vc_python_pointer(file))
		return mixed;
	state = *(const uint32_t *)(file + (uintptr_t)layout->unicode_state);
	length = vc_python_word(file, layout->unicode_length) * VC_PYTHON_STATE_KIND(state);
	if (!VC_PYTHON_STATE_COMPACT(state) || length > LENGTH_MAX)
		return mixed;
	data = (const uint8_t *)file + (VC_PYTHON_STATE_ASCII(state) ? layout->unicode_ascii :
									layout->unicode_compact);
	if (length > SAMPLE)
		data += length - SAMPLE;
	return mixed * 31 + sample(data, length);
}

/* False: it is no code object. */
static bool print_of(const struct vc_python_layout *layout, uintptr_t code,
		     struct vc_code_print *ret)
{
	uintptr_t lines = vc_python_word(code, layout->code_line_table);
	uintptr_t file = vc_python_word(code, layout->code_file);
	uint32_t version = 0;

	if (!vc_python_pointer(lines))
		return false;
	if (layout->code_version >= 0)
		version = *(const uint32_t *)(code + (uintptr_t)layout->code_version);
	*ret = (struct vc_code_print){{
		code,
		vc_python_word(code, layout->code_name),
		file,
		lines,
		(uint64_t)version << 32 |
			*(const uint32_t *)(code + (uintptr_t)layout->code_first_line),
		/* a version is given once, but not by 3.11 and before, and not after 4 billion */
		version ? 0 : samples_of(layout, lines, file),
	}};
	return true;
}

static __attribute__((noinline)) uint32_t keep_code(const struct walk *walk, uintptr_t code,
						    const struct vc_code_print *print)
{
	const struct vc_python_layout *layout = walk->layout;
	uintptr_t lines = vc_python_word(code, layout->code_line_table);
	uint64_t bytes = vc_python_word(lines, VC_PYTHON_OBJECT_SIZE);
	bool whole = bytes <= VC_STORE_BYTES_MAX;
	struct vc_code_row row = {
		.first_line = *(const uint32_t *)(code + (uintptr_t)layout->code_first_line),
		.version = layout->version,
	};
	uint32_t known;

	row.line_table_bytes = (uint32_t)(whole ? bytes : VC_STORE_BYTES_MAX);
	row.line_table = vc_store_bytes((const char *)lines + layout->bytes_data,
					row.line_table_bytes);
	if (!row.line_table) {
		row.line_table_bytes = 0;
		if (bytes)
			row.first_line = 0; /* an empty table says that all is one line */
	}
	row.name = keep_text(walk, vc_python_word(code, layout->code_name), &whole);
	if (layout->code_qualified_name >= 0)
		row.qualified_name = keep_text(
			walk, vc_python_word(code, layout->code_qualified_name), &whole);
	row.file = keep_text(walk, vc_python_word(code, layout->code_file), &whole);
	known = vc_store_code_add(print, &row);
	if (!whole || !known || (bytes && !row.line_table))
		vc_store_count(VC_COUNTER_PYTHON_NAMES);
	return known;
}

/* Row of the code plus 1, 0: not kept. False: it is none. */
static bool code_row(const struct walk *walk, uintptr_t code, uint32_t *ret)
{
	struct vc_code_print print;
	struct met_code *met;

	if (!vc_python_pointer(code))
		return false;
	/* What a frame executes is a code object but in rare cases, told apart at first sight. */
	if (walk->layout->version >= 0x030d && !is_code(walk->layout, code))
		return false;
	if (!print_of(walk->layout, code, &print))
		return false;
	met = &walk->pages->met[code * UINT64_C(0x9e3779b97f4a7c15) >> 56];
	if (__builtin_expect(memcmp(&met->print, &print, sizeof(print)) != 0, 0)) {
		met->row = vc_store_code_known(&print);
		if (!met->row)
			met->row = keep_code(walk, code, &print);
		met->print = print;
	}
	*ret = met->row;
	return true;
}

/* ---- frames ---- */

static uint32_t offset_in(const struct vc_python_layout *layout, uintptr_t frame, uintptr_t code)
{
	int64_t offset;

	if (layout->frame_unit)
		offset = (int64_t)*(const int32_t *)(frame +
						     (uintptr_t)layout->frame_instruction) *
			 layout->frame_unit;
	else
		offset = (int64_t)(vc_python_word(frame, layout->frame_instruction) - code -
				   (uintptr_t)layout->code_instructions);
	/* Before its first instruction a frame stands in front of the code. */
	return offset < 0 || offset > (int64_t)VC_PYTHON_OFFSET ? 0 : (uint32_t)offset;
}

static bool is_entry(const struct vc_python_layout *layout, uintptr_t frame)
{
	if (layout->frame_entry >= 0)
		return *(const uint8_t *)(frame + (uintptr_t)layout->frame_entry) != 0;
	return layout->frame_owner < 0; /* else the mark after it tells */
}

/*
 * torch.compile and torch.fx write modules of their own, of a class GraphModule each (a model that the
 * program itself had traced keeps its name): they are no place in the model.
 */
static bool is_generated(uintptr_t object)
{
	static const char name[] = "GraphModule";
	uintptr_t type = vc_python_pointer(object) ?
				 vc_python_word(object, VC_PYTHON_OBJECT_TYPE) : 0;
	const char *at = vc_python_pointer(type) ?
				 (const char *)vc_python_word(type, VC_PYTHON_TYPE_NAME) : NULL;

	for (size_t i = 0; at && i < sizeof(name); i++)
		if (at[i] != name[i])
			return false;
	return at != NULL;
}

/* The innermost one counts; of what a generated one does that of the model which goes through it. */
static void take_module(struct walk *walk, uintptr_t frame)
{
	uintptr_t object =
		VC_PYTHON_REFERENCE(vc_python_word(frame, walk->layout->frame_locals));
	bool generated = is_generated(object);

	if (walk->module_object && generated)
		return;
	walk->module_object = object;
	walk->generated = generated;
}

static void take_frame(struct walk *walk, uintptr_t frame)
{
	const struct vc_python_layout *layout = walk->layout;
	uintptr_t code = VC_PYTHON_REFERENCE(vc_python_word(frame, layout->frame_code));
	uint32_t row;

	if (!code_row(walk, code, &row))
		return;
	if ((!walk->module_object || walk->generated) &&
	    code == __atomic_load_n(&module_code, __ATOMIC_RELAXED))
		take_module(walk, frame);
	walk->frames[walk->count++] = vc_python_frame(row, offset_in(layout, frame, code),
						      is_entry(layout, frame));
}

static void walk_frames(struct walk *walk, uintptr_t frame)
{
	const struct vc_python_layout *layout = walk->layout;

	/*
	 * Marks and other things that are no frames of Python are as many as frames at most. An
	 * interpreter that ends says so long before it frees the frames of other threads: asking at
	 * every frame leaves a thread that is put aside in mid-walk the least to read on waking.
	 */
	for (uint32_t hops = 0; vc_python_pointer(frame) && !walk->finalizing(); hops++) {
		if (walk->count == FRAMES_MAX || hops == 2 * FRAMES_MAX) {
			walk->cut = true;
			return;
		}
		if (!vc_python_is_mark(layout, frame))
			take_frame(walk, frame);
		else if (walk->count)
			walk->frames[walk->count - 1] |= VC_PYTHON_ENTRY;
		frame = vc_python_word(frame, layout->frame_back);
	}
}

/* Not the hash of any native stack: those begin otherwise. */
static uint64_t hash_of(const struct walk *walk)
{
	uint64_t hash = UINT64_C(0x50795079) + walk->cut;

	for (uint32_t i = 0; i < walk->count; i++) {
		hash = (hash ^ walk->frames[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash;
}

static uint32_t keep_stack(const struct walk *walk)
{
	uint64_t hash = hash_of(walk);
	uint32_t id = vc_store_stack_known(hash, walk->count);

	if (walk->cut)
		vc_store_count(VC_COUNTER_PYTHON_CUT);
	if (id)
		return id;
	return vc_store_stack_add(hash, walk->frames, walk->count,
				  walk->cut ? VC_STACK_LIMIT : VC_STACK_COMPLETE);
}

uint32_t vc_python_stack(uint32_t forward, uint64_t *ret_module_object)
{
	const struct vc_python_interpreter *interpreter = vc_python_interpreter();
	struct vc_thread *block = interpreter ? vc_thread_block() : NULL;
	struct walk walk;
	uintptr_t thread;

	*ret_module_object = 0;
	if (!block)
		return 0;
	walk = (struct walk){
		.layout = interpreter->layout,
		.finalizing = interpreter->finalizing,
		.pages = vc_thread_python(block),
	};
	walk.frames = walk.pages->frames;
	if (walk.pages->recording != vc_python_recording) {
		memset(walk.pages->met, 0, sizeof(walk.pages->met));
		walk.pages->recording = vc_python_recording;
	}
	thread = vc_python_enter(interpreter);
	if (thread)
		walk_frames(&walk, vc_python_frame_of(walk.layout, thread));
	if (!vc_python_leave(interpreter))
		return 0;
	if (forward)
		walk.frames[walk.count++] = vc_python_forward(forward);
	if (!walk.count)
		return 0;
	*ret_module_object = walk.module_object;
	return keep_stack(&walk);
}

void vc_python_module_code(uint64_t code)
{
	__atomic_store_n(&module_code, code, __ATOMIC_RELAXED);
}
