/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore info: the process, where each device's memory is, the evidence. */
#include <string.h>

#include "analyze/report.h"
#include "analyze/report_torch.h"
#include "analyze/views/info.h"
#include "analyze/views/ledger.h"
#include "analyze/views/tensors.h"

struct report {
	const struct vc_command *command;
	struct vc_emit *emit;
	struct vc_session *session;
	const struct vc_model *model;
	const struct vc_tables *tables;
	const struct vc_account *account;
	struct vc_info info;
	struct vc_roles roles;
	struct vc_map map;        /* empty where PyTorch's allocator told of nothing */
	uint32_t device_plus_one; /* UINT32_MAX: all */
};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void emit_heading(struct report *report)
{
	const struct vc_tables *tables = report->tables;
	const char *program = vc_string(tables, VC_COL_process_program, 0);
	const char *host = vc_string(tables, VC_COL_process_host, 0);
	const char *trigger = vc_string(tables, VC_COL_process_trigger, 0);
	const char *job = vc_string(tables, VC_COL_process_job, 0);
	uint64_t rank = vc_value(tables, VC_COL_process_rank_plus_one, 0);
	uint64_t world = vc_value(tables, VC_COL_process_world_size, 0);
	struct vc_text text = {0};

	vc_text_add(&text, "%s  ", base_name(*program ? program : report->model->path));
	vc_report_moment(&text, tables);
	if (rank)
		vc_text_add(&text, ", rank %llu", (unsigned long long)rank - 1);
	if (rank && world)
		vc_text_add(&text, " of %llu", (unsigned long long)world);
	if (*host)
		vc_text_add(&text, ", host %s", host);
	vc_text_add(&text, ", ");
	if (!vc_is_import(tables))
		vc_text_add(&text, "pid %llu, ",
			    (unsigned long long)vc_value(tables, VC_COL_process_pid, 0));
	vc_text_time(&text, vc_value(tables, VC_COL_process_snapshot_time, 0));
	if (*trigger)
		vc_text_add(&text, ", trigger %s", trigger);
	if (*job)
		vc_text_add(&text, ", job %s", job);
	vc_emit_heading(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static void emit_device_heading(struct report *report, uint32_t device_plus_one)
{
	uint64_t row, version;
	struct vc_text text = {0};

	vc_report_device(&text, report->tables, device_plus_one);
	if (device_plus_one && !vc_device_row(report->tables, device_plus_one - 1, &row)) {
		if (!vc_is_import(report->tables)) {
			vc_text_add(&text, ", ");
			vc_text_bytes(&text, vc_value(report->tables, VC_COL_devices_total, row),
				      report->emit->exact);
		}
		version = vc_value(report->tables, VC_COL_devices_driver_version, row);
		if (version)
			vc_text_add(&text, ", driver for CUDA %llu.%llu",
				    (unsigned long long)version / 1000,
				    (unsigned long long)version % 1000 / 10);
	}
	if (report->info.recorded) {
		vc_text_add(&text, ", recorded ");
		vc_text_duration(&text, report->info.recorded);
	}
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

enum { COLUMN_WHAT, COLUMN_BYTES, COLUMN_SHARE, COLUMN_COUNT, COLUMN_HOW, COLUMN_KEY, COLUMNS };
static const struct vc_emit_column columns[COLUMNS] = {
	[COLUMN_WHAT] = {"what", "where the memory is", VC_CELL_TEXT, false},
	[COLUMN_BYTES] = {"bytes", "bytes", VC_CELL_SIGNED_BYTES, false},
	[COLUMN_SHARE] = {"share", "share", VC_CELL_SHARE, true},
	[COLUMN_COUNT] = {"count", "number", VC_CELL_NUMBER, true},
	[COLUMN_HOW] = {"how_known", "how known", VC_CELL_TEXT, true},
	[COLUMN_KEY] = {"key", NULL, VC_CELL_TEXT, true},
};

/** A size in the ledger: no plus sign, all that is there is positive but for a difference. */
static const char *plain_bytes(struct report *report, int64_t bytes)
{
	struct vc_text text = {0};

	if (bytes < 0)
		vc_text_signed_bytes(&text, bytes, report->emit->exact);
	else
		vc_text_bytes(&text, (uint64_t)bytes, report->emit->exact);
	return vc_report_keep(report->session, &text);
}

static void emit_ledger(struct report *report, const struct vc_ledger *ledger)
{
	struct vc_cell total[COLUMNS] = {
		[COLUMN_WHAT] = {.text = ledger->total_known ? "total" : "recorded"},
		[COLUMN_BYTES] = {.text = plain_bytes(report, (int64_t)ledger->total)},
		[COLUMN_SHARE] = {.amount = 1000},
		[COLUMN_COUNT] = {.text = ""},
	};

	vc_emit_table(report->emit, "ledger", columns, COLUMNS);
	for (unsigned i = 0; i < ledger->count; i++) {
		const struct vc_ledger_row *row = &ledger->rows[i];
		struct vc_cell cells[COLUMNS] = {
			[COLUMN_WHAT] = {.text = row->what},
			[COLUMN_BYTES] = {.amount = row->bytes,
					  .text = plain_bytes(report, row->bytes)},
			[COLUMN_SHARE] = {.amount = row->share},
			[COLUMN_COUNT] = {.number = row->count, .absent = !row->count,
					  .text = row->count ? NULL : ""},
			[COLUMN_HOW] = {.text = row->how},
			[COLUMN_KEY] = {.text = row->key},
		};

		vc_emit_row(report->emit, cells);
		vc_emit_row_end(report->emit);
	}
	vc_emit_text_row(report->emit, total);
	vc_emit_table_end(report->emit);
	vc_emit_number(report->emit, "total", ledger->total);
	vc_emit_bool(report->emit, "total_known", ledger->total_known);
}

/** What keeps most of the tensors that are neither the model's nor its graph's. */
static int emit_holder(struct report *report, uint32_t device_plus_one)
{
	struct vc_tensors_options options = {.by = VC_TENSORS_BY_HOLDER,
					     .device_plus_one = device_plus_one,
					     .role_set = 1u << VC_ROLE_OTHER};
	struct vc_tensor_rows rows;
	struct vc_text text = {0};
	int error;

	if (!report->roles.walked)
		return 0;
	error = vc_tensor_rows_make(report->tables, report->account, &report->roles, NULL, &options,
				    &report->session->arena, &rows);
	if (error || !rows.count)
		return error;
	vc_text_add(&text, "  of other live tensors ");
	vc_text_bytes(&text, rows.rows[0].bytes, report->emit->exact);
	vc_text_add(&text, ": %s", rows.rows[0].text);
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_emit_string(report->emit, "largest_holder", rows.rows[0].text);
	vc_emit_number(report->emit, "largest_holder_bytes", rows.rows[0].bytes);
	return 0;
}

static void emit_peak(struct report *report, uint32_t device_plus_one)
{
	uint64_t row, peak;
	struct vc_text text = {0};

	if (!device_plus_one || vc_device_row(report->tables, device_plus_one - 1, &row))
		return;
	peak = vc_value(report->tables, VC_COL_devices_peak, row);
	if (!peak)
		return;
	vc_text_add(&text, "  most at once ");
	vc_text_bytes(&text, peak, report->emit->exact);
	if (vc_value(report->tables, VC_COL_process_steps_known, 0)) {
		vc_text_add(&text, " at step ");
		vc_text_number(&text, vc_value(report->tables, VC_COL_devices_peak_step, row));
	}
	if (vc_value(report->tables, VC_COL_devices_peak_time, row)) {
		vc_text_add(&text, ", ");
		vc_text_time(&text, vc_value(report->tables, VC_COL_devices_peak_time, row));
	}
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

/** At the highest moment of another device this one was not at its own. */
static void emit_step_peak(struct report *report, uint32_t device_plus_one)
{
	const struct vc_tables *tables = report->tables;
	struct vc_text text = {0};
	uint64_t row;

	if (!device_plus_one || vc_device_row(tables, device_plus_one - 1, &row) ||
	    !vc_value(tables, VC_COL_devices_step_peak_known, row) ||
	    device_plus_one == vc_value(tables, VC_COL_process_peak_device_plus_one, 0))
		return;
	vc_text_add(&text, "  its own highest of this step, at another moment: ");
	vc_text_bytes(&text, vc_value(tables, VC_COL_devices_step_peak, row), report->emit->exact);
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

/** What is recorded and is no device memory of its own: host, managed, addresses, objects. */
static void emit_beside(struct report *report, const struct vc_account_device *device)
{
	struct vc_text text = {0};

	vc_emit_list(report->emit, "beside");
	for (unsigned kind = 0; kind < VC_KINDS && device; kind++) {
		if (!device->kind_count[kind] || !vc_info_is_beside(kind))
			continue;
		vc_text_add(&text, "%s", text.length ? ", " : "  beside it: ");
		vc_text_number(&text, device->kind_count[kind]);
		vc_text_add(&text, " %s", vc_kind_text(kind));
		if (device->kind_bytes[kind]) {
			vc_text_add(&text, " (");
			vc_text_bytes(&text, device->kind_bytes[kind], report->emit->exact);
			vc_text_add(&text, ")");
		}
		vc_emit_object(report->emit, NULL);
		vc_emit_string(report->emit, "kind", vc_kind_text(kind));
		vc_emit_number(report->emit, "count", device->kind_count[kind]);
		vc_emit_number(report->emit, "bytes", device->kind_bytes[kind]);
		vc_emit_object_end(report->emit);
	}
	vc_emit_list_end(report->emit);
	if (text.length)
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static int emit_device(struct report *report, uint32_t device_plus_one)
{
	struct vc_ledger ledger;
	int error = vc_ledger_make(report->tables, report->account, &report->roles,
				   device_plus_one, &ledger);

	if (error)
		return error;
	vc_emit_object(report->emit, NULL);
	vc_report_device_json(report->emit, "device", report->tables, device_plus_one);
	emit_device_heading(report, device_plus_one);
	vc_emit_line(report->emit, "%s", "");
	emit_ledger(report, &ledger);
	error = emit_holder(report, device_plus_one);
	if (error)
		return error;
	emit_step_peak(report, device_plus_one);
	emit_peak(report, device_plus_one);
	/* its numbers are those of the end */
	if (vc_is_import(report->tables) && device_plus_one &&
	    !vc_option_given(report->command, VC_OPTION_AT))
		vc_report_torch(report->emit, report->tables, device_plus_one - 1);
	else if (report->account->has_torch)
		vc_report_torch_recorded(report->emit, report->tables, report->account,
					 &report->map, device_plus_one);
	emit_beside(report, vc_account_find_device(report->account, device_plus_one));
	vc_emit_object_end(report->emit);
	return 0;
}

static void emit_counts(struct report *report)
{
	struct vc_text text = {0};

	vc_emit_object(report->emit, "counts");
	for (unsigned i = 0; i < VC_INFO_COUNTS; i++) {
		const struct vc_info_count *count = &report->info.counts[i];

		vc_emit_number(report->emit, count->key, count->value);
		if (!count->value)
			continue;
		vc_text_add(&text, "%s", text.length ? ", " : "  holds ");
		vc_text_number(&text, count->value);
		vc_text_add(&text, " %s", count->value == 1 ? count->one : count->many);
	}
	vc_emit_object_end(report->emit);
	vc_emit_line(report->emit, "%s", "");
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static const char *fact_of(const struct vc_tables *tables, const char *key)
{
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_framework]; i++)
		if (!strcmp(vc_string(tables, VC_COL_framework_key, i), key))
			return vc_string(tables, VC_COL_framework_value, i);
	return NULL;
}

/** What is known of the framework; the text has only what explains the rest. */
static void emit_framework(struct report *report)
{
	const struct vc_tables *tables = report->tables;
	const char *version = fact_of(tables, "torch"), *backend = fact_of(tables, "backend");
	const char *counter = fact_of(tables, "step counter"), *helper = fact_of(tables, "interpreter");

	if (!tables->rows[VC_TABLE_framework])
		return;
	vc_emit_list(report->emit, "framework");
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_framework]; i++) {
		vc_emit_object(report->emit, NULL);
		vc_emit_string(report->emit, "key", vc_string(tables, VC_COL_framework_key, i));
		vc_emit_string(report->emit, "value", vc_string(tables, VC_COL_framework_value, i));
		vc_emit_string(report->emit, "how", vc_string(tables, VC_COL_framework_how, i));
		vc_emit_object_end(report->emit);
	}
	vc_emit_list_end(report->emit);
	if (version)
		vc_emit_line(report->emit, "  PyTorch %s, back end %s", version,
			     backend ? backend : "unknown");
	if (counter)
		vc_emit_line(report->emit, "  steps counted by: %s", counter);
	if (helper && strcmp(helper, "runs") != 0)
		vc_emit_line(report->emit, "  the interpreter was not asked: %s", helper);
}

static uint64_t error_stack(const struct vc_tables *tables, uint64_t row)
{
	return vc_stack_reference(tables, vc_value(tables, VC_COL_failures_stack, row),
				  vc_value(tables, VC_COL_failures_python, row));
}

/** The stored environment and the triggers that fired: JSON has them. */
static void emit_environment(struct report *report)
{
	const struct vc_tables *tables = report->tables;
	struct vc_emit *emit = report->emit;

	vc_emit_object(emit, "environment");
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_environment]; i++)
		vc_emit_string(emit, vc_string(tables, VC_COL_environment_name, i),
			       vc_string(tables, VC_COL_environment_value, i));
	vc_emit_object_end(emit);
	vc_emit_list(emit, "moments");
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_moments]; i++) {
		vc_emit_object(emit, NULL);
		vc_emit_number(emit, "number", vc_value(tables, VC_COL_moments_number, i));
		vc_emit_number(emit, "step", vc_value(tables, VC_COL_moments_step, i));
		vc_emit_time(emit, "time", vc_value(tables, VC_COL_moments_time, i));
		vc_emit_string(emit, "trigger", vc_string(tables, VC_COL_moments_trigger, i));
		vc_emit_string(emit, "moment", vc_string(tables, VC_COL_moments_moment, i));
		vc_emit_object_end(emit);
	}
	vc_emit_list_end(emit);
}

