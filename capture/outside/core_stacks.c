/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/core_stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/outside/native_stacks.h"
#include "capture/outside/python_stacks.h"

#define ANSWER_MAX (64u << 20)

/* ---- memory ---- */

struct core_memory {
	const struct vc_core *core;
	const char *path; /* of the file that was read last */
	int descriptor;
};

static int open_mapped(struct core_memory *memory, const char *path)
{
	struct stat about;

	if (memory->path == path)
		return memory->descriptor;
	if (memory->descriptor >= 0)
		close(memory->descriptor);
	memory->path = path;
	memory->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (memory->descriptor >= 0 &&
	    (fstat(memory->descriptor, &about) || !S_ISREG(about.st_mode))) {
		close(memory->descriptor);
		memory->descriptor = -1;
	}
	return memory->descriptor;
}

/* What a core leaves out of the interpreter's file, its constants above all, is in that file. */
static bool read_mapped(struct core_memory *memory, uint64_t address, void *buffer, size_t length)
{
	for (uint64_t i = 0; i < memory->core->mappings; i++) {
		const struct vc_core_mapping *mapping = &memory->core->mapping[i];
		int descriptor;

		if (address < mapping->start || address >= mapping->end ||
		    length > mapping->end - address || !strstr(mapping->path, "python"))
			continue;
		descriptor = open_mapped(memory, mapping->path);
		return descriptor >= 0 &&
		       pread(descriptor, buffer, length,
			     (off_t)(mapping->file_offset + (address - mapping->start))) ==
			       (ssize_t)length;
	}
	return false;
}

static bool read_core_memory(void *self, uint64_t address, void *buffer, size_t length)
{
	struct core_memory *memory = self;

	return vc_core_read(memory->core, address, buffer, length) == length ||
	       read_mapped(memory, address, buffer, length);
}

/* ---- in a process of its own ---- */

struct answer {
	FILE *to;
};

static void put_number(struct answer *answer, uint64_t number)
{
	fwrite(&number, sizeof(number), 1, answer->to);
}

static void put_text(struct answer *answer, const char *text)
{
	put_number(answer, strlen(text));
	fwrite(text, 1, strlen(text), answer->to);
}

static void put_thread(struct answer *answer, const struct vc_thread_stack *thread)
{
	put_number(answer, thread->thread);
	put_text(answer, thread->name);
	put_text(answer, thread->state);
	put_text(answer, thread->wait);
	put_number(answer, thread->module_object);
	put_number(answer, thread->natives);
	for (uint32_t i = 0; i < thread->natives; i++)
		put_number(answer, thread->native[i]);
	put_number(answer, thread->pythons);
	for (uint32_t i = 0; i < thread->pythons; i++) {
		put_text(answer, thread->python[i].function);
		put_text(answer, thread->python[i].file);
		put_number(answer, thread->python[i].line);
	}
}

static void put_stacks(struct answer *answer, const struct vc_thread_stacks *stacks)
{
	put_text(answer, stacks->missing);
	put_number(answer, stacks->threads);
	for (uint32_t i = 0; i < stacks->threads; i++)
		put_thread(answer, &stacks->thread[i]);
	put_number(answer, stacks->files);
	for (uint32_t i = 0; i < stacks->files; i++) {
		put_number(answer, stacks->file[i].low);
		put_number(answer, stacks->file[i].high);
		put_number(answer, stacks->file[i].bias);
		put_text(answer, stacks->file[i].path);
		put_text(answer, stacks->file[i].build_id);
	}
}

static void name_states(const struct vc_core *core, struct vc_thread_stacks *stacks)
{
	for (uint32_t i = 0; i < stacks->threads; i++) {
		struct vc_thread_stack *thread = &stacks->thread[i];

		/* the kernel writes the thread that died first */
		if (!i && core->signal) {
			snprintf(thread->state, sizeof(thread->state), "died: %.24s",
				 strsignal(core->signal));
		} else {
			snprintf(thread->state, sizeof(thread->state), "as the core was written");
		}
		if (thread->thread == core->pid)
			snprintf(thread->name, sizeof(thread->name), "%s", core->program);
	}
}

static void work(const struct vc_core *core, int output)
{
	struct core_memory memory = {.core = core, .descriptor = -1};
	const struct vc_memory reader = {.read = read_core_memory, .self = &memory};
	struct answer answer = {.to = fdopen(output, "w")};
	struct vc_thread_stacks stacks = {0};
	struct vc_native *native;

	if (!answer.to)
		_exit(1);
	unsetenv("DEBUGINFOD_URLS"); /* libdw would ask there by itself */
	native = vc_native_open_core(core->descriptor, &reader);
	if (native) {
		vc_native_core_threads(native, &stacks);
		name_states(core, &stacks);
		vc_python_of_threads(native, &reader, &stacks);
		vc_native_files(native, &stacks);
	} else {
		snprintf(stacks.missing, sizeof(stacks.missing), "stacks: %s",
			 vc_native_available() ? "the core does not tell its threads" :
						 "this build has no libdw");
	}
	put_stacks(&answer, &stacks);
	_exit(fflush(answer.to) ? 1 : 0);
}

/* ---- the answer ---- */

struct answered {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t get_number(struct answered *answered, uint64_t most)
{
	uint64_t number = 0;

