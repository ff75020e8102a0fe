/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "forks.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "functions.h"

#define NOT_INITIALIZED 3

extern char **environ;

/* A program of its own, which allocates: 4 MiB and 7 MiB of it stay. */
static char *own_program[] = {NULL, (char[]){"alloc"}, (char[]){"a"}, (char[]){"1M"},
			      (char[]){"alloc"}, (char[]){"b"}, (char[]){"4M"}, (char[]){"free"},
			      (char[]){"a"}, (char[]){"alloc"}, (char[]){"c"}, (char[]){"7M"},
			      (char[]){"step"}, (char[]){"3"}, (char[]){"_exit"},
			      (char[]){"0"}, NULL};

/* What a child without an exec may do: the driver does not work in it. */
static int use_driver(void)
{
	vc_cu_pointer pointer = 0;
	int wrong = cu.cuMemAlloc_v2(&pointer, 1000) != NOT_INITIALIZED;

	wrong |= cu.cuMemFree_v2(0x10000) == 0;
	return wrong;
}

static pid_t plain_fork(bool use, bool by_exit)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (use && use_driver())
		_exit(9);
	if (by_exit)
		exit(0);
	_exit(0);
}

static pid_t raw_clone(bool use)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid)
		return pid;
	syscall(SYS_exit_group, use ? use_driver() : 0);
	return -1;
}

static pid_t fork_and_exec(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	use_driver();
	execv(own_program[0], own_program);
	_exit(9);
}

static pid_t vfork_and_exec(void)
{
	pid_t pid = vfork();

	if (pid)
		return pid;
	execv(own_program[0], own_program);
	_exit(9);
}

static pid_t spawn(void)
{
	pid_t pid;

	return posix_spawn(&pid, own_program[0], NULL, NULL, own_program, environ) ? -1 : pid;
}

static pid_t make(unsigned int which)
{
	switch (which % 9) {
	case 0: return plain_fork(false, false);
	case 1: return plain_fork(false, true);
	case 2: return plain_fork(true, false);
	case 3: return plain_fork(true, true);
	case 4: return raw_clone(false);
	case 5: return raw_clone(true);
	case 6: return fork_and_exec();
	case 7: return vfork_and_exec();
	default: return spawn();
	}
}

unsigned int forks_make(const unsigned int *stop, unsigned int *count)
{
	unsigned int wrong = 0;

	own_program[0] = getenv("PROOF_ACTOR");
	for (unsigned int i = 0; !__atomic_load_n(stop, __ATOMIC_ACQUIRE); i++) {
		pid_t pid = make(i);
		int status = 0;

		if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
			fprintf(stderr, "child %u, sort %u: pid %d, status 0x%x\n", i, i % 9,
				(int)pid, (unsigned int)status);
			wrong++;
		}
		__atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
		usleep(1000);
	}
	return wrong;
}
