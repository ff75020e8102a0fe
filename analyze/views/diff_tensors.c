/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/diff_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/text.h"
#include "analyze/views/shape.h"

/** More rows than anybody reads: the rest have no shape and no holder. */
#define SHAPED_ROWS 1000u

/** Roles whose tensors live at any moment of a step; those of the others come and go within one. */
static const uint32_t lasting_roles =
	1u << VC_ROLE_PARAMETER | 1u << VC_ROLE_OPTIMIZER | 1u << VC_ROLE_BUFFER |
	1u << VC_ROLE_KV_CACHE | 1u << VC_ROLE_OTHER | 1u << VC_ROLE_WORKSPACE |
	1u << VC_ROLE_COMMUNICATION;

/** A row of one file, on its way to be matched. */
struct entry {
	const struct vc_tensor_row *row;
	unsigned file;
};

struct work {
	const struct vc_diff_input *inputs;
	const struct vc_roles *roles;
	const struct vc_diff *diff;
	const struct vc_diff_tensors_options *options;
	struct vc_arena *arena;
	unsigned files;
	struct vc_tensor_rows *of_file;
	struct vc_diff_tensors *made;
	uint32_t *row_of_id;   /* by id of a row of the last file: row of `made` plus 1 */
};

static int make_rows(struct work *work)
{
	struct vc_tensors_options options = {
		.by = work->options->by, .device_plus_one = work->options->device_plus_one,
		.role_set = work->made->compared, .no_fold = true};

	work->of_file = vc_arena_allocate(work->arena, work->files, sizeof(*work->of_file));
	if (!work->of_file)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < work->files; i++) {
		const struct vc_diff_input *input = &work->inputs[i];
		int error;

		options.of_blocks = i + 1 == work->files;
		error = vc_tensor_rows_make(input->tables, input->account, &work->roles[i], NULL,
					    &options, work->arena, &work->of_file[i]);
		if (error)
			return error;
		work->made->bytes[i] = work->of_file[i].bytes;
		work->made->count[i] = work->of_file[i].blocks;
	}
	return 0;
}

/* ---- roles that are not compared ---- */

static int leave_out(struct work *work)
{
	uint32_t wanted = work->options->role_set ? work->options->role_set :
						    (1u << VC_ROLES) - 1;
	struct vc_role_sum sums[VC_ROLES];

	work->made->compared = work->options->same_moment ? wanted : wanted & lasting_roles;
	for (unsigned i = 0; i < work->files; i++) {
		vc_roles_sum(work->inputs[i].tables, work->inputs[i].account, &work->roles[i],
			     work->options->device_plus_one, sums);
		for (unsigned role = 0; role < VC_ROLES; role++) {
			uint64_t **bytes = &work->made->left_out[role];

			if (!sums[role].bytes || !(wanted >> role & 1) ||
			    work->made->compared >> role & 1)
				continue;
			if (!*bytes)
				*bytes = vc_arena_allocate(work->arena, work->files, sizeof(**bytes));
			if (!*bytes)
				return VC_E_NO_MEMORY;
			(*bytes)[i] = sums[role].bytes;
		}
	}
	return 0;
}

/* ---- matching ---- */

static int by_text(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = strcmp(x->row->text, y->row->text);

	return order ? order : x->file < y->file ? -1 : x->file > y->file;
}

static int fill_row(struct work *work, const struct entry *entries, uint64_t count,
		    struct vc_diff_tensor_row *row)
{
	const struct vc_tensor_row *newest = entries[count - 1].row;

	row->bytes = vc_arena_allocate(work->arena, work->files, sizeof(*row->bytes));
	row->count = vc_arena_allocate(work->arena, work->files, sizeof(*row->count));
	if (!row->bytes || !row->count)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < count; i++) {
		row->bytes[entries[i].file] = entries[i].row->bytes;
		row->count[entries[i].file] = entries[i].row->count;
	}
	row->text = newest->text;
	row->role = newest->role;
	row->kind = newest->kind;
	row->alike = newest->alike;
	row->folded = 1;
	return 0;
}

