/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/thread_stacks.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "capture/outside/native_stacks.h"
#include "capture/outside/python_stacks.h"
#include "capture/outside/threads.h"

/* What is known while one process is looked at. */
struct look {
	uint64_t pid;
	struct timespec end;
	struct vc_memory memory;
	struct vc_native *native;
	struct vc_thread_place *place;   /* by thread */
	struct vc_thread_stacks *stacks;
	int place_error, memory_error;
	uint32_t late;                   /* threads that the time did not suffice for */
};

static bool read_process(void *self, uint64_t address, void *buffer, size_t length)
{
	struct look *look = self;
	struct iovec to = {.iov_base = buffer, .iov_len = length};
	struct iovec from = {.iov_base = (void *)(uintptr_t)address, .iov_len = length};

	if (process_vm_readv((pid_t)look->pid, &to, 1, &from, 1, 0) == (ssize_t)length)
		return true;
	if (errno == EPERM || errno == EACCES)
		look->memory_error = errno;
	return false;
}

static bool late(const struct look *look)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > look->end.tv_sec ||
	       (now.tv_sec == look->end.tv_sec && now.tv_nsec >= look->end.tv_nsec);
}

static int list_threads(struct look *look)
{
	struct vc_thread_stacks *stacks = look->stacks;
	struct dirent *entry;
	char folder[64];
	DIR *list;

	snprintf(folder, sizeof(folder), "/proc/%" PRIu64 "/task", look->pid);
	list = opendir(folder);
	if (!list)
		return VC_E_PERMISSION;
	stacks->thread = calloc(VC_THREADS_MAX, sizeof(*stacks->thread));
	look->place = calloc(VC_THREADS_MAX, sizeof(*look->place));
	while (stacks->thread && look->place && (entry = readdir(list)) &&
	       stacks->threads < VC_THREADS_MAX) {
		uint32_t number = (uint32_t)strtoul(entry->d_name, NULL, 10);
		int error = 0;

		if (number && vc_thread_look(look->pid, number, &stacks->thread[stacks->threads],
					     &look->place[stacks->threads], &error))
			stacks->threads++;
		if (error)
			look->place_error = error;
	}
	closedir(list);
	return stacks->thread && look->place ? 0 : VC_E_NO_MEMORY;
}

/* ---- native ---- */

static bool same_place(const struct look *look, uint32_t index)
{
	struct vc_thread_stack thread;
	struct vc_thread_place place;
	int error;

	return vc_thread_look(look->pid, look->stacks->thread[index].thread, &thread, &place, &error) &&
	       place.stack_pointer == look->place[index].stack_pointer &&
	       place.instruction == look->place[index].instruction;
}

/* A thread that moved meanwhile has no stack: part of one and part of another would be none. */
static void unwind_thread(struct look *look, uint32_t index)
{
	struct vc_thread_stack *thread = &look->stacks->thread[index];
	const struct vc_thread_place *place = &look->place[index];
	uint64_t frames[VC_NATIVE_FRAMES_MAX];
	uint32_t count, guessed_from;

	if (!place->stack_pointer)
		return;
	count = vc_native_unwind(look->native, place->stack_pointer, place->instruction, frames,
				 VC_NATIVE_FRAMES_MAX, &guessed_from);
	if (!count || !same_place(look, index))
		return;
	thread->native = malloc(count * sizeof(*frames));
	if (!thread->native)
		return;
	memcpy(thread->native, frames, count * sizeof(*frames));
	thread->natives = count;
	thread->guessed_from = guessed_from;
}

static bool file_known(const struct vc_thread_stacks *stacks, uint64_t address)
{
	for (uint32_t i = 0; i < stacks->files; i++)
		if (address >= stacks->file[i].low && address < stacks->file[i].high)
			return true;
	return false;
}

void vc_native_files(struct vc_native *native, struct vc_thread_stacks *stacks)
{
	for (uint32_t t = 0; t < stacks->threads; t++)
		for (uint32_t f = 0; f < stacks->thread[t].natives; f++) {
			uint64_t address = stacks->thread[t].native[f] - (f ? 1 : 0);
			struct vc_mapped_file file, *grown;

			if (file_known(stacks, address) || !vc_native_file(native, address, &file))
				continue;
			grown = realloc(stacks->file, (stacks->files + 1) * sizeof(*grown));
			if (!grown) {
				free(file.path);
				return;
			}
			stacks->file = grown;
			stacks->file[stacks->files++] = file;
		}
}

