/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thing that must hold for the recorder inside a program, by name; see the table at the end.
 * Reaches the driver by dlopen and dlsym, so that it starts without one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "compare.h"
#include "formats/tables.h"
#include "functions.h"
#include "misc.h"

int failures;

static struct test_recording recording;

static bool open_own(void)
{
	bool there = test_recording_open(getpid(), &recording) == 0;

	CHECK(there);
	return there;
}

bool begin(void)
{
	vc_cu_context context;

	if (!test_functions_get("dlsym"))
		exit(1);
	CHECK(!cu.cuInit(0));
	CHECK(!cu.cuCtxCreate_v2(&context, 0, 0));
	return !failures;
}

/* ---- a program without CUDA ---- */

static int tasks(void)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof(path), "/proc/%d/task", getpid());
	return stat(path, &status) ? -1 : (int)status.st_nlink - 2;
}

static void nothing(void)
{
	void *self = dlopen(NULL, RTLD_NOW), *libc = dlopen("libc.so.6", RTLD_NOW);

	CHECK(self && libc);
	CHECK(dlsym(libc, "puts") == (void *)dlsym(RTLD_DEFAULT, "puts"));
	CHECK(dlsym(RTLD_NEXT, "getenv") != NULL);
	dlerror();
	/* Names of the driver and names that merely begin like them. */
	CHECK(!dlsym(libc, "cuMemAlloc_v2"));
	CHECK(strstr(dlerror(), "undefined symbol: cuMemAlloc_v2"));
	CHECK(!dlsym(libc, "cudnnCreate"));
	CHECK(strstr(dlerror(), "undefined symbol: cudnnCreate"));
	CHECK(!dlsym(RTLD_DEFAULT, "cublasCreate_v2"));
	CHECK(!dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
	CHECK(strstr(dlerror(), "undefined symbol: cuMemAlloc_v2"));
	CHECK(!dlsym(self, "cuMemAlloc_v2"));
	CHECK(!dlvsym(libc, "cuMemAlloc_v2", "GLIBC_2.2.5"));
	CHECK(dlerror() != NULL);
	CHECK(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5") != NULL);
	CHECK(!dlsym(libc, ""));
	CHECK(!dlsym(self, "cu"));
	vramcore_step(7);
	vramcore_phase("idle");
	CHECK(test_recordings() == 0);
	CHECK(tasks() == 1);
}

/* A library of another kind that exports names like the driver's: its own are handed out. */
static void stranger(void)
{
	void *library = dlopen(getenv("TEST_STRANGER"), RTLD_NOW | RTLD_LOCAL);
	int (*function)(void);

	CHECK(library);
	if (!library)
		return;
	*(void **)&function = dlsym(library, "cuMemAlloc_v2");
	CHECK(function && function() == 4242);
	*(void **)&function = dlsym(library, "cudnnCreate");
	CHECK(function && function() == 4243);
	/* Also once the driver is known. */
	begin();
	*(void **)&function = dlsym(library, "cuMemAlloc_v2");
	CHECK(function && function() == 4242);
}

/* An object that is unloaded, seen by an allocation before and after, and one that never was. */
static void unload(void)
{
	const char *path = getenv("TEST_STRANGER");
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *again;
	vc_cu_pointer pointer;

	begin();
	CHECK(library);
	again = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(again == library && !cu.cuMemAlloc_v2(&pointer, 1000));
	CHECK(dlclose(again) == 0);
	again = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	CHECK(again == library && dlclose(again) == 0);
	errno = 1234;
	CHECK(dlclose(library) == 0 && errno == 1234);
	CHECK(!dlopen(path, RTLD_NOW | RTLD_NOLOAD));
	dlerror();
	CHECK(dlclose(library) != 0 && dlerror() != NULL);
	CHECK(!cu.cuMemAlloc_v2(&pointer, 1000));
	CHECK(test_compare("unload") == 0);
}

static void init_only(void)
{
	if (!test_functions_get("dlsym"))
		exit(1);
	CHECK(!cu.cuInit(0));
	CHECK(test_recordings() == 0);
	CHECK(tasks() == 1);
}

/* ---- children ---- */

/* The driver serves no child of a process that used it: the parent records blocks of its own. */
static char pool[4096];

static void child(void)
{
	const struct vc_record *record;
	vc_cu_context context;
	vc_cu_pointer pointer;

	CHECK(test_recording_open(getpid(), &recording) != 0);
	/* Nothing begins with the end of what the parent had. */
	vramcore_block_free(pool);
	CHECK(test_recording_open(getpid(), &recording) != 0);
	CHECK(!cu.cuInit(0));
	CHECK(!cu.cuCtxCreate_v2(&context, 0, 0));
	CHECK(!cu.cuMemAlloc_v2(&pointer, 777));
	if (!open_own())
		return;
	record = test_record(&recording, VC_KIND_LINEAR, pointer);
	CHECK(record && record->size == 777 && record->thread == (uint32_t)getpid());
	if (record) {
		CHECK(!strcmp(test_string(&recording, record->call_name), "cuMemAlloc_v2"));
		CHECK(test_stack(&recording, record->stack) != NULL);
		CHECK(!record->phase);
	}
	CHECK(!test_record(&recording, VC_KIND_BLOCK, (uintptr_t)pool));
	CHECK(recording.root->fixed.pid == (uint64_t)getpid());
	CHECK(recording.root->fixed.parent_pid == (uint64_t)getppid());
	usleep(50000);
	CHECK(tasks() == 2); /* an agent of its own */
}

static void wait_for(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
}

static void forks(void)
{
	pid_t pid;

	if (!test_functions_get("dlsym"))
		exit(1);
	CHECK(vramcore_start() == 1);
	vramcore_phase("parent");
	vramcore_block(pool, 100, NULL);
	pid = fork();
	if (!pid) {
		child();
		_exit(failures != 0);
	}
	wait_for(pid);
	/* A child that the C library knows nothing of. */
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid) {
		child();
		_exit(failures != 0);
	}
	wait_for(pid);
	pid = vfork();
	if (!pid) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(9);
	}
	wait_for(pid);
	begin();
	vramcore_block(pool + 100, 200, NULL);
	if (!open_own())
		return;
	CHECK(test_record(&recording, VC_KIND_BLOCK, (uintptr_t)pool) != NULL);
	CHECK(test_record(&recording, VC_KIND_BLOCK, (uintptr_t)pool + 100) != NULL);
	CHECK(test_recordings() == 3);
}

