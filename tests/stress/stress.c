/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stress THREADS PAIRS: so many allocations and frees in all, by so many threads at once.
 *
 * Each thread holds some memory of several kinds; every fourth piece is handed to whoever comes
 * next, and freed there. When all threads are done the recording has to hold what the driver's own
 * list holds, and its counts have to be those that the threads counted. The program runs with
 * libvramcore.so preloaded, or has the recorder built in, where the thread sanitizer watches both.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "capture/cuda_abi.h"
#include "capture/vramcore.h"
#include "compare.h"

vc_cu_result cuInit(unsigned int flags);
vc_cu_result cuDevicePrimaryCtxRetain(vc_cu_context *context, int device);
vc_cu_result cuCtxSetCurrent(vc_cu_context context);
vc_cu_result cuMemAlloc_v2(vc_cu_pointer *pointer, size_t size);
vc_cu_result cuMemAllocManaged(vc_cu_pointer *pointer, size_t size, unsigned int flags);
vc_cu_result cuMemAllocAsync(vc_cu_pointer *pointer, size_t size, vc_cu_stream stream);
vc_cu_result cuMemFree_v2(vc_cu_pointer pointer);
vc_cu_result cuMemFreeAsync(vc_cu_pointer pointer, vc_cu_stream stream);

enum { THREADS_MAX = 64, HELD = 16, EXCHANGE = 64 };

struct piece {
	vc_cu_pointer pointer;
	uint64_t kind;
};

struct worker {
	pthread_t thread;
	uint64_t pairs, random, allocated, freed, failed;
	struct piece held[HELD];
};

static vc_cu_context context;
static struct {
	pthread_mutex_t lock;
	struct piece piece;
} exchange[EXCHANGE];
static struct worker worker[THREADS_MAX];

static uint64_t random_of(struct worker *own)
{
	own->random = own->random * 6364136223846793005u + 1442695040888963407u;
	return own->random >> 33;
}

static struct piece allocate(struct worker *own)
{
	struct piece piece = {.kind = random_of(own) % 4};
	size_t size = 256 + random_of(own) % 64 * 512;
	vc_cu_result result;

	if (piece.kind == 0)
		result = cuMemAllocManaged(&piece.pointer, size, 1);
	else if (piece.kind == 1)
		result = cuMemAllocAsync(&piece.pointer, size, NULL);
	else
		result = cuMemAlloc_v2(&piece.pointer, size);
	own->failed += result != 0;
	own->allocated += result == 0;
	return piece;
}

static void release(struct worker *own, struct piece piece)
{
	vc_cu_result result = piece.kind == 1 ? cuMemFreeAsync(piece.pointer, NULL) :
						cuMemFree_v2(piece.pointer);

	own->failed += result != 0;
	own->freed += result == 0;
}

static void swap(struct worker *own, struct piece *piece)
{
	uint64_t place = random_of(own) % EXCHANGE;
	struct piece other;

	pthread_mutex_lock(&exchange[place].lock);
	other = exchange[place].piece;
	exchange[place].piece = *piece;
	pthread_mutex_unlock(&exchange[place].lock);
	*piece = other;
}

static void *work(void *argument)
{
	struct worker *own = argument;

	own->failed += cuCtxSetCurrent(context) != 0;
	for (uint64_t i = 0; i < own->pairs; i++) {
		struct piece *piece = &own->held[random_of(own) % HELD];

		if (piece->pointer && random_of(own) % 4 == 0)
			swap(own, piece);
		if (piece->pointer)
			release(own, *piece);
		*piece = allocate(own);
		if (i % 4096 == 0)
			vramcore_step(i / 4096 + 1);
	}
	return NULL;
}

static uint64_t expect(const char *what, uint64_t found, uint64_t wanted)
{
	if (found != wanted)
		printf("%s: %llu instead of %llu\n", what, (unsigned long long)found,
		       (unsigned long long)wanted);
	return found != wanted;
}

static uint64_t judge(uint64_t allocated, uint64_t freed)
{
	struct test_recording recording;
	uint64_t wrong = 0;

	if (test_recording_open(getpid(), &recording) != 0) {
		printf("no recording\n");
		return 1;
	}
	/* The primary context is an allocation as well. */
	wrong += expect("allocations", test_counter(&recording, VC_COUNTER_ALLOCATIONS_SEEN),
			allocated + 1);
	wrong += expect("frees", test_counter(&recording, VC_COUNTER_FREES_SEEN), freed);
	wrong += expect("unknown", test_counter(&recording, VC_COUNTER_FREES_UNKNOWN), 0);
	wrong += expect("lost", test_counter(&recording, VC_COUNTER_RECORDS_LOST), 0);
	wrong += expect("stacks", test_counter(&recording, VC_COUNTER_STACKS_SKIPPED), 0);
	test_recording_close(&recording);
	return wrong + (uint64_t)test_compare("stress");
}

int main(int argc, char **argv)
{
	unsigned int threads = argc == 3 ? (unsigned int)strtoul(argv[1], NULL, 10) : 0;
	uint64_t pairs = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	uint64_t allocated = 0, freed = 0, failed = 0, wrong;
	struct timespec start, end;

	if (!threads || threads > THREADS_MAX || !pairs)
		return 64;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0))
		return 2;
	for (unsigned int i = 0; i < EXCHANGE; i++)
		pthread_mutex_init(&exchange[i].lock, NULL);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (unsigned int i = 0; i < threads; i++) {
		worker[i].pairs = pairs / threads;
		worker[i].random = i + 1;
		if (pthread_create(&worker[i].thread, NULL, work, &worker[i]))
			return 2;
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(worker[i].thread, NULL);
		allocated += worker[i].allocated;
		freed += worker[i].freed;
		failed += worker[i].failed;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	wrong = failed + judge(allocated, freed);
	printf("%u threads, %llu allocations, %llu frees, %.1f s: %llu failed, %llu wrong\n",
	       threads, (unsigned long long)allocated, (unsigned long long)freed,
	       (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9,
	       (unsigned long long)failed, (unsigned long long)wrong);
	return wrong != 0;
}
