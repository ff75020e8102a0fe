/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore export: all tables of a file, as JSON, CSV or a snapshot; a PyTorch snapshot. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/report.h"
#include "analyze/torch_write.h"
#include "analyze/verb_pack.h"
#include "formats/snapshot_write.h"

/** Writes one value as text: names, what strings say, hexadecimal addresses. True: not a number. */
static bool add_value(struct vc_text *text, const struct vc_tables *tables,
		      enum vc_column_index column, uint64_t row)
{
	static const char *const state[] = {"", "live", "in doubt", "being freed"};
	uint64_t value = vc_value(tables, column, row);

	switch (vc_column_info[column].type) {
	case VC_TYPE_ADDRESS:
		vc_text_add(text, "0x%llx", (unsigned long long)value);
		return true;
	case VC_TYPE_STRING:
		vc_text_add(text, "%s", vc_tables_text(tables, value));
		return true;
	case VC_TYPE_TEXT:
		vc_text_add(text, "%s", vc_tables_text(tables, row));
		return true;
	case VC_TYPE_KIND:
		vc_text_add(text, "%s", vc_kind_text(value));
		return true;
	case VC_TYPE_STATE:
		vc_text_add(text, "%s", value < 4 ? state[value] : "");
		return true;
	default:
		vc_text_add(text, "%llu", (unsigned long long)value);
		return false;
	}
}

static void json_table(struct vc_emit *emit, const struct vc_tables *tables,
		       enum vc_table_index table, struct vc_text *text)
{
	const struct vc_table_info *info = &vc_table_info[table];

	vc_emit_table(emit, info->name, NULL, 0);
	for (uint64_t row = 0; row < tables->rows[table]; row++) {
		vc_emit_row(emit, NULL);
		for (unsigned i = 0; i < info->columns; i++) {
			enum vc_column_index column = (enum vc_column_index)(info->first + i);

			vc_text_clear(text);
			if (add_value(text, tables, column, row))
				vc_emit_string(emit, vc_column_info[column].name,
					       vc_text_get(text));
			else
				vc_emit_number(emit, vc_column_info[column].name,
					       vc_value(tables, column, row));
		}
		vc_emit_row_end(emit);
	}
	vc_emit_table_end(emit);
}

/** Writes all tables as one document, then the evidence. */
static int export_json(struct vc_emit *emit, struct vc_session *session, struct vc_problem *problem)
{
	struct vc_text text = {0};

	emit->json = true;
	vc_emit_begin(emit, "vramcore.export/1");
	vc_emit_string(emit, "path", session->models[0].path);
	vc_emit_object(emit, "tables");
	for (unsigned i = 0; i < VC_TABLES; i++)
		json_table(emit, &session->models[0].tables, (enum vc_table_index)i, &text);
	vc_emit_object_end(emit);
	vc_text_deinit(&text);
	return vc_report_end(emit, session, false, problem);
}

static void csv_table(FILE *out, const struct vc_tables *tables, enum vc_table_index table,
		      struct vc_text *text)
{
	const struct vc_table_info *info = &vc_table_info[table];
	struct vc_text raw = {0}, harmless = {0};

	for (unsigned i = 0; i < info->columns; i++)
		fprintf(out, "%s%s", i ? "," : "", vc_column_info[info->first + i].name);
	fprintf(out, "\n");
	for (uint64_t row = 0; row < tables->rows[table]; row++) {
		vc_text_clear(text);
		for (unsigned i = 0; i < info->columns; i++) {
			vc_text_clear(&raw);
			vc_text_clear(&harmless);
			add_value(&raw, tables, (enum vc_column_index)(info->first + i), row);
			vc_text_escaped(&harmless, vc_text_get(&raw));
			vc_text_add(text, "%s", i ? "," : "");
			vc_text_csv(text, vc_text_get(&harmless));
		}
		fprintf(out, "%s\n", vc_text_get(text));
	}
	vc_text_deinit(&raw);
	vc_text_deinit(&harmless);
}