/* ---- failed allocations ---- */

static const struct vc_failure_row *failure(uint64_t row)
{
	return test_item(&recording, VC_REC_FAILURES, row, sizeof(struct vc_failure_row));
}

/* SIMCUDA_FAIL makes calls 2, 4, 5 and 7 to 10 of cuMemAlloc_v2 fail. */
static void fails(void)
{
	static const int expected[] = {0, 2, 0, 2, 2, 0, 2, 2, 2, 2, 0};
	static const enum vc_failure_outcome outcome[] = {
		VC_FAILURE_RETRIED,	  VC_FAILURE_OUT_OF_MEMORY, VC_FAILURE_OUT_OF_MEMORY,
		VC_FAILURE_OUT_OF_MEMORY, VC_FAILURE_OUT_OF_MEMORY, VC_FAILURE_OUT_OF_MEMORY,
		VC_FAILURE_OUT_OF_MEMORY};
	const struct vc_failure_row *row;
	vc_cu_pointer pointer;

	begin();
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		CHECK(cu.cuMemAlloc_v2(&pointer, 1000 + i) == expected[i]);
	if (!open_own())
		return;
	CHECK(test_used(&recording, VC_REC_FAILURES) == 7);
	CHECK(test_counter(&recording, VC_COUNTER_CALLS_FAILED) == 7);
	CHECK(test_counter(&recording, VC_COUNTER_RETRIES) == 1);
	for (uint64_t i = 0; i < 7; i++) {
		row = failure(i);
		CHECK(row && vc_word_value(row->outcome) == (uint64_t)outcome[i]);
	}
	row = failure(0);
	if (!row)
		return;
	CHECK(row->requested == 1001 && row->result == 2 && row->device_plus_one == 1);
	CHECK(row->live == 1000);
	CHECK(row->free_plus_one && row->total && row->free_plus_one - 1 < row->total);
	CHECK(!strcmp(test_string(&recording, row->call_name), "cuMemAlloc_v2"));
	CHECK(test_stack(&recording, row->stack) != NULL);
	/* What becomes a snapshot: the first of the pair, the first of the four and two more, 3 at most. */
	CHECK(test_used(&recording, VC_REC_MOMENTS) == 3);
	for (uint64_t i = 0; i < 3; i++) {
		static const uint64_t shown[] = {1, 3, 5};
		const struct vc_moment_row *moment =
			test_item(&recording, VC_REC_MOMENTS, i, sizeof(*moment));

		CHECK(moment && moment->failure_plus_one == shown[i] + 1);
	}
}

