/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_growth BLOCKS THREADS DEPTH PAIRS [MODULE ...]: what growth.py runs with and without a
 * recorder.
 *
 * THREADS threads allocate BLOCKS blocks in all, which stay; then they free and allocate PAIRS
 * times. Each call has a stack of some DEPTH frames; if libraries are named, they are loaded, and
 * each call is made through one of them in turn. Prints processor time in nanoseconds of an
 * allocation of the first kind and of a pair of the second, and kilobytes of private and of shared
 * memory that the process has at its end.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "samples/driver.h"

enum { THREADS_MAX = 64, MODULES_MAX = 512, WAYS = 16 };

typedef int (*callback)(int argument);
typedef int (*through)(callback called, int argument);

struct worker {
	pthread_t thread;
	device_pointer *block;
	uint64_t blocks, pairs, turn;
	uint64_t fill_time, pair_time;
};

static struct driver driver;
static void *context;
static unsigned int depth;
static through module[MODULES_MAX];
static unsigned int modules;
static struct worker worker[THREADS_MAX];
static pthread_barrier_t filled;
static __thread struct worker *self;

static uint64_t processor_time(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* A turn with a block allocates it, one with a block that is there frees and replaces it. */
static int call(int number)
{
	device_pointer *block = &self->block[number];

	if (*block && driver.memory_free(*block))
		exit(2);
	return driver.memory_allocate(block, 512);
}

static int last(int number)
{
	return modules ? module[self->turn % modules](call, number) : call(number);
}

static int left(unsigned int frames, unsigned int way, int number);

static __attribute__((noinline)) int right(unsigned int frames, unsigned int way, int number)
{
	volatile char room[40];
	int result;

	room[way % 40] = 1;
	result = frames ? (way >> frames % WAYS & 1 ? left : right)(frames - 1, way, number) :
			  last(number);
	return result + room[way % 40] - 1;
}

static __attribute__((noinline)) int left(unsigned int frames, unsigned int way, int number)
{
	int result = frames ? (way >> frames % WAYS & 1 ? left : right)(frames - 1, way, number) :
			      last(number);

	__asm__ volatile("" ::: "memory");
	return result;
}

/* 64 different stacks. */
static void visit(int number)
{
	if (right(depth, (unsigned int)(self->turn % 64) * 1021, number))
		exit(2);
	self->turn++;
}

static void *work(void *argument)
{
	uint64_t start;

	self = argument;
	if (driver.context_set_current(context))
		exit(2);
	start = processor_time();
	for (uint64_t i = 0; i < self->blocks; i++)
		visit((int)i);
	self->fill_time = processor_time() - start;
	pthread_barrier_wait(&filled);
	start = processor_time();
	for (uint64_t i = 0; i < self->pairs; i++)
		visit((int)(i * 7919 % self->blocks));
	self->pair_time = processor_time() - start;
	return NULL;
}

static unsigned long memory_of(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	unsigned long found = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			found = strtoul(line + strlen(name), NULL, 10);
	if (file)
		fclose(file);
	return found;
}

static int load(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW);

	if (handle && modules < MODULES_MAX)
		*(void **)&module[modules] = dlsym(handle, "plugin_churn");
	if (handle && modules < MODULES_MAX && module[modules]) {
		modules++;
		return 0;
	}
	fprintf(stderr, "%s\n", path);
	return -1;
}

int main(int argc, char **argv)
{
	uint64_t blocks, threads, pairs, fill_time = 0, pair_time = 0;

	if (argc < 5)
		return 64;
	blocks = strtoull(argv[1], NULL, 10);
	threads = strtoull(argv[2], NULL, 10);
	depth = (unsigned int)strtoul(argv[3], NULL, 10);
	pairs = strtoull(argv[4], NULL, 10);
	if (!threads || threads > THREADS_MAX || blocks < threads)
		return 64;
	for (int i = 5; i < argc; i++)
		if (load(argv[i]))
			return 2;
	driver_open(&driver);
	if (driver.primary_context_retain(&context, 0))
		return 2;
	pthread_barrier_init(&filled, NULL, (unsigned int)threads);
	for (uint64_t i = 0; i < threads; i++) {
		worker[i].blocks = blocks / threads;
		worker[i].pairs = pairs / threads;
		worker[i].block = calloc(worker[i].blocks, sizeof(device_pointer));
		if (!worker[i].block ||
		    pthread_create(&worker[i].thread, NULL, work, &worker[i]))
			return 2;
	}
	for (uint64_t i = 0; i < threads; i++) {
		pthread_join(worker[i].thread, NULL);
		fill_time += worker[i].fill_time;
		pair_time += worker[i].pair_time;
	}
	printf("%.1f %.1f %lu %lu\n", (double)fill_time / (double)(blocks / threads * threads),
	       (double)pair_time / (double)(pairs / threads * threads), memory_of("RssAnon:"),
	       memory_of("RssShmem:"));
	return 0;
}