static int cannot_write(struct vc_problem *problem, const char *path)
{
	const char *hint = errno == EEXIST ? "nothing is overwritten: give a new name" : "";

	return vc_problem_set(problem, VC_E_IO, path, hint, "cannot be written: %s",
			      strerror(errno));
}

/** Opens a new file; an existing one is never overwritten. */
static int open_new(const char *path, FILE **ret, struct vc_problem *problem)
{
	int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "w");

	if (!file)
		return cannot_write(problem, path);
	*ret = file;
	return 0;
}

/** On standard output: every table under a line with its name. */
static int csv_to_stdout(const struct vc_tables *tables)
{
	struct vc_text text = {0};

	for (unsigned i = 0; i < VC_TABLES; i++) {
		printf("%s# %s\n", i ? "\n" : "", vc_table_info[i].name);
		csv_table(stdout, tables, (enum vc_table_index)i, &text);
	}
	vc_text_deinit(&text);
	return fflush(stdout) || ferror(stdout) ? VC_E_IO : 0;
}

/** In a new folder: a file for each table. */
static int csv_to_folder(const struct vc_tables *tables, const char *folder,
			 struct vc_problem *problem)
{
	struct vc_text text = {0}, path = {0};
	int error = mkdir(folder, 0700) ? cannot_write(problem, folder) : 0;

	for (unsigned i = 0; i < VC_TABLES && !error; i++) {
		FILE *out = NULL;

		vc_text_clear(&path);
		vc_text_add(&path, "%s/%s.csv", folder, vc_table_info[i].name);
		error = open_new(vc_text_get(&path), &out, problem);
		if (error)
			break;
		csv_table(out, tables, (enum vc_table_index)i, &text);
		if (ferror(out) | fclose(out))
			error = cannot_write(problem, vc_text_get(&path));
	}
	vc_text_deinit(&text);
	vc_text_deinit(&path);
	return error;
}

/** The data is no place for the evidence: it goes to standard error. */
static int evidence_aside(struct vc_emit *emit, struct vc_session *session, uint64_t left_out,
			  struct vc_problem *problem)
{
	emit->out = stderr;
	emit->json = emit->color = false;
	if (left_out)
		vc_emit_warning(emit, "left out: %llu %s allocation",
				(unsigned long long)left_out,
				left_out == 1 ? "block that overlaps others or reaches out of its" :
						"blocks that overlap others or reach out of their");
	return vc_report_end(emit, session, false, problem);
}

enum format { FORMAT_JSON, FORMAT_CSV, FORMAT_TORCH, FORMAT_VRAMCORE, FORMATS };

/** A snapshot, whatever the file was. */
static int export_snapshot(struct vc_session *session, const char *out,
			   struct vc_problem *problem)
{
	struct vc_model *model = &session->models[0];
	struct vc_fault fault = {0};
	int error = vc_pack_note_faults(model);

	if (error)
		return vc_problem_set(problem, error, model->path, NULL, "%s",
				      vc_error_text(error));
	error = vc_snapshot_write(out, &model->tables, &fault);
	if (error == VC_E_EXISTS)
		return vc_problem_set(problem, error, out,
				      "nothing is overwritten: give a new name with -o",
				      "exists already");
	return error ? vc_problem_fault(problem, out, &fault) : 0;
}

/** Names of the stacks of all that becomes a segment or a block. */
static int name_stacks(struct vc_session *session, struct vc_problem *problem)
{
	const struct vc_tables *tables = &session->models[0].tables;
	int error = 0;

	for (uint64_t row = 0; row < tables->rows[VC_TABLE_allocations] && !error; row++) {
		uint64_t kind = vc_value(tables, VC_COL_allocations_kind, row);

		if (kind == VC_KIND_BLOCK || vc_torch_is_segment(tables, row))
			error = vc_session_want(
				session,
				vc_stack_reference(tables,
						   vc_value(tables, VC_COL_allocations_stack, row),
						   vc_value(tables, VC_COL_allocations_python,
							    row)),
				kind);
	}
	if (error)
		return vc_problem_set(problem, error, session->models[0].path, NULL, "%s",
				      vc_error_text(error));
	return vc_session_names(session, problem);
}

