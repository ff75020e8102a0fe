/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: one thread of the recorder, named "vramcore", that does what no hook may do.
 *
 * It grows the recording ahead of need, fires triggers by time and use, and hands moments on: to
 * the supervisor where there is one (`vramcore run`), else it writes a copy of the recording for
 * the moment into the output folder. All signals are blocked in it; it has a descriptor table of
 * its own, so that nothing of it is seen in the host's. If it cannot be made, or is frozen, the
 * program goes on all the same.
 *
 * A program that filters system calls for all of its threads lets through what the agent needs:
 * futex, restart_syscall; to grow openat, fstat, fallocate, mmap, munmap, madvise, close, prlimit64,
 * rt_sigprocmask; to write a snapshot mkdirat, pwrite64, ftruncate, linkat, unlinkat; to tell the
 * supervisor sendmsg. Where a kernel has no fallocate for the folder it also writes with pwrite64.
 */
#ifndef VC_CAPTURE_INSIDE_AGENT_H
#define VC_CAPTURE_INSIDE_AGENT_H

#include <stdbool.h>
#include <stdint.h>

/** Whether there is an agent. */
bool vc_agent_runs(void);
/** Ends the agent, after what is pending; waits a bounded time for it. */
void vc_agent_stop(void);
/** A new recording begins in a forked child: the agent of the parent is not this process's. */
void vc_agent_forget(void);
/** Wakes the agent: one futex call. Safe in any context. */
void vc_agent_wake(void);
/**
 * The process ends: waits a bounded time for the agent to hand on what is pending, and says in the
 * recording how the process ended. CTX: destructor.
 */
void vc_agent_finish(void);

#endif
