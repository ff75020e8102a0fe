/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes what the recorder sees of a program that is looked at by `vramcore doctor --run`
 * (formats/observed.h). Without that nothing is noted and nothing is done.
 */
#ifndef VC_CAPTURE_INSIDE_OBSERVE_H
#define VC_CAPTURE_INSIDE_OBSERVE_H

#include <stdbool.h>

#include "formats/observed.h"

/**
 * NULL: not observed; set where the environment asks for it, before all else. Fields are counted
 * with VC_OBSERVE, from any thread.
 */
extern struct vc_observed *vc_observed;

#define VC_OBSERVE(field)                                                                          \
	do {                                                                                       \
		if (__builtin_expect(vc_observed != NULL, 0))                                      \
			__atomic_fetch_add(&vc_observed->field, 1, __ATOMIC_RELAXED);              \
	} while (0)

/** Which file a driver is. */
void vc_observe_driver(const char *path);
/** A function of the driver that was handed out as it is. */
void vc_observe_unrecorded(const char *name);
/** At the end: who calls one of `count` functions of the driver past the recorder. CTX: destructor. */
void vc_observe_end(void *const *functions, unsigned int count);

#endif
