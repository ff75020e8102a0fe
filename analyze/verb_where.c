/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore where: what an address belongs to, what is next to it, what was there before. */
#include <string.h>

#include "analyze/report.h"
#include "analyze/views/roles.h"
#include "analyze/views/where.h"

struct report {
	struct vc_emit *emit;
	struct vc_session *session;
	const struct vc_tables *tables;
	struct vc_where where;
	struct vc_roles roles;
	struct vc_path_prefix prefix;
	bool steps;
};

static uint64_t live(const struct report *report, enum vc_column_index column, uint64_t row)
{
	return vc_value(report->tables, column, row);
}

/** Stacks as vc_names_chain takes them. */
static uint64_t live_stack(const struct report *report, uint64_t row)
{
	return vc_stack_reference(report->tables, live(report, VC_COL_allocations_stack, row),
				  live(report, VC_COL_allocations_python, row));
}

static uint64_t freed_stack(const struct vc_tables *tables, uint64_t row)
{
	return vc_stack_reference(tables, vc_value(tables, VC_COL_freed_stack, row),
				  vc_value(tables, VC_COL_freed_python, row));
}

static uint64_t death_stack(const struct vc_tables *tables, uint64_t row)
{
	return vc_stack_reference(tables, vc_value(tables, VC_COL_freed_death_stack, row),
				  vc_value(tables, VC_COL_freed_death_python, row));
}

static void add_when(const struct report *report, struct vc_text *text, uint64_t step,
		     uint64_t time)
{
	if (report->steps) {
		vc_text_add(text, "step ");
		vc_text_number(text, step);
	} else {
		vc_text_time(text, time);
	}
}

static void add_site(const struct report *report, struct vc_text *text, uint64_t stack)
{
	vc_chain_text(text, vc_names_chain(report->session->names, 0, stack), &report->prefix);
}

/** "block 0x7f2c4a000000 +96.0 MiB "weights"" */
static void add_range(const struct report *report, struct vc_text *text, uint64_t kind,
		      uint64_t address, uint64_t size, const char *label)
{
	vc_text_add(text, "%s 0x%llx +", vc_kind_text(kind), (unsigned long long)address);
	vc_text_bytes(text, size, report->emit->exact);
	if (*label)
		vc_text_add(text, " \"%s\"", label);
}

/** Row of tensors plus 1 of what lies in a live block; 0: not known. */
static uint64_t tensor_of(const struct report *report, uint64_t row)
{
	uint32_t storage = row < report->roles.rows ? report->roles.storage[row] : 0;

	return storage ? vc_value(report->tables, VC_COL_storages_tensor, storage - 1) : 0;
}

/** ": layers.3.attn.qkv.weight (parameter, bfloat16 [12288, 4096])" */
static void add_tensor(const struct report *report, struct vc_text *text, uint64_t row)
{
	uint64_t tensor = tensor_of(report, row), root = report->roles.root_length;
	const char *name, *dtype;

	if (!tensor)
		return;
	name = vc_string(report->tables, VC_COL_tensors_name, tensor - 1);
	if (root && strlen(name) > root && name[root - 1] == '.')
		name += root; /* without the model's own name */
	dtype = vc_string(report->tables, VC_COL_tensors_dtype, tensor - 1);
	vc_text_add(text, ": %s (%s%s%s %s)", *name ? name : "a tensor",
		    vc_role_text[report->roles.role[row]], *dtype ? ", " : "", dtype,
		    vc_string(report->tables, VC_COL_tensors_shape, tensor - 1));
}

static void add_row_range(const struct report *report, struct vc_text *text, uint64_t row)
{
	add_range(report, text, live(report, VC_COL_allocations_kind, row),
		  live(report, VC_COL_allocations_address, row),
		  live(report, VC_COL_allocations_size, row),
		  vc_string(report->tables, VC_COL_allocations_label, row));
	add_tensor(report, text, row);
}

static void add_live(const struct report *report, struct vc_text *text, uint64_t row)
{
	static const char *const state[] = {
		[VC_STATE_IN_DOUBT] = ", in doubt: the call had not returned",
		[VC_STATE_BEING_FREED] = ", being freed: the call had not returned",
	};
	uint64_t number = live(report, VC_COL_allocations_state, row);

	add_row_range(report, text, row);
	if (vc_account_row_is_torch(&report->session->accounts[0], row))
		vc_text_add(text, " (a segment of PyTorch's)");
	vc_text_add(text, ", allocated at ");
	add_site(report, text, live_stack(report, row));
	vc_text_add(text, ", ");
	add_when(report, text, live(report, VC_COL_allocations_step, row),
		 live(report, VC_COL_allocations_time, row));
	if (number < sizeof(state) / sizeof(*state) && state[number])
		vc_text_add(text, "%s", state[number]);
}

