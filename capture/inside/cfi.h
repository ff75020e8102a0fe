/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns .eh_frame into rules that say how to get from one frame to its caller.
 *
 * A rule is eight bytes: how the frame's upper end (the canonical frame address, CFA) follows from
 * the stack or frame pointer, and where the return address and the caller's frame pointer lie.
 * Nothing else is ever needed to list return addresses. What does not fit (a CFA kept in another
 * register, an expression beyond the forms compilers emit) is "no rule", never a guess.
 *
 * Every read is inside [low, high) of the table given; damaged input ends in "no rule". No
 * allocation, no lock, no system call, under 1 KiB of stack: callable from hooks and signal
 * handlers, as long as the bytes stay mapped.
 */
#ifndef VC_CAPTURE_INSIDE_CFI_H
#define VC_CAPTURE_INSIDE_CFI_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Where the CFA comes from. */
enum vc_cfi_kind {
	VC_CFI_NONE,		/* no rule: the walk ends here, incomplete */
	VC_CFI_ROOT,		/* outermost frame: it has no caller */
	VC_CFI_SP,		/* CFA = sp + cfa */
	VC_CFI_FP,		/* CFA = fp + cfa */
	VC_CFI_SP_LOAD,		/* CFA = *(sp + cfa) + add */
	VC_CFI_FP_LOAD,		/* CFA = *(fp + cfa) + add */
	VC_CFI_SIGNAL,		/* registers are in the kernel's signal frame at sp */
};

/** How the caller's frame pointer is found. */
enum vc_cfi_fp {
	VC_CFI_FP_SAME,		/* still in the register */
	VC_CFI_FP_AT_CFA,	/* saved at CFA + fp */
	VC_CFI_FP_AT_FP,	/* saved at (this frame's) fp + fp */
};

/** One rule; all offsets are in units of eight bytes. */
struct vc_cfi_rule {
	uint64_t kind : 3;
	uint64_t fp_kind : 2;
	uint64_t ra_in_register : 1;	/* return address is still in the link register */
	uint64_t exact : 1;		/* for the cache of unwind.c, not set here */
	int64_t cfa : 20;
	int64_t fp : 17;
	int64_t ra : 15;		/* return address is at CFA + ra */
	int64_t add : 5;
};

/** The unwind data of one loaded object. hdr is 0 when it has none. */
struct vc_cfi_table {
	uintptr_t low;	/* first readable byte of the segment that holds it */
	uintptr_t high; /* end of that segment */
	uintptr_t hdr;	/* .eh_frame_hdr */
};

/**
 * The rule for the instruction at pc. Returns true when pc lies in a function of the table (the
 * rule may still be VC_CFI_NONE), false when the table does not know pc; ret is always set.
 */
bool vc_cfi_rule_at(const struct vc_cfi_table *table, uintptr_t pc, struct vc_cfi_rule *ret);

/** Where the function that holds pc begins and ends; false where the table does not know pc. */
bool vc_cfi_function_at(const struct vc_cfi_table *table, uintptr_t pc, uintptr_t *ret_low,
			uintptr_t *ret_high);

#ifdef __cplusplus
}
#endif

#endif
