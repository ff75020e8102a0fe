/* SPDX-License-Identifier: Apache-2.0 */
/* What recorded calls cost the program: calls of the heap and of the system, stack. */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "functions.h"
#include "misc.h"

static volatile uint64_t heap_calls, system_calls;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
void *malloc(size_t size)
{
	heap_calls++;
	return __libc_malloc(size);
}
void *calloc(size_t count, size_t size)
{
	heap_calls++;
	return __libc_calloc(count, size);
}
void *realloc(void *pointer, size_t size)
{
	heap_calls++;
	return __libc_realloc(pointer, size);
}
void free(void *pointer)
{
	heap_calls++;
	__libc_free(pointer);
}

static void on_call(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	system_calls++;
}

/* From here on every system call of this thread but the last ones is counted and not made. */
static void count_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};

	CHECK(!sigaction(SIGSYS, &action, NULL));
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

__attribute__((noinline)) void churn(int rounds)
{
	vc_cu_pointer pointer[8];

	for (int i = 0; i < rounds; i++) {
		for (int k = 0; k < 8; k++)
			if (cu.cuMemAlloc_v2(&pointer[k], (size_t)(1000 + k)))
				failures++;
		vramcore_block((void *)(uintptr_t)pointer[0], 512, NULL);
		vramcore_block_free((void *)(uintptr_t)pointer[0]);
		for (int k = 0; k < 8; k++)
			if (cu.cuMemFree_v2(pointer[k]))
				failures++;
	}
}

void quiet(void)
{
	uint64_t heap, calls;

	begin();
	churn(2000);
	usleep(300000); /* the agent has done its growing */
	heap = heap_calls;
	churn(500);
	CHECK(heap_calls == heap);
	count_calls();
	getppid(); /* the counter counts */
	CHECK(system_calls == 1);
	calls = system_calls;
	churn(500);
	CHECK(system_calls == calls);
	if (failures)
		_exit(1);
	_exit(0);
}

/* How deep a call goes, on a stack of its own that is painted first. */
static char deep_stack[1 << 18] __attribute__((aligned(64)));
static ucontext_t deep_main, deep_other;
static volatile int deep_rounds;

static void deep_calls(void)
{
	vc_cu_pointer pointer;

	for (int i = 0; i < deep_rounds; i++)
		if (cu.cuMemAlloc_v2(&pointer, 1000) || cu.cuMemFree_v2(pointer))
			failures++;
}

static size_t deep_run(int rounds)
{
	size_t untouched = 0;

	deep_rounds = rounds;
	memset(deep_stack, 0xa5, sizeof(deep_stack));
	getcontext(&deep_other);
	deep_other.uc_stack.ss_sp = deep_stack;
	deep_other.uc_stack.ss_size = sizeof(deep_stack);
	deep_other.uc_link = &deep_main;
	makecontext(&deep_other, deep_calls, 0);
	swapcontext(&deep_main, &deep_other);
	while (deep_stack[untouched] == (char)0xa5)
		untouched++;
	return sizeof(deep_stack) - untouched;
}

void depth(void)
{
	size_t bytes;

	begin();
	deep_run(100);
	bytes = deep_run(1);
	if (bytes > 2048)
		fprintf(stderr, "%zu bytes of stack\n", bytes);
	CHECK(bytes <= 2048);
}
