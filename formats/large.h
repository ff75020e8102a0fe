/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks for large pages for large arrays: filling them takes fewer page faults, reading them here and
 * there fewer misses. Only a hint. Not for use inside a host process.
 */
#ifndef VC_FORMATS_LARGE_H
#define VC_FORMATS_LARGE_H

#include <stdint.h>
#include <sys/mman.h>

#define VC_LARGE_PAGE (UINT64_C(2) << 20)
#define VC_LARGE_LEAST (UINT64_C(8) << 20)

/** For memory that was just made or grown; what lies beside it is left alone. */
static inline void vc_large_advise(void *memory, uint64_t bytes)
{
	uintptr_t first = ((uintptr_t)memory + VC_LARGE_PAGE - 1) & ~(VC_LARGE_PAGE - 1);
	uintptr_t end = ((uintptr_t)memory + bytes) & ~(VC_LARGE_PAGE - 1);

	if (bytes >= VC_LARGE_LEAST && end > first)
		madvise((void *)first, end - first, MADV_HUGEPAGE); /* may fail: then not */
}

#endif
