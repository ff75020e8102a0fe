/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the modules of the program's models stand in them: rows of the recording, one for each
 * module and for each change, so that a block whose module is known by address gets a name.
 * CTX: inside the guard, the GIL held.
 */
#ifndef VC_CAPTURE_INSIDE_PATHS_H
#define VC_CAPTURE_INSIDE_PATHS_H

#include <stddef.h>

/** A module object, its path ("Transformer.layers.0.attention") and its class. */
void vc_paths_note(const void *object, const char *path, size_t length, const char *class);
/** A new recording begins in a forked child. */
void vc_paths_forget(void);

#endif