static const char *error_text(uint64_t result)
{
	switch (result) {
#define VC_DEVICE_ERROR(number, text)                                                              \
	case number:                                                                               \
		return text;
#include "formats/device_errors.def"
#undef VC_DEVICE_ERROR
	default:
		return "error of the device";
	}
}

/** Calls that gave an error of earlier work; the first of them says where it came to light. */
static void emit_errors(struct report *report)
{
	const struct vc_tables *tables = report->tables;
	struct vc_path_prefix prefix = {0};
	struct vc_text text = {0};
	unsigned shown = 0;

	vc_emit_list(report->emit, "errors");
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_failures]; row++) {
		uint64_t result = vc_value(tables, VC_COL_failures_result, row);
		const char *call = vc_string(tables, VC_COL_failures_call, row);
		const struct vc_chain *chain;

		if (vc_value(tables, VC_COL_failures_outcome, row) != VC_FAILURE_ERROR)
			continue;
		chain = vc_names_chain(report->session->names, 0, error_stack(tables, row));
		vc_emit_object(report->emit, NULL);
		vc_emit_string(report->emit, "call", call);
		vc_emit_number(report->emit, "result", result);
		vc_emit_string(report->emit, "text", error_text(result));
		vc_emit_number(report->emit, "device", vc_value(tables, VC_COL_failures_device, row));
		vc_emit_number(report->emit, "step", vc_value(tables, VC_COL_failures_step, row));
		vc_emit_number(report->emit, "thread", vc_value(tables, VC_COL_failures_thread, row));
		vc_emit_time(report->emit, "time", vc_value(tables, VC_COL_failures_time, row));
		vc_report_stack_json(report->emit, "stack", chain);
		vc_emit_object_end(report->emit);
		if (shown++ > 0)
			continue;
		vc_text_add(&text, "error %llu (%s) from %s, thread %llu, at ",
			    (unsigned long long)result, error_text(result), call,
			    (unsigned long long)vc_value(tables, VC_COL_failures_thread, row));
		vc_chain_text(&text, chain, &prefix);
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
	}
	vc_emit_list_end(report->emit);
	vc_text_deinit(&text);
}

