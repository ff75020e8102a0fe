/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of every kind, many threads, libraries that go away. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "host.h"

static vc_cu_context context;

static void begin_primary(void)
{
	host_functions();
	HOST_SAY(cu.cuInit(0));
	HOST_SAY(cu.cuDevicePrimaryCtxRetain(&context, 0));
	HOST_SAY(cu.cuCtxSetCurrent(context));
}

static void *churn_thread(void *argument)
{
	cu.cuCtxSetCurrent(context);
	return (void *)(intptr_t)host_churn((int)(intptr_t)argument);
}

static void run_threads(int count, int rounds, size_t stack_bytes)
{
	pthread_t thread[64];
	pthread_attr_t attributes;
	intptr_t failed = 0;

	pthread_attr_init(&attributes);
	if (stack_bytes)
		HOST_SAY(pthread_attr_setstacksize(&attributes, stack_bytes));
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread[i], &attributes, churn_thread,
				   (void *)(intptr_t)rounds))
			printf("no thread\n");
	for (int i = 0; i < count; i++) {
		void *result;

		pthread_join(thread[i], &result);
		failed += (intptr_t)result;
	}
	pthread_attr_destroy(&attributes);
	printf("%d threads, %d failed\n", count, (int)failed);
}

static void threads(void)
{
	int rounds = host_long() ? 2000 : 100;

	begin_primary();
	run_threads(64, rounds, 0);
	run_threads(64, rounds, 0);
	if (!host_recorded())
		return;
	HOST_EXPECT(host_counter(VC_COUNTER_ALLOCATIONS_SEEN) == (uint64_t)rounds * 512 + 1);
	HOST_EXPECT(host_counter(VC_COUNTER_FREES_SEEN) == (uint64_t)rounds * 512);
	HOST_EXPECT(host_counter(VC_COUNTER_FREES_UNKNOWN) == 0);
	HOST_EXPECT(host_counter(VC_COUNTER_STACKS_SKIPPED) == 0);
	HOST_EXPECT(host_counter(VC_COUNTER_RECORDS_LOST) == 0);
	HOST_EXPECT(test_compare("threads") == 0);
}

static void small_stacks(void)
{
	begin_primary();
	run_threads(8, 200, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	HOST_EXPECT(host_counter(VC_COUNTER_STACKS_SKIPPED) == 0);
}

/* Very first calls of the process on the smallest stack there is. */
static void *first_calls(void *argument)
{
	vc_cu_pointer pointer;

	(void)argument;
	if (cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context) ||
	    cu.cuMemAlloc_v2(&pointer, 1000))
		return (void *)1;
	return NULL;
}

static void first_on_small_stack(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *result;

	host_functions();
	HOST_SAY(cu.cuInit(0));
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN));
	HOST_SAY(pthread_create(&thread, &attributes, first_calls, NULL));
	pthread_join(thread, &result);
	printf("result %d\n", (int)(intptr_t)result);
}

/* ---- threads that change hands ---- */

/* Locked memory cannot be emptied by advice: blocks of ended threads are used again anyway. */
static void locked(void)
{
	begin_primary();
	HOST_SAY(mlockall(MCL_FUTURE));
	for (int i = 0; i < 20; i++)
		run_threads(4, 20, (size_t)64 << 10);
	HOST_EXPECT(host_counter(VC_COUNTER_STACKS_SKIPPED) == 0);
}

static pthread_key_t key;

static void free_late(void *value)
{
	printf("late %d\n", cu.cuMemFree_v2((vc_cu_pointer)(uintptr_t)value));
}

static void *cancelled(void *argument)
{
	vc_cu_pointer pointer;

	(void)argument;
	cu.cuCtxSetCurrent(context);
	cu.cuMemAlloc_v2(&pointer, 100);
	pthread_setspecific(key, (void *)(uintptr_t)pointer);
	for (;;) {
		host_churn(1);
		pthread_testcancel();
	}
	return NULL;
}

