/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the store (store.c, records.c, names.c, codes.c, moments.c) share among themselves.
 */
#ifndef VC_CAPTURE_INSIDE_STORE_PARTS_H
#define VC_CAPTURE_INSIDE_STORE_PARTS_H

#include "capture/inside/atomic.h"
#include "capture/inside/space.h"
#include "capture/inside/store.h"

/** Maps what a part keeps in private memory. One thread, before the recording is ready. */
void vc_names_start(void);
void vc_codes_start(void);
/** In a forked child: the part is as it was at the start of the process. */
void vc_names_forget(void);
void vc_codes_forget(void);
void vc_records_forget(void);
void vc_moments_forget(void);
/** Appends a row whose first word is its check over the others; UINT32_MAX: no room. */
uint32_t vc_names_row_add(enum vc_recording_table table, const void *image, size_t bytes);
/** Grows the freed ring ahead of need; see vc_space_grow. */
bool vc_records_grow_ring(bool again);

#endif
