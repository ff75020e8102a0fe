/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/thread.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "capture/inside/atomic.h"
#include "capture/inside/budget.h"
#include "capture/inside/store.h"
#include "capture/inside/system.h"

#define VC_PAGE 4096u
/* Owners looked at before a new block is made. */
#define VC_PROBES 16

_Static_assert(sizeof(struct vc_thread_local) <= 64, "thread-local storage of a preloaded library");
_Static_assert(sizeof(struct vc_thread) <= VC_PAGE, "the head of a block is one page");
_Static_assert(VC_THREAD_UNWIND_BYTES % VC_PAGE == 0, "whole pages, so that they can be emptied");

#define VC_BLOCK_BYTES (VC_PAGE + VC_THREAD_UNWIND_BYTES + VC_THREAD_PYTHON_BYTES)

__thread struct vc_thread_local vc_thread_local __attribute__((tls_model("initial-exec")));

/*
 * What a handler enters lies below the frame it interrupted, unless it has a stack of its own.
 * Only then is the system asked.
 */
bool vc_enter_again(uintptr_t here)
{
	stack_t stack = {0};

	if (here < vc_thread_local.entered_at)
		return false;
	return vc_syscall(SYS_sigaltstack, 0, (long)&stack, 0, 0, 0, 0) != 0 ||
	       !(stack.ss_flags & SS_ONSTACK);
}

/* All blocks ever made, newest first: a list that only grows. */
static struct vc_thread *blocks;
static struct vc_thread *next_probe;

static struct vc_thread *block_next(struct vc_thread *block)
{
	return __atomic_load_n(&block->next, __ATOMIC_ACQUIRE);
}

/*
 * A block taken over is as empty as a new one; its pages go back to the system meanwhile, but for
 * those of a program that locks its memory.
 */
static struct vc_thread *block_adopt(struct vc_thread *block)
{
	__atomic_store_n(&block->reads_python, 0, __ATOMIC_RELAXED);
	block->running_count = 0;
	__atomic_store_n(&block->allocates, 0, __ATOMIC_RELAXED);
	if (vc_sys_madvise(vc_thread_unwind(block), VC_THREAD_UNWIND_BYTES, MADV_DONTNEED) != 0)
		memset(vc_thread_unwind(block), 0, VC_THREAD_UNWIND_BYTES);
	return block;
}

static bool block_take(struct vc_thread *block, uint32_t owner, uint32_t thread)
{
	return __atomic_compare_exchange_n(&block->owner, &owner, thread, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

/*
 * The block of a thread that ended: with this thread's own id, given up, or of an id that is gone.
 */
static struct vc_thread *block_reuse(uint32_t thread)
{
	struct vc_thread *first = __atomic_load_n(&blocks, __ATOMIC_ACQUIRE), *block;
	int pid = vc_sys_getpid();

	for (block = first; block; block = block_next(block)) {
		uint32_t owner = __atomic_load_n(&block->owner, __ATOMIC_RELAXED);

		if ((owner == thread || owner == 0) && block_take(block, owner, thread))
			return block_adopt(block);
	}
	block = __atomic_load_n(&next_probe, __ATOMIC_ACQUIRE);
	for (int probe = 0; first && probe < VC_PROBES; probe++) {
		uint32_t owner;

		if (!block)
			block = first;
		owner = __atomic_load_n(&block->owner, __ATOMIC_RELAXED);
		if (owner && vc_syscall(SYS_tgkill, pid, owner, 0, 0, 0, 0) == -ESRCH &&
		    block_take(block, owner, thread))
			return block_adopt(block);
		block = block_next(block);
		__atomic_store_n(&next_probe, block, __ATOMIC_RELEASE);
	}
	return NULL;
}

static struct vc_thread *block_make(uint32_t thread)
{
	struct vc_thread *block, *first;

	if (!vc_budget_addresses(VC_BLOCK_BYTES))
		return NULL;
	block = vc_sys_mmap(NULL, VC_BLOCK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (vc_sys_failed(block))
		return NULL;
	vc_sys_madvise(block, VC_BLOCK_BYTES, MADV_DONTDUMP);
	block->owner = thread;
	first = __atomic_load_n(&blocks, __ATOMIC_ACQUIRE);
	do {
		block->next = first;
	} while (!__atomic_compare_exchange_n(&blocks, &first, block, false, __ATOMIC_SEQ_CST,
					      __ATOMIC_ACQUIRE));
	return block;
}

struct vc_thread *vc_thread_block(void)
{
	struct vc_thread_local *local = &vc_thread_local;

	if (local->block)
		return local->block;
	if (!local->id)
		local->id = (uint32_t)vc_sys_gettid();
	/*
	 * A handler between the two finds no block and makes one of its own: it is kept, not lost.
	 */
	local->block = block_reuse(local->id);
	if (!local->block)
		local->block = block_make(local->id);
	if (!local->block)
		vc_store_count(VC_COUNTER_THREADS_LOST);
	return local->block;
}

void *vc_thread_unwind(struct vc_thread *block)
{
	return (char *)block + VC_PAGE;
}

void *vc_thread_python(struct vc_thread *block)
{
	return (char *)block + VC_PAGE + VC_THREAD_UNWIND_BYTES;
}

bool vc_threads_read_python(void)
{
	struct vc_thread *block = __atomic_load_n(&blocks, __ATOMIC_ACQUIRE);

	for (; block; block = block_next(block))
		if (__atomic_load_n(&block->reads_python, __ATOMIC_SEQ_CST))
			return true;
	return false;
}

bool vc_thread_allocates(uint64_t identity)
{
	struct vc_thread *block = __atomic_load_n(&blocks, __ATOMIC_ACQUIRE);

	for (; block; block = block_next(block))
		if (__atomic_load_n(&block->allocates, __ATOMIC_RELAXED) == identity)
			return true;
	return false;
}

void vc_thread_forget(void)
{
	struct vc_thread_local *local = &vc_thread_local;
	uint32_t thread = (uint32_t)vc_sys_gettid();

	for (struct vc_thread *block = blocks; block; block = block->next) {
		block->owner = block == local->block ? thread : 0;
		block->reads_python = 0;
		block->allocates = 0;
	}
	next_probe = NULL;
	local->id = thread;
}
