/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyze/symbols_private.h"

enum { PATIENCE_MILLISECONDS = 2000, PATH_LIMIT = 4096 };
static const char PROGRAM[] = "debuginfod-find";

extern char **environ;

static int64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Starts it with its output in a pipe and nothing else of ours; 0 or an errno. */
static int start(const char *build_id, pid_t *ret_child, int *ret_output)
{
	char program[sizeof(PROGRAM)], what[] = "debuginfo", id[VC_BUILD_ID_HEX];
	char *arguments[] = {program, what, id, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2], error;

	memcpy(program, PROGRAM, sizeof(PROGRAM));
	snprintf(id, sizeof(id), "%s", build_id);
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	error = posix_spawn_file_actions_init(&actions);
	if (!error) {
		posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
		posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
		posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
		error = posix_spawnp(ret_child, PROGRAM, &actions, NULL, arguments, environ);
		posix_spawn_file_actions_destroy(&actions);
	}
	close(ends[1]);
	if (error)
		close(ends[0]);
	else
		*ret_output = ends[0];
	return error;
}

/* Its first line, read until it ends or time is up. False: time is up. */
static bool listen_to(int output, int64_t end, char *path, size_t size)
{
	size_t used = 0;

	while (used + 1 < size) {
		struct pollfd ready = {.fd = output, .events = POLLIN};
		int64_t left = end - milliseconds();
		ssize_t got;

		if (left <= 0 || (poll(&ready, 1, (int)left) == 0))
			return false;
		got = read(output, path + used, size - 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	path[used] = '\0';
	path[strcspn(path, "\n")] = '\0';
	return true;
}

/* Its wait status. False: time is up; it is killed. */
static bool wait_for(pid_t child, int64_t end, int *ret_status)
{
	static const struct timespec moment = {.tv_nsec = 5000000};

	for (;;) {
		pid_t found = waitpid(child, ret_status, WNOHANG);

		if (found > 0)
			return true;
		if ((found < 0 && errno != EINTR) || milliseconds() >= end)
			break;
		nanosleep(&moment, NULL);
	}
	kill(child, SIGKILL);
	while (waitpid(child, ret_status, 0) < 0 && errno == EINTR)
		;
	return false;
}

char *vc_ask_for_debug(struct vc_module_files *files, const char *build_id)
{
	char path[PATH_LIMIT] = "";
	int output = -1, status = 0, error;
	int64_t end = milliseconds() + PATIENCE_MILLISECONDS;
	pid_t child;
	bool heard;

	error = start(build_id, &child, &output);
	if (error) {
		vc_detail_add(files, "%s: %s", PROGRAM,
			      error == ENOENT ? "not installed" : strerror(error));
		return NULL;
	}
	heard = listen_to(output, end, path, sizeof(path));
	close(output);
	heard = wait_for(child, heard ? end : 0, &status) && heard;
	if (!heard)
		vc_detail_add(files, "%s: no answer in 2 s", PROGRAM);
	else if (!WIFEXITED(status) || WEXITSTATUS(status) || path[0] != '/')
		vc_detail_add(files, "%s: has none", PROGRAM);
	else
		return strdup(path);
	return NULL;
}
