/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL: collectives bring all ranks together and move data; nothing is reduced, a rank keeps what
 * it sent.
 *
 * Ranks in one process copy from send to receive. Several processes share a file in /dev/shm, named
 * by the unique id and without a name once all have come: a barrier, a slot for each rank and one
 * for each pair. The first 64 KiB of a payload travel, the rest stays as it was: enough for what
 * frameworks send each other to agree on (PyTorch compares shapes so). A rank that waits for
 * another longer than SIMTORCH_NCCL_TIMEOUT (60) seconds gets a system error.
 *
 * As the real library has buffers for each pair of ranks, a communicator of several processes has
 * one of NCCL_BUFFSIZE (4 MiB) bytes of device memory for each peer.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "stub.h"

enum { SUCCESS = 0, UNHANDLED_CUDA_ERROR = 1, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4 };

#define PAYLOAD 65536u
#define DEFAULT_BUFFER (4u << 20)
#define MOST_RANKS 1024

struct unique_id {
	uint64_t word[16];
};

struct mailbox {
	_Atomic uint32_t full;
	uint32_t unused[15];
	char bytes[PAYLOAD];
};

/* Behind it: a slot per rank, then a mailbox per pair (from, to). */
struct meeting {
	_Atomic uint32_t arrived;
	_Atomic uint32_t round;
	uint32_t unused[14];
	char slot[][PAYLOAD];
};

struct communicator {
	int rank;
	int ranks;
	uint64_t id[2];
	uint64_t splits;
	struct meeting *meeting; /* NULL: all in this process */
	size_t meeting_size;
	void **buffers; /* one per rank, of device memory */
};

int stub_ncclGetVersion(int *ret)
{
	if (!ret)
		return INVALID_ARGUMENT;
	*ret = STUB_CUDA_MAJOR >= 13 ? 23007 : 22105;
	return SUCCESS;
}

const char *stub_ncclGetErrorString(int result)
{
	return result == SUCCESS ? "no error" : "simulated NCCL: error";
}

const char *stub_ncclGetLastError(struct communicator *communicator)
{
	(void)communicator;
	return "";
}

int stub_ncclGetUniqueId(struct unique_id *ret)
{
	if (!ret)
		return INVALID_ARGUMENT;
	memset(ret, 0, sizeof(*ret));
	return getrandom(ret->word, 16, 0) == 16 ? SUCCESS : SYSTEM_ERROR;
}

int stub_ncclCommGetUniqueId(struct communicator *communicator, struct unique_id *ret)
{
	(void)communicator;
	return stub_ncclGetUniqueId(ret);
}

/* --- meeting the others --- */

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double patience(void)
{
	const char *text = getenv("SIMTORCH_NCCL_TIMEOUT");

	return text && *text ? atof(text) : 60;
}

/* Until the word is no longer that; false when it took too long. */
static bool wait_while(_Atomic uint32_t *word, uint32_t value)
{
	double limit = now() + patience();

	for (unsigned int tries = 0; *word == value; tries++) {
		const struct timespec pause = { .tv_nsec = 200000 };

		if (tries < 100) {
			sched_yield();
			continue;
		}
		if (now() > limit)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}

static int meet(struct communicator *communicator)
{
	struct meeting *meeting = communicator->meeting;
	uint32_t round;

	if (!meeting)
		return SUCCESS;
	round = meeting->round;
	if (++meeting->arrived == (uint32_t)communicator->ranks) {
		meeting->arrived = 0;
		meeting->round++;
		return SUCCESS;
	}
	return wait_while(&meeting->round, round) ? SUCCESS : SYSTEM_ERROR;
}

static struct mailbox *mailbox_of(struct communicator *communicator, int from, int to)
{
	struct mailbox *boxes =
		(struct mailbox *)(communicator->meeting->slot + communicator->ranks);

	return &boxes[from * communicator->ranks + to];
}

static int open_meeting(struct communicator *communicator)
{
	size_t ranks = (size_t)communicator->ranks;
	size_t size = sizeof(struct meeting) + ranks * PAYLOAD +
		      ranks * ranks * sizeof(struct mailbox);
	char path[80];
	void *memory;
	int file, result;

	snprintf(path, sizeof(path), "/dev/shm/simtorch-nccl-%016llx%016llx",
		 (unsigned long long)communicator->id[0], (unsigned long long)communicator->id[1]);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0)
		return SYSTEM_ERROR;
	memory = ftruncate(file, (off_t)size) ? MAP_FAILED :
						mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
						     file, 0);
	close(file);
	if (memory == MAP_FAILED)
		return SYSTEM_ERROR;
	communicator->meeting = memory;
	communicator->meeting_size = size;
	result = meet(communicator);
	if (!communicator->rank || result != SUCCESS)
		unlink(path);
	return result;
}

