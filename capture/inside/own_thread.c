/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/own_thread.h"

#include <pthread.h>
#include <signal.h>

#include "capture/inside/old_libc.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"

VC_OLD_LIBC(pthread_create);
VC_OLD_LIBC(pthread_attr_setstacksize);

bool vc_own_thread_make(void *(*run)(void *), size_t stack_bytes)
{
	sigset_t all, old;
	pthread_attr_t attributes;
	pthread_t thread;
	bool made = false;

	if (!pthread_create || !pthread_attr_setstacksize || !vc_store_addresses(stack_bytes))
		return false;
	sigfillset(&all);
	vc_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, 8, 0, 0);
	if (pthread_attr_init(&attributes) == 0) {
		pthread_attr_setstacksize(&attributes, stack_bytes);
		pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		made = pthread_create(&thread, &attributes, run, NULL) == 0;
		pthread_attr_destroy(&attributes);
	}
	vc_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, 8, 0, 0);
	return made;
}
