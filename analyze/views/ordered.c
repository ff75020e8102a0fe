/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/ordered.h"

#include <stdlib.h>

#include "formats/error.h"

int vc_ordered_init(struct vc_ordered *set, uint64_t bound)
{
	uint64_t bits = bound ? bound : 1;

	*set = (struct vc_ordered){.bound = bound};
	do {
		uint64_t words = (bits + 63) / 64;

		set->level[set->levels] = calloc(words, sizeof(uint64_t));
		if (!set->level[set->levels++]) {
			vc_ordered_deinit(set);
			return VC_E_NO_MEMORY;
		}
		bits = words;
	} while (bits > 1 && set->levels < VC_ORDERED_LEVELS);
	return 0;
}

void vc_ordered_deinit(struct vc_ordered *set)
{
	for (unsigned i = 0; i < VC_ORDERED_LEVELS; i++)
		free(set->level[i]);
	*set = (struct vc_ordered){0};
}

void vc_ordered_add(struct vc_ordered *set, uint64_t number)
{
	for (unsigned i = 0; i < set->levels; i++, number /= 64)
		set->level[i][number / 64] |= UINT64_C(1) << number % 64;
}

void vc_ordered_remove(struct vc_ordered *set, uint64_t number)
{
	for (unsigned i = 0; i < set->levels; i++, number /= 64) {
		set->level[i][number / 64] &= ~(UINT64_C(1) << number % 64);
		if (set->level[i][number / 64])
			return;
	}
}

/** Goes down from a bit of a level to the last (or first) member below it. */
static uint64_t descend(const struct vc_ordered *set, unsigned level, uint64_t number, bool last)
{
	while (level--) {
		uint64_t word = set->level[level][number];

		number = number * 64 +
			 (unsigned)(last ? 63 - __builtin_clzll(word) : __builtin_ctzll(word));
	}
	return number;
}

uint64_t vc_ordered_before(const struct vc_ordered *set, uint64_t number)
{
	for (unsigned i = 0; i < set->levels; i++, number /= 64) {
		uint64_t word = set->level[i][number / 64] &
				((UINT64_C(1) << number % 64) - 1);

		if (word)
			return descend(set, i, number / 64 * 64 + 63u -
					       (unsigned)__builtin_clzll(word), true);
	}
	return UINT64_MAX;
}

uint64_t vc_ordered_after(const struct vc_ordered *set, uint64_t number)
{
	for (unsigned i = 0; i < set->levels; i++, number /= 64) {
		uint64_t word = set->level[i][number / 64] & (~UINT64_C(1) << number % 64);

		if (word)
			return descend(set, i,
				       number / 64 * 64 + (unsigned)__builtin_ctzll(word), false);
	}
	return UINT64_MAX;
}