static int match(struct work *work)
{
	struct vc_diff_tensors *made = work->made;
	uint64_t count = 0, filled = 0, end;
	struct entry *entries;

	for (unsigned i = 0; i < work->files; i++)
		count += work->of_file[i].count;
	entries = vc_arena_allocate(work->arena, count + 1, sizeof(*entries));
	made->rows = vc_arena_allocate(work->arena, count + 1, sizeof(*made->rows));
	work->row_of_id = vc_arena_allocate(work->arena, count + 1, sizeof(*work->row_of_id));
	if (!entries || !made->rows || !work->row_of_id)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < work->files; i++)
		for (uint64_t j = 0; j < work->of_file[i].count; j++)
			entries[filled++] = (struct entry){&work->of_file[i].rows[j], i};
	qsort(entries, count, sizeof(*entries), by_text);
	for (uint64_t i = 0; i < count; i = end) {
		for (end = i + 1; end < count && !strcmp(entries[i].row->text, entries[end].row->text);)
			end++;
		if (fill_row(work, &entries[i], end - i, &made->rows[made->rows_count]))
			return VC_E_NO_MEMORY;
		made->rows_count++;
		/* names of the last file's blocks lead to the row wherever it goes later */
		if (entries[end - 1].file + 1 == work->files)
			work->row_of_id[entries[end - 1].row->id] = (uint32_t)made->rows_count;
	}
	return 0;
}

/* ---- folding ---- */

struct pattern {
	const char *text;
	uint64_t row;
};

static int by_pattern(const void *a, const void *b)
{
	const struct pattern *x = a, *y = b;
	int order = strcmp(x->text, y->text);

	return order ? order : x->row < y->row ? -1 : x->row > y->row;
}

static bool same_bytes(const struct work *work, const struct vc_diff_tensor_row *a,
		       const struct vc_diff_tensor_row *b)
{
	size_t length = work->files * sizeof(*a->bytes);

	return !memcmp(a->bytes, b->bytes, length) && !memcmp(a->count, b->count, length);
}

/** Rows of one pattern become the first of them where their bytes and blocks are equal. */
static void fold_run(struct work *work, const struct pattern *run, uint64_t length, uint32_t *into)
{
	struct vc_diff_tensor_row *rows = work->made->rows, *first = &rows[run[0].row];

	for (uint64_t i = 1; i < length; i++)
		if (!same_bytes(work, first, &rows[run[i].row]))
			return;
	if (length < 2)
		return;
	first->text = run[0].text;
	first->folded = length;
	for (uint64_t i = 1; i < length; i++) {
		into[run[i].row] = (uint32_t)run[0].row + 1;
		rows[run[i].row].folded = 0; /* gone */
		first->alike = first->alike && rows[run[i].row].alike &&
			       !strcmp(first->kind, rows[run[i].row].kind);
		work->made->folded++;
	}
	for (unsigned i = 0; i < work->files; i++) {
		first->bytes[i] *= length;
		first->count[i] *= length;
	}
}

static int fold(struct work *work)
{
	struct vc_diff_tensors *made = work->made;
	struct pattern *patterns = vc_arena_allocate(work->arena, made->rows_count + 1,
						     sizeof(*patterns));
	uint32_t *into = vc_arena_allocate(work->arena, made->rows_count + 1, sizeof(*into));
	const struct vc_tensor_rows *last = &work->of_file[work->files - 1];
	struct vc_text text = {0};
	uint64_t count = 0;

	if (!patterns || !into)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < made->rows_count; i++) {
		if (!vc_tensor_pattern(&text, made->rows[i].text))
			continue;
		patterns[count] = (struct pattern){
			vc_arena_string(work->arena, vc_text_get(&text)), i};
		if (!patterns[count++].text) {
			vc_text_deinit(&text);
			return VC_E_NO_MEMORY;
		}
	}
	vc_text_deinit(&text);
	qsort(patterns, count, sizeof(*patterns), by_pattern);
	for (uint64_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && !strcmp(patterns[i].text, patterns[end].text);)
			end++;
		fold_run(work, &patterns[i], end - i, into);
	}
	for (uint64_t id = 0; id < last->count; id++)
		if (work->row_of_id[id] && into[work->row_of_id[id] - 1])
			work->row_of_id[id] = into[work->row_of_id[id] - 1];
	return 0;
}

/* ---- growth ---- */

static int fit(const struct work *work, const uint64_t *bytes, double *rate, double *fit)
{
	double *y = vc_arena_allocate(work->arena, work->files, sizeof(*y));

	*rate = *fit = 0;
	if (!y)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < work->files; i++)
		y[i] = (double)bytes[i];
	if (work->diff->axis != VC_AXIS_NONE)
		vc_fit_line(work->diff->x, y, work->files, rate, fit);
	return 0;
}

static bool has_changed(const struct work *work, const struct vc_diff_tensor_row *row)
{
	for (unsigned i = 1; i < work->files; i++)
		if (row->bytes[i] != row->bytes[0] || row->count[i] != row->count[0])
			return true;
	return false;
}

static int by_growth(const void *a, const void *b)
{
	const struct vc_diff_tensor_row *const *x = a, *const *y = b;

	if ((*x)->growth != (*y)->growth)
		return (*x)->growth < (*y)->growth ? 1 : -1;
	return strcmp((*x)->text, (*y)->text);
}