static int emit_report(struct report *report, struct vc_problem *problem)
{
	const char *not_known = vc_info_not_known(report->tables);
	const char *silent = vc_info_silent_torch(report->tables, report->account);
	unsigned shown = 0;
	int error = 0, status;

	vc_emit_begin(report->emit, "vramcore.info/1");
	vc_report_file_json(report->emit, "file", report->model);
	emit_heading(report);
	vc_emit_list(report->emit, "devices");
	for (uint32_t i = 0; i < report->info.device_count && !error; i++) {
		if (report->device_plus_one != UINT32_MAX &&
		    report->device_plus_one != report->info.devices[i])
			continue;
		if (shown++)
			vc_emit_line(report->emit, "%s", "");
		error = emit_device(report, report->info.devices[i]);
	}
	vc_emit_list_end(report->emit);
	/* host memory and objects of no device */
	if (!vc_info_has_device(&report->info, 0))
		emit_beside(report, vc_account_find_device(report->account, 0));
	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	emit_counts(report);
	emit_framework(report);
	emit_environment(report);
	emit_errors(report);
	if (vc_is_import(report->tables))
		vc_report_torch_settings(report->emit, report->tables);
	if (silent)
		vc_emit_line(report->emit, "%s", silent);
	if (*not_known)
		vc_emit_line(report->emit, "%s", not_known);
	vc_emit_list(report->emit, "notes");
	if (*not_known)
		vc_emit_string(report->emit, NULL, not_known);
	if (silent)
		vc_emit_string(report->emit, NULL, silent);
	vc_emit_list_end(report->emit);
	status = vc_report_end(report->emit, report->session, true, problem);
	if (status >= 0 &&
	    (vc_command_fails_on(report->command, "live", vc_account_most_live(report->account)) ||
	     vc_command_fails_on(report->command, "reserved", report->info.most_reserved)))
		status = VC_EXIT_FAIL_ON;
	return status;
}

