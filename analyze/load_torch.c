/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/load_torch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/pickle.h"
#include "analyze/torch_html.h"
#include "analyze/torch_json.h"
#include "analyze/torch_finish.h"

#define HINT_TORCH "a snapshot holds only dicts, lists, numbers and strings; ask for the file " \
		   "made by torch.cuda.memory._dump_snapshot"

/* Blanks may come before JSON and pages. */
enum { PROBE_BYTES = 64 };

bool vc_torch_is(const unsigned char *start, size_t length)
{
	static const unsigned char gzip[] = {0x1f, 0x8b, 0x08}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};

	if (length >= 2 && start[0] == 0x80 && start[1] <= 5)
		return true;
	if (vc_torch_json_is(start, length) || vc_torch_html_is(start, length))
		return true;
	return (length >= sizeof(gzip) && !memcmp(start, gzip, sizeof(gzip))) ||
	       (length >= sizeof(zstd) && !memcmp(start, zstd, sizeof(zstd)));
}

/** One line that says what is wrong, where, and what was not done. */
static int tell(struct vc_problem *problem, const char *path, int error,
		const struct vc_values *values, uint64_t offset)
{
	unsigned long long at = offset;

	if (error == VC_E_NO_MEMORY || error == VC_E_IO)
		return vc_problem_set(problem, error, path, NULL, "%s", vc_error_text(error));
	if (!*values->what)
		return vc_problem_set(problem, error, path,
				      error == VC_E_LIMIT ? "--limit bytes=N lifts this" : NULL,
				      "%s, at byte %llu%s", vc_error_text(error), at,
				      error == VC_E_LIMIT ? " unpacked" : "");
	if (error == VC_E_LIMIT)
		return vc_problem_set(problem, error, path, NULL, "%s, at byte %llu",
				      values->what, at);
	return vc_problem_set(problem, error, path, HINT_TORCH,
			      "not a plain torch snapshot: %s at byte %llu; nothing was executed",
			      values->what, at);
}

/**
 * Columns of the trace are large: those that nobody asked for are not kept, or where they are
 * needed on the way, or asked for so, kept narrow.
 */
static int drop_unwanted(struct vc_torch *torch, const struct vc_wanted_columns *wanted)
{
	static const enum vc_column_index needed[] = {
		VC_COL_allocations_metadata, VC_COL_allocations_time, VC_COL_freed_address,
	};
	bool asked = !wanted, keep = !wanted;
	int error = 0;

	for (unsigned i = VC_COL_trace_device; wanted && i <= VC_COL_trace_detail; i++)
		asked |= wanted->column[i];
	for (size_t i = 0; wanted && i < sizeof(needed) / sizeof(*needed); i++)
		keep |= wanted->column[needed[i]];
	torch->keep_trace = keep || asked;
	for (unsigned i = VC_COL_trace_device; !torch->keep_trace && i <= VC_COL_trace_detail; i++) {
		free(torch->tables->column[i]);
		torch->tables->column[i] = NULL;
	}
	if (!torch->keep_trace || (asked && !(wanted && wanted->narrow_trace)))
		return 0;
	for (unsigned i = VC_COL_trace_device; i <= VC_COL_trace_detail && !error; i++)
		error = vc_tables_narrow(torch->tables, (enum vc_column_index)i);
	return error;
}

/**
 * Room for the events that a file of this size may hold, so that their columns need not move. What
 * is not used costs addresses only; without it they grow as they are filled.
 */
static void reserve_trace(struct vc_torch *torch, int descriptor, enum vc_wrapping wrapping)
{
	enum { EVENT_BYTES = 56, ROWS_MOST = 1 << 25 };
	struct stat status;
	uint64_t rows;

	if (!torch->keep_trace || wrapping || fstat(descriptor, &status) || status.st_size <= 0)
		return;
	rows = (uint64_t)status.st_size / EVENT_BYTES;
	vc_tables_reserve(torch->tables, VC_TABLE_trace, rows < ROWS_MOST ? rows : ROWS_MOST);
}

static int start_rows(struct vc_tables *tables)
{
	uint64_t row;
	int error = vc_tables_append(tables, VC_TABLE_process, &row);

	return error ? error : vc_tables_append(tables, VC_TABLE_origin, &row);
}

