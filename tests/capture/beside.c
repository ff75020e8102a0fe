/* SPDX-License-Identifier: Apache-2.0 */
/* A program that asks dlsym in each way, for tests with other preloaded libraries; prints what it got. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*allocate)(unsigned long long *, size_t) = NULL;
	int (*next_puts)(const char *) = NULL;
	int (*default_puts)(const char *) = NULL;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!driver)
		return 1;
	*(void **)&allocate = dlsym(driver, "cuMemAlloc_v2");
	*(void **)&next_puts = dlsym(RTLD_NEXT, "puts");
	*(void **)&default_puts = dlsym(RTLD_DEFAULT, "puts");
	dlsym(driver, "neighbour_probe");
	printf("%d %d\n", allocate != NULL, next_puts == default_puts);
	puts("hello");
	return 0;
}