static void tensor_json(struct report *report, uint64_t row)
{
	struct vc_emit *emit = report->emit;
	uint64_t tensor = tensor_of(report, row);

	if (!tensor) {
		vc_emit_null(emit, "tensor");
		return;
	}
	vc_emit_object(emit, "tensor");
	vc_emit_string(emit, "name", vc_string(report->tables, VC_COL_tensors_name, tensor - 1));
	vc_emit_string(emit, "dtype", vc_string(report->tables, VC_COL_tensors_dtype, tensor - 1));
	vc_emit_string(emit, "shape", vc_string(report->tables, VC_COL_tensors_shape, tensor - 1));
	vc_emit_number(emit, "bytes", vc_value(report->tables, VC_COL_tensors_bytes, tensor - 1));
	vc_emit_string(emit, "role", vc_role_key[report->roles.role[row]]);
	vc_emit_string(emit, "how", vc_role_how_text[report->roles.how[row]]);
	vc_emit_object_end(emit);
}

static void live_json(struct report *report, const char *key, uint64_t row)
{
	struct vc_emit *emit = report->emit;
	static const char *const state[] = {NULL, "live", "in doubt", "being freed"};
	uint64_t number = live(report, VC_COL_allocations_state, row);
	uint64_t device = live(report, VC_COL_allocations_device_plus_one, row);

	vc_emit_object(emit, key);
	vc_emit_string(emit, "kind",
		       vc_kind_text(live(report, VC_COL_allocations_kind, row)));
	vc_emit_string(emit, "state", number < 4 ? state[number] : NULL);
	vc_emit_address(emit, "address", live(report, VC_COL_allocations_address, row));
	vc_emit_number(emit, "size", live(report, VC_COL_allocations_size, row));
	vc_emit_number(emit, "requested", live(report, VC_COL_allocations_requested, row));
	if (device)
		vc_emit_number(emit, "device", device - 1);
	else
		vc_emit_null(emit, "device");
	vc_emit_number(emit, "birth", live(report, VC_COL_allocations_birth, row));
	vc_emit_number(emit, "step", live(report, VC_COL_allocations_step, row));
	vc_emit_time(emit, "time", live(report, VC_COL_allocations_time, row));
	vc_emit_number(emit, "thread", live(report, VC_COL_allocations_thread, row));
	vc_emit_address(emit, "stream", live(report, VC_COL_allocations_stream, row));
	vc_emit_string(emit, "phase",
		       vc_string(report->tables, VC_COL_allocations_phase, row));
	vc_emit_string(emit, "label",
		       vc_string(report->tables, VC_COL_allocations_label, row));
	vc_emit_string(emit, "call", vc_string(report->tables, VC_COL_allocations_call, row));
	tensor_json(report, row);
	vc_report_stack_json(emit, "stack",
			     vc_names_chain(report->session->names, 0,
					    live_stack(report, row)));
	vc_emit_object_end(emit);
}

/**
 * "1,280 bytes past the end of block ...": what an address between things was meant for, if any is
 * near. The end of one comes first: programs run past ends more often.
 */
static bool add_overrun(const struct report *report, struct vc_text *text)
{
	const struct vc_where *where = &report->where;
	bool past = where->before_known && where->before_gap <= VC_WHERE_NEAR &&
		    (!where->holder_count || where->hole);
	bool ahead = where->after_known && where->after_gap <= VC_WHERE_NEAR &&
		     !where->holder_count;

	if (!past && !ahead)
		return false;
	vc_text_number(text, past ? where->before_gap : where->after_gap);
	vc_text_add(text, past ? " bytes past the end of " : " bytes before the start of ");
	add_row_range(report, text, past ? where->before : where->after);
	vc_text_add(text, where->holder_count ? ", in " :
			  where->freed_count  ? ", in nothing that is live; it was" :
						", in nothing that is live");
	if (where->holder_count)
		add_row_range(report, text, where->holders[0]);
	return true;
}

