/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the threads of a process are, seen from outside: what each waits in, its native stack, its
 * Python stack.
 *
 * A running process is neither stopped nor traced: /proc/PID/task/TID/syscall gives the stack
 * pointer and the instruction of a thread that waits in the kernel, its memory is read where that
 * is permitted (the same user, or CAP_SYS_PTRACE), and the rest follows from unwind tables. Registers that
 * are not known there may hide a caller; the stack is then taken up again at the next return
 * address that fits, and all frames from there on are marked as guessed. A thread that runs has no
 * native stack. Whoever has a core file gives a Dwfl and memory of its own.
 */
#ifndef VC_CAPTURE_OUTSIDE_THREAD_STACKS_H
#define VC_CAPTURE_OUTSIDE_THREAD_STACKS_H

#include "capture/outside/memory.h"
#include "formats/tables.h"

#define VC_THREADS_MAX 4096u
#define VC_NATIVE_FRAMES_MAX 256u
#define VC_PYTHON_FRAMES_MAX 512u

struct vc_python_frame {
	char *function, *file;
	uint32_t line;
};

struct vc_thread_stack {
	uint32_t thread;
	char name[32];
	char state[32];            /* running, waiting, "waiting, uninterruptible", stopped */
	char wait[192];            /* the system call it waits in, and on what; "" none */
	uint64_t *native;          /* innermost first: an instruction, then return addresses */
	uint32_t natives;
	uint32_t guessed_from;     /* frames from here on are guessed; `natives`: none is */
	struct vc_python_frame *python; /* innermost first */
	uint32_t pythons;
	uint64_t module_object;    /* innermost running module of a PyTorch model; 0: none */
};

/** A range of addresses that a file is mapped in. */
struct vc_mapped_file {
	uint64_t low, high, bias;  /* bias: address minus offset in the file's own terms */
	char *path;
	char build_id[65];         /* lower-case hexadecimal, "" none */
};

struct vc_thread_stacks {
	struct vc_thread_stack *thread;
	uint32_t threads;
	struct vc_mapped_file *file;
	uint32_t files;
	char missing[256];         /* what could not be had and why, "" nothing */
};

/**
 * Looks at a running process; takes at most about `seconds`, and what was not reached by then is
 * said in `missing`. 0 or a negative VC_E_*. The caller calls vc_thread_stacks_free.
 */
int vc_thread_stacks_read(uint64_t pid, unsigned int seconds, struct vc_thread_stacks *ret);
/** Frees what it owns; accepts a struct that is all zero. */
void vc_thread_stacks_free(struct vc_thread_stacks *stacks);
/**
 * Adds them to the tables of a snapshot: rows of thread_stacks, and of stacks, frames, modules and
 * source_* that they refer to.
 */
int vc_thread_stacks_add(const struct vc_thread_stacks *stacks, struct vc_tables *tables);

#endif
