/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated driver's own list of what is allocated, in a file that outlives the process. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim.h"

#define DEFAULT_ROWS (1ull << 20)
#define MAX_ROWS (1ull << 28)
#define LISTS 16u

/* Free rows: each list owns an equal share of the file, used ones first, then never used ones. */
struct row_list {
	pthread_mutex_t lock;
	uint32_t top; /* last row given back, or SIM_NO_ROW */
	uint32_t next;
	uint32_t end;
	char padding[64];
};

static struct sim_judge_header *header;
static struct sim_judge_row *rows;
static uint32_t *below; /* per free row: the one given back before it */
static uint32_t share;
static struct row_list lists[LISTS];

static __thread uint32_t thread_id __attribute__((tls_model("initial-exec")));

/* Puts the process id in the place of every %p. */
static bool expand_path(const char *path, char *ret, size_t room)
{
	size_t used = 0;

	while (*path) {
		int length = 1;

		if (path[0] == '%' && path[1] == 'p') {
			length = snprintf(ret + used, room - used, "%d", (int)getpid());
			path++;
		} else {
			ret[used] = *path;
		}
		path++;
		used += (size_t)length;
		if (used >= room)
			return false;
	}
	ret[used] = '\0';
	return true;
}

void sim_judge_start(void)
{
	const char *path = getenv("SIMCUDA_MAP");
	const char *wanted = getenv("SIMCUDA_MAP_ROWS");
	uint64_t capacity = wanted ? strtoull(wanted, NULL, 0) : DEFAULT_ROWS;
	char name[4096];
	uint64_t size;
	void *map;
	int fd;

	if (!path || !*path || header)
		return;
	capacity = capacity / LISTS * LISTS;
	if (capacity < LISTS || capacity > MAX_ROWS)
		capacity = DEFAULT_ROWS;
	size = SIM_JUDGE_HEADER + capacity * sizeof(struct sim_judge_row);
	if (!expand_path(path, name, sizeof(name)))
		return;
	/* A new file each time: another process may still have the old one mapped. */
	unlink(name);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (ftruncate(fd, (off_t)size)) {
		close(fd);
		return;
	}
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	below = sim_pages(capacity * sizeof(*below));
	if (map == MAP_FAILED || !below)
		return;
	share = (uint32_t)(capacity / LISTS);
	for (uint32_t i = 0; i < LISTS; i++) {
		pthread_mutex_init(&lists[i].lock, NULL);
		lists[i].top = SIM_NO_ROW;
		lists[i].next = i * share;
		lists[i].end = (i + 1) * share;
	}
	rows = (struct sim_judge_row *)((char *)map + SIM_JUDGE_HEADER);
	header = map;
	header->header_size = SIM_JUDGE_HEADER;
	header->row_size = sizeof(struct sim_judge_row);
	header->capacity = capacity;
	header->pid = getpid();
	__atomic_store_n(&header->magic, SIM_JUDGE_MAGIC, __ATOMIC_RELEASE);
}

static uint32_t take_row(void)
{
	unsigned int first = sim_thread_shard();

	for (unsigned int i = 0; i < LISTS; i++) {
		struct row_list *list = &lists[(first + i) % LISTS];
		uint32_t row = SIM_NO_ROW;

		pthread_mutex_lock(&list->lock);
		if (list->top != SIM_NO_ROW) {
			row = list->top;
			list->top = below[row];
		} else if (list->next < list->end) {
			row = list->next++;
		}
		pthread_mutex_unlock(&list->lock);
		if (row != SIM_NO_ROW)
			return row;
	}
	__atomic_fetch_add(&header->lost, 1, __ATOMIC_RELAXED);
	return SIM_NO_ROW;
}

uint32_t sim_judge_add(uint32_t kind, uint64_t address, uint64_t size, int device, uint64_t context)
{
	struct sim_judge_row *row;
	uint32_t number;

	if (!header)
		return SIM_NO_ROW;
	number = take_row();
	if (number == SIM_NO_ROW)
		return number;
	if (!thread_id)
		thread_id = (uint32_t)syscall(SYS_gettid);
	row = &rows[number];
	row->kind = kind;
	row->address = address;
	row->size = size;
	row->context = context;
	row->device = device;
	row->thread = thread_id;
	row->serial = sim_next_id();
	__atomic_store_n(&row->state, SIM_ROW_ALLOCATED, __ATOMIC_RELEASE);
	return number;
}

void sim_judge_remove(uint32_t number)
{
	struct row_list *list;

	if (number == SIM_NO_ROW)
		return;
	__atomic_store_n(&rows[number].state, SIM_ROW_EMPTY, __ATOMIC_RELEASE);
	list = &lists[number / share];
	pthread_mutex_lock(&list->lock);
	below[number] = list->top;
	list->top = number;
	pthread_mutex_unlock(&list->lock);
}
