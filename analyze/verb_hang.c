/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore hang: where processes stand, side by side, and which of them the others wait for. */
#include <string.h>

#include "analyze/report.h"
#include "analyze/views/hang.h"

struct report {
	const struct vc_command *command;
	struct vc_emit *emit;
	struct vc_session *session;
	struct vc_hang hang;
	struct vc_path_prefix prefix;
};

/** "rank 3", or "process 4711" where no rank is known. */
static void add_name(struct vc_text *text, const struct vc_hang_process *process)
{
	if (process->rank_plus_one)
		vc_text_add(text, "rank %llu", (unsigned long long)process->rank_plus_one - 1);
	else
		vc_text_add(text, "process %llu", (unsigned long long)process->pid);
}

static const struct vc_tables *tables_of(const struct report *report,
					 const struct vc_hang_process *process)
{
	return &report->session->models[process->file].tables;
}

/** The Python stack of a thread, else its native one; NULL: it has none. */
static struct vc_chain *chain_of(const struct report *report, const struct vc_hang_process *process,
				 uint64_t row, bool python)
{
	const struct vc_tables *tables = tables_of(report, process);
	uint64_t stack = python ? vc_stack_reference(tables, 0,
						     vc_value(tables, VC_COL_thread_stacks_python, row))
				: vc_value(tables, VC_COL_thread_stacks_stack, row);

	return stack ? vc_names_chain(report->session->names, process->file, stack) : NULL;
}

static const char *site_of(struct report *report, const struct vc_hang_process *process)
{
	struct vc_chain *chain;

	if (!process->has_thread)
		return "";
	chain = chain_of(report, process, process->thread, true);
	if (!chain)
		chain = chain_of(report, process, process->thread, false);
	return chain ? vc_report_site(report->session, chain, &report->prefix) : "";
}

/** "3 min 20 s" */
static void add_since(struct vc_text *text, uint64_t since)
{
	if (since)
		vc_text_duration(text, since);
	else
		vc_text_add(text, "-");
}

/* ---- who is to blame ---- */

