/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a churning program says of itself: a journal in memory that its judge shares.
 *
 * Every object (an allocation, a pool, a context) has a row in the table of the thread that made
 * it. A tick from one counter is put there before each call that makes or ends it and after that
 * call, so that whoever holds two ticks knows what lived from the first to the second, what did
 * not, and which calls were under way. Rows are never used twice. Plain memory, no lock: it is
 * whole after SIGKILL.
 */
#ifndef PROOF_JOURNAL_H
#define PROOF_JOURNAL_H

#include <pthread.h>
#include <stdint.h>

#define JOURNAL_THREADS 8u /* at most */
#define JOURNAL_OBJECTS (1u << 20)
#define JOURNAL_MOMENTS 4096u

/* How a program ends itself when its judge says so. */
enum journal_end {
	JOURNAL_RUNS,
	JOURNAL_FAULTS, /* SIGSEGV in a thread that churns */
	JOURNAL_ABORTS, /* abort() in a thread that does not */
	JOURNAL_EXITS,  /* exit() there, with JOURNAL_STATUS, while the others are in calls */
};
#define JOURNAL_STATUS 41

struct journal_object {
	uint32_t kind;            /* enum vc_kind; 0: the call failed, nothing was made */
	int32_t device;           /* -1: none */
	uint64_t address;         /* or handle; 0 until it is known */
	uint64_t size;
	uint64_t born_before, born_after;
	uint64_t dies_before, dies_after;
	uint32_t born_call, dies_call; /* counted from 1; one may end several objects */
};

struct journal_thread {
	uint32_t thread;          /* kernel's id */
	uint32_t full;            /* it made as many objects as there are rows for, and stopped */
	uint64_t calls;
	uint64_t count;           /* rows in use */
	uint64_t first;           /* the judge's: rows before it are of no more interest */
	struct journal_object object[JOURNAL_OBJECTS];
};

struct journal {
	uint64_t tick;
	uint32_t calls;
	uint32_t threads;         /* that are to churn */
	uint32_t end;             /* enum journal_end */
	uint32_t started;         /* threads that churn */
	uint32_t stop;
	uint32_t failures;        /* calls that should have gone well and did not */
	/* held moments */
	uint32_t hold_every;      /* calls between two; 0: never */
	pthread_barrier_t held, released;
	uint32_t children;        /* made so far, where they are asked for */
	/* moments by step */
	uint32_t step_wanted, step_done;
	uint64_t step_before, step_after; /* ticks around the call that told the step */
	struct journal_thread table[JOURNAL_THREADS];
};

static inline uint64_t journal_tick(struct journal *journal)
{
	return __atomic_add_fetch(&journal->tick, 1, __ATOMIC_SEQ_CST);
}

#endif
