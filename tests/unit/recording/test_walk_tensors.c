/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tensors in a walk file, as the recorder's writer makes them, become tables. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/inside/store.h"
#include "capture/inside/walk_file.h"
#include "formats/convert_tensors.h"
#include "formats/walk_tensors.h"
#include "recording_test.h"

static char folder[64];

static int start(void **state)
{
	struct vc_store_options options = {.directory = folder, .name = "walk.vrec",
					   .budget = 64 << 20};

	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/vramcore-walk-XXXXXX");
	return !mkdtemp(folder) || vc_store_start(&options, NULL) != 0;
}

static int end(void **state)
{
	(void)state;
	vc_store_unlink();
	return rmdir(folder);
}

/* Two tensors in one storage, a node that saved one, a way of two steps. */
static struct vc_walk_file *write_walk(void)
{
	struct vc_walk_file *walk = vc_walk_begin(7);
	struct vc_walk_tensor *tensor;

	assert_non_null(walk);
	for (uint64_t i = 0; i < 2; i++) {
		tensor = vc_walk_row(walk, VC_WALK_TENSORS, sizeof(*tensor), NULL);
		*tensor = (struct vc_walk_tensor){
			.object = 0x1000 + i, .data = 0x2000 + i, .offset = 3, .bytes = 4096,
			.storage = 1, .dtype = vc_walk_string(walk, "float32", 7),
			.shape = vc_walk_string(walk, "[32, 32]", 8),
			.name = vc_walk_string(walk, "net.weight", 10),
			.found = VC_FOUND_SAVED, .flags = VC_TENSOR_VIEW, .device_plus_one = 2};
	}
	*(struct vc_walk_storage *)vc_walk_row(walk, VC_WALK_STORAGES,
					       sizeof(struct vc_walk_storage), NULL) =
		(struct vc_walk_storage){0x2000, 8192, 2, 1, VC_FOUND_SAVED, 2};
	*(struct vc_walk_node *)vc_walk_row(walk, VC_WALK_NODES, sizeof(struct vc_walk_node), NULL) =
		(struct vc_walk_node){0x3000, vc_walk_string(walk, "MulBackward0", 12), 1};
	*(struct vc_walk_saved *)vc_walk_row(walk, VC_WALK_SAVED, sizeof(struct vc_walk_saved),
					     NULL) =
		(struct vc_walk_saved){1, 2, vc_walk_string(walk, "self", 4), 1};
	for (uint32_t i = 0; i < 2; i++)
		*(struct vc_walk_step *)vc_walk_row(walk, VC_WALK_STEPS,
						    sizeof(struct vc_walk_step), NULL) =
			(struct vc_walk_step){.parent = i, .kind = i ? VC_STEP_ELEMENT :
									VC_STEP_GLOBAL,
					      .line = i * 5, .count = i * 50000};
	*(struct vc_walk_holder *)vc_walk_row(walk, VC_WALK_HOLDERS, sizeof(struct vc_walk_holder),
					      NULL) = (struct vc_walk_holder){1, 2, 3, 4};
	*(struct vc_walk_walk *)vc_walk_row(walk, VC_WALK_WALKS, sizeof(struct vc_walk_walk), NULL) =
		(struct vc_walk_walk){.flags = VC_WALKED_FULL, .nanoseconds = 99};
	return walk;
}

static int convert(struct vc_walk_file *file, struct vc_tables *ret, struct vc_faults *faults)
{
	char recording[128], path[160];
	struct vc_recording_bytes held;
	struct vc_recording_source source;
	struct vc_walk walk;
	struct stat facts;
	uint32_t number = vc_walk_finish(file);
	uint8_t *bytes;
	int descriptor, error;

	snprintf(recording, sizeof(recording), "%s/walk.vrec", folder);
	assert_true(vc_walk_path(recording, number, path, sizeof(path)));
	assert_int_equal(stat(path, &facts), 0);
	bytes = malloc((size_t)facts.st_size);
	descriptor = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(descriptor, bytes, (size_t)facts.st_size), facts.st_size);
	close(descriptor);
	unlink(path);
	held = (struct vc_recording_bytes){bytes, (uint64_t)facts.st_size};
	vc_recording_source_memory(&held, &source);
	assert_int_equal(vc_walk_open(&source, &walk, faults, NULL), 0);
	assert_int_equal(vc_tables_init(ret), 0);
	error = vc_convert_tensors(&walk, ret);
	vc_walk_close(&walk);
	free(bytes);
	return error;
}

