/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_of_library HOW LIBRARY ARGUMENT...: runs the main of a library that it opens "deep" (with
 * RTLD_DEEPBIND: what the library needs comes before all that is preloaded) or in a "namespace" of
 * its own.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	int (*run)(int, char **);
	void *library = NULL;

	if (argc > 2 && !strcmp(argv[1], "deep"))
		library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
	else if (argc > 2 && !strcmp(argv[1], "namespace"))
		library = dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&run = dlsym(library, "library_main");
	return run ? run(argc - 2, argv + 2) : 1;
}
