/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of conversion at a moment, each on a small recording with an answer worked by hand. */
#include <stdlib.h>

#include "recording_test.h"

static const struct made_sizes small = {{
	[VC_REC_RECORDS] = 16,
	[VC_REC_FREED] = 4,
	[VC_REC_STACKS] = 64,
	[VC_REC_STRINGS] = 64,
	[VC_REC_MODULES] = 4,
	[VC_REC_SITES] = 4,
	[VC_REC_MOMENTS] = 4,
}};

#define START 1000000000000u /* of every made recording, CLOCK_REALTIME */

static void test_golden_now(void **state)
{
	static const uint64_t freed[8] = {5, 7, 15, 18, 20, 21, 22, 23};
	struct made_recording made;
	struct vc_tables tables;
	uint64_t row;

	(void)state;
	made_golden(&made);
	convert_whole(&made, NULL, &tables);
	/* in doubt, 2 to 16 by twos, 9, 11, 13, 25 */
	assert_int_equal(tables.rows[VC_TABLE_allocations], 13);
	assert_int_equal(CELL(&tables, allocations_birth, 0), 0);
	assert_int_equal(CELL(&tables, allocations_state, 0), VC_STATE_IN_DOUBT);
	assert_int_equal(CELL(&tables, allocations_site, 0), 0);
	for (uint64_t i = 1; i < 13; i++)
		assert_true(CELL(&tables, allocations_birth, i) >
			    CELL(&tables, allocations_birth, i - 1));
	assert_int_equal(state_of(&tables, 11), VC_STATE_BEING_FREED);
	assert_int_equal(state_of(&tables, 13), VC_STATE_BEING_FREED);
	assert_int_equal(state_of(&tables, 25), VC_STATE_LIVE);
	row = row_of(&tables, 4);
	assert_int_equal(CELL(&tables, allocations_state, row), VC_STATE_LIVE);
	assert_int_equal(CELL(&tables, allocations_kind, row), VC_KIND_LINEAR);
	assert_int_equal(CELL(&tables, allocations_address, row), 0x7000800000);
	assert_int_equal(CELL(&tables, allocations_size, row), 0x100004);
	assert_int_equal(CELL(&tables, allocations_requested, row), 0xfff04);
	assert_int_equal(CELL(&tables, allocations_device_plus_one, row), 1);
	assert_int_equal(CELL(&tables, allocations_stream, row), 0x55);
	assert_int_equal(CELL(&tables, allocations_context, row), 0x66);
	assert_int_equal(CELL(&tables, allocations_references, row), 1);
	assert_int_equal(CELL(&tables, allocations_time, row), START + 4000);
	assert_int_equal(CELL(&tables, allocations_thread, row), 4242);
	assert_string_equal(TEXT(&tables, allocations_phase, row), "weights");
	assert_string_equal(TEXT(&tables, allocations_module, row), "cuMemAlloc_v2");
	assert_string_equal(TEXT(&tables, allocations_label, row), "weights");
	assert_string_equal(TEXT(&tables, allocations_call, row), "cuMemAlloc_v2");
	assert_int_equal(CELL(&tables, allocations_site, row), 2);
	assert_int_equal(CELL(&tables, allocations_stack, row), 1);
	/* the block lies in it */
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 9)), 4);
	assert_int_equal(CELL(&tables, allocations_parent, row), 0);
	assert_int_equal(tables.rows[VC_TABLE_freed], 8);
	for (uint64_t i = 0; i < 8; i++) {
		assert_int_equal(CELL(&tables, freed_birth, i), freed[i]);
		assert_int_equal(CELL(&tables, freed_death, i), 19 + i);
		assert_int_equal(CELL(&tables, freed_time, i), START + 1000 * freed[i]);
		assert_int_equal(CELL(&tables, freed_death_time, i), START + 19000 + 1000 * i);
		assert_int_equal(CELL(&tables, freed_death_thread, i), 4243);
		assert_int_equal(CELL(&tables, freed_size, i), 0x100000 + freed[i]);
		assert_string_equal(TEXT(&tables, freed_label, i), "weights");
	}
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void check_golden_process(const struct vc_tables *tables)
{
	assert_int_equal(tables->rows[VC_TABLE_process], 1);
	assert_int_equal(CELL(tables, process_pid, 0), 4242);
	assert_int_equal(CELL(tables, process_parent_pid, 0), 4241);
	assert_int_equal(CELL(tables, process_user, 0), 1000);
	assert_int_equal(CELL(tables, process_rank_plus_one, 0), 4);
	assert_int_equal(CELL(tables, process_world_size, 0), 8);
	assert_int_equal(CELL(tables, process_start_time, 0), START);
	assert_string_equal(TEXT(tables, process_host, 0), "node7");
	assert_string_equal(TEXT(tables, process_program, 0), "/usr/bin/train");
	assert_string_equal(TEXT(tables, process_command, 0), "train --steps 10");
	assert_string_equal(TEXT(tables, process_job, 0), "1337");
	assert_string_equal(TEXT(tables, process_recorder_version, 0), "0.1.0");
	assert_string_equal(TEXT(tables, process_boot_id, 0),
			    "10111213-1415-1617-1819-1a1b1c1d1e1f");
	assert_int_equal(CELL(tables, process_steps_known, 0), 1);
}

