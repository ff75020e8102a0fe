/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/diff.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/views/shape.h"
#include "analyze/views/sites.h"

/** A site of one file, on its way to be matched. */
struct entry {
	const struct vc_site_row *site;
	unsigned input;
};

struct work {
	const struct vc_diff_input *inputs;
	unsigned count;
	const struct vc_names *names;
	unsigned depth;
	struct vc_arena *arena;
	struct vc_diff *diff;
};

/* ---- the axis ---- */

static void choose_axis(struct work *work)
{
	struct vc_diff *diff = work->diff;
	bool steps = true, times = true, steps_differ = false;
	const struct vc_tables *first = work->inputs[0].tables;
	const struct vc_tables *last = work->inputs[work->count - 1].tables;
	uint64_t t0 = vc_value(first, VC_COL_process_snapshot_time, 0);
	uint64_t t1 = vc_value(last, VC_COL_process_snapshot_time, 0);
	uint64_t s0 = vc_value(first, VC_COL_process_step, 0);
	uint64_t s1 = vc_value(last, VC_COL_process_step, 0);

	for (unsigned i = 0; i < work->count; i++) {
		const struct vc_tables *tables = work->inputs[i].tables;

		steps &= vc_value(tables, VC_COL_process_steps_known, 0) != 0;
		times &= vc_value(tables, VC_COL_process_snapshot_time, 0) != 0;
	}
	steps_differ = s0 != s1;
	times &= t1 > t0 && vc_same_process(first, last);
	diff->axis = steps && steps_differ ? VC_AXIS_STEPS : times ? VC_AXIS_SECONDS : VC_AXIS_NONE;
	if (diff->axis == VC_AXIS_STEPS && times && s1 > s0)
		diff->seconds_per_step = (double)(t1 - t0) / 1e9 / (double)(s1 - s0);
	for (unsigned i = 0; i < work->count; i++) {
		const struct vc_tables *tables = work->inputs[i].tables;
		uint64_t time = vc_value(tables, VC_COL_process_snapshot_time, 0);

		if (diff->axis == VC_AXIS_STEPS)
			diff->x[i] = (double)vc_value(tables, VC_COL_process_step, 0);
		else
			diff->x[i] = ((double)time - (double)t0) / 1e9;
	}
}

void vc_fit_line(const double *x, const double *y, unsigned count, double *slope, double *fit)
{
	double mx = 0, my = 0, sxx = 0, sxy = 0, syy = 0;

	for (unsigned i = 0; i < count; i++) {
		mx += x[i] / count;
		my += y[i] / count;
	}
	for (unsigned i = 0; i < count; i++) {
		sxx += (x[i] - mx) * (x[i] - mx);
		sxy += (x[i] - mx) * (y[i] - my);
		syy += (y[i] - my) * (y[i] - my);
	}
	*slope = sxx > 0 ? sxy / sxx : 0;
	*fit = sxx > 0 && syy > 0 ? sxy * sxy / (sxx * syy) : 0;
}

/** Rate of growth: the slope between two files, the fitted line's over more. */
static int fit_rate(const struct work *work, const uint64_t *bytes, double *rate, double *fit)
{
	double *y;

	*rate = *fit = 0;
	if (work->diff->axis == VC_AXIS_NONE)
		return 0;
	y = vc_arena_allocate(work->arena, work->count, sizeof(*y));
	if (!y)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < work->count; i++)
		y[i] = (double)bytes[i];
	vc_fit_line(work->diff->x, y, work->count, rate, fit);
	return 0;
}

/* ---- matching sites ---- */

static int by_key(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->site->key != y->site->key)
		return x->site->key < y->site->key ? -1 : 1;
	return x->input < y->input ? -1 : x->input > y->input;
}

static int by_growth(const void *a, const void *b)
{
	const struct vc_diff_row *x = a, *y = b;

	if (x->growth != y->growth)
		return x->growth < y->growth ? 1 : -1;
	return x->key < y->key ? -1 : x->key > y->key;
}

