/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that a program can see of itself, as text without addresses.
 *
 * Left out on purpose: threads named "vramcore", the variables LD_PRELOAD, VRAMCORE_* and NVTX_*, and
 * the C library's own two signals (32, 33), which it handles from the first thread on.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static void show_descriptors(void)
{
	for (int i = 0; i < 4096; i++) {
		char path[64], target[512];
		int flags = fcntl(i, F_GETFD), status;
		ssize_t length;

		if (flags < 0)
			continue;
		status = fcntl(i, F_GETFL);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		length = readlink(path, target, sizeof(target) - 1);
		target[length > 0 ? length : 0] = '\0';
		if (strchr(target, '['))
			*strchr(target, '[') = '\0';
		printf("descriptor %d: %s %x %x\n", i, target, (unsigned int)flags,
		       (unsigned int)status);
	}
}

static void show_set(const char *what, const sigset_t *set)
{
	printf("%s:", what);
	for (int i = 1; i < 65; i++)
		if (sigismember(set, i) == 1)
			printf(" %d", i);
	printf("\n");
}

static void show_signals(void)
{
	stack_t stack;
	sigset_t set;

	for (int i = 1; i < 65; i++) {
		struct sigaction action;

		if (sigaction(i, NULL, &action))
			continue;
		if (action.sa_handler == SIG_DFL && !action.sa_flags)
			continue;
		printf("signal %d: %s flags %x\n", i,
		       action.sa_handler == SIG_DFL ? "default" :
		       action.sa_handler == SIG_IGN ? "ignored" : "handled",
		       (unsigned int)action.sa_flags);
		show_set("  mask", &action.sa_mask);
	}
	sigprocmask(SIG_SETMASK, NULL, &set);
	show_set("blocked", &set);
	sigpending(&set);
	show_set("pending", &set);
	if (!sigaltstack(NULL, &stack))
		printf("alternate stack: flags %d size %zu\n", stack.ss_flags, stack.ss_size);
}

static void show_threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;
	int count = 0;

	while (folder && (entry = readdir(folder))) {
		char path[512], name[32] = "";
		FILE *file;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) && strcmp(name, "vramcore\n"))
			count++;
		if (file)
			fclose(file);
	}
	if (folder)
		closedir(folder);
	printf("threads: %d\n", count);
}

static void show_status(void)
{
	static const char *const wanted[] = {"Name",   "Umask",  "Uid",	   "Gid",
					     "Groups", "SigIgn", "SigPnd", "SigBlk",  "ShdPnd",
					     "SigCgt", "CapEff", "CapPrm", "NoNewPrivs", "Seccomp",
					     "TracerPid"};
	FILE *file = fopen("/proc/self/status", "r");
	char line[1024];

	while (file && fgets(line, sizeof(line), file))
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			size_t length = strlen(wanted[i]);

			if (strncmp(line, wanted[i], length) || line[length] != ':')
				continue;
			if (!strcmp(wanted[i], "SigCgt"))
				printf("SigCgt: %llx\n", strtoull(line + length + 1, NULL, 16) &
								 ~0x180000000ull);
			else
				fputs(line, stdout);
		}
	if (file)
		fclose(file);
}

static void show_limits(void)
{
	for (int i = 0; i < 16; i++) {
		struct rlimit limit;

		if (!getrlimit(i, &limit))
			printf("limit %d: %llx %llx\n", i, (unsigned long long)limit.rlim_cur,
			       (unsigned long long)limit.rlim_max);
	}
}

static void show_environment(void)
{
	for (char **entry = environ; *entry; entry++)
		if (strncmp(*entry, "LD_PRELOAD=", 11) && strncmp(*entry, "VRAMCORE_", 9) &&
		    strncmp(*entry, "NVTX_", 5))
			printf("variable %s\n", *entry);
}

static void show_rest(void)
{
	char text[4096] = "";
	struct itimerval timer;
	mode_t mask = umask(0);
	int status;

	umask(mask);
	printf("umask %o, folder %s\n", (unsigned int)mask, getcwd(text, sizeof(text)));
	printf("group of session %d, priority %d, personality %x\n", getsid(0) == getpgrp(),
	       getpriority(PRIO_PROCESS, 0), (unsigned int)personality(~0u));
	memset(text, 0, 17);
	prctl(PR_GET_NAME, text);
	printf("name %s, dumpable %d, death signal", text, prctl(PR_GET_DUMPABLE));
	status = 0;
	prctl(PR_GET_PDEATHSIG, &status);
	printf(" %d, slack %d, subreaper", status, prctl(PR_GET_TIMERSLACK));
	prctl(PR_GET_CHILD_SUBREAPER, &status);
	printf(" %d\n", status);
	printf("locale %s, rounding %d, exceptions %d\n", setlocale(LC_ALL, NULL), fegetround(),
	       fetestexcept(FE_ALL_EXCEPT));
	for (int i = 0; i < 3; i++) {
		getitimer(i, &timer);
		printf("timer %d: %d\n", i, timer.it_value.tv_sec || timer.it_value.tv_usec);
	}
	errno = 0;
	status = (int)waitpid(-1, NULL, WNOHANG | __WALL);
	printf("child: %d errno %d\n", status, errno);
}

void host_state(const char *where)
{
	int saved = errno;

	printf("== %s\n", where);
	show_descriptors();
	show_signals();
	show_threads();
	show_status();
	show_limits();
	show_environment();
	show_rest();
	fflush(stdout);
	errno = saved;
}
