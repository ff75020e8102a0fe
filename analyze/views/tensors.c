/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/tensors.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/text.h"

const char *const vc_tensors_by_text[VC_TENSORS_BY_COUNT] = {
#define VC_TENSORS_BY(name, text) text,
	VC_TENSORS_BYS(VC_TENSORS_BY)
#undef VC_TENSORS_BY
};

struct making {
	const struct vc_tables *tables;
	const struct vc_account *account;
	const struct vc_roles *roles;
	const struct vc_names *names;
	const struct vc_tensors_options *options;
	struct vc_arena *arena;
	const uint32_t *steps;
	struct vc_text text;      /* scratch */
	struct vc_tensor_row *rows;
	uint64_t count;
	uint32_t *of_block;       /* see struct vc_tensor_rows; NULL */
	uint32_t *slot;           /* by hash of text: number of row plus 1 */
	uint64_t slots;
	struct {                  /* the last way that was put into words */
		uint64_t step;
		const char *text;
	} way;
};

/* ---- texts ---- */

/* The tensor that stands for a block, row plus 1; 0: none. */
static uint64_t tensor_of(const struct making *making, uint64_t row)
{
	uint32_t storage = making->roles->storage[row];

	return storage ? vc_value(making->tables, VC_COL_storages_tensor, storage - 1) : 0;
}

/* A name without the model's own. */
static const char *short_name(const struct making *making, const char *name)
{
	uint64_t root = making->roles->root_length;

	return root && strlen(name) > root && name[root - 1] == '.' ? name + root : name;
}

/* Where a block belongs: the module of its parameter, else the one that ran. */
static void add_module(struct making *making, uint64_t row, uint64_t tensor)
{
	const char *name = tensor ? vc_string(making->tables, VC_COL_tensors_name, tensor - 1) : "";
	const char *dot = strrchr(name, '.');
	const char *module = vc_string(making->tables, VC_COL_allocations_module, row);

	if (dot && making->roles->role[row] != VC_ROLE_ACTIVATION) {
		name = short_name(making, name);
		dot = strrchr(name, '.');
		if (dot)
			vc_text_bytes_raw(&making->text, name, (size_t)(dot - name));
		else
			vc_text_add(&making->text, "(model)");
	} else if (*module) {
		vc_text_add(&making->text, "%s", short_name(making, module));
	} else {
		vc_text_add(&making->text, "(no module)");
	}
}

static void add_tensor(struct making *making, uint64_t row, uint64_t tensor)
{
	const struct vc_tables *tables = making->tables;
	const char *name = tensor ? vc_string(tables, VC_COL_tensors_name, tensor - 1) : "";
	const char *detail = tensor ? vc_string(tables, VC_COL_tensors_detail, tensor - 1) : "";

	if (!tensor) {
		vc_text_add(&making->text, "(%s)", vc_role_text[making->roles->role[row]]);
		return;
	}
	vc_text_add(&making->text, "%s%s%s", short_name(making, name), *name && *detail ? " " : "",
		    detail);
	if (!*name && !*detail)
		vc_text_add(&making->text, "%s %s",
			    vc_string(tables, VC_COL_tensors_dtype, tensor - 1),
			    vc_string(tables, VC_COL_tensors_shape, tensor - 1));
}

static void add_holder(struct making *making, uint64_t row)
{
	uint32_t storage = making->roles->storage[row];
	uint64_t step = storage ? making->steps[storage - 1] : 0;

	if (!storage) {
		vc_text_add(&making->text, "(%s)", vc_role_text[making->roles->role[row]]);
		return;
	}
	if (!making->way.text || making->way.step != step) {
		struct vc_text text = {0};

		vc_holder_text(&text, making->tables, step);
		making->way.text = vc_arena_string(making->arena, vc_text_get(&text));
		making->way.step = step;
		vc_text_deinit(&text);
	}
	vc_text_add(&making->text, "%s", making->way.text ? making->way.text : "");
}

static const char *describe(struct making *making, uint64_t row)
{
	static const struct vc_path_prefix no_prefix;
	uint64_t tensor = tensor_of(making, row);
	const struct vc_tables *tables = making->tables;

	vc_text_clear(&making->text);
	switch (making->options->by) {
	case VC_TENSORS_BY_MODULE:
		add_module(making, row, tensor);
		break;
	case VC_TENSORS_BY_TENSOR:
		add_tensor(making, row, tensor);
		break;
	case VC_TENSORS_BY_HOLDER:
		add_holder(making, row);
		break;
	case VC_TENSORS_BY_PLACE:
		if (making->names)
			vc_chain_text(&making->text,
				      vc_names_chain(making->names, 0,
						     vc_stack_reference(
							     tables,
							     vc_value(tables,
								      VC_COL_allocations_stack,
								      row),
							     vc_value(tables,
								      VC_COL_allocations_python,
								      row))),
				      &no_prefix);
		break;
	default:
		vc_text_add(&making->text, "%s", vc_role_text[making->roles->role[row]]);
	}
	return vc_text_get(&making->text);
}

