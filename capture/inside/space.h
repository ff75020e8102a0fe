/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the recording and the chunks of its tables.
 *
 * Chunk k of a table has twice the room of chunk k - 1 up to a largest size, so that the place of an
 * item follows from its number by arithmetic. A chunk is published in the directory before any item
 * of it is used; it never moves and is never unmapped. Storage comes from fallocate before the
 * mapping, so that no access can fail. Growing blocks all signals of the thread for its time; a
 * thread never waits for another: it grows the chunk after the one another thread is busy with.
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
/** NULL before vc_space_create. */
struct vc_root *vc_space_root(void);
/** Absolute path of the file; "" for a memfd or none. */
const char *vc_space_path(void);
/** Largest size of the file. */
uint64_t vc_space_budget(void);

/**
 * Reserves `items` successive items of a table inside one chunk and gives the number of the first.
 * They are all zero. VC_SPACE_NONE: no room.
 */
uint64_t vc_space_append(enum vc_recording_table table, uint64_t items);
/** An item by number; NULL where no chunk holds it. */
void *vc_space_at(enum vc_recording_table table, uint64_t number);
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
/** Private word beside each record: link of the free list. NULL where no chunk holds it. */
uint32_t *vc_space_link(uint64_t record);

/** Private memory of zeroes that neither children nor core files get; NULL: none to be had. */
void *vc_space_private(size_t bytes);
/** Removes the name of the file. */
void vc_space_unlink(void);
/** In a forked child: nothing is known of a file any more. */
void vc_space_forget(void);

#endif