static void test_golden_tables(void **state)
{
	const struct vc_convert_options options = {.state = "stopped", .moment = "exit"};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	convert_whole(&made, &options, &tables);
	check_golden_process(&tables);
	assert_int_equal(CELL(&tables, process_number, 0), 30);
	assert_int_equal(CELL(&tables, process_step, 0), 2);
	assert_int_equal(CELL(&tables, process_snapshot_time, 0), START + 30000);
	assert_string_equal(TEXT(&tables, process_state, 0), "stopped");
	assert_string_equal(TEXT(&tables, process_trigger, 0), "request");
	assert_string_equal(TEXT(&tables, process_moment, 0), "exit");
	assert_string_equal(TEXT(&tables, process_phase, 0), "weights");

	assert_int_equal(tables.rows[VC_TABLE_modules], 2);
	assert_string_equal(TEXT(&tables, modules_path, 1), "/lib/libcuda.so.1");
	assert_string_equal(TEXT(&tables, modules_build_id, 1), "deadbeef01020300");
	assert_int_equal(CELL(&tables, modules_bias, 1), 0x7f1234560000);
	/* stacks by first use: sites 1 and 2, then the failure */
	assert_int_equal(tables.rows[VC_TABLE_stacks], 3);
	assert_int_equal(CELL(&tables, stacks_count, 0), 2);
	assert_int_equal(CELL(&tables, stacks_end, 0), VC_STACK_LIMIT);
	assert_int_equal(CELL(&tables, stacks_count, 1), 3);
	assert_int_equal(CELL(&tables, stacks_first, 1), 2);
	assert_int_equal(CELL(&tables, stacks_count, 2), 1);
	assert_int_equal(tables.rows[VC_TABLE_frames], 6);
	assert_int_equal(CELL(&tables, frames_module, 3), 2);
	assert_int_equal(CELL(&tables, frames_offset, 3), 0x2222);
	assert_int_equal(CELL(&tables, frames_module, 4), 0);
	assert_int_equal(CELL(&tables, frames_offset, 4), 0x3333);

	assert_int_equal(tables.rows[VC_TABLE_sites], 3);
	assert_int_equal(CELL(&tables, sites_device, 0), UINT64_MAX);
	assert_int_equal(CELL(&tables, sites_peak_bytes, 0), 0);
	assert_int_equal(CELL(&tables, sites_device, 1), 0);
	assert_int_equal(CELL(&tables, sites_stack, 1), 1);
	assert_int_equal(CELL(&tables, sites_allocated_count, 1), 9);
	assert_int_equal(CELL(&tables, sites_allocated_bytes, 1), 9000);
	assert_int_equal(CELL(&tables, sites_freed_count, 1), 4);
	assert_int_equal(CELL(&tables, sites_freed_bytes, 1), 4000);
	/* unchanged since the epoch before the device's: what lives; else what was noted */
	assert_int_equal(CELL(&tables, sites_peak_bytes, 1), 5000);
	assert_int_equal(CELL(&tables, sites_peak_bytes, 2), 8000);

	assert_int_equal(tables.rows[VC_TABLE_devices], 1);
	assert_string_equal(TEXT(&tables, devices_name, 0), "Simulated GPU");
	assert_string_equal(TEXT(&tables, devices_uuid, 0),
			    "GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
	assert_string_equal(TEXT(&tables, devices_pci, 0), "0000:65:00.0");
	assert_int_equal(CELL(&tables, devices_total, 0), 80ull << 30);
	assert_int_equal(CELL(&tables, devices_used_known, 0), 0);
	assert_int_equal(CELL(&tables, devices_live, 0), 5000);
	assert_int_equal(CELL(&tables, devices_peak, 0), 9000);
	assert_int_equal(CELL(&tables, devices_peak_time, 0), START + 123);
	assert_int_equal(CELL(&tables, devices_peak_step, 0), 7);

	assert_int_equal(tables.rows[VC_TABLE_threads], 2);
	assert_string_equal(TEXT(&tables, threads_name, 1), "loader");
	assert_int_equal(tables.rows[VC_TABLE_environment], 2);
	assert_string_equal(TEXT(&tables, environment_name, 1), "NCCL_DEBUG");
	assert_string_equal(TEXT(&tables, environment_value, 1), "INFO");
	assert_int_equal(tables.rows[VC_TABLE_evidence], 2);
	assert_int_equal(evidence_of(&tables, "allocations_seen"), 40);
	assert_int_equal(evidence_of(&tables, "stacks_cut"), 3);
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void test_golden_failures(void **state)
{
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	convert_whole(&made, NULL, &tables);
	assert_int_equal(tables.rows[VC_TABLE_moments], 2);
	assert_int_equal(CELL(&tables, moments_number, 0), 10);
	assert_int_equal(CELL(&tables, moments_time, 0), START + 10500);
	assert_string_equal(TEXT(&tables, moments_moment, 0), "after-step");
	assert_int_equal(tables.rows[VC_TABLE_failures], 1);
	assert_int_equal(CELL(&tables, failures_number, 0), 15);
	assert_string_equal(TEXT(&tables, failures_call, 0), "cuMemAlloc_v2");
	assert_int_equal(CELL(&tables, failures_result, 0), 2);
	assert_int_equal(CELL(&tables, failures_requested, 0), 1 << 20);
	assert_int_equal(CELL(&tables, failures_stack, 0), 3);
	assert_int_equal(CELL(&tables, failures_device, 0), 0);
	assert_int_equal(CELL(&tables, failures_free_known, 0), 1);
	assert_int_equal(CELL(&tables, failures_free, 0), 400);
	assert_int_equal(CELL(&tables, failures_live, 0), 5000);
	assert_int_equal(CELL(&tables, failures_outcome, 0), VC_FAILURE_RETRIED);
	assert_int_equal(tables.rows[VC_TABLE_failure_sites], 2);
	assert_int_equal(CELL(&tables, failure_sites_failure, 1), 0);
	assert_int_equal(CELL(&tables, failure_sites_site, 1), 2);
	assert_int_equal(CELL(&tables, failure_sites_bytes, 1), 4000);
	assert_int_equal(CELL(&tables, failure_sites_count, 1), 4);
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void test_golden_moments(void **state)
{
	struct vc_convert_options options = {.at = VC_AT_MOMENT, .number = 1, .trigger = "never"};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	/* S 20: entries 4, 5, 6 of the ring (births 15, 18, 20) died later; 13 was still whole */
	convert_whole(&made, &options, &tables);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 15);
	assert_int_equal(state_of(&tables, 15), VC_STATE_LIVE);
	assert_int_equal(state_of(&tables, 18), VC_STATE_LIVE);
	assert_int_equal(state_of(&tables, 20), VC_STATE_LIVE);
	assert_int_equal(state_of(&tables, 21), 0);
	assert_int_equal(state_of(&tables, 25), 0);
	assert_int_equal(state_of(&tables, 11), VC_STATE_BEING_FREED);
	assert_int_equal(state_of(&tables, 13), VC_STATE_LIVE);
	assert_int_equal(CELL(&tables, allocations_state, 0), VC_STATE_IN_DOUBT);
	assert_int_equal(tables.rows[VC_TABLE_freed], 2);
	assert_int_equal(CELL(&tables, freed_birth, 1), 7);
	assert_int_equal(tables.rows[VC_TABLE_moments], 2);
	assert_int_equal(CELL(&tables, process_number, 0), 20);
	assert_int_equal(CELL(&tables, process_step, 0), 2);
	assert_int_equal(CELL(&tables, process_snapshot_time, 0), START + 20500);
	assert_string_equal(TEXT(&tables, process_trigger, 0), "step");
	assert_string_equal(TEXT(&tables, process_phase, 0), "");
	assert_int_equal(CELL(&tables, process_deaths_missing, 0), 0);
	assert_int_equal(CELL(&tables, devices_used_known, 0), 1);
	assert_int_equal(CELL(&tables, devices_free, 0), 1000000);
	assert_int_equal(CELL(&tables, devices_graph_known, 0), 1);
	assert_int_equal(CELL(&tables, devices_graph_used, 0), 2000);
	assert_int_equal(CELL(&tables, devices_graph_reserved, 0), 3000);
	assert_int_equal(CELL(&tables, devices_pool_known, 0), 0); /* half of it is nothing */
	assert_int_equal(CELL(&tables, devices_pool_used, 0), 0);
	assert_int_equal(CELL(&tables, devices_pool_reserved, 0), 0);
	vc_tables_deinit(&tables);

	/* S 10: the two oldest entries (births 1 and 3) are gone from the ring */
	options.number = 0;
	convert_whole(&made, &options, &tables);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 8);
	assert_int_equal(state_of(&tables, 5), VC_STATE_LIVE);
	assert_int_equal(state_of(&tables, 7), VC_STATE_LIVE);
	assert_int_equal(state_of(&tables, 10), VC_STATE_LIVE);
	assert_int_equal(state_of(&tables, 11), 0);
	assert_int_equal(tables.rows[VC_TABLE_freed], 0);
	assert_int_equal(tables.rows[VC_TABLE_failures], 0);
	assert_int_equal(CELL(&tables, process_deaths_missing, 0), 2);
	assert_int_equal(evidence_of(&tables, "deaths_missing"), 2);
	vc_tables_deinit(&tables);

	/* the same by number, which finds the row */
	options = at_number(10);
	convert_whole(&made, &options, &tables);
	assert_string_equal(TEXT(&tables, process_trigger, 0), "step");
	assert_int_equal(CELL(&tables, process_deaths_missing, 0), 2);
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* A number without a row: entries that died by then tell where the ring stood. */
static void test_number_without_row(void **state)
{
	struct vc_convert_options options = at_number(22);
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	convert_whole(&made, &options, &tables);
	assert_int_equal(CELL(&tables, process_deaths_missing, 0), 0);
	assert_int_equal(state_of(&tables, 20), VC_STATE_LIVE);
	assert_int_equal(state_of(&tables, 22), VC_STATE_LIVE);
	vc_tables_deinit(&tables);
	/* the oldest entry left died at 19: of what died before, nothing is known */
	options.number = 15;
	convert_whole(&made, &options, &tables);
	assert_int_equal(CELL(&tables, process_deaths_missing, 0), 2);
	vc_tables_deinit(&tables);
	options.number = 31;
	assert_int_equal(convert_made(&made, &options, &tables, &faults), VC_E_INVALID);
	options.at = VC_AT_MOMENT;
	options.number = 2;
	assert_int_equal(convert_made(&made, &options, &tables, &faults), VC_E_NOT_FOUND);
	made_end(&made);
}

/* A copy made for a moment is that moment, though its clock went on. */
static void test_copy_for_a_moment(void **state)
{
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	made.root->copied_moment = vc_word(2);
	convert_whole(&made, NULL, &tables);
	assert_int_equal(CELL(&tables, process_number, 0), 20);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 15);
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void test_states_at_s(void **state)
{
	const struct vc_convert_options options = at_number(100);
	static const struct {
		uint64_t number;
		enum vc_record_state state;
		uint64_t death, want;
	} row[] = {
		{100, VC_RECORD_LIVE, 0, VC_STATE_LIVE},
		{101, VC_RECORD_LIVE, 0, 0},
		{50, VC_RECORD_FREEING, 0, VC_STATE_LIVE},
		{51, VC_RECORD_FREEING, 101, VC_STATE_LIVE},
		{52, VC_RECORD_FREEING, 100, VC_STATE_BEING_FREED},
		{103, VC_RECORD_FREEING, 104, 0},
		{60, VC_RECORD_EMPTY, 0, 0},
	};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_start(&made, &small);
	made.root->clock = vc_word(200);
	for (uint32_t i = 0; i < sizeof(row) / sizeof(*row); i++)
		made_record(&made, i, row[i].number, row[i].state, row[i].death,
			    made_linear(row[i].number));
	made_record(&made, 10, 100, VC_RECORD_FILLING, 0, made_linear(100));
	made_record(&made, 11, 101, VC_RECORD_FILLING, 0, made_linear(101));
	convert_whole(&made, &options, &tables);
	for (uint32_t i = 0; i < sizeof(row) / sizeof(*row); i++)
		assert_int_equal(state_of(&tables, row[i].number), row[i].want);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 5);
	assert_int_equal(CELL(&tables, allocations_state, 0), VC_STATE_IN_DOUBT);
	assert_int_equal(CELL(&tables, allocations_address, 0), made_linear(100).address);
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* Slot and ring hold the same birth: the ring's counts. */
static void test_slot_and_ring(void **state)
{
	const struct vc_convert_options options = at_number(20);
	struct made_recording made;
	struct vc_tables tables;
	struct vc_record changed = made_linear(5);

	(void)state;
	made_start(&made, &small);
	made.root->clock = vc_word(40);
	changed.references = vc_word(9);
	/* died after S */
	made_record(&made, 0, 5, VC_RECORD_LIVE, 0, made_linear(5));
	made_freed(&made, 0, 5, 30, changed);
	made_record(&made, 1, 6, VC_RECORD_FREEING, 31, made_linear(6));
	made_freed(&made, 1, 6, 31, made_linear(6));
	/* died before S: only in `freed` */
	made_record(&made, 2, 7, VC_RECORD_FREEING, 15, made_linear(7));
	made_freed(&made, 2, 7, 15, made_linear(7));
	made_record(&made, 3, 8, VC_RECORD_FREEING, 0, made_linear(8));
	made_freed(&made, 3, 8, 20, made_linear(8));
	made_record(&made, 4, 9, VC_RECORD_FREEING, 16, made_linear(9));
	convert_whole(&made, &options, &tables);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 3);
	assert_int_equal(CELL(&tables, allocations_references, row_of(&tables, 5)), 9);
	assert_int_equal(state_of(&tables, 5), VC_STATE_LIVE);
	assert_int_equal(state_of(&tables, 6), VC_STATE_LIVE);
	assert_int_equal(state_of(&tables, 9), VC_STATE_BEING_FREED);
	assert_int_equal(tables.rows[VC_TABLE_freed], 2);
	assert_int_equal(CELL(&tables, freed_birth, 0), 7);
	assert_int_equal(CELL(&tables, freed_birth, 1), 8);
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* Two records that claim one birth are damage, and one of them is shown. */
static void test_same_birth_twice(void **state)
{
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_start(&made, &small);
	made.root->clock = vc_word(40);
	made_record(&made, 0, 5, VC_RECORD_LIVE, 0, made_linear(5));
	made_record(&made, 1, 5, VC_RECORD_LIVE, 0, made_linear(6));
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), 0);
	assert_true(has_fault(&faults, VC_E_CORRUPT, "records"));
	assert_int_equal(tables.rows[VC_TABLE_allocations], 1);
	assert_int_equal(evidence_of(&tables, "source_faults"), 1);
	vc_tables_deinit(&tables);
	made_end(&made);
}

