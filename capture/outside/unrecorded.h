/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can still be had of a process that nobody recorded: what /proc tells whoever may read it.
 */
#ifndef VC_CAPTURE_OUTSIDE_UNRECORDED_H
#define VC_CAPTURE_OUTSIDE_UNRECORDED_H

#include <stdint.h>
#include <stdio.h>

/**
 * Prints to `to`, a line each: driver and framework libraries it has mapped, driver files it has
 * open, its memory on the host, its threads by what they do, and how to have it recorded next time.
 * What may not be read is said with the right that is missing.
 */
void vc_unrecorded(uint64_t pid, FILE *to);

#endif
