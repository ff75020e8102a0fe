/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore diff: what grew between two files, and the trend over three or more. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report.h"
#include "analyze/verb_diff_tensors.h"
#include "analyze/verb_top_tensors.h"
#include "analyze/views/diff.h"
#include "analyze/views/diff_notes.h"
#include "analyze/views/tensors.h"

struct report {
	const struct vc_command *command;
	struct vc_emit *emit;
	struct vc_session *session;
	struct vc_diff diff;
	struct vc_diff_notes notes;
	uint64_t rows, depth;
	uint32_t device_plus_one; /* UINT32_MAX: all */
	struct vc_path_prefix prefix;
	enum vc_tensors_by by;    /* PLACE: by site */
	uint32_t role_set;
	struct vc_roles *roles;   /* one a file; by site of the last one alone */
	struct vc_diff_input *inputs;
	uint64_t *group_key;      /* of its sites; NULL: its tensors are not known */
};

static const struct vc_tables *first_tables(const struct report *report)
{
	return &report->session->models[0].tables;
}

static const struct vc_tables *last_tables(const struct report *report)
{
	return &report->session->models[report->session->count - 1].tables;
}

/* ---- the lines above a table ---- */

/** True where all that is cached on a device, in all files, is PyTorch's. */
static bool cached_by_torch(const struct report *report, uint32_t device_plus_one)
{
	for (unsigned i = 0; i < report->session->count; i++) {
		const struct vc_account_device *device = vc_account_find_device(
			&report->session->accounts[i], device_plus_one);

		if (device && device->torch_cached != device->cached_bytes)
			return false;
	}
	return true;
}

/** "step 1,000 -> 50,000, after step", or both moments in full where they differ. */
static void add_moments(const struct report *report, struct vc_text *text)
{
	const struct vc_tables *first = first_tables(report), *last = last_tables(report);

	if (report->notes.same_moment && report->diff.axis == VC_AXIS_STEPS) {
		vc_text_add(text, "step ");
		vc_text_number(text, vc_value(first, VC_COL_process_step, 0));
		vc_text_add(text, " -> ");
		vc_report_moment_after(text, last);
		return;
	}
	if (report->notes.same_moment && report->diff.axis == VC_AXIS_SECONDS) {
		vc_text_duration(text, vc_diff_recorded(first));
		vc_text_add(text, " -> ");
		vc_text_duration(text, vc_diff_recorded(last));
		vc_text_add(text, " after the start, ");
		vc_report_moment(text, last);
		return;
	}
	vc_report_moment(text, first);
	vc_text_add(text, " -> ");
	vc_report_moment(text, last);
}

static const char *rate_unit(const struct report *report)
{
	return report->diff.axis == VC_AXIS_STEPS ? "step" : "hour";
}

/** A rate by axis, as people read it: by the step, or by the hour. */
static double shown_rate(const struct report *report, double rate)
{
	return report->diff.axis == VC_AXIS_SECONDS ? rate * 3600 : rate;
}

