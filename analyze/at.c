/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/at.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/text.h"
#include "analyze/views/replay_state.h"

#define HINT_WHEN "peak, oom, oom:N, snapshot:N, mark:N, mark:NAME, event:N, time:SECONDS"

void vc_at_wants(struct vc_wanted_columns *wanted)
{
	static const enum vc_table_index tables[] = {
		VC_TABLE_segments, VC_TABLE_blocks, VC_TABLE_trace, VC_TABLE_trace_details,
		VC_TABLE_annotations,
	};

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		vc_wanted_table(wanted, tables[i]);
	wanted->narrow_trace = true;
}

int vc_at_check(const struct vc_command *command, struct vc_problem *problem)
{
	const char *value = vc_option_value(command, VC_OPTION_AT, NULL);
	struct vc_replay_when when;

	if (!value || !vc_replay_when_parse(value, &when))
		return 0;
	return vc_problem_usage(problem, HINT_WHEN, "--at %s: no such moment", value);
}

int vc_at_evidence(struct vc_tables *tables, const struct vc_replay *replay)
{
	struct {
		const char *key;
		uint64_t value;
	} counts[] = {
		{"trace_began_late", 0},
#define VC_REPLAY_FAULT(name, text) {"trace_" #name, 0},
		VC_REPLAY_FAULTS(VC_REPLAY_FAULT)
#undef VC_REPLAY_FAULT
	};
	int error = 0;

	for (uint32_t i = 0; i < replay->list_count; i++) {
		const struct vc_replay_list *list = &replay->lists[i];
		unsigned at = 0;

		counts[at++].value += list->prior_blocks;
#define VC_REPLAY_FAULT(name, text) counts[at++].value += list->name;
		VC_REPLAY_FAULTS(VC_REPLAY_FAULT)
#undef VC_REPLAY_FAULT
	}
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts) && !error; i++) {
		uint64_t row, text;

		if (!counts[i].value)
			continue;
		error = vc_tables_string(tables, counts[i].key, strlen(counts[i].key), &text);
		if (!error)
			error = vc_tables_append(tables, VC_TABLE_evidence, &row);
		if (error || !tables->column[VC_COL_evidence_key] ||
		    !tables->column[VC_COL_evidence_value])
			break;
		tables->column[VC_COL_evidence_key][row] = text;
		tables->column[VC_COL_evidence_value][row] = counts[i].value;
	}
	return error;
}

static const char *hint_no_trace(const struct vc_model *model, const char *value)
{
	if (vc_is_import(&model->tables))
		return "torch.cuda.memory._record_memory_history() makes one";
	if (!strcmp(value, "peak"))
		return "it shows one moment; vramcore run --at-step N --when peak takes the highest of a step";
	return "a recording keeps what is live, not every event";
}

static int no_moment(const struct vc_model *model, const char *value,
		     enum vc_replay_missing missing, uint64_t count, struct vc_problem *problem)
{
	unsigned long long number = count;

	switch (missing) {
	case VC_MISSING_TRACE:
		return vc_problem_set(problem, VC_E_NOT_FOUND, model->path,
				      hint_no_trace(model, value),
				      "--at %s: the file has no trace of events", value);
	case VC_MISSING_MARK:
		return vc_problem_set(problem, VC_E_NOT_FOUND, model->path,
				      "vramcore timeline lists errors and marks",
				      "--at %s: the trace has %llu of them", value, number);
	case VC_MISSING_EVENT:
		return vc_problem_set(problem, VC_E_NOT_FOUND, model->path, NULL,
				      "--at %s: the trace has %llu events", value, number);
	case VC_MISSING_DEVICE:
		return vc_problem_set(problem, VC_E_NOT_FOUND, model->path, "add --device D",
				      "--at %s: several devices have events", value);
	case VC_MISSING_TIME:
		return vc_problem_set(problem, VC_E_NOT_FOUND, model->path, "use --at event:N",
				      "--at %s: the events have no times", value);
	}
	return vc_problem_set(problem, VC_E_NOT_FOUND, model->path, NULL, "--at %s", value);
}

