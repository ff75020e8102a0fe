/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/roles.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/views/backward.h"
#include "formats/walk_tensors.h"

const char *const vc_role_key[VC_ROLES] = {
#define VC_ROLE(name, key, text) key,
#include "analyze/views/roles.def"
#undef VC_ROLE
};
const char *const vc_role_text[VC_ROLES] = {
#define VC_ROLE(name, key, text) text,
#include "analyze/views/roles.def"
#undef VC_ROLE
};
const char *const vc_role_how_text[3] = {"unknown", "exact", "inferred"};

#define STEPS_MOST 4096u /* of one way: a damaged file cannot make it longer */
#define BLOCK_UNIT UINT64_C(512)           /* to whose multiples PyTorch's allocator rounds up */
#define BLOCK_SPLIT (UINT64_C(1) << 20)

/* Storages of a device by address. */
struct place {
	uint64_t address;
	uint32_t row;
};

struct making {
	const struct vc_tables *tables;
	const struct vc_account *account;
	const struct vc_names *names;
	uint32_t file;        /* number in the names */
	struct vc_roles *roles;
	struct place *places;
	uint64_t count;
	uint32_t *steps;      /* vc_holder_steps */
	uint64_t *casts;      /* sizes of blocks that parameters in two bytes would take */
	uint64_t cast_count;
	uint8_t *leaf;        /* by storage: a leaf of the graph that needs a gradient shows it */
	bool modules_known;
	bool in_backward;     /* memory ran out in a backward pass, and what was saved was not read */
};

static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static void sort_places(struct making *making)
{
	const struct vc_tables *tables = making->tables;

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_storages]; row++) {
		uint64_t address = vc_value(tables, VC_COL_storages_address, row);

		if (address && vc_value(tables, VC_COL_storages_found, row))
			making->places[making->count++] = (struct place){address, (uint32_t)row};
	}
	qsort(making->places, making->count, sizeof(*making->places), by_address);
}

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void look_at_tensors(struct making *making)
{
	const struct vc_tables *tables = making->tables;

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_tensors]; row++) {
		uint64_t half = vc_value(tables, VC_COL_tensors_bytes, row) / 2;
		uint64_t flags = vc_value(tables, VC_COL_tensors_flags, row);
		uint64_t storage = vc_value(tables, VC_COL_tensors_storage, row);

		if (storage && flags & VC_TENSOR_LEAF && flags & VC_TENSOR_REQUIRES_GRAD)
			making->leaf[storage - 1] = 1;
		if (vc_value(tables, VC_COL_tensors_found, row) == VC_FOUND_PARAMETER && half &&
		    !strcmp(vc_string(tables, VC_COL_tensors_dtype, row), "float32"))
			making->casts[making->cast_count++] =
				(half + BLOCK_UNIT - 1) & ~(BLOCK_UNIT - 1);
	}
	qsort(making->casts, making->cast_count, sizeof(*making->casts), by_size);
}

/* The strongest storage that begins in a range; row plus 1, 0: none. */
static uint32_t storage_in(const struct making *making, uint64_t address, uint64_t size,
			   uint64_t device_plus_one)
{
	uint64_t low = 0, high = making->count, strongest = UINT64_MAX;
	uint32_t found = 0;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (making->places[middle].address < address)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < making->count && making->places[low].address - address < size; low++) {
		uint64_t row = making->places[low].row;
		uint64_t way = vc_value(making->tables, VC_COL_storages_found, row);
		uint64_t device = vc_value(making->tables, VC_COL_storages_device_plus_one, row);

		if (way < strongest && (!device || device == device_plus_one)) {
			strongest = way;
			found = (uint32_t)row + 1;
		}
	}
	return found;
}

/* ---- rules ---- */

enum rule_kind { RULE_FUNCTION, RULE_LIBRARY, RULE_HOLDER, RULE_MEMBER, RULE_GIVEN };

