/* SPDX-License-Identifier: Apache-2.0 */
/* Reader of the judge's file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "judge.h"

static int compare_rows(const void *left, const void *right)
{
	const struct sim_judge_row *a = left;
	const struct sim_judge_row *b = right;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->serial < b->serial ? -1 : a->serial > b->serial;
}

/* A row that changes while it is copied is left out: its call is under way. */
static int copy_row(struct sim_judge_row *row, struct sim_judge_row *ret)
{
	if (__atomic_load_n(&row->state, __ATOMIC_ACQUIRE) != SIM_ROW_ALLOCATED)
		return 0;
	*ret = *row;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(&row->state, __ATOMIC_RELAXED) == SIM_ROW_ALLOCATED &&
	       __atomic_load_n(&row->serial, __ATOMIC_RELAXED) == ret->serial;
}

static int copy_rows(char *map, size_t size, struct sim_judge *ret)
{
	struct sim_judge_header *header = (struct sim_judge_header *)map;
	struct sim_judge_row *rows = (struct sim_judge_row *)(map + SIM_JUDGE_HEADER);
	struct sim_judge result = { .lost = header->lost, .pid = header->pid };
	size_t room = 0;

	if (__atomic_load_n(&header->magic, __ATOMIC_ACQUIRE) != SIM_JUDGE_MAGIC ||
	    header->header_size != SIM_JUDGE_HEADER || header->row_size != sizeof(*rows) ||
	    header->capacity != (size - SIM_JUDGE_HEADER) / sizeof(*rows))
		return -EINVAL;
	for (uint64_t i = 0; i < header->capacity; i++) {
		if (!rows[i].state)
			continue;
		if (result.count == room) {
			size_t more = room ? room * 2 : 1024;
			void *grown = realloc(result.rows, more * sizeof(*rows));

			if (!grown) {
				free(result.rows);
				return -ENOMEM;
			}
			result.rows = grown;
			room = more;
		}
		if (copy_row(&rows[i], &result.rows[result.count]))
			result.count++;
	}
	if (result.count)
		qsort(result.rows, result.count, sizeof(*rows), compare_rows);
	*ret = result;
	return 0;
}

int sim_judge_read(const char *path, struct sim_judge *ret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	char *map;
	int result;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) || status.st_size < (off_t)SIM_JUDGE_HEADER) {
		close(fd);
		return -EINVAL;
	}
	map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return -errno;
	result = copy_rows(map, (size_t)status.st_size, ret);
	munmap(map, (size_t)status.st_size);
	return result;
}

void sim_judge_close(struct sim_judge *judge)
{
	free(judge->rows);
	memset(judge, 0, sizeof(*judge));
}

const struct sim_judge_row *sim_judge_find(const struct sim_judge *judge, uint32_t kind,
					   uint64_t address)
{
	for (size_t i = 0; i < judge->count; i++)
		if (judge->rows[i].kind == kind && judge->rows[i].address == address)
			return &judge->rows[i];
	return NULL;
}

size_t sim_judge_count(const struct sim_judge *judge, uint32_t kind, uint64_t *total)
{
	uint64_t bytes = 0;
	size_t count = 0;

	for (size_t i = 0; i < judge->count; i++) {
		if (judge->rows[i].kind != kind)
			continue;
		count++;
		bytes += judge->rows[i].size;
	}
	if (total)
		*total = bytes;
	return count;
}

const char *sim_judge_kind(uint32_t kind)
{
	switch (kind) {
#define SIM_ROW(name, number, text) case number: return text;
#include "rows.def"
#undef SIM_ROW
	default:
		return "?";
	}
}
