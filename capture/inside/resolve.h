/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dlsym.S needs of resolve.c. The exported dlsym and dlvsym jump to the real ones, so that those
 * see the program's return address; only for the few names of hooks.def, and never for RTLD_NEXT,
 * an answer of ours stands in between. Callable at any time, before main too, and
 * under the loader's lock.
 */
#ifndef VC_CAPTURE_INSIDE_RESOLVE_H
#define VC_CAPTURE_INSIDE_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/cuda_abi.h"

/** The real ones; NULL before vc_dlsym_find. */
extern void *(*vc_dlsym_real)(void *handle, const char *name);
extern void *(*vc_dlvsym_real)(void *handle, const char *name, const char *version);
void vc_dlsym_find(void);
/** The recorder's own dlsym: what it gives is the real one, never a wrapper. */
void *vc_look_up(void *handle, const char *name);
/** Whether `name` is a row of hooks.def. */
bool vc_dlsym_wanted(const char *name);
void *vc_dlsym_answer(void *handle, const char *name);
/** Ours of that name if `caller` is in a library that the loader searches before us, else NULL. */
void *vc_dlvsym_next(const char *name, const void *caller);
void *vc_dlvsym_answer(void *handle, const char *name, const char *version);

/** Asks a driver's cuGetProcAddress, or _v2, and puts wrappers in place of what it answers. */
vc_cu_result vc_ask(void *real, const char *symbol, void **function, int version, uint64_t flags);
vc_cu_result vc_ask_v2(void *real, const char *symbol, void **function, int version, uint64_t flags,
		       int *status);

#endif
