/* SPDX-License-Identifier: Apache-2.0 */
/* A library beside the recorder that counts all calls of the heap in the process. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

static uint64_t calls;

uint64_t counter_heap_calls(void);

uint64_t counter_heap_calls(void)
{
	return __atomic_load_n(&calls, __ATOMIC_RELAXED);
}

#define COUNTED(type, name, parameters, arguments)                                                 \
	extern type __libc_##name parameters;                                                      \
	type name parameters;                                                                      \
	type name parameters                                                                       \
	{                                                                                          \
		__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);                                   \
		return __libc_##name arguments;                                                    \
	}

COUNTED(void *, malloc, (size_t size), (size))
COUNTED(void *, calloc, (size_t count, size_t size), (count, size))
COUNTED(void *, realloc, (void *from, size_t size), (from, size))
COUNTED(void *, memalign, (size_t to, size_t size), (to, size))

extern void __libc_free(void *);
void free(void *);
void free(void *block)
{
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	__libc_free(block);
}
