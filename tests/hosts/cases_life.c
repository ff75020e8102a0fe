/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs in unusual circumstances: the first process there is, the smallest signal stacks, a
 * recorder whose agent stands still.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "host.h"

/* ---- process 1 ---- */

/* It is given all orphans, and signals without a handler do nothing to it. */
static void first_process(void)
{
	int status, ended = 0;

	printf("process %d\n", (int)getpid());
	host_begin();
	fflush(stdout);
	for (int i = 0; i < 5; i++) {
		if (fork())
			continue;
		if (!fork()) { /* an orphan at once */
			usleep(20000);
			_exit(1);
		}
		_exit(2);
	}
	printf("churn %d\n", host_churn(5000));
	while (waitpid(-1, &status, 0) > 0)
		ended += WEXITSTATUS(status);
	printf("sum of statuses %d, errno %d\n", ended, errno);
	printf("raise %d\n", raise(SIGTERM));
	host_state("end");
	exit(9);
}

/* ---- signal stacks ---- */

#define PAINT 0xa5
#define SIGNAL_ROOM ((size_t)64 << 10)

static char *signal_stack;
static volatile int handled, failed;

static void on_small_stack(int number)
{
	(void)number;
	handled++;
}

/* A handler on a stack that has room for the kernel's frame and little more interrupts hooks. */
static void least_signal_stack(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), least = (size_t)sysconf(_SC_MINSIGSTKSZ);
	size_t room = (least + page - 1) & ~(page - 1);
	char *below = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	stack_t stack = {.ss_sp = below + page + room - least, .ss_size = least};
	struct sigaction action = {.sa_handler = on_small_stack,
				   .sa_flags = SA_ONSTACK | SA_RESTART};
	timer_t timer;
	struct itimerspec often = {{0, 50000}, {0, 50000}};

	if (below == MAP_FAILED)
		return;
	mprotect(below, page, PROT_NONE);
	host_begin();
	HOST_SAY(sigaltstack(&stack, NULL));
	sigaction(SIGALRM, &action, NULL);
	timer_create(CLOCK_MONOTONIC, NULL, &timer);
	timer_settime(timer, 0, &often, NULL);
	for (int i = 0; i < 2000 && handled < 200; i++)
		failed += host_churn(10);
	timer_delete(timer);
	printf("enough %d, failed %d\n", handled >= 200, failed);
}

static void allocate_on_stack(int number)
{
	vc_cu_pointer pointer;

	(void)number;
	failed += cu.cuMemAlloc_v2(&pointer, 777) != 0;
	failed += cu.cuMemFree_v2(pointer) != 0;
}

/*
 * How much of its stack a handler uses that allocates: goes to TEST_COUNTS, so that runs with and
 * without the recorder can be compared. The functions are resolved before.
 */
static void signal_stack_use(void)
{
	stack_t stack;
	struct sigaction action = {.sa_handler = allocate_on_stack, .sa_flags = SA_ONSTACK};
	size_t unused = 0;
	FILE *file;

	signal_stack = malloc(SIGNAL_ROOM);
	if (!signal_stack)
		return;
	stack = (stack_t){.ss_sp = signal_stack, .ss_size = SIGNAL_ROOM};
	host_begin();
	printf("churn %d\n", host_churn(10));
	HOST_SAY(sigaltstack(&stack, NULL));
	sigaction(SIGUSR1, &action, NULL);
	memset(signal_stack, PAINT, SIGNAL_ROOM);
	for (int i = 0; i < 100; i++)
		raise(SIGUSR1);
	while (unused < SIGNAL_ROOM && (unsigned char)signal_stack[unused] == PAINT)
		unused++;
	printf("failed %d\n", failed);
	file = fopen(getenv("TEST_COUNTS"), "w");
	if (!file)
		return;
	fprintf(file, "%zu\n", SIGNAL_ROOM - unused);
	fclose(file);
}

/* ---- an agent that stands still ---- */

static uint64_t milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool there(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", getenv("TEST_FOLDER"), name);
	return access(path, F_OK) == 0;
}

static void touch(const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", getenv("TEST_FOLDER"), name);
	close(open(path, O_WRONLY | O_CREAT, 0600));
}

static void *some_thread(void *context)
{
	return (void *)(intptr_t)(cu.cuCtxSetCurrent(context) + host_churn(20));
}

/* All that a lock held elsewhere could stop: threads, children, libraries, the heap, growth. */
static int everything(uint64_t step, vc_cu_context context)
{
	pthread_t thread;
	void *handle, *result, *heap = malloc(100000);
	int bad = !heap, status = 1;
	pid_t pid;

	free(heap);
	vramcore_step(step);
	bad += host_churn(50);
	bad += pthread_create(&thread, NULL, some_thread, context) != 0;
	bad += pthread_join(thread, &result) != 0 || result;
	handle = dlopen(getenv("TEST_PLUGIN"), RTLD_NOW);
	bad += !handle || dlclose(handle) != 0;
	pid = fork();
	if (!pid)
		_exit(0);
	bad += waitpid(pid, &status, 0) != pid || status;
	return bad;
}

/*
 * Works on until the file "thawed" is there, and for a while in any case. The first rounds keep the
 * agent at work, which is then held by whoever watches, beginning at "ready".
 */
static void agent_held(void)
{
	uint64_t longest = 0, start;
	vc_cu_pointer block[2000];
	vc_cu_context context;
	int bad = 0;

	host_functions();
	bad += cu.cuInit(0) + cu.cuDevicePrimaryCtxRetain(&context, 0) +
	       cu.cuCtxSetCurrent(context);
	touch("ready");
	for (uint64_t step = 1; step < 30 || (host_recorded() && !there("thawed")); step++) {
		start = milliseconds();
		bad += everything(step, context);
		start = milliseconds() - start;
		if (start > longest)
			longest = start;
		usleep(2000);
	}
	HOST_EXPECT(longest < 5000); /* the machine may be busy, and the rounds are not small */
	for (size_t i = 0; i < 2000; i++)
		bad += cu.cuMemAlloc_v2(&block[i], 512) != 0;
	HOST_EXPECT(test_compare("agent held") == 0);
	printf("failed %d\n", bad);
}

const struct host_case host_life_cases[] = {
	{"first-process", first_process},
	{"least-signal-stack", least_signal_stack},
	{"signal-stack-use", signal_stack_use},
	{"agent-held", agent_held},
	{NULL, NULL},
};
