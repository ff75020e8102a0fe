/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed at once: everything a report is made of.
 *
 * Allocations are zeroed and never freed singly; vc_arena_deinit frees all. Not thread safe.
 */
#ifndef VC_ANALYZE_ARENA_H
#define VC_ANALYZE_ARENA_H

#include <stddef.h>

struct vc_arena_piece;

struct vc_arena {
	struct vc_arena_piece *newest;
	size_t used, size; /* of the newest piece */
};

/** Zeroed memory aligned for any object; NULL when out of memory. */
void *vc_arena_allocate(struct vc_arena *arena, size_t count, size_t size);
/** A copy of a string; NULL when out of memory. */
char *vc_arena_string(struct vc_arena *arena, const char *string);
void vc_arena_deinit(struct vc_arena *arena);

#endif
