/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/python_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "formats/python_lines.h"

#define INTERPRETERS_MAX 64u
#define TEXT_MAX 4096u
#define LINE_TABLE_MAX 65536u
/* Where glibc keeps a thread's number in what pthread_t points to (x86-64 and aarch64). */
#if defined(__x86_64__)
#define PTHREAD_NUMBER 720
#else
#define PTHREAD_NUMBER 208
#endif

static bool word_at(const struct vc_python *python, uint64_t base, int16_t offset, uint64_t *ret)
{
	return offset >= 0 && base && vc_memory_word(python->memory, base + (uint64_t)offset, ret);
}

bool vc_python_open(struct vc_python *python, const struct vc_memory *memory, uint64_t runtime,
		    uint16_t version)
{
	uint64_t word[3];

	memset(python, 0, sizeof(*python));
	python->memory = memory;
	python->runtime = runtime;
	python->layout = vc_python_layout(version);
	if (!python->layout)
		return false;
	if (version < 0x030d)
		return true;
	if (!memory->read(memory->self, runtime, word, sizeof(word)) ||
	    memcmp(word, VC_PYTHON_DEBUG_MAGIC, 8) != 0 ||
	    word[VC_PYTHON_DEBUG_VERSION] >> 16 != version)
		return false;
	python->free_threaded = word[VC_PYTHON_DEBUG_FREE_THREADED] != 0;
	return !python->free_threaded;
}

/* Whether an object's type says that its instances have this size. */
static bool is_of_size(const struct vc_python *python, uint64_t object, int16_t size)
{
	uint64_t type, says;

	return word_at(python, object, VC_PYTHON_OBJECT_TYPE, &type) &&
	       word_at(python, type, VC_PYTHON_TYPE_SIZE, &says) && says == (uint64_t)size;
}

