/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A column of numbers kept as small as they are: 1, 2, 4 or 8 bytes each.
 *
 * It widens by itself when a number comes that does not fit. Large numbers that lie close together
 * (times) are kept as what they have more than the first one. Rows are written from the first on,
 * none is left out; any may be written again. Not thread safe.
 */
#ifndef VC_FORMATS_NARROW_H
#define VC_FORMATS_NARROW_H

#include <stdint.h>
#include <string.h>

struct vc_narrow {
	void *cells;        /* NULL: there is no such column */
	uint64_t base;      /* each cell is what a number has more than this */
	uint64_t most;      /* largest cell */
	unsigned width;     /* bytes of a cell */
	uint64_t rows;      /* written */
	uint64_t capacity;
};

/** An empty column with room for `capacity` rows. 0, VC_E_NO_MEMORY. */
int vc_narrow_init(struct vc_narrow *narrow, uint64_t capacity);
int vc_narrow_grow(struct vc_narrow *narrow, uint64_t capacity);
/** Fine for one that is all zero. */
void vc_narrow_deinit(struct vc_narrow *narrow);
/** For vc_narrow_put: makes room for a number that does not fit. */
int vc_narrow_widen(struct vc_narrow *narrow, uint64_t value);

static inline uint64_t vc_narrow_get(const struct vc_narrow *narrow, uint64_t row)
{
	const uint8_t *cells = narrow->cells;
	uint32_t four;
	uint16_t two;
	uint64_t eight;

	switch (narrow->width) {
	case 1:
		return narrow->base + cells[row];
	case 2:
		memcpy(&two, cells + row * 2, sizeof(two));
		return narrow->base + two;
	case 4:
		memcpy(&four, cells + row * 4, sizeof(four));
		return narrow->base + four;
	default:
		memcpy(&eight, cells + row * 8, sizeof(eight));
		return narrow->base + eight;
	}
}

/** Writes a row below the capacity. 0, VC_E_NO_MEMORY. */
static inline int vc_narrow_put(struct vc_narrow *narrow, uint64_t row, uint64_t value)
{
	uint8_t *cells;
	uint32_t four;
	uint16_t two;

	if (value - narrow->base > narrow->most) {
		int error = vc_narrow_widen(narrow, value);

		if (error)
			return error;
	}
	cells = narrow->cells;
	value -= narrow->base;
	switch (narrow->width) {
	case 1:
		cells[row] = (uint8_t)value;
		break;
	case 2:
		two = (uint16_t)value;
		memcpy(cells + row * 2, &two, sizeof(two));
		break;
	case 4:
		four = (uint32_t)value;
		memcpy(cells + row * 4, &four, sizeof(four));
		break;
	default:
		memcpy(cells + row * 8, &value, sizeof(value));
	}
	if (row >= narrow->rows)
		narrow->rows = row + 1;
	return 0;
}

#endif