static uint64_t missing_at(const struct made_recording *made, uint64_t row)
{
	const struct vc_convert_options options = {.at = VC_AT_MOMENT, .number = row};
	struct vc_tables tables;
	uint64_t missing;

	convert_whole(made, &options, &tables);
	missing = CELL(&tables, process_deaths_missing, 0);
	assert_int_equal(evidence_of(&tables, "deaths_missing"), missing);
	vc_tables_deinit(&tables);
	return missing;
}

static void test_deaths_missing(void **state)
{
	struct made_recording made;

	(void)state;
	made_start(&made, &small); /* a ring of 4 */
	made.root->clock = vc_word(200);
	made_moment(&made, (struct vc_moment_row){.number = 100, .freed_next = 2});
	made_moment(&made, (struct vc_moment_row){.number = 150, .freed_next = 7});
	for (uint64_t entry = 0; entry < 10; entry++)
		made_freed(&made, entry, 10 + entry, 101 + entry, made_linear(10 + entry));
	/* 6 to 9 are left of 2 to 9 */
	assert_int_equal(missing_at(&made, 0), 4);
	assert_int_equal(missing_at(&made, 1), 0);
	/* entry 10 is being written over entry 6; its record is still in its slot */
	made.root->freed_next = vc_word(11);
	made_freed_at(&made, 2)->sequence = vc_word(2 * 10 + 1);
	made_record(&made, 0, 30, VC_RECORD_FREEING, 160, made_linear(30));
	assert_int_equal(missing_at(&made, 0), 5);
	assert_int_equal(missing_at(&made, 1), 0);
	/* entry 11 has only taken its number: its slot has entry 7, its record is where it was */
	made.root->freed_next = vc_word(12);
	assert_int_equal(missing_at(&made, 1), 0);
	/* entry 11 is there, and entry 7 with it is not */
	made_freed(&made, 11, 31, 161, made_linear(31));
	assert_int_equal(missing_at(&made, 1), 1);
	/* far behind: 8, 9 and 11 are there; of the last eight no slot has been written */
	made.root->freed_next = vc_word(1000000000000);
	assert_int_equal(missing_at(&made, 1), 1000000000000 - 7 - 3 - 8);
	made_end(&made);
}

