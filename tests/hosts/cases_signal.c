/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that meet the recorder. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "host.h"

static uintptr_t interrupted_at(const void *context)
{
	const ucontext_t *saved = context;

#if defined(__x86_64__)
	return (uintptr_t)saved->uc_mcontext.gregs[REG_RIP];
#else
	return (uintptr_t)saved->uc_mcontext.pc;
#endif
}

static void timer_every(long microseconds)
{
	struct itimerval every = {{0, microseconds}, {0, microseconds}};

	setitimer(ITIMER_REAL, &every, NULL);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigaction(number, &action, NULL);
}

/* Runs until the handler has done `wanted` of its own, or for three seconds. */
static void churn_until(const volatile int *done, int wanted)
{
	for (int i = 0; *done < wanted && i < (host_recorded() ? 100000 : 100); i++)
		if (host_churn(10))
			printf("a call failed\n");
}

/* ---- handlers that allocate while the recorder is at work on the same thread ---- */

static volatile int handled;

static void allocate_within(int number, siginfo_t *info, void *context)
{
	vc_cu_pointer pointer;
	int saved = errno;

	(void)number;
	(void)info;
	/* Inside the driver itself its own lock could be held, with or without a recorder. */
	if (!host_in_recorder(interrupted_at(context)))
		return;
	if (cu.cuMemAlloc_v2(&pointer, 777) || cu.cuMemFree_v2(pointer))
		printf("a call failed\n");
	handled++;
	errno = saved;
}

static void storm_on(int flags, uint64_t contexts)
{
	host_begin();
	handle(SIGALRM, allocate_within, SA_RESTART | flags);
	timer_every(73);
	churn_until(&handled, host_long() ? 5000 : 500);
	timer_every(0);
	if (host_recorded()) {
		HOST_EXPECT(handled >= 100);
		HOST_EXPECT(host_counter(VC_COUNTER_FREES_UNKNOWN) == 0);
		HOST_EXPECT(host_counter(VC_COUNTER_FREES_SEEN) ==
			    host_counter(VC_COUNTER_ALLOCATIONS_SEEN) - contexts);
		HOST_EXPECT(test_compare("storm") == 0);
	}
	printf("churn %d\n", host_churn(10));
}

static void storm(void)
{
	storm_on(0, 1);
}

static char alternate[64 << 10];

/* The alternate stack is below or above the thread's own, by turns. */
static void *storm_above(void *argument)
{
	char above[64 << 10];
	stack_t stack = {.ss_sp = above, .ss_size = sizeof(above)};

	(void)argument;
	memset(above, 0, sizeof(above));
	sigaltstack(&stack, NULL);
	storm_on(SA_ONSTACK, 2);
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	return NULL;
}

static void storm_alternate(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

	sigaltstack(&stack, NULL);
	storm_on(SA_ONSTACK, 1);
	handled = 0;
	storm_above(NULL);
}

/* ---- jumps out of handlers ---- */

static sigjmp_buf back;
static volatile int jumps;

static void jump_away(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	if (!host_in_recorder(interrupted_at(context)))
		return;
	jumps++;
	siglongjmp(back, 1);
}

static __attribute__((noinline)) int deeper(int depth)
{
	int failed = depth ? deeper(depth - 1) : host_churn(20);

	__asm__ volatile("" ::: "memory");
	return failed;
}

/* After a jump out of a hook the next calls are recorded as ever, with their stacks. */
static void jump_on(int flags)
{
	uint64_t skipped, seen;

	host_begin();
	host_churn(10);
	handle(SIGALRM, jump_away, SA_RESTART | flags);
	sigsetjmp(back, 1);
	if (jumps < (host_long() ? 1000 : 100)) {
		timer_every(301);
		churn_until(&jumps, INT32_MAX);
	}
	timer_every(0);
	printf("churn %d\n", host_churn(1));
	skipped = host_counter(VC_COUNTER_STACKS_SKIPPED);
	seen = host_counter(VC_COUNTER_ALLOCATIONS_SEEN);
	printf("churn %d\n", host_churn(20));
	printf("deeper %d\n", deeper(30));
	if (!host_recorded())
		return;
	HOST_EXPECT(jumps >= 50);
	HOST_EXPECT(host_counter(VC_COUNTER_ALLOCATIONS_SEEN) == seen + 160);
	HOST_EXPECT(host_counter(VC_COUNTER_STACKS_SKIPPED) == skipped);
}

