/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/hang.h"

#include <stdlib.h>
#include <string.h>

enum wait_where { FUNCTION, FILE_NAME };

struct wait_rule {
	enum wait_where where;
	const char *pattern, *text;
	enum vc_wait_kind kind;
};

#define WHERE_FUNCTION FUNCTION
#define WHERE_FILE FILE_NAME
static const struct wait_rule rules[] = {
#define VC_WAIT(where, pattern, kind, text) {WHERE_##where, pattern, text, VC_WAIT_##kind},
#include "analyze/waits.def"
#undef VC_WAIT
};

static bool matches(const struct wait_rule *rule, const struct vc_frame_name *frame)
{
	if (rule->where == FUNCTION)
		return frame->function &&
		       !strncmp(frame->function, rule->pattern, strlen(rule->pattern));
	return (frame->file && strstr(frame->file, rule->pattern)) ||
	       (frame->module && strstr(frame->module, rule->pattern));
}

static const struct wait_rule *rule_of(const struct vc_chain *chain)
{
	for (uint32_t f = 0; f < chain->count; f++)
		for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
			if (matches(&rules[i], chain->frames[f]))
				return &rules[i];
	return NULL;
}

static const struct wait_rule *rule_of_thread(const struct vc_names *names, unsigned file,
					      const struct vc_tables *tables, uint64_t row)
{
	uint64_t native = vc_value(tables, VC_COL_thread_stacks_stack, row);
	uint64_t python = vc_value(tables, VC_COL_thread_stacks_python, row);
	const struct wait_rule *rule = rule_of(vc_names_chain(names, file, native));
	const struct wait_rule *source =
		python ? rule_of(vc_names_chain(names, file, vc_stack_reference(tables, 0, python)))
		       : NULL;

	/* A lock that Python code waits for is that of what it called. */
	return source && (!rule || rule->kind == VC_WAIT_LOCK) ? source : rule;
}

static uint64_t python_frames(const struct vc_tables *tables, uint64_t row)
{
	uint64_t python = vc_value(tables, VC_COL_thread_stacks_python, row);

	return python ? vc_value(tables, VC_COL_source_stacks_count, python - 1) : 0;
}

static bool runs_python(const struct vc_tables *tables)
{
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_thread_stacks]; row++)
		if (python_frames(tables, row))
			return true;
	return false;
}

/** A module that moved has several rows: the last one counts. */
static void find_module(const struct vc_tables *tables, struct vc_hang_process *process)
{
	uint64_t object = vc_value(tables, VC_COL_thread_stacks_module_object, process->thread);

	for (uint64_t row = 0; object && row < tables->rows[VC_TABLE_model_modules]; row++) {
		if (vc_value(tables, VC_COL_model_modules_object, row) != object)
			continue;
		process->module = vc_string(tables, VC_COL_model_modules_path, row);
		process->module_class = vc_string(tables, VC_COL_model_modules_class, row);
	}
}

static void choose_thread(const struct vc_names *names, const struct vc_tables *tables,
			  struct vc_hang_process *process)
{
	const struct wait_rule *chosen = NULL;
	/* beside Python the libraries of collectives have threads of their own, idle or not */
	bool python = runs_python(tables);
	uint64_t best = 0;

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_thread_stacks]; row++) {
		const struct wait_rule *rule = rule_of_thread(names, process->file, tables, row);
		bool main = vc_value(tables, VC_COL_thread_stacks_thread, row) == process->pid;
		uint64_t frames = python_frames(tables, row);
		uint64_t weight = (main ? 1 : 0) + 2 * frames + (main && frames ? 100000 : 0) +
				  (rule && rule->kind == VC_WAIT_COLLECTIVE && (frames || !python) ?
					   1000000 : 0);

		if (process->has_thread && weight <= best)
			continue;
		process->has_thread = true;
		process->thread = row;
		best = weight;
		chosen = rule;
	}
	if (!process->has_thread)
		return;
	find_module(tables, process);
	process->state = vc_string(tables, VC_COL_thread_stacks_state, process->thread);
	process->wait = chosen ? chosen->kind : VC_WAIT_NONE;
	process->wait_text = chosen ? chosen->text
				    : vc_string(tables, VC_COL_thread_stacks_wait, process->thread);
}

static void fill(const struct vc_model *model, unsigned file, const struct vc_names *names,
		 struct vc_hang_process *ret)
{
	const struct vc_tables *tables = &model->tables;
	uint64_t last = vc_value(tables, VC_COL_process_last_step_time, 0);
	uint64_t now = vc_value(tables, VC_COL_process_snapshot_time, 0);

	*ret = (struct vc_hang_process){
		.file = file,
		.pid = vc_value(tables, VC_COL_process_pid, 0),
		.rank_plus_one = vc_value(tables, VC_COL_process_rank_plus_one, 0),
		.step = vc_value(tables, VC_COL_process_step, 0),
		.steps_known = vc_value(tables, VC_COL_process_steps_known, 0) != 0,
		.since = last && now > last ? now - last : 0,
		.wait_text = "",
		.module = "",
		.module_class = "",
		.state = vc_string(tables, VC_COL_process_state, 0),
	};
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_devices]; row++)
		ret->live += vc_value(tables, VC_COL_devices_live, row);
	choose_thread(names, tables, ret);
}

static int by_step(const void *a, const void *b)
{
	const struct vc_hang_process *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	if (x->rank_plus_one != y->rank_plus_one)
		return x->rank_plus_one < y->rank_plus_one ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int vc_hang_make(const struct vc_model *models, unsigned count, const struct vc_names *names,
		 struct vc_arena *arena, struct vc_hang *ret)
{
	struct vc_hang hang = {.count = count, .steps_known = true};

	hang.process = vc_arena_allocate(arena, count, sizeof(*hang.process));
	if (!hang.process)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < count; i++) {
		fill(&models[i], i, names, &hang.process[i]);
		hang.steps_known &= hang.process[i].steps_known;
		hang.collective += hang.process[i].wait == VC_WAIT_COLLECTIVE;
	}
	qsort(hang.process, count, sizeof(*hang.process), by_step);
	hang.first_step = hang.process[0].step;
	hang.last_step = hang.process[count - 1].step;
	for (unsigned i = 0; hang.steps_known && hang.first_step != hang.last_step && i < count; i++)
		hang.behind += hang.process[i].step == hang.first_step;
	*ret = hang;
	return 0;
}
