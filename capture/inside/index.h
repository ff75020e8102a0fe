/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From an address to the records that may have it: derived, private, without locks.
 *
 * Levels of growing size; in a level an address has two buckets of one cache line. An entry goes
 * into any free place of the two, of the newest level first, and is taken out by putting zero: no
 * chains, no tombstones, every operation bounded. Whether a record found here is the one looked for
 * is told by the record. Any thread, any signal handler.
 */
#ifndef VC_CAPTURE_INSIDE_INDEX_H
#define VC_CAPTURE_INSIDE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

/** Most records one address can lead to: two buckets of eight in each of six levels. */
#define VC_INDEX_FOUND_MAX 96

/** Makes the first level. Without memory for it every insertion is refused. */
void vc_index_start(void);
/** False: no room, and no memory for more. */
bool vc_index_insert(uint64_t address, uint32_t record);
/** Takes one entry out; nothing where there is none. */
void vc_index_remove(uint64_t address, uint32_t record);
/** Records that may have the address; gives their number. */
unsigned vc_index_find(uint64_t address, uint32_t ret[VC_INDEX_FOUND_MAX]);
/** Makes room ahead of need for `records` records. For the agent. Gives whether it grew. */
bool vc_index_grow(uint64_t records);
/** In a forked child. */
void vc_index_forget(void);

#endif
