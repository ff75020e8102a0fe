/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "victim.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void victim_trouble(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(2);
}

static void set_path(const char *name, const char *format, const char *path)
{
	char value[1024];

	snprintf(value, sizeof(value), format, path);
	setenv(name, value, 1);
}

static void run(const struct victim *victim, const char *bin, char *const arguments[],
		const char *const environment[])
{
	const char *library = getenv("PROOF_BIN"); /* of another build, to see a judge fail */
	struct rlimit none = {0, 0};
	char program[512];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &none); /* some abort on purpose */
	setenv("SIMCUDA_DEVICES", "3", 1);
	setenv("SIMCUDA_MEMORY", "8GiB", 1);
	setenv("SIMCUDA_MAP_ROWS", "16384", 1);
	set_path("SIMCUDA_MAP", "%s/map.%%p", victim->folder);
	setenv("VRAMCORE_DIR", victim->recordings, 1);
	setenv("VRAMCORE_OUT", victim->out, 1);
	set_path("LD_LIBRARY_PATH", "%s/simcuda", bin);
	for (size_t i = 0; environment && environment[i]; i++)
		putenv((char *)(uintptr_t)environment[i]);
	if (!getenv("PROOF_NO_RECORDER"))
		set_path("LD_PRELOAD", "%s/libvramcore.so", library ? library : bin);
	snprintf(program, sizeof(program), "%s/%s", bin, arguments[0]);
	execv(program, arguments);
	victim_trouble(program);
}

void victim_start(struct victim *victim, const char *bin, char *const arguments[],
		  const char *const environment[])
{
	memset(victim, 0, sizeof(*victim));
	snprintf(victim->folder, sizeof(victim->folder), "/dev/shm/vc-proof-XXXXXX");
	if (!mkdtemp(victim->folder))
		victim_trouble(victim->folder);
	snprintf(victim->recordings, sizeof(victim->recordings), "%s/recordings", victim->folder);
	snprintf(victim->out, sizeof(victim->out), "%s/out", victim->folder);
	if (mkdir(victim->recordings, 0700))
		victim_trouble(victim->recordings);
	victim->pid = fork();
	if (victim->pid < 0)
		victim_trouble("fork");
	victim_map(victim, victim->pid);
	if (!victim->pid)
		run(victim, bin, arguments, environment);
}

int victim_recording(struct victim *victim, pid_t pid)
{
	DIR *list = opendir(victim->recordings);
	struct dirent *entry;
	int count = 0;

	while (list && (entry = readdir(list))) {
		unsigned int boot;
		int found;

		if (sscanf(entry->d_name, "vramcore-%8x-%d-", &boot, &found) != 2 || found != pid)
			continue;
		snprintf(victim->recording, sizeof(victim->recording), "%s/%s", victim->recordings,
			 entry->d_name);
		count++;
	}
	if (list)
		closedir(list);
	return count;
}

void victim_map(struct victim *victim, pid_t pid)
{
	snprintf(victim->map, sizeof(victim->map), "%s/map.%d", victim->folder, (int)pid);
}

int victim_wait(struct victim *victim)
{
	int status = 0;

	while (waitpid(victim->pid, &status, 0) < 0)
		if (errno != EINTR)
			victim_trouble("waitpid");
	return status;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

void victim_clean(struct victim *victim)
{
	if (!getenv("PROOF_KEEP"))
		nftw(victim->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int victim_full(void)
{
	const char *full = getenv("VRAMCORE_FULL");

	return full && *full && strcmp(full, "0") != 0;
}