/* --- communicators --- */

static size_t buffer_size(void)
{
	const char *text = getenv("NCCL_BUFFSIZE");
	long long size = text ? atoll(text) : 0;

	return size > 0 ? (size_t)size : DEFAULT_BUFFER;
}

static int take_buffers(struct communicator *communicator)
{
	communicator->buffers = stub_object((size_t)communicator->ranks * sizeof(void *));
	if (!communicator->buffers)
		return SYSTEM_ERROR;
	for (int i = 0; i < communicator->ranks; i++) {
		if (i == communicator->rank)
			continue;
		communicator->buffers[i] = stub_device_allocate(buffer_size());
		if (!communicator->buffers[i])
			return UNHANDLED_CUDA_ERROR;
	}
	return SUCCESS;
}

static int destroy(struct communicator *communicator)
{
	if (!communicator)
		return SUCCESS;
	for (int i = 0; communicator->buffers && i < communicator->ranks; i++)
		stub_device_free(communicator->buffers[i]);
	if (communicator->meeting)
		munmap(communicator->meeting, communicator->meeting_size);
	stub_object_free(communicator->buffers);
	stub_object_free(communicator);
	return SUCCESS;
}

/* With an id other processes are met, without one all ranks are here. */
static int create(struct communicator **ret, int ranks, int rank, const uint64_t *id)
{
	struct communicator *communicator;
	int result = SUCCESS;

	if (!ret || ranks < 1 || ranks > MOST_RANKS || rank < 0 || rank >= ranks)
		return INVALID_ARGUMENT;
	communicator = stub_object(sizeof(*communicator));
	if (!communicator)
		return SYSTEM_ERROR;
	communicator->rank = rank;
	communicator->ranks = ranks;
	if (id)
		memcpy(communicator->id, id, sizeof(communicator->id));
	if (id && ranks > 1)
		result = open_meeting(communicator);
	if (id && ranks > 1 && result == SUCCESS)
		result = take_buffers(communicator);
	if (result == SUCCESS)
		*ret = communicator;
	else
		destroy(communicator);
	return result;
}

int stub_ncclCommInitRank(struct communicator **ret, int ranks, struct unique_id id, int rank)
{
	return create(ret, ranks, rank, id.word);
}

int stub_ncclCommInitRankConfig(struct communicator **ret, int ranks, struct unique_id id,
				int rank, void *config)
{
	(void)config;
	return create(ret, ranks, rank, id.word);
}

int stub_ncclCommInitRankScalable(struct communicator **ret, int ranks, int rank, int ids,
				  const struct unique_id *id, void *config)
{
	(void)config;
	return id && ids > 0 ? create(ret, ranks, rank, id->word) : INVALID_ARGUMENT;
}

int stub_ncclCommInitAll(struct communicator **ret, int ranks, const int *devices)
{
	int result = SUCCESS;

	(void)devices;
	for (int i = 0; i < ranks && result == SUCCESS; i++)
		result = create(&ret[i], ranks, i, NULL);
	return result;
}

struct choice {
	int color, key;
};

/* All ranks tell their color and key; those of one color make a communicator, by key, then rank. */
int stub_ncclCommSplit(struct communicator *communicator, int color, int key,
		       struct communicator **ret, void *config)
{
	const struct choice mine = { color, key };
	uint64_t id[2];
	int rank = 0, ranks = 0, result;

