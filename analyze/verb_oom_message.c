/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/verb_oom_message.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "analyze/oom_message.h"
#include "analyze/views/oom_message.h"

/** One of the messages that are shown. */
struct shown {
	const struct vc_oom_message *message;
	struct vc_oom_reading reading;
	uint64_t messages;        /* of its source */
	bool last;                /* the last of the text, not the first of its source */
};

struct report {
	struct vc_emit *emit;
	struct vc_arena arena;
	struct vc_oom_log log;
	struct shown *shown;
	unsigned count, main;     /* main: the one that is shown in full */
	unsigned wrong, partial;  /* messages that contradict themselves; that lack sizes */
};

static const char *keep(struct report *report, struct vc_text *text)
{
	const char *kept = vc_arena_string(&report->arena, vc_text_get(text));

	vc_text_deinit(text);
	return kept ? kept : "";
}

/* ---- reading ---- */

static int read_descriptor(int descriptor, struct vc_oom_reader *reader)
{
	static char buffer[1 << 16];

	for (;;) {
		ssize_t got = read(descriptor, buffer, sizeof(buffer));
		int error;

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? VC_E_IO : 0;
		error = vc_oom_reader_feed(reader, buffer, (size_t)got);
		if (error)
			return error;
	}
}

static int read_text(const char *path, struct vc_oom_reader *reader, struct vc_problem *problem)
{
	bool standard = !strcmp(path, "-");
	int descriptor = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	int error;

	if (descriptor < 0)
		return vc_problem_set(problem, errno == ENOENT ? VC_E_NOT_FOUND : VC_E_IO, path, "",
				      "%s", strerror(errno));
	error = read_descriptor(descriptor, reader);
	if (error == VC_E_IO)
		vc_problem_set(problem, error, path, "", "%s", strerror(errno));
	else if (error)
		vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	if (!standard)
		close(descriptor);
	return error;
}

static int add_shown(struct report *report, const struct vc_oom_message *message,
		     uint64_t messages, bool last)
{
	struct shown *shown = &report->shown[report->count];
	int error = vc_oom_message_read(message, report->emit->exact, &report->arena,
					&shown->reading);

	if (error)
		return error;
	shown->message = message;
	shown->messages = messages;
	shown->last = last;
	report->wrong += shown->reading.contradiction_count != 0;
	report->partial += shown->reading.missing_count != 0;
	report->count++;
	return 0;
}

static bool is_warning(const struct vc_oom_message *message)
{
	return message->no_failure || message->wording == VC_OOM_WORDING_EXECUTOR;
}

/** The first of each source, and the last of all; the main one: the first failure with a size. */
static int choose(struct report *report)
{
	const struct vc_oom_log *log = &report->log;
	bool have_last = false;
	int error = 0;

	report->shown = vc_arena_allocate(&report->arena, log->source_count + 1,
					  sizeof(*report->shown));
	if (!report->shown)
		return VC_E_NO_MEMORY;
	for (unsigned i = 0; i < log->source_count && !error; i++) {
		have_last |= log->sources[i].first == log->last;
		error = add_shown(report, log->sources[i].first, log->sources[i].messages, false);
	}
	if (!error && !have_last)
		error = add_shown(report, log->last, 0, true);
	for (unsigned i = 0; i < report->count; i++) {
		const struct shown *shown = &report->shown[i];

		if (!shown->reading.requested.told || is_warning(shown->message))
			continue;
		report->main = i;
		break;
	}
	return error;
}

/* ---- text ---- */

static void add_place(struct vc_text *text, const struct vc_oom_place *place)
{
	vc_text_add(text, "%s", place->file);
	if (place->line)
		vc_text_add(text, ":%llu", (unsigned long long)place->line);
	if (*place->function)
		vc_text_add(text, " (%s)", place->function);
}

static const struct vc_oom_place *best_place(const struct vc_oom_message *message)
{
	return *message->user.file ? &message->user : &message->innermost;
}

