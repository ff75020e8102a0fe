/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of an interpreter or another program's dump, as people read them: whose code they are, and
 * for compiled code (fx) the line it was made from.
 */
#ifndef VC_ANALYZE_SOURCE_FRAME_H
#define VC_ANALYZE_SOURCE_FRAME_H

#include "analyze/arena.h"
#include "analyze/names.h"

/** Last component of a path, written with / or \. */
const char *vc_path_name(const char *path);

/** Describes a row of source_frames. Its strings are the tables' or the arena's. */
int vc_source_frame(const struct vc_tables *tables, uint64_t row, struct vc_arena *arena,
		    struct vc_frame_name *ret);

#endif
