/* SPDX-License-Identifier: Apache-2.0 */
/* Roles of blocks, their sums, rows by role, module, tensor and holder, ways in words. */
#include "tests/unit/analyze/cmocka.h"

#include <stdio.h>
#include <string.h>

#include "analyze/arena.h"
#include "analyze/model.h"
#include "analyze/text.h"
#include "analyze/views/ledger.h"
#include "analyze/views/tensors.h"
#include "formats/walk_tensors.h"
#include "tests/unit/analyze/builder.h"

#define MIB (UINT64_C(1) << 20)
#define SEGMENT UINT64_C(0x7f0000000000)
#define LAYERS 3u

static struct vc_tables tables;
static struct vc_account account;
static struct vc_arena arena;
static uint64_t next_address, next_birth = 2;

static uint64_t block(uint64_t size, const char *module)
{
	uint64_t row = build_allocation(&tables, (struct build_allocation){
							 .kind = VC_KIND_BLOCK,
							 .address = next_address,
							 .size = size,
							 .birth = next_birth++,
							 .parent = 1,
							 .device_plus_one = 1});

	build_text(&tables, VC_COL_allocations_module, row, module);
	next_address += size;
	return vc_value(&tables, VC_COL_allocations_address, row);
}

/* A tensor in a storage of its own; row of storages plus 1. */
static uint64_t tensor(uint64_t address, enum vc_tensor_found found, const char *name,
		       const char *detail, uint64_t flags)
{
	uint64_t row = build_row(&tables, VC_TABLE_tensors);
	uint64_t storage = build_row(&tables, VC_TABLE_storages);

	build_set(&tables, VC_COL_tensors_storage, row, storage + 1);
	build_set(&tables, VC_COL_tensors_found, row, found);
	build_set(&tables, VC_COL_tensors_flags, row, flags);
	build_set(&tables, VC_COL_tensors_device_plus_one, row, 1);
	build_text(&tables, VC_COL_tensors_name, row, name);
	build_text(&tables, VC_COL_tensors_detail, row, detail);
	build_text(&tables, VC_COL_tensors_dtype, row, "float32");
	build_text(&tables, VC_COL_tensors_shape, row, "[32, 1558]");
	build_set(&tables, VC_COL_storages_address, storage, address);
	build_set(&tables, VC_COL_storages_tensor, storage, row + 1);
	build_set(&tables, VC_COL_storages_tensors, storage, 1);
	build_set(&tables, VC_COL_storages_found, storage, found);
	build_set(&tables, VC_COL_storages_device_plus_one, storage, 1);
	return storage + 1;
}

/* Row of holder_steps plus 1. */
static uint64_t step(uint64_t parent, enum vc_step_kind kind, const char *text, const char *owner,
		     uint64_t count)
{
	uint64_t row = build_row(&tables, VC_TABLE_holder_steps);

	build_set(&tables, VC_COL_holder_steps_parent, row, parent);
	build_set(&tables, VC_COL_holder_steps_kind, row, kind);
	build_text(&tables, VC_COL_holder_steps_text, row, text);
	build_text(&tables, VC_COL_holder_steps_owner, row, owner);
	build_text(&tables, VC_COL_holder_steps_file, row,
		   kind == VC_STEP_GLOBAL ? "/home/me/train.py" : "");
	build_set(&tables, VC_COL_holder_steps_count, row, count);
	return row + 1;
}

static void held(uint64_t storage, uint64_t step_plus_one)
{
	uint64_t row = build_row(&tables, VC_TABLE_holders);

	build_set(&tables, VC_COL_holders_storage, row, storage);
	build_set(&tables, VC_COL_holders_step, row, step_plus_one);
}

