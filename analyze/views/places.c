/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/places.h"

#include <stdlib.h>

#include "analyze/model.h"

void vc_places_deinit(struct vc_places *places)
{
	free(places->rows);
	free(places->tags);
	free(places->numbers);
	*places = (struct vc_places){.tables = places->tables};
}

static uint64_t address_of(const struct vc_places *places, uint64_t place)
{
	uint64_t row = places->rows[place], events = places->tables->rows[VC_TABLE_trace];

	return row < events ? vc_value(places->tables, VC_COL_trace_address, row) :
			      vc_value(places->tables, VC_COL_blocks_address, row - events);
}

static uint64_t hash_of(uint64_t address)
{
	address *= UINT64_C(0x9e3779b97f4a7c15);
	return address ^ address >> 32;
}

static uint8_t tag_of(uint64_t hash)
{
	return (uint8_t)(hash >> 56 | 1);
}

/** The next slot from `slot` on that has the hash's tag, or is empty. */
static uint64_t next_slot(const struct vc_places *places, uint64_t slot, uint64_t hash)
{
	for (slot &= places->size - 1;; slot = (slot + 1) & (places->size - 1))
		if (!places->tags[slot] || places->tags[slot] == tag_of(hash))
			return slot;
}

static void put(struct vc_places *places, uint64_t slot, uint64_t hash, uint64_t place)
{
	places->tags[slot] = tag_of(hash);
	places->numbers[slot] = (uint32_t)place;
}

/** Twice the slots. All are filled again, in the order in which their addresses lie. */
static int grow_slots(struct vc_places *places)
{
	uint64_t size = places->size ? places->size * 2 : 1024;
	uint8_t *tags = calloc(size, sizeof(*tags));
	uint32_t *numbers = malloc(size * sizeof(*numbers));

	if (!tags || !numbers) {
		free(tags);
		free(numbers);
		return VC_E_NO_MEMORY;
	}
	free(places->tags);
	free(places->numbers);
	places->tags = tags;
	places->numbers = numbers;
	places->size = size;
	for (uint64_t place = 0; place < places->count; place++) {
		uint64_t hash = hash_of(address_of(places, place)), slot = hash;

		while (tags[slot &= size - 1])
			slot++;
		put(places, slot, hash, place);
	}
	return 0;
}

static int grow_places(struct vc_places *places)
{
	uint64_t capacity = places->capacity ? places->capacity * 2 : 1024;
	uint32_t *rows = realloc(places->rows, capacity * sizeof(*rows));

	if (!rows)
		return VC_E_NO_MEMORY;
	places->rows = rows;
	places->capacity = capacity;
	return 0;
}

int vc_places_add(struct vc_places *places, uint64_t address, uint64_t row, uint32_t *ret)
{
	uint64_t hash = hash_of(address), slot;
	int error = 0;

	if (places->count * 4 >= places->size * 3)
		error = grow_slots(places);
	if (!error && places->count == places->capacity)
		error = grow_places(places);
	if (error)
		return error;
	slot = next_slot(places, hash, hash);
	while (places->tags[slot] && address_of(places, places->numbers[slot]) != address)
		slot = next_slot(places, slot + 1, hash);
	if (!places->tags[slot]) {
		places->rows[places->count] = (uint32_t)row;
		put(places, slot, hash, places->count++);
	}
	*ret = places->numbers[slot];
	return 0;
}

void vc_places_fetch(const struct vc_places *places, uint64_t soon, uint64_t later)
{
	if (!places->size)
		return;
	__builtin_prefetch(&places->tags[hash_of(later) & (places->size - 1)]);
	__builtin_prefetch(&places->numbers[hash_of(soon) & (places->size - 1)], 1);
}