/* PyTorch's totals belong to a number: they are those of S, or not known. */
static void check_totals(const struct made_recording *made, enum vc_convert_at at, uint64_t number,
			 bool known, uint64_t allocated, uint64_t reserved)
{
	const struct vc_convert_options options = {.at = at, .number = number};
	struct vc_tables tables;

	convert_whole(made, &options, &tables);
	assert_int_equal(CELL(&tables, devices_torch_known, 0), known);
	assert_int_equal(CELL(&tables, devices_torch_allocated, 0), allocated);
	assert_int_equal(CELL(&tables, devices_torch_reserved, 0), reserved);
	vc_tables_deinit(&tables);
}

static void test_torch_totals(void **state)
{
	struct made_recording made;
	struct vc_device *device;

	(void)state;
	made_start(&made, &small);
	made_device(&made, 0, "GPU", 1000, 500, 500, 0);
	device = &made.root->device[0];
	made.root->clock = vc_word(200);
	made_moment(&made, (struct vc_moment_row){
		.number = 100, .torch_allocated = {31}, .torch_reserved = {41}});
	made_moment(&made, (struct vc_moment_row){.number = 150});
	check_totals(&made, VC_AT_NOW, 0, false, 0, 0);
	device->torch_number = vc_word(180);
	device->torch_allocated = vc_word(512);
	device->torch_reserved = vc_word(2048);
	check_totals(&made, VC_AT_NOW, 0, true, 512, 2048);
	/* a number without a moment of its own: before those totals, and after */
	check_totals(&made, VC_AT_NUMBER, 179, false, 0, 0);
	check_totals(&made, VC_AT_NUMBER, 180, true, 512, 2048);
	/* moments have their own, or none */
	check_totals(&made, VC_AT_MOMENT, 0, true, 30, 40);
	check_totals(&made, VC_AT_NUMBER, 100, true, 30, 40);
	check_totals(&made, VC_AT_MOMENT, 1, false, 0, 0);
	/* a block is being written */
	device->torch_number = 0;
	check_totals(&made, VC_AT_NOW, 0, false, 0, 0);
	/* nothing is allocated any more: that is known as well */
	device->torch_number = vc_word(190);
	device->torch_allocated = 0;
	check_totals(&made, VC_AT_NOW, 0, true, 0, 2048);
	made_end(&made);
}