/* A context that cannot be made is a failure as well, and begins a recording to say so. */
static void context_fails(void)
{
	vc_cu_context context;

	if (!test_functions_get("dlsym"))
		exit(1);
	CHECK(!cu.cuInit(0));
	CHECK(cu.cuDevicePrimaryCtxRetain(&context, 0) == 2);
	if (open_own())
		CHECK(test_used(&recording, VC_REC_FAILURES) == 1);
}

/* ---- what the program reports ---- */

static void api(void)
{
	const struct vc_record *record;
	vc_cu_pointer segment;
	char *base;

	begin();
	CHECK(vramcore_start() == 1);
	CHECK(!cu.cuMemAlloc_v2(&segment, 1 << 20));
	base = (char *)(uintptr_t)segment;
	vramcore_step(41);
	vramcore_phase("forward");
	vramcore_phase_push("layer1");
	errno = 4711;
	vramcore_block(base, 4096, (void *)0x77);
	vramcore_phase_pop();
	vramcore_block_named(base + 4096, 8192, 8000, NULL, "cache");
	vramcore_phase("");
	vramcore_tensor(base, 4000, "parameter", "layer1.weight");
	vramcore_tensor(base, 3000, "gradient", NULL);
	CHECK(errno == 4711);
	if (!open_own())
		return;
	CHECK(vc_word_value(recording.root->step) == 42);
	record = test_record(&recording, VC_KIND_BLOCK, segment);
	CHECK(record && record->size == 4096 && record->stream == 0x77 && record->step == 41);
	CHECK(record && record->flags == VC_FLAG_REPORTED && record->device_plus_one == 1);
	CHECK(record && !strcmp(test_string(&recording, record->phase), "forward > layer1"));
	CHECK(record && test_stack(&recording, record->stack) != NULL);
	record = test_record(&recording, VC_KIND_BLOCK, segment + 4096);
	CHECK(record && record->size == 8192 && record->requested == 8000);
	CHECK(record && !strcmp(test_string(&recording, record->phase), "forward"));
	CHECK(record && !strcmp(test_string(&recording, record->label), "cache"));
	record = test_record(&recording, VC_KIND_TENSOR, segment);
	CHECK(record && record->size == 3000 && !record->phase);
	CHECK(record && !strcmp(test_string(&recording, record->label), "gradient"));
	vramcore_block_free(base);
	CHECK(!test_record(&recording, VC_KIND_BLOCK, segment));
	CHECK(test_record(&recording, VC_KIND_LINEAR, segment) != NULL);
	CHECK(test_counter(&recording, VC_COUNTER_BLOCKS_UNKNOWN) == 0);
	vramcore_block_free(base);
	CHECK(test_counter(&recording, VC_COUNTER_BLOCKS_UNKNOWN) == 1);
	vramcore_tensor_free(base);
	CHECK(!test_record(&recording, VC_KIND_TENSOR, segment));
	vramcore_snapshot();
	CHECK(test_used(&recording, VC_REC_MOMENTS) == 1);
}

