/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of numbers below a bound that finds the next member in either direction.
 *
 * Levels of 64-bit words, each bit of one says that a word of the level below is not 0: at most
 * six steps whatever the size. Not thread safe.
 */
#ifndef VC_ANALYZE_VIEWS_ORDERED_H
#define VC_ANALYZE_VIEWS_ORDERED_H

#include <stdbool.h>
#include <stdint.h>

enum { VC_ORDERED_LEVELS = 8 };

struct vc_ordered {
	uint64_t *level[VC_ORDERED_LEVELS]; /* level 0 has a bit for each number */
	unsigned levels;
	uint64_t bound;
};

/** Makes an empty set of numbers below `bound`. 0, VC_E_NO_MEMORY. */
int vc_ordered_init(struct vc_ordered *set, uint64_t bound);
void vc_ordered_deinit(struct vc_ordered *set);
void vc_ordered_add(struct vc_ordered *set, uint64_t number);
void vc_ordered_remove(struct vc_ordered *set, uint64_t number);
/** The largest member below `number`, the smallest above; UINT64_MAX: none. */
uint64_t vc_ordered_before(const struct vc_ordered *set, uint64_t number);
uint64_t vc_ordered_after(const struct vc_ordered *set, uint64_t number);

#endif