/* Appends a character as UTF-8; gives the bytes written. */
static size_t put_character(char *to, uint32_t character)
{
	if (character < 0x80) {
		to[0] = (char)character;
		return 1;
	}
	if (character < 0x800) {
		to[0] = (char)(0xc0 | character >> 6);
		to[1] = (char)(0x80 | (character & 0x3f));
		return 2;
	}
	if (character < 0x10000) {
		to[0] = (char)(0xe0 | character >> 12);
		to[1] = (char)(0x80 | (character >> 6 & 0x3f));
		to[2] = (char)(0x80 | (character & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | (character >> 18 & 7));
	to[1] = (char)(0x80 | (character >> 12 & 0x3f));
	to[2] = (char)(0x80 | (character >> 6 & 0x3f));
	to[3] = (char)(0x80 | (character & 0x3f));
	return 4;
}

/* A str as UTF-8, cut when long; NULL where it is none. */
static char *text_of(const struct vc_python *python, uint64_t object)
{
	const struct vc_python_layout *layout = python->layout;
	uint64_t length, state, data;
	unsigned int kind;
	uint8_t *raw;
	char *text;
	size_t used = 0;

	if (!is_of_size(python, object, layout->unicode_size) ||
	    !word_at(python, object, layout->unicode_length, &length) ||
	    !word_at(python, object, layout->unicode_state, &state))
		return NULL;
	kind = VC_PYTHON_STATE_KIND(state);
	if (!VC_PYTHON_STATE_COMPACT(state) || (kind != 1 && kind != 2 && kind != 4))
		return NULL;
	if (length > TEXT_MAX)
		length = TEXT_MAX;
	data = object + (uint64_t)(VC_PYTHON_STATE_ASCII(state) ? layout->unicode_ascii
								: layout->unicode_compact);
	raw = malloc(length * kind + 1);
	text = malloc(length * 4 + 1);
	if (!raw || !text || !python->memory->read(python->memory->self, data, raw, length * kind)) {
		free(raw);
		free(text);
		return NULL;
	}
	for (uint64_t i = 0; i < length; i++) {
		uint32_t character = 0;

		memcpy(&character, raw + i * kind, kind);
		used += put_character(text + used, character < 0x20 || character == 0x7f ? '?' : character);
	}
	free(raw);
	text[used] = 0;
	return text;
}

/* Bytes of a bytes object, cut when long. */
static uint8_t *bytes_of(const struct vc_python *python, uint64_t object, size_t *ret_length)
{
	uint64_t length;
	uint8_t *bytes;

	if (!word_at(python, object, VC_PYTHON_OBJECT_SIZE, &length))
		return NULL;
	if (length > LINE_TABLE_MAX)
		length = LINE_TABLE_MAX;
	bytes = malloc(length + 1);
	if (bytes && !python->memory->read(python->memory->self,
					   object + (uint64_t)python->layout->bytes_data, bytes,
					   length)) {
		free(bytes);
		return NULL;
	}
	*ret_length = length;
	return bytes;
}

/* The instruction a frame is at, in bytes from the first of its code. */
static bool instruction_of(const struct vc_python *python, uint64_t frame, uint64_t code,
			   uint64_t *ret)
{
	const struct vc_python_layout *layout = python->layout;
	uint64_t word;

	if (!word_at(python, frame, layout->frame_instruction, &word))
		return false;
	if (layout->frame_unit)
		*ret = (word & 0xffffffffu) * (uint64_t)layout->frame_unit;
	else
		*ret = word - (code + (uint64_t)layout->code_instructions);
	return true;
}

static bool fill_frame(const struct vc_python *python, uint64_t frame, uint64_t code,
		       struct vc_python_frame *ret)
{
	const struct vc_python_layout *layout = python->layout;
	uint64_t name = 0, file = 0, table = 0, first = 0, instruction = 0;
	size_t length = 0;
	uint8_t *bytes;

	if (!is_of_size(python, code, layout->code_size))
		return false;
	if (!word_at(python, code, layout->code_qualified_name, &name))
		word_at(python, code, layout->code_name, &name);
	word_at(python, code, layout->code_file, &file);
	word_at(python, code, layout->code_line_table, &table);
	word_at(python, code, layout->code_first_line, &first);
	ret->function = text_of(python, name);
	ret->file = text_of(python, file);
	ret->line = (uint32_t)first;
	bytes = bytes_of(python, table, &length);
	if (bytes && instruction_of(python, frame, code, &instruction))
		ret->line = vc_python_line(layout->version, (uint32_t)first, bytes, length, instruction);
	free(bytes);
	return ret->function && ret->file;
}

/* The innermost frame of a thread. */
static uint64_t running_frame(const struct vc_python *python, uint64_t thread)
{
	const struct vc_python_layout *layout = python->layout;
	uint64_t frame = 0, cframe;

	if (layout->thread_frame >= 0)
		word_at(python, thread, layout->thread_frame, &frame);
	else if (word_at(python, thread, layout->thread_cframe, &cframe))
		word_at(python, cframe, layout->cframe_frame, &frame);
	return frame;
}

static bool is_mark(const struct vc_python *python, uint64_t frame)
{
	uint64_t word;

	/* Read by the word it lies in: the frame may be the last thing in its page. */
	if (python->layout->version < 0x030c || python->layout->frame_owner < 0 ||
	    !vc_memory_word(python->memory, frame + ((uint64_t)python->layout->frame_owner & ~7u), &word))
		return false;
	return (word >> (python->layout->frame_owner % 8 * 8) & 0xff) >= VC_PYTHON_OWNER_MARK;
}

/* The frame that PyTorch calls every module through: its first local variable is the module. */
static bool calls_module(const struct vc_python_frame *frame)
{
	const char *name = strrchr(frame->function, '.');

	return !strcmp(name ? name + 1 : frame->function, "_wrapped_call_impl") &&
	       strstr(frame->file, "module.py");
}

static void walk(const struct vc_python *python, uint64_t tstate, struct vc_thread_stack *thread)
{
	uint64_t frame = running_frame(python, tstate), code;
	struct vc_python_frame *frames = calloc(VC_PYTHON_FRAMES_MAX, sizeof(*frames)), *fitted;
	uint32_t count = 0;

	for (unsigned int i = 0; frames && frame && i < 2 * VC_PYTHON_FRAMES_MAX &&
				 count < VC_PYTHON_FRAMES_MAX; i++) {
		if (!is_mark(python, frame)) {
			if (!word_at(python, frame, python->layout->frame_code, &code) ||
			    !fill_frame(python, frame, VC_PYTHON_REFERENCE(code), &frames[count])) {
				free(frames[count].function);
				free(frames[count].file);
				break;
			}
			if (!thread->module_object && calls_module(&frames[count]) &&
			    word_at(python, frame, python->layout->frame_locals, &code))
				thread->module_object = VC_PYTHON_REFERENCE(code);
			count++;
		}
		if (!word_at(python, frame, python->layout->frame_back, &frame))
			break;
	}
	fitted = count ? realloc(frames, count * sizeof(*frames)) : NULL;
	if (!count)
		free(frames);
	thread->python = fitted ? fitted : count ? frames : NULL;
	thread->pythons = count;
}

/* The kernel's number of a thread of Python; 0: unknown. */
static uint32_t number_of(const struct vc_python *python, uint64_t tstate)
{
	uint64_t word;
	uint32_t number = 0;

	if (python->layout->thread_native_id >= 0)
		return word_at(python, tstate, python->layout->thread_native_id, &word)
			       ? (uint32_t)word : 0;
	if (word_at(python, tstate, python->layout->thread_id, &word))
		python->memory->read(python->memory->self, word + PTHREAD_NUMBER, &number,
				     sizeof(number));
	return number;
}

uint32_t vc_python_stacks(const struct vc_python *python, struct vc_thread_stack *threads,
			  uint32_t count)
{
	const struct vc_python_layout *layout = python->layout;
	uint64_t interpreter = 0, tstate;
	uint32_t found = 0;

	word_at(python, python->runtime, layout->runtime_interpreters, &interpreter);
	for (unsigned int i = 0; interpreter && i < INTERPRETERS_MAX; i++) {
		tstate = 0;
		word_at(python, interpreter, layout->interpreter_threads, &tstate);
		for (unsigned int t = 0; tstate && t < VC_THREADS_MAX; t++) {
			uint32_t number = number_of(python, tstate);

			for (uint32_t n = 0; n < count; n++)
				if (threads[n].thread == number && !threads[n].python) {
					walk(python, tstate, &threads[n]);
					found += threads[n].pythons != 0;
				}
			if (!word_at(python, tstate, layout->thread_next, &tstate))
				break;
		}
		if (!word_at(python, interpreter, layout->interpreter_next, &interpreter))
			break;
	}
	return found;
}
