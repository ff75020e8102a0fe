/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which device and context a birth belongs to, and what a device is.
 *
 * Inside the guard. Makes the calls of driver_calls.def, on the calling thread, after the program's
 * own call went well.
 */
#ifndef VC_CAPTURE_INSIDE_DEVICE_H
#define VC_CAPTURE_INSIDE_DEVICE_H

#include "capture/inside/effects.h"
#include "capture/inside/store.h"

/** Fills context and device of a birth whose call just succeeded. */
void vc_device_complete(const struct vc_call *call, struct vc_birth *birth);
/** A device is used: describes it in the recording the first time. Negative: none. */
void vc_device_used(int device);
/**
 * What the current context's device has left, for an allocation that failed on `device` (-1: the
 * current one, which *ret_device then says); bytes plus 1, 0: not known.
 */
uint64_t vc_device_free(int device, int *ret_device, uint64_t *ret_total);
/**
 * What the driver says of the current device. Nothing on a thread that has made no call of its own
 * that needed a context (one of the driver's that calls back, say), without a context, or while any
 * stream is captured. Keeps errno; the context stays as it is.
 */
void vc_device_memory(struct vc_device_memory *ret);
/** A new recording begins. */
void vc_device_forget(void);

#endif