static void cancels(void)
{
	begin_primary();
	pthread_key_create(&key, free_late);
	for (int i = 0; i < 10; i++) {
		pthread_t thread;
		void *result;

		pthread_create(&thread, NULL, cancelled, NULL);
		usleep(2000);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		printf("cancelled %d\n", result == PTHREAD_CANCELED);
	}
	HOST_EXPECT(!host_recorded() || host_counter(VC_COUNTER_FREES_SEEN) + 1 ==
						host_counter(VC_COUNTER_ALLOCATIONS_SEEN));
}

/* A hook is no cancellation point: a cancelled thread goes on until it reaches one of its own. */
static int calls_after;

static void *pending(void *argument)
{
	(void)argument;
	cu.cuCtxSetCurrent(context);
	pthread_cancel(pthread_self());
	host_churn(5000);
	calls_after = 1;
	pthread_testcancel();
	return NULL;
}

static void cancel_pending(void)
{
	pthread_t thread;
	void *result;

	begin_primary();
	pthread_create(&thread, NULL, pending, NULL);
	pthread_join(thread, &result);
	printf("cancelled %d after %d\n", result == PTHREAD_CANCELED, calls_after);
}

static void *cancelled_first(void *argument)
{
	vc_cu_context own;

	(void)argument;
	pthread_cancel(pthread_self());
	calls_after = cu.cuDevicePrimaryCtxRetain(&own, 0) == 0;
	pthread_testcancel();
	return NULL;
}

/* Not even the first call, which begins the recording and makes a thread. */
static void cancel_first(void)
{
	pthread_t thread;
	void *result;

	host_functions();
	HOST_SAY(cu.cuInit(0));
	pthread_create(&thread, NULL, cancelled_first, NULL);
	pthread_join(thread, &result);
	printf("cancelled %d after %d\n", result == PTHREAD_CANCELED, calls_after);
}

/* ---- fibers ---- */

static ucontext_t main_context, fiber[4];

static void fiber_main(int own)
{
	for (;;) {
		if (host_churn(2))
			printf("a call failed\n");
		swapcontext(&fiber[own], &main_context);
	}
}

static void fibers(void)
{
	void *stack[4];

	begin_primary();
	for (int turn = 0; turn < 5; turn++) {
		for (int i = 0; i < 4; i++) {
			stack[i] = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			getcontext(&fiber[i]);
			fiber[i].uc_stack.ss_sp = stack[i];
			fiber[i].uc_stack.ss_size = 64 << 10;
			fiber[i].uc_link = NULL;
			makecontext(&fiber[i], (void (*)(void))fiber_main, 1, i);
		}
		for (int i = 0; i < 200; i++)
			swapcontext(&main_context, &fiber[i % 4]);
		/* Never finished, and their stacks go. */
		for (int i = 0; i < 4; i++)
			munmap(stack[i], 64 << 10);
		printf("turn %d, churn %d\n", turn, host_churn(3));
	}
}

/* ---- libraries that go ---- */

static void unloads(void)
{
	begin_primary();
	for (int i = 0; i < 20; i++) {
		void *library = dlopen(getenv("TEST_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
		int (*churn)(int (*)(int), int);

		if (!library) {
			printf("no library\n");
			return;
		}
		*(void **)&churn = dlsym(library, "plugin_churn");
		printf("plugin %d\n", churn(host_churn, 20));
		HOST_SAY(dlclose(library));
		HOST_SAY(dlopen(getenv("TEST_PLUGIN"), RTLD_NOW | RTLD_NOLOAD) != NULL);
		printf("churn %d\n", host_churn(20));
	}
}

const struct host_case host_memory_cases[] = {
	{"threads", threads},
	{"small-stacks", small_stacks},
	{"first-on-small-stack", first_on_small_stack},
	{"locked", locked},
	{"cancels", cancels},
	{"cancel-pending", cancel_pending},
	{"cancel-first", cancel_first},
	{"fibers", fibers},
	{"unloads", unloads},
	{NULL, NULL},
};
