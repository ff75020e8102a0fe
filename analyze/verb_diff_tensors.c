/* SPDX-License-Identifier: Apache-2.0 */
/* The table of `diff --by role|module|tensor`. */
#include "analyze/verb_diff_tensors.h"

#include "analyze/report.h"

enum {
	COLUMN_GROWTH, COLUMN_BLOCKS, COLUMN_RATE, COLUMN_FIT, COLUMN_SHAPE, COLUMN_TEXT, COLUMNS
};

const char *vc_diff_shape_text(enum vc_shape shape, bool is_new, bool is_gone)
{
	static const char *const new_text[] = {
		[VC_SHAPE_NONE] = "new", [VC_SHAPE_ONCE] = "new, once",
		[VC_SHAPE_STOPPED] = "new, stopped", [VC_SHAPE_LINEAR] = "new, linear",
		[VC_SHAPE_IRREGULAR] = "new, irregular",
	};

	if (is_gone)
		return "gone";
	return is_new ? new_text[shape] : vc_shape_text(shape);
}

void vc_diff_emit_holder(struct vc_emit *emit, struct vc_session *session, const char *holder,
			 const char *what, unsigned columns, unsigned site)
{
	struct vc_cell cells[COLUMNS] = {0};
	size_t room = emit->width > 100 ? emit->width - 60 : 40;
	const char *rest = holder, *begin = " held by: ";
	struct vc_text text = {0};

	for (unsigned i = 0; i < columns && i < COLUMNS; i++)
		cells[i].text = "";
	while (rest) {
		vc_text_add(&text, "%s%s", begin,
			    vc_report_part(session, &rest, emit->width ? room : 0));
		cells[site].text = vc_report_keep(session, &text);
		vc_emit_text_row(emit, cells);
		begin = "   ";
	}
	vc_text_add(&text, " %s", what);
	cells[site].text = vc_report_keep(session, &text);
	vc_emit_text_row(emit, cells);
}

static double shown_rate(const struct vc_diff_tensors_report *report, double rate)
{
	return report->diff->axis == VC_AXIS_SECONDS ? rate * 3600 : rate;
}

/** "200 x float32 [8, 1000], other live tensors" */
static const char *what_it_is(const struct vc_diff_tensors_report *report,
			      const struct vc_diff_tensor_row *row)
{
	struct vc_text text = {0};

	vc_text_number(&text, row->held_count);
	vc_text_add(&text, " x %s, %s", *row->held_kind ? row->held_kind : "several kinds",
		    vc_role_text[row->held_role]);
	return vc_report_keep(report->session, &text);
}

void vc_diff_emit_numbers(struct vc_emit *emit, const char *key, const uint64_t *values,
			  uint64_t count)
{
	vc_emit_list(emit, key);
	for (uint64_t i = 0; i < count; i++)
		vc_emit_number(emit, NULL, values[i]);
	vc_emit_list_end(emit);
}

static void emit_row(const struct vc_diff_tensors_report *report,
		     const struct vc_diff_tensor_row *row)
{
	struct vc_emit *emit = report->emit;
	struct vc_cell cells[COLUMNS] = {
		[COLUMN_GROWTH] = {.amount = row->growth},
		[COLUMN_BLOCKS] = {.amount = row->count_growth},
		[COLUMN_RATE] = {.real = shown_rate(report, row->rate),
				 .absent = report->diff->axis == VC_AXIS_NONE || row->growth <= 0},
		[COLUMN_FIT] = {.real = row->fit},
		[COLUMN_SHAPE] = {.text = vc_diff_shape_text(row->shape, row->is_new, row->is_gone)},
		[COLUMN_TEXT] = {.text = row->text},
	};

	if (row->shape == VC_SHAPE_ONCE && !cells[COLUMN_RATE].absent)
		cells[COLUMN_RATE].text = "-"; /* it will not go on at that rate */
	vc_emit_row(emit, cells);
	vc_emit_string(emit, "shape", row->shape ? vc_shape_text(row->shape) : NULL);
	vc_emit_bool(emit, "new", row->is_new);
	vc_emit_bool(emit, "gone", row->is_gone);
	vc_diff_emit_numbers(emit, "bytes", row->bytes, report->diff->files);
	vc_diff_emit_numbers(emit, "counts", row->count, report->diff->files);
	vc_emit_number(emit, "folded", row->folded);
	vc_emit_string(emit, "role_key", vc_role_key[row->role]);
	vc_emit_string(emit, "tensor_kind", row->alike ? row->kind : NULL);
	if (row->holder) {
		vc_emit_string(emit, "held_by", row->holder);
		vc_emit_number(emit, "held_bytes", row->held_bytes);
		vc_emit_number(emit, "held_count", row->held_count);
		vc_emit_string(emit, "held_role", vc_role_key[row->held_role]);
		vc_emit_string(emit, "held_kind", row->held_kind);
	}
	vc_emit_row_end(emit);
	if (row->holder)
		vc_diff_emit_holder(emit, report->session, row->holder, what_it_is(report, row),
				    COLUMNS, COLUMN_TEXT);
}

