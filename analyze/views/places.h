/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of events, numbered as they first come: 0, 1, ... There may be as many as allocations.
 *
 * An address is that of a row: of trace, or of blocks, which count on from the rows of trace. So it
 * is kept as 4 bytes, and what is kept of each place by its number lies together for those that
 * come together. Not thread safe.
 */
#ifndef VC_ANALYZE_VIEWS_PLACES_H
#define VC_ANALYZE_VIEWS_PLACES_H

#include "formats/tables.h"

/** All zero but for tables: none. */
struct vc_places {
	const struct vc_tables *tables;
	uint32_t *rows;      /* of each: the first row that is there */
	uint64_t count, capacity;
	/* private: by hash of the address */
	uint8_t *tags;       /* a part of the hash; 0 empty */
	uint32_t *numbers;
	uint64_t size;
};

void vc_places_deinit(struct vc_places *places);
/** The place of the address of a row; a new one is the count before. 0, VC_E_NO_MEMORY. */
int vc_places_add(struct vc_places *places, uint64_t address, uint64_t row, uint32_t *ret);
/** They are far apart in memory: fetches for an address that comes soon, and for one later. */
void vc_places_fetch(const struct vc_places *places, uint64_t soon, uint64_t later);

#endif