static void emit_heading(struct report *report, const struct shown *shown)
{
	const struct vc_oom_message *message = shown->message;
	const struct vc_oom_reading *reading = &shown->reading;
	struct vc_text text = {0};

	if (message->device >= 0)
		vc_text_add(&text, "GPU %lld", (long long)message->device);
	else
		vc_text_add(&text, reading->findings[0].kind == VC_OOM_KIND_HOST ? "the host" :
									  "a device");
	vc_text_add(&text, " could not give ");
	if (!reading->requested.told)
		vc_text_add(&text, "memory");
	else if (reading->requested.beyond)
		vc_text_add(&text, "more than an exbibyte");
	else
		vc_text_bytes(&text, reading->requested.bytes, report->emit->exact);
	vc_text_add(&text, ": %s", vc_oom_kinds[reading->findings[0].kind].headline);
	vc_emit_heading(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static void emit_where(struct report *report, const struct shown *shown)
{
	const struct vc_oom_message *message = shown->message;
	struct vc_text text = {0};

	if (*message->innermost.file) {
		vc_text_add(&text, "  asked for at ");
		add_place(&text, best_place(message));
		if (*best_place(message)->source)
			vc_text_add(&text, "  %s", best_place(message)->source);
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
		vc_text_clear(&text);
	}
	vc_text_add(&text, "  said by %s", vc_oom_wordings[message->wording].text);
	if (message->rank >= 0)
		vc_text_add(&text, ", rank %lld", (long long)message->rank);
	if (*message->label)
		vc_text_add(&text, ", after \"%s\"", message->label);
	vc_text_add(&text, ", line ");
	vc_text_number(&text, message->line);
	if (message->times > 1) {
		vc_text_add(&text, ", ");
		vc_text_number(&text, message->times);
		vc_text_add(&text, " times");
	}
	if (*message->shape)
		vc_text_add(&text, "; a tensor of shape %s %s", message->shape, message->type);
	if (*message->allocator)
		vc_text_add(&text, "; from %s", message->allocator);
	if (*message->call)
		vc_text_add(&text, "; in %s", message->call);
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	if (message->sizes[VC_OOM_LARGEST_BUFFER].told) {
		vc_text_add(&text, "  largest buffer ");
		vc_text_bytes(&text, message->sizes[VC_OOM_LARGEST_BUFFER].bytes,
			      report->emit->exact);
		if (*message->buffer.file) {
			vc_text_add(&text, ", made at ");
			add_place(&text, &message->buffer);
		}
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
	}
	vc_text_deinit(&text);
}

enum { ROW_KEY, ROW_TEXT, ROW_BYTES, ROW_SHARE, ROW_HOW, ROW_COLUMNS };
static const struct vc_emit_column ledger_columns[ROW_COLUMNS] = {
	[ROW_KEY] = {"key", NULL, VC_CELL_TEXT, false},
	[ROW_TEXT] = {"what", "where the memory is", VC_CELL_TEXT, false},
	[ROW_BYTES] = {"bytes", "bytes", VC_CELL_SIGNED_BYTES, false},
	[ROW_SHARE] = {"share", "share", VC_CELL_SHARE, true},
	[ROW_HOW] = {"how_known", "how known", VC_CELL_TEXT, true},
};

static const char *bytes_text(struct report *report, int64_t bytes)
{
	struct vc_text text = {0};

	if (bytes < 0)
		vc_text_signed_bytes(&text, bytes, report->emit->exact);
	else
		vc_text_bytes(&text, (uint64_t)bytes, report->emit->exact);
	return keep(report, &text);
}

static void emit_ledger(struct report *report, const struct shown *shown)
{
	const struct vc_oom_reading *reading = &shown->reading;

	if (!reading->total && !report->emit->json)
		return;
	vc_emit_table(report->emit, "ledger", ledger_columns, ROW_COLUMNS);
	for (unsigned i = 0; i < reading->row_count; i++) {
		const struct vc_oom_ledger_row *row = &reading->rows[i];
		struct vc_cell cells[ROW_COLUMNS] = {
			[ROW_KEY] = {.text = row->key}, [ROW_TEXT] = {.text = row->text},
			[ROW_BYTES] = {.amount = row->bytes,
				       .text = bytes_text(report, row->bytes)},
			[ROW_SHARE] = {.amount = row->share}, [ROW_HOW] = {.text = row->how},
		};

		vc_emit_row(report->emit, cells);
		vc_emit_row_end(report->emit);
	}
	if (reading->total) {
		struct vc_cell cells[ROW_COLUMNS] = {
			[ROW_TEXT] = {.text = reading->total_text},
			[ROW_BYTES] = {.text = bytes_text(report, (int64_t)reading->total)},
			[ROW_SHARE] = {.amount = 1000}, [ROW_HOW] = {.text = "told"},
		};

		vc_emit_text_row(report->emit, cells);
	}
	vc_emit_table_end(report->emit);
}

/** A sentence over as many lines as the width asks for, those after the first set in. */
static void emit_wrapped(struct vc_emit *emit, const char *sentence, bool warning)
{
	struct vc_text line = {0};
	unsigned width = emit->width ? emit->width : UINT32_MAX;

	while (*sentence) {
		size_t word = strcspn(sentence + (*sentence == ' '), " ") + (*sentence == ' ');

		if (line.length && line.length + word > width) {
			(warning ? vc_emit_warning : vc_emit_line)(emit, "%s", vc_text_get(&line));
			vc_text_clear(&line);
			vc_text_add(&line, "   ");
		}
		vc_text_bytes_raw(&line, sentence, word);
		sentence += word;
	}
	(warning ? vc_emit_warning : vc_emit_line)(emit, "%s", vc_text_get(&line));
	vc_text_deinit(&line);
}

static void emit_parts(struct vc_emit *emit, bool warning, const char *before, const char *text)
{
	struct vc_text line = {0};

	vc_text_add(&line, "%s: %s", before, text);
	emit_wrapped(emit, vc_text_get(&line), warning);
	vc_text_deinit(&line);
}

static void emit_findings(struct report *report, const struct shown *shown)
{
	const struct vc_oom_reading *reading = &shown->reading;
	struct vc_text text = {0};

	for (unsigned i = 0; i < reading->finding_count; i++) {
		vc_text_add(&text, "  %s", vc_oom_kinds[reading->findings[i].kind].key);
		emit_parts(report->emit, false, vc_text_get(&text), reading->findings[i].text);
		vc_text_clear(&text);
	}
	if (is_warning(shown->message))
		vc_emit_line(report->emit, "  a warning: the program may have gone on with less");
	for (unsigned i = 0; i < reading->contradiction_count; i++)
		emit_parts(report->emit, true, "  contradicts itself", reading->contradictions[i]);
	for (unsigned i = 0; i < reading->untold_count; i++)
		vc_text_add(&text, "%s%s", i ? "; " : "", reading->untold[i]);
	emit_parts(report->emit, false, "not told", vc_text_get(&text));
	vc_text_deinit(&text);
}

/* ---- the list ---- */

enum { LIST_LINE, LIST_RANK, LIST_DEVICE, LIST_REQUESTED, LIST_TIMES, LIST_MORE, LIST_KIND,
       LIST_SITE, LIST_COLUMNS };
static const struct vc_emit_column list_columns[LIST_COLUMNS] = {
	[LIST_LINE] = {"line", "line", VC_CELL_NUMBER, false},
	[LIST_RANK] = {"rank", "rank", VC_CELL_NUMBER, false},
	[LIST_DEVICE] = {"device", "GPU", VC_CELL_NUMBER, true},
	[LIST_REQUESTED] = {"requested", "asked for", VC_CELL_BYTES, false},
	[LIST_TIMES] = {"times", "times", VC_CELL_NUMBER, true},
	[LIST_MORE] = {"distinct_of_source", "distinct", VC_CELL_NUMBER, true},
	[LIST_KIND] = {"kind", "kind", VC_CELL_TEXT, false},
	[LIST_SITE] = {"site", "asked for at", VC_CELL_TEXT, true},
};

static void emit_size(struct vc_emit *emit, const char *key, const struct vc_oom_size *size)
{
	vc_emit_object(emit, key);
	if (size->beyond)
		vc_emit_null(emit, "bytes");
	else
		vc_emit_number(emit, "bytes", size->bytes);
	vc_emit_number(emit, "within", size->within);
	vc_emit_object_end(emit);
}

static void emit_texts(struct vc_emit *emit, const char *key, const char *const *texts,
		       unsigned count)
{
	vc_emit_list(emit, key);
	for (unsigned i = 0; i < count; i++)
		vc_emit_string(emit, NULL, texts[i]);
	vc_emit_list_end(emit);
}

static void emit_place(struct vc_emit *emit, const char *key, const struct vc_oom_place *place)
{
	if (!*place->file) {
		vc_emit_null(emit, key);
		return;
	}
	vc_emit_object(emit, key);
	vc_emit_string(emit, "file", place->file);
	if (place->line)
		vc_emit_number(emit, "line", place->line);
	else
		vc_emit_null(emit, "line");
	vc_emit_string(emit, "function", *place->function ? place->function : NULL);
	vc_emit_string(emit, "source", *place->source ? place->source : NULL);
	vc_emit_object_end(emit);
}

static const char *or_null(const char *string)
{
	return *string ? string : NULL;
}

/** What a message says, to JSON. */
static void emit_said(struct vc_emit *emit, const struct shown *shown)
{
	static const char *const keys[VC_OOM_QUANTITIES] = {
#define VC_OOM_QUANTITY(name, key, text) key,
#include "analyze/oom_message.def"
	};
	const struct vc_oom_message *message = shown->message;

	vc_emit_string(emit, "wording", vc_oom_wordings[message->wording].key);
	vc_emit_string(emit, "label", or_null(message->label));
	vc_emit_string(emit, "text", message->text);
	vc_emit_bool(emit, "last", shown->last);
	vc_emit_bool(emit, "warning", is_warning(message));
	vc_emit_object(emit, "told");
	for (unsigned i = 0; i < VC_OOM_QUANTITIES; i++)
		if (message->sizes[i].told)
			emit_size(emit, keys[i], &message->sizes[i]);
	vc_emit_object_end(emit);
	vc_emit_list(emit, "processes");
	for (unsigned i = 0; i < message->process_count; i++) {
		vc_emit_object(emit, NULL);
		vc_emit_number(emit, "pid", message->processes[i].pid);
		emit_size(emit, "in_use", &message->processes[i].size);
		vc_emit_object_end(emit);
	}
	vc_emit_list_end(emit);
	vc_emit_number(emit, "more_processes", message->processes_more);
	vc_emit_string(emit, "shape", or_null(message->shape));
	vc_emit_string(emit, "type", or_null(message->type));
	vc_emit_string(emit, "allocator", or_null(message->allocator));
	vc_emit_string(emit, "call", or_null(message->call));
	emit_place(emit, "user", &message->user);
	emit_place(emit, "innermost", &message->innermost);
	emit_place(emit, "largest_buffer_at", &message->buffer);
}

/** What follows from it, to JSON. */
static void emit_reading(struct vc_emit *emit, const struct vc_oom_reading *reading)
{
	vc_emit_bool(emit, "requested_computed", reading->requested_computed);
	vc_emit_list(emit, "kinds");
	for (unsigned i = 0; i < reading->finding_count; i++) {
		vc_emit_object(emit, NULL);
		vc_emit_string(emit, "kind", vc_oom_kinds[reading->findings[i].kind].key);
		vc_emit_string(emit, "rule", reading->findings[i].text);
		vc_emit_object_end(emit);
	}
	vc_emit_list_end(emit);
	emit_texts(emit, "contradictions", reading->contradictions, reading->contradiction_count);
	emit_texts(emit, "missing", reading->missing, reading->missing_count);
	emit_texts(emit, "not_told", reading->untold, reading->untold_count);
}

static void emit_list_row(struct report *report, const struct shown *shown)
{
	const struct vc_oom_message *message = shown->message;
	const struct vc_oom_reading *reading = &shown->reading;
	struct vc_text site = {0};
	struct vc_cell cells[LIST_COLUMNS] = {
		[LIST_LINE] = {.number = message->line},
		[LIST_RANK] = {.number = (uint64_t)message->rank, .absent = message->rank < 0},
		[LIST_DEVICE] = {.number = (uint64_t)message->device,
				 .absent = message->device < 0},
		[LIST_REQUESTED] = {.number = reading->requested.bytes,
				    .absent = !reading->requested.told ||
					      reading->requested.beyond},
		[LIST_TIMES] = {.number = message->times},
		[LIST_MORE] = {.number = shown->messages, .absent = shown->last},
		[LIST_KIND] = {.text = vc_oom_kinds[reading->findings[0].kind].key},
	};

	if (*message->innermost.file)
		add_place(&site, best_place(message));
	cells[LIST_SITE].text = keep(report, &site);
	vc_emit_row(report->emit, cells);
	if (report->emit->json) {
		emit_said(report->emit, shown);
		emit_reading(report->emit, reading);
	}
	vc_emit_row_end(report->emit);
}

static void emit_list(struct report *report, uint64_t most)
{
	unsigned count = most && most < report->count ? (unsigned)most : report->count;

	if (report->count < 2 && !report->emit->json)
		return;
	vc_emit_line(report->emit, "%s", "");
	vc_emit_table(report->emit, "messages", list_columns, LIST_COLUMNS);
	for (unsigned i = 0; i < count; i++)
		emit_list_row(report, &report->shown[i]);
	if (count < report->count) {
		struct vc_text text = {0};
		struct vc_cell cells[LIST_COLUMNS] = {
			[LIST_LINE] = {.text = ""}, [LIST_RANK] = {.text = ""},
			[LIST_DEVICE] = {.text = ""}, [LIST_REQUESTED] = {.text = ""},
			[LIST_TIMES] = {.text = ""}, [LIST_MORE] = {.text = ""},
		};

		vc_text_number(&text, report->count - count);
		vc_text_add(&text, " more (-n 0 shows all)");
		cells[LIST_KIND].text = keep(report, &text);
		vc_emit_text_row(report->emit, cells);
	}
	vc_emit_table_end(report->emit);
}

/* ---- the end ---- */

static void emit_counts(struct report *report)
{
	struct vc_text text = {0};

	if (report->log.messages < 2)
		return;
	vc_text_number(&text, report->log.messages);
	vc_text_add(&text, " messages in ");
	vc_text_number(&text, report->log.lines);
	vc_text_add(&text, " lines, from %u %s", report->log.source_count,
		    report->log.source_count == 1 ? "source" : "sources");
	if (report->count > 1)
		vc_text_add(&text, "; listed: the first of each, and the last of all");
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static int emit_evidence(struct report *report)
{
	const struct vc_oom_reading *reading = &report->shown[report->main].reading;
	bool complete = !report->wrong && !report->partial && !report->log.sources_merged;
	struct vc_text text = {0};

	if (report->wrong)
		vc_text_add(&text, " %u of %u messages shown contradict themselves.",
			    report->wrong, report->count);
	if (report->partial) {
		vc_text_add(&text, " %u of %u messages shown lack sizes", report->partial,
			    report->count);
		for (unsigned i = 0; i < reading->missing_count; i++)
			vc_text_add(&text, "%s%s", i ? ", " : ": ", reading->missing[i]);
		vc_text_add(&text, ".");
	}
	if (report->log.sources_merged)
		vc_text_add(&text, " More writers than are told apart.");
	if (complete)
		vc_emit_line(report->emit, "evidence: complete. The text is all there is: sizes "
			     "are as it rounds them.");
	else
		vc_emit_warning(report->emit, "evidence: INCOMPLETE.%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_emit_object(report->emit, "evidence");
	vc_emit_bool(report->emit, "complete", complete);
	vc_emit_number(report->emit, "contradictory", report->wrong);
	vc_emit_number(report->emit, "partial", report->partial);
	vc_emit_bool(report->emit, "sources_merged", report->log.sources_merged);
	vc_emit_object_end(report->emit);
	return complete ? VC_EXIT_COMPLETE : VC_EXIT_INCOMPLETE;
}

static int emit_report(struct report *report, const char *path, uint64_t most,
		       struct vc_problem *problem)
{
	struct vc_emit *emit = report->emit;
	const struct shown *shown = &report->shown[report->main];
	int status, error;

	vc_emit_begin(emit, "vramcore.oom-message/1");
	vc_emit_string(emit, "path", path);
	vc_emit_number(emit, "bytes", report->log.bytes);
	vc_emit_number(emit, "lines", report->log.lines);
	vc_emit_number(emit, "found", report->log.messages);
	vc_emit_number(emit, "sources", report->log.source_count);
	vc_emit_number(emit, "main", report->main);
	emit_heading(report, shown);
	emit_where(report, shown);
	vc_emit_line(emit, "%s", "");
	emit_ledger(report, shown);
	emit_findings(report, shown);
	emit_list(report, most);
	vc_emit_number(emit, "more_messages", most && most < report->count ?
		       report->count - most : 0);
	emit_counts(report);
	status = emit_evidence(report);
	error = vc_emit_finish(emit);
	return error ? vc_problem_set(problem, error, NULL, NULL, "cannot write the report") :
		       status;
}

int vc_oom_message_report(const char *path, uint64_t most, struct vc_emit *emit,
			  struct vc_problem *problem)
{
	struct report report = {.emit = emit};
	struct vc_oom_reader *reader = NULL;
	int status = vc_oom_reader_create(&reader);

	if (status)
		return vc_problem_set(problem, status, NULL, NULL, "%s", vc_error_text(status));
	status = read_text(path, reader, problem);
	if (status)
		goto out;
	status = vc_oom_reader_finish(reader, &report.log);
	if (!status && !report.log.last) {
		status = vc_problem_set(problem, VC_E_NOT_FOUND, path,
					"`vramcore oom FILE` reads snapshots; docs/JSON.md lists "
					"the wordings that are known",
					"no out-of-memory message is in this text");
		goto out;
	}
	if (!status)
		status = choose(&report);
	if (status)
		vc_problem_set(problem, status, NULL, NULL, "%s", vc_error_text(status));
	else
		status = emit_report(&report, path, most, problem);
out:
	vc_arena_deinit(&report.arena);
	vc_oom_reader_destroy(reader);
	return status;
}
