/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules of the program's models, and the module that an allocation was made in: by the address of
 * the module object, as it was named first after the allocation, else last before it.
 */
#include "formats/convert_parts.h"

#include <stdlib.h>

struct named {
	uint64_t object, number, path; /* path: row of strings */
};

struct names {
	struct vc_conversion *conversion;
	struct named *named;
	uint64_t count, capacity;
};

static int take_path(void *self, enum vc_item state, uint64_t number, const void *item,
		     uint64_t offset)
{
	struct names *names = self;
	struct vc_conversion *conversion = names->conversion;
	const struct vc_path_row *path = item;
	uint64_t row, text, class;
	int error;

	(void)number;
	(void)offset;
	if (state != VC_ITEM_GOOD || names->count == names->capacity)
		return 0;
	error = vc_convert_string(conversion, path->path, &text);
	if (!error)
		error = vc_convert_string(conversion, path->class, &class);
	if (!error)
		error = vc_tables_append(&conversion->tables, VC_TABLE_model_modules, &row);
	if (error)
		return error;
	VC_CELL(conversion, model_modules_object, row) = path->object;
	VC_CELL(conversion, model_modules_number, row) = path->number;
	VC_CELL(conversion, model_modules_path, row) = text;
	VC_CELL(conversion, model_modules_class, row) = class;
	names->named[names->count++] = (struct named){path->object, path->number, text};
	return 0;
}

static int by_object(const void *left, const void *right)
{
	const struct named *a = left, *b = right;

	if (a->object != b->object)
		return a->object < b->object ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

/* Row of strings; 0: the module has no name. */
static uint64_t path_of(const struct names *names, uint64_t object, uint64_t birth)
{
	uint64_t low = 0, high = names->count;

	while (low < high) { /* the first of the object that was named at or after the birth */
		uint64_t middle = low + (high - low) / 2;
		const struct named *at = &names->named[middle];

		if (at->object < object || (at->object == object && at->number < birth))
			low = middle + 1;
		else
			high = middle;
	}
	if (low < names->count && names->named[low].object == object)
		return names->named[low].path;
	return low && names->named[low - 1].object == object ? names->named[low - 1].path : 0;
}

int vc_convert_paths(struct vc_conversion *conversion)
{
	struct names names = {
		.conversion = conversion,
		.capacity = vc_recording_used(&conversion->recording, VC_REC_PATHS),
	};
	int error;

	names.named = malloc((names.capacity + 1) * sizeof(*names.named));
	if (!names.named)
		return VC_E_NO_MEMORY;
	error = vc_recording_scan(&conversion->recording, VC_REC_PATHS, take_path, &names);
	if (names.count)
		qsort(names.named, names.count, sizeof(*names.named), by_object);
	for (uint64_t row = 0; !error && row < conversion->tables.rows[VC_TABLE_allocations]; row++) {
		/* the address stands there until a segment does: see add_allocation */
		uint64_t *object = &VC_CELL(conversion, allocations_segment, row);

		if (*object && !VC_CELL(conversion, allocations_module, row))
			VC_CELL(conversion, allocations_module, row) =
				path_of(&names, *object, VC_CELL(conversion, allocations_birth, row));
		*object = 0;
	}
	free(names.named);
	return error;
}