static void emit_heading(struct report *report, const struct vc_diff_device *device)
{
	uint64_t last = report->diff.files - 1;
	enum vc_text_exact exact = report->emit->exact;
	struct vc_text text = {0};

	add_moments(report, &text);
	vc_text_add(&text, "   ");
	vc_report_device(&text, last_tables(report), device->device_plus_one);
	vc_emit_heading(report->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	vc_text_add(&text, "live ");
	for (uint64_t i = 0; i <= last; i++) {
		/* of many files the first and the last ones say enough */
		if (i > 2 && i + 2 < last) {
			vc_text_add(&text, " -> ..");
			i = last - 2;
			continue;
		}
		vc_text_add(&text, "%s", i ? " -> " : "");
		vc_text_bytes(&text, device->live[i], exact);
	}
	vc_text_add(&text, "   ");
	vc_text_signed_bytes(&text, device->growth, exact);
	if (report->diff.axis != VC_AXIS_NONE && device->growth) {
		vc_text_add(&text, "   ");
		vc_text_rate(&text, shown_rate(report, device->rate));
		vc_text_add(&text, " per %s", rate_unit(report));
	}
	vc_emit_heading(report->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	if (device->cached[0] || device->cached[last]) {
		vc_text_add(&text, "cached by %s, free ",
			    cached_by_torch(report, device->device_plus_one) ?
				    "PyTorch" : "the program's allocator");
		vc_text_bytes(&text, device->cached[0], exact);
		vc_text_add(&text, " -> ");
		vc_text_bytes(&text, device->cached[last], exact);
		vc_text_add(&text, ", reserved ");
		vc_text_bytes(&text, device->reserved[0], exact);
		vc_text_add(&text, " -> ");
		vc_text_bytes(&text, device->reserved[last], exact);
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
	}
	vc_text_deinit(&text);
}

/* ---- the table ---- */

enum {
	COLUMN_GROWTH, COLUMN_BLOCKS, COLUMN_RATE, COLUMN_FIT, COLUMN_SHAPE, COLUMN_SITE, COLUMNS
};

/* ---- what keeps it ---- */

static const struct vc_roles *last_roles(const struct report *report)
{
	return &report->roles[report->session->count - 1];
}

/** Of every file, where it is about tensors; else of the last one, for what keeps what grew. */
static int make_roles(struct report *report)
{
	struct vc_session *session = report->session;
	bool all = report->by != VC_TENSORS_BY_PLACE;
	int error = 0;

	report->roles = vc_arena_allocate(&session->arena, session->count, sizeof(*report->roles));
	if (!report->roles)
		return VC_E_NO_MEMORY;
	for (unsigned i = all ? 0 : session->count - 1; i < session->count && !error; i++)
		error = vc_roles_make(&session->models[i].tables, &session->accounts[i],
				      all ? session->names : NULL, i, &session->arena,
				      &report->roles[i]);
	return error;
}

static int find_roles(struct report *report)
{
	struct vc_session *session = report->session;
	const struct vc_account *account = &session->accounts[session->count - 1];
	int error = make_roles(report);

	if (error || !last_roles(report)->walked || report->by != VC_TENSORS_BY_PLACE)
		return error;
	report->group_key = vc_arena_allocate(&session->arena, account->group_count + 1,
					      sizeof(*report->group_key));
	if (!report->group_key)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < account->group_count; i++) {
		const struct vc_chain *chain = vc_names_chain(session->names, session->count - 1,
							      account->groups[i].stack);

		report->group_key[i] =
			chain->count ? vc_chain_key(chain, (unsigned)report->depth) : 0;
	}
	return 0;
}

/** What keeps most of the blocks that a site has in the last file and had not in the first. */
static bool find_holder(struct report *report, uint32_t device_plus_one,
			const struct vc_diff_row *row, struct vc_tensor_row *ret)
{
	struct vc_session *session = report->session;
	const struct vc_tables *first = first_tables(report), *last = last_tables(report);
	struct vc_tensors_options options = {
		.by = VC_TENSORS_BY_HOLDER, .device_plus_one = device_plus_one,
		.role_set = ~(1u << VC_ROLE_UNKNOWN), .group_key = report->group_key,
		.key = row->key};
	struct vc_tensor_rows rows;

	if (!report->group_key || row->growth <= 0)
		return false;
	if (vc_same_process(first, last))
		options.born_after = vc_value(first, VC_COL_process_number, 0);
	if (vc_tensor_rows_make(last, &session->accounts[session->count - 1], last_roles(report), NULL,
				&options, &session->arena, &rows) || !rows.count)
		return false;
	*ret = rows.rows[0];
	return true;
}

/** Two lines below its row: the way that keeps them, and what they are. */
static void emit_holder(struct report *report, const struct vc_tensor_row *holder)
{
	struct vc_text text = {0};

	vc_text_number(&text, holder->count);
	vc_text_add(&text, " x %s, %s", holder->alike ? holder->kind : "several kinds",
		    vc_role_text[holder->role]);
	vc_diff_emit_holder(report->emit, report->session, holder->text,
			    vc_report_keep(report->session, &text), COLUMNS, COLUMN_SITE);
}

static void emit_row(struct report *report, uint32_t device_plus_one, const struct vc_diff_row *row)
{
	bool rate = report->diff.axis != VC_AXIS_NONE && row->growth > 0;
	struct vc_cell cells[COLUMNS] = {
		[COLUMN_GROWTH] = {.amount = row->growth},
		[COLUMN_BLOCKS] = {.amount = row->count_growth},
		[COLUMN_RATE] = {.real = shown_rate(report, row->rate), .absent = !rate},
		[COLUMN_FIT] = {.real = row->fit},
		[COLUMN_SHAPE] = {.text = vc_diff_shape_text(row->shape, row->is_new,
							      row->is_gone)},
		[COLUMN_SITE] = {.text = vc_report_site(report->session, row->chain,
							&report->prefix)},
	};

	struct vc_tensor_row holder;
	bool held = find_holder(report, device_plus_one, row, &holder);

	if (row->shape == VC_SHAPE_ONCE && !cells[COLUMN_RATE].absent)
		cells[COLUMN_RATE].text = "-"; /* it will not go on at that rate */
	vc_emit_row(report->emit, cells);
	vc_emit_string(report->emit, "shape", row->shape ? vc_shape_text(row->shape) : NULL);
	vc_emit_bool(report->emit, "new", row->is_new);
	vc_emit_bool(report->emit, "gone", row->is_gone);
	vc_diff_emit_numbers(report->emit, "bytes", row->bytes, report->diff.files);
	vc_diff_emit_numbers(report->emit, "counts", row->count, report->diff.files);
	vc_report_stack_json(report->emit, "stack", row->chain);
	if (held) {
		vc_emit_string(report->emit, "held_by", holder.text);
		vc_emit_number(report->emit, "held_bytes", holder.bytes);
		vc_emit_string(report->emit, "role", vc_role_key[holder.role]);
		vc_emit_string(report->emit, "tensor_kind", holder.kind);
	}
	vc_emit_row_end(report->emit);
	if (held)
		emit_holder(report, &holder);
}

/** "9 other sites unchanged", "12 more sites grew (-n 0 shows all)" */
static void emit_rest(struct report *report, int64_t growth, uint64_t count, const char *what)
{
	struct vc_text text = {0};
	struct vc_cell cells[COLUMNS] = {[COLUMN_GROWTH] = {.amount = growth}};

	if (!count)
		return;
	cells[COLUMN_BLOCKS].text = cells[COLUMN_RATE].text = cells[COLUMN_FIT].text = "";
	vc_text_number(&text, count);
	vc_text_add(&text, " %s", what);
	cells[COLUMN_SITE].text = vc_report_keep(report->session, &text);
	vc_emit_text_row(report->emit, cells);
}

static void emit_table(struct report *report, const struct vc_diff_device *device)
{
	bool steps = report->diff.axis == VC_AXIS_STEPS, none = report->diff.axis == VC_AXIS_NONE;
	bool blocks = report->notes.has_blocks;
	const struct vc_emit_column columns[COLUMNS] = {
		[COLUMN_GROWTH] = {"growth", "growth", VC_CELL_SIGNED_BYTES, false},
		[COLUMN_BLOCKS] = {"count_growth", blocks ? "blocks" : "allocations",
				   VC_CELL_SIGNED_NUMBER, true},
		[COLUMN_RATE] = {none ? NULL : steps ? "per_step" : "per_hour",
				 none ? NULL : steps ? "per step" : "per hour", VC_CELL_RATE, true},
		[COLUMN_FIT] = {report->diff.files > 2 ? "r_squared" : NULL,
				report->diff.files > 2 ? "r2" : NULL, VC_CELL_REAL, true},
		[COLUMN_SHAPE] = {NULL, "shape of it", VC_CELL_TEXT, true},
		[COLUMN_SITE] = {"site", "site", VC_CELL_CHAIN, false},
	};
	struct vc_diff_shown shown = vc_diff_choose(device, report->rows);

	for (uint64_t i = 0; i < device->count; i++)
		if (vc_diff_is_shown(device, &shown, i))
			vc_path_prefix_add(&report->prefix, device->rows[i].chain);
	vc_emit_table(report->emit, "rows", columns, COLUMNS);
	for (uint64_t i = 0; i < shown.first; i++)
		emit_row(report, device->device_plus_one, &device->rows[i]);
	emit_rest(report, shown.grew_bytes, shown.grew, "more sites grew (-n 0 shows all)");
	emit_rest(report, shown.shrank_bytes, shown.shrank,
		  "more sites shrank or moved (-n 0 shows all)");
	for (uint64_t i = device->count - shown.last; i < device->count; i++)
		emit_row(report, device->device_plus_one, &device->rows[i]);
	emit_rest(report, 0, device->unchanged,
		  device->unchanged == 1 ? "other site unchanged" : "other sites unchanged");
	vc_emit_table_end(report->emit);
	vc_emit_number(report->emit, "unchanged_sites", device->unchanged);
	vc_emit_number(report->emit, "more_rows", shown.grew + shown.shrank);
}

/* ---- the lines below it ---- */

static void emit_share(struct report *report, const struct vc_diff_device *device)
{
	struct vc_diff_explained explained = vc_diff_explain(device);
	struct vc_text text = {0};

	if (!explained.sites)
		return;
	vc_text_add(&text, "%s %% of the growth is ", explained.share);
	vc_text_number(&text, explained.sites);
	vc_text_add(&text, explained.sites == 1 ? " site." : " sites.");
	if (device->full_known && isfinite(device->full_in)) {
		vc_text_add(&text, " At %s the device is full in about ",
			    device->lasting_rate < device->rate ? "the rate of what keeps growing" :
								  "this rate");
		if (report->diff.axis == VC_AXIS_STEPS) {
			vc_text_about(&text, device->full_in);
			vc_text_add(&text, " steps");
			if (report->diff.seconds_per_step > 0) {
				vc_text_add(&text, ", ");
				vc_text_duration(&text, vc_diff_nanoseconds(
					device->full_in * report->diff.seconds_per_step));
			}
		} else {
			vc_text_duration(&text, vc_diff_nanoseconds(device->full_in));
		}
		vc_text_add(&text, ".");
	}
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static void emit_numbers(struct report *report, const struct vc_diff_device *device)
{
	struct vc_emit *emit = report->emit;
	static const char *const key[] = {"live_bytes", "cached_bytes", "reserved_bytes"};
	const uint64_t *const values[] = {device->live, device->cached, device->reserved};

	vc_report_device_json(emit, "device", last_tables(report), device->device_plus_one);
	for (unsigned i = 0; i < 3; i++) {
		vc_emit_list(emit, key[i]);
		for (uint64_t j = 0; j < report->diff.files; j++)
			vc_emit_number(emit, NULL, values[i][j]);
		vc_emit_list_end(emit);
	}
	vc_emit_signed(emit, "growth", device->growth);
	vc_emit_number(emit, "grown", device->grown);
	if (report->diff.axis == VC_AXIS_NONE)
		vc_emit_null(emit, "rate");
	else
		vc_emit_real(emit, "rate", shown_rate(report, device->rate));
	if (device->room_known)
		vc_emit_number(emit, "room", device->room);
	else
		vc_emit_null(emit, "room");
	if (report->diff.axis == VC_AXIS_NONE)
		vc_emit_null(emit, "lasting_rate");
	else
		vc_emit_real(emit, "lasting_rate", shown_rate(report, device->lasting_rate));
	if (device->full_known)
		vc_emit_real(emit, report->diff.axis == VC_AXIS_STEPS ? "full_in_steps" :
									"full_in_seconds",
			     device->full_in);
}

static int emit_tensors(struct report *report, const struct vc_diff_device *device)
{
	const struct vc_diff_tensors_report shown = {
		.emit = report->emit, .session = report->session, .diff = &report->diff,
		.by = report->by, .rows = report->rows, .live = device->live};
	const struct vc_diff_tensors_options options = {
		.by = report->by, .device_plus_one = device->device_plus_one,
		.role_set = report->role_set, .same_moment = report->notes.same_moment,
		.no_fold = vc_option_given(report->command, VC_OPTION_NO_FOLD)};
	struct vc_diff_tensors tensors;
	int error = vc_diff_tensors_make(report->inputs, report->roles, &report->diff, &options,
					 &report->session->arena, &tensors);

	if (!error)
		vc_diff_tensors_emit(&shown, &tensors);
	return error;
}

static int emit_device(struct report *report, const struct vc_diff_device *device)
{
	int error = 0;

	vc_emit_object(report->emit, NULL);
	emit_heading(report, device);
	emit_numbers(report, device);
	if (report->by != VC_TENSORS_BY_PLACE) {
		error = emit_tensors(report, device);
	} else {
		emit_table(report, device);
		emit_share(report, device);
	}
	vc_emit_object_end(report->emit);
	return error;
}

static void emit_notes(struct report *report)
{
	vc_emit_list(report->emit, "notes");
	for (unsigned i = 0; i < report->notes.count; i++) {
		vc_emit_line(report->emit, "%s", report->notes.line[i]);
		vc_emit_string(report->emit, NULL, report->notes.line[i]);
	}
	vc_emit_list_end(report->emit);
}

static uint64_t most_growth(const struct report *report)
{
	uint64_t most = 0;

	for (uint32_t i = 0; i < report->diff.device_count; i++)
		if (report->diff.devices[i].growth > (int64_t)most)
			most = (uint64_t)report->diff.devices[i].growth;
	return most;
}

static int emit_report(struct report *report, struct vc_problem *problem)
{
	static const char *const axis[] = {"none", "steps", "seconds"};
	unsigned shown = 0;
	int status, error = 0;

	vc_emit_begin(report->emit, report->by == VC_TENSORS_BY_PLACE ? "vramcore.diff/1" :
									"vramcore.diff.tensors/1");
	vc_emit_list(report->emit, "files");
	for (unsigned i = 0; i < report->session->count; i++)
		vc_report_file_json(report->emit, NULL, &report->session->models[i]);
	vc_emit_list_end(report->emit);
	vc_emit_string(report->emit, "axis", axis[report->diff.axis]);
	vc_emit_string(report->emit, "by", vc_tensors_by_text[report->by]);
	vc_emit_list(report->emit, "devices");
	for (uint32_t i = 0; i < report->diff.device_count && !error; i++) {
		const struct vc_diff_device *device = &report->diff.devices[i];

		if (report->device_plus_one != UINT32_MAX &&
		    report->device_plus_one != device->device_plus_one)
			continue;
		if (shown++)
			vc_emit_line(report->emit, "%s", "");
		error = emit_device(report, device);
	}
	vc_emit_list_end(report->emit);
	if (!shown)
		vc_emit_line(report->emit, "no device memory was live in any of the files");
	emit_notes(report);
	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	status = vc_report_end(report->emit, report->session, false, problem);
	if (status >= 0 && vc_command_fails_on(report->command, "growth", most_growth(report)))
		status = VC_EXIT_FAIL_ON;
	return status;
}

static int make_views(struct report *report)
{
	struct vc_session *session = report->session;
	struct vc_diff_input *inputs = vc_arena_allocate(&session->arena, session->count,
							 sizeof(*inputs));
	int error;

	report->inputs = inputs;
	if (!inputs)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < session->count; i++)
		inputs[i] = (struct vc_diff_input){&session->models[i].tables,
						   &session->accounts[i], i};
	error = vc_diff_make(inputs, session->count, session->names, (unsigned)report->depth,
			     &session->arena, &report->diff);
	if (!error)
		error = vc_diff_notes_make(inputs, session->count,
					   report->by != VC_TENSORS_BY_PLACE, &session->arena,
					   &report->notes);
	return error ? error : find_roles(report);
}

static int read_by(struct report *report, struct vc_problem *problem)
{
	const struct vc_command *command = report->command;
	unsigned by, otherwise = vc_option_given(command, VC_OPTION_ROLE) ? VC_TENSORS_BY_MODULE :
									     VC_TENSORS_BY_PLACE;
	int error = vc_option_word(command, VC_OPTION_BY, vc_tensors_by_text, VC_TENSORS_BY_COUNT,
				   otherwise, &by, problem);

	report->by = (enum vc_tensors_by)by;
	if (!error)
		error = vc_option_roles(command, &report->role_set, problem);
	/* a way that keeps something has its counts in its words: two files' are never the same */
	if (!error && (by == VC_TENSORS_BY_HOLDER ||
		       (by == VC_TENSORS_BY_PLACE && report->role_set)))
		return vc_problem_usage(problem, "role, module or tensor; what keeps what grew is shown",
					by == VC_TENSORS_BY_PLACE ? "--role needs another --by" :
								    "--by holder: not of two files");
	return error;
}

/** Nothing can be said about tensors of a file that was not asked for them. */
static int check_walked(const struct report *report, struct vc_problem *problem)
{
	for (unsigned i = 0; report->by != VC_TENSORS_BY_PLACE && i < report->session->count; i++)
		if (!report->roles[i].walked)
			return vc_problem_set(problem, VC_E_NOT_FOUND,
					      report->session->models[i].path,
					      "vramcore diff --by site compares lines of code",
					      "nothing is known of tensors: %s", report->roles[i].why);
	return 0;
}

int vc_verb_diff(const struct vc_command *command, struct vc_emit *emit,
		 struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct report report = {.command = command, .emit = emit, .session = &session};
	uint64_t device;
	int status = vc_option_number(command, VC_OPTION_COUNT, 20, UINT32_MAX, &report.rows,
				      problem);

	if (!status)
		status = vc_option_number(command, VC_OPTION_DEPTH, 0, 1000, &report.depth,
					  problem);
	if (!status)
		status = vc_option_number(command, VC_OPTION_DEVICE, UINT32_MAX - 1,
					  UINT32_MAX - 1, &device, problem);
	if (!status)
		status = read_by(&report, problem);
	if (status)
		return status;
	report.device_plus_one = (uint32_t)device + 1;
	vc_wanted_small(&wanted);
	vc_session_wants_account(&wanted);
	wanted.column[VC_COL_allocations_step] = wanted.column[VC_COL_allocations_time] = true;
	vc_session_wants_roles(&wanted);
	status = vc_session_open(command, 0, command->operand_count, &wanted, &session, problem);
	if (status)
		return status;
	status = vc_session_count(&session, vc_option_given(command, VC_OPTION_ALLOCATIONS) ?
				  VC_ACCOUNT_ALLOCATIONS : VC_ACCOUNT_AUTO, VC_COLUMNS, problem);
	if (!status)
		status = vc_session_names(&session, problem);
	if (!status && make_views(&report))
		status = vc_problem_set(problem, VC_E_NO_MEMORY, NULL, NULL, "%s",
					vc_error_text(VC_E_NO_MEMORY));
	if (!status)
		status = check_walked(&report, problem);
	if (!status)
		status = emit_report(&report, problem);
	vc_path_prefix_deinit(&report.prefix);
	vc_session_close(&session);
	return status;
}
