/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/emit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "formats/error.h"

struct vc_emit_text_row {
	struct vc_emit_text_row *next;
	const char *cell[];
};

/** Narrowest last column before other columns are dropped for its sake. */
#define LAST_COLUMN_LEAST 32u

void vc_emit_deinit(struct vc_emit *emit)
{
	vc_text_deinit(&emit->line);
	vc_arena_deinit(&emit->arena);
}

static void write_text(struct vc_emit *emit, const char *text)
{
	if (fputs(text, emit->out) < 0)
		emit->failed = true;
}

/* ---- JSON ---- */

/** Rows of tables are written on one line each. */
static bool on_one_line(const struct vc_emit *emit)
{
	return emit->rows_depth && emit->depth >= emit->rows_depth;
}

static void json_newline(struct vc_emit *emit)
{
	write_text(emit, "\n");
	for (unsigned i = 0; i < emit->depth; i++)
		write_text(emit, "  ");
}

static void json_text(struct vc_emit *emit, const char *string)
{
	vc_text_clear(&emit->line);
	vc_text_json(&emit->line, string);
	write_text(emit, "\"");
	write_text(emit, vc_text_get(&emit->line));
	write_text(emit, "\"");
}

static void json_key(struct vc_emit *emit, const char *key)
{
	bool *comma = &emit->comma[emit->depth < VC_EMIT_DEPTH_MAX ? emit->depth : 0];

	if (*comma)
		write_text(emit, on_one_line(emit) ? ", " : ",");
	*comma = true;
	if (emit->depth && !on_one_line(emit))
		json_newline(emit);
	if (key) {
		json_text(emit, key);
		write_text(emit, ": ");
	}
}

static void json_open(struct vc_emit *emit, const char *key, const char *bracket)
{
	if (!emit->json)
		return;
	json_key(emit, key);
	write_text(emit, bracket);
	emit->depth++;
	emit->comma[emit->depth < VC_EMIT_DEPTH_MAX ? emit->depth : 0] = false;
}

static void json_close(struct vc_emit *emit, const char *bracket)
{
	bool empty;

	if (!emit->json)
		return;
	empty = !emit->comma[emit->depth < VC_EMIT_DEPTH_MAX ? emit->depth : 0];
	if (!empty && !on_one_line(emit)) {
		emit->depth--;
		json_newline(emit);
	} else {
		emit->depth--;
	}
	write_text(emit, bracket);
}

void vc_emit_object(struct vc_emit *emit, const char *key)
{
	json_open(emit, key, "{");
}

void vc_emit_object_end(struct vc_emit *emit)
{
	json_close(emit, "}");
}

void vc_emit_list(struct vc_emit *emit, const char *key)
{
	json_open(emit, key, "[");
}

void vc_emit_list_end(struct vc_emit *emit)
{
	json_close(emit, "]");
}

void vc_emit_begin(struct vc_emit *emit, const char *schema)
{
	vc_emit_object(emit, NULL);
	vc_emit_string(emit, "schema", schema);
}

int vc_emit_finish(struct vc_emit *emit)
{
	vc_emit_object_end(emit);
	if (emit->json)
		write_text(emit, "\n");
	if (fflush(emit->out) || ferror(emit->out))
		return VC_E_IO;
	return emit->failed || emit->line.failed ? VC_E_NO_MEMORY : 0;
}

static void json_raw(struct vc_emit *emit, const char *key, const char *value)
{
	json_key(emit, key);
	write_text(emit, value);
}

void vc_emit_null(struct vc_emit *emit, const char *key)
{
	if (emit->json)
		json_raw(emit, key, "null");
}

void vc_emit_string(struct vc_emit *emit, const char *key, const char *value)
{
	if (!value) {
		vc_emit_null(emit, key);
	} else if (emit->json) {
		json_key(emit, key);
		json_text(emit, value);
	}
}

