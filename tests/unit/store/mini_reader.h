/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small reader of recordings, written from the layout alone, that checks everything it meets.
 *
 * It shares the structs of formats/recording.h with the writer but none of its functions that
 * compute: words and check words are worked out here a second time. Test helper; one thread.
 */
#ifndef VC_TESTS_UNIT_STORE_MINI_READER_H
#define VC_TESTS_UNIT_STORE_MINI_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/recording.h"
#include "formats/tables.h"

#define MINI_ITEMS_MAX (1u << 20)

/** What a recording holds. `bad` says what is wrong in one line; "" when all is well. */
struct mini {
	const uint8_t *bytes;
	uint64_t length;
	const struct vc_root *root;
	char bad[256];
	uint64_t empty, filling, live, freeing;     /* records */
	uint64_t live_bytes;                        /* of all kinds */
	uint64_t torn;                              /* fillings whose check is wrong */
	uint64_t freed, freed_writing;              /* entries of the ring */
	uint64_t freed_lowest, freed_highest;       /* their numbers, plus 1 */
	uint64_t sites, allocated_count, allocated_bytes, freed_count, freed_bytes;
	uint64_t stacks, strings, modules, threads, moments, failures, failure_sites, environment;
	uint64_t unpublished;                       /* rows reserved, without a check */
};

/** Opens a file and checks all of it. False with `bad` filled. */
bool mini_read(const char *path, struct mini *ret);
bool mini_read_descriptor(int descriptor, struct mini *ret);
/**
 * Walks strings and stacks from end to end. Only where no thread was killed: what it was copying
 * then has no check word and does not say how long it is.
 */
bool mini_units(struct mini *mini);
void mini_close(struct mini *mini);

/** Item of a table by number; NULL where no chunk holds it. */
const void *mini_item(const struct mini *mini, uint64_t table, uint64_t number, size_t item);
/** Text of a string id, "" for 0; NULL: not there. */
const char *mini_text(const struct mini *mini, uint32_t id);
/** Value of a counter. */
uint64_t mini_counter(const struct mini *mini, enum vc_counter counter);

#endif
