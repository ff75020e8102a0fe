/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a recorded, running process for a moment: the only thing that is written to a recording. */
#ifndef VC_CAPTURE_OUTSIDE_ASK_H
#define VC_CAPTURE_OUTSIDE_ASK_H

#include <stdint.h>

/** Seconds that the answer may take; the recorder itself waits one for the interpreter. */
#define VC_ASK_SECONDS 10

/**
 * Asks, and waits for the moment: at the program's next safe instant, with what its interpreter
 * tells. `path` of the recording. The moment's row plus 1 goes to *ret. 0, VC_E_PERMISSION (the
 * recording may not be written), VC_E_NOT_FOUND (no answer in time), or another VC_E_*.
 */
int vc_ask(const char *path, uint64_t *ret_moment_plus_one);

#endif
