/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process as it is now, in a snapshot: what was recorded of it, where somebody recorded it, and
 * where its threads are.
 */
#ifndef VC_CAPTURE_OUTSIDE_LOOK_H
#define VC_CAPTURE_OUTSIDE_LOOK_H

#include <stdint.h>

#include "formats/tables.h"

/** Seconds that the threads of one process may take. */
#define VC_LOOK_SECONDS 10

/** Adds the threads of a running process; none of a dead one. For vc_make_snapshot; self: a pid. */
int vc_look_add_threads(void *self, struct vc_tables *tables);
/** Tables of a process that is not recorded: itself and its threads. */
int vc_look_unrecorded(uint64_t pid, struct vc_tables *ret);

#endif
