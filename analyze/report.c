/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/report.h"

#include <stdio.h>
#include <string.h>

/** "after-step" is written "after step". */
static void add_words(struct vc_text *text, const char *word)
{
	for (; *word; word++)
		vc_text_bytes_raw(text, *word == '-' ? " " : word, 1);
}

void vc_report_moment_after(struct vc_text *text, const struct vc_tables *tables)
{
	const char *moment = vc_string(tables, VC_COL_process_moment, 0);
	uint64_t peak = vc_value(tables, VC_COL_process_peak_device_plus_one, 0);

	if (vc_value(tables, VC_COL_process_steps_known, 0)) {
		vc_text_number(text, vc_value(tables, VC_COL_process_step, 0));
		if (*moment)
			vc_text_add(text, ", ");
	} else if (!*moment) {
		vc_text_add(text, "no step known");
	}
	add_words(text, moment);
	/* the others are shown as they were then */
	if (peak && tables->rows[VC_TABLE_devices] > 1)
		vc_text_add(text, " of GPU %u", (unsigned int)peak - 1);
}

void vc_report_moment(struct vc_text *text, const struct vc_tables *tables)
{
	if (vc_is_import(tables))
		vc_text_add(text, "torch snapshot, ");
	if (vc_value(tables, VC_COL_process_steps_known, 0))
		vc_text_add(text, "step ");
	vc_report_moment_after(text, tables);
}

void vc_report_device(struct vc_text *text, const struct vc_tables *tables,
		      uint32_t device_plus_one)
{
	const char *name, *uuid;
	uint64_t row;

	if (!device_plus_one) {
		vc_text_add(text, "unknown device");
		return;
	}
	vc_text_add(text, "GPU %u", device_plus_one - 1);
	if (vc_device_row(tables, device_plus_one - 1, &row))
		return;
	name = vc_string(tables, VC_COL_devices_name, row);
	uuid = vc_string(tables, VC_COL_devices_uuid, row);
	if (*name)
		vc_text_add(text, " %s", name);
	/* the first group is enough to tell devices apart: GPU-8f1c6c7e */
	if (*uuid)
		vc_text_add(text, " (%.12s)", uuid);
}

static void emit_if_known(struct vc_emit *emit, const char *key, uint64_t value, bool known)
{
	if (known)
		vc_emit_number(emit, key, value);
	else
		vc_emit_null(emit, key);
}

void vc_report_device_json(struct vc_emit *emit, const char *key, const struct vc_tables *tables,
			   uint32_t device_plus_one)
{
	uint64_t row;

	if (!device_plus_one) {
		vc_emit_null(emit, key);
		return;
	}
	vc_emit_object(emit, key);
	vc_emit_number(emit, "ordinal", device_plus_one - 1);
	if (!vc_device_row(tables, device_plus_one - 1, &row)) {
		vc_emit_string(emit, "name", vc_string(tables, VC_COL_devices_name, row));
		vc_emit_string(emit, "uuid", vc_string(tables, VC_COL_devices_uuid, row));
		vc_emit_string(emit, "pci", vc_string(tables, VC_COL_devices_pci, row));
		vc_emit_number(emit, "total", vc_value(tables, VC_COL_devices_total, row));
		if (vc_value(tables, VC_COL_devices_used_known, row))
			vc_emit_number(emit, "free", vc_value(tables, VC_COL_devices_free, row));
		else
			vc_emit_null(emit, "free");
		vc_emit_number(emit, "peak", vc_value(tables, VC_COL_devices_peak, row));
		vc_emit_number(emit, "peak_step", vc_value(tables, VC_COL_devices_peak_step, row));
		vc_emit_time(emit, "peak_time", vc_value(tables, VC_COL_devices_peak_time, row));
		emit_if_known(emit, "step_peak", vc_value(tables, VC_COL_devices_step_peak, row),
			      vc_value(tables, VC_COL_devices_step_peak_known, row) != 0);
		vc_emit_number(emit, "driver_version",
			       vc_value(tables, VC_COL_devices_driver_version, row));
	}
	vc_emit_object_end(emit);
}