static const struct rule {
	enum rule_kind kind;
	enum vc_role role;
	const char *class, *text;
} rules[] = {
#define VC_ROLE_FUNCTION(name, text) {RULE_FUNCTION, VC_ROLE_##name, NULL, text},
#define VC_ROLE_LIBRARY(name, text) {RULE_LIBRARY, VC_ROLE_##name, NULL, text},
#define VC_ROLE_HOLDER(name, text) {RULE_HOLDER, VC_ROLE_##name, NULL, text},
#define VC_ROLE_MEMBER(name, class, text) {RULE_MEMBER, VC_ROLE_##name, class, text},
#define VC_ROLE_GIVEN(text) {RULE_GIVEN, VC_ROLE_INPUT, NULL, text},
#define VC_ROLE_BACKWARD(name, start, part)
#include "analyze/views/role_rules.def"
#undef VC_ROLE_FUNCTION
#undef VC_ROLE_LIBRARY
#undef VC_ROLE_HOLDER
#undef VC_ROLE_MEMBER
#undef VC_ROLE_GIVEN
#undef VC_ROLE_BACKWARD
};

/* "k_cache" in layer_k_caches, not in mask_cache. */
static bool word_begins(const char *text, const char *word)
{
	for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
		if (at == text || !((at[-1] >= 'a' && at[-1] <= 'z') || (at[-1] >= 'A' && at[-1] <= 'Z') ||
				    (at[-1] >= '0' && at[-1] <= '9')))
			return true;
	return false;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), ending = strlen(end);

	return length >= ending && !strcmp(text + length - ending, end);
}

static bool step_fits(const struct vc_tables *tables, uint64_t row, const struct rule *rule)
{
	const char *text = vc_string(tables, VC_COL_holder_steps_text, row);

	if (rule->kind == RULE_HOLDER)
		return word_begins(text, rule->text);
	return rule->kind == RULE_MEMBER && !strcmp(text, rule->text) &&
	       ends_with(vc_string(tables, VC_COL_holder_steps_owner, row), rule->class);
}

static bool names_say(const struct making *making, uint32_t storage, enum vc_role *ret)
{
	const struct vc_tables *tables = making->tables;
	uint64_t step = making->steps[storage - 1];

	for (unsigned passed = 0; step && passed < STEPS_MOST; passed++) {
		for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
			if (step_fits(tables, step - 1, &rules[i])) {
				*ret = rules[i].role;
				return true;
			}
		step = vc_value(tables, VC_COL_holder_steps_parent, step - 1);
	}
	return false;
}

/* The first rule of some kinds, bits 1 << enum rule_kind, that fits a function on a block's stack. */
static bool stack_says(const struct making *making, uint64_t row, unsigned kinds, enum vc_role *ret)
{
	const struct vc_chain *chain;

	if (!making->names)
		return false;
	chain = vc_names_chain(making->names, making->file,
			       vc_value(making->tables, VC_COL_allocations_stack, row));
	for (size_t rule = 0; rule < sizeof(rules) / sizeof(rules[0]); rule++)
		for (uint32_t i = 0; kinds >> rules[rule].kind & 1 && i < chain->count; i++) {
			const char *function = chain->frames[i]->function;

			if (function && strstr(function, rules[rule].text)) {
				*ret = rules[rule].role;
				return true;
			}
		}
	return false;
}

/*
 * Whether a block has the size of a parameter of float32 in two bytes: autocast casts what is no
 * weight in the same function. PyTorch's allocator does not split off the last MiB of a large block.
 */
static bool size_of_cast(const struct making *making, uint64_t row)
{
	uint64_t size = vc_value(making->tables, VC_COL_allocations_size, row), low = 0,
		 high = making->cast_count;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (making->casts[middle] <= size)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return false;
	size -= making->casts[low - 1];
	return !size || (making->casts[low - 1] > BLOCK_SPLIT && size <= BLOCK_SPLIT);
}

/*
 * In the middle of a backward pass: what Python code made in the forward pass of this step and no
 * variable holds any more lives for the graph alone.
 */
static bool kept_for_backward(const struct making *making, uint64_t row)
{
	const struct vc_tables *tables = making->tables;

	return making->in_backward && vc_value(tables, VC_COL_allocations_python, row) &&
	       tables->column[VC_COL_allocations_step] &&
	       vc_value(tables, VC_COL_allocations_step, row) ==
		       vc_value(tables, VC_COL_process_step, 0);
}

