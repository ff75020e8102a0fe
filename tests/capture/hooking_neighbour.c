/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another preloaded library of the kind that limits what programs may allocate: it stands in front
 * of dlsym, hands out functions of its own for some of the driver's, and these call the driver's.
 * At exit it says how many calls it saw.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPECTED_VARIABLE "TEST_HOOKING_CALLS" /* at least as many, else the program fails */

typedef int allocate_function(unsigned long long *, size_t);
typedef int ask_function(const char *, void **, int, uint64_t, int *);

static void *(*real_dlsym)(void *, const char *);
static allocate_function *real_allocate;
static ask_function *real_ask;
static int calls;

static int allocate(unsigned long long *pointer, size_t bytes)
{
	calls++;
	return real_allocate(pointer, bytes);
}

static int ask(const char *name, void **function, int version, uint64_t flags, int *status)
{
	int result = real_ask(name, function, version, flags, status);

	if (!result && *function && !strcmp(name, "cuMemAlloc") && version >= 3020) {
		real_allocate = (allocate_function *)*function;
		*function = (void *)allocate;
	}
	return result;
}

void *dlsym(void *handle, const char *name)
{
	void *answer;

	if (!real_dlsym)
		*(void **)&real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
	answer = real_dlsym(handle, name);
	if (answer && !strcmp(name, "cuMemAlloc_v2") && handle != RTLD_NEXT) {
		real_allocate = (allocate_function *)answer;
		return (void *)allocate;
	}
	if (answer && !strcmp(name, "cuGetProcAddress_v2") && handle != RTLD_NEXT) {
		real_ask = (ask_function *)answer;
		return (void *)ask;
	}
	return answer;
}

static int expected;

/* Of this program alone, not of what it starts. */
static __attribute__((constructor)) void start(void)
{
	const char *text = getenv(EXPECTED_VARIABLE);

	expected = text ? atoi(text) : 0;
	unsetenv(EXPECTED_VARIABLE);
}

static __attribute__((destructor)) void report(void)
{
	if (calls < expected) {
		if (write(2, "hooking neighbour: not called\n", 30) < 0)
			_exit(4);
		_exit(5);
	}
}
