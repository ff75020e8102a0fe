/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/locate.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/outside/process.h"
#include "formats/walk.h"

struct search {
	int (*visit)(void *self, const struct vc_located *found);
	int (*visit_folder)(void *self, const char *path);
	void *self;
};

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static bool ends(const char *text, const char *end)
{
	size_t length = strlen(text), end_length = strlen(end);

	return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* A file that may be a recording: peeks, and tells the visitor when it is one. */
static int offer(const struct search *search, const char *path, int descriptor)
{
	struct vc_recording_source source;
	struct vc_recording_summary summary;
	struct stat status;
	int result = 0;

	if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
	    vc_recording_source_descriptor(descriptor, &source) == 0 &&
	    vc_recording_peek(&source, &summary) == 0) {
		struct vc_located found = {
			.path = path,
			.descriptor = descriptor,
			.summary = &summary,
			.state = vc_process_state_text(summary.pid, summary.start_ticks,
						       summary.boot_id, summary.pid_namespace),
			.user = status.st_uid,
		};

		result = search->visit(search->self, &found);
	}
	return result;
}

static int look_into(const struct search *search, const char *folder, int depth)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;
	int result = 0;

	while (directory && !result && (entry = readdir(directory))) {
		char path[PATH_MAX];
		int descriptor;

		if (!begins(entry->d_name, VC_RECORDING_PREFIX) ||
		    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >=
			    (int)sizeof(path))
			continue;
		if (begins(entry->d_name, VC_RUN_FOLDER_PREFIX) && depth == 0) {
			if (search->visit_folder)
				result = search->visit_folder(search->self, path);
			if (!result && search->visit)
				result = look_into(search, path, depth + 1);
			continue;
		}
		if (!search->visit || !ends(entry->d_name, VC_RECORDING_SUFFIX))
			continue;
		descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (descriptor < 0)
			continue;
		result = offer(search, path, descriptor);
		close(descriptor);
	}
	if (directory)
		closedir(directory);
	return result;
}

static const char *only;

void vc_locate_only(const char *folder)
{
	only = folder;
}

static int look_everywhere(const struct search *search)
{
	const char *chosen = getenv("VRAMCORE_DIR");
	int result = 0;

	if (only)
		return look_into(search, only, 0);
	if (chosen && *chosen && strcmp(chosen, "/dev/shm") != 0)
		result = look_into(search, chosen, 0);
	return result ? result : look_into(search, "/dev/shm", 0);
}

int vc_locate_all(int (*visit)(void *self, const struct vc_located *found), void *self)
{
	struct search search = {.visit = visit, .self = self};

	return look_everywhere(&search);
}

int vc_locate_run_folders(int (*visit)(void *self, const char *path), void *self)
{
	struct search search = {.visit_folder = visit, .self = self};

	return look_everywhere(&search);
}

struct wanted {
	uint64_t pid, newest;
	int descriptor;
	char *path;
	struct vc_recording_summary *summary;
};

static int keep_newest(void *self, const struct vc_located *found)
{
	struct wanted *wanted = self;
	int descriptor;

	if (vc_process_here(found->summary->pid, found->summary->start_ticks,
			    found->summary->pid_namespace) != wanted->pid ||
	    found->summary->start_time < wanted->newest)
		return 0;
	descriptor = fcntl(found->descriptor, F_DUPFD_CLOEXEC, 0);
	if (descriptor < 0)
		return 0;
	if (wanted->descriptor >= 0)
		close(wanted->descriptor);
	wanted->descriptor = descriptor;
	wanted->newest = found->summary->start_time;
	snprintf(wanted->path, PATH_MAX, "%s", found->path);
	*wanted->summary = *found->summary;
	return 0;
}

/* A memfd is open in the agent's own descriptor table, which /proc shows under its thread. */
static void look_into_threads(struct wanted *wanted)
{
	const struct search search = {.visit = keep_newest, .self = wanted};
	char tasks[64];
	DIR *threads;
	struct dirent *thread;

	snprintf(tasks, sizeof(tasks), "/proc/%" PRIu64 "/task", wanted->pid);
	threads = opendir(tasks);
	while (threads && (thread = readdir(threads))) {
		char folder[512];
		DIR *descriptors;
		struct dirent *entry;

		snprintf(folder, sizeof(folder), "%s/%s/fd", tasks, thread->d_name);
		descriptors = thread->d_name[0] == '.' ? NULL : opendir(folder);
		while (descriptors && (entry = readdir(descriptors))) {
			char path[1024], target[64];
			ssize_t length;
			int descriptor;

			snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
			length = readlink(path, target, sizeof(target) - 1);
			if (length <= 0)
				continue;
			target[length] = 0;
			if (!begins(target, "/memfd:vramcore"))
				continue;
			descriptor = open(path, O_RDONLY | O_CLOEXEC);
			if (descriptor < 0)
				continue;
			offer(&search, path, descriptor);
			close(descriptor);
		}
		if (descriptors)
			closedir(descriptors);
	}
	if (threads)
		closedir(threads);
}

/* A process in a container has a /dev/shm of its own, which is to be seen under its root. */
static void look_into_root(struct wanted *wanted)
{
	const struct search search = {.visit = keep_newest, .self = wanted};
	const char *chosen = getenv("VRAMCORE_DIR");
	char folder[PATH_MAX];

	if (only)
		return;
	snprintf(folder, sizeof(folder), "/proc/%" PRIu64 "/root/dev/shm", wanted->pid);
	look_into(&search, folder, 0);
	if (chosen && *chosen && strcmp(chosen, "/dev/shm") != 0 &&
	    snprintf(folder, sizeof(folder), "/proc/%" PRIu64 "/root%s", wanted->pid, chosen) <
		    (int)sizeof(folder))
		look_into(&search, folder, 0);
}

int vc_locate_process(uint64_t pid, char *ret_path, struct vc_recording_summary *ret_summary)
{
	struct wanted wanted = {
		.pid = pid, .descriptor = -1, .path = ret_path, .summary = ret_summary};

	vc_locate_all(keep_newest, &wanted);
	look_into_threads(&wanted);
	if (wanted.descriptor < 0)
		look_into_root(&wanted);
	return wanted.descriptor;
}

void vc_locate_remove_walks(const char *folder, const char *name)
{
	size_t length = strlen(name), suffix = strlen(VC_WALK_SUFFIX);
	DIR *directory = opendir(folder);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (!strncmp(entry->d_name, name, length) &&
		    !strncmp(entry->d_name + length, VC_WALK_SUFFIX, suffix))
			unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
}
