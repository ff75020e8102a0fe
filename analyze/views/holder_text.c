/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways from a root of the interpreter to a tensor, as a person reads them.
 */
#include <string.h>

#include "analyze/cell.h"
#include "analyze/model.h"
#include "analyze/text.h"
#include "analyze/views/roles.h"
#include "formats/walk_tensors.h"

#define STEPS_MOST 4096u
#define STEPS_SHOWN 12u /* of a longer way the first and last ones are */

uint32_t *vc_holder_steps(const struct vc_tables *tables, struct vc_arena *arena)
{
	uint32_t *steps = vc_arena_allocate(arena, tables->rows[VC_TABLE_storages] + 1,
					    sizeof(*steps));

	for (uint64_t row = 0; steps && row < tables->rows[VC_TABLE_holders]; row++) {
		uint64_t storage = vc_value(tables, VC_COL_holders_storage, row);

		if (storage)
			steps[storage - 1] = (uint32_t)vc_value(tables, VC_COL_holders_step, row);
	}
	return steps;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "train.py", "cell In[3]"; where the file is not known the module's name. */
static void add_where(struct vc_text *text, const struct vc_tables *tables, uint64_t row)
{
	const char *file = vc_string(tables, VC_COL_holder_steps_file, row);
	char cell[VC_CELL_BYTES];

	if (!*file)
		file = vc_string(tables, VC_COL_holder_steps_owner, row);
	else
		file = vc_cell_name(tables, file, cell) ? cell : base_name(file);
	vc_text_add(text, "%s", file);
}

/* The step's words as step_kinds.def has them, with the step's own in place of the marks. */
static void fill(struct vc_text *text, const struct vc_tables *tables, uint64_t row,
		 const char *words)
{
	for (; *words; words++) {
		if (*words != '%') {
			vc_text_bytes_raw(text, words, 1);
			continue;
		}
		switch (*++words) {
		case 't':
			vc_text_add(text, "%s", vc_string(tables, VC_COL_holder_steps_text, row));
			break;
		case 'o':
			vc_text_add(text, "%s", vc_string(tables, VC_COL_holder_steps_owner, row));
			break;
		case 'f':
			add_where(text, tables, row);
			break;
		case 'l':
			vc_text_add(text, "%llu", (unsigned long long)vc_value(
							  tables, VC_COL_holder_steps_line, row));
			break;
		default:
			vc_text_number(text, vc_value(tables, VC_COL_holder_steps_count, row));
		}
	}
}

/*
 * Items of a list, and those of a dict by number, are one: what hangs on them is told together. A
 * tuple has places.
 */
static void add_step(struct vc_text *text, const struct vc_tables *tables, uint64_t row)
{
	static const struct {
		uint64_t kind;
		const char *words;
	} kinds[] = {
#define VC_STEP_KIND(name, number, words) {number, words},
#include "formats/step_kinds.def"
#undef VC_STEP_KIND
	};
	uint64_t kind = vc_value(tables, VC_COL_holder_steps_kind, row);
	uint64_t line = vc_value(tables, VC_COL_holder_steps_line, row);
	const char *words = vc_string(tables, VC_COL_holder_steps_text, row);

	if (kind == VC_STEP_GLOBAL) {
		fill(text, tables, row, "%f global `%t`");
		return;
	}
	if (kind == VC_STEP_LOCAL) {
		fill(text, tables, row, "%f:%l %o local `%t`");
		return;
	}
	if (kind == VC_STEP_ATTRIBUTE) {
		fill(text, tables, row, "%o.%t");
		return;
	}
	if (kind == VC_STEP_NODES && vc_value(tables, VC_COL_holder_steps_count, row) == 1) {
		fill(text, tables, row, "the next node %t");
		return;
	}
	if (kind == VC_STEP_KEY && (*words == '-' || (*words >= '0' && *words <= '9'))) {
		fill(text, tables, row, "dict of %n");
		return;
	}
	if (kind == VC_STEP_ELEMENT && line && strcmp(words, "list"))
		vc_text_add(text, "[%llu] of ", (unsigned long long)line - 1);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].kind == kind) {
			fill(text, tables, row, kinds[i].words);
			return;
		}
	fill(text, tables, row, "%t");
}

void vc_holder_text(struct vc_text *text, const struct vc_tables *tables, uint64_t step_plus_one)
{
	uint64_t way[STEPS_MOST];
	unsigned count = 0;

	for (uint64_t step = step_plus_one; step && count < STEPS_MOST;) {
		uint64_t parent = vc_value(tables, VC_COL_holder_steps_parent, step - 1);

		way[count++] = step - 1;
		step = parent < step ? parent : 0; /* else a damaged file */
	}
	for (unsigned i = count; i-- > 0;) {
		/* what hangs on a graph is told together: by what keeps the graph */
		if (vc_value(tables, VC_COL_holder_steps_kind, way[i]) == VC_STEP_GRAD_FN && i) {
			vc_text_add(text, "%s", i != count - 1 ? " -> " : "");
			add_step(text, tables, way[i]);
			vc_text_add(text, " and its graph");
			return;
		}
		if (count > STEPS_SHOWN && i < count - STEPS_SHOWN / 2 && i >= STEPS_SHOWN / 2) {
			if (i == STEPS_SHOWN / 2)
				vc_text_add(text, " -> ...");
			continue;
		}
		if (i != count - 1)
			vc_text_add(text, " -> ");
		add_step(text, tables, way[i]);
	}
	if (!count)
		vc_text_add(text, "not known");
}
