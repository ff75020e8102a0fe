/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the trace of a PyTorch snapshot adds: when live blocks were allocated and with what
 * metadata, and which blocks had come and gone before.
 */
#include <stdlib.h>
#include <string.h>

#include "analyze/torch_finish.h"

/** The newest event of each kind at an address of a device. */
struct place {
	uint64_t address, device;
	uint64_t alloc, request; /* rows of trace plus 1; 0 none */
	uint64_t live;           /* row of allocations plus 1 */
	bool used;
};

struct places {
	struct place *place;
	uint64_t size, count;
};

static uint64_t place_slot(const struct places *places, uint64_t address, uint64_t device)
{
	uint64_t hash = (address + device * 0x100000001b3u) * 0x9e3779b97f4a7c15u;
	uint64_t slot = hash >> 16 & (places->size - 1);

	while (places->place[slot].used && (places->place[slot].address != address ||
					    places->place[slot].device != device))
		slot = (slot + 1) & (places->size - 1);
	return slot;
}

static int grow(struct places *places)
{
	struct places larger = {.size = places->size ? places->size * 2 : 1024,
				.count = places->count};

	larger.place = calloc(larger.size, sizeof(*larger.place));
	if (!larger.place)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < places->size; i++)
		if (places->place[i].used)
			larger.place[place_slot(&larger, places->place[i].address,
						places->place[i].device)] = places->place[i];
	free(places->place);
	*places = larger;
	return 0;
}

/** The place, made where there is none. */
static int find(struct places *places, uint64_t address, uint64_t device, struct place **ret)
{
	uint64_t slot;

	if (places->count * 2 >= places->size) {
		int error = grow(places);

		if (error)
			return error;
	}
	slot = place_slot(places, address, device);
	if (!places->place[slot].used) {
		places->place[slot] = (struct place){.address = address, .device = device,
						     .used = true};
		places->count++;
	}
	*ret = &places->place[slot];
	return 0;
}

static uint64_t event(const struct vc_tables *tables, enum vc_column_index column,
		      uint64_t row_plus_one)
{
	return row_plus_one ? vc_value(tables, column, row_plus_one - 1) : 0;
}

/** Nanoseconds of an event; 0 where it has no time that fits. */
static uint64_t event_time(const struct vc_tables *tables, uint64_t row_plus_one)
{
	uint64_t time = event(tables, VC_COL_trace_time_us, row_plus_one);

	return time < UINT64_MAX / 1000 ? time * 1000 : 0;
}

/** A block that came, or only went, within the trace. Its births are events' numbers. */
static int add_freed(struct vc_tables *tables, const struct place *place, uint64_t end)
{
	uint64_t row, device = place->device;
	uint64_t size = event(tables, VC_COL_trace_size, place->alloc ? place->alloc : end);
	int error = vc_tables_append(tables, VC_TABLE_freed, &row);

	if (error)
		return error;
	tables->column[VC_COL_freed_birth][row] = place->alloc;
	tables->column[VC_COL_freed_death][row] = end;
	tables->column[VC_COL_freed_kind][row] = VC_KIND_BLOCK;
	tables->column[VC_COL_freed_address][row] = place->address;
	tables->column[VC_COL_freed_size][row] = size;
	tables->column[VC_COL_freed_requested][row] = size;
	tables->column[VC_COL_freed_device_plus_one][row] = device < UINT32_MAX ? device + 1 : 0;
	tables->column[VC_COL_freed_time][row] = event_time(tables, place->alloc);
	tables->column[VC_COL_freed_python][row] =
		event(tables, VC_COL_trace_stack, place->alloc);
	tables->column[VC_COL_freed_death_time][row] = event_time(tables, end);
	tables->column[VC_COL_freed_death_python][row] =
		event(tables, VC_COL_trace_stack, place->request ? place->request : end);
	return 0;
}

/** When the block that is live at a place was allocated, with what metadata: the newest counts. */
static void set_live(struct vc_tables *tables, const struct place *place, uint64_t row)
{
	uint64_t detail = vc_value(tables, VC_COL_trace_detail, row);

	tables->column[VC_COL_allocations_time][place->live - 1] = event_time(tables, row + 1);
	tables->column[VC_COL_allocations_metadata][place->live - 1] =
		detail ? tables->column[VC_COL_trace_details_metadata][detail - 1] : 0;
}

/** What an event says about the place it is at. */
static int take_event(struct vc_tables *tables, struct places *places, uint64_t row)
{
	uint64_t action = vc_value(tables, VC_COL_trace_action, row);
	struct place *place;
	int error;

	if (action != VC_TRACE_ALLOC && action != VC_TRACE_FREE_REQUESTED &&
	    action != VC_TRACE_FREE_COMPLETED)
		return 0;
	error = find(places, vc_value(tables, VC_COL_trace_address, row),
		     vc_value(tables, VC_COL_trace_device, row), &place);
	if (error)
		return error;
	switch (action) {
	case VC_TRACE_ALLOC:
		place->alloc = row + 1;
		place->request = 0;
		if (place->live)
			set_live(tables, place, row);
		return 0;
	case VC_TRACE_FREE_REQUESTED:
		place->request = row + 1;
		return 0;
	default:
		error = add_freed(tables, place, row + 1);
		place->alloc = place->request = 0;
		return error;
	}
}

/** The same where only what is live matters: its places are few, and no others are made. */
static void take_allocation(struct vc_tables *tables, const struct places *places, uint64_t row)
{
	const struct place *place;

	if (!places->count || vc_value(tables, VC_COL_trace_action, row) != VC_TRACE_ALLOC)
		return;
	place = &places->place[place_slot(places, vc_value(tables, VC_COL_trace_address, row),
					  vc_value(tables, VC_COL_trace_device, row))];
	if (place->used)
		set_live(tables, place, row);
}

int vc_torch_use_trace(struct vc_tables *tables, bool freed)
{
	struct places places = {0};
	int error = 0;

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_allocations] && !error; i++) {
		struct place *place;

		if (tables->column[VC_COL_allocations_kind][i] != VC_KIND_BLOCK)
			continue;
		error = find(&places, tables->column[VC_COL_allocations_address][i],
			     tables->column[VC_COL_allocations_device_plus_one][i] - 1, &place);
		if (!error)
			place->live = i + 1;
	}
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_trace] && !error; i++) {
		if (freed)
			error = take_event(tables, &places, i);
		else
			take_allocation(tables, &places, i);
	}
	free(places.place);
	return error;
}