static void phases(void)
{
	vc_cu_pointer pointer;
	const struct vc_record *record;
	char name[32];

	begin();
	/* Deeper than is named, and back: the outer name is found again. */
	vramcore_phase_push("outer");
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		vramcore_phase_push(name);
	}
	for (int i = 0; i < 100; i++)
		vramcore_phase_pop();
	CHECK(!cu.cuMemAlloc_v2(&pointer, 100));
	if (!open_own())
		return;
	record = test_record(&recording, VC_KIND_LINEAR, pointer);
	CHECK(record && !strcmp(test_string(&recording, record->phase), "outer"));
	vramcore_phase_pop();
	vramcore_phase_pop();
	CHECK(!cu.cuMemAlloc_v2(&pointer, 100));
	record = test_record(&recording, VC_KIND_LINEAR, pointer);
	CHECK(record && !record->phase);
}

/* ---- facts of the process ---- */

static void facts(void)
{
	static const struct {
		const char *name, *value;
	} kept[] = {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"NCCL_API_KEY", "***"},
		    {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}, {"RANK", "3"}};
	bool seen[4] = {false};

	/* Set by the program itself, as Python programs do. */
	setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
	begin();
	if (!open_own())
		return;
	CHECK(recording.root->fixed.rank_plus_one == 4);
	CHECK(recording.root->fixed.world_size == 8);
	CHECK(!strcmp(test_string(&recording, vc_word_value(recording.root->job)), "1234"));
	CHECK(strstr(test_string(&recording, vc_word_value(recording.root->command)), " facts"));
	CHECK(*test_string(&recording, vc_word_value(recording.root->host)));
	for (uint64_t i = 0; i < test_used(&recording, VC_REC_ENVIRONMENT); i++) {
		const struct vc_environment_row *row =
			test_item(&recording, VC_REC_ENVIRONMENT, i, sizeof(*row));
		const char *name = test_string(&recording, row->name);

		CHECK(strcmp(name, "MY_TOKEN") && strcmp(name, "HOME"));
		for (int k = 0; k < 4; k++) {
			if (strcmp(name, kept[k].name))
				continue;
			seen[k] = true;
			CHECK(!strcmp(test_string(&recording, row->value), kept[k].value));
		}
	}
	for (int k = 0; k < 4; k++)
		CHECK(seen[k]);
}

/* ---- what the program can see of itself ---- */

static int descriptors(void)
{
	int count = 0;

	for (int i = 0; i < 4096; i++)
		count += fcntl(i, F_GETFD) >= 0;
	return count;
}

static uint64_t dispositions(void)
{
	struct sigaction action;
	uint64_t sum = 0;

	for (int i = 1; i < 65; i++)
		if (!sigaction(i, NULL, &action))
			sum = sum * 31 + (uintptr_t)action.sa_handler + (uint64_t)action.sa_flags;
	return sum;
}

static uint64_t variables(void)
{
	uint64_t sum = 0;

	for (char **entry = environ; *entry; entry++)
		for (char *at = *entry; *at; at++)
			sum = sum * 31 + (unsigned char)*at;
	return sum;
}

static void unchanged(void)
{
	int open_before, open_after;
	uint64_t signals = dispositions(), environment = variables();
	sigset_t before = {{0}}, after = {{0}}; /* the system fills a part of them */
	vc_cu_context context;
	vc_cu_pointer pointer;

	if (!test_functions_get("dlsym"))
		exit(1);
	CHECK(!cu.cuInit(0)); /* the driver may open what it likes */
	open_before = descriptors();
	/* The C library fills the first words only. */
	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	sigprocmask(SIG_SETMASK, NULL, &before);
	dlsym(RTLD_DEFAULT, "no_such_function");
	CHECK(!cu.cuCtxCreate_v2(&context, 0, 0));
	/* What the program had failed at before is still what it hears. */
	CHECK(dlerror() && !dlerror());
	CHECK(!cu.cuMemAlloc_v2(&pointer, 1000));
	CHECK(!cu.cuMemFree_v2(pointer));
	open_after = descriptors();
	sigprocmask(SIG_SETMASK, NULL, &after);
	CHECK(open_after == open_before);
	CHECK(signals == dispositions());
	CHECK(environment == variables());
	CHECK(!memcmp(&before, &after, sizeof(before)));
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	CHECK(tasks() == 2);
}

