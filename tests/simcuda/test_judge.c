/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judge's file: every kind of row, and what it says after a SIGKILL in the middle of four
 * busy threads. The worker is this program again; it notes what it knows for certain in a file of
 * its own.
 */
#include "sim_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "judge.h"

#define THREADS 4
#define SLOTS 64

/* address 0: free for certain; otherwise allocated for certain, unless busy is set. */
struct note {
	_Atomic uint64_t address;
	_Atomic uint64_t size;
};

struct notes {
	_Atomic uint64_t rounds[THREADS];
	_Atomic int busy[THREADS]; /* slot in doubt plus one */
	struct note slots[THREADS][SLOTS];
};

static struct notes *notes;
static CUcontext shared_context;
static const char *self;

static void *work(void *argument)
{
	int thread = (int)(intptr_t)argument;
	unsigned int random = 12345u + (unsigned int)thread;

	if (cuCtxSetCurrent(shared_context))
		_exit(3);
	for (;;) {
		int slot;
		struct note *note;
		CUdeviceptr address;
		size_t size;

		random = random * 1103515245u + 12345u;
		slot = (int)(random >> 16) % SLOTS;
		note = &notes->slots[thread][slot];
		size = 1 + (random >> 4) % (random & 0x100000 ? 5000 : 4000000);
		atomic_store(&notes->busy[thread], slot + 1);
		if (note->address) {
			if (cuMemFree_v2(note->address))
				_exit(4);
			atomic_store(&note->address, 0);
		} else if (cuMemAlloc_v2(&address, size) == CUDA_SUCCESS) {
			atomic_store(&note->size, size);
			atomic_store(&note->address, address);
		}
		atomic_store(&notes->busy[thread], 0);
		atomic_fetch_add(&notes->rounds[thread], 1);
	}
	return NULL;
}

