/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that bench.py runs with and without a recorder.
 *
 *   bench_program pairs driver|block|torch|alone|malloc FRAMES PAIRS
 *       driver calls, blocks, blocks as PyTorch reports them (to nobody where there is no recorder),
 *       blocks of a program without a driver, or malloc and free:
 *       allocations and frees at the stacks of shape.h, each timed; prints nanoseconds of a pair:
 *       median, 99th percentile, processor time of the whole loop by pair; and all pairs made
 *   bench_program calls LIVE STEPS PAIRS
 *       LIVE blocks stay, then STEPS steps of PAIRS pairs; prints for allocations, frees and step
 *       calls the median, 99.9th percentile and maximum, by the clock and by processor time; and
 *       how often the thread gave its processor up (waited), had it taken away, and met a page
 *       for the first time meanwhile
 *   bench_program live BLOCKS [BLOCKS ...]
 *       two threads, each with streams and a pool of its own, allocate and free; step n ends with
 *       100 * n blocks live; at the numbers given (ascending, multiples of 100) it waits a moment
 *
 * All but alone and malloc need a driver. FRAMES counts from _start to the function that allocates.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "samples/driver.h"
#include "tests/bench/shape.h"

enum {
	WINDOW = 256,       /* blocks that live at once */
	WARM_UP = 55000,    /* pairs before the measured ones: the ring of deaths is full then */
	/* _start, two functions of libc, main, the mode's, shape_visit, and the leaf */
	FRAMES_BESIDE_SHAPE = 7,
};

static struct driver driver;

