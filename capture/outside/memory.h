/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a process that is looked at from outside: a running one, or what a core file kept.
 */
#ifndef VC_CAPTURE_OUTSIDE_MEMORY_H
#define VC_CAPTURE_OUTSIDE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vc_memory {
	/** Copies all of `length` bytes at an address of the process; false where it cannot. */
	bool (*read)(void *self, uint64_t address, void *buffer, size_t length);
	void *self;
};

static inline bool vc_memory_word(const struct vc_memory *memory, uint64_t address, uint64_t *ret)
{
	return address && memory->read(memory->self, address, ret, sizeof(*ret));
}

#endif
