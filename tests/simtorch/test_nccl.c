/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives between three processes, on memory of the simulated driver. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dlfcn.h>

#include "sim_cuda.h"

#define RANKS 3
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { TYPE_INT64 = 4 };

struct unique_id {
	char bytes[128];
};

int ncclGetUniqueId(struct unique_id *ret);
int ncclCommInitRank(void **ret, int ranks, struct unique_id id, int rank);
int ncclCommInitAll(void **ret, int ranks, const int *devices);
int ncclCommSplit(void *communicator, int color, int key, void **ret, void *config);
int ncclCommDestroy(void *communicator);
int ncclCommCount(void *communicator, int *ret);
int ncclCommUserRank(void *communicator, int *ret);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *communicator,
		  void *stream);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
		  void *communicator, void *stream);
int ncclAllGather(const void *from, void *to, size_t count, int type, void *communicator,
		  void *stream);
int ncclAlltoAll(const void *from, void *to, size_t count, int type, void *communicator,
		 void *stream);
int ncclSend(const void *from, size_t count, int type, int peer, void *communicator, void *stream);
int ncclRecv(void *to, size_t count, int type, int peer, void *communicator, void *stream);

static struct {
	__typeof__(&cuInit) init;
	__typeof__(&cuDevicePrimaryCtxRetain) retain;
	__typeof__(&cuCtxSetCurrent) set_current;
	__typeof__(&cuMemAlloc_v2) allocate;
	__typeof__(&cuMemGetInfo_v2) info;
	__typeof__(&cuMemcpy) copy;
} driver;

static void open_driver(int rank)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context;

	CHECK(library != NULL);
	driver.init = (__typeof__(driver.init))dlsym(library, "cuInit");
	driver.retain = (__typeof__(driver.retain))dlsym(library, "cuDevicePrimaryCtxRetain");
	driver.set_current = (__typeof__(driver.set_current))dlsym(library, "cuCtxSetCurrent");
	driver.allocate = (__typeof__(driver.allocate))dlsym(library, "cuMemAlloc_v2");
	driver.info = (__typeof__(driver.info))dlsym(library, "cuMemGetInfo_v2");
	driver.copy = (__typeof__(driver.copy))dlsym(library, "cuMemcpy");
	CHECK(!driver.init(0) && !driver.retain(&context, 0) && !driver.set_current(context));
}

static void put(CUdeviceptr to, const int64_t *numbers, size_t count)
{
	driver.copy(to, (CUdeviceptr)(uintptr_t)numbers, count * sizeof(*numbers));
}

static int64_t at(CUdeviceptr from, size_t index)
{
	int64_t number = -1;

	driver.copy((CUdeviceptr)(uintptr_t)&number, from + 8 * index, 8);
	return number;
}

static void collectives(int rank, void *communicator, CUdeviceptr memory)
{
	const int64_t mine[] = { 10 * rank, 10 * rank + 1, 10 * rank + 2 };
	void *from = (void *)(uintptr_t)memory, *to = (void *)(uintptr_t)(memory + 4096);

	put(memory, mine, 3);
	CHECK(!ncclBroadcast(from, to, 3, TYPE_INT64, 1, communicator, NULL));
	CHECK(at(memory + 4096, 0) == 10 && at(memory + 4096, 2) == 12);
	CHECK(!ncclAllReduce(from, to, 3, TYPE_INT64, 0, communicator, NULL));
	CHECK(at(memory + 4096, 1) == 10 * rank + 1); /* a rank keeps what it sent */
	CHECK(!ncclAllGather(from, to, 3, TYPE_INT64, communicator, NULL));
	for (int i = 0; i < RANKS; i++)
		CHECK(at(memory + 4096, 3 * (size_t)i + 1) == 10 * i + 1);
	CHECK(!ncclAlltoAll(from, to, 1, TYPE_INT64, communicator, NULL));
	for (int i = 0; i < RANKS; i++)
		CHECK(at(memory + 4096, (size_t)i) == 10 * i + rank);
	CHECK(!ncclSend(from, 3, TYPE_INT64, (rank + 1) % RANKS, communicator, NULL));
	CHECK(!ncclRecv(to, 3, TYPE_INT64, (rank + 2) % RANKS, communicator, NULL));
	CHECK(at(memory + 4096, 2) == 10 * ((rank + 2) % RANKS) + 2);
}

/* Ranks 0 and 2 make one communicator, in reverse order; rank 1 stays alone. */
static void splits(int rank, void *communicator, CUdeviceptr memory)
{
	void *part = NULL;
	int ranks = 0, number = -1;

	CHECK(!ncclCommSplit(communicator, rank % 2, -rank, &part, NULL));
	CHECK(!ncclCommCount(part, &ranks) && ranks == (rank == 1 ? 1 : 2));
	CHECK(!ncclCommUserRank(part, &number) && number == (rank == 0));
	CHECK(!ncclBroadcast((void *)(uintptr_t)memory, (void *)(uintptr_t)(memory + 4096), 1,
			     TYPE_INT64, 0, part, NULL));
	CHECK(at(memory + 4096, 0) == (rank == 1 ? 10 : 20));
	CHECK(!ncclCommDestroy(part));
}

static size_t unused_memory(void)
{
	size_t unused = 0, total = 0;

	driver.info(&unused, &total);
	return unused;
}

static int one_rank(int rank, struct unique_id id)
{
	const size_t buffers = (RANKS - 1) * (4u << 20); /* one of NCCL_BUFFSIZE for each peer */
	CUdeviceptr memory;
	void *communicator = NULL;
	size_t before;

	open_driver(rank);
	CHECK(!driver.allocate(&memory, 2u << 20));
	before = unused_memory();
	CHECK(!ncclCommInitRank(&communicator, RANKS, id, rank));
	CHECK(before - unused_memory() == buffers);
	collectives(rank, communicator, memory);
	splits(rank, communicator, memory);
	CHECK(!ncclCommDestroy(communicator));
	CHECK(before == unused_memory());
	return 0;
}

int main(void)
{
	struct unique_id id;
	int rank = -1, wrong = 0;

	CHECK(!ncclGetUniqueId(&id));
	for (int i = 0; i < RANKS; i++) {
		pid_t child = fork();

		CHECK(child >= 0);
		if (!child)
			return one_rank(i, id);
	}
	for (int i = 0, status; i < RANKS; i++)
		wrong += wait(&status) < 0 || status;
	return wrong != 0;
}
