/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for a pass over the interpreter's heap: off that heap and off malloc's, in pages of its
 * own, with a limit, and given back as a whole.
 *
 * Arrays grow by doubling and may move; sets number the pointers they hold from 0 in the order they
 * came in. What does not fit any more sets `full` of the struct vc_pages, once and for all. One
 * pass, one thread. System calls are made, so this is not for hooks.
 */
#ifndef VC_CAPTURE_INSIDE_PAGES_H
#define VC_CAPTURE_INSIDE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VC_NOT_THERE UINT32_MAX

struct vc_pages {
	uint64_t limit;  /* bytes that may be taken */
	uint64_t taken, most;
	bool full;
};

struct vc_array {
	char *item;
	uint64_t count, room; /* items */
};

/** Pointers, each once. */
struct vc_set {
	struct vc_array pointer; /* void * by number */
	uint64_t *slot;          /* upper half of the hash, and the number plus 1; 0: free */
	uint64_t slots;
};

/** A further item of `size` bytes, all zero; NULL: full. Pointers to others may end. */
void *vc_array_add(struct vc_pages *pages, struct vc_array *array, size_t size);
/** So many items in all, the new ones all zero. False: full. */
bool vc_array_fill(struct vc_pages *pages, struct vc_array *array, size_t size, uint64_t count);
void vc_array_free(struct vc_pages *pages, struct vc_array *array, size_t size);
/** Number of a pointer, which comes in if it is new; VC_NOT_THERE: full. */
uint32_t vc_set_add(struct vc_pages *pages, struct vc_set *set, const void *pointer,
		    bool *ret_new);
/** Room for so many pointers at once, where there is that much; a set grows by itself too. */
void vc_set_reserve(struct vc_pages *pages, struct vc_set *set, uint64_t count);
/** Number of a pointer; VC_NOT_THERE. */
uint32_t vc_set_find(const struct vc_set *set, const void *pointer);
void vc_set_free(struct vc_pages *pages, struct vc_set *set);

static inline void *vc_set_at(const struct vc_set *set, uint32_t number)
{
	return ((void **)set->pointer.item)[number];
}

#endif
