/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder asks the driver about a device's memory at a moment: the same as the program is
 * told, never while a stream is captured, never for a thread that the driver has nothing to say to.
 * One case by name. SIMCUDA_FAIL makes the call number TEST_LAST of some functions fail: by that the
 * calls that the recorder made are counted.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "compare.h"
#include "functions.h"

#define MIB (UINT64_C(1) << 20)
#define TEST_LAST 100u

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

static struct test_recording recording;
static vc_cu_context context;

static void begin(int device)
{
	if (!test_functions_get("dlsym"))
		exit(1);
	CHECK(!cu.cuInit(0));
	CHECK(!cu.cuCtxCreate_v2(&context, 0, device));
}

static const struct vc_moment_row *moment(uint64_t row)
{
	if (!recording.root)
		CHECK(test_recording_open(getpid(), &recording) == 0);
	return recording.root ? test_item(&recording, VC_REC_MOMENTS, row,
					  sizeof(struct vc_moment_row)) : NULL;
}

/* Nothing of this was asked. */
static void is_silent(uint64_t row)
{
	const struct vc_moment_row *kept = moment(row);

	CHECK(kept);
	for (unsigned int i = 0; kept && i < 8; i++)
		CHECK(!kept->device_free[i]);
	CHECK(kept && !kept->graph_used && !kept->graph_reserved && !kept->pool_used &&
	      !kept->pool_reserved && !kept->asked_plus_one);
}

/* The row says what the program is told itself. */
static void is_told(uint64_t row, int device)
{
	const struct vc_moment_row *kept = moment(row);
	uint64_t graph[2] = {1, 1}, used = 1, reserved = 1;
	size_t left = 1, total;
	vc_cu_pool pool;

	CHECK(!cu.cuMemGetInfo_v2(&left, &total));
	CHECK(!cu.cuDeviceGetGraphMemAttribute(device, 0, &graph[0]));
	CHECK(!cu.cuDeviceGetGraphMemAttribute(device, 2, &graph[1]));
	CHECK(!cu.cuDeviceGetDefaultMemPool(&pool, device));
	CHECK(!cu.cuMemPoolGetAttribute(pool, 5, &reserved));
	CHECK(!cu.cuMemPoolGetAttribute(pool, 7, &used));
	CHECK(kept);
	if (!kept)
		return;
	CHECK(kept->asked_plus_one == (uint32_t)device + 1);
	for (int i = 0; i < 8; i++)
		CHECK(kept->device_free[i] == (i == device ? left + 1 : 0));
	CHECK(kept->graph_used == graph[0] + 1 && kept->graph_reserved == graph[1] + 1);
	CHECK(kept->pool_used == used + 1 && kept->pool_reserved == reserved + 1);
}

/* A graph with an allocation of 10 MiB, captured on the stream. `during` is called in the capture. */
static void capture(vc_cu_stream stream, vc_cu_object *executable, void (*during)(void))
{
	vc_cu_pointer pointer;
	vc_cu_graph graph;

	CHECK(!cu.cuStreamBeginCapture_v2(stream, 2 /* relaxed */));
	CHECK(!cu.cuMemAllocAsync(&pointer, 10 * MIB, stream));
	if (during)
		during();
	CHECK(!cu.cuMemFreeAsync(pointer, stream));
	CHECK(!cu.cuStreamEndCapture(stream, &graph));
	CHECK(!cu.cuGraphInstantiateWithFlags(executable, graph, 0));
}

/* On the second device, so that none is taken for another. */
static void asked(void)
{
	vc_cu_context current = NULL;
	vc_cu_pointer pointer;
	vc_cu_object executable;
	vc_cu_stream stream;

	begin(1);
	vramcore_start();
	CHECK(!cu.cuStreamCreate(&stream, 0));
	CHECK(!cu.cuMemAlloc_v2(&pointer, 100 * MIB));
	errno = 4711;
	vramcore_snapshot();
	CHECK(errno == 4711);
	is_told(0, 1);
	CHECK(!cu.cuMemAllocAsync(&pointer, 5 * MIB, NULL));
	capture(stream, &executable, NULL);
	CHECK(!cu.cuGraphLaunch(executable, stream));
	vramcore_step(7);
	is_told(1, 1);
	/* Each of the figures means something. */
	CHECK(moment(1) && moment(1)->graph_reserved == 10 * MIB + 1);
	CHECK(moment(1) && moment(1)->pool_used < moment(1)->pool_reserved);
	CHECK(moment(1) && moment(1)->pool_used > 5 * MIB);
	CHECK(!cu.cuCtxGetCurrent(&current) && current == context);
	CHECK(test_used(&recording, VC_REC_MOMENTS) == 2);
}

/* How often a function whose call TEST_LAST fails had been called so far. */
#define CALLED(ret, call)                                                                          \
	do {                                                                                       \
		(ret) = TEST_LAST - 1;                                                             \
		while ((ret) && !(call))                                                           \
			(ret)--;                                                                   \
	} while (0)

