/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that a recording grows in, for space.c. Results below 0 are the system's, unless they say VC_E_*.
 *
 * It is opened anew for each growth, so that the host's table of descriptors stays as it is; only a
 * memfd, which has no name, is held, until the agent has one in its own table. What is opened is
 * checked: the host may have closed the one or changed its root folder under the other.
 * vc_space_file_make and vc_space_file_forget as vc_space_create; the rest on any thread.
 */
#ifndef VC_CAPTURE_INSIDE_SPACE_FILE_H
#define VC_CAPTURE_INSIDE_SPACE_FILE_H

#include <stdint.h>

#include "capture/inside/store.h"

/** Makes it. 0 with a descriptor that is the caller's, or VC_E_*. */
int vc_space_file_make(const struct vc_store_options *options, int *ret_descriptor);
/** A descriptor, to be given to vc_space_file_close. */
int vc_space_file_open(void);
void vc_space_file_close(int descriptor);
/** Gives a range of the file its storage. All signals are blocked. */
int vc_space_file_store(int descriptor, uint64_t offset, uint64_t bytes);
/** The VC_E_* of a result of the system. */
int vc_space_file_error(long result);
void vc_space_file_forget(void);

#endif