#define VALUE(name, row) made.column[VC_COL_##name][row]
#define assert_cell(column, row, value) assert_int_equal(VALUE(column, row), value)
#define assert_words(column, row, words)                                                           \
	assert_string_equal(vc_tables_text(&made, VALUE(column, row)), words)

static void rows_become_tables(void **state)
{
	struct vc_faults faults = {0};
	struct vc_tables made;

	(void)state;
	assert_int_equal(convert(write_walk(), &made, &faults), 0);
	assert_int_equal(faults.count, 0);
	assert_int_equal(made.rows[VC_TABLE_tensors], 2);
	assert_cell(tensors_object, 1, 0x1001);
	assert_cell(tensors_storage, 1, 1);
	assert_cell(tensors_offset, 0, 3);
	assert_cell(tensors_found, 0, VC_FOUND_SAVED);
	assert_cell(tensors_flags, 0, VC_TENSOR_VIEW);
	assert_cell(tensors_device_plus_one, 1, 2);
	assert_words(tensors_dtype, 1, "float32");
	assert_words(tensors_shape, 1, "[32, 32]");
	assert_words(tensors_strides, 1, "");
	assert_words(tensors_name, 0, "net.weight");
	assert_cell(storages_address, 0, 0x2000);
	assert_cell(storages_bytes, 0, 8192);
	assert_cell(storages_tensors, 0, 2);
	assert_words(graph_nodes_name, 0, "MulBackward0");
	assert_cell(saved_tensors_tensor, 0, 2);
	assert_words(saved_tensors_name, 0, "self");
	assert_cell(saved_tensors_packed, 0, 1);
	assert_cell(holder_steps_parent, 1, 1);
	assert_cell(holder_steps_line, 1, 5);
	assert_cell(holder_steps_count, 1, 50000);
	assert_cell(holders_step, 0, 2);
	assert_cell(holders_ways, 0, 3);
	assert_cell(walks_flags, 0, VC_WALKED_FULL);
	assert_cell(walks_nanoseconds, 0, 99);
	vc_tables_deinit(&made);
}

/* Each reference that lies outside, or forwards, becomes none and a fault; the rest stays. */
static void dangling_references_are_faults(void **state)
{
	struct vc_walk_file *file = write_walk();
	struct vc_faults faults = {0};
	struct vc_tables made;

	(void)state;
	((struct vc_walk_tensor *)vc_walk_row_at(file, VC_WALK_TENSORS, 0))->storage = 2;
	((struct vc_walk_tensor *)vc_walk_row_at(file, VC_WALK_TENSORS, 1))->name = 1u << 30;
	((struct vc_walk_saved *)vc_walk_row_at(file, VC_WALK_SAVED, 0))->tensor = 3;
	((struct vc_walk_holder *)vc_walk_row_at(file, VC_WALK_HOLDERS, 0))->step = UINT32_MAX;
	((struct vc_walk_step *)vc_walk_row_at(file, VC_WALK_STEPS, 0))->parent = 1; /* itself */
	((struct vc_walk_step *)vc_walk_row_at(file, VC_WALK_STEPS, 1))->parent = 2; /* itself */
	assert_int_equal(convert(file, &made, &faults), 0);
	assert_int_equal(faults.count, 6);
	assert_cell(tensors_storage, 0, 0);
	assert_cell(tensors_storage, 1, 1);
	assert_words(tensors_name, 1, "");
	assert_cell(saved_tensors_tensor, 0, 0);
	assert_cell(saved_tensors_node, 0, 1);
	assert_cell(holders_step, 0, 0);
	assert_cell(holder_steps_parent, 0, 0);
	assert_cell(holder_steps_parent, 1, 0);
	vc_tables_deinit(&made);
}

static void two_walks_are_refused(void **state)
{
	struct vc_walk_file *file = write_walk();
	struct vc_tables made;

	(void)state;
	assert_non_null(vc_walk_row(file, VC_WALK_WALKS, sizeof(struct vc_walk_walk), NULL));
	assert_int_equal(convert(file, &made, NULL), VC_E_CORRUPT);
	vc_tables_deinit(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_become_tables),
		cmocka_unit_test(dangling_references_are_faults),
		cmocka_unit_test(two_walks_are_refused),
	};

	return cmocka_run_group_tests(tests, start, end);
}
