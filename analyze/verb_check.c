/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore check: verifies every byte of files and names what is damaged. */
#include "analyze/report.h"

enum { COLUMN_SECTION, COLUMN_OFFSET, COLUMN_WHAT, COLUMNS };
static const struct vc_emit_column columns[COLUMNS] = {
	[COLUMN_SECTION] = {"section", "section", VC_CELL_TEXT, false},
	[COLUMN_OFFSET] = {"offset", "byte", VC_CELL_NUMBER, false},
	[COLUMN_WHAT] = {"what", "what is wrong", VC_CELL_TEXT, false},
};

static void emit_faults(struct vc_emit *emit, const struct vc_faults *faults)
{
	vc_emit_table(emit, "faults", columns, COLUMNS);
	for (uint64_t i = 0; i < faults->count && i < VC_FAULTS_KEPT; i++) {
		const struct vc_fault *fault = &faults->kept[i];
		struct vc_cell cells[COLUMNS] = {
			[COLUMN_SECTION] = {.text = fault->section},
			[COLUMN_OFFSET] = {.number = fault->offset},
			[COLUMN_WHAT] = {.text = vc_error_text(fault->error)},
		};

		vc_emit_row(emit, cells);
		vc_emit_row_end(emit);
	}
	vc_emit_table_end(emit);
	if (faults->count > VC_FAULTS_KEPT)
		vc_emit_line(emit, "  and %llu more",
			     (unsigned long long)(faults->count - VC_FAULTS_KEPT));
}

/** One file; its exit status. */
static int check_file(const struct vc_command *command, struct vc_emit *emit, const char *path)
{
	struct vc_problem problem = {0};
	struct vc_model model = {0};
	struct vc_limits limits;
	int error = vc_session_limits(command, &limits, &problem), status;

	if (!error)
		error = vc_model_open(path, NULL, &limits, &model, &problem);
	status = error ? VC_EXIT_NOTHING :
		 model.faults.count ? VC_EXIT_INCOMPLETE : VC_EXIT_COMPLETE;
	vc_emit_object(emit, NULL);
	vc_emit_string(emit, "path", path);
	vc_emit_string(emit, "state", error ? "unreadable" : status ? "damaged" : "whole");
	vc_emit_number(emit, "fault_count", model.faults.count);
	if (error) {
		vc_emit_string(emit, "what", problem.what);
		vc_emit_warning(emit, "%s: unreadable: %s%s%s at byte %llu", path, problem.what,
				*problem.section ? " in " : "", problem.section,
				(unsigned long long)problem.offset);
	} else if (status) {
		vc_emit_warning(emit, "%s: damaged in %llu %s; the rest can be read", path,
				(unsigned long long)model.faults.count,
				model.faults.count == 1 ? "place" : "places");
	} else {
		vc_emit_line(emit, model.imported ?
				   "%s: read to its end; the format has no checksums" :
				   "%s: whole, every %s verified", path,
			     model.from_recording ? "item" : "byte");
	}
	emit_faults(emit, &model.faults);
	vc_emit_object_end(emit);
	vc_model_close(&model);
	return status;
}

int vc_verb_check(const struct vc_command *command, struct vc_emit *emit,
		  struct vc_problem *problem)
{
	int status = VC_EXIT_COMPLETE, error;
	unsigned whole = 0;

	vc_emit_begin(emit, "vramcore.check/1");
	vc_emit_list(emit, "files");
	for (unsigned i = 0; i < command->operand_count; i++) {
		int one = check_file(command, emit, command->operands[i]);

		whole += one == VC_EXIT_COMPLETE;
		if (one > status)
			status = one;
	}
	vc_emit_list_end(emit);
	vc_emit_object(emit, "evidence");
	vc_emit_bool(emit, "complete", status == VC_EXIT_COMPLETE);
	vc_emit_object_end(emit);
	if (status)
		vc_emit_warning(emit, "evidence: INCOMPLETE. %u of %u files are whole.", whole,
				command->operand_count);
	else
		vc_emit_line(emit, "evidence: complete.");
	error = vc_emit_finish(emit);
	return error ? vc_problem_set(problem, error, NULL, NULL, "cannot write the report") :
		       status;
}