/** "9 other modules unchanged", "12 more modules changed (-n 0 shows all)" */
static void emit_rest(const struct vc_diff_tensors_report *report, int64_t growth, uint64_t count,
		      const char *before, const char *after)
{
	struct vc_text text = {0};
	struct vc_cell cells[COLUMNS] = {[COLUMN_GROWTH] = {.amount = growth}};

	if (!count)
		return;
	cells[COLUMN_BLOCKS].text = cells[COLUMN_RATE].text = cells[COLUMN_FIT].text = "";
	vc_text_number(&text, count);
	vc_text_add(&text, " %s %s%s %s", before, vc_tensors_by_text[report->by],
		    count == 1 ? "" : "s", after);
	cells[COLUMN_TEXT].text = vc_report_keep(report->session, &text);
	vc_emit_text_row(report->emit, cells);
}

/** Of those that do not fit, what shrank gets a quarter of the room. */
static void emit_rows(const struct vc_diff_tensors_report *report,
		      const struct vc_diff_tensors *tensors)
{
	uint64_t count = tensors->rows_count, last = 0, first = count, left;
	int64_t growth = 0;

	if (report->rows && report->rows < count) {
		left = count - tensors->grew;
		last = report->rows / 4 < left ? report->rows / 4 : left;
		first = report->rows - last;
	}
	for (uint64_t i = first; i < count - last; i++)
		growth += tensors->rows[i].growth;
	for (uint64_t i = 0; i < first; i++)
		emit_row(report, &tensors->rows[i]);
	emit_rest(report, growth, count - first - last, "more", "changed (-n 0 shows all)");
	for (uint64_t i = count - last; i < count; i++)
		emit_row(report, &tensors->rows[i]);
	emit_rest(report, 0, tensors->unchanged, "other", "unchanged");
	vc_emit_table_end(report->emit);
	vc_emit_number(report->emit, "unchanged", tensors->unchanged);
	vc_emit_number(report->emit, "more_rows", count - first - last);
}

/** What lives at one of the moments only by its nature. */
static void emit_left_out(const struct vc_diff_tensors_report *report,
			  const struct vc_diff_tensors *tensors)
{
	struct vc_emit *emit = report->emit;
	struct vc_text text = {0};

	vc_emit_list(emit, "not_compared");
	for (unsigned role = 0; role < VC_ROLES; role++) {
		if (!tensors->left_out[role])
			continue;
		vc_text_add(&text, "%s%s ", text.length ? "; " : "not compared, the moments differ: ",
			    vc_role_text[role]);
		for (uint64_t i = 0; i < report->diff->files; i++) {
			vc_text_add(&text, "%s", i ? " -> " : "");
			vc_text_bytes(&text, tensors->left_out[role][i], emit->exact);
		}
		vc_emit_object(emit, NULL);
		vc_emit_string(emit, "role", vc_role_key[role]);
		vc_diff_emit_numbers(emit, "bytes", tensors->left_out[role], report->diff->files);
		vc_emit_object_end(emit);
	}
	vc_emit_list_end(emit);
	if (text.length)
		vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static void emit_heading(const struct vc_diff_tensors_report *report,
			 const struct vc_diff_tensors *tensors)
{
	uint64_t last = report->diff->files - 1;
	struct vc_emit *emit = report->emit;
	struct vc_text text = {0};

	vc_text_add(&text, "compared ");
	vc_text_bytes(&text, tensors->bytes[0], emit->exact);
	vc_text_add(&text, " -> ");
	vc_text_bytes(&text, tensors->bytes[last], emit->exact);
	vc_text_add(&text, "   ");
	vc_text_signed_bytes(&text, tensors->growth, emit->exact);
	/* else the line above has said it */
	if (tensors->bytes[0] != report->live[0] || tensors->bytes[last] != report->live[last])
		vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_diff_emit_numbers(emit, "bytes", tensors->bytes, report->diff->files);
	vc_diff_emit_numbers(emit, "counts", tensors->count, report->diff->files);
	vc_emit_signed(emit, "bytes_growth", tensors->growth);
}

void vc_diff_tensors_emit(const struct vc_diff_tensors_report *report,
			  const struct vc_diff_tensors *tensors)
{
	bool steps = report->diff->axis == VC_AXIS_STEPS, none = report->diff->axis == VC_AXIS_NONE;
	bool fitted = report->diff->files > 2;
	const struct vc_emit_column columns[COLUMNS] = {
		[COLUMN_GROWTH] = {"growth", "growth", VC_CELL_SIGNED_BYTES, false},
		[COLUMN_BLOCKS] = {"count_growth", "blocks", VC_CELL_SIGNED_NUMBER, true},
		[COLUMN_RATE] = {none ? NULL : steps ? "per_step" : "per_hour",
				 none ? NULL : steps ? "per step" : "per hour", VC_CELL_RATE, true},
		[COLUMN_FIT] = {fitted ? "r_squared" : NULL, fitted ? "r2" : NULL, VC_CELL_REAL, true},
		[COLUMN_SHAPE] = {NULL, "shape of it", VC_CELL_TEXT, true},
		[COLUMN_TEXT] = {vc_tensors_by_text[report->by], vc_tensors_by_text[report->by],
				 VC_CELL_TEXT, false},
	};
	struct vc_text text = {0};

	emit_heading(report, tensors);
	vc_emit_table(report->emit, "rows", columns, COLUMNS);
	emit_rows(report, tensors);
	emit_left_out(report, tensors);
	if (tensors->folded) {
		vc_text_add(&text, "* folds rows of equal size, %llu in all; --no-fold lists them",
			    (unsigned long long)(tensors->folded + tensors->rows_count +
						 tensors->unchanged));
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
	}
	vc_text_deinit(&text);
}
