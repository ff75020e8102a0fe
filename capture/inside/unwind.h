/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native call stack of the running thread, by its return addresses.
 *
 * Frames are found with the rules of .eh_frame (cfi.h), kept per thread by return address. The
 * thread's previous stack is kept too: unwinding is a function of a frame's pc, sp and, where some
 * outer frame needs it, fp, and of the words read above it. As soon as a frame equals one of the
 * previous stack and the words read above that one are unchanged, everything above is the same
 * and is not unwound again. A 64-bit hash is kept for every prefix from the root, so the hash of
 * a repeated stack costs only its new frames.
 *
 * Frame pointers are followed only out of code that belongs to no loaded object (a JIT compiler's)
 * and only when they lead back to code with unwind data. Reads stay between sp and the end of the
 * stack that holds it; damaged unwind data ends the walk.
 *
 * A state belongs to one thread at a time and may pass from one that ended to another. In a signal
 * handler that interrupted a capture on the same state the answer is VC_E_LIMIT. No allocation, no
 * system call once the stack's bounds and the loaded objects are known, errno kept.
 */
#ifndef VC_CAPTURE_INSIDE_UNWIND_H
#define VC_CAPTURE_INSIDE_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "formats/tables.h" /* enum vc_stack_end */

#ifdef __cplusplus
extern "C" {
#endif

enum {
	VC_UNWIND_MAX_FRAMES = 512,
	/* Private, zeroed, aligned to 64 bytes; only what is used is touched. */
	VC_UNWIND_STATE_BYTES = 160 * 1024,
};

/** Registers of the frame to start from. pc follows a call: it is a return address or the like. */
struct vc_registers {
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
};

/**
 * Registers of the function that called the one this stands in. It must be a function that has not
 * been inlined and that does not itself align its stack.
 */
#if defined(__x86_64__)
#define VC_REGISTERS_OF_CALLER(registers)							\
	do {											\
		const uintptr_t *vc_frame_ = (const uintptr_t *)__builtin_frame_address(0);	\
		(registers)->fp = vc_frame_[0];							\
		(registers)->pc = vc_frame_[1];							\
		(registers)->sp = (uintptr_t)(vc_frame_ + 2);					\
	} while (0)
#elif defined(__aarch64__)
/* The frame record is not at a fixed distance from the caller's sp: this frame is listed too. */
#define VC_REGISTERS_OF_CALLER(registers) VC_REGISTERS_HERE(registers)
#endif

/** Registers of the place this stands at. */
#if defined(__x86_64__)
#define VC_REGISTERS_HERE(registers)								\
	__asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"			\
			 : "=&r"((registers)->pc), "=&r"((registers)->sp), "=&r"((registers)->fp))
#elif defined(__aarch64__)
#define VC_REGISTERS_HERE(registers)								\
	__asm__ volatile("adr %0, . + 4\n\tmov %1, sp\n\tmov %2, x29"				\
			 : "=&r"((registers)->pc), "=&r"((registers)->sp), "=&r"((registers)->fp))
#endif

/**
 * A stack, outermost frame first. The arrays belong to the state and last until its next use. pcs
 * are return addresses, but for a frame interrupted by a signal; modules (see modules.h; 0: none)
 * tell equal addresses of different objects apart and are part of the hash, as is `end`.
 */
struct vc_native_stack {
	const uint64_t *pcs;
	const uintptr_t *sps; /* where each frame begins: it ends where the one further out does */
	const uint16_t *modules;
	uint64_t hash;
	uint32_t count;
	uint8_t end; /* enum vc_stack_end */
};

struct vc_unwind_state;

/** Frames at the inner end whose pc lies in [low, high) are left out: the recorder's own code. */
void vc_unwind_set_own_code(uintptr_t low, uintptr_t high);

/** The stack from *from outwards. 0, or VC_E_LIMIT if the state is in use (see above). */
int vc_unwind(struct vc_unwind_state *state, const struct vc_registers *from,
	      struct vc_native_stack *ret);

/** Counts of one state, for tests and the evidence. */
struct vc_unwind_counts {
	uint64_t captures;
	uint64_t frames;	  /* listed */
	uint64_t frames_replayed; /* of them, taken from the previous stack */
	uint64_t rules_decoded;
	uint64_t range_lookups;
};
void vc_unwind_counts_of(const struct vc_unwind_state *state, struct vc_unwind_counts *ret);

#ifdef __cplusplus
}
#endif

#endif