/* Reports from a signal handler that interrupts the recorder at any instruction. */
static char handled[64], plain[64];
static volatile int handler_runs;

static void on_timer(int number)
{
	int saved = errno;

	(void)number;
	vramcore_block(&handled[handler_runs % 64], 10, NULL);
	vramcore_block_free(&handled[handler_runs % 64]);
	handler_runs++;
	errno = saved;
}

static void handlers(void)
{
	struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 97}, {0, 97}}, never = {{0, 0}, {0, 0}};
	uint64_t rounds = 0;

	CHECK(vramcore_start() == 1);
	CHECK(!sigaction(SIGALRM, &action, NULL));
	setitimer(ITIMER_REAL, &every, NULL);
	while (handler_runs < 5000) {
		vramcore_block(&plain[rounds % 64], 20, NULL);
		vramcore_block_free(&plain[rounds % 64]);
		rounds++;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	if (!open_own())
		return;
	CHECK(test_counter(&recording, VC_COUNTER_ALLOCATIONS_SEEN) ==
	      rounds + (uint64_t)handler_runs);
	CHECK(test_counter(&recording, VC_COUNTER_FREES_SEEN) == rounds + (uint64_t)handler_runs);
	CHECK(test_counter(&recording, VC_COUNTER_BLOCKS_UNKNOWN) == 0);
	for (int i = 0; i < 64; i++) {
		CHECK(!test_record(&recording, VC_KIND_BLOCK, (uintptr_t)&handled[i]));
		CHECK(!test_record(&recording, VC_KIND_BLOCK, (uintptr_t)&plain[i]));
	}
}

/* ---- threads ---- */

static void *worker(void *argument)
{
	vc_cu_context context = argument;

	CHECK(!cu.cuCtxSetCurrent(context));
	churn(300);
	return NULL;
}

static void threads(void)
{
	vc_cu_context context;
	pthread_t thread[8];

	begin();
	CHECK(!cu.cuCtxGetCurrent(&context));
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_create(&thread[i], NULL, worker, context));
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	CHECK(test_compare("threads") == 0);
	if (!open_own())
		return;
	CHECK(test_counter(&recording, VC_COUNTER_ALLOCATIONS_SEEN) == 8 * 300 * 9 + 1);
	CHECK(test_counter(&recording, VC_COUNTER_FREES_SEEN) == 8 * 300 * 9);
	CHECK(test_counter(&recording, VC_COUNTER_FREES_UNKNOWN) == 0);
	CHECK(test_counter(&recording, VC_COUNTER_STACKS_SKIPPED) == 0);
}

/* Many threads whose very first calls begin the recording together: nothing is missed. */
static pthread_barrier_t barrier;

static void *first_caller(void *argument)
{
	vc_cu_context context;
	vc_cu_pointer pointer;

	(void)argument;
	pthread_barrier_wait(&barrier);
	CHECK(!cu.cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(!cu.cuCtxSetCurrent(context));
	CHECK(!cu.cuMemAlloc_v2(&pointer, 1000));
	return NULL;
}

static void together(void)
{
	pthread_t thread[8];

	if (!test_functions_get("dlsym"))
		exit(1);
	CHECK(!cu.cuInit(0));
	pthread_barrier_init(&barrier, NULL, 8);
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_create(&thread[i], NULL, first_caller, NULL));
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	CHECK(test_compare("together") == 0);
	CHECK(test_recordings() == 1);
}

