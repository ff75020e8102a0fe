/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/map.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"

/** Live rows with an address, sorted. */
struct item {
	uint64_t address, end, row;
	uint32_t device_plus_one;
};

struct work {
	const struct vc_tables *tables;
	const struct vc_account *account;
	struct vc_map *map;
	struct item *extents, *blocks, *reservations;
	uint64_t extent_count, block_count, reservation_count;
};

static bool is_extent(uint64_t kind)
{
	return kind == VC_KIND_MAPPING ||
	       (vc_kind_bytes(kind) == VC_BYTES_DEVICE && kind != VC_KIND_HANDLE &&
		kind != VC_KIND_ARRAY && kind != VC_KIND_MIPMAPPED_ARRAY);
}

static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->device_plus_one != y->device_plus_one)
		return x->device_plus_one < y->device_plus_one ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

/** Blocks are searched by address alone: few programs know their device. */
static int compare_addresses(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static uint32_t device_of(const struct vc_tables *tables, uint64_t row)
{
	uint64_t device = vc_value(tables, VC_COL_allocations_device_plus_one, row);

	return device > VC_MODEL_DEVICES_MOST ? 0 : (uint32_t)device;
}

/** The reservation that begins last at or before an address, and holds it; NULL none. */
static const struct item *reservation_of(const struct work *work, uint64_t address)
{
	uint64_t low = 0, high = work->reservation_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (work->reservations[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low && address < work->reservations[low - 1].end ? &work->reservations[low - 1] :
								   NULL;
}

/** A mapping of memory that an allocator makes blocks of. */
static bool is_mapped_segment(const struct work *work, const struct item *extent)
{
	return vc_value(work->tables, VC_COL_allocations_kind, extent->row) == VC_KIND_MAPPING &&
	       vc_account_row_is_segment(work->account, extent->row);
}

/** Mappings without a gap between them, in one reservation and on one device, become one. */
static void join_mappings(struct work *work)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < work->extent_count; i++) {
		struct item *last = count ? &work->extents[count - 1] : NULL;
		const struct item *extent = &work->extents[i];

		if (last && last->end == extent->address &&
		    last->device_plus_one == extent->device_plus_one &&
		    is_mapped_segment(work, last) && is_mapped_segment(work, extent) &&
		    reservation_of(work, last->address) == reservation_of(work, extent->address))
			last->end = extent->end;
		else
			work->extents[count++] = *extent;
	}
	work->extent_count = count;
}

static int list_items(struct work *work, struct vc_arena *arena)
{
	const struct vc_tables *tables = work->tables;
	uint64_t rows = work->account->rows;

	work->extents = vc_arena_allocate(arena, rows + 1, sizeof(*work->extents));
	work->blocks = vc_arena_allocate(arena, rows + 1, sizeof(*work->blocks));
	work->reservations = vc_arena_allocate(arena, rows + 1, sizeof(*work->reservations));
	if (!work->extents || !work->blocks || !work->reservations)
		return VC_E_NO_MEMORY;
	for (uint64_t row = 0; row < rows; row++) {
		uint64_t kind = vc_value(tables, VC_COL_allocations_kind, row);
		uint64_t size = vc_value(tables, VC_COL_allocations_size, row);
		struct item item = {.address = vc_value(tables, VC_COL_allocations_address, row),
				    .row = row, .device_plus_one = device_of(tables, row)};

		if (vc_value(tables, VC_COL_allocations_state, row) != VC_STATE_LIVE || !size)
			continue;
		if (__builtin_add_overflow(item.address, size, &item.end))
			item.end = UINT64_MAX;
		if (kind == VC_KIND_BLOCK)
			work->blocks[work->block_count++] = item;
		else if (is_extent(kind))
			work->extents[work->extent_count++] = item;
		else if (kind == VC_KIND_RESERVATION)
			work->reservations[work->reservation_count++] = item;
	}
	qsort(work->extents, work->extent_count, sizeof(*work->extents), compare_addresses);
	qsort(work->blocks, work->block_count, sizeof(*work->blocks), compare_addresses);
	qsort(work->reservations, work->reservation_count, sizeof(*work->reservations),
	      compare_addresses);
	join_mappings(work);
	return 0;
}

static void add_part(struct work *work, struct vc_map_segment *segment, uint64_t address,
		     uint64_t end, uint64_t row)
{
	uint64_t size = end - address;

	if (!size)
		return;
	work->map->parts[work->map->part_count++] =
		(struct vc_map_part){.address = address, .size = size, .row = row};
	segment->part_count++;
	if (row != UINT64_MAX) {
		segment->used += size;
		segment->blocks++;
		return;
	}
	segment->free += size;
	segment->holes++;
	if (size > segment->largest_hole)
		segment->largest_hole = size;
}

/**
 * Fills a segment with the blocks that reach into it. *next is the first block that has not begun
 * before; *longest the one that reaches furthest of those that have.
 */
static void fill_segment(struct work *work, const struct item *extent,
			 struct vc_map_segment *segment, uint64_t *next,
			 const struct item **longest)
{
	uint64_t at = extent->address;

	while (*next < work->block_count && work->blocks[*next].address < at) {
		if (!*longest || work->blocks[*next].end > (*longest)->end)
			*longest = &work->blocks[*next];
		++*next;
	}
	if (*longest && (*longest)->end > at) {
		uint64_t end = (*longest)->end < extent->end ? (*longest)->end : extent->end;

		add_part(work, segment, at, end, (*longest)->row);
		at = end;
	}
	for (; *next < work->block_count && work->blocks[*next].address < extent->end; ++*next) {
		const struct item *block = &work->blocks[*next];
		uint64_t start = block->address > at ? block->address : at;
		uint64_t end = block->end < extent->end ? block->end : extent->end;

		if (!*longest || block->end > (*longest)->end)
			*longest = block;
		if (end <= start)
			continue;
		add_part(work, segment, at, start, UINT64_MAX);
		add_part(work, segment, start, end, block->row);
		at = end;
	}
	add_part(work, segment, at, extent->end, UINT64_MAX);
}

static bool is_segment(const struct work *work, const struct vc_map_segment *segment)
{
	return segment->blocks || vc_account_row_is_segment(work->account, segment->row) ||
	       vc_value(work->tables, VC_COL_allocations_segment, segment->row);
}

static struct vc_map_device *find_device(struct vc_map *map, uint32_t device_plus_one)
{
	for (uint32_t i = 0; i < map->device_count; i++)
		if (map->devices[i].device_plus_one == device_plus_one)
			return &map->devices[i];
	map->devices[map->device_count] =
		(struct vc_map_device){.device_plus_one = device_plus_one};
	return &map->devices[map->device_count++];
}

static int compare_segments(const void *a, const void *b)
{
	const struct vc_map_segment *x = a, *y = b;
	struct item left = {x->address, 0, x->row, x->device_plus_one};
	struct item right = {y->address, 0, y->row, y->device_plus_one};

	return compare_items(&left, &right);
}

static int compare_devices(const void *a, const void *b)
{
	const struct vc_map_device *x = a, *y = b;

	return x->device_plus_one < y->device_plus_one ? -1 :
						       x->device_plus_one > y->device_plus_one;
}

static void sum_segment(struct vc_map_device *device, const struct vc_map_segment *segment)
{
	device->count++;
	device->bytes += segment->size;
	device->used += segment->used;
	device->free += segment->free;
	device->blocks += segment->blocks;
	device->holes += segment->holes;
	if (segment->largest_hole > device->largest_hole)
		device->largest_hole = segment->largest_hole;
	if (!segment->blocks) {
		device->empty++;
		device->empty_bytes += segment->size;
	}
	if (segment->pinned) {
		device->pinned++;
		device->pinned_free += segment->free;
	}
}

/** 1 - largest / free, in tenths of a percent, rounded to the nearest. */
static uint64_t fragmentation(uint64_t largest, uint64_t all)
{
	double share = all ? 1.0 - (double)largest / (double)all : 0.0;

	return share <= 0 ? 0 : (uint64_t)(share * 1000.0 + 0.5);
}

static void finish_devices(struct vc_map *map)
{
	uint64_t at = 0;

	if (map->segment_count)
		qsort(map->segments, map->segment_count, sizeof(*map->segments), compare_segments);
	if (map->device_count)
		qsort(map->devices, map->device_count, sizeof(*map->devices), compare_devices);
	for (uint32_t i = 0; i < map->device_count; i++) {
		struct vc_map_device *device = &map->devices[i];

		device->first = at;
		at += device->count;
		device->fragmentation = fragmentation(device->largest_hole, device->free);
	}
}

/** Goes over extents and blocks, both by address, once. */
static void sweep(struct work *work)
{
	struct vc_map *map = work->map;
	const struct item *longest = NULL;
	uint64_t next = 0, covered = 0; /* extents that overlap an earlier one lose that part */

	for (uint64_t i = 0; i < work->extent_count; i++) {
		struct item extent = work->extents[i];
		struct vc_map_device *device = find_device(map, extent.device_plus_one);
		struct vc_map_segment segment = {.row = extent.row, .first_part = map->part_count,
						 .device_plus_one = extent.device_plus_one};

		if (extent.address < covered)
			extent.address = covered;
		if (extent.address >= extent.end)
			continue;
		covered = extent.end;
		segment.address = extent.address;
		segment.size = extent.end - extent.address;
		fill_segment(work, &extent, &segment, &next, &longest);
		if (!is_segment(work, &segment)) {
			map->part_count = segment.first_part;
			device->others++;
			device->other_bytes += segment.size;
			continue;
		}
		segment.torch = vc_account_row_is_torch(work->account, segment.row);
		segment.pinned = segment.blocks &&
				 segment.used <= segment.size / VC_MAP_PINNED_SHARE;
		sum_segment(device, &segment);
		map->segments[map->segment_count++] = segment;
	}
}

int vc_map_make(const struct vc_tables *tables, const struct vc_account *account,
		struct vc_arena *arena, struct vc_map *ret)
{
	struct vc_map map = {0};
	struct work work = {.tables = tables, .account = account, .map = &map};
	int error = list_items(&work, arena);

	if (error)
		return error;
	/* an extent has at most one part more than twice the blocks that begin in it, and one
	 * block that began before */
	map.segments = vc_arena_allocate(arena, work.extent_count + 1, sizeof(*map.segments));
	map.parts = vc_arena_allocate(arena, 2 * (work.extent_count + work.block_count) + 1,
				      sizeof(*map.parts));
	map.devices = vc_arena_allocate(arena, VC_MODEL_DEVICES_MOST + 1, sizeof(*map.devices));
	if (!map.segments || !map.parts || !map.devices)
		return VC_E_NO_MEMORY;
	sweep(&work);
	finish_devices(&map);
	*ret = map;
	return 0;
}

const struct vc_map_segment *vc_map_find(const struct vc_map *map, uint64_t address,
					 uint32_t device_plus_one)
{
	for (uint64_t i = 0; i < map->segment_count; i++) {
		const struct vc_map_segment *segment = &map->segments[i];

		if ((device_plus_one == UINT32_MAX ||
		     segment->device_plus_one == device_plus_one) &&
		    address - segment->address < segment->size)
			return segment;
	}
	return NULL;
}

void vc_map_cells(const struct vc_map *map, const struct vc_map_segment *segment, uint64_t cell,
		  uint64_t count, uint64_t *used)
{
	memset(used, 0, count * sizeof(*used));
	for (uint64_t i = 0; i < segment->part_count; i++) {
		const struct vc_map_part *part = &map->parts[segment->first_part + i];
		uint64_t at = part->address - segment->address, left = part->size;

		while (part->row != UINT64_MAX && left && at / cell < count) {
			uint64_t room = cell - at % cell, step = left < room ? left : room;

			used[at / cell] += step;
			at += step;
			left -= step;
		}
	}
}
