/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The highest moment of each device since a step began.
 *
 * While a step is watched, what is born raises the mark of its device and keeps the instant: one
 * number, from which a reader rebuilds what lived then. A device's bytes are what PyTorch says it
 * has allocated there; else the blocks that the program reported; else what the driver gave out.
 * Of equally high moments the first counts. Any thread, any signal handler: nobody waits for
 * another longer than a few hundred looks; a mark that is not raised for that is counted.
 */
#ifndef VC_CAPTURE_INSIDE_PEAK_H
#define VC_CAPTURE_INSIDE_PEAK_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/store.h"

/** What bytes of a device are: where there are several, the last of these counts. */
enum vc_peak_of { VC_PEAK_DRIVER = 1, VC_PEAK_BLOCKS, VC_PEAK_TORCH };

/** 1 while a step is watched. Written by peak.c alone. */
extern uint32_t vc_peak_watched;

/** Keeps this instant where `bytes` are more than before. */
void vc_peak_raise(unsigned int device, enum vc_peak_of of, uint64_t bytes);

/** Something was born, and a device has so many bytes now. CTX: hook. */
static inline void vc_peak_note(unsigned int device, enum vc_peak_of of, uint64_t bytes)
{
	if (__builtin_expect(__atomic_load_n(&vc_peak_watched, __ATOMIC_RELAXED), 0))
		vc_peak_raise(device, of, bytes);
}

/** A step begins: what there is now is the first mark of every device. */
void vc_peak_begin(void);
/**
 * A step ended, and nothing is watched any more. Gives the moment at which the device that was
 * fullest was at its highest, with the highest bytes of the others; false where nothing was
 * watched, or no device has anything.
 */
bool vc_peak_end(struct vc_instant *ret);
/** The number of that moment, as far as the step has come; 0: there is none. */
uint64_t vc_peak_number(void);
/** In a forked child. */
void vc_peak_forget(void);

#endif