/* A ring that gained slots after it had gone round: entries may have been in any slot. */
static void test_ring_that_grew_late(void **state)
{
	struct made_sizes sizes = small;
	struct made_recording made;

	(void)state;
	sizes.items[VC_REC_FREED] = 8;
	made_start(&made, &sizes);
	made.root->clock = vc_word(200);
	made_moment(&made, (struct vc_moment_row){.number = 100, .freed_next = 4});
	made.items[VC_REC_FREED] = 4; /* 4 slots when entries 0 to 11 were written */
	for (uint64_t entry = 0; entry < 12; entry++)
		made_freed(&made, entry, 10 + entry, 101 + entry, made_linear(10 + entry));
	made.items[VC_REC_FREED] = 8;
	for (uint64_t entry = 12; entry < 17; entry++)
		made_freed(&made, entry, 10 + entry, 101 + entry, made_linear(10 + entry));
	/* slots 4 to 7 now have 12 to 15, slot 0 has 16 */
	assert_int_equal(missing_at(&made, 0), 4 + 1);
	made_end(&made);
}

static void test_newest_freed_are_kept(void **state)
{
	struct vc_convert_options options = {.freed_max = 2};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	convert_whole(&made, &options, &tables);
	assert_int_equal(tables.rows[VC_TABLE_freed], 2);
	assert_int_equal(CELL(&tables, freed_death, 0), 25);
	assert_int_equal(CELL(&tables, freed_death, 1), 26);
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* Killed between the last field and the state word, and between two fields. */
static void test_torn_commit(void **state)
{
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;
	struct vc_record *record;

	(void)state;
	made_start(&made, &small);
	made.root->clock = vc_word(40);
	made_record(&made, 0, 12, VC_RECORD_LIVE, 0, made_linear(12));
	made_record_at(&made, 0)->state = vc_state_word(11, VC_RECORD_FILLING);
	convert_whole(&made, NULL, &tables);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 1);
	assert_int_equal(CELL(&tables, allocations_state, 0), VC_STATE_IN_DOUBT);
	assert_int_equal(CELL(&tables, allocations_birth, 0), 0);
	assert_int_equal(CELL(&tables, allocations_size, 0), 0x10000c);
	vc_tables_deinit(&tables);

	record = made_record_at(&made, 0);
	record->size++;
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), 0);
	assert_true(has_fault(&faults, VC_E_UNSTABLE, "records"));
	assert_int_equal(faults.kept[0].offset, made.base[VC_REC_RECORDS]);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 1);
	assert_int_equal(CELL(&tables, allocations_state, 0), VC_STATE_IN_DOUBT);
	assert_int_equal(CELL(&tables, allocations_size, 0), 0);
	assert_int_equal(evidence_of(&tables, "source_faults"), 1);
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void add_at(struct made_recording *made, uint32_t slot, uint64_t birth, uint8_t kind,
		   uint64_t address, uint64_t size)
{
	struct vc_record record = made_linear(birth);

	record.kind = kind;
	record.address = address;
	record.size = size;
	made_record(made, slot, birth, VC_RECORD_LIVE, 0, record);
}