/** Rows that changed, in order; what refers to rows by their old numbers follows. */
static int arrange(struct work *work)
{
	struct vc_diff_tensors *made = work->made;
	uint64_t kept = 0, ids = work->of_file[work->files - 1].count;
	struct vc_diff_tensor_row **order =
		vc_arena_allocate(work->arena, made->rows_count + 1, sizeof(*order));
	struct vc_diff_tensor_row *rows =
		vc_arena_allocate(work->arena, made->rows_count + 1, sizeof(*rows));
	uint32_t *place = vc_arena_allocate(work->arena, made->rows_count + 1, sizeof(*place));

	if (!order || !rows || !place)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < made->rows_count; i++) {
		struct vc_diff_tensor_row *row = &made->rows[i];
		unsigned last = work->files - 1;

		if (!row->folded)
			continue;
		if (!has_changed(work, row)) {
			made->unchanged += row->folded;
			continue;
		}
		row->growth = (int64_t)(row->bytes[last] - row->bytes[0]);
		row->count_growth = (int64_t)(row->count[last] - row->count[0]);
		row->is_new = !row->count[0];
		row->is_gone = !row->count[last];
		made->grew += row->growth > 0;
		made->shrank += row->growth < 0;
		if (fit(work, row->bytes, &row->rate, &row->fit))
			return VC_E_NO_MEMORY;
		order[kept++] = row;
	}
	qsort(order, kept, sizeof(*order), by_growth);
	for (uint64_t i = 0; i < kept; i++) {
		rows[i] = *order[i];
		place[order[i] - made->rows] = (uint32_t)i + 1;
	}
	for (uint64_t id = 0; id < ids; id++)
		if (work->row_of_id[id])
			work->row_of_id[id] = place[work->row_of_id[id] - 1];
	made->rows = rows;
	made->rows_count = kept;
	return 0;
}

/* ---- what was born between the files: its shape, and what keeps it ---- */

/** The way that keeps most bytes: found in one pass, its bytes are counted in a second one. */
struct vote {
	uint32_t step;
	uint64_t weight;
};

struct born {
	struct vc_births *births;
	struct vote *votes;
	const uint32_t *steps; /* vc_holder_steps */
	uint64_t shaped;
	struct vc_interval interval;
	bool interval_known;
};

static uint32_t holder_of(const struct work *work, const struct born *born, uint64_t block)
{
	uint32_t storage = work->roles[work->files - 1].storage[block];

	return storage ? born->steps[storage - 1] : 0;
}

/** The row of a block of the last file that was born between the files; NULL: it is none of those. */
static struct vc_diff_tensor_row *row_of_born(const struct work *work, const struct born *born,
					      uint64_t block, double *ret_share)
{
	const struct vc_diff_input *last = &work->inputs[work->files - 1];
	uint32_t id = work->of_file[work->files - 1].of_block[block];
	uint32_t row = id ? work->row_of_id[id - 1] : 0;

	if (!row || row > born->shaped || work->made->rows[row - 1].growth <= 0)
		return NULL;
	*ret_share = 0;
	if (born->interval_known &&
	    !vc_interval_has(&born->interval, last->tables, block, ret_share))
		return NULL;
	return &work->made->rows[row - 1];
}

static void cast(struct vote *vote, uint32_t step, uint64_t bytes)
{
	if (step == vote->step) {
		vote->weight += bytes;
	} else if (vote->weight >= bytes) {
		vote->weight -= bytes;
	} else {
		vote->weight = bytes - vote->weight;
		vote->step = step;
	}
}

static int put_words(const struct work *work, struct vc_diff_tensor_row *row, uint32_t step)
{
	struct vc_text text = {0};

	vc_holder_text(&text, work->inputs[work->files - 1].tables, step);
	row->holder = vc_arena_string(work->arena, vc_text_get(&text));
	vc_text_deinit(&text);
	return row->holder ? 0 : VC_E_NO_MEMORY;
}

static const char *kind_of(const struct work *work, uint64_t block)
{
	const struct vc_tables *tables = work->inputs[work->files - 1].tables;
	uint32_t storage = work->roles[work->files - 1].storage[block];
	uint64_t tensor = vc_value(tables, VC_COL_storages_tensor, storage - 1);
	struct vc_text text = {0};
	const char *kept;

	if (tensor)
		vc_text_add(&text, "%s %s", vc_string(tables, VC_COL_tensors_dtype, tensor - 1),
			    vc_string(tables, VC_COL_tensors_shape, tensor - 1));
	kept = vc_arena_string(work->arena, vc_text_get(&text));
	vc_text_deinit(&text);
	return kept ? kept : "";
}

