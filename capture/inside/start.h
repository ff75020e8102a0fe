/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The beginning of a recording, and what all of its records share: process, thread, step, names.
 *
 * At load only the settings are read. The recording begins inside the first hook that has something
 * to record; a forked child, however made, has no recording and begins its own in the same way.
 * Every recording of a process line has a number (its life), so that what threads and caches keep
 * of an older one is thrown away. All functions: inside the guard, on any thread.
 */
#ifndef VC_CAPTURE_INSIDE_START_H
#define VC_CAPTURE_INSIDE_START_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/rows.h"

/**
 * Begins the recording; at most one thread does, others wait a bounded time. True on the thread
 * that did. Cheap when it was tried before and failed.
 */
bool vc_start(void);
/**
 * Enters the guard for what a program reports; begins the recording if `start` and there is none.
 * False when nothing is to be recorded (leave all the same).
 */
bool vc_start_enter(bool start);
/** Tells the agent about a new recording, once, when the first call has succeeded. */
void vc_start_announce(void);
/** Brings what is kept of the calling thread up to date. */
void vc_start_thread(void);
/** The step that the program reported last, 0 before the first. */
uint64_t vc_start_step(void);
/** String id of a row's symbol. */
uint32_t vc_start_call_name(enum vc_row row);

/** Functions that records name beside the rows: those of vramcore.h, and PyTorch's reports. */
#define VC_OWN_CALLS(X)                                                                            \
	X(block, "vramcore_block")                                                                 \
	X(block_free, "vramcore_block_free")                                                       \
	X(tensor, "vramcore_tensor")                                                               \
	X(tensor_free, "vramcore_tensor_free")                                                     \
	X(torch_usage, "c10::reportMemoryUsageToProfiler")                                         \
	X(torch_memory, "c10::reportOutOfMemoryToProfiler")
enum vc_own_call {
#define VC_OWN_CALL(name, text) VC_OWN_##name,
	VC_OWN_CALLS(VC_OWN_CALL)
#undef VC_OWN_CALL
};
/** String id of such a function's name. */
uint32_t vc_start_own_name(enum vc_own_call call);

#endif
