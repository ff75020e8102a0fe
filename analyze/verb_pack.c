/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore pack: a copy of a snapshot with the names of its code inside. */
#include <string.h>
#include <sys/stat.h>

#include "analyze/packed.h"
#include "analyze/report.h"
#include "analyze/symbols.h"
#include "analyze/verb_pack.h"
#include "formats/container.h"
#include "formats/snapshot_read.h"
#include "formats/snapshot_write.h"

static bool known_section(const char *name)
{
	for (unsigned i = 0; i < VC_TABLES; i++)
		if (!strcmp(vc_table_info[i].section, name))
			return true;
	return false;
}

/** What this program does not know would be missing in the copy. */
int vc_pack_refuse_newer(const char *path, struct vc_problem *problem)
{
	static const char hint[] = "pack it with the vramcore that made it, or a newer one";
	struct vc_container_front front;

	if (vc_snapshot_read_front(path, &front, NULL))
		return 0; /* a recording */
	if (front.write_version > VC_CONTAINER_WRITE_VERSION)
		return vc_problem_set(problem, VC_E_TOO_NEW, path, hint,
				      "made by a newer vramcore: the copy would lose what this one "
				      "does not know");
	for (unsigned i = 0; i < front.sections; i++)
		if (!known_section(front.section[i].name))
			return vc_problem_set(problem, VC_E_TOO_NEW, path, hint,
					      "holds %s, which this vramcore does not know and the "
					      "copy would lose",
					      front.section[i].name);
	return 0;
}

/** "job.vramcore" becomes "job.packed.vramcore"; so does a recording's name. */
static void default_output(struct vc_text *text, const char *path)
{
	static const char *const endings[] = {".vramcore", ".vrec"};
	size_t length = strlen(path);

	for (unsigned i = 0; i < 2; i++) {
		size_t ending = strlen(endings[i]);

		if (length > ending && !strcmp(path + length - ending, endings[i])) {
			length -= ending;
			break;
		}
	}
	vc_text_bytes_raw(text, path, length);
	vc_text_add(text, ".packed.vramcore");
}

/** What was damaged in the file cannot be seen in the copy, so the copy says it. */
int vc_pack_note_faults(struct vc_model *model)
{
	struct vc_tables *tables = &model->tables;
	int error = 0;

	for (uint64_t i = 0; i < model->faults.count && i < VC_FAULTS_KEPT && !error; i++) {
		const struct vc_fault *fault = &model->faults.kept[i];
		struct vc_text text = {0};
		uint64_t row;

		vc_text_add(&text, "%s (%s)", fault->section, vc_error_text(fault->error));
		error = vc_tables_append(tables, VC_TABLE_evidence, &row);
		if (!error)
			error = vc_tables_string(tables, "packed_fault", strlen("packed_fault"),
						 &tables->column[VC_COL_evidence_key][row]);
		if (!error)
			error = vc_tables_string(tables, vc_text_get(&text), text.length,
						 &tables->column[VC_COL_evidence_detail][row]);
		if (!error)
			tables->column[VC_COL_evidence_value][row] = fault->offset;
		vc_text_deinit(&text);
	}
	model->faults.count = 0; /* said by the rows now */
	return error;
}

/** Modules of the user's and others' whose code has no lines, by the copy's own words. */
static void emit_lacks(struct vc_emit *emit, const struct vc_tables *tables)
{
	vc_emit_list(emit, "without_lines");
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_symbol_modules]; row++) {
		const char *lacks = vc_string(tables, VC_COL_symbol_modules_lacks, row);
		const char *detail = vc_string(tables, VC_COL_symbol_modules_detail, row);
		uint64_t module = vc_value(tables, VC_COL_symbol_modules_module, row) - 1;

		if (!*lacks)
			continue;
		vc_emit_line(emit, "  no lines for %s: %s%s%s%s",
			     vc_string(tables, VC_COL_modules_path, module), lacks,
			     *detail ? " (" : "", detail, *detail ? ")" : "");
		vc_emit_object(emit, NULL);
		vc_emit_string(emit, "module", vc_string(tables, VC_COL_modules_path, module));
		vc_emit_string(emit, "why", lacks);
		vc_emit_string(emit, "detail", detail);
		vc_emit_object_end(emit);
	}
	vc_emit_list_end(emit);
}

