/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "compare.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/tables.h"
#include "judge.h"

static const char *directory(void)
{
	const char *name = getenv("VRAMCORE_DIR");

	return name ? name : "/dev/shm";
}

/* vramcore-BOOT-PID-START-RANDOM.vrec; pid 0: any. */
static int name_fits(const char *name, int pid)
{
	unsigned int boot, random;
	unsigned long long start;
	int found, end = 0;

	if (sscanf(name, "vramcore-%8x-%d-%llu-%8x.vrec%n", &boot, &found, &start, &random, &end) != 4)
		return 0;
	return end && !name[end] && (!pid || found == pid);
}

int test_recordings(void)
{
	DIR *list = opendir(directory());
	struct dirent *entry;
	int count = 0;

	while (list && (entry = readdir(list)))
		count += name_fits(entry->d_name, 0);
	if (list)
		closedir(list);
	return count;
}

int test_recording_open(int pid, struct test_recording *ret)
{
	DIR *list = opendir(directory());
	struct dirent *entry;
	struct stat status;
	void *map;
	int fd;

	memset(ret, 0, sizeof(*ret));
	while (list && (entry = readdir(list)))
		if (name_fits(entry->d_name, pid))
			snprintf(ret->path, sizeof(ret->path), "%s/%s", directory(), entry->d_name);
	if (list)
		closedir(list);
	if (!ret->path[0])
		return -1;
	fd = open(ret->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status))
		return -1;
	map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return -1;
	ret->root = map;
	ret->bytes = (size_t)status.st_size;
	return memcmp(ret->root->magic, VC_RECORDING_MAGIC, 16) ? -1 : 0;
}

void test_recording_close(struct test_recording *recording)
{
	munmap((void *)(uintptr_t)recording->root, recording->bytes);
}

const void *test_item(const struct test_recording *recording, enum vc_recording_table table,
		      uint64_t number, size_t item_bytes)
{
	for (size_t i = 0; i < VC_ROOT_CHUNKS; i++) {
		const struct vc_chunk *chunk = &recording->root->chunk[i];

		if (chunk->check && chunk->table == (uint64_t)table && number >= chunk->first &&
		    number - chunk->first < chunk->count &&
		    chunk->offset + chunk->bytes <= recording->bytes)
			return (const char *)recording->root + chunk->offset +
			       (number - chunk->first) * item_bytes;
	}
	return NULL;
}

uint64_t test_used(const struct test_recording *recording, enum vc_recording_table table)
{
	return vc_word_value(recording->root->used[table]);
}

const char *test_string(const struct test_recording *recording, uint64_t id)
{
	const struct vc_string_head *head;

	if (!id)
		return "";
	head = test_item(recording, VC_REC_STRINGS, id, 8);
	return head ? (const char *)(head + 1) : "(none)";
}

const struct vc_stack_head *test_stack(const struct test_recording *recording, uint32_t id)
{
	return id ? test_item(recording, VC_REC_STACKS, id, 8) : NULL;
}

uint64_t test_counter(const struct test_recording *recording, enum vc_counter counter)
{
	return vc_word_value(recording->root->counter[counter]);
}

const struct vc_record *test_record(const struct test_recording *recording, uint8_t kind,
				    uint64_t address)
{
	for (uint64_t i = 0; i < test_used(recording, VC_REC_RECORDS); i++) {
		const struct vc_record *record =
			test_item(recording, VC_REC_RECORDS, i, sizeof(*record));

		if (record && vc_state_of(record->state) == VC_RECORD_LIVE &&
		    record->kind == kind && record->address == address)
			return record;
	}
	return NULL;
}

/* ---- the comparison ---- */

struct row {
	uint64_t kind, address, size, context;
	int device;
};

static uint8_t kind_of_judge(uint32_t kind)
{
	switch (kind) {
	case SIM_ROW_LINEAR: return VC_KIND_LINEAR;
	case SIM_ROW_PITCHED: return VC_KIND_PITCHED;
	case SIM_ROW_MANAGED: return VC_KIND_MANAGED;
	case SIM_ROW_ASYNC: return VC_KIND_ASYNC;
	case SIM_ROW_HOST_PINNED: return VC_KIND_PINNED;
	case SIM_ROW_HOST_REGISTERED: return VC_KIND_REGISTERED;
	case SIM_ROW_RESERVATION: return VC_KIND_RESERVATION;
	case SIM_ROW_HANDLE: return VC_KIND_HANDLE;
	case SIM_ROW_MAPPING: return VC_KIND_MAPPING;
	case SIM_ROW_ARRAY: return VC_KIND_ARRAY;
	case SIM_ROW_MIPMAP: return VC_KIND_MIPMAPPED_ARRAY;
	case SIM_ROW_GRAPH_MEMORY: return VC_KIND_GRAPH_ALLOCATION;
	case SIM_ROW_IMPORT:
	case SIM_ROW_IPC: return VC_KIND_IMPORT;
	case SIM_ROW_POOL: return VC_KIND_POOL;
	case SIM_ROW_CONTEXT: return VC_KIND_CONTEXT;
	case SIM_ROW_STREAM: return VC_KIND_STREAM;
	case SIM_ROW_MODULE: return VC_KIND_MODULE;
	case SIM_ROW_LIBRARY: return VC_KIND_LIBRARY;
	case SIM_ROW_GRAPH: return VC_KIND_GRAPH;
	case SIM_ROW_GRAPH_EXEC: return VC_KIND_GRAPH_EXEC;
	case SIM_ROW_MULTICAST: return VC_KIND_MULTICAST;
	case SIM_ROW_BINDING: return VC_KIND_BINDING;
	case SIM_ROW_GREEN_CONTEXT: return VC_KIND_GREEN_CONTEXT;
	default: return VC_KIND_UNKNOWN; /* not recorded: events */
	}
}