/* What its stack says of a block that nothing but C++ holds. */
static bool by_backward(const struct making *making, uint64_t row, enum vc_role *ret)
{
	const struct vc_tables *tables = making->tables;
	bool module = vc_value(tables, VC_COL_allocations_module, row) != 0;
	enum vc_role given;

	if (!making->names)
		return false;
	switch (vc_backward_of(vc_names_chain(
			making->names, making->file,
			vc_stack_reference(tables, vc_value(tables, VC_COL_allocations_stack, row),
					   vc_value(tables, VC_COL_allocations_python, row))))) {
	case VC_BACKWARD_GRADIENT:
		*ret = VC_ROLE_GRADIENT;
		return true;
	case VC_BACKWARD_AGAIN:
		*ret = VC_ROLE_ACTIVATION;
		return true;
	default:
		break;
	}
	if (!kept_for_backward(making, row))
		return false;
	*ret = !module && stack_says(making, row, 1u << RULE_GIVEN, &given) ? VC_ROLE_INPUT :
									     VC_ROLE_ACTIVATION;
	return true;
}

/* A block that no tensor shows. */
static bool bare(const struct making *making, uint64_t row, enum vc_role *ret)
{
	enum vc_role role;

	if (stack_says(making, row, 1u << RULE_FUNCTION | 1u << RULE_LIBRARY, &role) &&
	    (role != VC_ROLE_AUTOCAST || size_of_cast(making, row))) {
		*ret = role;
		return true;
	}
	return by_backward(making, row, ret);
}

/* ---- tensors ---- */

/* Whether what holds it is out of Python's sight. */
static bool held_from_c(const struct making *making, uint32_t storage)
{
	uint64_t step = making->steps[storage - 1], kind = 0;

	for (unsigned passed = 0; step && passed < STEPS_MOST; passed++) {
		kind = vc_value(making->tables, VC_COL_holder_steps_kind, step - 1);
		step = vc_value(making->tables, VC_COL_holder_steps_parent, step - 1);
	}
	return kind == VC_STEP_FROM_C;
}

static void role_of_object(const struct making *making, uint64_t row, uint32_t storage,
			   enum vc_role *role, enum vc_role_how *how)
{
	*how = VC_ROLE_HOW_INFERRED;
	if (names_say(making, storage, role) || stack_says(making, row, 1u << RULE_LIBRARY, role) ||
	    (!making->roles->complete && held_from_c(making, storage) &&
	     by_backward(making, row, role)))
		return;
	*role = VC_ROLE_OTHER;
	if (making->roles->complete) /* else it may be what was not read */
		*how = VC_ROLE_HOW_EXACT;
}

/* Whether a variable holds it; false: the graph alone, as far as is known. */
static bool held_by_variable(const struct making *making, uint32_t storage)
{
	const struct vc_tables *tables = making->tables;
	uint64_t step = making->steps[storage - 1];
	bool known = step;

	for (unsigned passed = 0; step && passed < STEPS_MOST; passed++) {
		uint64_t kind = vc_value(tables, VC_COL_holder_steps_kind, step - 1);

		if (kind >= VC_STEP_GRAD_FN && kind <= VC_STEP_UNPACK_HOOK)
			return false;
		step = vc_value(tables, VC_COL_holder_steps_parent, step - 1);
	}
	return known;
}

/*
 * What the model was given: it needs no gradient, was allocated below no module, and is the
 * program's own: operators save masks and the like that are none.
 */
static bool given(const struct making *making, uint64_t row, uint32_t storage, uint64_t flags)
{
	enum vc_role role;

	return making->modules_known && flags & VC_TENSOR_LEAF &&
	       !(flags & (VC_TENSOR_REQUIRES_GRAD | VC_TENSOR_HAS_GRAD_FN)) &&
	       !vc_value(making->tables, VC_COL_allocations_module, row) &&
	       (held_by_variable(making, storage) ||
		stack_says(making, row, 1u << RULE_GIVEN, &role));
}

/*
 * A leaf that needs a gradient, or what one of the program's is seen as by compiled code. What a
 * module made can look so too: a checkpoint runs again on detached tensors.
 */
