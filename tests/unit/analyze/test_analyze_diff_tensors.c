/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two and three files of one process compared by role, module and tensor: every number here is
 * worked out by hand from what is built.
 */
#include "tests/unit/analyze/cmocka.h"

#include <stdio.h>
#include <string.h>

#include "analyze/arena.h"
#include "analyze/model.h"
#include "analyze/views/diff_tensors.h"
#include "formats/walk_tensors.h"
#include "tests/unit/analyze/builder.h"

#define MIB (UINT64_C(1) << 20)
#define SEGMENT UINT64_C(0x7f0000000000)
#define LAYERS 3u
#define FILES 3u
#define BY_STEP 4u   /* blocks that the leak adds in a step */

struct file {
	struct vc_tables tables;
	struct vc_account account;
	struct vc_roles roles;
	uint64_t next_address;
	uint64_t seen, other; /* rows of holder_steps plus 1 */
};

static struct file files[FILES];
static struct vc_arena arena;

static uint64_t block(struct file *file, uint64_t size, uint64_t birth, uint64_t step,
		      const char *module)
{
	uint64_t row = build_allocation(&file->tables, (struct build_allocation){
							       .kind = VC_KIND_BLOCK,
							       .address = file->next_address,
							       .size = size,
							       .birth = birth,
							       .step = step,
							       .parent = 1,
							       .device_plus_one = 1});

	build_text(&file->tables, VC_COL_allocations_module, row, module);
	file->next_address += size;
	return vc_value(&file->tables, VC_COL_allocations_address, row);
}

static uint64_t tensor(struct file *file, uint64_t address, enum vc_tensor_found found,
		       const char *name, const char *shape)
{
	uint64_t row = build_row(&file->tables, VC_TABLE_tensors);
	uint64_t storage = build_row(&file->tables, VC_TABLE_storages);

	build_set(&file->tables, VC_COL_tensors_storage, row, storage + 1);
	build_set(&file->tables, VC_COL_tensors_found, row, found);
	build_set(&file->tables, VC_COL_tensors_device_plus_one, row, 1);
	build_text(&file->tables, VC_COL_tensors_name, row, name);
	build_text(&file->tables, VC_COL_tensors_dtype, row, "float32");
	build_text(&file->tables, VC_COL_tensors_shape, row, shape);
	build_set(&file->tables, VC_COL_storages_address, storage, address);
	build_set(&file->tables, VC_COL_storages_tensor, storage, row + 1);
	build_set(&file->tables, VC_COL_storages_found, storage, found);
	build_set(&file->tables, VC_COL_storages_device_plus_one, storage, 1);
	return storage + 1;
}

/* A variable that keeps things; row of holder_steps plus 1. */
static uint64_t variable(struct file *file, const char *name)
{
	uint64_t step = build_row(&file->tables, VC_TABLE_holder_steps);

	build_set(&file->tables, VC_COL_holder_steps_kind, step, VC_STEP_GLOBAL);
	build_text(&file->tables, VC_COL_holder_steps_text, step, name);
	build_text(&file->tables, VC_COL_holder_steps_owner, step, "__main__");
	return step + 1;
}

static void held(struct file *file, uint64_t storage, uint64_t step)
{
	uint64_t row = build_row(&file->tables, VC_TABLE_holders);

	build_set(&file->tables, VC_COL_holders_storage, row, storage);
	build_set(&file->tables, VC_COL_holders_step, row, step);
}

/* Of layers the first one has more in the last file. */
static void build_layers(struct file *file, uint64_t number)
{
	char name[64];

	for (unsigned i = 0; i < LAYERS; i++) {
		snprintf(name, sizeof(name), "Net.layers.%u.weight", i);
		tensor(file, block(file, 4 * MIB, 2 + i, 0, ""), VC_FOUND_PARAMETER, name, "[4, 4]");
		snprintf(name, sizeof(name), "Net.layers.%u", i);
		tensor(file, block(file, 2 * MIB + (i || number < 2 ? 0 : MIB),
				   10 + i + 100000 * number, number * 10, name),
		       VC_FOUND_SAVED, "", "[32, 8]");
	}
}

/* Blocks 100, 101, ... of 1 MiB: kept by `seen`; one of each step in the middle also by `other`. */
static void build_leak(struct file *file, uint64_t number)
{
	file->seen = variable(file, "seen");
	file->other = variable(file, "other");
	for (uint64_t i = 0; i < 10 * number * BY_STEP; i++)
		held(file,
		     tensor(file, block(file, MIB, 100 + i, i / BY_STEP + 1, ""), VC_FOUND_OBJECT, "",
			    i % 8 == 3 ? "[7]" : "[8, 1000]"),
		     i % 8 == 3 ? file->other : file->seen);
}

