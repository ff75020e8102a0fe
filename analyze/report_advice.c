/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/report_advice.h"

const char *vc_report_why(enum vc_advice_why why)
{
	switch (why) {
	case VC_WHY_FRAGMENTED:
		return ": the memory is fragmented";
	case VC_WHY_LIMIT:
		return ": the device has as much, PyTorch was not allowed to take it";
	case VC_WHY_BEYOND:
		return ": more than the device has";
	case VC_WHY_FULL:
		break;
	}
	return ": the memory is in use";
}

static const char *why_key(enum vc_advice_why why)
{
	static const char *const keys[] = {
		[VC_WHY_FULL] = "full", [VC_WHY_FRAGMENTED] = "fragmented",
		[VC_WHY_LIMIT] = "limit", [VC_WHY_BEYOND] = "beyond",
	};

	return keys[why];
}

void vc_report_room(struct vc_emit *emit, const struct vc_advice *advice)
{
	struct vc_text text = {0};

	vc_text_add(&text, "  ");
	vc_text_bytes(&text, advice->free, emit->exact);
	vc_text_add(&text, " is free inside PyTorch's segments");
	if (advice->free) {
		vc_text_add(&text, ", the largest hole is ");
		vc_text_bytes(&text, advice->hole, emit->exact);
	}
	vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	if (advice->why == VC_WHY_LIMIT)
		vc_emit_line(emit, "  (set_per_process_memory_fraction sets such a limit)");
	vc_emit_string(emit, "why", why_key(advice->why));
	vc_emit_number(emit, "free_in_segments", advice->free);
	vc_emit_number(emit, "largest_hole", advice->hole);
}

static void emit_pins(struct vc_emit *emit, struct vc_session *session,
		      const struct vc_advice *advice, const struct vc_path_prefix *prefix)
{
	enum { SITES_MOST = 5 };
	static const struct vc_emit_column columns[] = {
		{"bytes", "bytes", VC_CELL_BYTES, false},
		{"kept_bytes", "keep back", VC_CELL_BYTES, false},
		{"segments", "segments", VC_CELL_NUMBER, true},
		{"site", "small blocks that pin large segments", VC_CELL_CHAIN, false},
	};

	if (!advice->pin_count && !emit->json)
		return;
	vc_emit_line(emit, "%s", "");
	vc_emit_table(emit, "pinned_by", columns, 4);
	for (uint64_t i = 0; i < advice->pin_count && i < SITES_MOST; i++) {
		const struct vc_pin *pin = &advice->pins[i];

		vc_emit_row(emit, (struct vc_cell[]){
			{.number = pin->bytes}, {.number = pin->kept}, {.number = pin->segments},
			{.text = vc_report_site(session, pin->chain, prefix)}});
		vc_emit_row_end(emit);
	}
	vc_emit_table_end(emit);
}

static const char *words_of(struct vc_session *session, const struct vc_advice_row *row,
			    const struct vc_path_prefix *prefix)
{
	struct vc_text text = {0};

	vc_text_add(&text, "%s", row->what);
	if (row->chain) {
		vc_text_add(&text, " ");
		vc_chain_text(&text, row->chain, prefix);
	}
	return vc_report_keep(session, &text);
}

static const char *gives_of(struct vc_session *session, const struct vc_emit *emit,
			    const struct vc_advice_row *row)
{
	struct vc_text text = {0};

	if (row->at_most)
		vc_text_add(&text, "up to ");
	vc_text_bytes(&text, row->bytes, emit->exact);
	return vc_report_keep(session, &text);
}

static void emit_rows(struct vc_emit *emit, struct vc_session *session,
		      const struct vc_advice *advice, uint64_t requested,
		      const struct vc_path_prefix *prefix)
{
	struct vc_text title = {0};
	struct vc_emit_column columns[] = {
		{"bytes", "gives", VC_CELL_BYTES, false},
		{NULL, "enough", VC_CELL_TEXT, false},
		{"what", "what would help, largest first", VC_CELL_CHAIN, false},
	};

	if (!advice->count && !emit->json)
		return;
	vc_text_add(&title, "enough for ");
	vc_text_bytes(&title, requested, emit->exact);
	columns[1].title = vc_report_keep(session, &title);
	vc_emit_line(emit, "%s", "");
	vc_emit_table(emit, "would_help", columns, 3);
	for (unsigned i = 0; i < advice->count; i++) {
		const struct vc_advice_row *row = &advice->rows[i];

		vc_emit_row(emit, (struct vc_cell[]){
			{.number = row->bytes, .text = gives_of(session, emit, row)},
			{.text = row->enough ? "yes" : "no"},
			{.text = words_of(session, row, prefix)}});
		vc_emit_string(emit, "key", row->key);
		vc_emit_bool(emit, "at_most", row->at_most);
		vc_emit_bool(emit, "enough", row->enough);
		vc_emit_row_end(emit);
	}
	vc_emit_table_end(emit);
	if (advice->count > 1)
		vc_emit_line(emit, "savings overlap; do not add them up");
}

void vc_report_advice(struct vc_emit *emit, struct vc_session *session,
		      const struct vc_advice *advice, uint64_t requested,
		      const struct vc_path_prefix *prefix)
{
	emit_pins(emit, session, advice, prefix);
	emit_rows(emit, session, advice, requested, prefix);
}