/** All sites of a device in all files, sorted by key. */
static int list_entries(const struct work *work, uint32_t device, struct entry **ret,
			uint64_t *ret_count)
{
	struct vc_sites_options options = {
		.by = VC_BY_SITE, .device_plus_one = device, .depth = work->depth};
	struct vc_sites *sites = vc_arena_allocate(work->arena, work->count, sizeof(*sites));
	struct entry *entries;
	uint64_t count = 0;

	if (!sites)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < work->count; i++) {
		const struct vc_diff_input *input = &work->inputs[i];
		int error = vc_sites_make(input->tables, input->account, work->names, input->file,
					  &options, work->arena, &sites[i]);

		if (error)
			return error;
		count += sites[i].count;
	}
	entries = vc_arena_allocate(work->arena, count, sizeof(*entries));
	if (!entries)
		return VC_E_NO_MEMORY;
	count = 0;
	for (unsigned i = 0; i < work->count; i++)
		for (uint64_t j = 0; j < sites[i].count; j++)
			entries[count++] = (struct entry){&sites[i].rows[j], i};
	qsort(entries, count, sizeof(*entries), by_key);
	*ret = entries;
	*ret_count = count;
	return 0;
}

static int fill_row(const struct work *work, const struct entry *entries, uint64_t count,
		    struct vc_diff_row *row)
{
	unsigned last = work->count - 1;

	memset(row, 0, sizeof(*row));
	row->bytes = vc_arena_allocate(work->arena, work->count, sizeof(*row->bytes));
	row->count = vc_arena_allocate(work->arena, work->count, sizeof(*row->count));
	if (!row->bytes || !row->count)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < count; i++) {
		row->bytes[entries[i].input] = entries[i].site->bytes;
		row->count[entries[i].input] = entries[i].site->count;
		row->chain = entries[i].site->chain;
		row->key = entries[i].site->key;
	}
	row->growth = (int64_t)(row->bytes[last] - row->bytes[0]);
	row->count_growth = (int64_t)(row->count[last] - row->count[0]);
	row->is_new = !row->count[0];
	row->is_gone = !row->count[last];
	return fit_rate(work, row->bytes, &row->rate, &row->fit);
}

/** True where any file has another number of bytes or blocks than the first. */
static bool has_changed(const struct work *work, const struct vc_diff_row *row)
{
	for (unsigned i = 1; i < work->count; i++)
		if (row->bytes[i] != row->bytes[0] || row->count[i] != row->count[0])
			return true;
	return false;
}

static int match_sites(const struct work *work, struct vc_diff_device *device)
{
	struct entry *entries;
	uint64_t count, end;
	int error = list_entries(work, device->device_plus_one, &entries, &count);

	if (error)
		return error;
	device->rows = vc_arena_allocate(work->arena, count, sizeof(*device->rows));
	if (!device->rows)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < count; i = end) {
		struct vc_diff_row *row = &device->rows[device->count];

		end = i + 1;
		while (end < count && entries[end].site->key == entries[i].site->key)
			end++;
		error = fill_row(work, &entries[i], end - i, row);
		if (error)
			return error;
		if (!has_changed(work, row)) {
			device->unchanged += row->count[0] != 0;
			continue;
		}
		device->count++;
		device->grew += row->growth > 0;
		device->shrank += row->growth < 0;
		device->grown += row->growth > 0 ? (uint64_t)row->growth : 0;
	}
	qsort(device->rows, device->count, sizeof(*device->rows), by_growth);
	return 0;
}

/* ---- devices ---- */

/** What is left of the device in the last file: free, or cached by the program's allocator. */
static void find_room(const struct work *work, struct vc_diff_device *device)
{
	unsigned last = work->count - 1;
	const struct vc_tables *tables = work->inputs[last].tables;
	uint64_t row;

	if (!device->device_plus_one || vc_device_row(tables, device->device_plus_one - 1, &row))
		return;
	device->total = vc_value(tables, VC_COL_devices_total, row);
	if (vc_value(tables, VC_COL_devices_used_known, row)) {
		device->room = vc_value(tables, VC_COL_devices_free, row);
		device->room_known = true;
	} else if (device->total > device->reserved[last]) {
		device->room = device->total - device->reserved[last];
		device->room_known = true;
	}
	device->room += device->cached[last];
}

