/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/python_lock.h"

#include <pthread.h>
#include <string.h>

#include "capture/inside/budget.h"
#include "capture/inside/python.h"
#include "capture/inside/python_parts.h"
#include "capture/inside/system.h"
#include "capture/inside/text.h"
#include "formats/python_lines.h"

#define INTERPRETERS_MAX 64
#define THREADS_MAX 4096
#define HOPS_MAX 64
#define TEXT_MAX 160u
#define LINES_MAX 8192u
/* Where a libc keeps the kernel's number of a thread: looked for in so many bytes of its descriptor. */
#define DESCRIPTOR_BYTES 2304u

/* Positions in the interpreter's own table, in 3.13 and 3.14; see VC_PYTHON_DEBUGS. */
enum { OWN_POINTER, OWN_LOCK, OWN_LOCKED, OWN_HOLDER, OWN_WORDS };
static const uint8_t own_position[OWN_WORDS][2] = {{14, 15}, {15, 16}, {17, 18}, {18, 19}};

struct lock {
	uint64_t locked, holder; /* addresses */
};

static uint64_t word_at(uint64_t address)
{
	uint64_t word;

	return vc_sys_peek(address, &word, sizeof(word)) ? word : 0;
}

/* ---- the lock ---- */

/* The interpreter that was made first: the last of the list. */
static uint64_t main_interpreter(const struct vc_python_interpreter *python)
{
	const struct vc_python_layout *layout = python->layout;
	uint64_t at = word_at(python->runtime + (uint64_t)layout->runtime_interpreters), next = at;

	for (int i = 0; i < INTERPRETERS_MAX && next; i++) {
		at = next;
		next = word_at(at + (uint64_t)layout->interpreter_next);
	}
	return next ? 0 : at;
}

static bool find_lock(const struct vc_python_interpreter *python, struct lock *ret)
{
	const struct vc_python_layout *layout = python->layout;
	uint64_t base = python->runtime, offset[OWN_WORDS] = {0};

	if (layout->lock_pointer >= 0) {
		base = main_interpreter(python);
		offset[OWN_POINTER] = (uint64_t)layout->lock_pointer;
		offset[OWN_LOCK] = (uint64_t)layout->lock_itself;
	}
	offset[OWN_LOCKED] = (uint64_t)layout->lock_locked;
	offset[OWN_HOLDER] = (uint64_t)layout->lock_holder;
	if (layout->version >= 0x030d) {
		base = main_interpreter(python);
		for (int i = 0; i < OWN_WORDS; i++)
			offset[i] = word_at(python->runtime +
					    8u * own_position[i][layout->version - 0x030d]);
	}
	/* it points to the lock in itself */
	if (!base || (offset[OWN_POINTER] &&
		      word_at(base + offset[OWN_POINTER]) != base + offset[OWN_LOCK]))
		return false;
	*ret = (struct lock){base + offset[OWN_LOCKED], base + offset[OWN_HOLDER]};
	return true;
}

static uint64_t holder_of(const struct lock *lock)
{
	int32_t locked = 0;

	if (!vc_sys_peek(lock->locked, &locked, sizeof(locked)) || locked != 1)
		return 0;
	return word_at(lock->holder);
}

/* Whether it is a thread of one of the interpreters. */
static bool is_thread(const struct vc_python_interpreter *python, uint64_t thread)
{
	const struct vc_python_layout *layout = python->layout;
	uint64_t interpreter = word_at(python->runtime + (uint64_t)layout->runtime_interpreters);

	for (int i = 0; i < INTERPRETERS_MAX && interpreter; i++) {
		uint64_t at = word_at(interpreter + (uint64_t)layout->interpreter_threads);

		for (int j = 0; j < THREADS_MAX && at; j++) {
			if (at == thread)
				return true;
			at = word_at(at + (uint64_t)layout->thread_next);
		}
		interpreter = word_at(interpreter + (uint64_t)layout->interpreter_next);
	}
	return false;
}

/* ---- the thread ---- */

/* What the kernel calls it, and its name; false: there is no such thread. */
static bool name_thread(uint64_t thread, struct vc_text *text)
{
	char path[64], name[32];
	struct vc_text to = vc_text_in(path, sizeof(path));
	long length;

	vc_text_add(&to, "/proc/self/task/");
	vc_text_number(&to, thread);
	vc_text_add(&to, "/comm");
	length = vc_read_small(path, name, sizeof(name));
	if (!thread || length <= 0)
		return false;
	vc_text_add(text, "thread ");
	vc_text_number(text, thread);
	vc_text_add(text, " (");
	for (long i = 0; i < length && name[i] && name[i] != '\n'; i++)
		vc_text_character(text, name[i]);
	vc_text_character(text, ')');
	return true;
}

/*
 * The kernel's number of a thread of which the interpreter has the libc's descriptor only (up to
 * 3.10): where it is in a descriptor is seen in this thread's own.
 */