static void emit_behind(struct report *report)
{
	const struct vc_hang *hang = &report->hang;
	struct vc_text text = {0};

	for (unsigned i = 0; i < hang->behind && i < 8; i++) {
		vc_text_add(&text, "%s", i ? ", " : "");
		add_name(&text, &hang->process[i]);
	}
	if (hang->behind > 8)
		vc_text_add(&text, " and %u more", hang->behind - 8);
	vc_text_add(&text, hang->behind == 1 ? " is behind: step " : " are behind: step ");
	vc_text_number(&text, hang->first_step);
	vc_text_add(&text, ", the furthest is at ");
	vc_text_number(&text, hang->last_step);
	vc_emit_warning(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

/** Those that do not wait where the others do. */
static void emit_absent(struct report *report)
{
	const struct vc_hang *hang = &report->hang;

	for (unsigned i = 0; i < hang->count; i++) {
		const struct vc_hang_process *process = &hang->process[i];
		struct vc_text text = {0};

		if (process->wait == VC_WAIT_COLLECTIVE)
			continue;
		add_name(&text, process);
		vc_text_add(&text, " is not in the collective that %u %s", hang->collective,
			    hang->collective == 1 ? "other waits in: it is in " : "others wait in: it is in ");
		vc_text_add(&text, "%s", site_of(report, process));
		if (*process->module)
			vc_text_add(&text, ", module %s", process->module);
		if (*process->wait_text)
			vc_text_add(&text, ", waiting for %s", process->wait_text);
		else if (*process->state)
			vc_text_add(&text, ", %s", process->state);
		vc_emit_warning(report->emit, "%s", vc_text_get(&text));
		vc_text_deinit(&text);
	}
}

static void emit_verdict(struct report *report)
{
	const struct vc_hang *hang = &report->hang;

	if (hang->behind)
		emit_behind(report);
	if (hang->collective && hang->collective < hang->count)
		emit_absent(report);
	else if (hang->collective > 1 && !hang->behind)
		vc_emit_warning(report->emit, "all wait in a collective, none is behind: one that is not "
					      "looked at here, or the network");
	vc_emit_number(report->emit, "behind", hang->behind);
	vc_emit_number(report->emit, "in_collective", hang->collective);
}

/* ---- threads ---- */

static void emit_frames(struct report *report, const struct vc_chain *chain, const char *what,
			uint64_t certain)
{
	uint64_t most = vc_option_given(report->command, VC_OPTION_ALL_FRAMES) ? chain->count : 8;
	struct vc_text text = {0};
	uint64_t calls = 0; /* frames of the stack itself: inlined functions are none */

	for (uint32_t i = 0; i < chain->count && i < most; i++) {
		vc_text_clear(&text);
		vc_frame_text(&text, chain->frames[i], &report->prefix);
		vc_emit_line(report->emit, "      %-6s %s%s", i ? "" : what, vc_text_get(&text),
			     calls >= certain ? "  (guessed)" : "");
		calls += !chain->frames[i]->inlined;
	}
	if (chain->count > most)
		vc_emit_line(report->emit, "             and %u more (--all-frames)",
			     (unsigned)(chain->count - most));
	vc_text_deinit(&text);
}

static void emit_thread(struct report *report, const struct vc_hang_process *process, uint64_t row)
{
	const struct vc_tables *tables = tables_of(report, process);
	const struct vc_chain *native = chain_of(report, process, row, false);
	const struct vc_chain *python = chain_of(report, process, row, true);
	const char *wait = vc_string(tables, VC_COL_thread_stacks_wait, row);

	vc_emit_object(report->emit, NULL);
	vc_emit_number(report->emit, "thread", vc_value(tables, VC_COL_thread_stacks_thread, row));
	vc_emit_string(report->emit, "name", vc_string(tables, VC_COL_thread_stacks_name, row));
	vc_emit_string(report->emit, "state", vc_string(tables, VC_COL_thread_stacks_state, row));
	vc_emit_string(report->emit, "wait", *wait ? wait : NULL);
	vc_emit_number(report->emit, "certain", vc_value(tables, VC_COL_thread_stacks_certain, row));
	if (python)
		vc_report_stack_json(report->emit, "python", python);
	if (native)
		vc_report_stack_json(report->emit, "native", native);
	vc_emit_object_end(report->emit);
	if (!vc_option_given(report->command, VC_OPTION_THREADS))
		return;
	vc_emit_line(report->emit, "    thread %llu %s, %s%s%s",
		     (unsigned long long)vc_value(tables, VC_COL_thread_stacks_thread, row),
		     vc_string(tables, VC_COL_thread_stacks_name, row),
		     vc_string(tables, VC_COL_thread_stacks_state, row), *wait ? " for " : "", wait);
	if (python)
		emit_frames(report, python, "Python", UINT64_MAX);
	if (native)
		emit_frames(report, native, "native",
			    vc_value(tables, VC_COL_thread_stacks_certain, row));
}

static void emit_threads(struct report *report)
{
	vc_emit_list(report->emit, "threads");
	for (unsigned i = 0; i < report->hang.count; i++) {
		const struct vc_hang_process *process = &report->hang.process[i];
		const struct vc_tables *tables = tables_of(report, process);
		struct vc_text text = {0};

		if (vc_option_given(report->command, VC_OPTION_THREADS)) {
			add_name(&text, process);
			vc_emit_line(report->emit, "  %s", vc_text_get(&text));
		}
		vc_text_deinit(&text);
		vc_emit_object(report->emit, NULL);
		vc_emit_number(report->emit, "pid", process->pid);
		vc_emit_list(report->emit, "threads");
		for (uint64_t row = 0; row < tables->rows[VC_TABLE_thread_stacks]; row++)
			emit_thread(report, process, row);
		vc_emit_list_end(report->emit);
		vc_emit_object_end(report->emit);
	}
	vc_emit_list_end(report->emit);
}

/* ---- the table ---- */

static void emit_processes(struct report *report)
{
	static const struct vc_emit_column columns[] = {
		{"pid", "pid", VC_CELL_NUMBER, false},
		{"rank", "rank", VC_CELL_NUMBER, false},
		{"step", "step", VC_CELL_NUMBER, false},
		{NULL, "since", VC_CELL_TEXT, false},
		{"live", "live", VC_CELL_BYTES, false},
		{"state", "state", VC_CELL_TEXT, true},
		{"waits_for", "waits for", VC_CELL_TEXT, false},
		{"module", "module", VC_CELL_TEXT, true},
		{"site", "where", VC_CELL_CHAIN, false},
	};

	vc_emit_table(report->emit, "processes", columns, sizeof(columns) / sizeof(*columns));
	for (unsigned i = 0; i < report->hang.count; i++) {
		const struct vc_hang_process *process = &report->hang.process[i];
		struct vc_text since = {0};
		struct vc_cell cells[] = {
			{.number = process->pid},
			{.number = process->rank_plus_one - 1, .absent = !process->rank_plus_one},
			{.number = process->step, .absent = !process->steps_known},
			{.text = NULL},
			{.number = process->live},
			{.text = process->state},
			{.text = process->wait_text},
			{.text = process->module},
			{.text = site_of(report, process)},
		};

		add_since(&since, process->since);
		cells[3].text = vc_report_keep(report->session, &since);
		vc_emit_row(report->emit, cells);
		if (process->since)
			vc_emit_number(report->emit, "since_last_step", process->since);
		else
			vc_emit_null(report->emit, "since_last_step");
		vc_emit_row_end(report->emit);
		vc_text_deinit(&since);
	}
	vc_emit_table_end(report->emit);
}

static int emit_report(struct report *report, struct vc_problem *problem)
{
	struct vc_text text = {0};

	vc_emit_begin(report->emit, "vramcore.hang/1");
	vc_text_add(&text, "%u %s", report->hang.count, report->hang.count == 1 ? "process" : "processes");
	if (report->hang.steps_known) {
		vc_text_add(&text, ", step ");
		vc_text_number(&text, report->hang.first_step);
		if (report->hang.last_step != report->hang.first_step) {
			vc_text_add(&text, " to ");
			vc_text_number(&text, report->hang.last_step);
		}
	}
	vc_emit_heading(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	emit_verdict(report);
	emit_processes(report);
	emit_threads(report);
	if (!vc_option_given(report->command, VC_OPTION_THREADS))
		vc_emit_line(report->emit, "--threads shows every thread");
	return vc_report_end(report->emit, report->session, false, problem);
}

/** Names are wanted for both stacks of every thread. */
static int want_stacks(struct vc_session *session)
{
	int error = 0;

	for (unsigned file = 0; file < session->count; file++) {
		const struct vc_tables *tables = &session->models[file].tables;

		for (uint64_t row = 0; !error && row < tables->rows[VC_TABLE_thread_stacks]; row++) {
			uint64_t python = vc_value(tables, VC_COL_thread_stacks_python, row);

			error = vc_names_want(session->names, file,
					      vc_value(tables, VC_COL_thread_stacks_stack, row));
			if (!error && python)
				error = vc_names_want(session->names, file,
						      vc_stack_reference(tables, 0, python));
		}
	}
	return error;
}

static void find_prefix(struct report *report)
{
	for (unsigned i = 0; i < report->hang.count; i++) {
		const struct vc_hang_process *process = &report->hang.process[i];
		const struct vc_chain *chain;

		if (!process->has_thread)
			continue;
		chain = chain_of(report, process, process->thread, true);
		if (chain)
			vc_path_prefix_add(&report->prefix, chain);
	}
}

int vc_verb_hang(const struct vc_command *command, struct vc_emit *emit, struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct report report = {.command = command, .emit = emit, .session = &session};
	int status;

	vc_wanted_small(&wanted);
	status = vc_session_open(command, 0, command->operand_count, &wanted, &session, problem);
	if (status)
		return status;
	for (unsigned i = 0; command->shown && i < session.count; i++)
		session.models[i].path = command->shown[i];
	status = vc_session_count(&session, VC_ACCOUNT_AUTO, VC_COLUMNS, problem);
	if (!status && want_stacks(&session))
		status = vc_problem_set(problem, VC_E_NO_MEMORY, NULL, NULL, "%s",
					vc_error_text(VC_E_NO_MEMORY));
	if (!status)
		status = vc_session_names(&session, problem);
	if (!status && vc_hang_make(session.models, session.count, session.names, &session.arena,
				    &report.hang))
		status = vc_problem_set(problem, VC_E_NO_MEMORY, NULL, NULL, "%s",
					vc_error_text(VC_E_NO_MEMORY));
	if (!status) {
		find_prefix(&report);
		status = emit_report(&report, problem);
	}
	vc_path_prefix_deinit(&report.prefix);
	vc_session_close(&session);
	return status;
}
