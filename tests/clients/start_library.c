/* SPDX-License-Identifier: Apache-2.0 */
/*
 * start_library LIBRARY FUNCTION...: opens one of the vendor's libraries and calls functions of it
 * that take the address of something to fill, or two; prints what each returns. With "static" for the
 * library those of the runtime that is linked in (TEST_STATIC_RUNTIME).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef int start_function(void *, size_t, void *, void *);

#ifdef TEST_STATIC_RUNTIME
int cudaGetDeviceCount(int *count);
int cudaMalloc(void **pointer, size_t bytes);

static void *linked(const char *name)
{
	return !strcmp(name, "cudaGetDeviceCount") ? (void *)cudaGetDeviceCount :
	       !strcmp(name, "cudaMalloc")         ? (void *)cudaMalloc :
						     NULL;
}
#else
static void *linked(const char *name)
{
	(void)name;
	return NULL;
}
#endif

int main(int argc, char **argv)
{
	static char filled[4096], more[64];
	void *library = NULL;

	if (argc < 3)
		return 64;
	if (strcmp(argv[1], "static")) {
		library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		if (!library) {
			printf("cannot be opened: %s\n", dlerror());
			return 77;
		}
	}
	for (int i = 2; i < argc; i++) {
		start_function *function;

		*(void **)&function = library ? dlsym(library, argv[i]) : linked(argv[i]);
		if (!function) {
			printf("%s is not there\n", argv[i]);
			return 2;
		}
		printf("%s gives %d\n", argv[i], function(filled, 1 << 20, more, more));
		fflush(stdout);
	}
	return 0;
}