static void take_three(void)
{
	for (int i = 0; i < 3; i++)
		vramcore_snapshot();
}

static void *take_elsewhere(void *stream)
{
	vc_cu_pointer pointer;

	CHECK(!cu.cuCtxSetCurrent(context));
	CHECK(!cu.cuMemAlloc_v2(&pointer, 1000));
	CHECK(!cu.cuMemFree_v2(pointer));
	vramcore_snapshot();
	return stream;
}

static void during_capture(void)
{
	pthread_t thread;

	take_three();
	CHECK(!pthread_create(&thread, NULL, take_elsewhere, NULL));
	CHECK(!pthread_join(thread, NULL));
}

/* Four moments in a capture and one behind it: the calls of one are made. */
static void captured(void)
{
	uint64_t value;
	size_t left, total;
	vc_cu_pool pool = NULL;
	vc_cu_object executable;
	vc_cu_stream stream;
	unsigned int calls;

	begin(0);
	vramcore_start();
	CHECK(!cu.cuStreamCreate(&stream, 0));
	capture(stream, &executable, during_capture);
	vramcore_snapshot();
	for (uint64_t i = 0; i < 4; i++)
		is_silent(i);
	CHECK(moment(4) && moment(4)->device_free[0] && moment(4)->graph_reserved);
	CHECK(test_used(&recording, VC_REC_MOMENTS) == 5);
	CALLED(calls, cu.cuMemGetInfo_v2(&left, &total));
	CHECK(calls == 1);
	CALLED(calls, cu.cuDeviceGetGraphMemAttribute(0, 0, &value));
	CHECK(calls == 2);
	CALLED(calls, cu.cuDeviceGetDefaultMemPool(&pool, 0));
	CHECK(calls == 1);
	CALLED(calls, cu.cuMemPoolGetAttribute(pool, 5, &value));
	CHECK(calls == 2);
}

/* The driver refuses: nothing is known, nothing else happens. */
static void refused(void)
{
	vc_cu_pointer pointer;

	begin(0);
	CHECK(!cu.cuMemAlloc_v2(&pointer, MIB));
	errno = 4711;
	vramcore_snapshot();
	CHECK(errno == 4711);
	CHECK(moment(0) && !moment(0)->device_free[0] && !moment(0)->graph_used &&
	      !moment(0)->graph_reserved && !moment(0)->pool_used && !moment(0)->pool_reserved);
	CHECK(test_used(&recording, VC_REC_FAILURES) == 0);
	CHECK(test_counter(&recording, VC_COUNTER_DEVICE_ERRORS) == 0);
	CHECK(!cu.cuMemAlloc_v2(&pointer, MIB));
}

static void *take_one(void *unused)
{
	vramcore_snapshot();
	return unused;
}

/* A thread without a context, one that made no call, and a signal (VRAMCORE_ON_SIGNAL). */
static void elsewhere(void)
{
	vc_cu_context popped;
	vc_cu_pointer pointer;
	pthread_t thread;

	begin(0);
	CHECK(!cu.cuMemAlloc_v2(&pointer, MIB));
	CHECK(!pthread_create(&thread, NULL, take_one, NULL));
	CHECK(!pthread_join(thread, NULL));
	is_silent(0);
	for (int i = 0; i < 2000 && test_used(&recording, VC_REC_MOMENTS) < 2; i++) {
		/* the handler is the agent's to install */
		struct sigaction action;

		if (!sigaction(SIGUSR2, NULL, &action) && action.sa_handler != SIG_DFL) {
			raise(SIGUSR2);
			break;
		}
		usleep(5000);
	}
	CHECK(test_used(&recording, VC_REC_MOMENTS) == 2);
	is_silent(1);
	CHECK(!cu.cuCtxPopCurrent_v2(&popped));
	vramcore_snapshot();
	is_silent(2);
	CHECK(!cu.cuCtxPushCurrent_v2(popped));
	vramcore_snapshot();
	is_told(3, 0);
}

/* A moment of a failed allocation has what the device had left then. */
static void of_failure(void)
{
	vc_cu_pointer pointer;
	size_t left, total;

	begin(0);
	CHECK(!cu.cuMemAlloc_v2(&pointer, 64 * MIB));
	CHECK(!cu.cuMemGetInfo_v2(&left, &total));
	CHECK(cu.cuMemAlloc_v2(&pointer, total) == 2 && cu.cuMemAlloc_v2(&pointer, total) == 2);
	CHECK(moment(0) && moment(0)->failure_plus_one == 1);
	CHECK(moment(0) && moment(0)->device_free[0] == left + 1);
	CHECK(moment(0) && !moment(0)->asked_plus_one && !moment(0)->device_free[1]);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"asked", asked}, {"captured", captured}, {"refused", refused}, {"elsewhere", elsewhere},
	{"of-failure", of_failure},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc < 2 || strcmp(argv[1], cases[i].name))
			continue;
		cases[i].run();
		return failures != 0;
	}
	return 64;
}
