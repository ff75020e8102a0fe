/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations that got no record because the recording was full: just enough of each, in private
 * memory, for the totals of its site and device to stay right when it is freed.
 *
 * A table of fixed size with two buckets an address, without locks. It is mapped when the first
 * allocation needs it; what does not fit in it either is counted as born and never as freed. Any
 * thread, any signal handler.
 */
#ifndef VC_CAPTURE_INSIDE_OVERFLOW_H
#define VC_CAPTURE_INSIDE_OVERFLOW_H

#include <stdbool.h>
#include <stdint.h>

struct vc_overflow {
	uint64_t address, size;
	uint32_t site;
	uint16_t device_plus_one;
	uint8_t kind;
};

/** Keeps one; false: no room. */
bool vc_overflow_add(const struct vc_overflow *entry);
/** Looks one up; it may be gone at once. */
bool vc_overflow_find(uint64_t address, uint64_t kinds, struct vc_overflow *ret);
/** Finds and takes one for freeing; gives its place for the two calls below. */
bool vc_overflow_claim(uint64_t address, uint64_t kinds, struct vc_overflow *ret,
		       uint32_t *ret_place);
/** It was freed. */
void vc_overflow_drop(uint32_t place);
/** It was not. */
void vc_overflow_undo(uint32_t place, uint64_t address);
/** In a forked child. */
void vc_overflow_forget(void);

#endif
