/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/narrow.h"

#include <stdlib.h>

#include "formats/error.h"

int vc_narrow_grow(struct vc_narrow *narrow, uint64_t capacity)
{
	void *cells;

	if (capacity > SIZE_MAX / sizeof(uint64_t))
		return VC_E_NO_MEMORY;
	cells = realloc(narrow->cells, (capacity ? capacity : 1) * narrow->width);
	if (!cells)
		return VC_E_NO_MEMORY;
	narrow->cells = cells;
	narrow->capacity = capacity;
	return 0;
}

int vc_narrow_init(struct vc_narrow *narrow, uint64_t capacity)
{
	*narrow = (struct vc_narrow){.width = 1, .most = UINT8_MAX};
	return vc_narrow_grow(narrow, capacity);
}

void vc_narrow_deinit(struct vc_narrow *narrow)
{
	free(narrow->cells);
	*narrow = (struct vc_narrow){0};
}

int vc_narrow_widen(struct vc_narrow *narrow, uint64_t value)
{
	struct vc_narrow old = *narrow;
	uint64_t more = value - narrow->base;
	int error;

	if (!narrow->rows && value > UINT32_MAX) { /* the first one */
		narrow->base = value;
		return 0;
	}
	if (more > UINT32_MAX) {
		narrow->width = 8;
		narrow->most = UINT64_MAX; /* less than the base wraps, and back */
	} else {
		narrow->width = more > UINT16_MAX ? 4 : 2;
		narrow->most = more > UINT16_MAX ? UINT32_MAX : UINT16_MAX;
	}
	error = vc_narrow_grow(narrow, narrow->capacity);
	if (error) {
		*narrow = old;
		return error;
	}
	old.cells = narrow->cells;
	for (uint64_t row = narrow->rows; row-- > 0;) /* from the end: they move apart in place */
		vc_narrow_put(narrow, row, vc_narrow_get(&old, row));
	return 0;
}
