/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the recording and the chunks of its tables.
 *
 * Chunk k of a table has twice the room of chunk k - 1 up to a largest size, so that the place of
 * an item follows from its number by arithmetic. A chunk is published in the directory before any
 * item of it is used; it never moves and is never unmapped. Storage comes from fallocate before
 * the mapping, so that no access can fail. Growing blocks all signals of the thread for its time;
 * a thread never waits for another: it grows the chunk after the one another thread is busy with.
 * Everything but vc_space_create and vc_space_forget may be called on any thread at any time.
 */
#ifndef VC_CAPTURE_INSIDE_SPACE_H
#define VC_CAPTURE_INSIDE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/inside/store.h"
#include "formats/recording.h"

#define VC_SPACE_NONE UINT64_MAX

/** Makes the file, the root and the first chunks. The root is not published yet. */
int vc_space_create(const struct vc_store_options *options, int *ret_descriptor);
/** Absolute path of the file; "" for a memfd or none. */
const char *vc_space_path(void);
/** See vc_store_open and vc_store_keep. */
int vc_space_open(void);
bool vc_space_keep(int descriptor);
void vc_space_let_go(void);
void vc_space_on_full(void (*wake)(void));
/** Largest size of the file. */
uint64_t vc_space_budget(void);

/**
 * Reserves `items` successive items of a table inside one chunk and gives the number of the first.
 * They are all zero. VC_SPACE_NONE: no room.
 */
uint64_t vc_space_append(enum vc_recording_table table, uint64_t items);
/** Items reserved so far. */
uint64_t vc_space_used(enum vc_recording_table table);
/** Items that the chunks 0, 1, ... without a gap have room for. */
uint64_t vc_space_room(enum vc_recording_table table);
/** Bytes of those chunks. */
uint64_t vc_space_bytes(enum vc_recording_table table);
/**
 * Adds the next chunk. False when there is none to be had; then only `again` (the agent) asks the
 * system another time, so that a full recording costs no system calls.
 */
bool vc_space_grow(enum vc_recording_table table, bool again);
/** Grows a table that is more than half full. For the agent. */
bool vc_space_grow_ahead(enum vc_recording_table table);
/** Private memory of zeroes that neither children nor core files get; NULL: none to be had. */
void *vc_space_private(size_t bytes);
/** Removes the name of the file. */
void vc_space_unlink(void);
/** In a forked child: nothing is known of a file any more. */
void vc_space_forget(void);

/* ---- from numbers to places: inline, for they are most of what a hook does ---- */

#define VC_TABLE_CHUNKS 512
/** A chunk that some thread is busy making. */
#define VC_CHUNK_BUSY ((char *)1)

/** Name, bytes of an item, log2 of the items of the first chunk, doublings; most needed first. */
#define VC_SPACE_TABLES(X)                                                                         \
	X(SITES, sizeof(struct vc_site), 7, 7)                                                     \
	X(RECORDS, sizeof(struct vc_record), 7, 8)                                                 \
	X(STACKS, 8, 11, 8)                                                                        \
	X(STRINGS, 8, 11, 8)                                                                       \
	X(MODULES, sizeof(struct vc_module_row), 7, 4)                                             \
	X(MOMENTS, sizeof(struct vc_moment_row), 5, 6)                                             \
	X(FREED, sizeof(struct vc_freed), 7, 7)                                                    \
	X(THREADS, sizeof(struct vc_thread_row), 8, 6)                                             \
	X(FAILURES, sizeof(struct vc_failure_row), 5, 6)                                           \
	X(FAILURE_SITES, sizeof(struct vc_failure_site_row), 7, 6)                                 \
	X(ENVIRONMENT, sizeof(struct vc_environment_row), 8, 4)                                    \
	X(CODES, sizeof(struct vc_code_row), 7, 6)                                                 \
	X(EVALS, sizeof(struct vc_eval_row), 7, 0)                                                 \
	X(PATHS, sizeof(struct vc_path_row), 8, 6)

struct vc_table_shape {
	uint16_t item;
	uint8_t base; /* log2 of the items of chunk 0 */
	uint8_t doublings;
};
static const struct vc_table_shape vc_table_shape[VC_REC_TABLES] = {
#define VC_SHAPE(name, item, base, doublings) [VC_REC_##name] = {item, base, doublings},
	VC_SPACE_TABLES(VC_SHAPE)
#undef VC_SHAPE
};

/** Where chunks are mapped: NULL, VC_CHUNK_BUSY, or the address. Written by space.c alone. */
extern struct vc_space_map {
	struct vc_root *root;
	char *chunk[VC_REC_TABLES][VC_TABLE_CHUNKS];
	uint32_t *link[VC_TABLE_CHUNKS]; /* beside the chunks of records */
} vc_space_map;

/** NULL before vc_space_create. */
static inline struct vc_root *vc_space_root(void)
{
	return vc_space_map.root;
}

struct vc_place {
	uint64_t chunk, first, count;
};

static inline struct vc_place vc_space_chunk(enum vc_recording_table table, uint64_t chunk)
{
	const struct vc_table_shape shape = vc_table_shape[table];
	uint64_t doublings = shape.doublings;

	if (chunk <= doublings)
		return (struct vc_place){chunk, ((UINT64_C(1) << chunk) - 1) << shape.base,
					 UINT64_C(1) << (chunk + shape.base)};
	return (struct vc_place){chunk,
				 ((UINT64_C(2) << doublings) - 1 +
				  ((chunk - doublings - 1) << doublings)) << shape.base,
				 UINT64_C(1) << (doublings + shape.base)};
}

static inline struct vc_place vc_space_place(enum vc_recording_table table, uint64_t number)
{
	const struct vc_table_shape shape = vc_table_shape[table];
	uint64_t q = number >> shape.base, doubled = (UINT64_C(2) << shape.doublings) - 1;

	if (q < doubled)
		return vc_space_chunk(table, 63 - (uint64_t)__builtin_clzll(q + 1));
	return vc_space_chunk(table, shape.doublings + 1 + ((q - doubled) >> shape.doublings));
}

/** An item by number; NULL where no chunk holds it. */
static inline void *vc_space_at(enum vc_recording_table table, uint64_t number)
{
	struct vc_place place = vc_space_place(table, number);
	char *address;

	if (place.chunk >= VC_TABLE_CHUNKS)
		return NULL;
	address = __atomic_load_n(&vc_space_map.chunk[table][place.chunk], __ATOMIC_ACQUIRE);
	if (!address || address == VC_CHUNK_BUSY)
		return NULL;
	return address + (number - place.first) * vc_table_shape[table].item;
}

/** Private word beside each record: link of the free list. The record's chunk is there. */
static inline uint32_t *vc_space_link(uint64_t record)
{
	struct vc_place place = vc_space_place(VC_REC_RECORDS, record);

	return vc_space_map.link[place.chunk] + (record - place.first);
}

#endif