void vc_report_file_json(struct vc_emit *emit, const char *key, const struct vc_model *model)
{
	const struct vc_tables *tables = &model->tables;
	uint64_t rank = vc_value(tables, VC_COL_process_rank_plus_one, 0);
	uint64_t world = vc_value(tables, VC_COL_process_world_size, 0);

	vc_emit_object(emit, key);
	vc_emit_string(emit, "path", model->path);
	vc_emit_bool(emit, "recording", model->from_recording);
	if (vc_is_import(tables)) {
		vc_emit_object(emit, "origin");
		vc_emit_string(emit, "format", vc_string(tables, VC_COL_origin_format, 0));
		vc_emit_number(emit, "protocol", vc_value(tables, VC_COL_origin_protocol, 0));
		vc_emit_string(emit, "wrapping", vc_string(tables, VC_COL_origin_wrapping, 0));
		vc_emit_number(emit, "events", vc_value(tables, VC_COL_origin_events, 0));
		vc_emit_object_end(emit);
	} else {
		vc_emit_null(emit, "origin");
	}
	emit_if_known(emit, "step", vc_value(tables, VC_COL_process_step, 0),
		      vc_value(tables, VC_COL_process_steps_known, 0) != 0);
	vc_emit_string(emit, "moment", vc_string(tables, VC_COL_process_moment, 0));
	emit_if_known(emit, "peak_device",
		      vc_value(tables, VC_COL_process_peak_device_plus_one, 0) - 1,
		      vc_value(tables, VC_COL_process_peak_device_plus_one, 0) != 0);
	vc_emit_string(emit, "trigger", vc_string(tables, VC_COL_process_trigger, 0));
	vc_emit_string(emit, "phase", vc_string(tables, VC_COL_process_phase, 0));
	vc_emit_time(emit, "time", vc_value(tables, VC_COL_process_snapshot_time, 0));
	vc_emit_time(emit, "start_time", vc_value(tables, VC_COL_process_start_time, 0));
	vc_emit_number(emit, "number", vc_value(tables, VC_COL_process_number, 0));
	vc_emit_number(emit, "pid", vc_value(tables, VC_COL_process_pid, 0));
	vc_emit_string(emit, "host", vc_string(tables, VC_COL_process_host, 0));
	vc_emit_string(emit, "program", vc_string(tables, VC_COL_process_program, 0));
	vc_emit_string(emit, "command", vc_string(tables, VC_COL_process_command, 0));
	vc_emit_string(emit, "job", vc_string(tables, VC_COL_process_job, 0));
	vc_emit_string(emit, "state", vc_string(tables, VC_COL_process_state, 0));
	vc_emit_string(emit, "boot_id", vc_string(tables, VC_COL_process_boot_id, 0));
	emit_if_known(emit, "rank", rank - 1, rank != 0);
	emit_if_known(emit, "world_size", world, world != 0);
	vc_emit_string(emit, "recorder_version",
		       vc_string(tables, VC_COL_process_recorder_version, 0));
	vc_emit_object_end(emit);
}

static void emit_frames(struct vc_emit *emit, const char *key, const struct vc_chain *chain)
{
	static const char *const owner[] = {
		[VC_OWNER_USER] = "user", [VC_OWNER_LIBRARY] = "library",
		[VC_OWNER_SYSTEM] = "system", [VC_OWNER_DRIVER] = "driver",
		[VC_OWNER_RECORDER] = "recorder",
	};

	vc_emit_list(emit, key);
	for (uint32_t i = 0; emit->json && i < chain->count; i++) {
		const struct vc_frame_name *frame = chain->frames[i];

		vc_emit_object(emit, NULL);
		vc_emit_string(emit, "function", frame->function);
		vc_emit_string(emit, "file", frame->file);
		emit_if_known(emit, "line", frame->line, frame->line != 0);
		vc_emit_bool(emit, "inlined", frame->inlined);
		vc_emit_string(emit, "owner", owner[frame->owner]);
		vc_emit_string(emit, "module", frame->module);
		vc_emit_string(emit, "build_id", frame->build_id);
		vc_emit_address(emit, "offset", frame->offset);
		vc_emit_object_end(emit);
	}
	vc_emit_list_end(emit);
}

void vc_report_stack_json(struct vc_emit *emit, const char *key, const struct vc_chain *chain)
{
	char forward[32];

	emit_frames(emit, key, chain);
	if (!chain->forward)
		return;
	snprintf(forward, sizeof(forward), "forward_%s", key);
	emit_frames(emit, forward, chain->forward);
}

const char *vc_report_part(struct vc_session *session, const char **from, size_t columns)
{
	const char *start = *from, *end = start, *next;
	struct vc_text text = {0};

	do {
		next = strstr(end + (end != start ? 4 : 0), " -> ");
		if (!next)
			next = start + strlen(start);
		if (end != start && columns && (size_t)(next - start) > columns)
			break;
		end = next;
	} while (*end);
	vc_text_bytes_raw(&text, start, (size_t)(end - start));
	*from = *end ? end + 1 : NULL; /* the arrow begins the next line */
	return vc_report_keep(session, &text);
}

const char *vc_report_keep(struct vc_session *session, struct vc_text *text)
{
	const char *kept = vc_arena_string(&session->arena, vc_text_get(text));

	vc_text_deinit(text);
	return kept ? kept : "";
}

const char *vc_report_site(struct vc_session *session, const struct vc_chain *chain,
			   const struct vc_path_prefix *prefix)
{
	struct vc_text text = {0};

	vc_chain_text(&text, chain, prefix);
	return vc_report_keep(session, &text);
}

/* ---- evidence ---- */

/** Most clauses of one effect that are written: JSON has them all. */
enum { CLAUSES_MOST = 8 };