static uint64_t clock_of(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

static int by_value(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static void *room_for(size_t count, size_t bytes)
{
	void *room = calloc(count, bytes);

	if (!room)
		exit(2);
	memset(room, 1, count * bytes); /* so that no page is met for the first time later */
	return room;
}

/*
 * On the last processor of those allowed. Threads that a recorder has made by now stay free to run
 * elsewhere.
 */
static void pin(void)
{
	cpu_set_t set;
	int last = -1;

	if (sched_getaffinity(0, sizeof(set), &set))
		return;
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			last = i;
	CPU_ZERO(&set);
	CPU_SET(last, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* ---- pairs ---- */

/* c10::reportMemoryUsageToProfiler and its Device. */
struct device {
	int8_t type, index;
};
typedef void report_function(void *, int64_t, uint64_t, uint64_t, struct device);
#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"

static struct {
	enum { DRIVER, BLOCK, TORCH, ALONE, MALLOC } mode;
	report_function *report;
	uint64_t turn; /* even: allocates, odd: frees what is WINDOW pairs old */
	device_pointer block[WINDOW];
	uint32_t taken[WINDOW]; /* nanoseconds of the allocation */
	uint32_t *pair;
	uint64_t measured, wanted;
	device_pointer pool;
} pairs;

static void report(device_pointer block, int64_t size)
{
	const struct device device = {1, 0};

	if (pairs.report)
		pairs.report((void *)(uintptr_t)block, size, 0, 0, device);
}

static void pair_allocate(uint64_t number)
{
	device_pointer *block = &pairs.block[number % WINDOW];
	uint64_t start = now();

	switch (pairs.mode) {
	case DRIVER:
		if (driver.memory_allocate(block, 512 * (1 + number * 7 % 61)))
			exit(2);
		break;
	case BLOCK:
	case ALONE:
		*block = pairs.pool + number * 13 % WINDOW * 32768;
		vramcore_block((void *)(uintptr_t)*block, 512 * (1 + number * 7 % 61), NULL);
		break;
	case TORCH:
		*block = pairs.pool + number * 13 % WINDOW * 32768;
		report(*block, 512 * (1 + (int64_t)number * 7 % 61));
		break;
	case MALLOC:
		*block = (uintptr_t)malloc(64 + number * 7 % 61 * 16);
		break;
	}
	pairs.taken[number % WINDOW] = (uint32_t)(now() - start);
}

static void pair_free(uint64_t number)
{
	device_pointer block = pairs.block[number % WINDOW];
	uint64_t start, taken;

	if (!block)
		return;
	start = now();
	switch (pairs.mode) {
	case DRIVER:
		if (driver.memory_free(block))
			exit(2);
		break;
	case BLOCK:
	case ALONE:
		vramcore_block_free((void *)(uintptr_t)block);
		break;
	case TORCH:
		report(block, -512);
		break;
	case MALLOC:
		free((void *)(uintptr_t)block);
		break;
	}
	taken = now() - start + pairs.taken[number % WINDOW];
	if (pairs.measured < pairs.wanted)
		pairs.pair[pairs.measured++] = (uint32_t)taken;
}

/* The allocation of a pair is made at one stack, its free at another. */
static __attribute__((noinline)) void pairs_leaf(struct shape *shape)
{
	uint64_t number = pairs.turn / 2;

	(void)shape;
	if (pairs.turn++ % 2)
		pair_free(number + 1);
	else
		pair_allocate(number);
}

static int run_pairs(const char *mode, unsigned int frames, uint64_t count)
{
	static struct shape shape;
	uint64_t start, taken, done;

	pairs.mode = !strcmp(mode, "driver") ? DRIVER :
		     !strcmp(mode, "block")  ? BLOCK :
		     !strcmp(mode, "torch")  ? TORCH :
		     !strcmp(mode, "alone")  ? ALONE :
					       MALLOC;
	pairs.pair = room_for(count, sizeof(*pairs.pair));
	pairs.pool = 0x7f0000000000;
	*(void **)&pairs.report = dlsym(RTLD_DEFAULT, REPORT);
	if (pairs.mode < ALONE) {
		driver_open(&driver);
		if (driver.memory_allocate(&pairs.pool, WINDOW * 32768))
			return 2;
	}
	shape_init(&shape, frames - FRAMES_BESIDE_SHAPE, pairs_leaf);
	shape_visit(&shape);
	pin();
	while (pairs.turn < 2 * WARM_UP)
		shape_visit(&shape);
	pairs.wanted = count;
	start = clock_of(CLOCK_THREAD_CPUTIME_ID);
	done = pairs.turn;
	while (pairs.measured < count)
		shape_visit(&shape);
	taken = clock_of(CLOCK_THREAD_CPUTIME_ID) - start;
	done = (pairs.turn - done) / 2;
	qsort(pairs.pair, count, sizeof(*pairs.pair), by_value);
	printf("%u %u %.1f %llu\n", pairs.pair[count / 2], pairs.pair[count * 99 / 100],
	       (double)taken / (double)done, (unsigned long long)pairs.turn / 2);
	return 0;
}

/* ---- calls ---- */

struct call_times {
	uint32_t *wall, *processor;
	uint64_t count, room;
};

struct moment {
	uint64_t wall, processor;
};

static struct moment moment_now(void)
{
	struct moment moment;

	moment.processor = clock_of(CLOCK_THREAD_CPUTIME_ID);
	moment.wall = now();
	return moment;
}

static void note(struct call_times *times, const struct moment *start)
{
	uint64_t wall = now() - start->wall;
	uint64_t processor = clock_of(CLOCK_THREAD_CPUTIME_ID) - start->processor;

	if (times->count == times->room)
		return;
	times->wall[times->count] = (uint32_t)wall;
	times->processor[times->count++] = (uint32_t)processor;
}

static void print_times(const char *what, struct call_times *times)
{
	uint64_t count = times->count;

	qsort(times->wall, count, sizeof(*times->wall), by_value);
	qsort(times->processor, count, sizeof(*times->processor), by_value);
	printf("%s %llu wall %u %u %u processor %u %u %u\n", what, (unsigned long long)count,
	       times->wall[count / 2], times->wall[count - 1 - count / 1000],
	       times->wall[count - 1], times->processor[count / 2],
	       times->processor[count - 1 - count / 1000], times->processor[count - 1]);
}

static struct {
	struct call_times allocate, release, step;
	device_pointer pool;
	uint64_t live, turn;
	bool measured;
} calls;

static void *block_at(uint64_t number)
{
	return (void *)(uintptr_t)(calls.pool + number * 8192);
}

/* Frees one of the blocks and gives its place out again at the next stack. */
static __attribute__((noinline)) void calls_leaf(struct shape *shape)
{
	uint64_t number = calls.turn / 2 * 7919 % calls.live;
	struct moment start;

	(void)shape;
	start = moment_now();
	if (calls.turn++ % 2) {
		vramcore_block(block_at(number), 4096, NULL);
		if (calls.measured)
			note(&calls.allocate, &start);
	} else {
		vramcore_block_free(block_at(number));
		if (calls.measured)
			note(&calls.release, &start);
	}
}

static void calls_fill(struct shape *shape)
{
	if (calls.turn < calls.live)
		vramcore_block(block_at(calls.turn++), 4096, NULL);
	(void)shape;
}

static int run_calls(uint64_t live, uint64_t steps, uint64_t count)
{
	static struct shape fill, shape;
	struct call_times *all[] = {&calls.allocate, &calls.release, &calls.step};
	struct rusage before, after;

	for (unsigned int i = 0; i < 3; i++) {
		all[i]->room = i < 2 ? steps * (count + SHAPE_STACKS) : steps;
		all[i]->wall = room_for(all[i]->room, sizeof(uint32_t));
		all[i]->processor = room_for(all[i]->room, sizeof(uint32_t));
	}
	calls.live = live;
	driver_open(&driver);
	if (driver.memory_allocate(&calls.pool, live * 8192))
		return 2;
	pin();
	shape_init(&fill, 30 - FRAMES_BESIDE_SHAPE, calls_fill);
	while (calls.turn < live)
		shape_visit(&fill);
	shape_init(&shape, 30 - FRAMES_BESIDE_SHAPE, calls_leaf);
	calls.turn = 0;
	while (calls.turn < 2 * WARM_UP)
		shape_visit(&shape);
	calls.measured = true;
	getrusage(RUSAGE_THREAD, &before);
	for (uint64_t step = 1; step <= steps; step++) {
		uint64_t end = calls.turn + 2 * count;
		struct moment start;

		while (calls.turn < end)
			shape_visit(&shape);
		start = moment_now();
		vramcore_step(step);
		note(&calls.step, &start);
	}
	getrusage(RUSAGE_THREAD, &after);
	print_times("allocate", &calls.allocate);
	print_times("free", &calls.release);
	print_times("step", &calls.step);
	printf("kernel %ld %ld %ld\n", after.ru_nvcsw - before.ru_nvcsw,
	       after.ru_nivcsw - before.ru_nivcsw, after.ru_minflt - before.ru_minflt);
	return 0;
}

/* ---- live ---- */

enum {
	LIVE_THREADS = 2,
	LIVE_A_STEP = 100 / LIVE_THREADS, /* blocks that stay, a thread and step */
	CLASSES = 64,
};
#define LIVE_SEGMENT ((size_t)32 << 20)

/* Blocks by size class, given back last and handed out first, as caching allocators do. */
struct pool {
	device_pointer *free[CLASSES];
	size_t count[CLASSES], room[CLASSES];
	device_pointer at, end;
};

struct live_thread {
	pthread_t thread;
	struct shape shape;
	struct pool pool;
	uint64_t random, stay, to_come; /* of this step: blocks that stay, stacks to visit */
	device_pointer saved[SHAPE_STACKS];
	unsigned int class[SHAPE_STACKS];
};

static pthread_barrier_t step_begins, step_ends;
static bool live_over;

static device_pointer pool_take(struct pool *pool, unsigned int class)
{
	size_t bytes = (size_t)(class + 1) * 512;
	device_pointer block;

	if (pool->count[class])
		return pool->free[class][--pool->count[class]];
	if (pool->end - pool->at < bytes) {
		if (driver.memory_allocate(&pool->at, LIVE_SEGMENT))
			exit(2);
		pool->end = pool->at + LIVE_SEGMENT;
	}
	block = pool->at;
	pool->at += bytes;
	return block;
}

static void pool_give(struct pool *pool, unsigned int class, device_pointer block)
{
	if (pool->count[class] == pool->room[class]) {
		pool->room[class] = pool->room[class] ? 2 * pool->room[class] : 64;
		pool->free[class] = realloc(pool->free[class],
					    pool->room[class] * sizeof(*pool->free[class]));
		if (!pool->free[class])
			exit(2);
	}
	pool->free[class][pool->count[class]++] = block;
}

/*
 * At each stack a block of the stack's own size, or now and then another, on one of five streams.
 * Some of each step stay, here and there; the others are given back at the same stack later.
 */
static __attribute__((noinline)) void live_leaf(struct shape *shape)
{
	struct live_thread *own = (struct live_thread *)((char *)shape -
							 offsetof(struct live_thread, shape));
	unsigned int class = shape->stack * 37 % CLASSES, stack = shape->stack;
	size_t requested;
	device_pointer block;

	own->random = own->random * 6364136223846793005u + 1442695040888963407u;
	if (own->random >> 60 == 0)
		class = (unsigned int)(own->random >> 40) % CLASSES;
	block = pool_take(&own->pool, class);
	requested = (class + 1) * 512 - (own->random >> 50) % 4 * 96;
	vramcore_block_named((void *)(uintptr_t)block, (class + 1) * 512, requested,
			     stack % 16 ? NULL : (void *)(uintptr_t)(0x5550aa00 + stack), NULL);
	if ((own->random >> 33) % own->to_come-- < own->stay) {
		own->stay--;
		return;
	}
	if (own->saved[stack]) {
		vramcore_block_free((void *)(uintptr_t)own->saved[stack]);
		pool_give(&own->pool, own->class[stack], own->saved[stack]);
	}
	own->saved[stack] = block;
	own->class[stack] = class;
}

static void *live_work(void *argument)
{
	struct live_thread *own = argument;
	void *context;

	if (driver.primary_context_retain(&context, 0) || driver.context_set_current(context))
		exit(2);
	for (;;) {
		pthread_barrier_wait(&step_begins);
		if (live_over)
			return NULL;
		own->stay = LIVE_A_STEP;
		own->to_come = 2 * SHAPE_STACKS;
		shape_visit(&own->shape);
		shape_visit(&own->shape);
		pthread_barrier_wait(&step_ends);
	}
}

static int run_live(int count, char **texts)
{
	static struct live_thread thread[LIVE_THREADS];
	uint64_t step = 0;

	driver_open(&driver);
	pthread_barrier_init(&step_begins, NULL, LIVE_THREADS + 1);
	pthread_barrier_init(&step_ends, NULL, LIVE_THREADS + 1);
	for (unsigned int i = 0; i < LIVE_THREADS; i++) {
		shape_init(&thread[i].shape, 20 + 10 * i, live_leaf);
		thread[i].random = i + 1;
		if (pthread_create(&thread[i].thread, NULL, live_work, &thread[i]))
			return 2;
	}
	for (int i = 0; i < count; i++) {
		uint64_t wanted = strtoull(texts[i], NULL, 10) / 100;

		while (step < wanted) {
			pthread_barrier_wait(&step_begins);
			pthread_barrier_wait(&step_ends);
			vramcore_step(++step);
		}
		sleep(1);
	}
	live_over = true;
	pthread_barrier_wait(&step_begins);
	for (unsigned int i = 0; i < LIVE_THREADS; i++)
		pthread_join(thread[i].thread, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "pairs"))
		return run_pairs(argv[2], (unsigned int)strtoul(argv[3], NULL, 10),
				 strtoull(argv[4], NULL, 10));
	if (argc == 5 && !strcmp(argv[1], "calls"))
		return run_calls(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
				 strtoull(argv[4], NULL, 10));
	if (argc > 2 && !strcmp(argv[1], "live"))
		return run_live(argc - 2, argv + 2);
	fprintf(stderr, "usage: see the head of bench_program.c\n");
	return 64;
}