static bool is_leaf(const struct making *making, uint64_t row, uint32_t storage, uint64_t flags)
{
	if (flags & VC_TENSOR_LEAF && flags & VC_TENSOR_REQUIRES_GRAD)
		return true;
	return making->leaf[storage - 1] &&
	       !vc_value(making->tables, VC_COL_allocations_module, row);
}

/* A tensor that the graph keeps. */
static void role_in_graph(const struct making *making, uint64_t row, uint32_t storage,
			  uint64_t found, enum vc_role *role, enum vc_role_how *how)
{
	const struct vc_tables *tables = making->tables;
	uint64_t tensor = vc_value(tables, VC_COL_storages_tensor, storage - 1);
	uint64_t flags = tensor ? vc_value(tables, VC_COL_tensors_flags, tensor - 1) : 0;
	enum vc_role by;

	*how = VC_ROLE_HOW_EXACT;
	*role = VC_ROLE_ACTIVATION;
	if (is_leaf(making, row, storage, flags)) {
		*role = VC_ROLE_OTHER;
	} else if (flags & VC_TENSOR_CAST && stack_says(making, row, 1u << RULE_FUNCTION, &by) &&
		   by == VC_ROLE_AUTOCAST) {
		*role = by;
		*how = VC_ROLE_HOW_INFERRED;
	} else if (found == VC_FOUND_SAVED && given(making, row, storage, flags)) {
		*role = VC_ROLE_INPUT;
		*how = VC_ROLE_HOW_INFERRED;
	}
}

static void role_of(const struct making *making, uint64_t row, uint32_t storage,
		    enum vc_role *role, enum vc_role_how *how)
{
	uint64_t found = storage ?
		vc_value(making->tables, VC_COL_storages_found, storage - 1) : 0;

	*how = VC_ROLE_HOW_EXACT;
	switch (found) {
	case VC_FOUND_PARAMETER:
		*role = VC_ROLE_PARAMETER;
		return;
	case VC_FOUND_BUFFER:
		*role = VC_ROLE_BUFFER;
		return;
	case VC_FOUND_GRADIENT:
		*role = VC_ROLE_GRADIENT;
		return;
	case VC_FOUND_OPTIMIZER:
		*role = VC_ROLE_OPTIMIZER;
		return;
	case VC_FOUND_SAVED:
	case VC_FOUND_CONTEXT:
		role_in_graph(making, row, storage, found, role, how);
		return;
	case VC_FOUND_OBJECT:
		role_of_object(making, row, storage, role, how);
		return;
	default:
		*how = bare(making, row, role) ? VC_ROLE_HOW_INFERRED : VC_ROLE_HOW_UNKNOWN;
	}
}

/* "Transformer." where every parameter's name begins so. */
static uint64_t root_length(const struct vc_tables *tables)
{
	const char *first = NULL;
	uint64_t length = 0;

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_tensors]; row++) {
		const char *name = vc_string(tables, VC_COL_tensors_name, row);
		const char *dot = strchr(name, '.');

		if (!*name || vc_value(tables, VC_COL_tensors_found, row) > VC_FOUND_BUFFER)
			continue;
		if (!dot)
			return 0;
		if (!first) {
			first = name;
			length = (uint64_t)(dot - name) + 1;
		} else if (strncmp(first, name, length)) {
			return 0;
		}
	}
	return length;
}

/* Why not everything can be known; "" it can. */
static const char *why_not(const struct vc_tables *tables, struct vc_roles *roles)
{
	uint64_t flags = vc_value(tables, VC_COL_walks_flags, 0);
	const char *why = vc_string(tables, VC_COL_walks_why, 0);

	roles->walked = tables->rows[VC_TABLE_walks] && !*why;
	if (!tables->rows[VC_TABLE_walks])
		return "the interpreter was not asked";
	if (*why)
		return why;
	if (flags & VC_WALKED_CUT)
		return "the time for the walk over tensors was up";
	if (flags & VC_WALKED_NO_MEMORY)
		return "the memory for the walk over tensors was used up";
	if (flags & VC_WALKED_BESIDE)
		return "gradients and saved tensors can be read while no other thread is in PyTorch only";
	if (!(flags & VC_WALKED_FULL))
		return "gradients and saved tensors can be read on the thread that trains only";
	roles->complete = true;
	if (flags & VC_WALKED_APART && vc_value(tables, VC_COL_process_peak_device_plus_one, 0))
		return VC_ROLES_APART;
	return "";
}