static void build_layers(void)
{
	char name[64];

	for (unsigned i = 0; i < LAYERS; i++) {
		snprintf(name, sizeof(name), "Net.layers.%u.weight", i);
		tensor(block(4 * MIB, ""), VC_FOUND_PARAMETER, name, "", VC_TENSOR_LEAF);
		tensor(block(4 * MIB, ""), VC_FOUND_GRADIENT, name, ".grad", VC_TENSOR_LEAF);
		tensor(block(8 * MIB, ""), VC_FOUND_OPTIMIZER, name, "AdamW.exp_avg", 0);
		snprintf(name, sizeof(name), "Net.layers.%u", i);
		tensor(block(2 * MIB, name), VC_FOUND_SAVED, "", "GeluBackward0.self",
		       VC_TENSOR_HAS_GRAD_FN);
	}
}

static int build(void **state)
{
	uint64_t row, metric, list, seen;

	(void)state;
	vc_tables_init(&tables);
	build_process(&tables, 7, "before-backward", 10, 100);
	build_device(&tables, 0, "GPU", "", 1024 * MIB, UINT64_MAX);
	build_allocation(&tables, (struct build_allocation){.kind = VC_KIND_LINEAR,
							   .address = SEGMENT,
							   .size = 256 * MIB,
							   .birth = 1,
							   .device_plus_one = 1});
	next_address = SEGMENT;
	build_layers();
	/* the batch: saved, needs no gradient, allocated below no module, held by a variable */
	held(tensor(block(MIB, ""), VC_FOUND_SAVED, "", "AddmmBackward0.mat1", VC_TENSOR_LEAF),
	     step(0, VC_STEP_LOCAL, "x", "train", 0));
	/* two outputs in a list, and a cache by its name */
	metric = step(0, VC_STEP_GLOBAL, "metric", "__main__", 0);
	seen = step(metric, VC_STEP_ATTRIBUTE, "seen", "Accuracy", 0);
	list = step(seen, VC_STEP_ELEMENT, "list", "", 50000);
	for (unsigned i = 0; i < 2; i++)
		held(tensor(block(3 * MIB, "Net.head"), VC_FOUND_OBJECT, "", "", 0), list);
	held(tensor(block(5 * MIB, ""), VC_FOUND_OBJECT, "", "", 0),
	     step(metric, VC_STEP_ATTRIBUTE, "kv_cache", "Model", 0));
	/* a view of a parameter's block: counted once, under the stronger way */
	tensor(SEGMENT + MIB, VC_FOUND_OBJECT, "", "", VC_TENSOR_VIEW);
	/* a block that nothing is known of */
	block(MIB, "");
	/* of another device, at an address inside: not taken */
	row = tables.rows[VC_TABLE_storages];
	tensor(next_address - MIB, VC_FOUND_PARAMETER, "Net.other.weight", "", 0);
	build_set(&tables, VC_COL_storages_device_plus_one, row, 2);
	row = build_row(&tables, VC_TABLE_walks);
	build_set(&tables, VC_COL_walks_flags, row, VC_WALKED_FULL | VC_WALKED_HOLDERS);
	assert_int_equal(vc_account_make(&tables, VC_ACCOUNT_AUTO, VC_COLUMNS, &account), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	vc_account_deinit(&account);
	vc_arena_deinit(&arena);
	vc_tables_deinit(&tables);
	return 0;
}

/* Blocks as `block`, told apart by their size, and what becomes of them. */
static uint64_t small(uint64_t units)
{
	return block(units * 512, "");
}

static enum vc_role role_of_size(const struct vc_roles *roles, uint64_t units,
				 enum vc_role_how *ret_how)
{
	for (uint64_t row = 0; row < roles->rows; row++)
		if (vc_value(&tables, VC_COL_allocations_size, row) == units * 512) {
			*ret_how = (enum vc_role_how)roles->how[row];
			return (enum vc_role)roles->role[row];
		}
	fail_msg("no block of %u units", (unsigned)units);
	return VC_ROLES;
}

static struct vc_roles roles_of(void)
{
	struct vc_roles roles;

	assert_int_equal(vc_roles_make(&tables, &account, NULL, 0, &arena, &roles), 0);
	return roles;
}

static void sums_add_up(void **state)
{
	struct vc_roles roles = roles_of();
	struct vc_role_sum sums[VC_ROLES];
	uint64_t bytes = 0, count = 0;

	(void)state;
	assert_true(roles.walked && roles.complete);
	vc_roles_sum(&tables, &account, &roles, 1, sums);
	for (unsigned role = 0; role < VC_ROLES; role++) {
		bytes += sums[role].bytes;
		count += sums[role].count;
	}
	assert_int_equal(bytes, account.devices[account.device_count - 1].live_bytes);
	assert_int_equal(count, LAYERS * 4 + 5);
	assert_int_equal(sums[VC_ROLE_PARAMETER].bytes, LAYERS * 4 * MIB);
	assert_int_equal(sums[VC_ROLE_GRADIENT].bytes, LAYERS * 4 * MIB);
	assert_int_equal(sums[VC_ROLE_OPTIMIZER].bytes, LAYERS * 8 * MIB);
	assert_int_equal(sums[VC_ROLE_ACTIVATION].bytes, LAYERS * 2 * MIB);
	assert_int_equal(sums[VC_ROLE_INPUT].bytes, MIB);
	assert_int_equal(sums[VC_ROLE_INPUT].inferred_bytes, MIB);
	assert_int_equal(sums[VC_ROLE_OTHER].bytes, 6 * MIB);
	assert_int_equal(sums[VC_ROLE_OTHER].inferred_bytes, 0);
	assert_int_equal(sums[VC_ROLE_KV_CACHE].bytes, 5 * MIB);
	assert_int_equal(sums[VC_ROLE_KV_CACHE].inferred_bytes, 5 * MIB);
	assert_int_equal(sums[VC_ROLE_UNKNOWN].bytes, MIB);
	vc_roles_sum(&tables, &account, &roles, 2, sums);
	for (unsigned role = 0; role < VC_ROLES; role++)
		assert_int_equal(sums[role].bytes, 0);
}

static void ledger_has_roles_first(void **state)
{
	struct vc_roles roles = roles_of();
	struct vc_ledger ledger;
	int64_t bytes = 0;

	(void)state;
	assert_int_equal(vc_ledger_make(&tables, &account, &roles, 1, &ledger), 0);
	assert_string_equal(ledger.rows[0].key, "parameter");
	assert_string_equal(ledger.rows[1].key, "gradient");
	assert_string_equal(ledger.rows[2].key, "optimizer");
	assert_string_equal(ledger.rows[3].key, "activation");
	assert_string_equal(ledger.rows[3].how, "exact");
	assert_string_equal(ledger.rows[4].key, "input");
	assert_string_equal(ledger.rows[4].how, "inferred");
	for (unsigned i = 0; i < ledger.count; i++) {
		bytes += ledger.rows[i].bytes;
		assert_string_not_equal(ledger.rows[i].key, "block");
	}
	assert_int_equal(bytes, 1024 * MIB);
}

static const struct vc_tensor_row *row_by_text(const struct vc_tensor_rows *rows, const char *text)
{
	for (uint64_t i = 0; i < rows->count; i++)
		if (!strcmp(rows->rows[i].text, text))
			return &rows->rows[i];
	fail_msg("no row \"%s\"", text);
	return NULL;
}

static struct vc_tensor_rows rows_by(const struct vc_roles *roles, struct vc_tensors_options options)
{
	struct vc_tensor_rows rows;

	options.device_plus_one = 1;
	assert_int_equal(vc_tensor_rows_make(&tables, &account, roles, NULL, &options, &arena,
					     &rows), 0);
	return rows;
}

/* The first block. */
static void resize(int64_t by)
{
	tables.column[VC_COL_allocations_size][1] += (uint64_t)by;
	vc_account_deinit(&account);
	assert_int_equal(vc_account_make(&tables, VC_ACCOUNT_AUTO, VC_COLUMNS, &account), 0);
}

static void equal_layers_fold(void **state)
{
	struct vc_roles roles = roles_of();
	struct vc_tensors_options options = {.by = VC_TENSORS_BY_MODULE,
					     .role_set = 1u << VC_ROLE_ACTIVATION};
	struct vc_tensor_rows rows = rows_by(&roles, options);
	const struct vc_tensor_row *row;

	(void)state;
	assert_int_equal(rows.count, 1);
	assert_string_equal(rows.rows[0].text, "layers.*");
	assert_int_equal(rows.rows[0].bytes, LAYERS * 2 * MIB);
	assert_int_equal(rows.rows[0].folded, LAYERS);
	assert_string_equal(rows.rows[0].detail, "GeluBackward0.self");
	options.no_fold = true;
	rows = rows_by(&roles, options);
	assert_int_equal(rows.count, LAYERS);
	row_by_text(&rows, "layers.2");
	options = (struct vc_tensors_options){.by = VC_TENSORS_BY_TENSOR};
	rows = rows_by(&roles, options);
	row = row_by_text(&rows, "layers.*.weight AdamW.exp_avg");
	assert_int_equal(row->bytes, LAYERS * 8 * MIB);
	assert_int_equal(rows.bytes, account.devices[account.device_count - 1].live_bytes);
	/* one layer that is larger keeps them apart */
	resize(-512);
	roles = roles_of();
	rows = rows_by(&roles, options);
	row_by_text(&rows, "layers.0.weight");
	row_by_text(&rows, "layers.2.weight");
	resize(512);
}

static void holders_are_named_once(void **state)
{
	struct vc_roles roles = roles_of();
	struct vc_tensor_rows rows = rows_by(&roles, (struct vc_tensors_options){
							     .by = VC_TENSORS_BY_HOLDER,
							     .role_set = 1u << VC_ROLE_OTHER});

	(void)state;
	assert_int_equal(rows.count, 1);
	assert_string_equal(rows.rows[0].text,
			    "train.py global `metric` -> Accuracy.seen -> list of 50,000");
	assert_int_equal(rows.rows[0].count, 2);
	assert_true(rows.rows[0].alike);
	assert_string_equal(rows.rows[0].kind, "float32 [32, 1558]");
}

static void damaged_ways_end(void **state)
{
	uint64_t row = tables.rows[VC_TABLE_holder_steps];
	struct vc_text text = {0};

	(void)state;
	/* a step that is its own parent, and one that refers forwards */
	step(row + 1, VC_STEP_KEY, "'self'", "", 0);
	vc_holder_text(&text, &tables, row + 1);
	assert_string_equal(vc_text_get(&text), "['self']");
	vc_text_clear(&text);
	step(row + 3, VC_STEP_KEY, "'a'", "", 0);
	step(row + 2, 12345, "'b'", "", 0);
	vc_holder_text(&text, &tables, row + 3);
	assert_string_equal(vc_text_get(&text), "['a'] -> 'b'");
	vc_text_clear(&text);
	vc_holder_text(&text, &tables, 0);
	assert_string_equal(vc_text_get(&text), "not known");
	vc_text_deinit(&text);
}

/* The same tables with more in them: the sums of the tests before do not hold any more. */
static void rules_fit_what_they_are_for(void **state)
{
	static const struct {
		const char *text, *owner;
		enum vc_role role;
	} way[] = {{"k_cache", "Attention", VC_ROLE_KV_CACHE},
		   {"mask_cache", "Model", VC_ROLE_OTHER},
		   {"conv_cache", "Mamba", VC_ROLE_OTHER},
		   {"layer_v_caches", "Model", VC_ROLE_KV_CACHE},
		   {"past_key_values", "generate", VC_ROLE_KV_CACHE},
		   {"keys", "DynamicSlidingWindowLayer", VC_ROLE_KV_CACHE},
		   {"keys", "Registry", VC_ROLE_OTHER},
		   {"keys_seen", "DynamicLayer", VC_ROLE_OTHER},
		   {"all_gather_state", "FSDPCommContext", VC_ROLE_COMMUNICATION},
		   {"ipg_buckets", "DeepSpeedZeroOptimizer_Stage3", VC_ROLE_COMMUNICATION}};
	const unsigned count = sizeof(way) / sizeof(way[0]);
	enum vc_role_how how;
	struct vc_roles roles;
	uint64_t address;

	(void)state;
	for (unsigned i = 0; i < count; i++)
		held(tensor(small(1 + i), VC_FOUND_OBJECT, "", "", 0),
		     step(0, VC_STEP_ATTRIBUTE, way[i].text, way[i].owner, 0));
	/* saved by the graph alone, allocated below no module: a mask of an operator */
	tensor(small(20), VC_FOUND_SAVED, "", "NativeDropoutBackward0.result1", VC_TENSOR_LEAF);
	/* weights of the program's own, and what compiled code sees of such */
	tensor(small(21), VC_FOUND_SAVED, "", "MmBackward0.mat2",
	       VC_TENSOR_LEAF | VC_TENSOR_REQUIRES_GRAD);
	address = small(22);
	held(tensor(address, VC_FOUND_SAVED, "", "CompiledFunctionBackward", VC_TENSOR_LEAF),
	     step(0, VC_STEP_LOCAL, "w", "train", 0));
	build_set(&tables, VC_COL_tensors_storage, build_row(&tables, VC_TABLE_tensors),
		  tables.rows[VC_TABLE_storages]);
	build_set(&tables, VC_COL_tensors_flags, tables.rows[VC_TABLE_tensors] - 1,
		  VC_TENSOR_LEAF | VC_TENSOR_REQUIRES_GRAD);
	vc_account_deinit(&account);
	assert_int_equal(vc_account_make(&tables, VC_ACCOUNT_AUTO, VC_COLUMNS, &account), 0);
	roles = roles_of();
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(role_of_size(&roles, 1 + i, &how), way[i].role);
		assert_int_equal(how, way[i].role == VC_ROLE_OTHER ? VC_ROLE_HOW_EXACT :
								     VC_ROLE_HOW_INFERRED);
	}
	assert_int_equal(role_of_size(&roles, 20, &how), VC_ROLE_ACTIVATION);
	assert_int_equal(role_of_size(&roles, 21, &how), VC_ROLE_OTHER);
	assert_int_equal(role_of_size(&roles, 22, &how), VC_ROLE_OTHER);
	/* where gradients were not read an object may be one */
	tables.column[VC_COL_walks_flags][0] &= ~(uint64_t)VC_WALKED_FULL;
	roles = roles_of();
	assert_int_equal(role_of_size(&roles, 2, &how), VC_ROLE_OTHER);
	assert_int_equal(how, VC_ROLE_HOW_INFERRED);
	tables.column[VC_COL_walks_flags][0] |= VC_WALKED_FULL;
}