static int write_torch(struct vc_session *session, const struct vc_limits *limits, FILE *file,
		       const char *name, uint64_t *left_out, struct vc_problem *problem)
{
	const struct vc_tables *tables = &session->models[0].tables;
	int error;

	if (vc_is_import(tables))
		error = vc_torch_write(file, tables, limits);
	else
		error = vc_torch_write_recording(file, tables, session->names, limits, left_out);
	if (error == VC_E_IO)
		return cannot_write(problem, name);
	if (error == VC_E_LIMIT)
		return vc_problem_set(problem, error, session->models[0].path, NULL,
				      "more than %llu %s (--limit %s=N lifts this)",
				      (unsigned long long)limits->most[VC_LIMIT_RECORDS],
				      vc_limit_text[VC_LIMIT_RECORDS],
				      vc_limit_name[VC_LIMIT_RECORDS]);
	return error ? vc_problem_set(problem, error, name, NULL, "%s", vc_error_text(error)) : 0;
}

static int export_torch(const struct vc_command *command, struct vc_session *session,
			const char *out, uint64_t *left_out, struct vc_problem *problem)
{
	struct vc_limits limits;
	FILE *file = stdout;
	int status = vc_session_limits(command, &limits, problem);

	if (!status && !vc_is_import(&session->models[0].tables))
		status = name_stacks(session, problem);
	if (!status && out)
		status = open_new(out, &file, problem);
	if (status)
		return status;
	status = write_torch(session, &limits, file, out ? out : "standard output", left_out,
			     problem);
	if (out && fclose(file) && !status)
		status = cannot_write(problem, out);
	if (status && out) /* half a pickle is of no use */
		unlink(out);
	return status;
}

static int export_to(const struct vc_command *command, struct vc_emit *emit,
		     struct vc_session *session, enum format format, struct vc_problem *problem)
{
	const struct vc_tables *tables = &session->models[0].tables;
	const char *out = vc_option_value(command, VC_OPTION_OUTPUT, NULL);
	uint64_t left_out = 0;
	FILE *file = NULL;
	int status = 0;

	if (format != FORMAT_JSON) {
		if (format == FORMAT_TORCH)
			status = export_torch(command, session, out, &left_out, problem);
		else if (format == FORMAT_VRAMCORE)
			status = export_snapshot(session, out, problem);
		else
			status = out ? csv_to_folder(tables, out, problem) : csv_to_stdout(tables);
		if (status && format == FORMAT_CSV && !out)
			cannot_write(problem, "standard output");
		return status ? status : evidence_aside(emit, session, left_out, problem);
	}
	if (!out)
		return export_json(emit, session, problem);
	status = open_new(out, &file, problem);
	if (status)
		return status;
	emit->out = file;
	status = export_json(emit, session, problem);
	emit->out = stdout;
	if (fclose(file) && status >= 0)
		status = cannot_write(problem, out);
	return status;
}

int vc_verb_export(const struct vc_command *command, struct vc_emit *emit,
		   struct vc_problem *problem)
{
	static const char *const formats[] = {"json", "csv", "torch-pickle", "vramcore"};
	struct vc_session session;
	unsigned format;
	int status = vc_option_word(command, VC_OPTION_TO, formats, FORMATS, FORMATS, &format,
				    problem);

	if (status)
		return status;
	if (format == FORMATS)
		return vc_problem_usage(problem, "vramcore export --help",
					"export needs --to json, csv, torch-pickle or vramcore");
	if ((format == FORMAT_VRAMCORE || (format == FORMAT_TORCH && isatty(STDOUT_FILENO))) &&
	    !vc_option_given(command, VC_OPTION_OUTPUT))
		return vc_problem_usage(problem, "vramcore export --help",
					"--to %s needs -o OUT", formats[format]);
	if (format == FORMAT_VRAMCORE)
		status = vc_pack_refuse_newer(command->operands[0], problem);
	if (!status)
		status = vc_session_open(command, 0, 1, NULL, &session, problem);
	if (status)
		return status;
	status = export_to(command, emit, &session, (enum format)format, problem);
	vc_session_close(&session);
	return status;
}
