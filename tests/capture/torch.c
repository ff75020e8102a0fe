/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reports of PyTorch's allocator, made by two libraries with its names (torch_reports.cpp)
 * that are opened as a Python extension's are: in a scope of their own. TEST_TORCH is their
 * folder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "compare.h"
#include "formats/tables.h"
#include "functions.h"
#include "torch_reports.h"

enum { CPU = 0, CUDA = 1, XPU = 12 };
#define MIB ((uint64_t)1 << 20)

static int failures;

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			failures++;                                                                \
		}                                                                                  \
	} while (0)

static struct test_recording recording;
static void (*usage)(void *, int64_t, uint64_t, uint64_t, int, int);
static void (*memory)(int64_t, uint64_t, uint64_t, int, int);
static int (*driver)(uint64_t *, size_t);
static void (*made)(const void *tensor, void *node, unsigned int number);
static int (*runs)(void *node, struct test_torch_calls *seen);
static struct test_torch_calls *seen;

static void open_libraries(void)
{
	struct test_torch_calls *(*get)(void);
	char path[512];
	void *library;

	snprintf(path, sizeof(path), "%s/libc10_cuda.so", getenv("TEST_TORCH"));
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&usage = dlsym(library, "test_torch_usage");
	*(void **)&memory = dlsym(library, "test_torch_memory");
	*(void **)&driver = dlsym(library, "test_torch_driver");
	*(void **)&made = dlsym(library, "test_torch_made");
	*(void **)&runs = dlsym(library, "test_torch_runs");
	*(void **)&get = dlsym(library, "test_torch_seen"); /* of libc10.so, which it needs */
	seen = get();
}

static void begin(void)
{
	vc_cu_context context;

	if (!test_functions_get("dlsym"))
		exit(1);
	CHECK(!cu.cuInit(0));
	CHECK(!cu.cuCtxCreate_v2(&context, 0, 0));
	open_libraries();
}

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static bool open_own(void)
{
	bool there = test_recording_open(getpid(), &recording) == 0;

	CHECK(there);
	return there;
}

static const struct vc_record *block_at(uint64_t address)
{
	return test_record(&recording, VC_KIND_BLOCK, address);
}

/* ---- blocks ---- */

static void check_stack(const struct vc_record *record)
{
	const struct vc_stack_head *stack = test_stack(&recording, record->stack);
	const uint64_t *frames = (const uint64_t *)(stack + 1);
	const struct vc_module_row *module;

	CHECK(stack && stack->count >= 2 && frames[0] >> 48);
	module = test_item(&recording, VC_REC_MODULES, (frames[0] >> 48) - 1, sizeof(*module));
	CHECK(strstr(test_string(&recording, module->path), "/libc10_cuda.so"));
}

