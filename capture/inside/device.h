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

/** Fills context and device of a birth whose call just succeeded. */
void vc_device_complete(const struct vc_call *call, struct vc_birth *birth);
/** A device is used: describes it in the recording the first time. Negative: none. */
void vc_device_used(int device);
/** A new recording begins. */
void vc_device_forget(void);

#endif
