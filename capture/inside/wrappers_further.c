/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrappers of a second, third and fourth driver in one process: as those of wrappers.c, one for
 * each row of hooks.def that is not written by hand, but not exported. They are only handed out (resolve.c),
 * and only once the driver's own functions are known.
 */
#include <stddef.h>

#include "capture/inside/effects.h"
#include "capture/inside/failure.h"
#include "capture/inside/resolve.h"
#include "capture/inside/rows.h"
#include "formats/tables.h"

void *vc_row_real_further[VC_DRIVERS - 1][VC_ROWS];

#define WRAPPER(number, symbol, parameters, arguments, effect, ...)                                \
	static __attribute__((noinline)) vc_cu_result symbol##_of_##number parameters              \
	{                                                                                          \
		struct vc_claims claims;                                                           \
		struct vc_call call = {                                                            \
			.row = VC_ROW_##symbol, .claims = &claims, ##__VA_ARGS__};                 \
		vc_cu_result result;                                                               \
		vc_cu_result(*real) parameters;                                                    \
                                                                                                   \
		*(void **)&real = vc_row_real_further[number - 1][VC_ROW_##symbol];                \
		vc_driver_called(number);                                                          \
		claims.count = claims.capacity = 0;                                                \
		VC_REGISTERS_OF_CALLER(&call.registers);                                           \
		vc_before_##effect(&call);                                                         \
		result = real arguments;                                                           \
		vc_after_##effect(&call, result);                                                  \
		return result;                                                                     \
	}

#define RESULT(number, symbol, parameters, arguments)                                              \
	static __attribute__((noinline)) vc_cu_result symbol##_of_##number parameters              \
	{                                                                                          \
		vc_cu_result result;                                                               \
		vc_cu_result(*real) parameters;                                                    \
                                                                                                   \
		*(void **)&real = vc_row_real_further[number - 1][VC_ROW_##symbol];                \
		result = real arguments;                                                           \
		if (__builtin_expect(result, VC_CU_SUCCESS)) {                                     \
			struct vc_registers registers;                                             \
                                                                                                   \
			VC_REGISTERS_OF_CALLER(&registers);                                        \
			vc_driver_called(number);                                                  \
			vc_failure_result(VC_ROW_##symbol, result, &registers);                    \
		}                                                                                  \
		return result;                                                                     \
	}

#define ASK(number)                                                                                \
	static vc_cu_result cuGetProcAddress_of_##number(const char *symbol, void **function,      \
							 int version, uint64_t flags)              \
	{                                                                                          \
		return vc_ask(vc_row_real_further[number - 1][VC_ROW_cuGetProcAddress], symbol,    \
			      function, version, flags);                                           \
	}                                                                                          \
	static vc_cu_result cuGetProcAddress_v2_of_##number(const char *symbol, void **function,   \
							    int version, uint64_t flags,           \
							    int *status)                           \
	{                                                                                          \
		return vc_ask_v2(vc_row_real_further[number - 1][VC_ROW_cuGetProcAddress_v2],      \
				 symbol, function, version, flags, status);                        \
	}
ASK(1)
ASK(2)
ASK(3)

#define VC_HOOK_OWN(symbol, parameters, arguments)
#define VC_HOOK(symbol, ...) WRAPPER(1, symbol, __VA_ARGS__)
#define VC_RESULT(symbol, ...) RESULT(1, symbol, __VA_ARGS__)
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_RESULT
#define VC_HOOK(symbol, ...) WRAPPER(2, symbol, __VA_ARGS__)
#define VC_RESULT(symbol, ...) RESULT(2, symbol, __VA_ARGS__)
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_RESULT
#define VC_HOOK(symbol, ...) WRAPPER(3, symbol, __VA_ARGS__)
#define VC_RESULT(symbol, ...) RESULT(3, symbol, __VA_ARGS__)
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_RESULT

#define OWN_OF(number)                                                                             \
	[VC_ROW_cuGetProcAddress] = (void *)cuGetProcAddress_of_##number,                          \
	[VC_ROW_cuGetProcAddress_v2] = (void *)cuGetProcAddress_v2_of_##number,

void *const vc_wrapper_further[VC_DRIVERS - 1][VC_ROWS] = {
	{
		OWN_OF(1)
#define VC_HOOK(symbol, ...) [VC_ROW_##symbol] = (void *)symbol##_of_1,
#include "capture/hooks.def"
#undef VC_HOOK
	},
	{
		OWN_OF(2)
#define VC_HOOK(symbol, ...) [VC_ROW_##symbol] = (void *)symbol##_of_2,
#include "capture/hooks.def"
#undef VC_HOOK
	},
	{
		OWN_OF(3)
#define VC_HOOK(symbol, ...) [VC_ROW_##symbol] = (void *)symbol##_of_3,
#include "capture/hooks.def"
#undef VC_HOOK
	},
};