static uint64_t number_of(uint64_t descriptor)
{
	int32_t own[DESCRIPTOR_BYTES / 4], number = 0, wanted = vc_sys_gettid();
	uint32_t place = 0;

	if (!vc_sys_peek((uint64_t)pthread_self(), own, sizeof(own)))
		return 0;
	while (place < DESCRIPTOR_BYTES / 4 && own[place] != wanted)
		place++;
	if (place == DESCRIPTOR_BYTES / 4 ||
	    !vc_sys_peek(descriptor + 4u * place, &number, sizeof(number)) || number <= 0)
		return 0;
	return (uint64_t)number;
}

static uint64_t kernel_number(const struct vc_python_layout *layout, uint64_t thread)
{
	if (layout->thread_native_id >= 0)
		return word_at(thread + (uint64_t)layout->thread_native_id);
	return number_of(word_at(thread + (uint64_t)layout->thread_id));
}

/* ---- what it runs ---- */

static void add_string(const struct vc_python_layout *layout, uint64_t string, bool last_part,
		       struct vc_text *text)
{
	char characters[TEXT_MAX + 1];
	uint64_t length = word_at(string + (uint64_t)layout->unicode_length);
	uint32_t state = (uint32_t)word_at(string + (uint64_t)layout->unicode_state);
	const char *from = characters;

	if (!string || !VC_PYTHON_STATE_COMPACT(state) || !VC_PYTHON_STATE_ASCII(state) ||
	    length > 4096) {
		vc_text_character(text, '?');
		return;
	}
	string += (uint64_t)layout->unicode_ascii;
	if (length > TEXT_MAX) { /* the end of a path is what tells */
		string += length - TEXT_MAX;
		length = TEXT_MAX;
	}
	if (!vc_sys_peek(string, characters, length))
		return;
	characters[length] = '\0';
	if (last_part && strrchr(characters, '/'))
		from = strrchr(characters, '/') + 1;
	vc_text_add(text, from);
}

static uint32_t line_of(const struct vc_python_layout *layout, uint64_t frame, uint64_t code)
{
	uint8_t lines[LINES_MAX];
	uint64_t table = word_at(code + (uint64_t)layout->code_line_table);
	uint64_t length = word_at(table + VC_PYTHON_OBJECT_SIZE);
	uint64_t at = word_at(frame + (uint64_t)layout->frame_instruction);
	uint32_t first = (uint32_t)word_at(code + (uint64_t)layout->code_first_line);

	if (layout->frame_unit)
		at = (uint64_t)(int32_t)at * (uint64_t)layout->frame_unit;
	else
		at -= code + (uint64_t)layout->code_instructions;
	if (length > sizeof(lines) ||
	    !vc_sys_peek(table + (uint64_t)layout->bytes_data, lines, length))
		return first;
	return vc_python_line(layout->version, first, lines, length, (int64_t)at < 0 ? 0 : at);
}

static bool is_mark(const struct vc_python_layout *layout, uint64_t frame)
{
	return layout->frame_owner >= 0 && layout->frame_entry < 0 &&
	       (word_at(frame + (uint64_t)layout->frame_owner) & 0xff) >= VC_PYTHON_OWNER_MARK;
}

/* Its innermost frame of Python, where it can be read. */
static void name_frame(const struct vc_python_layout *layout, uint64_t thread, struct vc_text *text)
{
	uint64_t frame, code;

	if (layout->thread_frame >= 0)
		frame = word_at(thread + (uint64_t)layout->thread_frame);
	else
		frame = word_at(word_at(thread + (uint64_t)layout->thread_cframe) +
				(uint64_t)layout->cframe_frame);
	for (int hops = 0; frame && is_mark(layout, frame) && hops < HOPS_MAX; hops++)
		frame = word_at(frame + (uint64_t)layout->frame_back);
	code = frame ? VC_PYTHON_REFERENCE(word_at(frame + (uint64_t)layout->frame_code)) : 0;
	if (!code)
		return;
	vc_text_add(text, " in ");
	add_string(layout, word_at(code + (uint64_t)(layout->code_qualified_name >= 0 ?
							     layout->code_qualified_name :
							     layout->code_name)),
		   false, text);
	vc_text_add(text, " of ");
	add_string(layout, word_at(code + (uint64_t)layout->code_file), true, text);
	vc_text_character(text, ':');
	vc_text_number(text, line_of(layout, frame, code));
}

bool vc_python_lock_holder(char *ret, size_t size)
{
	const struct vc_python_interpreter *python = vc_python_interpreter();
	struct vc_text text = vc_text_in(ret, size);
	struct lock lock;
	uint64_t thread;

	if (!python || !python->runtime || !find_lock(python, &lock))
		return false;
	thread = holder_of(&lock);
	if (!thread || !is_thread(python, thread) ||
	    !name_thread(kernel_number(python->layout, thread), &text))
		return false;
	name_frame(python->layout, thread, &text);
	return holder_of(&lock) == thread;
}