	if ((size_t)(answered->end - answered->at) < sizeof(number)) {
		answered->bad = true;
		return 0;
	}
	memcpy(&number, answered->at, sizeof(number));
	answered->at += sizeof(number);
	if (number > most) {
		answered->bad = true;
		return 0;
	}
	return number;
}

/* NULL and `bad` where there is none, or no memory. */
static char *get_text(struct answered *answered)
{
	size_t length = get_number(answered, (uint64_t)(answered->end - answered->at));
	char *text;

	/* the number itself took some of it */
	if (answered->bad || length > (size_t)(answered->end - answered->at)) {
		answered->bad = true;
		return NULL;
	}
	text = strndup((const char *)answered->at, length);
	answered->at += length;
	answered->bad |= !text;
	return text;
}

static void get_text_into(struct answered *answered, char *to, size_t size)
{
	char *text = get_text(answered);

	snprintf(to, size, "%s", text ? text : "");
	free(text);
}

static void get_thread(struct answered *answered, struct vc_thread_stack *thread)
{
	uint64_t count;

	thread->thread = (uint32_t)get_number(answered, UINT32_MAX);
	get_text_into(answered, thread->name, sizeof(thread->name));
	get_text_into(answered, thread->state, sizeof(thread->state));
	get_text_into(answered, thread->wait, sizeof(thread->wait));
	thread->module_object = get_number(answered, UINT64_MAX);
	count = get_number(answered, VC_NATIVE_FRAMES_MAX);
	thread->native = calloc(count ? count : 1, sizeof(*thread->native));
	answered->bad |= !thread->native;
	for (; !answered->bad && thread->natives < count; thread->natives++)
		thread->native[thread->natives] = get_number(answered, UINT64_MAX);
	thread->guessed_from = thread->natives;
	count = get_number(answered, VC_PYTHON_FRAMES_MAX);
	thread->python = calloc(count ? count : 1, sizeof(*thread->python));
	answered->bad |= !thread->python;
	for (; !answered->bad && thread->pythons < count; thread->pythons++) {
		struct vc_python_frame *frame = &thread->python[thread->pythons];

		frame->function = get_text(answered);
		frame->file = get_text(answered);
		frame->line = (uint32_t)get_number(answered, UINT32_MAX);
	}
}

static int get_stacks(struct answered *answered, struct vc_thread_stacks *ret)
{
	struct vc_thread_stacks stacks = {0};
	uint64_t count;

	get_text_into(answered, stacks.missing, sizeof(stacks.missing));
	count = get_number(answered, VC_THREADS_MAX);
	stacks.thread = calloc(count ? count : 1, sizeof(*stacks.thread));
	answered->bad |= !stacks.thread;
	for (; !answered->bad && stacks.threads < count; stacks.threads++)
		get_thread(answered, &stacks.thread[stacks.threads]);
	count = get_number(answered, UINT16_MAX);
	stacks.file = calloc(count ? count : 1, sizeof(*stacks.file));
	answered->bad |= !stacks.file;
	for (; !answered->bad && stacks.files < count; stacks.files++) {
		struct vc_mapped_file *file = &stacks.file[stacks.files];

		file->low = get_number(answered, UINT64_MAX);
		file->high = get_number(answered, UINT64_MAX);
		file->bias = get_number(answered, UINT64_MAX);
		file->path = get_text(answered);
		get_text_into(answered, file->build_id, sizeof(file->build_id));
	}
	if (answered->bad) {
		vc_thread_stacks_free(&stacks);
		return VC_E_CORRUPT;
	}
	*ret = stacks;
	return 0;
}

static int64_t milliseconds_left(const struct timespec *end)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)(end->tv_sec - now.tv_sec) * 1000 + (end->tv_nsec - now.tv_nsec) / 1000000;
}

/* All that comes until the other end is closed; false where it takes too long or is too much. */
static bool read_answer(int input, unsigned int seconds, uint8_t **ret, size_t *ret_length)
{
	uint8_t *buffer = NULL;
	size_t length = 0, room = 0;
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	for (;;) {
		struct pollfd wait = {.fd = input, .events = POLLIN};
		int64_t left = milliseconds_left(&end);
		ssize_t got;

		if (left <= 0 || poll(&wait, 1, (int)left) == 0)
			break;
		if (length == room) {
			uint8_t *larger = room < ANSWER_MAX ? realloc(buffer, room ? room * 2 : 65536) :
							      NULL;

			if (!larger)
				break;
			buffer = larger;
			room = room ? room * 2 : 65536;
		}
		got = read(input, buffer + length, room - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			*ret = buffer;
			*ret_length = length;
			return got == 0;
		}
		length += (size_t)got;
	}
	*ret = buffer;
	*ret_length = length;
	return false;
}

static void limit_itself(void)
{
	const struct rlimit none = {0, 0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &none);
}

int vc_core_stacks(const struct vc_core *core, unsigned int seconds, struct vc_thread_stacks *ret)
{
	struct answered answered = {0};
	uint8_t *buffer = NULL;
	size_t length = 0;
	int ends[2], error = VC_E_CORRUPT;
	bool whole;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return VC_E_IO;
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		limit_itself();
		work(core, ends[1]);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return VC_E_IO;
	}
	whole = read_answer(ends[0], seconds, &buffer, &length);
	close(ends[0]);
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	answered.at = buffer;
	answered.end = buffer ? buffer + length : NULL;
	if (whole && length)
		error = get_stacks(&answered, ret);
	free(buffer);
	if (!error)
		return 0;
	*ret = (struct vc_thread_stacks){0};
	snprintf(ret->missing, sizeof(ret->missing), "stacks: %s",
		 whole ? "libdw failed on this core" : "not read in time");
	return 0;
}
