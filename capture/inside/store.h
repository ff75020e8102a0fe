/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writer of the recording: records, freed ring, strings, stacks, sites, devices, moments.
 *
 * One recording a process. Every function is callable from a hook on any thread, at the same time,
 * and from a signal handler that interrupts another of them: no malloc, no lock that blocks, no
 * system call in steady state, errno untouched. Growth (fallocate, mmap) is done ahead of need by
 * the agent (vc_store_grow), by the calling thread only when nothing is left. What cannot be kept
 * is counted (counters.def); nothing is ever returned to the host.
 *
 * Life of an allocation:  begin -> driver call -> commit | abandon;  of a reported one: add
 * Life of a free:         claim -> driver call -> free_commit | free_undo
 */
#ifndef VC_CAPTURE_INSIDE_STORE_H
#define VC_CAPTURE_INSIDE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/recording.h"
#include "formats/tables.h" /* enum vc_kind, vc_stack_end */

#define VC_NO_RECORD UINT32_MAX

struct vc_store_options {
	const char *directory;   /* where the file goes; NULL: a memfd */
	const char *name;        /* file name inside directory */
	uint64_t budget;         /* largest size in bytes */
	uint32_t rank_plus_one, world_size;
	bool in_core;            /* memfd, so that core files hold it */
};

/**
 * Creates the recording (root, first chunks; at most 1 MiB) and publishes the anchor. On failure
 * nothing is recorded and the process goes on. A descriptor of the file is given to the caller, who
 * closes it (NULL: none wanted). The store opens a file anew to grow it; for a memfd, which has no
 * name, it holds a descriptor with a high number until vc_store_let_go. Called once a process (and
 * once in each forked child, after vc_store_forget), by one thread. CTX: first hook of a process.
 */
int vc_store_start(const struct vc_store_options *options, int *ret_descriptor);
/**
 * Whether a recording of this very process is open. One load; false in a forked child (true in a
 * vfork child, which shares the memory). Every other function does nothing while it is false.
 */
bool vc_store_ready(void);
/** The root, NULL before vc_store_start. For words that other modules keep (step, phase, ended). */
struct vc_root *vc_store_root(void);
/** A descriptor of the recording for its caller, who closes it; negative: it cannot be had. */
int vc_store_open(void);
/**
 * This thread has a descriptor table of its own, and in it this descriptor of the recording (-1:
 * none): it is used for growth on this thread, whatever becomes of the name and of the rights.
 * False: it is none of the recording.
 */
bool vc_store_keep(int descriptor);
/** The agent has its descriptor: a memfd is held by it alone from now on. CTX: another thread. */
void vc_store_let_go(void);
/** `wake` is called, in any context, when a table could not grow on the thread that needed it. */
void vc_store_on_full(void (*wake)(void));
/** Whether so much may be taken of the program's address space; see budget.h. */
bool vc_store_addresses(uint64_t bytes);
/** Path of the recording, "" for a memfd or none. */
const char *vc_store_path(void);

/** What a hook knows of an allocation. Zero-fill; zero means unknown or none. */
struct vc_birth {
	uint64_t address, size, requested;
	uint64_t parent, stream, context, step, offset, pool, module_object;
	uint32_t stack, python, module, phase, thread, label, call_name;
	uint16_t call;
	uint16_t device_plus_one;
	uint8_t kind, flags;
	uint32_t references;     /* 0: not counted */
};

/**
 * Publishes a filling record before the driver is asked. VC_NO_RECORD when full: commit counts it.
 */
uint32_t vc_store_begin(const struct vc_birth *birth);
/**
 * The driver said yes: the record goes live with the final fields, is found by address from now
 * on, and is added to its site and device. With VC_NO_RECORD only the totals are counted. Returns
 * the birth number, 0 when no record was kept.
 */
uint64_t vc_store_commit(uint32_t record, const struct vc_birth *birth);
/** Begin and commit in one, for what is not asked of the driver: nothing is ever in doubt. */
uint64_t vc_store_add(const struct vc_birth *birth);
/** The driver said no: the record is empty again. */
void vc_store_abandon(uint32_t record);