static int make(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < FILES; i++) {
		struct file *file = &files[i];
		uint64_t row;

		vc_tables_init(&file->tables);
		/* births up to 100 and the leak's so far are in */
		build_process(&file->tables, i * 10, "before-backward", 100 + i,
			      99 + 10 * i * BY_STEP);
		build_device(&file->tables, 0, "GPU", "", 1024 * MIB, UINT64_MAX);
		build_allocation(&file->tables, (struct build_allocation){.kind = VC_KIND_LINEAR,
									 .address = SEGMENT,
									 .size = 512 * MIB,
									 .birth = 1,
									 .device_plus_one = 1});
		file->next_address = SEGMENT;
		build_layers(file, i);
		build_leak(file, i);
		row = build_row(&file->tables, VC_TABLE_walks);
		build_set(&file->tables, VC_COL_walks_flags, row,
			  VC_WALKED_FULL | VC_WALKED_HOLDERS);
		assert_int_equal(vc_account_make(&file->tables, VC_ACCOUNT_AUTO, VC_COLUMNS,
						 &file->account), 0);
		assert_int_equal(vc_roles_make(&file->tables, &file->account, NULL, 0, &arena,
					       &file->roles), 0);
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FILES; i++) {
		vc_account_deinit(&files[i].account);
		vc_tables_deinit(&files[i].tables);
	}
	vc_arena_deinit(&arena);
	return 0;
}

/* Files first, first + 1, ...; steps are the axis. */
static struct vc_diff_tensors compare(unsigned first, unsigned count,
				      struct vc_diff_tensors_options options)
{
	struct vc_diff_input inputs[FILES];
	struct vc_roles roles[FILES];
	double x[FILES];
	struct vc_diff diff = {.axis = VC_AXIS_STEPS, .x = x, .files = count};
	struct vc_diff_tensors made;

	for (unsigned i = 0; i < count; i++) {
		inputs[i] = (struct vc_diff_input){&files[first + i].tables,
						   &files[first + i].account, i};
		roles[i] = files[first + i].roles;
		x[i] = (double)(first + i) * 10;
	}
	options.device_plus_one = 1;
	assert_int_equal(vc_diff_tensors_make(inputs, roles, &diff, &options, &arena, &made), 0);
	return made;
}

static const struct vc_diff_tensor_row *row_by_text(const struct vc_diff_tensors *made,
						    const char *text)
{
	for (uint64_t i = 0; i < made->rows_count; i++)
		if (!strcmp(made->rows[i].text, text))
			return &made->rows[i];
	fail_msg("no row \"%s\"", text);
	return NULL;
}

static void by_role(void **state)
{
	struct vc_diff_tensors made = compare(1, 2, (struct vc_diff_tensors_options){
							    .by = VC_TENSORS_BY_ROLE,
							    .same_moment = true});
	const struct vc_diff_tensor_row *row;

	(void)state;
	assert_int_equal(made.bytes[0], (LAYERS * 6 + 40) * MIB);
	assert_int_equal(made.bytes[1], (LAYERS * 6 + 1 + 80) * MIB);
	assert_int_equal(made.growth, 41 * (int64_t)MIB);
	assert_int_equal(made.rows_count, 2);
	assert_int_equal(made.grew, 2);
	assert_int_equal(made.unchanged, 1); /* parameters */
	row = &made.rows[0];
	assert_string_equal(row->text, "other live tensors");
	assert_int_equal(row->growth, 40 * (int64_t)MIB);
	assert_int_equal(row->count_growth, 40);
	assert_true(row->rate == 4 * (double)MIB);
	assert_int_equal(row->shape, VC_SHAPE_LINEAR);
	/* of forty blocks every eighth is held by another variable */
	assert_int_equal(row->held_count, 35);
	assert_int_equal(row->held_bytes, 35 * MIB);
	assert_string_equal(row->held_kind, "float32 [8, 1000]");
	assert_int_equal(row->held_role, VC_ROLE_OTHER);
	assert_non_null(strstr(row->holder, "seen"));
	row = &made.rows[1];
	assert_string_equal(row->text, "activations");
	assert_int_equal(row->growth, (int64_t)MIB);
	assert_int_equal(row->count_growth, 0);
}