static const char *kind_of(struct making *making, uint64_t tensor)
{
	struct vc_text text = {0};
	const char *kept;

	if (!tensor)
		return "";
	vc_text_add(&text, "%s %s", vc_string(making->tables, VC_COL_tensors_dtype, tensor - 1),
		    vc_string(making->tables, VC_COL_tensors_shape, tensor - 1));
	kept = vc_arena_string(making->arena, vc_text_get(&text));
	vc_text_deinit(&text);
	return kept ? kept : "";
}

/* Whether a tensor's dtype and shape are those of another; 0: none. */
static bool same_kind(const struct vc_tables *tables, uint64_t a, uint64_t b)
{
	if (!a || !b)
		return a == b;
	return vc_value(tables, VC_COL_tensors_dtype, a - 1) ==
		       vc_value(tables, VC_COL_tensors_dtype, b - 1) &&
	       vc_value(tables, VC_COL_tensors_shape, a - 1) ==
		       vc_value(tables, VC_COL_tensors_shape, b - 1);
}

/* ---- rows ---- */

static uint64_t hash_of(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 29;
}

static struct vc_tensor_row *row_for(struct making *making, const char *text)
{
	uint64_t at = hash_of(text) & (making->slots - 1);
	struct vc_tensor_row *row;

	for (; making->slot[at]; at = (at + 1) & (making->slots - 1))
		if (!strcmp(making->rows[making->slot[at] - 1].text, text))
			return &making->rows[making->slot[at] - 1];
	row = &making->rows[making->count++];
	making->slot[at] = (uint32_t)making->count;
	row->text = vc_arena_string(making->arena, text);
	row->folded = 1;
	row->alike = true;
	row->id = (uint32_t)making->count - 1;
	return row->text ? row : NULL;
}

static bool is_wanted(const struct making *making, uint64_t row)
{
	const struct vc_tensors_options *options = making->options;
	const struct vc_tables *tables = making->tables;

	if (options->group_key && (making->account->group_of_row[row] == UINT32_MAX ||
				   options->group_key[making->account->group_of_row[row]] !=
					   options->key ||
				   vc_value(tables, VC_COL_allocations_birth, row) <=
					   options->born_after))
		return false;
	return vc_value(tables, VC_COL_allocations_kind, row) == VC_KIND_BLOCK &&
	       vc_account_row_bytes(making->account, tables, row) &&
	       (options->device_plus_one == UINT32_MAX ||
		vc_value(tables, VC_COL_allocations_device_plus_one, row) ==
			options->device_plus_one) &&
	       (!options->role_set || options->role_set >> making->roles->role[row] & 1);
}

static int add_block(struct making *making, uint64_t block)
{
	const struct vc_tables *tables = making->tables;
	uint64_t bytes = vc_account_row_bytes(making->account, tables, block);
	struct vc_tensor_row *row = row_for(making, describe(making, block));

	if (!row || making->text.failed)
		return VC_E_NO_MEMORY;
	if (row->count && !same_kind(tables, tensor_of(making, block), tensor_of(making, row->largest)))
		row->alike = false;
	if (!row->count || bytes > vc_account_row_bytes(making->account, tables, row->largest))
		row->largest = block;
	row->bytes += bytes;
	row->count++;
	if (making->of_block)
		making->of_block[block] = row->id + 1;
	if (making->roles->how[block] == VC_ROLE_HOW_INFERRED)
		row->inferred_bytes += bytes;
	return 0;
}

/* ---- folding ---- */

bool vc_tensor_pattern(struct vc_text *text, const char *from)
{
	bool any = false;

	vc_text_clear(text);
	while (*from) {
		size_t length = strcspn(from, ". "), digits = strspn(from, "0123456789");

		if (length && digits == length) {
			vc_text_add(text, "*");
			any = true;
		} else {
			vc_text_bytes_raw(text, from, length);
		}
		from += length;
		if (*from)
			vc_text_bytes_raw(text, from++, 1);
	}
	return any;
}

