/* SPDX-License-Identifier: Apache-2.0 */
/* Another preloaded library that finds the real puts by dlsym(RTLD_NEXT), which must be next to it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int puts(const char *text)
{
	static int (*real_puts)(const char *);
	static const char seen[] = "neighbour saw it\n";

	if (!real_puts)
		*(void **)&real_puts = dlsym(RTLD_NEXT, "puts");
	if (real_puts == puts || write(1, seen, sizeof(seen) - 1) < 0)
		_exit(3);
	return real_puts(text);
}