static void jumps_away(void)
{
	jump_on(0);
}

static void jumps_alternate(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

	sigaltstack(&stack, NULL);
	jump_on(SA_ONSTACK);
}

/* A storm of signals from before the first call on, through the end of the process. */
static volatile int storms;

static void nothing(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	storms++;
}

static void storm_through(void)
{
	handle(SIGALRM, nothing, 0);
	timer_every(50);
	host_functions();
	if (cu.cuInit(0))
		printf("no driver\n");
	host_begin();
	printf("churn %d\n", host_churn(20000));
	fflush(stdout);
}

/* ---- dispositions of the program's own ---- */

static volatile int user_signals[2];

static void on_user(int number, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	user_signals[number == SIGUSR2]++;
}

static void own_handlers(void)
{
	handle(SIGUSR1, on_user, 0);
	handle(SIGUSR2, on_user, SA_RESTART);
	host_begin();
	printf("churn %d\n", host_churn(100));
	usleep(50000);
	raise(SIGUSR1);
	raise(SIGUSR2);
	printf("seen %d %d\n", user_signals[0], user_signals[1]);
	host_state("end");
}

static void ignores(void)
{
	signal(SIGUSR1, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	host_begin();
	usleep(50000);
	raise(SIGUSR1);
	printf("churn %d\n", host_churn(100));
	host_state("end");
}

static void blocks_all(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	host_begin();
	printf("churn %d\n", host_churn(20000));
	kill(getpid(), SIGUSR1);
	kill(getpid(), SIGTERM);
	usleep(50000);
	host_state("end");
}

/* A signal sent to the process is never taken by a thread that the program did not make. */
static void waits_for_signal(void)
{
	sigset_t set;
	int number = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	host_begin();
	printf("churn %d\n", host_churn(100));
	for (int i = 0; i < 20; i++) {
		kill(getpid(), SIGUSR1);
		sigwait(&set, &number);
	}
	printf("signal %d\n", number);
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	static const char text[] = "fault\n";

	(void)info;
	(void)context;
	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(9);
	_exit(number);
}

static volatile int *volatile nowhere;

static void fault_handler(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};

	sigaltstack(&stack, NULL);
	handle(SIGSEGV, on_fault, SA_ONSTACK);
	host_begin();
	printf("churn %d\n", host_churn(10));
	fflush(stdout);
	*nowhere = 1;
}

static void fault(void)
{
	host_begin();
	printf("churn %d\n", host_churn(10));
	fflush(stdout);
	*nowhere = 1;
}

/* A recursion that overflows the stack through the hooks' callers is the program's own fault. */
static volatile bool for_ever = true;

static __attribute__((noinline)) int overflow(volatile char *above)
{
	volatile char frame[4096];

	frame[0] = above[0];
	host_churn(1);
	return for_ever ? overflow(frame) + frame[0] : 0;
}

static void stack_overflow(void)
{
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	char none = 0;

	sigaltstack(&stack, NULL);
	handle(SIGSEGV, on_fault, SA_ONSTACK);
	host_begin();
	fflush(stdout);
	overflow(&none);
}

const struct host_case host_signal_cases[] = {
	{"storm", storm},
	{"storm-alternate", storm_alternate},
	{"jumps-away", jumps_away},
	{"jumps-alternate", jumps_alternate},
	{"storm-through", storm_through},
	{"own-handlers", own_handlers},
	{"ignores", ignores},
	{"blocks-all", blocks_all},
	{"waits-for-signal", waits_for_signal},
	{"fault-handler", fault_handler},
	{"fault", fault},
	{"stack-overflow", stack_overflow},
	{NULL, NULL},
};