static void merge(struct vc_tensor_row *into, const struct vc_tensor_row *row)
{
	into->bytes += row->bytes;
	into->count += row->count;
	into->inferred_bytes += row->inferred_bytes;
	into->folded += row->folded;
	into->alike = into->alike && row->alike;
}

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

/* Rows of one pattern become one where their bytes and blocks are equal. */
static void fold_run(struct making *making, const struct pattern *run, uint64_t length,
		     uint64_t *folded)
{
	struct vc_tensor_row *first = &making->rows[run[0].row];

	for (uint64_t i = 1; i < length; i++)
		if (making->rows[run[i].row].bytes != first->bytes ||
		    making->rows[run[i].row].count != first->count)
			return;
	if (length < 2)
		return;
	first->text = run[0].text;
	for (uint64_t i = 1; i < length; i++) {
		struct vc_tensor_row *row = &making->rows[run[i].row];

		merge(first, row);
		row->count = 0; /* gone */
		++*folded;
	}
}

static int fold(struct making *making, uint64_t *folded)
{
	struct pattern *patterns = vc_arena_allocate(making->arena, making->count + 1,
						     sizeof(*patterns));
	uint64_t count = 0;

	if (!patterns)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < making->count; i++) {
		if (!vc_tensor_pattern(&making->text, making->rows[i].text))
			continue;
		patterns[count].text = vc_arena_string(making->arena, vc_text_get(&making->text));
		if (!patterns[count].text)
			return VC_E_NO_MEMORY;
		patterns[count++].row = i;
	}
	qsort(patterns, count, sizeof(*patterns), by_pattern);
	for (uint64_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && !strcmp(patterns[i].text, patterns[end].text);)
			end++;
		fold_run(making, &patterns[i], end - i, folded);
	}
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	const struct vc_tensor_row *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return strcmp(x->text, y->text);
}

/* What is said of a row besides its sums: of its largest block. */
static void finish(struct making *making, struct vc_tensor_rows *ret)
{
	for (uint64_t i = 0; i < making->count; i++) {
		struct vc_tensor_row *row = &making->rows[i];
		uint64_t tensor = tensor_of(making, row->largest);

		if (!row->count)
			continue;
		row->role = (enum vc_role)making->roles->role[row->largest];
		row->kind = kind_of(making, tensor);
		row->detail = tensor ? vc_string(making->tables, VC_COL_tensors_detail,
						 tensor - 1) : "";
		ret->bytes += row->bytes;
		ret->blocks += row->count;
		making->rows[ret->count++] = *row;
	}
	ret->rows = making->rows;
	qsort(ret->rows, ret->count, sizeof(*ret->rows), by_bytes);
}

static int prepare(struct making *making, uint64_t blocks)
{
	for (making->slots = 64; making->slots < blocks * 2 + 2;)
		making->slots *= 2;
	making->slot = vc_arena_allocate(making->arena, making->slots, sizeof(*making->slot));
	making->rows = vc_arena_allocate(making->arena, blocks + 1, sizeof(*making->rows));
	making->steps = vc_holder_steps(making->tables, making->arena);
	if (making->options->of_blocks) {
		making->of_block = vc_arena_allocate(making->arena, making->roles->rows + 1,
						     sizeof(*making->of_block));
		if (!making->of_block)
			return VC_E_NO_MEMORY;
	}
	return making->slot && making->rows && making->steps ? 0 : VC_E_NO_MEMORY;
}

int vc_tensor_rows_make(const struct vc_tables *tables, const struct vc_account *account,
			const struct vc_roles *roles, const struct vc_names *names,
			const struct vc_tensors_options *options, struct vc_arena *arena,
			struct vc_tensor_rows *ret)
{
	struct making making = {tables, account, roles, names, options, arena, .way = {0}};
	struct vc_tensor_rows rows = {0};
	uint64_t blocks = 0;
	int error;

	for (uint64_t row = 0; row < roles->rows; row++)
		blocks += is_wanted(&making, row);
	error = prepare(&making, blocks);
	for (uint64_t row = 0; !error && row < roles->rows; row++)
		if (is_wanted(&making, row))
			error = add_block(&making, row);
	if (!error && !options->no_fold &&
	    (options->by == VC_TENSORS_BY_MODULE || options->by == VC_TENSORS_BY_TENSOR))
		error = fold(&making, &rows.folded);
	if (!error)
		finish(&making, &rows);
	vc_text_deinit(&making.text);
	rows.of_block = making.of_block;
	if (!error)
		*ret = rows;
	return error;
}