/** How long the room lasts, going by what keeps growing. */
static void look_ahead(struct vc_diff_device *device)
{
	device->lasting_rate = device->rate;
	for (uint64_t i = 0; i < device->grew; i++)
		if (device->rows[i].shape == VC_SHAPE_ONCE ||
		    device->rows[i].shape == VC_SHAPE_STOPPED)
			device->lasting_rate -= device->rows[i].rate;
	/* less than a byte in a thousand is rounding */
	if (device->lasting_rate <= device->rate / 1000 || !device->room_known)
		return;
	device->full_known = true;
	device->full_in = (double)device->room / device->lasting_rate;
}

static int fill_device(const struct work *work, struct vc_diff_device *device)
{
	unsigned last = work->count - 1;
	double fit;
	int error;

	device->live = vc_arena_allocate(work->arena, work->count, sizeof(*device->live));
	device->cached = vc_arena_allocate(work->arena, work->count, sizeof(*device->cached));
	device->reserved = vc_arena_allocate(work->arena, work->count, sizeof(*device->reserved));
	if (!device->live || !device->cached || !device->reserved)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < work->count; i++) {
		const struct vc_account_device *counted = vc_account_find_device(
			work->inputs[i].account, device->device_plus_one);

		device->live[i] = counted ? counted->live_bytes : 0;
		device->cached[i] = counted ? counted->cached_bytes : 0;
		device->reserved[i] = counted ? counted->reserved_bytes : 0;
	}
	device->growth = (int64_t)(device->live[last] - device->live[0]);
	find_room(work, device);
	error = fit_rate(work, device->live, &device->rate, &fit);
	if (error)
		return error;
	error = match_sites(work, device);
	if (error)
		return error;
	error = vc_shape_find(&work->inputs[0], &work->inputs[last], work->names, work->depth,
			      work->diff->axis, device, work->arena);
	if (!error)
		look_ahead(device);
	return error;
}

static int by_worst(const void *a, const void *b)
{
	const struct vc_diff_device *x = a, *y = b;

	if (x->growth != y->growth)
		return x->growth < y->growth ? 1 : -1;
	return x->device_plus_one < y->device_plus_one ? -1 : 1;
}

static bool has_device(const struct vc_diff *diff, uint32_t device_plus_one)
{
	for (uint32_t i = 0; i < diff->device_count; i++)
		if (diff->devices[i].device_plus_one == device_plus_one)
			return true;
	return false;
}

static int list_devices(const struct work *work)
{
	struct vc_diff *diff = work->diff;
	uint64_t most = 0;

	for (unsigned i = 0; i < work->count; i++)
		most += work->inputs[i].account->device_count;
	diff->devices = vc_arena_allocate(work->arena, most, sizeof(*diff->devices));
	if (!diff->devices)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < work->count; i++) {
		const struct vc_account *account = work->inputs[i].account;

		for (uint32_t j = 0; j < account->device_count; j++) {
			const struct vc_account_device *device = &account->devices[j];

			if ((device->live_count || device->reserved_count) &&
			    !has_device(diff, device->device_plus_one))
				diff->devices[diff->device_count++].device_plus_one =
					device->device_plus_one;
		}
	}
	return 0;
}

int vc_diff_make(const struct vc_diff_input *inputs, unsigned count, const struct vc_names *names,
		 unsigned depth, struct vc_arena *arena, struct vc_diff *ret)
{
	struct vc_diff diff = {.files = count};
	struct work work = {inputs, count, names, depth, arena, &diff};
	int error;

	if (count < 2)
		return VC_E_INVALID;
	diff.x = vc_arena_allocate(arena, count, sizeof(*diff.x));
	if (!diff.x)
		return VC_E_NO_MEMORY;
	choose_axis(&work);
	error = list_devices(&work);
	for (uint32_t i = 0; !error && i < diff.device_count; i++)
		error = fill_device(&work, &diff.devices[i]);
	if (error)
		return error;
	if (diff.device_count)
		qsort(diff.devices, diff.device_count, sizeof(*diff.devices), by_worst);
	*ret = diff;
	return 0;
}
