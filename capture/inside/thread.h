/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder keeps for a thread: a little initial-exec TLS, and a block of private memory.
 *
 * The guard: a hook enters with vc_enter() and leaves with vc_leave(); a hook that is entered while
 * the same thread is inside the recorder (a signal handler, or a call of our own) sees depth > 0
 * and records without a stack. The guard covers our own code, never the real driver call. A handler
 * may leave by a jump and with it the hook it interrupted: the next hook whose frame is not below
 * that one finds the guard free. (Until then, in deeper calls, it records without a stack.)
 */
#ifndef VC_CAPTURE_INSIDE_THREAD_H
#define VC_CAPTURE_INSIDE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/** Bytes for the unwinder's state of a thread: whole pages. */
#define VC_THREAD_UNWIND_BYTES (160 * 1024)
/** Bytes for what is put together of a stack of Python: whole pages. */
#define VC_THREAD_PYTHON_BYTES (28 * 1024)

/** Calls of nodes within each other that are kept; see autograd.h. */
#define VC_RUNNING_MAX 6u

/** A call of a node of PyTorch's graph: where it was made from, and the node. */
struct vc_running {
	uintptr_t sp, pc;
	const uint64_t *node;
};

/** A thread's block of private memory: this page, then the unwinder's pages, then Python's. */
struct vc_thread {
	struct vc_thread *next;
	uint32_t owner;           /* kernel thread id; 0: nobody's */
	uint32_t reads_python;    /* 1 while it reads what belongs to an interpreter; see python.c */
	uint32_t running_count;
	struct vc_running running[VC_RUNNING_MAX]; /* outermost first; some may have returned */
	uint64_t allocates;       /* pthread_self() once it has had a block of PyTorch's; 0: none */
};

/** At most 64 bytes of TLS. */
struct vc_thread_local {
	struct vc_thread *block;  /* NULL until the first hook on this thread */
	uint64_t context;         /* current context as seen set; valid if context_known */
	uint64_t capture_graph;   /* made by the capture begun last, 0: none or not known */
	uintptr_t entered_at;     /* frame that entered the recorder, while depth > 0 */
	uint32_t id;              /* kernel thread id, 0 until known */
	uint32_t phase;           /* string id of the running phase */
	uint32_t failure_plus_one;/* failed allocation without a success since; see failure.c */
	uint32_t failure_python;  /* stack of Python at it */
	int16_t device;           /* of that context, -1 unknown */
	uint8_t depth;            /* > 0: inside the recorder */
	bool context_known;
	uint8_t capturing;        /* captures that this thread began */
	uint8_t phase_depth;
	uint8_t life;             /* recording that all this belongs to; see start.h */
	bool keeps;               /* the agent, with descriptors of its own */
	uint8_t driver;           /* number of the one called last; see rows.h */
	bool looking_up;          /* the recorder asks the loader: it wants the driver's own */
	bool allocates;           /* has made an allocation that succeeded */
	bool asking;              /* asks the driver for a moment: not again from a signal handler */
	bool interpreter;         /* inside a call of ours that the interpreter made: the GIL is held */
};
extern __thread struct vc_thread_local vc_thread_local __attribute__((tls_model("initial-exec")));

/**
 * The thread seems to be inside the recorder and enters it with the frame `here`: whether it has
 * left it without a word, by a jump out of a signal handler.
 */
bool vc_enter_again(uintptr_t here);

/** Enters the recorder; false when this thread is inside it already (leave all the same). */
static inline __attribute__((always_inline)) bool vc_enter(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	if (__builtin_expect(vc_thread_local.depth != 0, 0) && !vc_enter_again(here)) {
		vc_thread_local.depth += vc_thread_local.depth < UINT8_MAX;
		return false;
	}
	vc_thread_local.depth = 1;
	vc_thread_local.entered_at = here;
	return true;
}
static inline void vc_leave(void)
{
	if (vc_thread_local.depth)
		vc_thread_local.depth--;
}

/**
 * The calling thread's block, made at its first hook (mmap); NULL when it cannot be had (counted).
 * Blocks of threads that ended are used again. Call between vc_enter and vc_leave.
 */
struct vc_thread *vc_thread_block(void);
/**
 * VC_THREAD_UNWIND_BYTES at a page boundary, all zero when the thread got its block. Pages that are
 * never touched take no memory.
 */
void *vc_thread_unwind(struct vc_thread *block);
/** VC_THREAD_PYTHON_BYTES at a page boundary, of any content. */
void *vc_thread_python(struct vc_thread *block);
/** Whether any thread's block has reads_python set. On any thread. */
bool vc_threads_read_python(void);
/** The calling thread had a block of PyTorch's. */
static inline void vc_thread_note_allocates(void)
{
	if (vc_thread_local.block)
		__atomic_store_n(&vc_thread_local.block->allocates, (uint64_t)pthread_self(),
				 __ATOMIC_RELAXED);
}
/** Whether a thread had one, by its pthread_self(). On any thread. */
bool vc_thread_allocates(uint64_t identity);
/** In a forked child, on its only thread: blocks of the parent's threads may be used again. */
void vc_thread_forget(void);

#endif
