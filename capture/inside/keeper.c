/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/keeper.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "capture/inside/agent.h"
#include "capture/inside/interpreter.h"
#include "capture/inside/old_libc.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"
#include "capture/inside/thread.h"

VC_OLD_LIBC(pthread_create);
VC_OLD_LIBC(pthread_detach);
VC_OLD_LIBC(pthread_key_create);
VC_OLD_LIBC(pthread_setspecific);

#define LOOK_EVERY 20000000l /* nanoseconds */

static pthread_key_t key;
static uint32_t key_made;

/* The main thread has no memory any more once it has left, and so no program. */
static bool main_has_left(void)
{
	char byte;

	return vc_syscall(SYS_readlinkat, VC_AT_FDCWD, (long)"/proc/self/exe", (long)&byte, 1, 0,
			  0) == -ENOENT;
}

/* Threads of the process, the main one counts for ever; 0: not known. */
static unsigned long threads(void)
{
	struct stat facts;

	if (vc_syscall(SYS_newfstatat, VC_AT_FDCWD, (long)"/proc/self/task", (long)&facts, 0, 0,
		       0) != 0 || facts.st_nlink < 2)
		return 0;
	return (unsigned long)facts.st_nlink - 2;
}

static void pause_until_next_look(void)
{
	static uint32_t never;
	const struct timespec timeout = {0, LOOK_EVERY};

	vc_sys_futex_wait(&never, 0, &timeout);
}

/* The main thread, the agent and this one are left: whoever makes threads is gone. */
static void *keeper_main(void *argument)
{
	sigset_t *mask = argument;

	vc_enter();
	vc_syscall(SYS_prctl, PR_SET_NAME, (long)"vramcore", 0, 0, 0, 0);
	while (threads() != 3 + vc_interpreter_threads() || !main_has_left())
		pause_until_next_look();
	vc_interpreter_stop();
	vc_agent_stop();
	while (threads() > 2)
		pause_until_next_look();
	/* The exit handlers of the program run here. */
	vc_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)mask, 0, 8, 0, 0);
	vc_leave();
	return NULL;
}

static void make_keeper(void)
{
	static sigset_t mask;
	sigset_t all;
	pthread_t thread;

	sigfillset(&all);
	vc_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&mask, 8, 0, 0);
	if (pthread_create(&thread, NULL, keeper_main, &mask) == 0) {
		pthread_detach(thread);
	} else {
		/* Without triggers rather than without an end. */
		vc_store_count(VC_COUNTER_AGENT_MISSING);
		vc_agent_stop();
	}
	vc_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, 8, 0, 0);
}

/* The main thread leaves. Not called when it calls exit. */
static void on_leave(void *value)
{
	(void)value;
	vc_enter();
	if (vc_store_ready() && vc_agent_runs())
		make_keeper();
	vc_leave();
}

void vc_keeper_start(void)
{
	if (!pthread_key_create || !pthread_setspecific)
		return;
	if (vc_sys_gettid() != vc_sys_getpid()) {
		make_keeper();
		return;
	}
	if (!key_made)
		key_made = pthread_key_create(&key, on_leave) == 0;
	if (!key_made || pthread_setspecific(key, &key) != 0)
		make_keeper();
}
