/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap and system calls, counted in the whole process.
 *
 * The counter is a library beside the recorder (counter.c). In the steady state, with four threads,
 * neither the heap nor the system is called. What the first calls of a process and of a thread cost
 * is written to the file TEST_COUNTS, so that runs with and without the recorder can be compared.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "host.h"

#define THREADS 4

static uint64_t (*heap_calls)(void);
static uint64_t system_calls;
static pthread_barrier_t barrier;
static vc_cu_context context;
static int failed;

static void expect(int result)
{
	if (result)
		__atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
}

/* One of each way to have memory, and the reports of a program's own pool. */
static __attribute__((noinline)) void every_kind(vc_cu_stream stream)
{
	vc_cu_pointer pointer, pitched, managed;
	size_t pitch;

	expect(cu.cuMemAlloc_v2(&pointer, 1000));
	expect(cu.cuMemAllocPitch_v2(&pitched, &pitch, 100, 10, 4));
	expect(cu.cuMemAllocManaged(&managed, 4096, 1));
	vramcore_block((void *)(uintptr_t)pointer, 512, NULL);
	vramcore_phase("forward");
	vramcore_block_free((void *)(uintptr_t)pointer);
	vramcore_phase("");
	expect(cu.cuMemFree_v2(pointer));
	expect(cu.cuMemFree_v2(pitched));
	expect(cu.cuMemFree_v2(managed));
	expect(cu.cuMemAllocAsync(&pointer, 2000, stream));
	expect(cu.cuMemFreeAsync(pointer, stream));
	/* Refused: nothing but a count. */
	expect(cu.cuMemFree_v2(12345) != 1);
	expect(cu.cuMemFree_v2(0));
	vramcore_step(3);
}

static void on_call(int signal_number, siginfo_t *info, void *saved)
{
	(void)signal_number;
	(void)info;
	(void)saved;
	__atomic_fetch_add(&system_calls, 1, __ATOMIC_RELAXED);
}

/* From here on each system call of this thread is counted and not made. */
static void count_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	expect(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	expect(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static void *steady(void *argument)
{
	uint64_t heap, calls;

	(void)argument;
	expect(cu.cuCtxSetCurrent(context));
	for (int i = 0; i < 500; i++)
		every_kind(NULL);
	pthread_barrier_wait(&barrier);
	usleep(400000); /* the agent has done its growing */
	pthread_barrier_wait(&barrier);
	heap = heap_calls();
	count_calls();
	syscall(SYS_getppid); /* the counter counts */
	calls = __atomic_load_n(&system_calls, __ATOMIC_RELAXED);
	if (!calls)
		expect(1);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < (host_long() ? 20000 : 500); i++)
		every_kind(NULL);
	pthread_barrier_wait(&barrier);
	if (heap_calls() != heap)
		printf("heap calls\n");
	if (__atomic_load_n(&system_calls, __ATOMIC_RELAXED) != THREADS)
		printf("%d system calls\n",
		       (int)__atomic_load_n(&system_calls, __ATOMIC_RELAXED) - THREADS);
	fflush(stdout);
	pthread_barrier_wait(&barrier);
	for (;;)
		syscall(SYS_futex, &barrier, 0 /* wait */, *(int *)&barrier, NULL, NULL, 0);
	return NULL;
}

static bool find_counter(void)
{
	*(void **)&heap_calls = dlsym(RTLD_DEFAULT, "counter_heap_calls");
	if (!heap_calls)
		printf("no counter\n");
	return heap_calls != NULL;
}

static void quiet(void)
{
	struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
	pthread_t thread;

	if (!find_counter())
		return;
	host_functions();
	HOST_SAY(cu.cuInit(0));
	HOST_SAY(cu.cuDevicePrimaryCtxRetain(&context, 0));
	sigaction(SIGSYS, &action, NULL);
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, steady, NULL);
	for (int i = 0; i < 5; i++)
		pthread_barrier_wait(&barrier);
	printf("failed %d\n", failed);
	fflush(stdout);
	_exit(failed || (host_recorded() && host_counter(VC_COUNTER_STACKS_SKIPPED)));
}

/* ---- what the first calls cost ---- */

static void *first_of_thread(void *argument)
{
	uint64_t *heap = argument;
	uint64_t before;

	before = heap_calls();
	expect(cu.cuCtxSetCurrent(context));
	expect(host_churn(1));
	*heap = heap_calls() - before;
	return NULL;
}

static void first_calls(void)
{
	uint64_t before, process, of_thread = 0;
	pthread_t thread;
	FILE *file;

	if (!find_counter())
		return;
	host_functions();
	HOST_SAY(cu.cuInit(0));
	before = heap_calls();
	expect(cu.cuDevicePrimaryCtxRetain(&context, 0));
	expect(cu.cuCtxSetCurrent(context));
	expect(host_churn(1));
	process = heap_calls() - before;
	pthread_create(&thread, NULL, first_of_thread, &of_thread);
	pthread_join(thread, NULL);
	file = fopen(getenv("TEST_COUNTS"), "w");
	if (file) {
		fprintf(file, "%llu %llu\n", (unsigned long long)process,
			(unsigned long long)of_thread);
		fclose(file);
	}
	printf("failed %d\n", failed);
}

const struct host_case host_quiet_cases[] = {
	{"quiet", quiet},
	{"first-calls", first_calls},
	{NULL, NULL},
};
