/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program to be found in every state that a process can be in: it allocates a few things, says
 * their addresses, one line a thing, and then does what its argument says. "ready" comes last.
 *
 *   target wait            waits for ever
 *   target run             goes on allocating and freeing, until it is killed
 *   target stuck           waits for ever inside a call of the driver
 *   target crash           dies of SIGSEGV when standard input ends
 *   target exit            ends with status 3 when standard input ends
 *   target large A B       as wait, with A bytes of memory that is never touched and B that is written
 *   target churn FILE      has up to 3,000 blocks that come and go, until it is killed; their addresses,
 *                          sizes and steps go to the file
 *   target many COUNT      as wait, with so many more blocks
 *   target hungry          when standard input ends, takes memory of the host until it is killed
 *   target child           its child, which never uses the device, crashes as above
 */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dlfcn.h>

#include "capture/vramcore.h"
#include "driver.h"

#define NOINLINE __attribute__((noinline))
#define MIB (1u << 20)

static struct driver driver;
/* For debuggers: expressions that name device memory. */
struct holder {
	struct {
		struct {
			char *_M_head_impl;
		} _M_t;
	} _M_t;
};
char *weights;
struct holder owner;
struct {
	int number;
} driver_empty;

static device_pointer allocate(size_t bytes)
{
	device_pointer pointer = 0;

	if (driver.memory_allocate(&pointer, bytes) != 0)
		exit(2);
	return pointer;
}

static NOINLINE device_pointer make_weights(void)
{
	device_pointer made = allocate(8 * MIB); /* line: weights */

	__asm__ volatile("");
	return made;
}

static NOINLINE device_pointer make_cache(void)
{
	device_pointer made = allocate(3 * MIB); /* line: cache */

	__asm__ volatile("");
	return made;
}

static NOINLINE void drop_cache(device_pointer cache)
{
	driver.memory_free(cache); /* line: drop */
	__asm__ volatile("");
}

/* A buffer inside the weights, with room behind it that belongs to nobody. */
static NOINLINE void make_logits(device_pointer segment)
{
	vramcore_block_named((void *)(uintptr_t)(segment + MIB), 0x4000, 0x4000, NULL, "logits"); /* line: logits */
	__asm__ volatile("");
}

static void say(const char *name, uint64_t value)
{
	printf("%s 0x%" PRIx64 "\n", name, value);
	fflush(stdout);
}

static NOINLINE void wait_for_ever(void)
{
	for (;;)
		pause(); /* line: wait */
}

static void *second_thread(void *argument)
{
	prctl(PR_SET_NAME, "second");
	wait_for_ever();
	return argument;
}

/* Pages that nobody fills: a copy to them never ends, inside the driver. */
static void *endless_page(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	int fault = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	void *page = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	range.range.start = (uintptr_t)page;
	range.range.len = MIB;
	if (fault < 0 || page == MAP_FAILED || ioctl(fault, UFFDIO_API, &api) != 0 ||
	    ioctl(fault, UFFDIO_REGISTER, &range) != 0) {
		perror("userfaultfd");
		exit(77);
	}
	return page;
}

static NOINLINE void copy_for_ever(void)
{
	int (*copy)(void *, device_pointer, size_t);
	struct driver own; /* the context, for this thread */

	driver_open(&own);
	*(void **)&copy = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyDtoH_v2");
	copy(endless_page(), (uintptr_t)weights, 4096);
	fprintf(stderr, "the copy came back\n");
	exit(2);
}

static void *stuck_thread(void *argument)
{
	prctl(PR_SET_NAME, "copier");
	copy_for_ever();
	return argument;
}

static void run(void)
{
	for (uint64_t step = 1;; step++) {
		device_pointer some = allocate(MIB);

		usleep(1000);
		driver.memory_free(some);
		vramcore_step(step);
	}
}

static void churn(const char *path)
{
	static device_pointer held[3000];
	uint32_t random = 12345;
	FILE *log = fopen(path, "w");

	if (!log)
		return;
	for (uint64_t step = 4;; step++) {
		for (unsigned i = 0; i < 100; i++) {
			device_pointer *slot = &held[(random = random * 1664525 + 1013904223) >> 8 & 0x7ff];
			size_t bytes = ((random >> 20) + 1) * 64;

			if (*slot)
				driver.memory_free(*slot);
			*slot = allocate(bytes);
			fprintf(log, "%" PRIx64 " %zx %" PRIx64 "\n", *slot, bytes, step - 1);
		}
		fflush(log);
		vramcore_step(step);
		usleep(3000);
	}
}

static void wait_for_end_of_input(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static void hungry(void)
{
	wait_for_end_of_input();
	for (;;) {
		char *some = malloc(MIB);

		if (some)
			memset(some, 1, MIB);
	}
}

static NOINLINE void crash(void)
{
	wait_for_end_of_input();
#if defined(__x86_64__)
	__asm__ volatile("movl $1, (%1)" : : "D"(weights), "a"(8) : "memory"); /* line: crash */
#else
	*(volatile int *)8 = 1;
#endif
}

static void large(uint64_t untouched, uint64_t bytes)
{
	char *zero = mmap(NULL, untouched + 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t *written = mmap(NULL, bytes + 8, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (zero == MAP_FAILED || written == MAP_FAILED)
		exit(2);
	zero[untouched / 2] = 1;
	for (uint64_t i = 0; i < bytes / 8; i++)
		written[i] = i * 0x9e3779b97f4a7c15u;
}

static void many(uint64_t count)
{
	device_pointer segment = allocate(count * 512);

	for (uint64_t i = 0; i < count; i++)
		vramcore_block((void *)(uintptr_t)(segment + i * 512), 512, NULL);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "wait";
	uint64_t number = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
	device_pointer cache;
	pthread_t thread;

	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	driver_open(&driver);
	weights = (char *)(uintptr_t)make_weights();
	owner._M_t._M_t._M_head_impl = weights;
	vramcore_step(1);
	cache = make_cache();
	vramcore_step(2);
	drop_cache(cache);
	vramcore_step(3);
	say("again", allocate(3 * MIB));
	say("weights", (uintptr_t)weights);
	say("cache", cache);
	make_logits((uintptr_t)weights);
	say("logits", (uintptr_t)weights + MIB);
	if (!strcmp(mode, "large"))
		large(number, argc > 3 ? strtoull(argv[3], NULL, 0) : MIB);
	if (!strcmp(mode, "many"))
		many(number);
	pthread_create(&thread, NULL, !strcmp(mode, "stuck") ? stuck_thread : second_thread, NULL);
	usleep(20000);
	if (!strcmp(mode, "child") && fork() > 0) {
		wait(NULL);
		return 0;
	}
	say("ready", (uint64_t)getpid());
	if (!strcmp(mode, "run"))
		run();
	if (!strcmp(mode, "churn") && argc > 2)
		churn(argv[2]);
	if (!strcmp(mode, "crash") || !strcmp(mode, "child"))
		crash();
	if (!strcmp(mode, "hungry"))
		hungry();
	if (!strcmp(mode, "exit")) {
		wait_for_end_of_input();
		return 3;
	}
	if (!strcmp(mode, "stuck"))
		pthread_join(thread, NULL);
	wait_for_ever();
}
