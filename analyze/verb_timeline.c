/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore timeline: allocated and reserved bytes over a trace, and what made up the peak. */
#include <stdlib.h>

#include "analyze/at.h"
#include "analyze/chart.h"
#include "analyze/report.h"
#include "analyze/views/replay_state.h"
#include "analyze/views/sites.h"
#include "analyze/views/timeline.h"

enum { CHART_ROWS = 12, LABEL_COLUMNS = 11, CHART_LEAST = 8, MARKS_SHOWN = 10 };

struct timeline {
	const struct vc_command *command;
	struct vc_emit *emit;
	struct vc_session *session;
	const struct vc_tables *tables;
	struct vc_replay replay;
	struct vc_path_prefix prefix;
	uint64_t rows, device;       /* UINT64_MAX: all devices */
	bool utf8;
};

/** "GPU 0", "pinned host memory" */
static void add_list_name(const struct timeline *timeline, struct vc_text *text,
			  const struct vc_replay_list *list)
{
	if (list->device >= VC_REPLAY_HOST)
		vc_text_add(text, "pinned host memory");
	else
		vc_report_device(text, timeline->tables,
				 list->device < VC_MODEL_DEVICES_MOST ?
					 (uint32_t)list->device + 1 : 0);
}

static void add_seconds(struct vc_text *text, uint64_t microseconds)
{
	if (microseconds < 1000000)
		vc_text_add(text, "%.3f ms", (double)microseconds / 1e3);
	else
		vc_text_add(text, "%.3f s", (double)microseconds / 1e6);
}

/** "event 11,205, 1.622 s" of a moment; "the start" before the first event. */
static void add_moment(const struct timeline *timeline, struct vc_text *text,
		       const struct vc_replay_list *list, uint64_t moment)
{
	uint64_t time;

	if (!moment) {
		vc_text_add(text, "the start");
		return;
	}
	vc_text_add(text, "event ");
	vc_text_number(text, moment - 1);
	time = vc_value(timeline->tables, VC_COL_trace_time_us, list->first + moment - 1);
	if (list->has_time && time >= list->first_time) {
		vc_text_add(text, ", ");
		add_seconds(text, time - list->first_time);
	}
}

/* ---- the chart ---- */

static uint64_t eighths_of(uint64_t bytes, uint64_t most)
{
	return most ? (uint64_t)((double)bytes * CHART_ROWS * 8 / (double)most + 0.5) : 0;
}

static void draw_row(const struct timeline *timeline, unsigned row,
		     const struct vc_timeline_bucket *buckets, uint64_t count, uint64_t most)
{
	struct vc_text text = {0}, label = {0};
	uint64_t base = (uint64_t)(CHART_ROWS - 1 - row) * 8;

	if (row % 3 == 0)
		vc_text_bytes(&label, (uint64_t)((double)most * (CHART_ROWS - row) / CHART_ROWS),
			      VC_TEXT_ROUNDED);
	vc_text_add(&text, "%*s %s", LABEL_COLUMNS - 2, vc_text_get(&label),
		    timeline->utf8 ? "\u2502" : "|");
	for (uint64_t i = 0; i < count; i++) {
		uint64_t filled = eighths_of(buckets[i].allocated, most);
		uint64_t line = eighths_of(buckets[i].reserved, most);

		/* bytes that are there are seen, however few */
		if (!filled && buckets[i].allocated)
			filled = 1;
		vc_chart_column(&text, timeline->utf8, filled > base ? filled - base : 0,
				line > base && line <= base + 8);
	}
	vc_emit_line(timeline->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&label);
	vc_text_deinit(&text);
}

