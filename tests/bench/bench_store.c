/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nanoseconds of the store for one allocation and its free: begin, commit, claim, free_commit.
 *
 * bench_store [FOLDER] default /dev/shm. Processor time of the thread, so that a busy machine
 * shows less; the median and the best of 31 rounds. Threads have addresses of their own.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "capture/inside/store.h"

#define ROUNDS 31
#define PAIRS 20000u

struct worker {
	pthread_t thread;
	uint32_t id;
	uint32_t window; /* allocations that live at once */
	double median, best;
};

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void allocate(uint64_t address, uint32_t id)
{
	struct vc_birth birth = {
		.address = address,
		.size = 4096,
		.requested = 4000,
		.stack = 1 + (uint32_t)(address / 512 % 500),
		.device_plus_one = 1,
		.kind = VC_KIND_BLOCK,
		.thread = id,
	};
	uint32_t record = vc_store_begin(&birth);

	vc_store_commit(record, &birth);
}

static void release(uint64_t address, uint32_t id)
{
	struct vc_death death = {.thread = id};
	struct vc_claim claim;

	if (!vc_store_claim(address, VC_KINDS(VC_KIND_BLOCK), &claim))
		abort();
	vc_store_free_commit(&claim, &death);
}

static int by_value(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	uint64_t base = 0x7f0000000000u + ((uint64_t)worker->id << 36);
	double round[ROUNDS];

	for (uint32_t i = 0; i < worker->window; i++)
		allocate(base + i * UINT64_C(512), worker->id);
	for (unsigned r = 0; r < ROUNDS; r++) {
		uint64_t start = now();

		for (uint32_t i = 0; i < PAIRS; i++) {
			uint64_t at = (r * UINT64_C(20000) + i) * 7919 % worker->window;

			release(base + at * 512, worker->id);
			allocate(base + at * 512, worker->id);
		}
		round[r] = (double)(now() - start) / PAIRS;
	}
	qsort(round, ROUNDS, sizeof(round[0]), by_value);
	worker->median = round[ROUNDS / 2];
	worker->best = round[0];
	return NULL;
}

static void bench(const char *folder, unsigned threads, uint32_t live)
{
	struct vc_store_options options = {.directory = folder, .budget = UINT64_C(1) << 30};
	struct worker worker[16] = {{0}};
	double median = 0, best = 0;
	char name[64];

	snprintf(name, sizeof(name), "bench-%d.vrec", (int)getpid());
	options.name = name;
	vc_store_forget();
	if (vc_store_start(&options, NULL) < 0) {
		fprintf(stderr, "bench_store: no recording in %s\n", folder);
		exit(2);
	}
	for (unsigned i = 0; i < threads; i++) {
		worker[i].id = i + 1;
		worker[i].window = live / threads;
		if (pthread_create(&worker[i].thread, NULL, work, &worker[i]))
			exit(2);
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(worker[i].thread, NULL);
		median += worker[i].median / threads;
		best += worker[i].best / threads;
	}
	printf("%u threads, %7u live: %6.0f ns a pair, at best %6.0f\n", threads, live, median,
	       best);
	vc_store_unlink();
}

int main(int argc, char **argv)
{
	const char *folder = argc > 1 ? argv[1] : "/dev/shm";

	for (uint32_t live = 1000; live <= 1000000; live *= 10)
		bench(folder, 1, live);
	bench(folder, 2, 10000);
	bench(folder, 4, 10000);
	return 0;
}