static void test_parents(void **state)
{
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_start(&made, &small);
	made.root->clock = vc_word(100);
	add_at(&made, 0, 1, VC_KIND_LINEAR, 0x1000, 0x1000);
	add_at(&made, 1, 2, VC_KIND_MAPPING, 0x2000, 0x1000);
	add_at(&made, 2, 3, VC_KIND_HANDLE, 0x3000, 0x1000); /* a handle is not an address */
	add_at(&made, 3, 4, VC_KIND_BLOCK, 0x1000, 0x100);
	add_at(&made, 4, 5, VC_KIND_BLOCK, 0x1fff, 1);
	add_at(&made, 5, 6, VC_KIND_BLOCK, 0x2000, 0x800);
	add_at(&made, 6, 7, VC_KIND_BLOCK, 0x3000, 0x800);
	add_at(&made, 7, 8, VC_KIND_TENSOR, 0x1010, 0x10);
	add_at(&made, 8, 9, VC_KIND_TENSOR, 0x1800, 0x10);
	add_at(&made, 9, 10, VC_KIND_BLOCK, 0xfff, 1);
	/* the same address again: the newer one that was there before the block */
	add_at(&made, 10, 20, VC_KIND_LINEAR, 0x1000, 0x1000);
	add_at(&made, 11, 21, VC_KIND_BLOCK, 0x1800, 1);
	add_at(&made, 12, 22, VC_KIND_LINEAR, UINT64_MAX - 0xf, 0x10);
	add_at(&made, 13, 23, VC_KIND_BLOCK, UINT64_MAX, 1);
	convert_whole(&made, NULL, &tables);
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 4)), 1);
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 5)), 1);
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 6)), 2);
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 7)), 0);
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 8)), 4);
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 9)), 1);
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 10)), 0);
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 21)), 20);
	assert_int_equal(CELL(&tables, allocations_parent, row_of(&tables, 23)), 22);
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* References to what is not there become none, with one fault for each. */
static void test_dangling(void **state)
{
	struct vc_record record = made_linear(1);
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;
	uint64_t frame = vc_frame(3, 0x10);
	uint32_t text;

	(void)state;
	made_start(&made, &small);
	made.root->clock = vc_word(100);
	text = made_string(&made, "lost");
	record.label = text;
	record.module = 60;
	record.python = 5000;
	record.stack = made_stack(&made, &frame, 1, 0);
	record.site = 2;
	made_record(&made, 0, 1, VC_RECORD_LIVE, 0, record);
	record.stack = 5000;
	made_record(&made, 1, 2, VC_RECORD_LIVE, 0, record);
	made.bytes[made.base[VC_REC_STRINGS] + text * 8 + 16] ^= 1;
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), 0);
	assert_int_equal(faults.count, 5); /* the stack of Python is one of them */
	assert_true(has_fault(&faults, VC_E_CHECKSUM, "strings"));
	assert_true(has_fault(&faults, VC_E_CORRUPT, "strings"));
	assert_true(has_fault(&faults, VC_E_RANGE, "stacks"));
	assert_true(has_fault(&faults, VC_E_RANGE, "modules"));
	for (uint64_t i = 0; i < 2; i++) {
		assert_string_equal(TEXT(&tables, allocations_label, i), "");
		assert_string_equal(TEXT(&tables, allocations_module, i), "");
		assert_int_equal(CELL(&tables, allocations_python, i), 0);
		assert_int_equal(CELL(&tables, allocations_stack, i), i ? 0 : 1);
		assert_int_equal(CELL(&tables, allocations_site, i), 0);
	}
	assert_int_equal(CELL(&tables, frames_module, 0), 0);
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* ---- Python ---- */