static uint64_t file_bytes(const char *path)
{
	struct stat status;

	return stat(path, &status) ? 0 : (uint64_t)status.st_size;
}

static void emit_pack(struct vc_emit *emit, const struct vc_model *model, const char *output,
		      const struct vc_pack_count *count)
{
	uint64_t bytes = file_bytes(output);
	struct vc_text text = {0};

	vc_emit_begin(emit, "vramcore.pack/1");
	vc_report_file_json(emit, "file", model);
	vc_emit_string(emit, "output", output);
	vc_emit_number(emit, "output_bytes", bytes);
	vc_emit_number(emit, "addresses", count->addresses);
	vc_emit_number(emit, "addresses_named", count->named);
	vc_emit_number(emit, "addresses_with_lines", count->with_lines);
	vc_emit_number(emit, "addresses_named_before", count->kept);
	vc_text_add(&text, "%s: ", output);
	vc_text_bytes(&text, bytes, emit->exact);
	vc_text_add(&text, ", ");
	vc_text_number(&text, count->named);
	vc_text_add(&text, " of ");
	vc_text_number(&text, count->addresses);
	vc_text_add(&text, " addresses named, ");
	vc_text_number(&text, count->with_lines);
	vc_text_add(&text, " with file and line");
	vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_emit_line(emit, "it holds the names of functions and the paths of source files");
	vc_text_deinit(&text);
	emit_lacks(emit, &model->tables);
}

static int write_copy(struct vc_session *session, const char *output,
		      struct vc_pack_count *count, struct vc_problem *problem)
{
	struct vc_model *model = &session->models[0];
	struct vc_fault fault = {0};
	int error = vc_pack_note_faults(model);

	if (!error)
		error = vc_packed_make(&model->tables, session->resolver, count);
	if (error)
		return vc_problem_set(problem, error, model->path, NULL, "cannot be packed: %s",
				      vc_error_text(error));
	error = vc_snapshot_write(output, &model->tables, &fault);
	if (error == VC_E_EXISTS)
		return vc_problem_set(problem, error, output,
				      "nothing is overwritten: give a new name with -o",
				      "exists already");
	return error ? vc_problem_fault(problem, output, &fault) : 0;
}

int vc_verb_pack(const struct vc_command *command, struct vc_emit *emit,
		 struct vc_problem *problem)
{
	const char *path = command->operands[0];
	struct vc_pack_count count = {0};
	struct vc_text name = {0};
	struct vc_session session;
	const char *output;
	int status;

	if (vc_option_given(command, VC_OPTION_NO_SYMBOLS))
		return vc_problem_usage(problem, "vramcore pack --help",
					"pack writes names: it cannot go with --no-symbols");
	if (!vc_symbols_readable())
		return vc_problem_set(problem, VC_E_NOT_FOUND, NULL,
				      "pack where a full build of vramcore is installed",
				      "%s", vc_module_state_text(VC_MODULE_NOT_READ));
	status = vc_pack_refuse_newer(path, problem);
	if (!status)
		status = vc_session_open(command, 0, 1, NULL, &session, problem);
	if (status)
		return status;
	default_output(&name, path);
	output = vc_option_value(command, VC_OPTION_OUTPUT, vc_text_get(&name));
	status = write_copy(&session, output, &count, problem);
	if (!status) {
		emit_pack(emit, &session.models[0], output, &count);
		status = vc_report_end(emit, &session, false, problem);
	}
	vc_text_deinit(&name);
	vc_session_close(&session);
	return status;
}