static void by_module_and_tensor(void **state)
{
	struct vc_diff_tensors_options options = {.by = VC_TENSORS_BY_MODULE, .same_moment = true};
	struct vc_diff_tensors made = compare(1, 2, options);
	const struct vc_diff_tensor_row *row;

	(void)state;
	row = row_by_text(&made, "layers.0");
	assert_int_equal(row->bytes[0], 6 * MIB);
	assert_int_equal(row->bytes[1], 7 * MIB);
	assert_int_equal(row_by_text(&made, "(no module)")->growth, 40 * (int64_t)MIB);
	assert_int_equal(made.rows_count, 2);
	assert_int_equal(made.unchanged, 2);

	options.by = VC_TENSORS_BY_TENSOR;
	made = compare(1, 2, options);
	row = row_by_text(&made, "float32 [8, 1000]");
	assert_int_equal(row->growth, 35 * (int64_t)MIB);
	assert_int_equal(row->held_count, 35);
	row = row_by_text(&made, "float32 [7]");
	assert_int_equal(row->growth, 5 * (int64_t)MIB);
	assert_int_equal(row->held_count, 5);
	assert_non_null(strstr(row->holder, "other"));
	/* the weights are equal in both, the saved tensors are one row */
	assert_int_equal(made.unchanged, LAYERS);
}

/* Layers that change alike are one row, those that do not are not. */
static void layers_fold(void **state)
{
	struct vc_diff_tensors_options options = {.by = VC_TENSORS_BY_MODULE, .same_moment = true,
						  .role_set = 1u << VC_ROLE_ACTIVATION};
	struct vc_diff_tensors made;
	unsigned row;

	(void)state;
	/* all layers alike: each grew by 1 MiB more in the last file */
	for (row = 0; row < files[2].account.rows; row++)
		if (vc_value(&files[2].tables, VC_COL_allocations_size, row) == 2 * MIB)
			files[2].tables.column[VC_COL_allocations_size][row] = 3 * MIB;
	vc_account_deinit(&files[2].account);
	assert_int_equal(vc_account_make(&files[2].tables, VC_ACCOUNT_AUTO, VC_COLUMNS,
					 &files[2].account), 0);
	made = compare(1, 2, options);
	assert_int_equal(made.rows_count, 1);
	assert_string_equal(made.rows[0].text, "layers.*");
	assert_int_equal(made.rows[0].folded, LAYERS);
	assert_int_equal(made.rows[0].growth, LAYERS * (int64_t)MIB);
	assert_int_equal(made.rows[0].bytes[0], LAYERS * 2 * MIB);
	options.no_fold = true;
	made = compare(1, 2, options);
	assert_int_equal(made.rows_count, LAYERS);
	row_by_text(&made, "layers.2");
}

/* Three files: the line through 0, 40 and 80 MiB at steps 0, 10 and 20. */
static void trend(void **state)
{
	struct vc_diff_tensors made = compare(0, 3, (struct vc_diff_tensors_options){
							    .by = VC_TENSORS_BY_ROLE,
							    .same_moment = true});
	const struct vc_diff_tensor_row *row = row_by_text(&made, "other live tensors");

	(void)state;
	assert_true(row->is_new);
	assert_int_equal(row->bytes[1], 40 * MIB);
	assert_true(row->rate > 4 * (double)MIB - 1 && row->rate < 4 * (double)MIB + 1);
	assert_true(row->fit > 0.999999);
}

/* Activations live before a backward pass only: they are told, not compared. */
static void different_moments(void **state)
{
	struct vc_diff_tensors made = compare(1, 2, (struct vc_diff_tensors_options){
							    .by = VC_TENSORS_BY_ROLE});

	(void)state;
	assert_int_equal(made.rows_count, 1);
	assert_string_equal(made.rows[0].text, "other live tensors");
	assert_int_equal(made.bytes[0], (LAYERS * 4 + 40) * MIB);
	for (unsigned role = 0; role < VC_ROLES; role++)
		assert_int_equal(made.left_out[role] != NULL, role == VC_ROLE_ACTIVATION);
	assert_int_equal(made.left_out[VC_ROLE_ACTIVATION][0], LAYERS * 2 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(by_role, make, end),
		cmocka_unit_test_setup_teardown(by_module_and_tensor, make, end),
		cmocka_unit_test_setup_teardown(layers_fold, make, end),
		cmocka_unit_test_setup_teardown(trend, make, end),
		cmocka_unit_test_setup_teardown(different_moments, make, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
