/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/advice.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"

/* What the driver maps at once, and what requests are rounded to. */
#define PAGE (UINT64_C(2) << 20)

/* ---- who pins ---- */

/** A site's part of one pinned segment. */
struct share {
	uint64_t key, segment, bytes;
	const struct vc_chain *chain;
};

static int by_segment(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->segment != y->segment)
		return x->segment < y->segment ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static int by_key(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->segment < y->segment ? -1 : x->segment > y->segment;
}

static int by_kept(const void *a, const void *b)
{
	const struct vc_pin *x = a, *y = b;

	if (x->kept != y->kept)
		return x->kept > y->kept ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static const struct vc_chain *chain_of(const struct vc_tables *tables, const struct vc_names *names,
				       uint64_t row)
{
	uint64_t stack = vc_stack_reference(
		tables, vc_value(tables, VC_COL_allocations_stack, row),
		vc_value(tables, VC_COL_allocations_python, row));

	return vc_names_chain(names, 0, stack);
}

/** One for each block of a pinned segment; those of one site and segment are summed. */
static uint64_t list_shares(const struct vc_tables *tables, const struct vc_map *map,
			    const struct vc_map_device *device, const struct vc_names *names,
			    struct share *shares)
{
	uint64_t count = 0, sums = 0;

	for (uint64_t i = device->first; i < device->first + device->count; i++) {
		const struct vc_map_segment *segment = &map->segments[i];

		for (uint64_t j = 0; segment->pinned && j < segment->part_count; j++) {
			const struct vc_map_part *part = &map->parts[segment->first_part + j];
			const struct vc_chain *chain;

			if (part->row == UINT64_MAX)
				continue;
			chain = chain_of(tables, names, part->row);
			shares[count++] = (struct share){vc_chain_key(chain, 0), i, part->size,
							 chain};
		}
	}
	qsort(shares, count, sizeof(*shares), by_segment);
	for (uint64_t i = 0; i < count; i++) {
		struct share *last = sums ? &shares[sums - 1] : NULL;

		if (last && last->segment == shares[i].segment && last->key == shares[i].key)
			last->bytes += shares[i].bytes;
		else
			shares[sums++] = shares[i];
	}
	return sums;
}

int vc_pins_make(const struct vc_tables *tables, const struct vc_map *map,
		 const struct vc_map_device *device, const struct vc_names *names,
		 struct vc_arena *arena, struct vc_pin **ret, uint64_t *ret_count)
{
	struct share *shares = vc_arena_allocate(arena, device->blocks + 1, sizeof(*shares));
	bool *alone = vc_arena_allocate(arena, map->segment_count + 1, sizeof(*alone));
	struct vc_pin *pins;
	uint64_t count, sums = 0;

	if (!shares || !alone)
		return VC_E_NO_MEMORY;
	count = list_shares(tables, map, device, names, shares);
	for (uint64_t i = 0; i < count; i++)
		alone[shares[i].segment] =
			(!i || shares[i - 1].segment != shares[i].segment) &&
			(i + 1 == count || shares[i + 1].segment != shares[i].segment);
	qsort(shares, count, sizeof(*shares), by_key);
	pins = vc_arena_allocate(arena, count + 1, sizeof(*pins));
	if (!pins)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < count; i++) {
		const struct vc_map_segment *segment = &map->segments[shares[i].segment];

		if (!sums || pins[sums - 1].key != shares[i].key)
			pins[sums++] = (struct vc_pin){.key = shares[i].key,
						       .chain = shares[i].chain};
		pins[sums - 1].bytes += shares[i].bytes;
		pins[sums - 1].kept += segment->free;
		pins[sums - 1].segments++;
		pins[sums - 1].alone += alone[shares[i].segment] ? segment->size : 0;
	}
	qsort(pins, sums, sizeof(*pins), by_kept);
	*ret = pins;
	*ret_count = sums;
	return 0;
}

/* ---- what would help ---- */

/** What expandable segments could give back: whole pages of holes in other segments. */
static uint64_t whole_pages(const struct vc_tables *tables, const struct vc_map *map,
			    const struct vc_map_device *device)
{
	uint64_t pages = 0;

	for (uint64_t i = device->first; i < device->first + device->count; i++) {
		const struct vc_map_segment *segment = &map->segments[i];

		if (vc_value(tables, VC_COL_allocations_kind, segment->row) == VC_KIND_MAPPING)
			continue;
		for (uint64_t j = 0; j < segment->part_count; j++) {
			const struct vc_map_part *part = &map->parts[segment->first_part + j];
			uint64_t start = (part->address + PAGE - 1) / PAGE;
			uint64_t end = (part->address + part->size) / PAGE;

			if (part->row == UINT64_MAX && end > start)
				pages += end - start;
		}
	}
	return pages * PAGE;
}

static int by_bytes(const void *a, const void *b)
{
	const struct vc_advice_row *x = a, *y = b;

	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : strcmp(x->key, y->key);
}

/** Sites that pin segments alone, and expandable segments. */
static void list_rows(const struct vc_tables *tables, const struct vc_map *map,
		      const struct vc_map_device *device, uint64_t needed, uint64_t left,
		      struct vc_advice *advice)
{
	uint64_t pages = whole_pages(tables, map, device);

	if (pages)
		advice->rows[advice->count++] = (struct vc_advice_row){
			.key = "expandable_segments",
			.what = "expandable_segments:True (wholly free 2 MiB pages)",
			.bytes = pages, .at_most = true, .enough = pages + left >= needed};
	for (uint64_t i = 0; i < advice->pin_count && advice->count < VC_ADVICE_MOST; i++) {
		const struct vc_pin *pin = &advice->pins[i];

		if (pin->alone)
			advice->rows[advice->count++] = (struct vc_advice_row){
				.key = "free_blocks", .what = "without the blocks of",
				.chain = pin->chain, .bytes = pin->alone,
				.enough = pin->alone + left >= needed};
	}
	qsort(advice->rows, advice->count, sizeof(*advice->rows), by_bytes);
}

int vc_advice_make(const struct vc_tables *tables, const struct vc_map *map,
		   const struct vc_map_device *device, const struct vc_names *names,
		   uint64_t requested, uint64_t left, uint64_t total, struct vc_arena *arena,
		   struct vc_advice *ret)
{
	struct vc_advice advice = {.free = device->free, .hole = device->largest_hole};
	uint64_t needed = requested > UINT64_MAX - PAGE ? requested :
							  (requested + PAGE - 1) / PAGE * PAGE;
	int error = vc_pins_make(tables, map, device, names, arena, &advice.pins,
				 &advice.pin_count);

	if (error)
		return error;
	if (total && requested > total)
		advice.why = VC_WHY_BEYOND;
	else if (left >= needed)
		advice.why = VC_WHY_LIMIT;
	else if (advice.free + left >= requested && advice.hole < requested)
		advice.why = VC_WHY_FRAGMENTED;
	else
		advice.why = VC_WHY_FULL;
	if (advice.why == VC_WHY_FRAGMENTED || advice.why == VC_WHY_FULL)
		list_rows(tables, map, device, needed, left, &advice);
	*ret = advice;
	return 0;
}