/* Lines of one code object by the offsets of instructions, worked out by hand from the table. */
static void check_lines(uint16_t version, const uint8_t *table, uint32_t bytes,
			const uint32_t (*want)[2], uint32_t count)
{
	static const struct made_sizes sizes = {{
		[VC_REC_RECORDS] = 4, [VC_REC_FREED] = 4, [VC_REC_STACKS] = 64,
		[VC_REC_STRINGS] = 64, [VC_REC_CODES] = 2, [VC_REC_EVALS] = 1,
	}};
	struct vc_record record = made_linear(1);
	struct made_recording made;
	struct vc_tables tables;
	uint64_t frames[16];

	assert_true(count <= 16);
	made_start(&made, &sizes);
	made.root->clock = vc_word(100);
	made_code(&made, "f", version, 10, table, bytes);
	for (uint32_t i = 0; i < count; i++)
		frames[i] = vc_python_frame(1, want[i][0], i + 1 == count);
	record.python = made_stack(&made, frames, count, 0);
	made_record(&made, 0, 1, VC_RECORD_LIVE, 0, record);
	convert_whole(&made, NULL, &tables);
	assert_int_equal(CELL(&tables, allocations_python, 0), 1);
	assert_int_equal(CELL(&tables, source_stacks_count, 0), count);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t frame = CELL(&tables, source_lists_frame, i);

		assert_int_equal(CELL(&tables, source_lists_entry, i), i + 1 == count);
		assert_true(frame > 0 && frame <= tables.rows[VC_TABLE_source_frames]);
		assert_string_equal(TEXT(&tables, source_frames_function, frame - 1), "f");
		assert_string_equal(TEXT(&tables, source_frames_file, frame - 1), "/src/train.py");
		assert_int_equal(CELL(&tables, source_frames_line, frame - 1), want[i][1]);
	}
	vc_tables_deinit(&tables);
	made_end(&made);
}

static void test_python_lines(void **state)
{
	/* code bytes and change of line */
	static const uint8_t before_310[] = {4, 1, 6, 0xff, 2, 5};
	static const uint32_t want_39[][2] = {{0, 10}, {3, 10}, {4, 11}, {9, 11}, {10, 10},
					      {11, 10}, {12, 15}, {5000, 15}};
	/* the same, each pair for its own bytes; 0x80: no line */
	static const uint8_t of_310[] = {4, 0, 4, 3, 2, 0x80, 6, 0xfe};
	static const uint32_t want_310[][2] = {{0, 10}, {4, 13}, {7, 13}, {8, 0}, {10, 11}, {16, 0}};
	/* short form 4 bytes; line +1; no columns -3, 4 bytes; none; long form +100 */
	static const uint8_t of_311[] = {0x81, 0x20, 0xd8, 1, 2, 0xe9, 7, 0xf8, 0xf0, 0x48, 3, 0, 1, 2};
	static const uint32_t want_311[][2] = {{0, 10}, {2, 10}, {4, 11}, {6, 8}, {8, 8}, {10, 0},
					       {12, 108}, {14, 0}};

	(void)state;
	check_lines(0x0309, before_310, sizeof(before_310), want_39, 8);
	check_lines(0x030a, of_310, sizeof(of_310), want_310, 6);
	check_lines(0x030b, of_311, sizeof(of_311), want_311, 8);
	check_lines(0x030e, of_311, sizeof(of_311), want_311, 8);
	/* a table of no bytes: all of it is one line; one that breaks off: unknown */
	check_lines(0x0309, before_310, 0, (const uint32_t[][2]){{0, 10}, {40, 10}}, 2);
	check_lines(0x030b, of_311, 10, (const uint32_t[][2]){{4, 11}, {12, 0}}, 2);
}