/**
 * A record found and, by vc_store_claim, taken for freeing. An allocation that got no record
 * because the recording was full is found and claimed all the same, so that totals stay right: its
 * record is VC_NO_RECORD, its birth 0, and of its copy only address, size, kind, device and site
 * are known (module_object is where the store finds it again).
 */
struct vc_claim {
	uint32_t record;
	uint64_t birth;
	struct vc_record copy;   /* as it was when found */
};
/** Set of kinds for look-ups: bit (1 << enum vc_kind). */
#define VC_KINDS(kind) (UINT64_C(1) << (kind))

/** Looks a live record up by exact address (or handle) and kind. */
bool vc_store_find(uint64_t address, uint64_t kinds, struct vc_claim *ret);
/** The live record of a kind whose [address, address + size) contains `address` (slow: a scan). */
bool vc_store_find_containing(uint64_t address, uint64_t kinds, struct vc_claim *ret);
/** Finds and claims: live -> being freed, with the next number as its death. False: not ours. */
bool vc_store_claim(uint64_t address, uint64_t kinds, struct vc_claim *ret);
/** Claims a record found before; false when somebody else was faster. */
bool vc_store_claim_found(struct vc_claim *claim);

struct vc_death {
	uint32_t stack, python, thread, call_name;
	uint64_t step;
};
/** The driver freed it: into the ring, out of its slot, off its site and device. */
void vc_store_free_commit(const struct vc_claim *claim, const struct vc_death *death);
/** The driver refused: live again. */
void vc_store_free_undo(const struct vc_claim *claim);

/**
 * Adds `by` to a record's references; gives the new count (0 when the record is not there). A
 * caller that brings it to 0 claims and frees it.
 */
uint32_t vc_store_reference(uint64_t address, uint64_t kinds, int by);
/** The same for a record found before; VC_NO_RECORD when it is gone. */
uint32_t vc_store_reference_found(const struct vc_claim *claim, int by);

/** Calls `visit` for every live record; for bulk effects (a context that goes). No order. */
void vc_store_visit(bool (*visit)(const struct vc_claim *, void *), void *argument);

/** Id of a string (interned; copied when new; cut at 8 KiB). 0: "" or no room (counted). */
uint32_t vc_store_string(const char *bytes, size_t length);
/** Text of a string id; "" for 0. */
const char *vc_store_text(uint32_t id);
/**
 * Id of a stack by its hash (interned, compared on a hit). `frames` are vc_frame() words, innermost
 * first. The look-up by hash alone comes first: most stacks are known.
 */
uint32_t vc_store_stack_known(uint64_t hash, uint32_t count);
uint32_t vc_store_stack_add(uint64_t hash, const uint64_t *frames, uint32_t count,
			    enum vc_stack_end end);
/** Any bytes as a stack whose frames they are; 0: too many (VC_STORE_BYTES_MAX), or no room. */
#define VC_STORE_BYTES_MAX 16256u
uint32_t vc_store_bytes(const void *bytes, size_t length);

/** What tells one code object from another: addresses and numbers that differ where its names do. */
struct vc_code_print {
	uint64_t word[6];
};
/** Row of a code object plus 1 by its print; 0: it has none yet. Prints are compared. */
uint32_t vc_store_code_known(const struct vc_code_print *print);
/** Keeps one: the row plus 1; 0 where there is no room. `row` needs no check. */
uint32_t vc_store_code_add(const struct vc_code_print *print, const struct vc_code_row *row);
/** Keeps a range of code that runs Python; see struct vc_eval_row. False: no room. */
bool vc_store_eval_add(uint32_t module_plus_one, uint64_t low, uint64_t high);

/** Whether one of the `frames` innermost frames of a stack lies in an object with this in its path. */
bool vc_store_stack_goes_through(uint32_t id, const char *path, uint32_t frames);
/** Row of a loaded object; UINT32_MAX when there is no room (counted). Not interned. */
uint32_t vc_store_module_add(const char *path, uint64_t bias, uint64_t low, uint64_t high,
			     const uint8_t *build_id, uint32_t build_id_bytes);
