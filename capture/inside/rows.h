/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers, names and addresses of the rows of hooks.def, and the driver's own functions.
 *
 * The driver's functions are looked up once, all together, when the program itself first reaches
 * for the driver (resolve.c); afterwards reading them is one load, in any context.
 */
#ifndef VC_CAPTURE_INSIDE_ROWS_H
#define VC_CAPTURE_INSIDE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/cuda_abi.h"
#include "capture/inside/thread.h"

enum vc_row {
#define VC_HOOK(symbol, parameters, arguments, effect, ...) VC_ROW_##symbol,
#define VC_HOOK_OWN(symbol, parameters, arguments) VC_ROW_##symbol,
#include "capture/hooks.def"
#undef VC_HOOK
#undef VC_HOOK_OWN
	VC_ROWS
};

/** Name of the symbol. */
extern const char *const vc_row_name[VC_ROWS];

/** The driver's function of a row; NULL before vc_resolve or where the driver lacks it. */
extern void *vc_row_real[VC_ROWS];

/**
 * Finds the driver: the one that is loaded, else (load) the one the loader finds by name. False
 * when there is none. May be called at any time outside signal handlers; cheap once it succeeded.
 */
bool vc_resolve(bool load);

/** What a wrapper that has no driver's function answers; tries vc_resolve first. */
void *vc_row_find(enum vc_row row, vc_cu_result *ret_error);

/**
 * A process may hold several drivers: what is bound by the loader calls the first, each further one
 * has wrappers of its own (wrappers_further.c). More than these are not recorded.
 */
#define VC_DRIVERS 4
/** The functions of the driver with number 1 to VC_DRIVERS - 1. */
extern void *vc_row_real_further[VC_DRIVERS - 1][VC_ROWS];
/** Their wrappers; NULL for rows that they have none of. */
extern void *const vc_wrapper_further[VC_DRIVERS - 1][VC_ROWS];

/** The driver calls of our own (driver_calls.def); NULL where the driver lacks one. */
struct vc_driver_calls {
#define VC_DRIVER_CALL(symbol, parameters) vc_cu_result (*symbol) parameters;
#include "capture/driver_calls.def"
#undef VC_DRIVER_CALL
};
extern struct vc_driver_calls vc_driver_calls[VC_DRIVERS];
/** Those of the driver that this thread called last. */
#define vc_driver (vc_driver_calls[vc_thread_local.driver])

/**
 * Every wrapper says first whose it is. What is current to a thread in one driver is not in another:
 * it is asked for anew.
 */
static inline void vc_driver_called(uint8_t number)
{
	if (__builtin_expect(vc_thread_local.driver != number, 0)) {
		vc_thread_local.driver = number;
		vc_thread_local.context_known = false;
	}
}

#endif