static void blocks(void)
{
	const struct vc_record *record;
	const struct vc_device *totals;
	uint64_t segment, number, step;

	begin();
	CHECK(!driver(&segment, 20 * MIB));
	/* where the recorder is loaded late, vramcore.h's functions found none */
	vramcore_step(3);
	step = vramcore_v1_step ? 3 : 0;
	errno = 4711;
	usage(at(segment), 1024, 1024, 20 * MIB, CUDA, 0);
	usage(at(segment + 1024), 2 * (int64_t)MIB, 2 * MIB + 1024, 20 * MIB, CUDA, 1);
	CHECK(errno == 4711);
	CHECK(seen->usage == 2 && seen->pointer == at(segment + 1024) &&
	      seen->size == 2 * (int64_t)MIB && seen->allocated == 2 * MIB + 1024 &&
	      seen->reserved == 20 * MIB && seen->type == CUDA && seen->index == 1);
	if (!open_own())
		return;
	record = block_at(segment);
	CHECK(record && record->size == 1024 && record->device_plus_one == 1 &&
	      record->step == step && record->requested == 0 &&
	      record->flags == (VC_FLAG_REPORTED | VC_FLAG_TORCH) &&
	      record->thread == (uint32_t)gettid());
	if (record) {
		check_stack(record);
		CHECK(!strcmp(test_string(&recording, record->call_name),
			      "c10::reportMemoryUsageToProfiler"));
	}
	record = block_at(segment + 1024);
	CHECK(record && record->size == 2 * MIB && record->device_plus_one == 2);
	totals = &recording.root->device[1];
	CHECK(vc_word_value(totals->torch_allocated) == 2 * MIB + 1024 &&
	      vc_word_value(totals->torch_reserved) == 20 * MIB);
	CHECK(record && totals->torch_number == vc_word(vc_state_number(record->state)));

	number = vc_word_value(recording.root->clock);
	usage(at(segment + 1024), -2 * (int64_t)MIB, 0, 20 * MIB, CUDA, 1);
	CHECK(seen->usage == 3 && seen->size == -2 * (int64_t)MIB);
	CHECK(!block_at(segment + 1024) && block_at(segment));
	CHECK(totals->torch_number == vc_word(number + 1) && totals->torch_allocated == 0);
	/* handed out again, in another size */
	usage(at(segment + 1024), 512, 512, 20 * MIB, CUDA, 1);
	record = block_at(segment + 1024);
	CHECK(record && record->size == 512);
	CHECK(test_counter(&recording, VC_COUNTER_BLOCKS_UNKNOWN) == 0);
	CHECK(test_counter(&recording, VC_COUNTER_BLOCKS_REPLACED) == 0);
	CHECK(test_counter(&recording, VC_COUNTER_STACKS_SKIPPED) == 0);
}

/* What must not happen, and is not believed when it does. */
static void odd(void)
{
	uint64_t segment;

	begin();
	CHECK(!driver(&segment, 2 * MIB));
	usage(at(segment), 1024, 1024, 2 * MIB, CUDA, 0);
	usage(at(segment), 2048, 3072, 2 * MIB, CUDA, 0);
	usage(at(segment + 4096), -512, 3072, 2 * MIB, CUDA, 0);
	usage(NULL, 512, 3072, 2 * MIB, CUDA, 0);
	usage(at(segment), 0, 3072, 2 * MIB, CUDA, 0);
	usage(at(segment + 8192), 512, 3584, 2 * MIB, CUDA, -1);
	usage(at(segment + 9216), 512, 3584, 2 * MIB, CUDA, 127);
	CHECK(seen->usage == 7);
	if (!open_own())
		return;
	CHECK(block_at(segment) && block_at(segment)->size == 2048);
	CHECK(block_at(segment + 8192) && block_at(segment + 8192)->device_plus_one == 0);
	CHECK(block_at(segment + 9216) && block_at(segment + 9216)->device_plus_one == 128);
	CHECK(test_counter(&recording, VC_COUNTER_BLOCKS_REPLACED) == 1);
	CHECK(test_counter(&recording, VC_COUNTER_BLOCKS_UNKNOWN) == 1);
	CHECK(test_counter(&recording, VC_COUNTER_ALLOCATIONS_SEEN) >= 5);
}

/* ---- other devices ---- */

static void others(void)
{
	open_libraries();
	for (int i = 0; i < 100; i++) {
		usage(&failures, 512, 512, 512, CPU, 0);
		usage(&failures, -512, 0, 512, CPU, 0);
		usage(&failures, 512, 512, 512, XPU, 0);
		memory(512, 0, 0, CPU, 0);
	}
	/* nothing was recorded that could have begun with a free */
	usage(&failures, -512, 0, 512, CUDA, 0);
	CHECK(seen->usage == 301 && seen->memory == 100);
	CHECK(test_recordings() == 0);
}

/* ---- out of memory ---- */

static uint64_t outcome_of(uint64_t row)
{
	const struct vc_failure_row *failure =
		test_item(&recording, VC_REC_FAILURES, row, sizeof(*failure));

	return failure ? vc_word_value(failure->outcome) : UINT64_MAX;
}