/** Finds the moment and turns the tables back. */
static int turn_back(const struct vc_command *command, struct vc_model *model,
		     const struct vc_replay *replay, struct vc_problem *problem)
{
	const char *value = vc_option_value(command, VC_OPTION_AT, NULL);
	uint64_t *moments = calloc(replay->list_count + UINT64_C(1), sizeof(*moments));
	uint64_t device = UINT64_MAX, count;
	struct vc_text text = {0};
	struct vc_replay_when when;
	enum vc_replay_missing missing;
	int error = vc_at_check(command, problem);

	if (!error)
		error = vc_option_number(command, VC_OPTION_DEVICE, UINT64_MAX, UINT64_MAX,
					 &device, problem);
	if (error || !moments) {
		free(moments);
		return error ? error : vc_problem_set(problem, VC_E_NO_MEMORY, NULL, NULL, "%s",
						      vc_error_text(VC_E_NO_MEMORY));
	}
	vc_replay_when_parse(value, &when);
	if (vc_replay_find(&model->tables, replay, &when, device, moments, &missing, &count)) {
		free(moments);
		return no_moment(model, value, missing, count, problem);
	}
	vc_text_add(&text, "at %s", value);
	error = vc_replay_apply(&model->tables, replay, moments, vc_text_get(&text));
	if (!error)
		error = vc_at_evidence(&model->tables, replay);
	vc_text_deinit(&text);
	free(moments);
	return error ? vc_problem_set(problem, error, model->path, NULL, "%s",
				      vc_error_text(error)) : 0;
}

/** A snapshot of the highest moment of a step is at its peak already. */
static bool is_asked_peak(const struct vc_command *command, const struct vc_model *model)
{
	return !strcmp(vc_option_value(command, VC_OPTION_AT, ""), "peak") &&
	       vc_value(&model->tables, VC_COL_process_peak_device_plus_one, 0);
}

int vc_at_apply(const struct vc_command *command, struct vc_model *model,
		struct vc_problem *problem)
{
	struct vc_replay replay;
	int error;

	if (!vc_option_given(command, VC_OPTION_AT) || is_asked_peak(command, model))
		return 0;
	error = vc_replay_make(&model->tables, &replay);
	if (error)
		return vc_problem_set(problem, error, model->path, NULL, "%s",
				      vc_error_text(error));
	error = turn_back(command, model, &replay, problem);
	vc_replay_deinit(&replay);
	return error;
}

/** The number of the out-of-memory error at a row of trace, as --at counts them; 0 none. */
static uint64_t number_of_error(const struct vc_replay *replay, uint64_t row)
{
	uint64_t number = 0;

	for (uint64_t i = 0; i < replay->mark_count; i++) {
		if (replay->marks[i].kind != VC_MARK_OOM)
			continue;
		number++;
		if (replay->marks[i].row == row)
			return number;
	}
	return 0;
}

static int turn_to_error(struct vc_model *model, const struct vc_replay *replay, uint64_t number)
{
	struct vc_replay_when when = {.kind = VC_WHEN_OOM, .number = number};
	uint64_t *moments = calloc(replay->list_count + UINT64_C(1), sizeof(*moments)), count;
	enum vc_replay_missing missing;
	struct vc_text text = {0};
	int error = moments ? vc_replay_find(&model->tables, replay, &when, UINT64_MAX, moments,
					     &missing, &count) : VC_E_NO_MEMORY;

	vc_text_add(&text, "at oom:%llu", (unsigned long long)number);
	if (!error)
		error = vc_replay_apply(&model->tables, replay, moments, vc_text_get(&text));
	if (!error)
		error = vc_at_evidence(&model->tables, replay);
	vc_text_deinit(&text);
	free(moments);
	return error;
}

int vc_at_failure(struct vc_model *model, uint64_t failure, uint64_t *ret,
		  struct vc_problem *problem)
{
	/* of an imported file, numbers of failures are rows of trace plus 1 */
	uint64_t event = vc_value(&model->tables, VC_COL_failures_number, failure), number = 0;
	struct vc_replay replay = {0};
	int error = 0;

	if (vc_is_import(&model->tables) && model->tables.rows[VC_TABLE_trace] && event)
		error = vc_replay_make(&model->tables, &replay);
	if (!error)
		number = number_of_error(&replay, event - 1);
	if (!error && number)
		error = turn_to_error(model, &replay, number);
	vc_replay_deinit(&replay);
	if (error)
		return vc_problem_set(problem, error, model->path, NULL, "%s",
				      vc_error_text(error));
	*ret = number;
	return 0;
}