void vc_emit_number(struct vc_emit *emit, const char *key, uint64_t value)
{
	char digits[32];

	if (!emit->json)
		return;
	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	json_raw(emit, key, digits);
}

void vc_emit_signed(struct vc_emit *emit, const char *key, int64_t value)
{
	char digits[32];

	if (!emit->json)
		return;
	snprintf(digits, sizeof(digits), "%lld", (long long)value);
	json_raw(emit, key, digits);
}

void vc_emit_real(struct vc_emit *emit, const char *key, double value)
{
	char digits[64];

	if (!emit->json)
		return;
	/* the shorter form where it says the same: 0.6, not 0.59999999999999998 */
	snprintf(digits, sizeof(digits), "%.15g", value);
	if (strtod(digits, NULL) != value)
		snprintf(digits, sizeof(digits), "%.17g", value);
	json_raw(emit, key, isfinite(value) ? digits : "null");
}

void vc_emit_bool(struct vc_emit *emit, const char *key, bool value)
{
	if (emit->json)
		json_raw(emit, key, value ? "true" : "false");
}

void vc_emit_address(struct vc_emit *emit, const char *key, uint64_t value)
{
	char digits[32];

	snprintf(digits, sizeof(digits), "0x%llx", (unsigned long long)value);
	vc_emit_string(emit, key, digits);
}

void vc_emit_time(struct vc_emit *emit, const char *key, uint64_t nanoseconds)
{
	time_t seconds = (time_t)(nanoseconds / 1000000000);
	struct tm parts;
	char day[48], text[80];

	if (!nanoseconds || !gmtime_r(&seconds, &parts) ||
	    !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &parts)) {
		vc_emit_null(emit, key);
		return;
	}
	snprintf(text, sizeof(text), "%s.%09lluZ", day,
		 (unsigned long long)(nanoseconds % 1000000000));
	vc_emit_string(emit, key, text);
}

/* ---- lines ---- */

static void text_line(struct vc_emit *emit, const char *style, const char *format, va_list list)
{
	struct vc_text raw = {0};

	if (emit->json)
		return;
	vc_text_add_list(&raw, format, list);
	vc_text_clear(&emit->line);
	vc_text_escaped(&emit->line, vc_text_get(&raw));
	emit->failed |= raw.failed;
	vc_text_deinit(&raw);
	if (emit->color && style)
		fprintf(emit->out, "\033[%sm%s\033[0m\n", style, vc_text_get(&emit->line));
	else
		fprintf(emit->out, "%s\n", vc_text_get(&emit->line));
}

void vc_emit_line(struct vc_emit *emit, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	text_line(emit, NULL, format, list);
	va_end(list);
}

void vc_emit_heading(struct vc_emit *emit, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	text_line(emit, "1", format, list);
	va_end(list);
}

void vc_emit_warning(struct vc_emit *emit, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	text_line(emit, "1;33", format, list);
	va_end(list);
}

/* ---- tables ---- */

void vc_emit_table(struct vc_emit *emit, const char *key, const struct vc_emit_column *columns,
		   unsigned count)
{
	emit->columns = columns;
	emit->column_count = count < VC_EMIT_COLUMNS_MAX ? count : VC_EMIT_COLUMNS_MAX;
	emit->first_row = NULL;
	emit->next_row = &emit->first_row;
	vc_emit_list(emit, key);
}

static void json_cell(struct vc_emit *emit, const struct vc_emit_column *column,
		      const struct vc_cell *cell)
{
	if (cell->absent) {
		vc_emit_null(emit, column->key);
		return;
	}
	switch (column->type) {
	case VC_CELL_TEXT:
	case VC_CELL_CHAIN:
		vc_emit_string(emit, column->key, cell->text);
		break;
	case VC_CELL_NUMBER:
	case VC_CELL_BYTES:
		vc_emit_number(emit, column->key, cell->number);
		break;
	case VC_CELL_SIGNED_NUMBER:
	case VC_CELL_SIGNED_BYTES:
		vc_emit_signed(emit, column->key, cell->amount);
		break;
	case VC_CELL_RATE:
	case VC_CELL_REAL:
		vc_emit_real(emit, column->key, cell->real);
		break;
	case VC_CELL_SHARE:
		vc_emit_real(emit, column->key, (double)cell->amount / 1000.0);
		break;
	case VC_CELL_ADDRESS:
		vc_emit_address(emit, column->key, cell->number);
		break;
	}
}

