/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges in order of their addresses, each of which may come and go: finds out whether a new one
 * overlaps its neighbours.
 *
 * Three levels of sorted arrays of at most VC_ORDERED_FAN entries, but for the topmost, which has
 * all groups. Not thread safe.
 */
#ifndef VC_ANALYZE_VIEWS_ORDERED_H
#define VC_ANALYZE_VIEWS_ORDERED_H

#include <stdbool.h>
#include <stdint.h>

enum { VC_ORDERED_FAN = 64 };

struct vc_ordered_group;

/** All zero: empty. */
struct vc_ordered {
	struct vc_ordered_group **groups;
	uint64_t *first;                   /* address in each group */
	uint64_t count, capacity;
};

void vc_ordered_deinit(struct vc_ordered *set);
/**
 * Adds a range whose address is not there. *overlaps: it has bytes in common with the one before or
 * after it. 0, VC_E_NO_MEMORY.
 */
int vc_ordered_add(struct vc_ordered *set, uint64_t address, uint64_t size, bool *overlaps);
/** Takes the range at an address away; its size, 0 where none is there. */
uint64_t vc_ordered_remove(struct vc_ordered *set, uint64_t address);

#endif