	(void)config;
	if (!communicator || !ret)
		return INVALID_ARGUMENT;
	communicator->splits++;
	if (!communicator->meeting)
		return create(ret, communicator->ranks, communicator->rank, NULL);
	memcpy(communicator->meeting->slot[communicator->rank], &mine, sizeof(mine));
	result = meet(communicator);
	for (int i = 0; i < communicator->ranks && result == SUCCESS; i++) {
		struct choice other;

		memcpy(&other, communicator->meeting->slot[i], sizeof(other));
		if (other.color != color)
			continue;
		ranks++;
		rank += other.key < key || (other.key == key && i < communicator->rank);
	}
	if (result == SUCCESS)
		result = meet(communicator);
	*ret = NULL;
	if (result != SUCCESS || color < 0)
		return result;
	id[0] = communicator->id[0] + communicator->splits * 0x9e3779b97f4a7c15ull;
	id[1] = communicator->id[1] + (uint64_t)color + 1;
	return create(ret, ranks, rank, id);
}

int stub_ncclCommDestroy(struct communicator *communicator)
{
	return destroy(communicator);
}

int stub_ncclCommAbort(struct communicator *communicator)
{
	return destroy(communicator);
}

int stub_ncclCommGetAsyncError(struct communicator *communicator, int *ret)
{
	if (!communicator || !ret)
		return INVALID_ARGUMENT;
	*ret = SUCCESS;
	return SUCCESS;
}

int stub_ncclCommCount(const struct communicator *communicator, int *ret)
{
	if (!communicator || !ret)
		return INVALID_ARGUMENT;
	*ret = communicator->ranks;
	return SUCCESS;
}

int stub_ncclCommUserRank(const struct communicator *communicator, int *ret)
{
	if (!communicator || !ret)
		return INVALID_ARGUMENT;
	*ret = communicator->rank;
	return SUCCESS;
}

int stub_ncclMemAlloc(void **ret, size_t size)
{
	if (!ret)
		return INVALID_ARGUMENT;
	*ret = stub_device_allocate(size);
	return *ret ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

int stub_ncclMemFree(void *address)
{
	stub_device_free(address);
	return SUCCESS;
}

/* --- data --- */

/* Bytes of an element: from ncclInt8 on. */
static size_t element_size(int type)
{
	static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };

	return type >= 0 && (size_t)type < sizeof(sizes) / sizeof(sizes[0]) ? sizes[type] : 1;
}

static int copy(void *to, const void *from, size_t size)
{
	if (to == from || !to || !from || !size)
		return SUCCESS;
	return stub_copy(to, from, size) ? UNHANDLED_CUDA_ERROR : SUCCESS;
}

static size_t payload(size_t size)
{
	return size < PAYLOAD ? size : PAYLOAD;
}

/* Shows the others the beginning of what this rank sends, and waits for all to have done so. */
static int show(struct communicator *communicator, const void *bytes, size_t size)
{
	int result = SUCCESS;

	if (!communicator->meeting)
		return SUCCESS;
	if (bytes)
		result = copy(communicator->meeting->slot[communicator->rank], bytes,
			      payload(size));
	return result == SUCCESS ? meet(communicator) : result;
}

static int look(struct communicator *communicator, int rank, size_t skip, void *to, size_t size)
{
	if (skip >= PAYLOAD)
		return SUCCESS;
	return copy(to, communicator->meeting->slot[rank] + skip,
		    size < PAYLOAD - skip ? size : PAYLOAD - skip);
}

static int reduce(struct communicator *communicator, void *to, const void *from, size_t size)
{
	int result = communicator ? copy(to, from, size) : INVALID_ARGUMENT;

	return result == SUCCESS ? meet(communicator) : result;
}

int stub_ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
		       struct communicator *communicator, void *stream)
{
	(void)operation, (void)stream;
	return reduce(communicator, to, from, count * element_size(type));
}