static void nothing_without_a_walk(void **state)
{
	struct vc_role_sum sums[VC_ROLES];
	uint64_t rows = tables.rows[VC_TABLE_walks];
	struct vc_roles roles;

	(void)state;
	tables.rows[VC_TABLE_walks] = 0;
	roles = roles_of();
	assert_false(roles.walked);
	assert_string_equal(roles.why, "the interpreter was not asked");
	vc_roles_sum(&tables, &account, &roles, 1, sums);
	assert_int_equal(sums[VC_ROLE_UNKNOWN].bytes,
			 account.devices[account.device_count - 1].live_bytes);
	tables.rows[VC_TABLE_walks] = rows;
	tables.column[VC_COL_walks_flags][0] &= ~(uint64_t)VC_WALKED_FULL;
	roles = roles_of();
	assert_true(roles.walked && !roles.complete && *roles.why);
	tables.column[VC_COL_walks_flags][0] |= VC_WALKED_FULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_add_up),
		cmocka_unit_test(ledger_has_roles_first),
		cmocka_unit_test(equal_layers_fold),
		cmocka_unit_test(holders_are_named_once),
		cmocka_unit_test(damaged_ways_end),
		cmocka_unit_test(nothing_without_a_walk),
		cmocka_unit_test(rules_fit_what_they_are_for),
	};

	return cmocka_run_group_tests(tests, build, end);
}
