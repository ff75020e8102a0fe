/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of four devices that makes no call about contexts at all: each thread finds one current
 * that a path unknown to the recorder has set, as the vendor's runtime library does it. The map is
 * right in device and context of everything all the same, but for the contexts themselves.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "compare.h"
#include "functions.h"
#include "formats/tables.h"

#define DEVICES 4

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			__atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);                        \
		}                                                                                  \
	} while (0)

struct worker {
	pthread_t thread;
	vc_cu_pointer pointer[4];
	vc_cu_array array;
	vc_cu_stream stream;
	vc_cu_object module;
	void *pinned;
};

static struct worker workers[DEVICES];
static pthread_barrier_t barrier;

static void *work(void *argument)
{
	struct worker *own = argument, *other = &workers[(own - workers + 1) % DEVICES];
	const struct vc_cu_array_shape shape = {64, 64, 0x20, 1};
	size_t pitch;

	CHECK(!cu.cuMemAlloc_v2(&own->pointer[0], 1000));
	CHECK(!cu.cuMemAllocPitch_v2(&own->pointer[1], &pitch, 100, 10, 4));
	CHECK(!cu.cuMemAllocAsync(&own->pointer[2], 1 << 20, NULL));
	CHECK(!cu.cuMemAllocManaged(&own->pointer[3], 1 << 20, 1));
	CHECK(!cu.cuArrayCreate_v2(&own->array, &shape));
	CHECK(!cu.cuStreamCreate(&own->stream, 0));
	CHECK(!cu.cuModuleLoadData(&own->module, "code"));
	CHECK(!cu.cuMemHostAlloc(&own->pinned, 4096, 0));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	/* What belongs to another device is freed as well as one's own. */
	CHECK(!cu.cuMemFree_v2(other->pointer[0]));
	CHECK(!cu.cuMemFreeAsync(other->pointer[2], NULL));
	return NULL;
}

/* Of the contexts nobody told the recorder: they are all that it does not have. */
static void compare(const char *where)
{
	CHECK(test_compare(where) == DEVICES);
}

int main(void)
{
	struct test_recording recording;

	if (!test_functions_get("dlsym") || cu.cuInit(0))
		return 1;
	CHECK(!pthread_barrier_init(&barrier, NULL, DEVICES + 1));
	for (int i = 0; i < DEVICES; i++)
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	pthread_barrier_wait(&barrier);
	compare("four devices");
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < DEVICES; i++)
		pthread_join(workers[i].thread, NULL);
	compare("some freed");
	CHECK(!test_recording_open(getpid(), &recording));
	if (!failures) {
		bool seen[DEVICES + 1] = {false};

		for (int i = 0; i < DEVICES; i++) {
			const struct vc_record *record =
				test_record(&recording, VC_KIND_PITCHED, workers[i].pointer[1]);

			CHECK(record && record->device_plus_one <= DEVICES && record->context);
			if (record)
				seen[record->device_plus_one] = true;
			CHECK(recording.root->device[i].check);
		}
		for (int i = 1; i <= DEVICES; i++)
			CHECK(seen[i]);
		CHECK(test_counter(&recording, VC_COUNTER_DEVICE_UNKNOWN) == 0);
	}
	return failures != 0;
}
