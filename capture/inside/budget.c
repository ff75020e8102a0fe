/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/budget.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "capture/inside/system.h"

#define VC_BUDGET_SHARE 8
#define VC_ADDRESS_SHARE 32
#define VC_PAGE 4096u

long vc_read_small(const char *path, char *buffer, size_t size)
{
	int descriptor = vc_sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	size_t length = 0;
	long got = 0;

	if (descriptor < 0)
		return descriptor;
	while (length < size - 1) {
		got = vc_sys_read(descriptor, buffer + length, size - 1 - length);
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	vc_sys_close(descriptor);
	buffer[length] = '\0';
	return got < 0 ? got : (long)length;
}

uint64_t vc_budget_number(const char **text)
{
	const char *at = *text;
	uint64_t value = 0;

	if (*at < '0' || *at > '9')
		return UINT64_MAX;
	while (*at >= '0' && *at <= '9') {
		if (value > (UINT64_MAX - 9) / 10)
			return UINT64_MAX;
		value = value * 10 + (uint64_t)(*at++ - '0');
	}
	*text = at;
	return value;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t free_in_folder(int descriptor)
{
	struct statfs facts;

	if (vc_syscall(SYS_fstatfs, descriptor, (long)&facts, 0, 0, 0, 0) < 0)
		return UINT64_MAX;
	/* A RAM disk without a limit of its own says 0 blocks. */
	if (facts.f_blocks == 0)
		return UINT64_MAX;
	return (uint64_t)facts.f_bavail * (uint64_t)facts.f_bsize;
}

static uint64_t free_memory(void)
{
	char buffer[1024];
	const char *at;
	uint64_t kibibytes;

	if (vc_read_small("/proc/meminfo", buffer, sizeof(buffer)) <= 0)
		return UINT64_MAX;
	at = strstr(buffer, "MemAvailable:");
	if (!at)
		return UINT64_MAX;
	at += strlen("MemAvailable:");
	while (*at == ' ')
		at++;
	kibibytes = vc_budget_number(&at);
	return kibibytes >= UINT64_MAX / 1024 ? UINT64_MAX : kibibytes * 1024;
}

static uint64_t limit_in_file(const char *path)
{
	char buffer[64];
	const char *at = buffer;

	if (vc_read_small(path, buffer, sizeof(buffer)) <= 0)
		return UINT64_MAX;
	return vc_budget_number(&at); /* "max" is no number: no limit */
}

/* Smallest limit of the group at `group` and of all groups above it. */
static uint64_t limit_of_group(const char *mount, const char *group, size_t length,
			       const char *file)
{
	static char path[1024]; /* off the host's stack; one thread calls */
	size_t mount_length = strlen(mount), file_length = strlen(file);
	uint64_t limit = UINT64_MAX;

	if (mount_length + length + file_length + 2 > sizeof(path))
		length = 0;
	memcpy(path, mount, mount_length);
	memcpy(path + mount_length, group, length);
	for (;;) {
		while (length > 0 && group[length - 1] == '/')
			length--;
		path[mount_length + length] = '/';
		memcpy(path + mount_length + length + 1, file, file_length + 1);
		limit = smaller(limit, limit_in_file(path));
		if (length == 0)
			return limit;
		while (length > 0 && group[length - 1] != '/')
			length--;
	}
}

/* Lines of /proc/self/cgroup: "0::/group" (version 2), "7:cpu,memory:/group" (version 1). */
static uint64_t limit_of_line(const char *line, size_t length)
{
	const char *names = memchr(line, ':', length), *group;
	size_t names_length;

	if (!names)
		return UINT64_MAX;
	names++;
	group = memchr(names, ':', length - (size_t)(names - line));
	if (!group)
		return UINT64_MAX;
	names_length = (size_t)(group - names);
	group++;
	length -= (size_t)(group - line);
	if (names_length == 0)
		return limit_of_group("/sys/fs/cgroup", group, length, "memory.max");
	for (size_t i = 0; i + 6 <= names_length; i++)
		if (!memcmp(names + i, "memory", 6))
			return limit_of_group("/sys/fs/cgroup/memory", group, length,
					      "memory.limit_in_bytes");
	return UINT64_MAX;
}

static uint64_t limit_of_groups(void)
{
	static char buffer[2048];
	long length = vc_read_small("/proc/self/cgroup", buffer, sizeof(buffer));
	uint64_t limit = UINT64_MAX;

	for (long at = 0; at < length;) {
		const char *end = memchr(buffer + at, '\n', (size_t)(length - at));
		long next = end ? end - buffer : length;

		limit = smaller(limit, limit_of_line(buffer + at, (size_t)(next - at)));
		at = next + 1;
	}
	return limit;
}

bool vc_budget_addresses(uint64_t bytes)
{
	struct rlimit limit;
	char buffer[64];
	const char *at = buffer;
	uint64_t pages;

	if (vc_syscall(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)&limit, 0, 0) < 0 ||
	    limit.rlim_cur == RLIM_INFINITY)
		return true;
	if (vc_read_small("/proc/self/statm", buffer, sizeof(buffer)) <= 0)
		return false;
	pages = vc_budget_number(&at);
	return pages < limit.rlim_cur / VC_PAGE &&
	       bytes <= (limit.rlim_cur - pages * VC_PAGE) / VC_ADDRESS_SHARE;
}

uint64_t vc_budget(int descriptor, uint64_t wanted)
{
	uint64_t free_bytes = smaller(free_in_folder(descriptor), free_memory());

	free_bytes = smaller(free_bytes, limit_of_groups());
	return smaller(wanted, free_bytes / VC_BUDGET_SHARE);
}
