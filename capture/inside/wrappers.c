/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exported wrappers, one for each row of hooks.def that has an effect.
 *
 * Each is its own function with its own frame, and the driver is called from that frame: nothing
 * of the recorder is held meanwhile.
 */
#include <stddef.h>

#include "capture/inside/effects.h"
#include "capture/inside/failure.h"
#include "capture/inside/rows.h"
#include "formats/tables.h"

#define VC_EXPORT __attribute__((visibility("default"), noinline))

#define VC_HOOK(symbol, parameters, arguments, effect, ...)                                        \
	VC_EXPORT vc_cu_result symbol parameters;                                                  \
	vc_cu_result symbol parameters                                                             \
	{                                                                                          \
		struct vc_claims claims;                                                           \
		struct vc_call call = {                                                            \
			.row = VC_ROW_##symbol, .claims = &claims, ##__VA_ARGS__};                 \
		vc_cu_result result;                                                               \
		vc_cu_result(*real) parameters;                                                    \
                                                                                                   \
		*(void **)&real = vc_row_real[VC_ROW_##symbol];                                    \
		if (__builtin_expect(!real, 0)) {                                                  \
			*(void **)&real = vc_row_find(VC_ROW_##symbol, &result);                   \
			if (!real)                                                                 \
				return result;                                                     \
		}                                                                                  \
		vc_driver_called(0);                                                               \
		claims.count = claims.capacity = 0;                                                \
		VC_REGISTERS_OF_CALLER(&call.registers);                                           \
		vc_before_##effect(&call);                                                         \
		result = real arguments;                                                           \
		vc_after_##effect(&call, result);                                                  \
		return result;                                                                     \
	}
#define VC_HOOK_OWN(symbol, parameters, arguments)

/* A load and a comparison beside the call. */
#define VC_RESULT(symbol, parameters, arguments)                                                   \
	VC_EXPORT vc_cu_result symbol parameters;                                                  \
	vc_cu_result symbol parameters                                                             \
	{                                                                                          \
		vc_cu_result result;                                                               \
		vc_cu_result(*real) parameters;                                                    \
                                                                                                   \
		*(void **)&real = vc_row_real[VC_ROW_##symbol];                                    \
		if (__builtin_expect(!real, 0)) {                                                  \
			*(void **)&real = vc_row_find(VC_ROW_##symbol, &result);                   \
			if (!real)                                                                 \
				return result;                                                     \
		}                                                                                  \
		result = real arguments;                                                           \
		if (__builtin_expect(result, VC_CU_SUCCESS)) {                                     \
			struct vc_registers registers;                                             \
                                                                                                   \
			VC_REGISTERS_OF_CALLER(&registers);                                        \
			vc_driver_called(0);                                                       \
			vc_failure_result(VC_ROW_##symbol, result, &registers);                    \
		}                                                                                  \
		return result;                                                                     \
	}
#include "capture/hooks.def"
