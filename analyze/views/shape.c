/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/shape.h"

#include <math.h>

/** More rows than anybody reads: the rest have no shape. Bounds the memory for bins. */
#define SHAPED_ROWS 1000u

const char *vc_shape_text(enum vc_shape shape)
{
	static const char *const text[] = {
		[VC_SHAPE_NONE] = "-",
		[VC_SHAPE_ONCE] = "once",
		[VC_SHAPE_STOPPED] = "stopped",
		[VC_SHAPE_LINEAR] = "linear",
		[VC_SHAPE_IRREGULAR] = "irregular",
	};

	return text[shape];
}

void vc_births_add(struct vc_births *births, double share, uint64_t bytes)
{
	unsigned bin;

	share = share < 0 ? 0 : share > 1 ? 1 : share;
	bin = (unsigned)(share * VC_SHAPE_BINS);
	if (!births->count || share < births->first)
		births->first = share;
	if (!births->count || share > births->last)
		births->last = share;
	births->count++;
	births->bytes += bytes;
	if (bytes > births->largest)
		births->largest = bytes;
	bin = bin < VC_SHAPE_BINS ? bin : VC_SHAPE_BINS - 1;
	births->bin[bin] += bytes;
	births->bin_count[bin]++;
	if (share > births->bin_last[bin])
		births->bin_last[bin] = share;
}

/*
 * What a site frees and allocates anew in each step was born late and is no growth: of the births those
 * count that came first, up to the bytes that it grew by.
 */
static struct vc_births oldest(const struct vc_births *births, int64_t growth)
{
	struct vc_births kept = *births;
	uint64_t left = growth > 0 ? (uint64_t)growth : UINT64_MAX;

	kept.bytes = kept.count = 0;
	for (unsigned i = 0; i < VC_SHAPE_BINS; i++) {
		double share;

		if (!births->bin[i])
			continue;
		kept.bin[i] = births->bin[i] < left ? births->bin[i] : left;
		if (!kept.bin[i])
			continue;
		share = (double)kept.bin[i] / (double)births->bin[i];
		kept.last = births->bin_last[i];
		kept.bytes += kept.bin[i];
		kept.count += (uint64_t)ceil(births->bin_count[i] * share);
		left -= kept.bin[i];
	}
	return kept;
}

enum vc_shape vc_births_shape(const struct vc_births *all, int64_t growth)
{
	struct vc_births births = oldest(all, growth);
	double total = (double)births.bytes, sum = 0, farthest = 0;

	if (!births.count || !births.bytes)
		return VC_SHAPE_NONE;
	if (births.last - births.first <= 0.01)
		return VC_SHAPE_ONCE;
	if (births.last < 0.5)
		return VC_SHAPE_STOPPED;
	for (unsigned i = 0; i < VC_SHAPE_BINS; i++) {
		double distance;

		sum += (double)births.bin[i];
		distance = fabs(sum / total - (double)(i + 1) / VC_SHAPE_BINS);
		if (distance > farthest)
			farthest = distance;
	}
	return births.count >= 4 && farthest <= 0.1 + (double)births.largest / total ?
		VC_SHAPE_LINEAR : VC_SHAPE_IRREGULAR;
}

bool vc_interval_find(const struct vc_tables *first, const struct vc_tables *last,
		      enum vc_axis axis, struct vc_interval *ret)
{
	double s0, s1;

	ret->same_process = vc_same_process(first, last);
	ret->number = vc_value(first, VC_COL_process_number, 0);
	if (axis == VC_AXIS_STEPS) {
		ret->column = VC_COL_allocations_step;
		s0 = (double)vc_value(first, VC_COL_process_step, 0);
		s1 = (double)vc_value(last, VC_COL_process_step, 0);
	} else {
		ret->column = VC_COL_allocations_time;
		ret->zero = (double)vc_value(last, VC_COL_process_start_time, 0);
		s0 = (double)vc_value(first, VC_COL_process_snapshot_time, 0) -
		     (double)vc_value(first, VC_COL_process_start_time, 0);
		s1 = (double)vc_value(last, VC_COL_process_snapshot_time, 0) - ret->zero;
	}
	ret->start = s0;
	ret->length = s1 - s0;
	return axis != VC_AXIS_NONE && ret->length > 0 && last->column[ret->column];
}

bool vc_interval_has(const struct vc_interval *interval, const struct vc_tables *last, uint64_t row,
		     double *ret_share)
{
	const uint64_t *birth = last->column[VC_COL_allocations_birth];

	*ret_share = ((double)last->column[interval->column][row] - interval->zero -
		      interval->start) /
		     interval->length;
	return interval->same_process && birth ? birth[row] > interval->number : *ret_share > 0;
}

/** For each group of the last file: row of the device's table plus 1 that it is part of, or 0. */
static int rows_of_groups(const struct vc_diff_input *last, const struct vc_names *names,
			  unsigned depth, const struct vc_diff_device *device,
			  struct vc_arena *arena, uint32_t **ret)
{
	const struct vc_account *account = last->account;
	uint32_t *row_of = vc_arena_allocate(arena, account->group_count, sizeof(*row_of));

	if (!row_of)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < account->group_count; i++) {
		const struct vc_account_group *group = &account->groups[i];
		const struct vc_chain *chain = vc_names_chain(names, last->file, group->stack);
		uint64_t key = chain->count ? vc_chain_key(chain, depth) : 0;

		if (group->device_plus_one != device->device_plus_one || !group->count)
			continue;
		for (uint64_t j = 0; j < device->grew && j < SHAPED_ROWS; j++) {
			if (device->rows[j].key == key) {
				row_of[i] = (uint32_t)j + 1;
				break;
			}
		}
	}
	*ret = row_of;
	return 0;
}

int vc_shape_find(const struct vc_diff_input *first, const struct vc_diff_input *last,
		  const struct vc_names *names, unsigned depth, enum vc_axis axis,
		  struct vc_diff_device *device, struct vc_arena *arena)
{
	const struct vc_tables *tables = last->tables;
	uint64_t shaped = device->grew < SHAPED_ROWS ? device->grew : SHAPED_ROWS;
	struct vc_interval interval = {0};
	struct vc_births *births;
	uint32_t *row_of;
	int error;

	if (!shaped || !vc_interval_find(first->tables, tables, axis, &interval))
		return 0;
	error = rows_of_groups(last, names, depth, device, arena, &row_of);
	births = vc_arena_allocate(arena, shaped, sizeof(*births));
	if (error || !births)
		return VC_E_NO_MEMORY;
	for (uint64_t row = 0; row < last->account->rows; row++) {
		uint32_t group = last->account->group_of_row[row];
		uint64_t bytes = vc_account_row_bytes(last->account, tables, row);
		double at;

		if (group == UINT32_MAX || !row_of[group] || !bytes ||
		    !vc_interval_has(&interval, tables, row, &at))
			continue;
		vc_births_add(&births[row_of[group] - 1], at, bytes);
	}
	for (uint64_t i = 0; i < shaped; i++)
		device->rows[i].shape = vc_births_shape(&births[i], device->rows[i].growth);
	return 0;
}