int vc_verb_info(const struct vc_command *command, struct vc_emit *emit,
		 struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct report report = {.command = command, .emit = emit, .session = &session};
	uint64_t device;
	int status = vc_option_number(command, VC_OPTION_DEVICE, UINT32_MAX - 1, UINT32_MAX - 1,
				      &device, problem);

	if (status)
		return status;
	report.device_plus_one = (uint32_t)device + 1;
	vc_wanted_small(&wanted);
	wanted.column[VC_COL_trace_device] = true;
	vc_session_wants_account(&wanted);
	wanted.column[VC_COL_freed_birth] = true;
	wanted.column[VC_COL_allocations_module] = true;
	wanted.column[VC_COL_allocations_step] = true;
	status = vc_session_open(command, 0, 1, &wanted, &session, problem);
	if (status)
		return status;
	status = vc_session_count(&session, VC_ACCOUNT_AUTO, VC_COLUMNS, problem);
	for (uint64_t row = 0; !status && row < session.models[0].tables.rows[VC_TABLE_failures]; row++)
		if (vc_value(&session.models[0].tables, VC_COL_failures_outcome, row) ==
		    VC_FAILURE_ERROR)
			status = vc_session_want(&session, error_stack(&session.models[0].tables, row),
						 VC_KIND_LINEAR);
	if (!status)
		status = vc_session_names(&session, problem);
	if (!status) {
		report.model = &session.models[0];
		report.tables = &session.models[0].tables;
		report.account = &session.accounts[0];
		if (vc_info_make(report.tables, report.account, &session.arena, &report.info) ||
		    (report.account->has_torch &&
		     vc_map_make(report.tables, report.account, &session.arena, &report.map)) ||
		    vc_roles_make(report.tables, report.account, session.names, 0, &session.arena,
				  &report.roles))
			status = vc_problem_set(problem, VC_E_NO_MEMORY, NULL, NULL, "%s",
						vc_error_text(VC_E_NO_MEMORY));
	}
	if (!status)
		status = emit_report(&report, problem);
	vc_session_close(&session);
	return status;
}
