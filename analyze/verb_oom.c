/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore oom: the allocation that failed, and what was live then. */
#include <string.h>

#include "analyze/at.h"
#include "analyze/report_advice.h"
#include "analyze/verb_oom_message.h"
#include "analyze/views/oom.h"

struct report {
	struct vc_emit *emit;
	struct vc_session *session;
	const struct vc_tables *tables;
	const struct vc_chain *chain;
	uint64_t row, most;
	uint64_t back;      /* the file was turned back to the failure: its number; 0 it was not */
	struct vc_oom oom;
	bool advised;       /* what was live when it failed is known, block by block */
	struct vc_advice advice;
	struct vc_path_prefix prefix;
};

static uint64_t value(const struct report *report, enum vc_column_index column)
{
	return vc_value(report->tables, column, report->row);
}

static void emit_heading(struct report *report)
{
	struct vc_text text = {0};

	vc_text_add(&text, "GPU %llu could not give ",
		    (unsigned long long)value(report, VC_COL_failures_device));
	vc_text_bytes(&text, value(report, VC_COL_failures_requested), report->emit->exact);
	if (value(report, VC_COL_failures_outcome) == VC_FAILURE_RETRIED)
		vc_text_add(&text, " at first: the next try succeeded");
	else if (report->advised)
		vc_text_add(&text, "%s", vc_report_why(report->advice.why));
	if (report->oom.fragmented)
		vc_text_add(&text, ": the memory is fragmented");
	vc_emit_heading(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

/** Reported by PyTorch's allocator, after it had tried again. */
static bool of_torch(const struct report *report)
{
	return !strncmp(vc_string(report->tables, VC_COL_failures_call, report->row), "c10::", 5);
}

static void emit_request(struct report *report)
{
	const char *phase = vc_string(report->tables, VC_COL_failures_phase, report->row);
	struct vc_text text = {0};

	vc_text_add(&text, "  asked for at ");
	vc_chain_text(&text, report->chain, &report->prefix);
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	if (vc_is_import(report->tables)) {
		vc_text_add(&text, "  of PyTorch's allocator, ");
		vc_text_time(&text, value(report, VC_COL_failures_time));
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
		vc_text_deinit(&text);
		return;
	}
	if (of_torch(report))
		vc_text_add(&text, "  of PyTorch's allocator");
	else
		vc_text_add(&text, "  by %s (error %llu)",
			    vc_string(report->tables, VC_COL_failures_call, report->row),
			    (unsigned long long)value(report, VC_COL_failures_result));
	if (vc_value(report->tables, VC_COL_process_steps_known, 0)) {
		vc_text_add(&text, ", step ");
		vc_text_number(&text, value(report, VC_COL_failures_step));
	}
	if (*phase)
		vc_text_add(&text, ", in %s", phase);
	vc_text_add(&text, ", thread %llu, ",
		    (unsigned long long)value(report, VC_COL_failures_thread));
	vc_text_time(&text, value(report, VC_COL_failures_time));
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static void emit_free(struct report *report)
{
	enum vc_text_exact exact = report->emit->exact;
	struct vc_text text = {0};

	vc_text_add(&text, "  ");
	if (value(report, VC_COL_failures_free_known)) {
		vc_text_bytes(&text, value(report, VC_COL_failures_free), exact);
		if (value(report, VC_COL_failures_total)) {
			vc_text_add(&text, " of ");
			vc_text_bytes(&text, value(report, VC_COL_failures_total), exact);
		}
		vc_text_add(&text, " was free on the device, ");
	} else {
		vc_text_add(&text, "how much was free was not asked; ");
	}
	if (report->back) { /* the sizes in a trace are those that were asked for */
		vc_text_bytes(&text, report->oom.live, exact);
		vc_text_add(&text, " was live in PyTorch's segments of ");
		vc_text_bytes(&text, report->oom.reserved, exact);
	} else if (vc_is_import(report->tables)) { /* the snapshot was taken later */
		vc_text_add(&text, "what was live then is not known: the trace does not reach it");
	} else {
		vc_text_bytes(&text, report->oom.live, exact);
		vc_text_add(&text, " was allocated by this process");
	}
	if (report->advised) {
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
		vc_text_deinit(&text);
		vc_report_room(report->emit, &report->advice);
		return;
	}
	if (report->back && report->oom.cached) {
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
		vc_text_clear(&text);
		vc_text_add(&text, "  ");
		vc_text_bytes(&text, report->oom.cached, exact);
		vc_text_add(&text, " was free inside them, the largest hole ");
		vc_text_bytes(&text, report->oom.hole, exact);
	} else if (report->oom.cached) {
		vc_text_add(&text, ", of which ");
		vc_text_bytes(&text, report->oom.cached, exact);
		vc_text_add(&text, " was cached and free");
	}
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static void emit_failure_json(struct report *report)
{
	static const char *const outcome[] = {"open", "retried", "out of memory"};
	struct vc_emit *emit = report->emit;
	uint64_t number = value(report, VC_COL_failures_outcome);

	vc_emit_object(emit, "failure");
	vc_emit_number(emit, "device", value(report, VC_COL_failures_device));
	vc_emit_number(emit, "requested", value(report, VC_COL_failures_requested));
	vc_emit_string(emit, "call",
		       vc_string(report->tables, VC_COL_failures_call, report->row));
	vc_emit_number(emit, "result", value(report, VC_COL_failures_result));
	vc_emit_string(emit, "outcome", number < 3 ? outcome[number] : NULL);
	vc_emit_number(emit, "step", value(report, VC_COL_failures_step));
	vc_emit_string(emit, "phase",
		       vc_string(report->tables, VC_COL_failures_phase, report->row));
	vc_emit_number(emit, "thread", value(report, VC_COL_failures_thread));
	vc_emit_time(emit, "time", value(report, VC_COL_failures_time));
	if (value(report, VC_COL_failures_free_known))
		vc_emit_number(emit, "free", value(report, VC_COL_failures_free));
	else
		vc_emit_null(emit, "free");
	vc_emit_number(emit, "total", value(report, VC_COL_failures_total));
	vc_emit_number(emit, "live", report->oom.live);
	vc_report_stack_json(emit, "stack", report->chain);
	vc_emit_object_end(emit);
	vc_emit_number(emit, "failures", report->oom.total_failures);
	vc_emit_number(emit, "retried", report->oom.retried);
	vc_emit_number(emit, "cached_bytes", report->oom.cached);
	vc_emit_number(emit, "unlisted_bytes", report->oom.unlisted);
	vc_emit_bool(emit, "replayed", report->back != 0);
	if (!report->back)
		return;
	vc_emit_number(emit, "reserved_bytes", report->oom.reserved);
	vc_emit_number(emit, "largest_hole", report->oom.hole);
	vc_emit_bool(emit, "fragmented", report->oom.fragmented);
}

enum { COLUMN_BYTES, COLUMN_COUNT, COLUMN_KIND, COLUMN_SITE, COLUMNS };
static const struct vc_emit_column columns[COLUMNS] = {
	[COLUMN_BYTES] = {"bytes", "live then", VC_CELL_BYTES, false},
	[COLUMN_COUNT] = {"count", "number", VC_CELL_NUMBER, true},
	[COLUMN_KIND] = {"kind", "kind", VC_CELL_TEXT, true},
	[COLUMN_SITE] = {"site", "site", VC_CELL_CHAIN, false},
};

static void emit_sites(struct report *report)
{
	uint64_t shown = report->most && report->most < report->oom.count ? report->most :
									      report->oom.count;

	vc_emit_table(report->emit, "rows", columns, COLUMNS);
	for (uint64_t i = 0; i < shown; i++) {
		const struct vc_oom_row *row = &report->oom.rows[i];
		struct vc_cell cells[COLUMNS] = {
			[COLUMN_BYTES] = {.number = row->bytes},
			[COLUMN_COUNT] = {.number = row->count},
			[COLUMN_KIND] = {.text = vc_kind_text(row->kind)},
			[COLUMN_SITE] = {.text = vc_report_site(report->session, row->chain,
								&report->prefix)},
		};

		vc_emit_row(report->emit, cells);
		vc_report_stack_json(report->emit, "stack", row->chain);
		vc_emit_row_end(report->emit);
	}
	if (shown < report->oom.count) {
		struct vc_text text = {0};
		struct vc_cell cells[COLUMNS] = {
			[COLUMN_BYTES] = {.text = ""}, [COLUMN_COUNT] = {.text = ""}};

		vc_text_number(&text, report->oom.count - shown);
		vc_text_add(&text, " more sites (-n 0 shows all)");
		cells[COLUMN_SITE].text = vc_report_keep(report->session, &text);
		vc_emit_text_row(report->emit, cells);
	}
	vc_emit_table_end(report->emit);
}

static void emit_counts(struct report *report)
{
	struct vc_text text = {0};

	if (report->oom.total_failures < 2)
		return;
	vc_text_number(&text, report->oom.total_failures);
	vc_text_add(&text, " allocations failed in all, ");
	vc_text_number(&text, report->oom.retried);
	vc_text_add(&text, " of them succeeded at the next try; this is the last that did not");
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

/** Asks for the stacks of what was live, where the file keeps them with the failure. */
static int want_sites(struct report *report)
{
	const struct vc_tables *tables = report->tables;
	int error = 0;

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_failure_sites] && !error; i++) {
		uint64_t site = vc_value(tables, VC_COL_failure_sites_site, i);

		error = vc_session_want(report->session,
					vc_stack_reference(
						tables,
						vc_value(tables, VC_COL_sites_stack, site),
						vc_value(tables, VC_COL_sites_python, site)),
					vc_value(tables, VC_COL_sites_kind, site));
	}
	return error;
}

static int make_view(struct report *report)
{
	struct vc_session *session = report->session;

	return (report->back ? vc_oom_make_back : vc_oom_make)(
		report->tables, &session->accounts[0], session->names, report->row,
		&session->arena, &report->oom);
}

/**
 * What would help, where this is the moment of a failure of PyTorch's allocator: its segments are
 * as they were.
 */
static int make_advice(struct report *report)
{
	struct vc_session *session = report->session;
	uint64_t number = value(report, VC_COL_failures_device);
	struct vc_map map;
	int error = 0;

	if (!of_torch(report) || !value(report, VC_COL_failures_free_known) ||
	    value(report, VC_COL_failures_number) !=
		    vc_value(report->tables, VC_COL_process_number, 0))
		return 0;
	error = vc_map_make(report->tables, &session->accounts[0], &session->arena, &map);
	for (uint32_t i = 0; !error && i < map.device_count; i++) {
		if (map.devices[i].device_plus_one != number + 1)
			continue;
		report->advised = true;
		error = vc_advice_make(report->tables, &map, &map.devices[i], session->names,
				       value(report, VC_COL_failures_requested),
				       value(report, VC_COL_failures_free),
				       value(report, VC_COL_failures_total), &session->arena,
				       &report->advice);
	}
	return error;
}

static int make_report(struct report *report, struct vc_problem *problem)
{
	struct vc_session *session = report->session;
	const struct vc_tables *tables = &session->models[0].tables;
	uint64_t stack;
	int error = vc_oom_pick(tables, &report->row);

	report->tables = tables;
	if (error)
		return vc_problem_set(problem, error, session->models[0].path,
				      "`vramcore info` and `vramcore top` show what it holds",
				      "no failed allocation is in this file");
	error = vc_at_failure(&session->models[0], report->row, &report->back, problem);
	if (error)
		return error;
	stack = vc_stack_reference(report->tables, value(report, VC_COL_failures_stack),
				   value(report, VC_COL_failures_python));
	error = vc_session_count(session, VC_ACCOUNT_AUTO, VC_COLUMNS, problem);
	if (!error) /* what failed would have been device memory */
		error = vc_session_want(session, stack, VC_KIND_LINEAR);
	if (!error)
		error = want_sites(report);
	if (!error)
		error = vc_session_names(session, problem);
	if (!error)
		error = make_view(report);
	if (!error)
		error = make_advice(report);
	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	report->chain = vc_names_chain(session->names, 0, stack);
	vc_path_prefix_add(&report->prefix, report->chain);
	for (uint64_t i = 0; i < report->oom.count; i++)
		vc_path_prefix_add(&report->prefix, report->oom.rows[i].chain);
	for (uint64_t i = 0; i < report->advice.pin_count; i++)
		vc_path_prefix_add(&report->prefix, report->advice.pins[i].chain);
	return 0;
}

int vc_verb_oom(const struct vc_command *command, struct vc_emit *emit, struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct report report = {.emit = emit, .session = &session};
	int status = vc_option_number(command, VC_OPTION_COUNT, 20, UINT32_MAX, &report.most,
				      problem);

	if (status)
		return status;
	if (vc_option_given(command, VC_OPTION_MESSAGE))
		return vc_oom_message_report(command->operands[0], report.most, emit, problem);
	vc_wanted_small(&wanted);
	vc_session_wants_account(&wanted);
	vc_at_wants(&wanted);
	status = vc_session_open(command, 0, 1, &wanted, &session, problem);
	if (status)
		return status;
	status = make_report(&report, problem);
	if (!status) {
		vc_emit_begin(emit, "vramcore.oom/1");
		vc_report_file_json(emit, "file", &session.models[0]);
		emit_heading(&report);
		emit_request(&report);
		emit_free(&report);
		vc_emit_line(emit, "%s", "");
		emit_failure_json(&report);
		emit_sites(&report);
		if (report.advised)
			vc_report_advice(emit, &session, &report.advice,
					 value(&report, VC_COL_failures_requested), &report.prefix);
		emit_counts(&report);
		status = vc_report_end(emit, &session, false, problem);
	}
	vc_path_prefix_deinit(&report.prefix);
	vc_session_close(&session);
	return status;
}