/** Below the curve: P peak, O out of memory, S snapshot, ' a step begins. */
static void draw_marks(const struct timeline *timeline, uint32_t number,
		       const struct vc_steps *steps, const struct vc_timeline_bucket *buckets,
		       uint64_t count)
{
	const struct vc_replay_list *list = &timeline->replay.lists[number];
	const struct vc_replay *replay = &timeline->replay;
	uint64_t step = 0, mark = 0;
	struct vc_text text = {0};

	while (mark < replay->mark_count && replay->marks[mark].list < number)
		mark++;
	vc_text_add(&text, "%*s %s", LABEL_COLUMNS - 2, "", timeline->utf8 ? "\u2514" : "+");
	for (uint64_t i = 0; i < count; i++) {
		char sign = 0;

		for (; step < steps->count && steps->boundaries[step] <= buckets[i].last; step++)
			sign = '\'';
		for (; mark < replay->mark_count && replay->marks[mark].list == number &&
		       replay->marks[mark].moment <= buckets[i].last;
		     mark++)
			if (replay->marks[mark].kind == VC_MARK_OOM)
				sign = 'O';
			else if (replay->marks[mark].kind == VC_MARK_SNAPSHOT && sign != 'O')
				sign = 'S';
		if (list->peak_moment >= buckets[i].first && list->peak_moment <= buckets[i].last &&
		    sign != 'O')
			sign = 'P';
		if (sign)
			vc_text_add(&text, "%c", sign);
		else
			vc_text_add(&text, "%s", timeline->utf8 ? "\u2500" : "-");
	}
	vc_emit_line(timeline->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	vc_text_add(&text, "%*s  the start to ", LABEL_COLUMNS - 2, "");
	add_moment(timeline, &text, list, list->count);
	vc_text_add(&text, ";  %s  P peak%s", vc_chart_column_legend(timeline->utf8),
		    steps->count ? "  ' a step begins" : "");
	vc_emit_line(timeline->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static int emit_curve(struct timeline *timeline, uint32_t number, const struct vc_steps *steps)
{
	const struct vc_replay_list *list = &timeline->replay.lists[number];
	unsigned width = timeline->emit->width ? timeline->emit->width : 100;
	uint64_t columns = width > LABEL_COLUMNS + CHART_LEAST ? width - LABEL_COLUMNS :
								 CHART_LEAST;
	uint64_t most = list->reserved_peak > list->peak ? list->reserved_peak : list->peak, count;
	struct vc_timeline_bucket *buckets =
		vc_arena_allocate(&timeline->session->arena, columns, sizeof(*buckets));

	if (!buckets)
		return VC_E_NO_MEMORY;
	count = vc_timeline_curve(&timeline->replay, list, columns, buckets);
	if (!timeline->emit->json) {
		for (unsigned row = 0; row < CHART_ROWS; row++)
			draw_row(timeline, row, buckets, count, most);
		draw_marks(timeline, number, steps, buckets, count);
	}
	vc_emit_list(timeline->emit, "curve");
	for (uint64_t i = 0; timeline->emit->json && i < count; i++) {
		vc_emit_object(timeline->emit, NULL);
		vc_emit_number(timeline->emit, "first_moment", buckets[i].first);
		vc_emit_number(timeline->emit, "last_moment", buckets[i].last);
		vc_emit_number(timeline->emit, "allocated_bytes", buckets[i].allocated);
		vc_emit_number(timeline->emit, "reserved_bytes", buckets[i].reserved);
		vc_emit_object_end(timeline->emit);
	}
	vc_emit_list_end(timeline->emit);
	return 0;
}

/* ---- what goes with it ---- */

static void list_json(struct timeline *timeline, const struct vc_replay_list *list)
{
	struct vc_emit *emit = timeline->emit;

	if (list->device >= VC_REPLAY_HOST)
		vc_emit_null(emit, "device");
	else
		vc_emit_number(emit, "device", list->device);
	vc_emit_bool(emit, "host", list->device >= VC_REPLAY_HOST);
	vc_emit_number(emit, "events", list->count);
	vc_emit_number(emit, "peak_bytes", list->peak);
	vc_emit_number(emit, "peak_moment", list->peak_moment);
	vc_emit_number(emit, "reserved_peak_bytes", list->reserved_peak);
	vc_emit_number(emit, "reserved_peak_moment", list->reserved_peak_moment);
	vc_emit_number(emit, "start_bytes", list->prior_bytes);
	vc_emit_number(emit, "start_blocks", list->prior_blocks);
	vc_emit_number(emit, "start_blocks_freed", list->prior_frees);
	vc_emit_number(emit, "start_reserved_bytes", list->start_reserved);
	vc_emit_number(emit, "end_bytes", list->end_bytes);
	vc_emit_number(emit, "end_blocks", list->end_blocks);
	vc_emit_number(emit, "end_reserved_bytes", list->end_reserved);
	vc_emit_object(emit, "from_nothing");
	vc_emit_number(emit, "peak_bytes", list->window_peak);
	vc_emit_number(emit, "peak_moment", list->window_peak_moment);
	vc_emit_number(emit, "end_bytes", list->window_end_bytes);
	vc_emit_number(emit, "end_blocks", list->window_end_blocks);
	vc_emit_signed(emit, "reserved_bytes", list->reserved_net);
	vc_emit_object_end(emit);
	vc_emit_bool(emit, "began_late", vc_replay_began_late(list));
	if (list->has_time)
		vc_emit_number(emit, "span_us", list->last_time - list->first_time);
	else
		vc_emit_null(emit, "span_us");
	vc_emit_bool(emit, "time_monotonic", list->time_monotonic);
	vc_emit_object(emit, "contradictions");
#define VC_REPLAY_FAULT(name, text) vc_emit_number(emit, #name, list->name);
	VC_REPLAY_FAULTS(VC_REPLAY_FAULT)
#undef VC_REPLAY_FAULT
	vc_emit_object_end(emit);
}

static void emit_heading(struct timeline *timeline, const struct vc_replay_list *list)
{
	enum vc_text_exact exact = timeline->emit->exact;
	struct vc_text text = {0};

	vc_text_number(&text, list->count);
	vc_text_add(&text, " events");
	if (list->has_time && list->last_time >= list->first_time) {
		vc_text_add(&text, " in ");
		add_seconds(&text, list->last_time - list->first_time);
	}
	vc_text_add(&text, "   ");
	add_list_name(timeline, &text, list);
	vc_emit_heading(timeline->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	vc_text_add(&text, "peak ");
	vc_text_bytes(&text, list->peak, exact);
	vc_text_add(&text, " allocated at ");
	add_moment(timeline, &text, list, list->peak_moment);
	vc_text_add(&text, "; reserved ");
	vc_text_bytes(&text, vc_replay_reserved(&timeline->replay, list, list->peak_moment), exact);
	vc_text_add(&text, " then, at most ");
	vc_text_bytes(&text, list->reserved_peak, exact);
	vc_emit_line(timeline->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	if (vc_replay_began_late(list)) {
		vc_text_add(&text, "began in mid-run: ");
		vc_text_bytes(&text, list->prior_bytes, exact);
		vc_text_add(&text, " in ");
		vc_text_number(&text, list->prior_blocks);
		vc_text_add(&text, list->prior_blocks == 1 ? " block" : " blocks");
		vc_text_add(&text, " lived before the first event; freed since: ");
		vc_text_number(&text, list->prior_frees);
		vc_emit_line(timeline->emit, "%s", vc_text_get(&text));
	}
	vc_text_deinit(&text);
}

static void emit_steps(struct timeline *timeline, const struct vc_steps *steps)
{
	static const char *const rules[] = {NULL, "marks", "period"};
	struct vc_emit *emit = timeline->emit;
	struct vc_text text = {0};

	vc_emit_object(emit, "steps");
	vc_emit_string(emit, "rule", rules[steps->rule]);
	vc_emit_bool(emit, "inferred", steps->rule != VC_STEPS_NONE);
	vc_emit_string(emit, "mark", steps->mark);
	vc_emit_number(emit, "witnesses", steps->witnesses);
	vc_emit_list(emit, "boundaries");
	for (uint64_t i = 0; emit->json && i < steps->count; i++)
		vc_emit_number(emit, NULL, steps->boundaries[i]);
	vc_emit_list_end(emit);
	vc_emit_object_end(emit);
	if (steps->rule == VC_STEPS_NONE)
		return;
	vc_text_number(&text, steps->count - 1);
	vc_text_add(&text, steps->count == 2 ? " whole step" : " whole steps");
	vc_text_add(&text, " of about ");
	vc_text_number(&text, (steps->boundaries[steps->count - 1] - steps->boundaries[0]) /
				      (steps->count - 1));
	vc_text_add(&text, " events, inferred from ");
	if (steps->rule == VC_STEPS_MARKS) {
		vc_text_add(&text, "the marks %s", steps->mark);
	} else {
		vc_text_number(&text, steps->witnesses);
		vc_text_add(&text, " kinds of allocations that come back as often");
	}
	vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static void add_lives(struct timeline *timeline, struct vc_text *text, uint64_t count,
		      uint64_t bytes, const char *what)
{
	vc_text_number(text, count);
	vc_text_add(text, " (");
	vc_text_bytes(text, bytes, timeline->emit->exact);
	vc_text_add(text, ") %s", what);
}

static void emit_lifetimes(struct timeline *timeline, const struct vc_replay_list *list,
			   const struct vc_steps *steps)
{
	struct vc_lifetimes lives;
	struct vc_emit *emit = timeline->emit;
	struct vc_text text = {0};

	vc_lifetimes_make(timeline->tables, &timeline->replay, list, steps, &lives);
	vc_text_add(&text, "blocks allocated in it: ");
	if (steps->count) {
		add_lives(timeline, &text, lives.within_step, lives.within_step_bytes,
			  "lived within a step, ");
		add_lives(timeline, &text, lives.longer, lives.longer_bytes, "longer, ");
	} else {
		add_lives(timeline, &text, lives.freed, lives.freed_bytes, "freed, ");
	}
	add_lives(timeline, &text, lives.never_freed, lives.never_freed_bytes, "never freed");
	vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_emit_object(emit, "lifetimes");
	vc_emit_number(emit, "freed", lives.freed);
	vc_emit_number(emit, "freed_bytes", lives.freed_bytes);
	vc_emit_number(emit, "never_freed", lives.never_freed);
	vc_emit_number(emit, "never_freed_bytes", lives.never_freed_bytes);
	if (steps->count) {
		vc_emit_number(emit, "within_step", lives.within_step);
		vc_emit_number(emit, "within_step_bytes", lives.within_step_bytes);
		vc_emit_number(emit, "longer", lives.longer);
		vc_emit_number(emit, "longer_bytes", lives.longer_bytes);
	}
	vc_emit_number(emit, "start_kept", lives.prior_kept);
	vc_emit_number(emit, "start_kept_bytes", lives.prior_kept_bytes);
	vc_emit_number(emit, "start_freed", lives.prior_freed);
	vc_emit_number(emit, "start_freed_bytes", lives.prior_freed_bytes);
	vc_emit_object_end(emit);
}

static void emit_mark(struct timeline *timeline, const struct vc_replay_mark *mark,
		      uint64_t number)
{
	static const char *const kinds[] = {"oom", "snapshot", "mark"};
	const struct vc_replay_list *list = &timeline->replay.lists[mark->list];
	struct vc_text at = {0}, what = {0};

	add_moment(timeline, &at, list, mark->moment);
	vc_text_add(&what, "%s:%llu", kinds[mark->kind], (unsigned long long)number);
	if (mark->kind == VC_MARK_USER)
		vc_text_add(&what, "  %s%s%s", mark->name, *mark->stage ? " " : "", mark->stage);
	if (mark->kind == VC_MARK_OOM) {
		vc_text_add(&what, "  asked for ");
		vc_text_bytes(&what, mark->size, timeline->emit->exact);
	}
	vc_emit_row(timeline->emit, (struct vc_cell[]){
		{.text = vc_report_keep(timeline->session, &at)},
		{.number = vc_replay_allocated(&timeline->replay, list, mark->moment)},
		{.number = vc_replay_reserved(&timeline->replay, list, mark->moment)},
		{.text = vc_report_keep(timeline->session, &what)}});
	vc_emit_string(timeline->emit, "kind", kinds[mark->kind]);
	vc_emit_number(timeline->emit, "number", number);
	vc_emit_number(timeline->emit, "moment", mark->moment);
	vc_emit_number(timeline->emit, "time_us", mark->time_us);
	vc_emit_number(timeline->emit, "requested", mark->size);
	vc_emit_string(timeline->emit, "name", mark->name);
	vc_emit_string(timeline->emit, "stage", mark->stage);
	vc_emit_row_end(timeline->emit);
}

/** The errors and marks of a list: --at takes them by these numbers. */
static void emit_marks(struct timeline *timeline, uint32_t list)
{
	static const struct vc_emit_column columns[] = {
		{NULL, "when", VC_CELL_TEXT, false},
		{"allocated_bytes", "allocated", VC_CELL_BYTES, false},
		{"reserved_bytes", "reserved", VC_CELL_BYTES, false},
		{NULL, "what", VC_CELL_TEXT, false},
	};
	uint64_t numbers[3] = {0}, shown = 0, count = 0;

	for (uint64_t i = 0; i < timeline->replay.mark_count; i++)
		count += timeline->replay.marks[i].list == list;
	if (!count && !timeline->emit->json)
		return;
	vc_emit_table(timeline->emit, "marks", columns, 4);
	for (uint64_t i = 0; i < timeline->replay.mark_count; i++) {
		const struct vc_replay_mark *mark = &timeline->replay.marks[i];
		uint64_t number = ++numbers[mark->kind];

		if (mark->list != list)
			continue;
		if (timeline->emit->json || shown < MARKS_SHOWN)
			emit_mark(timeline, mark, number);
		shown++;
	}
	vc_emit_table_end(timeline->emit);
	if (shown > MARKS_SHOWN)
		vc_emit_line(timeline->emit, "%llu more marks (--json lists them)",
			     (unsigned long long)(shown - MARKS_SHOWN));
}

/** What the tables, turned back to the peak, hold of this device. */
static int emit_sites(struct timeline *timeline, const struct vc_replay_list *list)
{
	static const struct vc_emit_column columns[] = {
		{"bytes", "bytes", VC_CELL_BYTES, false},
		{"share", "share", VC_CELL_SHARE, true},
		{"count", "blocks", VC_CELL_NUMBER, true},
		{"site", "site at the peak", VC_CELL_CHAIN, false},
	};
	struct vc_sites_options options = {.by = VC_BY_SITE,
					   .device_plus_one = (uint32_t)list->device + 1};
	struct vc_session *session = timeline->session;
	struct vc_sites_rest rest;
	struct vc_sites sites;
	int64_t *shares;
	int error;

	if (list->device >= VC_MODEL_DEVICES_MOST)
		return 0;
	error = vc_sites_make(timeline->tables, &session->accounts[0], session->names, 0, &options,
			      &session->arena, &sites);
	if (!error)
		error = vc_sites_shares(&sites, timeline->rows, &session->arena, &shares, &rest);
	if (error)
		return error;
	for (uint64_t i = 0; i < rest.shown; i++)
		vc_path_prefix_add(&timeline->prefix, sites.rows[i].chain);
	vc_emit_table(timeline->emit, "peak_sites", columns, 4);
	for (uint64_t i = 0; i < rest.shown && sites.rows[i].count; i++) {
		vc_emit_row(timeline->emit, (struct vc_cell[]){
			{.number = sites.rows[i].bytes}, {.amount = shares[i]},
			{.number = sites.rows[i].count},
			{.text = vc_report_site(session, sites.rows[i].chain, &timeline->prefix)}});
		vc_report_stack_json(timeline->emit, "stack", sites.rows[i].chain);
		vc_emit_row_end(timeline->emit);
	}
	if (rest.count && rest.sum.count) {
		struct vc_text text = {0};

		vc_text_number(&text, rest.count);
		vc_text_add(&text, " more (-n 0 shows all)");
		vc_emit_text_row(timeline->emit, (struct vc_cell[]){
			{.number = rest.sum.bytes}, {.amount = shares[rest.shown]},
			{.number = rest.sum.count}, {.text = vc_report_keep(session, &text)}});
	}
	vc_emit_table_end(timeline->emit);
	return 0;
}

static int emit_list(struct timeline *timeline, uint32_t number)
{
	const struct vc_replay_list *list = &timeline->replay.lists[number];
	struct vc_steps steps;
	int error = vc_steps_find(timeline->tables, &timeline->replay, number,
				  &timeline->session->arena, &steps);

	if (error)
		return error;
	vc_emit_object(timeline->emit, NULL);
	list_json(timeline, list);
	emit_heading(timeline, list);
	error = emit_curve(timeline, number, &steps);
	if (!error) {
		emit_steps(timeline, &steps);
		emit_lifetimes(timeline, list, &steps);
		emit_marks(timeline, number);
		error = emit_sites(timeline, list);
	}
	vc_emit_object_end(timeline->emit);
	return error;
}

/* ---- the verb ---- */

static int no_trace(const struct vc_model *model, struct vc_problem *problem)
{
	bool import = vc_is_import(&model->tables);

	return vc_problem_set(problem, VC_E_NOT_FOUND, model->path,
			      import ? "torch.cuda.memory._record_memory_history() before the run "
				       "makes one" :
				       "take snapshots of several steps (vramcore run --every) and "
				       "compare them (vramcore diff)",
			      import ? "no curve: it was made without a trace of events" :
				       "no curve: a recording keeps what is live, not every event");
}

/** Turns the tables back to the peak of every list, and counts. */
static int prepare(struct timeline *timeline, struct vc_problem *problem)
{
	struct vc_session *session = timeline->session;
	struct vc_model *model = &session->models[0];
	uint64_t moments[VC_REPLAY_LISTS_MOST] = {0};
	int error = vc_replay_make(&model->tables, &timeline->replay);

	if (!error && !timeline->replay.list_count)
		return no_trace(model, problem);
	for (uint32_t i = 0; i < timeline->replay.list_count; i++)
		moments[i] = timeline->replay.lists[i].peak_moment;
	if (!error)
		error = vc_replay_apply(&model->tables, &timeline->replay, moments, "at peak");
	if (!error)
		error = vc_at_evidence(&model->tables, &timeline->replay);
	if (error)
		return vc_problem_set(problem, error, model->path, NULL, "%s",
				      vc_error_text(error));
	error = vc_session_count(session, VC_ACCOUNT_AUTO, VC_COLUMNS, problem);
	return error ? error : vc_session_names(session, problem);
}

/** The highest peak first. */
static void order_lists(const struct timeline *timeline, uint32_t *order)
{
	const struct vc_replay *replay = &timeline->replay;

	for (uint32_t i = 0; i < replay->list_count; i++) {
		uint32_t at = i;

		for (; at && replay->lists[order[at - 1]].peak < replay->lists[i].peak; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

static int make_report(struct timeline *timeline, struct vc_problem *problem)
{
	uint32_t order[VC_REPLAY_LISTS_MOST];
	unsigned shown = 0;
	int error = prepare(timeline, problem);

	if (error)
		return error;
	order_lists(timeline, order);
	vc_emit_begin(timeline->emit, "vramcore.timeline/1");
	vc_report_file_json(timeline->emit, "file", &timeline->session->models[0]);
	vc_emit_list(timeline->emit, "devices");
	for (uint32_t i = 0; i < timeline->replay.list_count && !error; i++) {
		if (timeline->device != UINT64_MAX &&
		    timeline->replay.lists[order[i]].device != timeline->device)
			continue;
		if (shown++)
			vc_emit_line(timeline->emit, "%s", "");
		error = emit_list(timeline, order[i]);
	}
	vc_emit_list_end(timeline->emit);
	if (!shown)
		vc_emit_line(timeline->emit, "this device has no events");
	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	return vc_report_end(timeline->emit, timeline->session, false, problem);
}

int vc_verb_timeline(const struct vc_command *command, struct vc_emit *emit,
		     struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct timeline timeline = {.command = command, .emit = emit, .session = &session};
	int status = vc_option_number(command, VC_OPTION_COUNT, 10, UINT32_MAX, &timeline.rows,
				      problem);

	if (!status)
		status = vc_option_number(command, VC_OPTION_DEVICE, UINT64_MAX, UINT64_MAX,
					  &timeline.device, problem);
	if (status)
		return status;
	timeline.utf8 = vc_chart_is_utf8();
	vc_wanted_small(&wanted);
	vc_session_wants_account(&wanted);
	vc_at_wants(&wanted);
	status = vc_session_open(command, 0, 1, &wanted, &session, problem);
	if (status)
		return status;
	timeline.tables = &session.models[0].tables;
	status = make_report(&timeline, problem);
	vc_replay_deinit(&timeline.replay);
	vc_path_prefix_deinit(&timeline.prefix);
	vc_session_close(&session);
	return status;
}