/* A thread whose context was set before the recorder could see it: it asks the driver. */
static void unseen(void)
{
	vc_cu_context context[2], popped;
	vc_cu_pointer pointer;

	begin();
	CHECK(!cu.cuCtxCreate_v2(&context[0], 0, 1));
	CHECK(!cu.cuCtxCreate_v2(&context[1], 0, 0));
	CHECK(!cu.cuCtxPopCurrent_v2(&popped));
	CHECK(!cu.cuMemAlloc_v2(&pointer, 1000));
	CHECK(test_compare("unseen") == 0);
	CHECK(!cu.cuCtxDestroy_v2(context[0]));
	CHECK(test_compare("unseen: destroyed") == 0);
}

/*
 * Two drivers in turn on one thread: each has devices, contexts and memory of its own, and what is
 * current in one is not in the other.
 */
static void two_drivers(void)
{
	struct test_functions first, second;
	vc_cu_context context[3], popped;
	vc_cu_pointer pointer[6];
	char map[256];

	if (!test_functions_get("dlsym"))
		exit(1);
	first = cu;
	if (!test_functions_get("second"))
		exit(1);
	second = cu;
	CHECK(first.cuMemAlloc_v2 != second.cuMemAlloc_v2);
	CHECK(!first.cuInit(0));
	snprintf(map, sizeof(map), "%s/second", getenv("TEST_FOLDER"));
	setenv("TEST_SECOND_MAP", map, 1);
	CHECK(!setenv("SIMCUDA_MAP", map, 1));
	CHECK(!second.cuInit(0));
	snprintf(map, sizeof(map), "%s/map", getenv("TEST_FOLDER"));
	setenv("SIMCUDA_MAP", map, 1);
	CHECK(!first.cuDevicePrimaryCtxRetain(&context[0], 0));
	CHECK(!first.cuCtxSetCurrent(context[0]));
	CHECK(!second.cuDevicePrimaryCtxRetain(&context[1], 0));
	CHECK(!second.cuCtxCreate_v2(&context[2], 0, 1));
	CHECK(!first.cuMemAlloc_v2(&pointer[0], 1000));
	CHECK(!second.cuMemAlloc_v2(&pointer[1], 2000));
	CHECK(!first.cuMemAlloc_v2(&pointer[2], 3000));
	CHECK(!second.cuCtxPushCurrent_v2(context[1]));
	CHECK(!second.cuMemAlloc_v2(&pointer[3], 4000));
	CHECK(!first.cuMemAlloc_v2(&pointer[4], 5000));
	CHECK(!second.cuCtxPopCurrent_v2(&popped));
	CHECK(!first.cuMemFree_v2(pointer[4]));
	CHECK(!second.cuMemAlloc_v2(&pointer[5], 6000));
	CHECK(test_compare("two drivers") == 0);
	CHECK(!first.cuMemFree_v2(pointer[0]));
	CHECK(!second.cuMemFree_v2(pointer[1]));
	CHECK(test_compare("two drivers: freed") == 0);
	CHECK(!second.cuDevicePrimaryCtxRelease_v2(0));
	CHECK(test_compare("two drivers: one released") == 0);
	CHECK(!first.cuDevicePrimaryCtxRelease_v2(0));
	CHECK(!second.cuCtxDestroy_v2(context[2]));
	CHECK(test_compare("two drivers: gone") == 0);
	if (open_own())
		CHECK(test_counter(&recording, VC_COUNTER_FREES_UNKNOWN) == 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"two-drivers", two_drivers},
	{"nothing", nothing}, {"stranger", stranger}, {"init-only", init_only}, {"forks", forks},
	{"fails", fails}, {"context-fails", context_fails}, {"api", api}, {"phases", phases},
	{"facts", facts}, {"quiet", quiet}, {"threads", threads}, {"together", together},
	{"unseen", unseen}, {"unchanged", unchanged}, {"handlers", handlers}, {"depth", depth},
	{"unload", unload},
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
