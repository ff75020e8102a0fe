/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int read_task_file(uint64_t pid, uint32_t thread, const char *name, char *text, size_t size)
{
	char path[96];
	ssize_t length;
	int file, error;

	text[0] = 0;
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/task/%" PRIu32 "/%s", pid, thread, name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return errno;
	length = read(file, text, size - 1);
	error = length < 0 ? errno : 0;
	close(file);
	text[length < 0 ? 0 : length] = 0;
	return error;
}

static const char *state_text(char letter)
{
	switch (letter) {
	case 'R':
		return "running";
	case 'S':
	case 'I':
		return "waiting";
	case 'D':
		return "waiting, uninterruptible";
	case 'T':
	case 't':
		return "stopped";
	case 'Z':
	case 'X':
		return "ended";
	default:
		return "unknown";
	}
}

struct wait_call {
	long number;
	bool descriptor;
	const char *text;
};

static const struct wait_call *wait_call(long number)
{
	static const struct wait_call calls[] = {
#define VC_WAIT_CALL(name, descriptor, text) {SYS_##name, descriptor, text},
#include "capture/outside/wait_calls.def"
#undef VC_WAIT_CALL
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}

static void wait_text(uint64_t pid, long number, uint64_t first, char *text, size_t size)
{
	const struct wait_call *call = wait_call(number);
	char path[64], file[128];
	ssize_t length;

	if (!call) {
		snprintf(text, size, "system call %ld", number);
		return;
	}
	if (!call->descriptor) {
		snprintf(text, size, "%s", call->text);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%" PRIu64, pid, first & 0xffffffffu);
	length = readlink(path, file, sizeof(file) - 1);
	if (length <= 0)
		length = snprintf(file, sizeof(file), "descriptor %" PRIu64, first & 0xffffffffu);
	file[length] = 0;
	for (char *at = file; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	snprintf(text, size, "%s %s", call->text, file);
}

/* "running", "-1 SP PC", or "NUMBER A1 .. A6 SP PC". */
static void read_place(uint64_t pid, const char *line, struct vc_thread_stack *thread,
		       struct vc_thread_place *place)
{
	uint64_t word[8];
	char *end;
	long number = strtol(line, &end, 10);
	unsigned int words = 0;

	if (end == line)
		return;
	while (words < 8) {
		const char *at = end;

		word[words] = strtoull(at, &end, 16);
		if (end == at)
			break;
		words++;
	}
	if (number >= 0 && words == 8)
		wait_text(pid, number, word[0], thread->wait, sizeof(thread->wait));
	if ((number >= 0 && words == 8) || (number == -1 && words == 2)) {
		place->stack_pointer = word[words - 2];
		place->instruction = word[words - 1];
	}
}

bool vc_thread_look(uint64_t pid, uint32_t thread, struct vc_thread_stack *ret,
		    struct vc_thread_place *ret_place, int *ret_error)
{
	struct vc_thread_stack looked = {.thread = thread};
	struct vc_thread_place place = {0};
	char line[1024], *at;

	if (read_task_file(pid, thread, "stat", line, sizeof(line)))
		return false;
	at = strrchr(line, ')');
	if (!at || !at[1] || !at[2])
		return false;
	snprintf(looked.state, sizeof(looked.state), "%s", state_text(at[2]));
	read_task_file(pid, thread, "comm", looked.name, sizeof(looked.name));
	looked.name[strcspn(looked.name, "\n")] = 0;
	for (char *c = looked.name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	*ret_error = read_task_file(pid, thread, "syscall", line, sizeof(line));
	if (!*ret_error)
		read_place(pid, line, &looked, &place);
	*ret = looked;
	*ret_place = place;
	return true;
}
