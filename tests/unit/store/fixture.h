/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the store share: a folder in memory, a fresh recording, births by hand.
 */
#ifndef VC_TESTS_UNIT_STORE_FIXTURE_H
#define VC_TESTS_UNIT_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "capture/inside/store.h"
#include "tests/unit/store/mini_reader.h"

#define MIB (UINT64_C(1) << 20)
#define LINEAR VC_KINDS(VC_KIND_LINEAR)

/** Folder for recordings, made at the first call and removed at exit. */
const char *fixture_folder(void);
/** Starts a recording as a new process would; asserts that it began. Gives its path. */
const char *fixture_start(uint64_t budget);
/** The same in a folder of the caller's; gives what vc_store_start said. */
int fixture_start_in(const char *folder, uint64_t budget);
/** A birth of kind LINEAR on device 0. */
struct vc_birth fixture_birth(uint64_t address, uint64_t size);
/** begin and commit; gives the record. */
uint32_t fixture_allocate(uint64_t address, uint64_t size);
/** claim and free_commit; false when the address is not known. */
bool fixture_free(uint64_t address);
/** Reads the recording of this process and asserts that all is well. */
void fixture_read(struct mini *ret);

/** Small generator of random numbers. */
static inline uint64_t fixture_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