static struct notes *map_notes(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	void *map;

	if (fd < 0 || ftruncate(fd, sizeof(struct notes)))
		return NULL;
	map = mmap(NULL, sizeof(struct notes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

static int worker(const char *path)
{
	pthread_t threads[THREADS];

	notes = map_notes(path);
	if (!notes || cuInit(0) || cuDevicePrimaryCtxRetain(&shared_context, 0))
		return 2;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
	pause();
	return 2;
}

/* Everything known for certain is in the judge's rows, and nothing else but the calls in doubt. */
static void compare(const struct sim_judge *judge)
{
	size_t certain = 0, doubtful = 0;
	size_t rows = sim_judge_count(judge, SIM_ROW_LINEAR, NULL);

	for (int thread = 0; thread < THREADS; thread++) {
		int busy = notes->busy[thread] - 1;

		doubtful += busy >= 0;
		for (int slot = 0; slot < SLOTS; slot++) {
			const struct note *note = &notes->slots[thread][slot];
			const struct sim_judge_row *row;

			if (!note->address || slot == busy)
				continue;
			row = sim_judge_find(judge, SIM_ROW_LINEAR, note->address);
			assert_non_null(row);
			assert_int_equal(row->size, note->size);
			assert_int_equal(row->device, 0);
			certain++;
		}
	}
	assert_true(certain > 0);
	assert_in_range(rows, certain, certain + doubtful);
}

static void survives_kill(void **state)
{
	char certain[] = "/tmp/simcuda-notes-XXXXXX", wish[64], map[64];
	struct sim_judge judge;
	uint64_t rounds;
	int status;
	pid_t child;

	(void)state;
	close(mkstemp(certain));
	snprintf(wish, sizeof(wish), "%s.%%p.map", certain);
	notes = map_notes(certain);
	assert_non_null(notes);
	for (int i = 0; i < 5; i++) {
		memset(notes, 0, sizeof(*notes));
		child = fork();
		if (!child) {
			setenv("SIMCUDA_MAP", wish, 1);
			execl(self, self, "worker", certain, (char *)NULL);
			_exit(98);
		}
		do {
			usleep(5000 + 3000 * i);
			rounds = UINT64_MAX;
			for (int t = 0; t < THREADS; t++)
				if (notes->rounds[t] < rounds)
					rounds = notes->rounds[t];
		} while (rounds < 1000 && !waitpid(child, &status, WNOHANG));
		assert_true(rounds >= 1000);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(WTERMSIG(status), SIGKILL);
		snprintf(map, sizeof(map), "%s.%d.map", certain, (int)child);
		assert_int_equal(sim_judge_read(map, &judge), 0);
		assert_int_equal(judge.pid, child);
		assert_int_equal(judge.lost, 0);
		assert_int_equal(sim_judge_count(&judge, SIM_ROW_CONTEXT, NULL), 1);
		compare(&judge);
		sim_judge_close(&judge);
		unlink(map);
	}
	unlink(certain);
}

/* --- one row of every kind, in this process; the environment names the file --- */

static size_t rows_of(uint32_t kind, uint64_t address, uint64_t *size)
{
	struct sim_judge judge;
	const struct sim_judge_row *row;
	size_t count;

	assert_int_equal(sim_judge_read(getenv("SIMCUDA_MAP"), &judge), 0);
	row = sim_judge_find(&judge, kind, address);
	if (size && row)
		*size = row->size;
	count = row ? sim_judge_count(&judge, kind, NULL) : 0;
	sim_judge_close(&judge);
	return count;
}

static void expect_row(uint32_t kind, uint64_t address, uint64_t size)
{
	uint64_t found = UINT64_MAX;

	assert_int_equal(rows_of(kind, address, &found), 1);
	assert_int_equal(found, size);
}

static void expect_no_row(uint32_t kind, uint64_t address)
{
	assert_int_equal(rows_of(kind, address, NULL), 0);
}

static void rows_of_memory(void **state)
{
	static char local[4096];
	CUdeviceptr address;
	size_t pitch;
	void *host;

	(void)state;
	assert_success(cuMemAlloc_v2(&address, 1001));
	expect_row(SIM_ROW_LINEAR, address, 1001);
	assert_result(cuMemFree_v2(address + 1), CUDA_ERROR_INVALID_VALUE);
	expect_row(SIM_ROW_LINEAR, address, 1001);
	assert_success(cuMemFree_v2(address));
	expect_no_row(SIM_ROW_LINEAR, address);
	assert_success(cuMemAllocPitch_v2(&address, &pitch, 10, 5, 4));
	expect_row(SIM_ROW_PITCHED, address, 5 * 512);
	assert_success(cuMemFree_v2(address));
	expect_no_row(SIM_ROW_PITCHED, address);
	assert_success(cuMemAllocManaged(&address, 77, CU_MEM_ATTACH_GLOBAL));
	expect_row(SIM_ROW_MANAGED, address, 77);
	assert_success(cuMemFree_v2(address));
	expect_no_row(SIM_ROW_MANAGED, address);
	assert_success(cuMemAllocAsync(&address, 5 * MIB, NULL));
	expect_row(SIM_ROW_ASYNC, address, 5 * MIB);
	assert_success(cuMemFreeAsync(address, NULL));
	expect_no_row(SIM_ROW_ASYNC, address);
	assert_success(cuMemAllocHost_v2(&host, 50));
	expect_row(SIM_ROW_HOST_PINNED, (uintptr_t)host, 50);
	assert_success(cuMemFreeHost(host));
	expect_no_row(SIM_ROW_HOST_PINNED, (uintptr_t)host);
	assert_success(cuMemHostRegister_v2(local, 4096, 0));
	expect_row(SIM_ROW_HOST_REGISTERED, (uintptr_t)local, 4096);
	assert_success(cuMemHostUnregister(local));
	expect_no_row(SIM_ROW_HOST_REGISTERED, (uintptr_t)local);
}

static void rows_of_virtual_memory(void **state)
{
	CUmemAllocationProp properties = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
					   .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	(void)state;
	assert_success(cuMemAddressReserve(&address, 8 * MIB, 0, 0, 0));
	expect_row(SIM_ROW_RESERVATION, address, 8 * MIB);
	assert_success(cuMemCreate(&handle, 4 * MIB, &properties, 0));
	expect_row(SIM_ROW_HANDLE, handle, 4 * MIB);
	assert_success(cuMemMap(address + 2 * MIB, 4 * MIB, 0, handle, 0));
	expect_row(SIM_ROW_MAPPING, address + 2 * MIB, 4 * MIB);
	assert_success(cuMemRelease(handle));
	expect_row(SIM_ROW_HANDLE, handle, 4 * MIB); /* still mapped */
	assert_success(cuMemUnmap(address + 2 * MIB, 4 * MIB));
	expect_no_row(SIM_ROW_MAPPING, address + 2 * MIB);
	expect_no_row(SIM_ROW_HANDLE, handle);
	assert_success(cuMemAddressFree(address, 8 * MIB));
	expect_no_row(SIM_ROW_RESERVATION, address);
}

static void rows_of_objects(void **state)
{
	CUmemPoolProps properties = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUDA_ARRAY_DESCRIPTOR shape = { 8, 8, CU_AD_FORMAT_FLOAT, 1 };
	CUcontext context;
	CUmemoryPool pool;
	CUstream stream;
	CUmodule module;
	CUdeviceptr address;
	CUarray array;

	(void)state;
	assert_success(cuMemPoolCreate(&pool, &properties));
	expect_row(SIM_ROW_POOL, (uintptr_t)pool, 0);
	assert_success(cuMemPoolDestroy(pool));
	expect_no_row(SIM_ROW_POOL, (uintptr_t)pool);
	assert_success(cuCtxCreate_v2(&context, 0, 0));
	assert_int_equal(rows_of(SIM_ROW_CONTEXT, (uintptr_t)context, NULL), 2);
	assert_success(cuMemAlloc_v2(&address, 10));
	assert_success(cuArrayCreate_v2(&array, &shape));
	assert_success(cuStreamCreate(&stream, 0));
	assert_success(cuModuleLoadData(&module, "x"));
	expect_row(SIM_ROW_ARRAY, (uintptr_t)array, 2 * MIB);
	expect_row(SIM_ROW_STREAM, (uintptr_t)stream, 0);
	expect_row(SIM_ROW_MODULE, (uintptr_t)module, 0);
	assert_success(cuCtxDestroy_v2(context)); /* takes everything along */
	expect_no_row(SIM_ROW_CONTEXT, (uintptr_t)context);
	expect_no_row(SIM_ROW_LINEAR, address);
	expect_no_row(SIM_ROW_ARRAY, (uintptr_t)array);
	expect_no_row(SIM_ROW_STREAM, (uintptr_t)stream);
	expect_no_row(SIM_ROW_MODULE, (uintptr_t)module);
}

static void full_file_is_counted(void **state)
{
	CUdeviceptr addresses[1100];
	struct sim_judge judge;

	(void)state;
	/* The environment makes room for 1024 rows; the primary context has one of them. */
	for (int i = 0; i < 1100; i++)
		assert_success(cuMemAlloc_v2(&addresses[i], 10));
	assert_int_equal(sim_judge_read(getenv("SIMCUDA_MAP"), &judge), 0);
	assert_int_equal(judge.count, 1024);
	assert_int_equal(judge.lost, 1100 - 1023);
	for (size_t i = 1; i < judge.count; i++)
		assert_true(judge.rows[i - 1].kind < judge.rows[i].kind ||
			    judge.rows[i - 1].address < judge.rows[i].address);
	sim_judge_close(&judge);
	for (int i = 0; i < 1100; i++)
		assert_success(cuMemFree_v2(addresses[i]));
	assert_int_equal(sim_judge_read(getenv("SIMCUDA_MAP"), &judge), 0);
	assert_int_equal(judge.count, 1);
	sim_judge_close(&judge);
}

static void bad_files_are_refused(void **state)
{
	char path[] = "/tmp/simcuda-bad-XXXXXX";
	int fd = mkstemp(path);
	struct sim_judge judge;

	(void)state;
	assert_int_equal(sim_judge_read("/nonexistent", &judge), -ENOENT);
	assert_int_equal(sim_judge_read(path, &judge), -EINVAL);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(sim_judge_read(path, &judge), -EINVAL);
	close(fd);
	unlink(path);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_memory),
		cmocka_unit_test(rows_of_virtual_memory),
		cmocka_unit_test(rows_of_objects),
		cmocka_unit_test(full_file_is_counted),
		cmocka_unit_test(bad_files_are_refused),
		cmocka_unit_test(survives_kill),
	};
	int failed;

	self = argv[0];
	unsetenv("SIMCUDA_MAP_ROWS");
	if (argc == 3)
		return worker(argv[2]);
	setenv("SIMCUDA_MAP_ROWS", "1024", 1);
	setenv("SIMCUDA_MAP", "simcuda-test-judge.map", 1);
	failed = cmocka_run_group_tests(tests, use_primary, NULL);
	unlink("simcuda-test-judge.map");
	return failed;
}