/** The clauses of one effect, after what is there. */
static void add_clauses(struct vc_text *text, const struct vc_session *session,
			const struct vc_evidence *evidence, enum vc_effect effect)
{
	uint64_t clauses = 0;

	for (uint64_t i = 0; i < evidence->count; i++) {
		const struct vc_evidence_item *item = &evidence->items[i];

		if (item->effect != effect || ++clauses > CLAUSES_MOST)
			continue;
		vc_text_add(text, "%s", text->length ? "; " : "");
		if (session->count > 1)
			vc_text_add(text, "%s: ", session->models[item->file].path);
		vc_text_add(text, "%s", item->text);
	}
	if (clauses > CLAUSES_MOST)
		vc_text_add(text, "; and %llu more (--json lists them)",
			    (unsigned long long)(clauses - CLAUSES_MOST));
}

static void add_numbers(struct vc_text *text, const struct vc_session *session,
			const struct vc_evidence *evidence)
{
	struct vc_names_count names = vc_names_count(session->names);

	vc_text_add(text, "%s", text->length ? "; " : "");
	vc_text_number(text, evidence->seen);
	vc_text_add(text, " allocations seen, ");
	vc_text_number(text, evidence->lost);
	vc_text_add(text, " lost");
	if (names.frames) {
		/* rounded down: 100 % is all of them */
		vc_text_add(text, "; ");
		vc_text_share(text, (int64_t)(names.named * 1000 / names.frames));
		vc_text_add(text, " of frames named");
	}
}

static void emit_evidence_json(struct vc_emit *emit, const struct vc_session *session,
			       const struct vc_evidence *evidence)
{
	struct vc_names_count names = vc_names_count(session->names);
	static const char *const effect[] = {"plain", "note", "bytes"};

	vc_emit_object(emit, "evidence");
	vc_emit_bool(emit, "complete", evidence->complete);
	vc_emit_number(emit, "allocations_seen", evidence->seen);
	vc_emit_number(emit, "allocations_lost", evidence->lost);
	vc_emit_number(emit, "frames", names.frames);
	vc_emit_number(emit, "frames_named", names.named);
	vc_emit_list(emit, "items");
	for (uint64_t i = 0; emit->json && i < evidence->count; i++) {
		const struct vc_evidence_item *item = &evidence->items[i];

		vc_emit_object(emit, NULL);
		vc_emit_string(emit, "path", session->models[item->file].path);
		vc_emit_string(emit, "key", item->key);
		vc_emit_number(emit, "value", item->value);
		vc_emit_string(emit, "effect", effect[item->effect]);
		vc_emit_string(emit, "text", item->text);
		vc_emit_object_end(emit);
	}
	vc_emit_list_end(emit);
	vc_emit_object_end(emit);
}

/** Says which of the user's files have no lines: the sites in them are offsets. */
static void emit_lacks(struct vc_emit *emit, const struct vc_session *session)
{
	enum { MOST = 8 };
	struct vc_names_lack lacks[MOST];
	unsigned count = vc_names_lacks(session->names, lacks, MOST);

	vc_emit_list(emit, "without_lines");
	for (unsigned i = 0; i < count && i < MOST; i++) {
		vc_emit_line(emit, "no lines for %s: %s%s%s%s (--debug-dir DIR looks there too)",
			     lacks[i].module, lacks[i].why, *lacks[i].detail ? " (" : "",
			     lacks[i].detail, *lacks[i].detail ? ")" : "");
		vc_emit_object(emit, NULL);
		vc_emit_string(emit, "module", lacks[i].module);
		vc_emit_string(emit, "why", lacks[i].why);
		vc_emit_string(emit, "detail", lacks[i].detail);
		vc_emit_object_end(emit);
	}
	vc_emit_list_end(emit);
	if (count > MOST)
		vc_emit_line(emit, "no lines for %u more files", count - MOST);
}

int vc_report_evidence(struct vc_emit *emit, struct vc_session *session, bool numbers,
		       struct vc_problem *problem)
{
	const struct vc_evidence *evidence;
	struct vc_evidence made;
	struct vc_text text = {0};
	int error = vc_evidence_make(session->models, session->accounts, session->count,
				     &session->arena, &made);

	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	evidence = &made;
	emit_lacks(emit, session);
	add_clauses(&text, session, evidence, VC_EFFECT_BYTES);
	if (numbers && !session->models[0].imported)
		add_numbers(&text, session, evidence);
	add_clauses(&text, session, evidence, VC_EFFECT_NOTE);
	if (evidence->complete)
		vc_emit_line(emit, "evidence: complete.%s%s%s", text.length ? " " : "",
			     vc_text_get(&text), text.length ? "." : "");
	else
		vc_emit_warning(emit, "evidence: INCOMPLETE. %s.", vc_text_get(&text));
	emit_evidence_json(emit, session, evidence);
	vc_text_deinit(&text);
	return evidence->complete ? VC_EXIT_COMPLETE : VC_EXIT_INCOMPLETE;
}

int vc_report_end(struct vc_emit *emit, struct vc_session *session, bool numbers,
		  struct vc_problem *problem)
{
	int status = vc_report_evidence(emit, session, numbers, problem);
	int error;

	if (status < 0)
		return status;
	error = vc_emit_finish(emit);
	return error ? vc_problem_set(problem, error, NULL, NULL, "cannot write the report") :
		       status;
}