/* ---- Python ---- */

static uint16_t python_version(struct vc_native *native, const struct vc_memory *memory)
{
	uint64_t address, version;

	if (vc_native_symbol(native, "Py_Version", &address))
		return vc_memory_word(memory, address, &version) ? (uint16_t)(version >> 16) : 0;
	/* Before 3.11 no variable tells: functions that came with a version do. */
	if (vc_native_symbol(native, "Py_Is", &address))
		return 0x030a;
	return vc_native_symbol(native, "PyFrame_GetBack", &address) ? 0x0309 : 0;
}

static void say(struct vc_thread_stacks *stacks, const char *text)
{
	size_t used = strlen(stacks->missing);

	snprintf(stacks->missing + used, sizeof(stacks->missing) - used, "%s%s", used ? "; " : "",
		 text);
}

void vc_python_of_threads(struct vc_native *native, const struct vc_memory *memory,
			  struct vc_thread_stacks *stacks)
{
	struct vc_python python;
	uint64_t runtime;
	char text[96];
	uint16_t version;

	if (!vc_native_symbol(native, "_PyRuntime", &runtime))
		return; /* no interpreter */
	version = python_version(native, memory);
	if (vc_python_open(&python, memory, runtime, version)) {
		vc_python_stacks(&python, stacks->thread, stacks->threads);
		return;
	}
	snprintf(text, sizeof(text), "Python %u.%u is not read%s", version >> 8, version & 0xffu,
		 python.free_threaded ? ": it has no global interpreter lock" : "");
	say(stacks, text);
}

/* ---- all ---- */

static void say_what_is_missing(struct look *look)
{
	char text[128];

	if (look->place_error || look->memory_error) {
		snprintf(text, sizeof(text), "stacks: %s (needs the same user, or CAP_SYS_PTRACE)",
			 strerror(look->place_error ? look->place_error : look->memory_error));
		say(look->stacks, text);
	}
	if (!vc_native_available())
		say(look->stacks, "native stacks: this build has no libdw");
	if (look->late) {
		snprintf(text, sizeof(text), "stacks of %" PRIu32 " threads: out of time", look->late);
		say(look->stacks, text);
	}
}

int vc_thread_stacks_read(uint64_t pid, unsigned int seconds, struct vc_thread_stacks *ret)
{
	struct vc_thread_stacks stacks = {0};
	struct look look = {.pid = pid, .stacks = &stacks};
	int error;

	clock_gettime(CLOCK_MONOTONIC, &look.end);
	look.end.tv_sec += seconds;
	look.memory = (struct vc_memory){.read = read_process, .self = &look};
	error = list_threads(&look);
	if (!error && !look.place_error)
		look.native = vc_native_open(pid, &look.memory);
	if (look.native) {
		vc_python_of_threads(look.native, &look.memory, &stacks);
		for (uint32_t i = 0; i < stacks.threads; i++) {
			if (late(&look))
				look.late++;
			else
				unwind_thread(&look, i);
		}
		vc_native_files(look.native, &stacks);
	}
	say_what_is_missing(&look);
	vc_native_close(look.native);
	free(look.place);
	if (error)
		vc_thread_stacks_free(&stacks);
	else
		*ret = stacks;
	return error;
}

void vc_thread_stacks_free(struct vc_thread_stacks *stacks)
{
	for (uint32_t t = 0; t < stacks->threads; t++) {
		for (uint32_t f = 0; f < stacks->thread[t].pythons; f++) {
			free(stacks->thread[t].python[f].function);
			free(stacks->thread[t].python[f].file);
		}
		free(stacks->thread[t].python);
		free(stacks->thread[t].native);
	}
	free(stacks->thread);
	for (uint32_t i = 0; i < stacks->files; i++)
		free(stacks->file[i].path);
	free(stacks->file);
	memset(stacks, 0, sizeof(*stacks));
}
