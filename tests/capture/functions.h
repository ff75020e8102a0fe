/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions for test programs, by each way that a program has to reach them.
 */
#ifndef TEST_CAPTURE_FUNCTIONS_H
#define TEST_CAPTURE_FUNCTIONS_H

#include <stdbool.h>

#include "capture/cuda_abi.h"

enum test_row {
#define VC_HOOK(symbol, parameters, arguments, effect, ...) TEST_ROW_##symbol,
#define VC_HOOK_OWN(symbol, parameters, arguments) TEST_ROW_##symbol,
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
	TEST_ROWS
};

/** Functions that are not hooked and that test programs need. */
#define TEST_PLAIN(X)                                                                              \
	X(cuDevResourceGenerateDesc,                                                               \
	  (vc_cu_object * description, void *resources, unsigned int count))                       \
	X(cuCtxGetCurrent, (vc_cu_context * context))

struct test_functions {
#define VC_HOOK(symbol, parameters, arguments, effect, ...) vc_cu_result (*symbol) parameters;
#define VC_HOOK_OWN(symbol, parameters, arguments) vc_cu_result (*symbol) parameters;
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
#define TEST_X(symbol, parameters) vc_cu_result (*symbol) parameters;
	TEST_PLAIN(TEST_X)
#undef TEST_X
};
extern struct test_functions cu;

extern const char *const test_row_name[TEST_ROWS];
/** Rows of which only the result is looked at: results.c calls those. */
extern const bool test_row_of_results[TEST_ROWS];
extern bool test_row_called[TEST_ROWS];

/** Calls a hooked function and remembers that it was called. */
#define CALL(symbol, ...)                                                                          \
	(test_row_called[TEST_ROW_##symbol] = true, cu.symbol(__VA_ARGS__))

/**
 * Fills `cu`: "link" (the program is linked with the driver), "plt" (calls by
 * name; with TEST_BY_NAME), "dlsym", "path" (dlopen by absolute
 * path), "gpa1", "gpa2" (cuGetProcAddress, _v2), "gpa-thread" (with the flag of per-thread streams
 * for every name), "dlvsym", "deepbind" (RTLD_DEEPBIND), "second" and "gpa-second" (a second driver,
 * by dlsym and by cuGetProcAddress_v2). False when a function cannot be had that way.
 */
bool test_functions_get(const char *way);

/** The hooked ones by name (plt.c); for "plt". */
void test_functions_by_name(void);

#endif
