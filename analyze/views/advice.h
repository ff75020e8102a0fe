/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a caching allocator could not give what it was asked for, and what would help.
 *
 * Pure; looks at segments, blocks and holes (map.h) as they were when it failed. Savings are told
 * one by one and overlap: they are not to be added up. Each says how much more could be had, and
 * whether that, with what the device has left, is enough for the request in one piece.
 */
#ifndef VC_ANALYZE_VIEWS_ADVICE_H
#define VC_ANALYZE_VIEWS_ADVICE_H

#include <stdbool.h>

#include "analyze/arena.h"
#include "analyze/names.h"
#include "analyze/views/map.h"

/** A site whose small blocks keep large segments from going back; see "pinned" in map.h. */
struct vc_pin {
	uint64_t key;
	const struct vc_chain *chain;
	uint64_t bytes;          /* of its blocks in such segments */
	uint64_t kept, segments; /* free bytes of these, and their number */
	uint64_t alone;          /* bytes of those that no other site has blocks in */
};
/** Sites of a device, those that keep back most first. 0, VC_E_NO_MEMORY. */
int vc_pins_make(const struct vc_tables *tables, const struct vc_map *map,
		 const struct vc_map_device *device, const struct vc_names *names,
		 struct vc_arena *arena, struct vc_pin **ret, uint64_t *ret_count);

enum vc_advice_why {
	VC_WHY_FULL,       /* what is free does not add up to it */
	VC_WHY_FRAGMENTED, /* it does, but no hole has it */
	VC_WHY_LIMIT,      /* the device has as much left: it was not allowed to take it */
	VC_WHY_BEYOND,     /* the device has less in all */
};

struct vc_advice_row {
	const char *key;       /* for programs: "expandable_segments", "free_blocks" */
	const char *what;      /* in words; before the site where there is one */
	const struct vc_chain *chain; /* whose blocks; NULL */
	uint64_t bytes;
	bool at_most;          /* up to that much */
	bool enough;
};

enum { VC_ADVICE_MOST = 8 };
struct vc_advice {
	enum vc_advice_why why;
	uint64_t free, hole;   /* inside segments; the largest hole */
	struct vc_pin *pins;
	uint64_t pin_count;
	struct vc_advice_row rows[VC_ADVICE_MOST];
	unsigned count;
};

/** `left`: what the device has; `total`: in all, 0 unknown. 0, VC_E_NO_MEMORY. */
int vc_advice_make(const struct vc_tables *tables, const struct vc_map *map,
		   const struct vc_map_device *device, const struct vc_names *names,
		   uint64_t requested, uint64_t left, uint64_t total, struct vc_arena *arena,
		   struct vc_advice *ret);

#endif