/* Rows that are not there, and a native stack where one of Python belongs. */
static void test_python_damage(void **state)
{
	struct vc_record record = made_linear(1);
	uint64_t frames[3] = {vc_python_frame(900, 4, 0), vc_python_frame(0, 4, 1),
			      vc_python_frame(UINT32_MAX - 1, VC_PYTHON_OFFSET, 1)};
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_start(&made, &small);
	made.root->clock = vc_word(100);
	record.python = made_stack(&made, frames, 3, 0);
	made_record(&made, 0, 1, VC_RECORD_LIVE, 0, record);
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), 0);
	assert_true(has_fault(&faults, VC_E_RANGE, "codes"));
	assert_int_equal(CELL(&tables, allocations_python, 0), 1);
	assert_int_equal(CELL(&tables, source_stacks_count, 0), 3);
	for (uint64_t i = 0; i < 3; i++) {
		uint64_t frame = CELL(&tables, source_lists_frame, i) - 1;

		assert_string_equal(TEXT(&tables, source_frames_function, frame), "");
		assert_int_equal(CELL(&tables, source_frames_line, frame), 0);
	}
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* A backward block: beside its frames, or alone, the stack that its node was made at. */
static void test_python_forward(void **state)
{
	struct vc_record record = made_linear(1);
	uint64_t frames[3] = {vc_python_frame(0, 4, 0), vc_python_frame(0, 8, 1)};
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;
	uint32_t forward, damaged;

	(void)state;
	made_start(&made, &small);
	made.root->clock = vc_word(100);
	forward = made_stack(&made, frames, 2, 0);
	frames[2] = vc_python_forward(forward);
	record.python = made_stack(&made, frames, 3, 0);
	made_record(&made, 0, 1, VC_RECORD_LIVE, 0, record);
	record.python = made_stack(&made, &frames[2], 1, 0);
	made_record(&made, 1, 2, VC_RECORD_LIVE, 0, record);
	/* one that names a stack which names another; one that is not there */
	frames[2] = vc_python_forward(record.python);
	record.python = damaged = made_stack(&made, &frames[2], 1, 0);
	made_record(&made, 2, 3, VC_RECORD_LIVE, 0, record);
	frames[2] = vc_python_forward(4000000000u);
	record.python = made_stack(&made, &frames[2], 1, 0);
	made_record(&made, 3, 4, VC_RECORD_LIVE, 0, record);
	assert_true(damaged > forward);
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), 0);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 4);
	for (uint64_t i = 0; i < 2; i++) {
		uint64_t row = CELL(&tables, allocations_python, i) - 1;
		uint64_t of = CELL(&tables, source_stacks_forward, row) - 1;

		assert_int_equal(CELL(&tables, source_stacks_count, row), i ? 0 : 2);
		assert_int_equal(CELL(&tables, source_stacks_count, of), 2);
		assert_int_equal(CELL(&tables, source_stacks_forward, of), 0);
	}
	assert_int_equal(CELL(&tables, source_stacks_forward,
			      CELL(&tables, allocations_python, 3) - 1), 0);
	vc_tables_deinit(&tables);
	made_end(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_now),
		cmocka_unit_test(test_golden_tables),
		cmocka_unit_test(test_golden_failures),
		cmocka_unit_test(test_golden_moments),
		cmocka_unit_test(test_number_without_row),
		cmocka_unit_test(test_copy_for_a_moment),
		cmocka_unit_test(test_states_at_s),
		cmocka_unit_test(test_slot_and_ring),
		cmocka_unit_test(test_same_birth_twice),
		cmocka_unit_test(test_deaths_missing),
		cmocka_unit_test(test_ring_that_grew_late),
		cmocka_unit_test(test_newest_freed_are_kept),
		cmocka_unit_test(test_torn_commit),
		cmocka_unit_test(test_parents),
		cmocka_unit_test(test_torch_totals),
		cmocka_unit_test(test_dangling),
		cmocka_unit_test(test_python_lines),
		cmocka_unit_test(test_python_damage),
		cmocka_unit_test(test_python_forward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