static int prepare(struct making *making, struct vc_arena *arena)
{
	const struct vc_tables *tables = making->tables;
	struct vc_roles *roles = making->roles;

	roles->rows = making->account->rows;
	roles->why = why_not(tables, roles);
	roles->root_length = root_length(tables);
	roles->role = vc_arena_allocate(arena, roles->rows + 1, sizeof(*roles->role));
	roles->how = vc_arena_allocate(arena, roles->rows + 1, sizeof(*roles->how));
	roles->storage = vc_arena_allocate(arena, roles->rows + 1, sizeof(*roles->storage));
	making->places = vc_arena_allocate(arena, tables->rows[VC_TABLE_storages] + 1,
					   sizeof(*making->places));
	making->casts = vc_arena_allocate(arena, tables->rows[VC_TABLE_tensors] + 1,
					  sizeof(*making->casts));
	making->leaf = vc_arena_allocate(arena, tables->rows[VC_TABLE_storages] + 1, 1);
	making->steps = vc_holder_steps(tables, arena);
	if (!roles->role || !roles->how || !roles->storage || !making->places || !making->casts ||
	    !making->leaf || !making->steps)
		return VC_E_NO_MEMORY;
	making->in_backward = !roles->complete && making->names &&
			      vc_backward_failed(tables, making->names, making->file);
	if (making->in_backward)
		roles->why = "what the backward pass had saved can be read on the thread that trains only, "
			     "it is told by stacks";
	sort_places(making);
	look_at_tensors(making);
	for (uint64_t row = 0; row < roles->rows && !making->modules_known; row++)
		making->modules_known = vc_value(tables, VC_COL_allocations_module, row) != 0;
	return 0;
}

int vc_roles_make(const struct vc_tables *tables, const struct vc_account *account,
		  const struct vc_names *names, uint32_t file, struct vc_arena *arena,
		  struct vc_roles *ret)
{
	struct vc_roles roles = {0};
	struct making making = {.tables = tables, .account = account, .names = names, .file = file,
				.roles = &roles};
	int error = prepare(&making, arena);

	for (uint64_t row = 0; !error && row < roles.rows; row++) {
		enum vc_role role = VC_ROLE_UNKNOWN;
		enum vc_role_how how = VC_ROLE_HOW_UNKNOWN;

		if (roles.walked && vc_account_row_bytes(account, tables, row)) {
			roles.storage[row] = storage_in(
				&making, vc_value(tables, VC_COL_allocations_address, row),
				vc_value(tables, VC_COL_allocations_size, row),
				vc_value(tables, VC_COL_allocations_device_plus_one, row));
			role_of(&making, row, roles.storage[row], &role, &how);
		}
		roles.role[row] = (uint8_t)role;
		roles.how[row] = (uint8_t)how;
	}
	if (!error)
		*ret = roles;
	return error;
}

void vc_roles_sum(const struct vc_tables *tables, const struct vc_account *account,
		  const struct vc_roles *roles, uint32_t device_plus_one,
		  struct vc_role_sum ret[VC_ROLES])
{
	memset(ret, 0, VC_ROLES * sizeof(*ret));
	for (uint64_t row = 0; row < roles->rows; row++) {
		uint64_t bytes = vc_account_row_bytes(account, tables, row);
		struct vc_role_sum *sum = &ret[roles->role[row]];

		if (!bytes || vc_value(tables, VC_COL_allocations_kind, row) != VC_KIND_BLOCK ||
		    vc_value(tables, VC_COL_allocations_device_plus_one, row) != device_plus_one)
			continue;
		sum->bytes += bytes;
		sum->count++;
		if (roles->how[row] == VC_ROLE_HOW_INFERRED)
			sum->inferred_bytes += bytes;
	}
}