/* In the highest byte of every handle of the simulated driver. */
#define HANDLE_MARK 0x5c

/* Where the two mean different things by a field it is left out. */
static void level(struct row *row)
{
	if (row->kind == VC_KIND_CONTEXT || row->kind == VC_KIND_POOL)
		row->size = row->context = 0;
	/* The context of an import says nothing; how large a handle's is the driver does not say. */
	if (row->kind == VC_KIND_IMPORT) {
		row->context = 0;
		if (row->address >> 56 == HANDLE_MARK)
			row->size = 0;
	}
	if (row->kind == VC_KIND_STREAM)
		row->context = 0; /* of a stream of a green context it is not known */
	/* The simulated driver rounds arrays; how the real one does it is not known. */
	if (row->kind == VC_KIND_ARRAY || row->kind == VC_KIND_MIPMAPPED_ARRAY)
		row->size = 0;
	if (row->kind == VC_KIND_MAPPING)
		row->context = 0; /* the judge keeps the handle there */
	if (row->kind == VC_KIND_RESERVATION)
		row->device = -1;
	if (row->kind == VC_KIND_HOST_HANDLE)
		row->kind = VC_KIND_HANDLE;
}

static int order(const void *left, const void *right)
{
	const struct row *a = left, *b = right;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->size < b->size ? -1 : a->size > b->size;
}

static size_t judge_rows_of(const char *path, struct row **rows, size_t count)
{
	struct sim_judge judge;

	if (sim_judge_read(path, &judge)) {
		fprintf(stderr, "no judge's file\n");
		exit(2);
	}
	*rows = realloc(*rows, (count + judge.count + 1) * sizeof(**rows));
	for (size_t i = 0; i < judge.count; i++) {
		struct row row = {.kind = kind_of_judge(judge.rows[i].kind),
				  .address = judge.rows[i].address,
				  .size = judge.rows[i].size,
				  .context = judge.rows[i].context,
				  .device = judge.rows[i].device};

		level(&row);
		if (row.kind != VC_KIND_UNKNOWN)
			(*rows)[count++] = row;
	}
	sim_judge_close(&judge);
	return count;
}

/* Of the driver, and of a second one where the process has it. */
static struct row *judge_rows(size_t *ret_count)
{
	struct row *rows = NULL;
	const char *second = getenv("TEST_SECOND_MAP");

	*ret_count = judge_rows_of(getenv("SIMCUDA_MAP"), &rows, 0);
	if (second)
		*ret_count = judge_rows_of(second, &rows, *ret_count);
	return rows;
}

static struct row *recorded_rows(const struct test_recording *recording, size_t *ret_count)
{
	uint64_t used = test_used(recording, VC_REC_RECORDS);
	struct row *rows = calloc(used + 1, sizeof(*rows));
	size_t count = 0;

	for (uint64_t i = 0; i < used; i++) {
		const struct vc_record *record =
			test_item(recording, VC_REC_RECORDS, i, sizeof(*record));
		struct row row;

		if (!record || vc_state_of(record->state) == VC_RECORD_EMPTY ||
		    record->kind == VC_KIND_BLOCK || record->kind == VC_KIND_TENSOR)
			continue;
		if (vc_state_of(record->state) != VC_RECORD_LIVE)
			fprintf(stderr, "record %" PRIu64 " is in state %d\n", i,
				(int)vc_state_of(record->state));
		row = (struct row){record->kind, record->address, record->size, record->context,
				   (int)record->device_plus_one - 1};
		level(&row);
		rows[count++] = row;
	}
	*ret_count = count;
	return rows;
}

static void say(const char *where, const char *what, const struct row *row)
{
	fprintf(stderr,
		"%s: %s: kind %" PRIu64 " address 0x%" PRIx64 " size %" PRIu64 " device %d context 0x%"
		PRIx64 "\n", where, what, row->kind, row->address, row->size, row->device,
		row->context);
}

int test_compare(const char *where)
{
	struct test_recording recording;
	size_t left_count, right_count, i = 0, j = 0;
	struct row *left = judge_rows(&left_count), *right;
	int differences = 0;

	if (test_recording_open(getpid(), &recording)) {
		fprintf(stderr, "%s: no recording\n", where);
		free(left);
		return 1;
	}
	right = recorded_rows(&recording, &right_count);
	qsort(left, left_count, sizeof(*left), order);
	qsort(right, right_count, sizeof(*right), order);
	while (i < left_count || j < right_count) {
		int by = i == left_count ? 1 : j == right_count ? -1 : order(&left[i], &right[j]);

		if (by < 0) {
			say(where, "not recorded", &left[i++]);
			differences++;
		} else if (by > 0) {
			say(where, "recorded only", &right[j++]);
			differences++;
		} else {
			/* A mapping of an import and an imported pool are of no device known. */
			bool unknown = (left[i].kind == VC_KIND_MAPPING ||
					left[i].kind == VC_KIND_POOL) && right[j].device < 0;

			if ((left[i].device != right[j].device && !unknown) ||
			    left[i].context != right[j].context) {
				say(where, "driver has", &left[i]);
				say(where, "recorded is", &right[j]);
				differences++;
			}
			i++;
			j++;
		}
	}
	free(left);
	free(right);
	test_recording_close(&recording);
	return differences;
}