int stub_ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root,
		    struct communicator *communicator, void *stream)
{
	(void)operation, (void)stream;
	if (!communicator)
		return INVALID_ARGUMENT;
	return reduce(communicator, communicator->rank == root ? to : NULL, from,
		      count * element_size(type));
}

int stub_ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
			   struct communicator *communicator, void *stream)
{
	size_t size = count * element_size(type);

	(void)operation, (void)stream;
	if (!communicator)
		return INVALID_ARGUMENT;
	return reduce(communicator, to, (const char *)from + (size_t)communicator->rank * size,
		      size);
}

int stub_ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
		       struct communicator *communicator, void *stream)
{
	size_t size = count * element_size(type);
	bool sends;
	int result;

	(void)stream;
	if (!communicator || root < 0 || root >= communicator->ranks)
		return INVALID_ARGUMENT;
	sends = !communicator->meeting || communicator->rank == root;
	result = sends ? copy(to, from, size) : SUCCESS;
	if (result == SUCCESS)
		result = show(communicator, sends ? from : NULL, size);
	if (result == SUCCESS && !sends)
		result = look(communicator, root, 0, to, size);
	return result == SUCCESS ? meet(communicator) : result;
}

int stub_ncclBcast(void *buffer, size_t count, int type, int root,
		   struct communicator *communicator, void *stream)
{
	return stub_ncclBroadcast(buffer, buffer, count, type, root, communicator, stream);
}

int stub_ncclAllGather(const void *from, void *to, size_t count, int type,
		       struct communicator *communicator, void *stream)
{
	size_t size = count * element_size(type);
	int result = communicator ? show(communicator, from, size) : INVALID_ARGUMENT;

	(void)stream;
	for (int i = 0; result == SUCCESS && i < communicator->ranks; i++) {
		char *part = (char *)to + (size_t)i * size;

		result = i == communicator->rank || !communicator->meeting ?
				 copy(part, from, size) :
				 look(communicator, i, 0, part, size);
	}
	return result == SUCCESS ? meet(communicator) : result;
}

int stub_ncclAlltoAll(const void *from, void *to, size_t count, int type,
		      struct communicator *communicator, void *stream)
{
	size_t size = count * element_size(type);
	size_t mine = communicator ? (size_t)communicator->rank * size : 0;
	int result = communicator ? show(communicator, from, size * (size_t)communicator->ranks) :
				    INVALID_ARGUMENT;

	(void)stream;
	for (int i = 0; result == SUCCESS && i < communicator->ranks; i++) {
		size_t part = (size_t)i * size;

		result = i == communicator->rank || !communicator->meeting ?
				 copy((char *)to + part, (const char *)from + part, size) :
				 look(communicator, i, mine, (char *)to + part, size);
	}
	return result == SUCCESS ? meet(communicator) : result;
}

/* Point to point: the pair's mailbox, so that sends of a group do not wait for their receivers. */
int stub_ncclSend(const void *from, size_t count, int type, int peer,
		  struct communicator *communicator, void *stream)
{
	size_t size = count * element_size(type);
	struct mailbox *box;
	int result;

	(void)stream;
	if (!communicator || peer < 0 || peer >= communicator->ranks)
		return INVALID_ARGUMENT;
	if (!communicator->meeting)
		return SUCCESS;
	box = mailbox_of(communicator, communicator->rank, peer);
	if (!wait_while(&box->full, 1))
		return SYSTEM_ERROR;
	result = copy(box->bytes, from, payload(size));
	box->full = 1;
	return result;
}

int stub_ncclRecv(void *to, size_t count, int type, int peer, struct communicator *communicator,
		  void *stream)
{
	size_t size = count * element_size(type);
	struct mailbox *box;
	int result;

	(void)stream;
	if (!communicator || peer < 0 || peer >= communicator->ranks)
		return INVALID_ARGUMENT;
	if (!communicator->meeting)
		return SUCCESS;
	box = mailbox_of(communicator, peer, communicator->rank);
	if (!wait_while(&box->full, 0))
		return SYSTEM_ERROR;
	result = copy(to, box->bytes, payload(size));
	box->full = 0;
	return result;
}
