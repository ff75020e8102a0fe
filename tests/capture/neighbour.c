/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another preloaded library: it stands in front of puts and of dlsym, as such libraries do, and
 * says at exit what it saw.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int puts_seen, dlsym_seen;
static int (*real_puts)(const char *);
static void *(*real_dlsym)(void *, const char *);

void *dlsym(void *handle, const char *name)
{
	if (!real_dlsym)
		*(void **)&real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	if (!strcmp(name, "neighbour_probe"))
		dlsym_seen++;
	return real_dlsym(handle, name);
}

int puts(const char *text)
{
	if (!real_puts)
		*(void **)&real_puts = dlsym(RTLD_NEXT, "puts");
	puts_seen++;
	return real_puts == puts ? -1 : real_puts(text);
}

static __attribute__((destructor)) void report(void)
{
	char line[] = "neighbour: puts ., dlsym .\n";

	if (getenv("TEST_NEIGHBOUR_QUIET")) /* standard output is for something else */
		return;
	line[16] = (char)('0' + puts_seen);
	line[25] = (char)('0' + dlsym_seen);
	if (write(1, line, sizeof(line) - 1) < 0)
		_exit(3);
}
