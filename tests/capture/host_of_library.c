/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_of_library HOW LIBRARY ARGUMENT...: runs the main of a library that it opens "deep" (with
 * RTLD_DEEPBIND: what the library needs comes before all that is preloaded) or in a "namespace" of
 * its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	int (*run)(int, char **);
	void *library = NULL;
	const char *how, *path;

	/* The library may start this program again, with arguments of its own. */
	if (argc > 2 && (!strcmp(argv[1], "deep") || !strcmp(argv[1], "namespace"))) {
		setenv("TEST_HOST_HOW", argv[1], 1);
		setenv("TEST_HOST_LIBRARY", argv[2], 1);
		argc -= 2;
		argv += 2;
	}
	how = getenv("TEST_HOST_HOW");
	path = getenv("TEST_HOST_LIBRARY");
	if (!how || !path)
		return 64;
	library = strcmp(how, "deep") ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL) :
					dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&run = dlsym(library, "library_main");
	return run ? run(argc, argv) : 1;
}
