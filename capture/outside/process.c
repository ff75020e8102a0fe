/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads a small file whole; gives the length, the buffer ends with NUL. */
static size_t read_small(const char *path, char *buffer, size_t size)
{
	int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	buffer[0] = 0;
	if (descriptor < 0)
		return 0;
	length = read(descriptor, buffer, size - 1);
	close(descriptor);
	if (length < 0)
		length = 0;
	buffer[length] = 0;
	return (size_t)length;
}

bool vc_process_read(uint64_t pid, struct vc_process *ret)
{
	char path[64], text[1024], *at;
	unsigned long long parent, ticks;
	char state;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	if (!read_small(path, text, sizeof(text)))
		return false;
	at = strrchr(text, ')'); /* the name before it may hold anything */
	if (!at || sscanf(at + 1,
			  " %c %llu %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			  "%*d %*d %llu",
			  &state, &parent, &ticks) != 3)
		return false;
	*ret = (struct vc_process){
		.pid = pid, .parent_pid = parent, .start_ticks = ticks, .state = state};
	return true;
}

bool vc_process_boot_id(uint8_t ret[16])
{
	char text[64];
	size_t nibbles = 0;

	if (!read_small("/proc/sys/kernel/random/boot_id", text, sizeof(text)))
		return false;
	memset(ret, 0, 16);
	for (const char *at = text; *at && nibbles < 32; at++) {
		const char *digits = "0123456789abcdef", *found = strchr(digits, *at);

		if (!found)
			continue;
		ret[nibbles / 2] |= (uint8_t)((found - digits) << (nibbles % 2 ? 0 : 4));
		nibbles++;
	}
	return nibbles == 32;
}

uint64_t vc_process_namespace(void)
{
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/* The number of a process in its own namespace: the last one of the line NSpid. */
static uint64_t innermost(uint64_t pid)
{
	char path[64], text[4096], *line, *end;
	uint64_t number = 0;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/status", pid);
	if (!read_small(path, text, sizeof(text)))
		return 0;
	line = strstr(text, "\nNSpid:");
	for (line = line ? line + 7 : NULL; line && *line && *line != '\n'; line = end) {
		uint64_t next = strtoull(line, &end, 10);

		if (end == line)
			break;
		number = next;
	}
	return number;
}

uint64_t vc_process_here(uint64_t pid, uint64_t start_ticks, uint64_t pid_namespace)
{
	struct vc_process process;
	struct dirent *entry;
	uint64_t found = 0;
	DIR *list;

	if (!pid_namespace || pid_namespace == vc_process_namespace())
		return pid;
	list = opendir("/proc");
	while (list && !found && (entry = readdir(list))) {
		uint64_t number = strtoull(entry->d_name, NULL, 10);

		if (number && vc_process_read(number, &process) &&
		    process.start_ticks == start_ticks && innermost(number) == pid)
			found = number;
	}
	if (list)
		closedir(list);
	return found;
}

const char *vc_process_state_text(uint64_t pid, uint64_t start_ticks, const uint8_t boot_id[16],
				  uint64_t pid_namespace)
{
	struct vc_process process;
	uint8_t boot[16];
	uint64_t here;

	if (!vc_process_boot_id(boot))
		return "unknown";
	if (memcmp(boot, boot_id, sizeof(boot)) != 0)
		return "dead"; /* the system has started anew since */
	here = vc_process_here(pid, start_ticks, pid_namespace);
	if (!here) /* dead, or in a container that is not to be seen from here */
		return "unknown";
	pid = here;
	if (!vc_process_read(pid, &process) || process.start_ticks != start_ticks ||
	    process.state == 'Z' || process.state == 'X')
		return "dead";
	return process.state == 'T' || process.state == 't' ? "stopped" : "running";
}

bool vc_process_hides(uint64_t pid)
{
	char path[64], here[64], there[64];
	ssize_t a = readlink("/proc/self/ns/mnt", here, sizeof(here)), b;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/root/.", pid);
	if (access(path, X_OK) == 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/ns/mnt", pid);
	b = readlink(path, there, sizeof(there));
	return b < 0 || a != b || memcmp(here, there, (size_t)a) != 0;
}

void vc_process_command(uint64_t pid, char *buffer, size_t size)
{
	char path[64];
	size_t length;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/cmdline", pid);
	length = read_small(path, buffer, size);
	while (length && !buffer[length - 1])
		length--;
	for (size_t i = 0; i < length; i++)
		if (!buffer[i])
			buffer[i] = ' ';
}
