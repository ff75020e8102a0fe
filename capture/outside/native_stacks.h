/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native stacks of another process, by the unwind tables of its files (libdw). Built without libdw
 * there are none.
 */
#ifndef VC_CAPTURE_OUTSIDE_NATIVE_STACKS_H
#define VC_CAPTURE_OUTSIDE_NATIVE_STACKS_H

#include "capture/outside/thread_stacks.h"

struct vc_native;

/** Whether this build can. */
bool vc_native_available(void);
/** Opens a running process; `memory` must outlive it. NULL: it cannot be looked at. */
struct vc_native *vc_native_open(uint64_t pid, const struct vc_memory *memory);
/** Opens a core file; `memory` must outlive it. NULL: it tells no threads. */
struct vc_native *vc_native_open_core(int descriptor, const struct vc_memory *memory);
/** Adds the threads of a core file with their native stacks: numbers and frames. */
void vc_native_core_threads(struct vc_native *native, struct vc_thread_stacks *stacks);
void vc_native_close(struct vc_native *native);
/**
 * Unwinds from a stack pointer and an instruction; all other registers are unknown. Fills
 * frames[max]; gives how many. *ret_guessed_from: see struct vc_thread_stack.
 */
uint32_t vc_native_unwind(struct vc_native *native, uint64_t stack_pointer, uint64_t instruction,
			  uint64_t *frames, uint32_t max, uint32_t *ret_guessed_from);
/** Describes the file an address lies in; false where none does. free(ret->path) is the caller's. */
bool vc_native_file(struct vc_native *native, uint64_t address, struct vc_mapped_file *ret);

/**
 * Address of a symbol that the program or a library of Python defines; false where none does. Only
 * these are looked through: the others may be large.
 */
bool vc_native_symbol(struct vc_native *native, const char *name, uint64_t *ret);

/* thread_stacks.c: the same of a running process and of a core */

/** Adds the files that frames of these stacks lie in. */
void vc_native_files(struct vc_native *native, struct vc_thread_stacks *stacks);
/** Fills the Python frames of threads, where the program is an interpreter or has one. */
void vc_python_of_threads(struct vc_native *native, const struct vc_memory *memory,
			  struct vc_thread_stacks *stacks);

#endif