static unsigned int oom_moments(void)
{
	uint64_t used = test_used(&recording, VC_REC_MOMENTS);
	unsigned int count = 0;

	for (uint64_t i = 0; i < used; i++) {
		const struct vc_moment_row *moment =
			test_item(&recording, VC_REC_MOMENTS, i, sizeof(*moment));

		count += moment && !strcmp(test_string(&recording, moment->trigger), "oom");
	}
	return count;
}

static void out_of_memory(void)
{
	const uint64_t huge = (uint64_t)1 << 45;
	const struct vc_failure_row *failure;
	uint64_t segment, other;

	begin();
	CHECK(!driver(&segment, 2 * MIB));
	usage(at(segment), 1024, 1024, 2 * MIB, CUDA, 0);
	if (!open_own())
		return;
	/* tried twice, then it worked: a retry */
	CHECK(driver(&other, huge) && driver(&other, huge) && !driver(&other, MIB));
	CHECK(test_used(&recording, VC_REC_FAILURES) == 1);
	CHECK(outcome_of(0) == VC_FAILURE_RETRIED && oom_moments() == 0);
	CHECK(test_counter(&recording, VC_COUNTER_RETRIES) == 1);
	/* tried three times, and given up: one snapshot, of what PyTorch was asked for */
	CHECK(driver(&other, huge) && driver(&other, huge) && driver(&other, huge));
	CHECK(oom_moments() == 0);
	errno = 4711;
	memory((int64_t)huge - 512, 1024, 2 * MIB, CUDA, 0);
	CHECK(errno == 4711 && seen->memory == 1 && seen->size == (int64_t)huge - 512);
	CHECK(test_used(&recording, VC_REC_FAILURES) == 3);
	CHECK(outcome_of(1) == VC_FAILURE_REPORTED);
	CHECK(outcome_of(2) == VC_FAILURE_OUT_OF_MEMORY && oom_moments() == 1);
	failure = test_item(&recording, VC_REC_FAILURES, 2, sizeof(*failure));
	CHECK(failure && failure->requested == huge - 512 && failure->device_plus_one == 1 &&
	      failure->live >= 3 * MIB && failure->stack && failure->free_plus_one);
	CHECK(failure && !strcmp(test_string(&recording, failure->call_name),
				 "c10::reportOutOfMemoryToProfiler"));
	CHECK(!driver(&other, MIB));
	CHECK(test_counter(&recording, VC_COUNTER_RETRIES) == 1);
	/* a limit of PyTorch's own: the driver was never asked. Over and over, and caught */
	for (int i = 0; i < 1000; i++)
		memory(4096, 1024, 2 * MIB, CUDA, 0);
	CHECK(seen->memory == 1001);
	CHECK(oom_moments() == 3);
	CHECK(test_used(&recording, VC_REC_FAILURES) == 1003);
	for (int i = 0; i < 1000; i++)
		memory(4096, 1024, 2 * MIB, CUDA, 0);
	CHECK(test_used(&recording, VC_REC_FAILURES) == 1024);
	CHECK(test_counter(&recording, VC_COUNTER_FAILURES_LOST) == 2003 - 1024);
}

/* Before any block: that PyTorch will say so is not known yet. */
static void first_out_of_memory(void)
{
	const uint64_t huge = (uint64_t)1 << 45;
	uint64_t other;

	begin();
	CHECK(driver(&other, huge) && driver(&other, huge));
	memory((int64_t)huge, 0, 0, CUDA, 0);
	if (!open_own())
		return;
	CHECK(oom_moments() == 1);
	CHECK(outcome_of(0) == VC_FAILURE_OUT_OF_MEMORY);
}

/* ---- children and threads ---- */

