/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of the recording for one moment, written as a file of its own: what a program without a
 * supervisor leaves at each trigger. Any verb opens it; conversion happens there.
 */
#ifndef VC_CAPTURE_INSIDE_COPY_H
#define VC_CAPTURE_INSIDE_COPY_H

#include <stdint.h>

#include "formats/recording.h"

/** A row of moments; NULL where it is not there (yet). */
const struct vc_moment_row *vc_copy_moment(uint32_t row);
/**
 * Writes HOST.RANK.PID.stepN.TRIGGER.vrec into `folder` (made when missing), never over a file that
 * exists. Gives the bytes written through *ret_bytes; 0 or a negative errno. CTX: agent, or the
 * exiting thread.
 */
int vc_copy_write(const char *folder, uint32_t row, uint64_t *ret_bytes);

#endif
