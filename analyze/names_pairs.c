/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/names_pairs.h"

#include <string.h>

#include "analyze/model.h"
#include "analyze/owner.h"

/* ---- which were asked for ---- */

static size_t slot_of(const struct vc_pairs *pairs, uint64_t reference)
{
	size_t slot = (size_t)((reference * 0x9e3779b97f4a7c15u) >> 20) & (pairs->size - 1);

	while (pairs->slot[slot] && pairs->slot[slot]->reference != reference)
		slot = (slot + 1) & (pairs->size - 1);
	return slot;
}

static int grow(struct vc_pairs *pairs, struct vc_arena *arena)
{
	struct vc_pairs larger = {.size = pairs->size ? pairs->size * 2 : 256,
				  .count = pairs->count};

	larger.slot = vc_arena_allocate(arena, larger.size, sizeof(struct vc_pair *));
	if (!larger.slot)
		return VC_E_NO_MEMORY;
	for (size_t i = 0; i < pairs->size; i++)
		if (pairs->slot[i])
			larger.slot[slot_of(&larger, pairs->slot[i]->reference)] = pairs->slot[i];
	*pairs = larger;
	return 0;
}

int vc_pairs_want(struct vc_pairs *pairs, uint64_t reference, struct vc_arena *arena)
{
	struct vc_pair *pair;

	if (vc_pairs_find(pairs, reference))
		return 0;
	if (pairs->count * 2 >= pairs->size && grow(pairs, arena))
		return VC_E_NO_MEMORY;
	pair = vc_arena_allocate(arena, 1, sizeof(*pair));
	if (!pair)
		return VC_E_NO_MEMORY;
	pair->reference = reference;
	pair->number = pairs->count++;
	pairs->slot[slot_of(pairs, reference)] = pair;
	return 0;
}

struct vc_pair *vc_pairs_find(const struct vc_pairs *pairs, uint64_t reference)
{
	return pairs->size ? pairs->slot[slot_of(pairs, reference)] : NULL;
}

/* ---- one chain out of two ---- */

struct merge {
	const struct vc_tables *tables;
	const struct vc_chain *native, *python;
	const struct vc_frame_name **frames;
	uint64_t first;   /* of the Python frames: row of source_lists */
	uint32_t count;
	uint32_t taken;   /* of the Python frames */
	uint32_t fallback; /* native frame that stands for all of Python; UINT32_MAX: see python_code */
};

static bool column_has(const struct vc_tables *tables, enum vc_column_index column)
{
	return tables->column[column] != NULL;
}

/** Whether a native frame lies in code that runs Python. */
static bool runs_python(const struct vc_tables *tables, const struct vc_frame_name *frame)
{
	if (!*frame->module || !column_has(tables, VC_COL_python_code_module) ||
	    !column_has(tables, VC_COL_python_code_low) ||
	    !column_has(tables, VC_COL_python_code_high))
		return false;
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_python_code]; row++) {
		uint64_t module = vc_value(tables, VC_COL_python_code_module, row);

		/* a return address may be the first after the code */
		if (frame->offset <= vc_value(tables, VC_COL_python_code_low, row) ||
		    frame->offset > vc_value(tables, VC_COL_python_code_high, row))
			continue;
		if (module && module <= tables->rows[VC_TABLE_modules] &&
		    !strcmp(vc_string(tables, VC_COL_modules_path, module - 1), frame->module))
			return true;
	}
	return false;
}

static bool is_interpreter(const struct vc_frame_name *frame)
{
	return frame->library && !strcmp(frame->library, "Python");
}

/** The native frame that all of Python stands for, where the file does not say which code runs it. */
static uint32_t find_fallback(const struct merge *merge)
{
	const struct vc_chain *native = merge->native;

	for (uint32_t i = 0; i < native->count; i++)
		if (runs_python(merge->tables, native->frames[i]))
			return UINT32_MAX;
	for (uint32_t i = 0; i < native->count; i++)
		if (is_interpreter(native->frames[i]))
			return i;
	return native->count;
}

/** Takes the next frames of Python, to their entry or, `all`, to the end. */
static void take_python(struct merge *merge, bool all)
{
	const uint64_t *entry = merge->tables->column[VC_COL_source_lists_entry];
	uint64_t rows = merge->tables->rows[VC_TABLE_source_lists];
	bool ends = false;

	while (merge->taken < merge->python->count && !ends) {
		uint64_t row = merge->first + merge->taken;

		merge->frames[merge->count++] = merge->python->frames[merge->taken++];
		ends = !all && entry && row < rows && entry[row];
	}
}

static void merge_frames(struct merge *merge)
{
	const struct vc_chain *native = merge->native;

	merge->fallback = find_fallback(merge);
	for (uint32_t i = 0; i < native->count; i++) {
		const struct vc_frame_name *frame = native->frames[i];

		if (i == merge->fallback) {
			take_python(merge, true);
		} else if (merge->fallback == UINT32_MAX && runs_python(merge->tables, frame)) {
			/* what was inlined there is at the same address */
			if (!frame->inlined)
				take_python(merge, false);
			continue;
		}
		/* how the interpreter calls what it calls says nothing */
		if (!is_interpreter(frame))
			merge->frames[merge->count++] = frame;
	}
	take_python(merge, true);
}

/**
 * The user's line of Python comes first: native code of the user's, where Python called it, is what
 * the line went through.
 */
static void find_user(struct vc_chain *chain)
{
	uint32_t native = chain->count, library = chain->count;

	for (uint32_t i = 0; i < chain->count; i++) {
		const struct vc_frame_name *frame = chain->frames[i];

		if (frame->owner == VC_OWNER_USER && frame->verbatim) {
			chain->user = chain->shown = i;
			chain->has_user = true;
			chain->native_user = native < i ? native + 1 : 0;
			return;
		}
		if (frame->owner == VC_OWNER_USER && native == chain->count)
			native = i;
		if (frame->owner == VC_OWNER_LIBRARY &&
		    (library == chain->count || vc_owner_tells(frame)))
			library = i;
	}
	chain->has_user = native < chain->count;
	chain->user = chain->has_user ? native : library < chain->count ? library : 0;
	chain->shown = chain->user;
}

int vc_pair_merge(const struct vc_tables *tables, struct vc_arena *arena,
		  const struct vc_chain *native, const struct vc_chain *python,
		  struct vc_pair *pair)
{
	uint64_t row = vc_pair_python(pair->reference) - 1;
	struct merge merge = {.tables = tables, .native = native, .python = python,
			      .first = vc_value(tables, VC_COL_source_stacks_first, row)};

	merge.frames = vc_arena_allocate(arena, (size_t)native->count + python->count,
					 sizeof(*merge.frames));
	if (!merge.frames)
		return VC_E_NO_MEMORY;
	merge_frames(&merge);
	pair->chain.frames = merge.frames;
	pair->chain.count = merge.count;
	pair->chain.end = native->end;
	pair->chain.forward = python->forward;
	find_user(&pair->chain);
	return 0;
}
