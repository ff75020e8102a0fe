/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/analyze/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static void must(int error)
{
	if (error) {
		fprintf(stderr, "building tables: %s\n", vc_error_text(error));
		exit(1);
	}
}

uint64_t build_row(struct vc_tables *tables, enum vc_table_index table)
{
	uint64_t row;

	must(vc_tables_append(tables, table, &row));
	return row;
}

void build_set(struct vc_tables *tables, enum vc_column_index column, uint64_t row, uint64_t value)
{
	tables->column[column][row] = value;
}

uint64_t build_string(struct vc_tables *tables, const char *text)
{
	uint64_t row;

	must(vc_tables_string(tables, text, strlen(text), &row));
	return row;
}

void build_text(struct vc_tables *tables, enum vc_column_index column, uint64_t row,
		const char *text)
{
	build_set(tables, column, row, build_string(tables, text));
}

void build_process(struct vc_tables *tables, uint64_t step, const char *moment, uint64_t seconds,
		   uint64_t number)
{
	uint64_t row = build_row(tables, VC_TABLE_process);

	build_set(tables, VC_COL_process_pid, row, 4711);
	build_text(tables, VC_COL_process_host, row, "gpu-17");
	build_text(tables, VC_COL_process_program, row, "/home/me/build/train");
	build_text(tables, VC_COL_process_boot_id, row, "b007");
	build_text(tables, VC_COL_process_moment, row, moment);
	build_text(tables, VC_COL_process_trigger, row, "step");
	build_set(tables, VC_COL_process_start_time, row, 1796000000 * SECOND);
	build_set(tables, VC_COL_process_snapshot_time, row, (1796000000 + seconds) * SECOND);
	build_set(tables, VC_COL_process_number, row, number);
	if (step != UINT64_MAX) {
		build_set(tables, VC_COL_process_step, row, step);
		build_set(tables, VC_COL_process_steps_known, row, 1);
	}
}

void build_device(struct vc_tables *tables, uint64_t ordinal, const char *name, const char *uuid,
		  uint64_t total, uint64_t free_bytes)
{
	uint64_t row = build_row(tables, VC_TABLE_devices);

	build_set(tables, VC_COL_devices_device, row, ordinal);
	build_text(tables, VC_COL_devices_name, row, name);
	build_text(tables, VC_COL_devices_uuid, row, uuid);
	build_set(tables, VC_COL_devices_total, row, total);
	build_set(tables, VC_COL_devices_driver_version, row, 13000);
	if (free_bytes != UINT64_MAX) {
		build_set(tables, VC_COL_devices_used_known, row, 1);
		build_set(tables, VC_COL_devices_free, row, free_bytes);
	}
}

uint64_t build_module(struct vc_tables *tables, const char *path, const char *build_id)
{
	uint64_t row = build_row(tables, VC_TABLE_modules);

	build_text(tables, VC_COL_modules_path, row, path);
	build_text(tables, VC_COL_modules_build_id, row, build_id);
	return row + 1;
}

uint64_t build_stack(struct vc_tables *tables, const struct build_frame *frames)
{
	uint64_t stack = build_row(tables, VC_TABLE_stacks), count = 0;

	build_set(tables, VC_COL_stacks_first, stack, tables->rows[VC_TABLE_frames]);
	for (; frames->module; frames++, count++) {
		uint64_t row = build_row(tables, VC_TABLE_frames);

		build_set(tables, VC_COL_frames_module, row, frames->module);
		build_set(tables, VC_COL_frames_offset, row, frames->offset);
	}
	build_set(tables, VC_COL_stacks_count, stack, count);
	return stack + 1;
}

void build_evidence(struct vc_tables *tables, const char *key, uint64_t value)
{
	uint64_t row = build_row(tables, VC_TABLE_evidence);

	build_text(tables, VC_COL_evidence_key, row, key);
	build_set(tables, VC_COL_evidence_value, row, value);
}

uint64_t build_allocation(struct vc_tables *tables, struct build_allocation allocation)
{
	uint64_t row = build_row(tables, VC_TABLE_allocations);
	const struct {
		enum vc_column_index column;
		uint64_t value;
	} values[] = {
		{VC_COL_allocations_kind, allocation.kind},
		{VC_COL_allocations_address, allocation.address},
		{VC_COL_allocations_size, allocation.size},
		{VC_COL_allocations_requested, allocation.size},
		{VC_COL_allocations_stack, allocation.stack},
		{VC_COL_allocations_step, allocation.step},
		{VC_COL_allocations_birth, allocation.birth},
		{VC_COL_allocations_parent, allocation.parent},
		{VC_COL_allocations_stream, allocation.stream},
		{VC_COL_allocations_thread, allocation.thread},
		{VC_COL_allocations_state, allocation.state ? allocation.state : VC_STATE_LIVE},
		{VC_COL_allocations_device_plus_one, allocation.device_plus_one},
		{VC_COL_allocations_time, (1796000000 + allocation.seconds) * SECOND},
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		build_set(tables, values[i].column, row, values[i].value);
	if (allocation.label)
		build_text(tables, VC_COL_allocations_label, row, allocation.label);
	return row;
}
