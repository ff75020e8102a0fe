/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What allocators above the driver report: births and deaths of blocks and tensors.
 *
 * Nothing is asked of the driver between the two, so both are one step each. Inside the guard, with
 * the recording open; any thread.
 */
#ifndef VC_CAPTURE_INSIDE_BLOCKS_H
#define VC_CAPTURE_INSIDE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/inside/stack.h"
#include "capture/inside/start.h"
#include "capture/inside/store.h"

/** Who calls; from inside the recorder (a signal handler) there are none, which is counted. */
void vc_block_stacks(const struct vc_registers *registers, struct vc_stacks *ret);

/**
 * Keeps a birth, after filling in step, phase, thread and the name of the call. What was told of
 * its address before and never taken back is over: the place is used again (then *ret_replaced).
 * Gives the number of the birth, 0 where no record was kept.
 */
uint64_t vc_block_born(struct vc_birth *birth, enum vc_own_call call, bool *ret_replaced);
/**
 * Keeps the death of what a kind has at an address. False: nothing is known there. *ret is the
 * number of the death, 0 where no record was kept.
 */
bool vc_block_died(uint64_t address, enum vc_kind kind, const struct vc_stacks *stacks,
		   enum vc_own_call call, uint64_t *ret);

#endif
