/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate and free addresses which they take over from each other, as a driver would
 * hand them out, with a list of their own of what lives: the judge of what the recording says.
 */
#ifndef VC_TESTS_UNIT_STORE_CHURN_H
#define VC_TESTS_UNIT_STORE_CHURN_H

#include <stdbool.h>
#include <stdint.h>

#define CHURN_ADDRESSES 4096u
#define CHURN_THREADS_MAX 16u

/** Address number i of the pretended driver: 512-byte steps above a base. */
static inline uint64_t churn_address(uint32_t i)
{
	return 0x7f1200000000u + UINT64_C(512) * i;
}

/** May lie in memory shared with another process, which reads it after a kill. */
struct churn {
	uint64_t owner[CHURN_ADDRESSES];  /* 0: free, 1: handed out */
	uint64_t lives[CHURN_ADDRESSES];  /* size, stored after commit, cleared before a claim */
	uint64_t threads, operations, seed;
	uint64_t stop;
	uint64_t allocated, freed, allocated_bytes, freed_bytes, failed, unknown;
};

/** Runs churn->threads threads, each for churn->operations rounds (0: until stop), and an agent. */
void churn_run(struct churn *churn);
/** Frees everything that lives. */
void churn_drain(struct churn *churn);

#endif
