/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "functions.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_functions cu;
bool test_row_called[TEST_ROWS];

#define VC_HOOK(symbol, parameters, arguments, effect, ...) extern vc_cu_result symbol parameters;
#define VC_HOOK_OWN(symbol, parameters, arguments) extern vc_cu_result symbol parameters;
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
#define TEST_X(symbol, parameters) extern vc_cu_result symbol parameters;
TEST_PLAIN(TEST_X)
#undef TEST_X

const char *const test_row_name[TEST_ROWS] = {
#define VC_HOOK(symbol, parameters, arguments, effect, ...) #symbol,
#define VC_HOOK_OWN(symbol, parameters, arguments) #symbol,
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
};

const bool test_row_of_results[TEST_ROWS] = {
#define VC_HOOK(symbol, parameters, arguments, effect, ...)
#define VC_HOOK_OWN(symbol, parameters, arguments)
#define VC_RESULT(symbol, parameters, arguments) [TEST_ROW_##symbol] = true,
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
#undef VC_RESULT
};

/* The version and stream mode that make cuGetProcAddress give an exported symbol. */
static const struct {
	const char *exported, *base;
	int version;
	uint64_t flags;
} request[] = {
#define PLAIN 0
#define THREAD 2
#define SIM_SYMBOL(exported, base, version, mode) {#exported, #base, version, mode},
#include "symbols.def"
#undef SIM_SYMBOL
};

static void *driver;
static vc_cu_result (*gpa1)(const char *, void **, int, uint64_t);
static vc_cu_result (*gpa2)(const char *, void **, int, uint64_t, int *);

static void *ask(const char *way, const char *name)
{
	void *function = NULL;
	int status;

	if (!strcmp(way, "dlvsym"))
		return dlvsym(driver, name, "libcuda.so.1");
	if (strncmp(way, "gpa", 3) != 0)
		return dlsym(driver, name);
	for (size_t i = 0; i < sizeof(request) / sizeof(request[0]); i++) {
		if (strcmp(request[i].exported, name))
			continue;
		if (!strcmp(way, "gpa1"))
			gpa1(request[i].base, &function, request[i].version, request[i].flags);
		else if (!strcmp(way, "gpa-thread")) /* as a program built for streams of threads */
			gpa2(request[i].base, &function, request[i].version, THREAD, &status);
		else if (i & 1) /* the status may be NULL */
			gpa2(request[i].base, &function, request[i].version, request[i].flags, NULL);
		else
			gpa2(request[i].base, &function, request[i].version, request[i].flags, &status);
	}
	return function;
}

/*
 * A program that is not linked with the driver has no such way; one that calls by name must not take
 * addresses too, since the linker would make one entry of both.
 */
#ifdef TEST_NOT_LINKED
static void link_all(void)
{
}
#else
static void link_all(void)
{
#define VC_HOOK(symbol, parameters, arguments, effect, ...) cu.symbol = symbol;
#define VC_HOOK_OWN(symbol, parameters, arguments) cu.symbol = symbol;
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
#define TEST_X(symbol, parameters) cu.symbol = symbol;
	TEST_PLAIN(TEST_X)
#undef TEST_X
}
#endif

static bool ask_all(const char *way)
{
	bool all = true;

#define TEST_X(symbol, parameters)                                                                 \
	*(void **)&cu.symbol = ask(way, #symbol);                                                  \
	if (!cu.symbol) {                                                                          \
		fprintf(stderr, "%s: %s cannot be had\n", way, #symbol);                           \
		all = false;                                                                       \
	}
#define VC_HOOK(symbol, parameters, arguments, effect, ...) TEST_X(symbol, parameters)
#define VC_HOOK_OWN(symbol, parameters, arguments) TEST_X(symbol, parameters)
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
	TEST_PLAIN(TEST_X)
#undef TEST_X
	return all;
}

/* A copy of the driver, in a folder of its own, beside one that is in use. */
static const char *second_driver(void)
{
	void *first = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	vc_cu_result (*version)(int *);
	int number;

	*(void **)&version = first ? dlsym(first, "cuDriverGetVersion") : NULL;
	if (!version || version(&number) || !dlsym(first, "cuMemAlloc_v2"))
		return "no first driver";
	return getenv("TEST_DRIVER_COPY");
}

bool test_functions_get(const char *way)
{
	const char *path = "libcuda.so.1";
	int mode = RTLD_NOW | RTLD_LOCAL;

	if (!strcmp(way, "link")) {
		link_all();
		return true;
	}
#ifdef TEST_BY_NAME
	if (!strcmp(way, "plt")) {
		test_functions_by_name();
		return true;
	}
#endif
	if (!strcmp(way, "path"))
		path = getenv("TEST_DRIVER_PATH");
	else if (!strcmp(way, "dlvsym"))
		path = getenv("TEST_DRIVER_VERSIONED");
	else if (strstr(way, "second"))
		path = second_driver();
	else if (!strcmp(way, "deepbind"))
		mode |= RTLD_DEEPBIND;
	driver = dlopen(path, mode);
	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return false;
	}
	*(void **)&gpa1 = dlsym(driver, "cuGetProcAddress");
	*(void **)&gpa2 = dlsym(driver, "cuGetProcAddress_v2");
	return gpa1 && gpa2 && ask_all(way);
}
