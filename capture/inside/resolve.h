/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dlsym.S needs of resolve.c. The exported dlsym jumps to the real one, so that the real one
 * sees the program's return address; only for the few names of hooks.def, and never for RTLD_NEXT,
 * vc_dlsym_answer stands in between. Callable at any time, before main too, and
 * under the loader's lock.
 */
#ifndef VC_CAPTURE_INSIDE_RESOLVE_H
#define VC_CAPTURE_INSIDE_RESOLVE_H

#include <stdbool.h>

/** The real dlsym; NULL before vc_dlsym_find. */
extern void *(*vc_dlsym_real)(void *handle, const char *name);
void vc_dlsym_find(void);
/** Whether `name` is a row of hooks.def. */
bool vc_dlsym_wanted(const char *name);
void *vc_dlsym_answer(void *handle, const char *name);

#endif