static bool same_tensor_kind(const struct work *work, uint64_t block, uint64_t other)
{
	static const enum vc_column_index columns[] = {VC_COL_tensors_dtype, VC_COL_tensors_shape};
	const struct vc_roles *roles = &work->roles[work->files - 1];
	const struct vc_tables *tables = work->inputs[work->files - 1].tables;
	uint64_t a = vc_value(tables, VC_COL_storages_tensor, roles->storage[block] - 1);
	uint64_t b = vc_value(tables, VC_COL_storages_tensor, roles->storage[other] - 1);

	for (size_t i = 0; a && b && i < 2; i++)
		if (vc_value(tables, columns[i], a - 1) != vc_value(tables, columns[i], b - 1))
			return false;
	return !a == !b;
}

static void note_held(const struct work *work, struct vc_diff_tensor_row *row, uint64_t block)
{
	const struct vc_diff_input *last = &work->inputs[work->files - 1];

	if (!row->held_count) {
		row->held_first = block;
		row->held_kind = kind_of(work, block);
		row->held_role = (enum vc_role)work->roles[work->files - 1].role[block];
	} else if (*row->held_kind && !same_tensor_kind(work, block, row->held_first)) {
		row->held_kind = "";
	}
	row->held_bytes += vc_account_row_bytes(last->account, last->tables, block);
	row->held_count++;
}

static int look_at_born(struct work *work, struct born *born)
{
	const struct vc_diff_input *last = &work->inputs[work->files - 1];
	struct vc_diff_tensor_row *rows = work->made->rows, *row;
	int error = 0;
	double share;

	for (uint64_t block = 0; block < last->account->rows; block++) {
		uint64_t bytes = vc_account_row_bytes(last->account, last->tables, block);

		row = row_of_born(work, born, block, &share);
		if (!row)
			continue;
		cast(&born->votes[row - rows], holder_of(work, born, block), bytes);
		if (born->interval_known)
			vc_births_add(&born->births[row - rows], share, bytes);
	}
	for (uint64_t block = 0; block < last->account->rows; block++) {
		row = row_of_born(work, born, block, &share);
		if (!row || !born->votes[row - rows].step ||
		    holder_of(work, born, block) != born->votes[row - rows].step)
			continue;
		note_held(work, row, block);
	}
	for (uint64_t i = 0; i < born->shaped && !error; i++) {
		rows[i].shape = vc_births_shape(&born->births[i], rows[i].growth);
		if (rows[i].held_count)
			error = put_words(work, &rows[i], born->votes[i].step);
	}
	return error;
}

static int find_born(struct work *work)
{
	const struct vc_tables *first = work->inputs[0].tables;
	const struct vc_tables *last = work->inputs[work->files - 1].tables;
	struct born born = {.shaped = work->made->rows_count};

	if (born.shaped > SHAPED_ROWS)
		born.shaped = SHAPED_ROWS;
	born.births = vc_arena_allocate(work->arena, born.shaped + 1, sizeof(*born.births));
	born.votes = vc_arena_allocate(work->arena, born.shaped + 1, sizeof(*born.votes));
	born.steps = vc_holder_steps(last, work->arena);
	born.interval_known = vc_interval_find(first, last, work->diff->axis, &born.interval);
	if (!born.births || !born.votes || !born.steps)
		return VC_E_NO_MEMORY;
	return look_at_born(work, &born);
}

int vc_diff_tensors_make(const struct vc_diff_input *inputs, const struct vc_roles *roles,
			 const struct vc_diff *diff, const struct vc_diff_tensors_options *options,
			 struct vc_arena *arena, struct vc_diff_tensors *ret)
{
	struct vc_diff_tensors made = {0};
	struct work work = {.inputs = inputs, .roles = roles, .diff = diff,
			    .options = options, .arena = arena, .files = (unsigned)diff->files,
			    .made = &made};
	double unused;
	int error;

	made.bytes = vc_arena_allocate(arena, work.files, sizeof(*made.bytes));
	made.count = vc_arena_allocate(arena, work.files, sizeof(*made.count));
	if (!made.bytes || !made.count)
		return VC_E_NO_MEMORY;
	error = leave_out(&work);
	if (!error)
		error = make_rows(&work);
	if (!error)
		error = match(&work);
	if (!error && !options->no_fold && options->by != VC_TENSORS_BY_ROLE)
		error = fold(&work);
	if (!error)
		error = arrange(&work);
	if (!error)
		error = find_born(&work);
	made.growth = (int64_t)(made.bytes[work.files - 1] - made.bytes[0]);
	if (!error)
		error = fit(&work, made.bytes, &made.rate, &unused);
	if (!error)
		*ret = made;
	return error;
}