static void cell_text(const struct vc_emit *emit, const struct vc_emit_column *column,
		      const struct vc_cell *cell, struct vc_text *text)
{
	if (cell->text) {
		vc_text_escaped(text, cell->text);
		return;
	}
	if (cell->absent) {
		vc_text_add(text, "-");
		return;
	}
	switch (column->type) {
	case VC_CELL_TEXT:
	case VC_CELL_CHAIN:
		break;
	case VC_CELL_NUMBER:
		vc_text_number(text, cell->number);
		break;
	case VC_CELL_BYTES:
		vc_text_bytes(text, cell->number, emit->exact);
		break;
	case VC_CELL_SIGNED_NUMBER:
		vc_text_signed_number(text, cell->amount);
		break;
	case VC_CELL_SIGNED_BYTES:
		vc_text_signed_bytes(text, cell->amount, emit->exact);
		break;
	case VC_CELL_RATE:
		vc_text_rate(text, cell->real);
		break;
	case VC_CELL_REAL:
		vc_text_add(text, "%.2f", cell->real);
		break;
	case VC_CELL_SHARE:
		vc_text_share(text, cell->amount);
		break;
	case VC_CELL_ADDRESS:
		vc_text_add(text, "0x%llx", (unsigned long long)cell->number);
		break;
	}
}

void vc_emit_text_row(struct vc_emit *emit, const struct vc_cell *cells)
{
	struct vc_emit_text_row *row;
	struct vc_text text = {0};

	if (emit->json)
		return;
	row = vc_arena_allocate(&emit->arena, 1,
				sizeof(*row) + emit->column_count * sizeof(row->cell[0]));
	if (!row) {
		emit->failed = true;
		return;
	}
	for (unsigned i = 0; i < emit->column_count; i++) {
		vc_text_clear(&text);
		if (emit->columns[i].title)
			cell_text(emit, &emit->columns[i], &cells[i], &text);
		row->cell[i] = vc_arena_string(&emit->arena, vc_text_get(&text));
		emit->failed |= !row->cell[i] || text.failed;
		if (!row->cell[i])
			row->cell[i] = "";
	}
	vc_text_deinit(&text);
	*emit->next_row = row;
	emit->next_row = &row->next;
}

void vc_emit_row(struct vc_emit *emit, const struct vc_cell *cells)
{
	vc_emit_text_row(emit, cells);
	if (!emit->json)
		return;
	vc_emit_object(emit, NULL);
	emit->rows_depth = emit->depth;
	for (unsigned i = 0; i < emit->column_count; i++)
		if (emit->columns[i].key)
			json_cell(emit, &emit->columns[i], &cells[i]);
}

void vc_emit_row_end(struct vc_emit *emit)
{
	vc_emit_object_end(emit);
	emit->rows_depth = 0;
}

static bool is_left(enum vc_cell_type type)
{
	return type == VC_CELL_TEXT || type == VC_CELL_CHAIN;
}

struct layout {
	size_t width[VC_EMIT_COLUMNS_MAX];
	bool shown[VC_EMIT_COLUMNS_MAX];
	unsigned last;        /* last column shown */
	size_t last_width;    /* room it has; SIZE_MAX: no limit */
};

/** Columns before the last one, with their gaps. */
static size_t width_before_last(const struct vc_emit *emit, struct layout *layout)
{
	size_t sum = 2;

	layout->last = 0;
	for (unsigned i = 0; i < emit->column_count; i++)
		if (layout->shown[i])
			layout->last = i;
	for (unsigned i = 0; i < layout->last; i++)
		if (layout->shown[i])
			sum += layout->width[i] + 2;
	return sum;
}