/** How a snapshot was written. */
struct writing {
	const char *format, *wrapping;
	struct vc_pickle pickle; /* of JSON: value and offset only */
};

static int set_origin(struct vc_tables *tables, const struct writing *writing)
{
	uint64_t text, wrapping_row;
	int error = vc_tables_string(tables, writing->format, strlen(writing->format), &text);

	if (!error)
		error = vc_tables_string(tables, writing->wrapping, strlen(writing->wrapping),
					 &wrapping_row);
	if (error)
		return error;
	tables->column[VC_COL_origin_format][0] = text;
	tables->column[VC_COL_origin_wrapping][0] = wrapping_row;
	tables->column[VC_COL_origin_protocol][0] = writing->pickle.protocol;
	tables->column[VC_COL_origin_bytes][0] = writing->pickle.offset;
	return 0;
}

/** The pickle inside a page. Offsets of what is wrong are those of the pickle, unpacked. */
static int read_page(struct vc_stream *page, struct vc_values *values, struct vc_pickle *ret)
{
	struct vc_stream stream;
	struct vc_torch_html html;
	int error = vc_torch_html_open(page, values, &html, &stream);

	ret->offset = vc_stream_offset(page);
	if (error)
		return error;
	error = vc_pickle_read(&stream, values, ret);
	if (error && html.wrong && !*values->what)
		error = vc_values_wrong(values, VC_E_CORRUPT,
					"the base64 in the page is damaged");
	vc_stream_close(&stream);
	return error;
}

/** A pickle, JSON or a page: its first bytes, unpacked, say which. */
static int read_any(struct vc_stream *stream, struct vc_values *values, struct writing *ret)
{
	size_t length;
	int error = vc_stream_fill(stream, PROBE_BYTES);

	if (error)
		return error;
	ret->format = "torch pickle";
	ret->wrapping = vc_wrapping_text(stream->wrapping);
	length = (size_t)(stream->end - stream->at);
	if (vc_torch_json_is(stream->at, length)) {
		ret->format = "torch json";
		return vc_torch_json_read(stream, values, &ret->pickle.value,
					  &ret->pickle.offset);
	}
	if (!vc_torch_html_is(stream->at, length))
		return vc_pickle_read(stream, values, &ret->pickle);
	ret->wrapping = "html";
	return read_page(stream, values, &ret->pickle);
}

static int load(struct vc_stream *stream, const char *path, const struct vc_wanted_columns *wanted,
		const struct vc_limits *limits, struct vc_tables *tables,
		struct vc_problem *problem)
{
	struct vc_torch torch;
	struct writing writing = {0};
	int error = start_rows(tables);

	if (!error)
		error = vc_torch_init(&torch, tables, limits);
	if (error)
		return vc_problem_set(problem, error, path, NULL, "%s", vc_error_text(error));
	error = drop_unwanted(&torch, wanted);
	reserve_trace(&torch, stream->descriptor, stream->wrapping);
	if (!error)
		error = read_any(stream, &torch.values, &writing);
	if (!error)
		error = set_origin(tables, &writing);
	if (!error)
		error = vc_torch_take_top(&torch, writing.pickle.value);
	if (!error)
		error = vc_torch_fill(&torch, wanted);
	if (error)
		tell(problem, path, error, &torch.values, writing.pickle.offset);
	vc_torch_deinit(&torch);
	return error;
}

int vc_torch_load(int descriptor, const char *path, const struct vc_wanted_columns *wanted,
		  const struct vc_limits *limits, struct vc_tables *ret,
		  struct vc_problem *problem)
{
	struct vc_stream stream;
	struct vc_tables tables = {0};
	int error;

	if (!limits)
		limits = &vc_limits_default;
	error = vc_stream_open(descriptor, limits->most[VC_LIMIT_BYTES], &stream);
	if (error)
		return vc_problem_set(problem, error, path, NULL, "%s",
				      error == VC_E_NOT_OURS ?
					      "packed with gzip, which this build cannot unpack" :
					      vc_error_text(error));
	error = vc_tables_init(&tables);
	if (error)
		vc_problem_set(problem, error, path, NULL, "%s", vc_error_text(error));
	else
		error = load(&stream, path, wanted, limits, &tables, problem);
	vc_stream_close(&stream);
	if (error)
		vc_tables_deinit(&tables);
	else
		*ret = tables;
	return error;
}
