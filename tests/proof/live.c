/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "live.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "judge.h"

static int order(const void *left, const void *right)
{
	const struct live_row *a = left, *b = right;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->birth < b->birth ? -1 : a->birth > b->birth;
}

/* Where the driver's list and a recording mean different things by a field it is left out. */
static void level(struct live_row *row)
{
	if (row->kind == VC_KIND_CONTEXT || row->kind == VC_KIND_POOL)
		row->size = 0;
	if (row->kind == VC_KIND_RESERVATION)
		row->device = -1;
	if (row->kind == VC_KIND_HOST_HANDLE)
		row->kind = VC_KIND_HANDLE;
}

void live_of_tables(const struct vc_tables *tables, struct live *ret)
{
	uint64_t rows = tables->rows[VC_TABLE_allocations];
	uint64_t *const *column = tables->column;

	*ret = (struct live){
		.row = calloc(rows + 1, sizeof(*ret->row)),
		.number = column[VC_COL_process_number][0],
		.step = column[VC_COL_process_step][0],
		.deaths_missing = column[VC_COL_process_deaths_missing][0],
	};
	for (uint64_t i = 0; i < rows; i++) {
		struct live_row row = {
			.kind = column[VC_COL_allocations_kind][i],
			.address = column[VC_COL_allocations_address][i],
			.size = column[VC_COL_allocations_size][i],
			.device = (int)column[VC_COL_allocations_device_plus_one][i] - 1,
			.state = column[VC_COL_allocations_state][i],
			.birth = column[VC_COL_allocations_birth][i],
			.thread = column[VC_COL_allocations_thread][i],
		};

		if (row.kind == VC_KIND_BLOCK || row.kind == VC_KIND_TENSOR)
			continue;
		ret->in_doubt += row.state == VC_STATE_IN_DOUBT;
		ret->being_freed += row.state == VC_STATE_BEING_FREED;
		level(&row);
		ret->row[ret->count++] = row;
	}
	qsort(ret->row, ret->count, sizeof(*ret->row), order);
}

int live_of_recording(const char *path, const struct vc_convert_options *options, struct live *ret)
{
	int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	struct vc_recording_source source;
	struct vc_faults faults = {0};
	struct vc_tables tables;
	int result;

	if (descriptor < 0)
		return VC_E_IO;
	result = vc_recording_source_descriptor(descriptor, &source);
	if (!result)
		result = vc_convert(&source, options, &tables, &faults);
	close(descriptor);
	if (result)
		return result;
	live_of_tables(&tables, ret);
	ret->faults = faults.count;
	vc_tables_deinit(&tables);
	return 0;
}

static uint64_t kind_of_judge(uint32_t kind)
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
	case SIM_ROW_POOL: return VC_KIND_POOL;
	case SIM_ROW_CONTEXT: return VC_KIND_CONTEXT;
	case SIM_ROW_ARRAY: return VC_KIND_ARRAY;
	case SIM_ROW_MIPMAP: return VC_KIND_MIPMAPPED_ARRAY;
	case SIM_ROW_STREAM: return VC_KIND_STREAM;
	case SIM_ROW_MODULE: return VC_KIND_MODULE;
	case SIM_ROW_LIBRARY: return VC_KIND_LIBRARY;
	default: return VC_KIND_UNKNOWN; /* not recorded: events */
	}
}

int live_of_judge(const char *path, struct live *ret)
{
	struct sim_judge judge;

	if (sim_judge_read(path, &judge))
		return -1;
	*ret = (struct live){.row = calloc(judge.count + 1, sizeof(*ret->row))};
	for (size_t i = 0; i < judge.count; i++) {
		struct live_row row = {
			.kind = kind_of_judge(judge.rows[i].kind),
			.address = judge.rows[i].address,
			.size = judge.rows[i].size,
			.device = judge.rows[i].device,
			.state = VC_STATE_LIVE,
			.birth = judge.rows[i].serial,
			.thread = judge.rows[i].thread,
		};

		level(&row);
		if (row.kind != VC_KIND_UNKNOWN)
			ret->row[ret->count++] = row;
	}
	sim_judge_close(&judge);
	qsort(ret->row, ret->count, sizeof(*ret->row), order);
	return 0;
}

void live_free(struct live *live)
{
	free(live->row);
	*live = (struct live){0};
}

void live_say(const char *where, const char *what, const struct live_row *row)
{
	fprintf(stderr,
		"%s: %s: %s 0x%" PRIx64 ", %" PRIu64 " bytes, device %d, state %" PRIu64
		", birth %" PRIu64 ", thread %" PRIu64 "\n",
		where, what, vc_kind_text(row->kind), row->address, row->size, row->device,
		row->state, row->birth, row->thread);
}

unsigned int live_compare(const char *where, const struct live *judge, const struct live *recorded)
{
	size_t i = 0, j = 0;
	unsigned int differences = 0;

	while (i < judge->count || j < recorded->count) {
		const struct live_row *left = &judge->row[i], *right = &recorded->row[j];
		int by = i == judge->count    ? 1 :
			 j == recorded->count ? -1 :
			 left->kind != right->kind       ? (left->kind < right->kind ? -1 : 1) :
			 left->address == right->address ? 0 :
			 left->address < right->address	 ? -1 :
							   1;

		if (by < 0)
			live_say(where, "not recorded", left);
		else if (by > 0)
			live_say(where, "recorded only", right);
		else if (left->size != right->size || left->device != right->device) {
			live_say(where, "the driver has", left);
			live_say(where, "recorded is", right);
			by = 0;
			differences++;
		}
		differences += by != 0;
		i += by <= 0;
		j += by >= 0;
	}
	return differences;
}