static void lay_out(const struct vc_emit *emit, struct layout *layout)
{
	size_t before;

	memset(layout, 0, sizeof(*layout));
	for (unsigned i = 0; i < emit->column_count; i++) {
		layout->shown[i] = emit->columns[i].title != NULL;
		if (layout->shown[i])
			layout->width[i] = vc_text_columns(emit->columns[i].title);
		for (struct vc_emit_text_row *row = emit->first_row; row; row = row->next) {
			size_t columns = vc_text_columns(row->cell[i]);

			if (columns > layout->width[i])
				layout->width[i] = columns;
		}
	}
	layout->last_width = SIZE_MAX;
	before = width_before_last(emit, layout);
	if (!emit->width)
		return;
	for (unsigned i = emit->column_count; i-- > 0;) {
		size_t least = layout->width[layout->last];

		if (least > LAST_COLUMN_LEAST)
			least = LAST_COLUMN_LEAST;
		if (before + least <= emit->width)
			break;
		if (emit->columns[i].may_drop && layout->shown[i]) {
			layout->shown[i] = false;
			before = width_before_last(emit, layout);
		}
	}
	layout->last_width = emit->width > before + 8 ? emit->width - before : 8;
}

/** Adds at most `room` columns of a text; a chain ends at a caller where that is possible. */
static void add_cut(struct vc_text *line, const char *text, size_t room, enum vc_cell_type type)
{
	const char *end = text, *caller = NULL;
	size_t columns = 0;

	if (vc_text_columns(text) <= room) {
		vc_text_add(line, "%s", text);
		return;
	}
	for (; *end; end++) {
		if (((unsigned char)*end & 0xc0) != 0x80 && columns++ == room - 2)
			break;
		if (end > text && !strncmp(end, "  <- ", 5))
			caller = end;
	}
	if (type == VC_CELL_CHAIN && caller) {
		vc_text_bytes_raw(line, text, (size_t)(caller - text));
		return;
	}
	vc_text_bytes_raw(line, text, (size_t)(end - text));
	vc_text_add(line, "..");
}

static void write_row(struct vc_emit *emit, const struct layout *layout,
		      const char *const *cell, bool heading)
{
	struct vc_text *line = &emit->line;

	vc_text_clear(line);
	for (unsigned i = 0; i < emit->column_count; i++) {
		size_t columns = vc_text_columns(cell[i]), pad;
		bool left = is_left(emit->columns[i].type);

		if (!layout->shown[i])
			continue;
		pad = columns < layout->width[i] ? layout->width[i] - columns : 0;
		vc_text_add(line, "  ");
		if (!left)
			vc_text_add(line, "%*s", (int)pad, "");
		if (i == layout->last)
			add_cut(line, cell[i], layout->last_width, emit->columns[i].type);
		else
			vc_text_add(line, "%s", cell[i]);
		if (left && i != layout->last)
			vc_text_add(line, "%*s", (int)pad, "");
	}
	while (line->length && line->data[line->length - 1] == ' ')
		line->data[--line->length] = '\0';
	fprintf(emit->out, emit->color && heading ? "\033[2m%s\033[0m\n" : "%s\n",
		vc_text_get(line));
}

void vc_emit_table_end(struct vc_emit *emit)
{
	const char *title[VC_EMIT_COLUMNS_MAX];
	struct layout layout;

	vc_emit_list_end(emit);
	if (!emit->json && emit->first_row) {
		lay_out(emit, &layout);
		for (unsigned i = 0; i < emit->column_count; i++)
			title[i] = emit->columns[i].title ? emit->columns[i].title : "";
		write_row(emit, &layout, title, true);
		for (struct vc_emit_text_row *row = emit->first_row; row; row = row->next)
			write_row(emit, &layout, row->cell, false);
	}
	emit->first_row = NULL;
	vc_arena_deinit(&emit->arena);
}
