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

#endif