/* A child lets go of what its parent had. It cannot use the device, which is not ours to know. */
static void children(void)
{
	uint64_t segment, own = (uint64_t)1 << 40;
	int status;

	begin();
	CHECK(!driver(&segment, 2 * MIB));
	usage(at(segment), 1024, 1024, 2 * MIB, CUDA, 0);
	if (fork() == 0) {
		failures = 0;
		usage(at(segment), -1024, 0, 2 * MIB, CUDA, 0);
		CHECK(seen->usage == 2);
		CHECK(test_recording_open(getpid(), &recording) != 0);
		usage(at(own), 512, 512, 2 * MIB, CUDA, 0);
		if (open_own()) {
			CHECK(block_at(own) && !block_at(segment));
			CHECK(vc_word_value(recording.root->device[0].torch_allocated) == 512);
		}
		_exit(failures);
	}
	CHECK(wait(&status) > 0 && status == 0);
	if (open_own())
		CHECK(block_at(segment));
}

struct worker {
	pthread_t thread;
	uint64_t from;
	int device;
};

/* Each device's reports come one after the other, those of several at once. */
static void *work(void *argument)
{
	const struct worker *worker = argument;

	for (uint64_t round = 0; round < 2000; round++) {
		for (uint64_t i = 0; i < 16; i++)
			usage(at(worker->from + i * 512), 512, (i + 1) * 512, MIB, CUDA,
			      worker->device);
		for (uint64_t i = round < 1999 ? 0 : 8; i < 16; i++)
			usage(at(worker->from + i * 512), -512, 8 * 512, MIB, CUDA, worker->device);
	}
	return NULL;
}

static void threads(void)
{
	struct worker workers[4];
	uint64_t segment;

	begin();
	CHECK(!driver(&segment, 4 * MIB));
	for (int i = 0; i < 4; i++) {
		workers[i] = (struct worker){.from = segment + (uint64_t)i * MIB, .device = i};
		CHECK(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(workers[i].thread, NULL));
	if (!open_own())
		return;
	for (int i = 0; i < 4; i++) {
		for (uint64_t k = 0; k < 16; k++)
			CHECK(!!block_at(workers[i].from + k * 512) == (k < 8));
		CHECK(vc_word_value(recording.root->device[i].torch_allocated) == 8 * 512);
	}
	CHECK(test_counter(&recording, VC_COUNTER_BLOCKS_UNKNOWN) == 0);
	CHECK(test_counter(&recording, VC_COUNTER_BLOCKS_REPLACED) == 0);
}

/* ---- nodes of the autograd graph ---- */

/* Before a recording and in one: PyTorch's own functions get what they are given, and may throw. */
static void nodes(void)
{
	uint64_t node[8] = {1, 2, 3, 4}, failing[8] = {[7] = 1};
	uint64_t segment;

	begin();
	for (int recorded = 0; recorded < 2; recorded++) {
		errno = 4711;
		made(&segment, node, 7);
		CHECK(seen->tensor == &segment && seen->node == node && seen->index == 7);
		CHECK(runs(node, seen) == 1 && seen->node == node);
		CHECK(runs(failing, seen) == -42 && seen->node == failing);
		CHECK(runs(node, seen) == 1);
		CHECK(errno == 4711);
		CHECK(seen->made == recorded + 1 && seen->ran == 3 * (recorded + 1));
		CHECK(recorded || !driver(&segment, 20 * MIB));
	}
	usage(at(segment), 1024, 1024, 20 * MIB, CUDA, 0);
	if (open_own()) /* no Python here: no place to tell of */
		CHECK(block_at(segment) && !block_at(segment)->python);
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"blocks", blocks},   {"odd", odd},
		{"others", others},   {"out-of-memory", out_of_memory},
		{"children", children}, {"first-out-of-memory", first_out_of_memory},
		{"threads", threads},	{"nodes", nodes},
	};

	for (size_t i = 0; count == 2 && i < sizeof(cases) / sizeof(*cases); i++) {
		if (strcmp(cases[i].name, arguments[1]))
			continue;
		cases[i].run();
		return failures != 0;
	}
	return 64;
}
