/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a sample program tells the test where it is: each mark prints "NAME OFFSET", the return
 * address of the call to mark() less the load bias. What the test expects of that address stands
 * in comments of the source, "LINE name", which it scans: nothing is counted by hand.
 */
#ifndef VC_TEST_MARK_H
#define VC_TEST_MARK_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" const char __ehdr_start[];
#else
extern const char __ehdr_start[];
#endif

#define NOINLINE __attribute__((noinline))
#define INLINE inline __attribute__((always_inline))
/* Keeps a call from becoming a jump, and calls apart. */
#define AFTER __asm__ volatile("" ::: "memory")

static NOINLINE void print_offset(const char *name, const void *address)
{
	printf("%s %lx\n", name,
	       (unsigned long)address - (VC_PIE ? (unsigned long)__ehdr_start : 0));
	AFTER;
}

static NOINLINE void mark(const char *name)
{
	print_offset(name, __builtin_return_address(0));
	AFTER;
}

#endif