static void emit_holders(struct report *report)
{
	const struct vc_where *where = &report->where;
	struct vc_text text = {0};

	vc_text_add(&text, "0x%llx is ", (unsigned long long)where->address);
	if (add_overrun(report, &text)) {
		/* said */
	} else if (where->holder_count) {
		uint64_t row = where->holders[0];

		vc_text_number(&text, where->address -
				      live(report, VC_COL_allocations_address, row));
		vc_text_add(&text, " bytes into ");
		add_row_range(report, &text, row);
	} else if (where->freed_count) {
		vc_text_add(&text, "in nothing that is live; it was");
	} else {
		vc_text_add(&text, "in nothing that is known");
	}
	vc_emit_heading(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_emit_list(report->emit, "holders");
	for (unsigned i = 0; i < where->holder_count; i++) {
		struct vc_text line = {0};

		add_live(report, &line, where->holders[i]);
		vc_emit_line(report->emit, "  %s %s", i || where->hole ? "inside" : "is    ",
			     vc_text_get(&line));
		vc_text_deinit(&line);
		live_json(report, NULL, where->holders[i]);
	}
	vc_emit_list_end(report->emit);
}

static void emit_neighbour(struct report *report, const char *name, bool known, uint64_t row,
			   uint64_t gap)
{
	struct vc_text text = {0};

	if (!known) {
		vc_emit_null(report->emit, name);
		vc_emit_line(report->emit, "  %-6s nothing live", name);
		return;
	}
	add_live(report, &text, row);
	if (gap) {
		vc_text_add(&text, "; ");
		vc_text_bytes(&text, gap, report->emit->exact);
		vc_text_add(&text, " between");
	} else {
		vc_text_add(&text, "; adjoins");
	}
	vc_emit_line(report->emit, "  %-6s %s", name, vc_text_get(&text));
	vc_text_deinit(&text);
	vc_emit_object(report->emit, name);
	vc_emit_number(report->emit, "gap", gap);
	live_json(report, "allocation", row);
	vc_emit_object_end(report->emit);
}

static void freed_json(struct report *report, uint64_t row)
{
	struct vc_emit *emit = report->emit;
	const struct vc_tables *tables = report->tables;

	vc_emit_object(emit, NULL);
	vc_emit_string(emit, "kind", vc_kind_text(vc_value(tables, VC_COL_freed_kind, row)));
	vc_emit_address(emit, "address", vc_value(tables, VC_COL_freed_address, row));
	vc_emit_number(emit, "size", vc_value(tables, VC_COL_freed_size, row));
	vc_emit_number(emit, "birth", vc_value(tables, VC_COL_freed_birth, row));
	vc_emit_number(emit, "death", vc_value(tables, VC_COL_freed_death, row));
	vc_emit_number(emit, "step", vc_value(tables, VC_COL_freed_step, row));
	vc_emit_number(emit, "death_step", vc_value(tables, VC_COL_freed_death_step, row));
	vc_emit_time(emit, "time", vc_value(tables, VC_COL_freed_time, row));
	vc_emit_time(emit, "death_time", vc_value(tables, VC_COL_freed_death_time, row));
	vc_emit_number(emit, "thread", vc_value(tables, VC_COL_freed_thread, row));
	vc_emit_number(emit, "death_thread", vc_value(tables, VC_COL_freed_death_thread, row));
	vc_emit_string(emit, "label", vc_string(tables, VC_COL_freed_label, row));
	vc_report_stack_json(emit, "stack",
			     vc_names_chain(report->session->names, 0,
					    freed_stack(tables, row)));
	vc_report_stack_json(emit, "death_stack",
			     vc_names_chain(report->session->names, 0,
					    death_stack(tables, row)));
	vc_emit_object_end(emit);
}

/** Most of those that were there before whose lines are written: JSON has more. */
enum { FREED_SHOWN = 8 };

static void emit_freed(struct report *report)
{
	const struct vc_tables *tables = report->tables;

	vc_emit_list(report->emit, "freed");
	for (unsigned i = 0; i < report->where.freed_count; i++) {
		uint64_t row = report->where.freed[i];
		struct vc_text text = {0};

		add_range(report, &text, vc_value(tables, VC_COL_freed_kind, row),
			  vc_value(tables, VC_COL_freed_address, row),
			  vc_value(tables, VC_COL_freed_size, row),
			  vc_string(tables, VC_COL_freed_label, row));
		vc_text_add(&text, ", freed ");
		add_when(report, &text, vc_value(tables, VC_COL_freed_death_step, row),
			 vc_value(tables, VC_COL_freed_death_time, row));
		if (death_stack(tables, row)) { /* of PyTorch's blocks there is none */
			vc_text_add(&text, " at ");
			add_site(report, &text, death_stack(tables, row));
		}
		if (i < FREED_SHOWN)
			vc_emit_line(report->emit, "  was    %s", vc_text_get(&text));
		vc_text_clear(&text);
		vc_text_add(&text, "allocated ");
		add_when(report, &text, vc_value(tables, VC_COL_freed_step, row),
			 vc_value(tables, VC_COL_freed_time, row));
		vc_text_add(&text, " at ");
		add_site(report, &text, freed_stack(tables, row));
		if (i < FREED_SHOWN)
			vc_emit_line(report->emit, "           %s", vc_text_get(&text));
		vc_text_deinit(&text);
		freed_json(report, row);
	}
	vc_emit_list_end(report->emit);
	if (report->where.freed_total > FREED_SHOWN)
		vc_emit_line(report->emit, "  and %llu more before that",
			     (unsigned long long)(report->where.freed_total - FREED_SHOWN));
	vc_emit_number(report->emit, "freed_total", report->where.freed_total);
}

/** Asks for the stack of a row of allocations. */
static int want_live(struct report *report, uint64_t row)
{
	return vc_session_want(report->session, live_stack(report, row),
			       live(report, VC_COL_allocations_kind, row));
}

/** Asks for the stacks of a row of freed. That of the freeing call begins otherwise: no kind. */
static int want_freed(struct report *report, uint64_t row)
{
	const struct vc_tables *tables = report->tables;
	int error = vc_session_want(report->session, freed_stack(tables, row),
				    vc_value(tables, VC_COL_freed_kind, row));

	return error ? error : vc_session_want(report->session,
					       death_stack(tables, row),
					       VC_KIND_UNKNOWN);
}

/** Asks for the stacks of all that is shown. */
static int want_stacks(struct report *report)
{
	const struct vc_where *where = &report->where;
	int error = 0;

	for (unsigned i = 0; i < where->holder_count && !error; i++)
		error = want_live(report, where->holders[i]);
	if (where->before_known && !error)
		error = want_live(report, where->before);
	if (where->after_known && !error)
		error = want_live(report, where->after);
	for (unsigned i = 0; i < where->freed_count && !error; i++)
		error = want_freed(report, where->freed[i]);
	return error;
}

/** What the paths of all stacks that are shown have in common. */
static void find_prefix(struct report *report)
{
	const struct vc_session *session = report->session;

	for (uint64_t i = 0; i < session->wanted_count; i++)
		vc_path_prefix_add(&report->prefix,
				   vc_names_chain(session->names, 0, session->wanted[i].stack));
}

static int emit_report(struct report *report, struct vc_problem *problem)
{
	const struct vc_where *where = &report->where;

	vc_emit_begin(report->emit, "vramcore.where/1");
	vc_report_file_json(report->emit, "file", &report->session->models[0]);
	vc_emit_address(report->emit, "address", where->address);
	emit_holders(report);
	vc_emit_bool(report->emit, "hole", where->hole);
	emit_neighbour(report, "before", where->before_known, where->before, where->before_gap);
	emit_neighbour(report, "after", where->after_known, where->after, where->after_gap);
	emit_freed(report);
	return vc_report_end(report->emit, report->session, false, problem);
}

int vc_verb_where(const struct vc_command *command, struct vc_emit *emit,
		  struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct report report = {.emit = emit, .session = &session};
	uint64_t address;
	int status;

	if (vc_text_parse_address(command->operands[1], &address))
		return vc_problem_usage(problem, "vramcore where FILE 0x7f2c4a000400",
					"%s is not an address", command->operands[1]);
	vc_wanted_small(&wanted);
	vc_wanted_table(&wanted, VC_TABLE_allocations);
	vc_wanted_table(&wanted, VC_TABLE_freed);
	status = vc_session_open(command, 0, 1, &wanted, &session, problem);
	if (status)
		return status;
	report.tables = &session.models[0].tables;
	report.steps = vc_value(report.tables, VC_COL_process_steps_known, 0) != 0;
	vc_where_find(report.tables, address, &report.where);
	status = vc_session_count(&session, VC_ACCOUNT_AUTO, VC_COLUMNS, problem);
	if (!status && want_stacks(&report))
		status = vc_problem_set(problem, VC_E_NO_MEMORY, NULL, NULL, "%s",
					vc_error_text(VC_E_NO_MEMORY));
	if (!status)
		status = vc_session_names(&session, problem);
	if (!status && vc_roles_make(report.tables, &session.accounts[0], session.names, 0,
				     &session.arena, &report.roles))
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
