/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds of the stack that holds an address.
 *
 * A thread may stand on its own stack, an alternate signal stack or a fiber's. The bounds come from
 * the kernel's list of mappings, read once per stack with raw system calls into memory the caller
 * gives, and a few are kept per thread. Above sp a thread's own stack ends at the thread's control
 * block at the latest. No allocation, no lock, errno kept; callable from hooks and signal handlers.
 */
#ifndef VC_CAPTURE_INSIDE_STACK_RANGE_H
#define VC_CAPTURE_INSIDE_STACK_RANGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { VC_STACK_RANGES = 4 };

/** Addresses in [low, high) are one stack; all from sp up to high can be read. */
struct vc_stack_range {
	uintptr_t low;
	uintptr_t high;
};

/** Ranges of one thread. Zero is the valid initial state. */
struct vc_stack_ranges {
	struct vc_stack_range range[VC_STACK_RANGES];
	uint32_t next; /* to be replaced */
	uint32_t lookups; /* times the mappings were read */
};

/** The kept range that holds sp, else NULL. */
static inline const struct vc_stack_range *
vc_stack_range_kept(const struct vc_stack_ranges *ranges, uintptr_t sp)
{
	unsigned int i;

	for (i = 0; i < VC_STACK_RANGES; i++) {
		if (sp >= ranges->range[i].low && sp < ranges->range[i].high)
			return &ranges->range[i];
	}
	return NULL;
}

/**
 * Reads the mappings, keeps the range that holds sp and returns it; NULL if there is none or the
 * mappings cannot be read. The buffer (at least 512 bytes) is scratch.
 */
const struct vc_stack_range *vc_stack_range_read(struct vc_stack_ranges *ranges, uintptr_t sp,
						 char *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