/** Keeps a thread's name; a thread whose name changed has several rows, the last one counts. */
void vc_store_thread_add(uint32_t thread, const char *name);
/** Keeps an environment variable (already chosen and masked). */
void vc_store_environment_add(const char *name, const char *value);
/**
 * Keeps words that go with a counter, by its key in counters.def: they are shown where the counter
 * is. Among the variables, under the key in brackets.
 */
void vc_store_detail_add(const char *key, const char *detail);
/** Describes a device, once. */
struct vc_device_facts {
	uint8_t uuid[16];
	const char *name, *pci;
	uint32_t driver_version;
	uint64_t total;
};
void vc_store_device_add(uint32_t device, const struct vc_device_facts *facts);
/** Device bytes live by the recorder's count. */
uint64_t vc_store_device_live(uint32_t device);

/**
 * Adds 1 (or `by`) to a counter. Works before vc_store_start too (kept and added later). The store
 * itself counts what it sees: allocations (commit), frees (free_commit), failed calls (abandon),
 * and whatever it had no room for. Its callers count the rest, unknown frees and blocks among it.
 */
void vc_store_count(enum vc_counter counter);
void vc_store_count_by(enum vc_counter counter, uint64_t by);

/** An instant: what a moment that is kept later is the moment of. */
struct vc_instant {
	uint64_t number, freed_next, time;
	uint64_t torch_allocated[8], torch_reserved[8]; /* as in struct vc_moment_row */
	/* of the highest moment of a step (peak.h); else all 0 */
	uint64_t peak[8];
	uint32_t peak_device_plus_one;
	uint32_t phase, thread;
	uint32_t walk_plus_one; /* a walk of the same step that goes with it; 0: none yet */
};
/** Reads the counter. What is said of a highest moment is left as it is. */
void vc_store_instant(struct vc_instant *ret);

/** What the driver says of one device, the current one; each plus 1; 0: not asked, or no answer. */
struct vc_device_memory {
	uint64_t free, graph_used, graph_reserved, pool_used, pool_reserved;
	uint32_t device_plus_one; /* 1 to 8; 0: nothing was asked */
};

struct vc_moment {
	const char *trigger, *moment;
	const struct vc_instant *at; /* NULL: now */
	uint64_t step;
	uint32_t phase, thread;
	uint64_t failure_plus_one; /* the moment is that of this failure, with its step, phase, thread */
	uint32_t walk_plus_one;    /* see vc_moment_row */
	struct vc_device_memory memory;
};
/**
 * Takes a moment: reads the counter, where `at` does not say it, and keeps it. Gives its row; UINT32_MAX when there is no room
 * (the caller counts it: a trigger that nothing is left of).
 */
uint32_t vc_store_moment(const struct vc_moment *moment);

struct vc_failure {
	uint64_t step, requested, free_plus_one, total;
	uint32_t call_name, result, phase, thread, stack, python;
	uint16_t device_plus_one;
};
/**
 * Keeps a failed allocation with the largest sites of its device (at most 64) as they are now.
 * Gives its row; UINT32_MAX when there is no room (counted).
 */
uint32_t vc_store_failure(const struct vc_failure *failure);
void vc_store_failure_outcome(uint32_t row, enum vc_failure_outcome outcome);

/** Nanoseconds since the recording began (CLOCK_MONOTONIC, vDSO). */
uint64_t vc_store_time(void);

/** The freed ring may take a quarter of the budget, not a sixteenth: for moments of long ago. */
void vc_store_keep_deaths(void);
/** Grows what is more than half full; the agent calls it often. Gives whether anything grew. */
bool vc_store_grow(void);
/** The next hook of this process starts a new recording. For a forked child. */
void vc_store_forget(void);
/** The file is taken away (nothing was recorded, or the supervisor is done). Safe at any time. */
void vc_store_unlink(void);

#endif
