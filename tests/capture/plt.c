/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every hooked function, called by its name: through an entry of the procedure linkage table, which
 * is what most programs do. Nothing here takes an address of one, since that is another entry.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "functions.h"

#define VC_HOOK(symbol, parameters, arguments, effect, ...)                                        \
	extern vc_cu_result symbol parameters;                                                     \
	static vc_cu_result call_##symbol parameters                                               \
	{                                                                                          \
		vc_cu_result result = symbol arguments;                                            \
                                                                                                   \
		__asm__ volatile("" : "+r"(result));                                               \
		return result;                                                                     \
	}
#define VC_HOOK_OWN(symbol, parameters, arguments) VC_HOOK(symbol, parameters, arguments, NONE)
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN

/* What is not hooked may come as it likes. */
void test_functions_by_name(void)
{
#define TEST_X(symbol, parameters) *(void **)&cu.symbol = dlsym(RTLD_DEFAULT, #symbol);
	TEST_PLAIN(TEST_X)
#undef TEST_X
#define VC_HOOK(symbol, parameters, arguments, effect, ...) cu.symbol = call_##symbol;
#define VC_HOOK_OWN(symbol, parameters, arguments) cu.symbol = call_##symbol;
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
}
