/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose code a frame is: the user's, or a row of libraries.def.
 *
 * Pure function, no state.
 */
#ifndef VC_ANALYZE_OWNER_H
#define VC_ANALYZE_OWNER_H

#include "analyze/names.h"

/** Fills owner and library from module, function and file. */
void vc_owner_find(struct vc_frame_name *frame);

/** Whether it says for whom a library works; see telling.def. */
bool vc_owner_tells(const struct vc_frame_name *frame);

/** Whether a loaded object is the driver or CUDA's runtime, by its path. */
bool vc_owner_is_driver(const char *path);

#endif
