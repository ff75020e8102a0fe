/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore holders: what keeps tensors alive, largest first. */
#include <string.h>

#include "analyze/report.h"
#include "analyze/verb_top_tensors.h"
#include "analyze/views/tensors.h"
#include "formats/walk_tensors.h"

#define STEPS_MOST 4096u /* of one way: a damaged file cannot make it longer */

struct holders {
	const struct vc_tables *tables;
	const struct vc_roles *roles;
	uint32_t *of_storage;    /* row of holders plus 1 */
};

enum { COLUMN_BYTES, COLUMN_SHARE, COLUMN_COUNT, COLUMN_TENSOR, COLUMN_HOLDER, COLUMNS };

static const struct vc_emit_column columns[COLUMNS] = {
	[COLUMN_BYTES] = {"bytes", "bytes", VC_CELL_BYTES, false},
	[COLUMN_SHARE] = {"share", "share", VC_CELL_SHARE, true},
	[COLUMN_COUNT] = {"count", NULL, VC_CELL_NUMBER, false},
	[COLUMN_TENSOR] = {"tensor", "tensor", VC_CELL_TEXT, false},
	[COLUMN_HOLDER] = {"holder", "why it is alive", VC_CELL_TEXT, false},
};

/** "50,000 x float32 [32, 1558]" */
static const char *tensor_text(struct vc_session *session, const struct vc_tensor_row *row)
{
	struct vc_text text = {0};

	if (row->count > 1) {
		vc_text_number(&text, row->count);
		vc_text_add(&text, " x ");
	}
	vc_text_add(&text, "%s", !row->alike ? "several kinds" :
				 *row->kind ? row->kind : vc_role_text[row->role]);
	return vc_report_keep(session, &text);
}

/** Row of holders plus 1 of a row's largest block; 0: nothing holds it that is known. */
static uint64_t holder_of(const struct holders *holders, const struct vc_tensor_row *row)
{
	uint32_t storage = holders->roles->storage[row->largest];

	return storage ? holders->of_storage[storage - 1] : 0;
}

static int find_holders(struct holders *holders, struct vc_arena *arena)
{
	const struct vc_tables *tables = holders->tables;

	holders->of_storage = vc_arena_allocate(arena, tables->rows[VC_TABLE_storages] + 1,
						sizeof(*holders->of_storage));
	for (uint64_t row = 0; holders->of_storage && row < tables->rows[VC_TABLE_holders]; row++) {
		uint64_t storage = vc_value(tables, VC_COL_holders_storage, row);

		if (storage)
			holders->of_storage[storage - 1] = (uint32_t)row + 1;
	}
	return holders->of_storage ? 0 : VC_E_NO_MEMORY;
}

/** Whether a way leads through the graph: then it says already what saved the tensor. */
static bool through_graph(const struct vc_tables *tables, uint64_t holder)
{
	uint64_t step = vc_value(tables, VC_COL_holders_step, holder - 1);

	for (unsigned passed = 0; step && passed < STEPS_MOST; passed++) {
		uint64_t kind = vc_value(tables, VC_COL_holder_steps_kind, step - 1);

		if (kind >= VC_STEP_GRAD_FN && kind <= VC_STEP_UNPACK_HOOK)
			return true;
		step = vc_value(tables, VC_COL_holder_steps_parent, step - 1);
	}
	return false;
}

/** "2 other ways in; saved by LogSoftmaxBackward0.result", of a single tensor; "" nothing. */
static const char *beside_text(const struct holders *holders, struct vc_session *session,
			       const struct vc_tensor_row *row)
{
	const struct vc_tables *tables = holders->tables;
	uint64_t holder = holder_of(holders, row), storage, ways;
	struct vc_text text = {0};

	if (!holder || row->count > 1)
		return "";
	storage = vc_value(tables, VC_COL_holders_storage, holder - 1);
	ways = vc_value(tables, VC_COL_holders_ways, holder - 1);
	if (ways)
		vc_text_add(&text, "%llu other way%s in", (unsigned long long)ways,
			    ways == 1 ? "" : "s");
	if (vc_value(tables, VC_COL_storages_found, storage - 1) == VC_FOUND_SAVED &&
	    *row->detail && !through_graph(tables, holder))
		vc_text_add(&text, "%ssaved by %s", text.length ? "; " : "", row->detail);
	return vc_report_keep(session, &text);
}

/** The rest of a way that is longer than a line. */
static void emit_more(struct vc_emit *emit, struct vc_session *session, const char *rest,
		      size_t room)
{
	struct vc_cell cells[COLUMNS] = {
		[COLUMN_BYTES] = {.text = ""}, [COLUMN_SHARE] = {.text = ""},
		[COLUMN_TENSOR] = {.text = ""},
	};
	struct vc_text text = {0};

	while (rest) {
		vc_text_add(&text, "  %s", vc_report_part(session, &rest, room));
		cells[COLUMN_HOLDER].text = vc_report_keep(session, &text);
		vc_emit_text_row(emit, cells);
	}
}

/** Of its largest block: objects on the way, and references beside it. */
static void emit_numbers(struct vc_emit *emit, const struct holders *holders,
			 const struct vc_tensor_row *row)
{
	uint64_t holder = holder_of(holders, row);

	if (!holder) {
		vc_emit_null(emit, "depth");
		vc_emit_null(emit, "other_ways");
		return;
	}
	vc_emit_number(emit, "depth", vc_value(holders->tables, VC_COL_holders_depth, holder - 1));
	vc_emit_number(emit, "other_ways",
		       vc_value(holders->tables, VC_COL_holders_ways, holder - 1));
}

static int emit_rows(struct vc_emit *emit, struct vc_session *session,
		     const struct holders *holders, const struct vc_tensor_rows *rows, uint64_t most)
{
	uint64_t shown = most && most < rows->count ? most : rows->count, left = 0, blocks = 0;
	size_t room = !emit->width || emit->json ? 0 : emit->width > 80 ? emit->width - 46 : 34;
	struct vc_text text = {0};

	vc_emit_table(emit, "holders", columns, COLUMNS);
	for (uint64_t i = 0; i < rows->count; i++) {
		const struct vc_tensor_row *row = &rows->rows[i];
		const char *rest = row->text, *beside = beside_text(holders, session, row);
		struct vc_cell cells[COLUMNS] = {
			[COLUMN_BYTES] = {.number = row->bytes},
			[COLUMN_SHARE] = {.amount = rows->bytes ?
				(int64_t)(row->bytes * 1000.0 / rows->bytes + 0.5) : 0},
			[COLUMN_COUNT] = {.number = row->count},
			[COLUMN_TENSOR] = {.text = tensor_text(session, row)},
			[COLUMN_HOLDER] = {.text = vc_report_part(session, &rest, room)},
		};

		if (i >= shown) {
			left += row->bytes;
			blocks += row->count;
			continue;
		}
		vc_emit_row(emit, cells);
		vc_emit_string(emit, "role", vc_role_key[row->role]);
		vc_emit_string(emit, "detail", row->detail);
		emit_numbers(emit, holders, row);
		vc_emit_row_end(emit);
		emit_more(emit, session, rest, room);
		if (*beside)
			emit_more(emit, session, beside, room);
	}
	vc_emit_table_end(emit);
	if (shown < rows->count) {
		vc_text_number(&text, rows->count - shown);
		vc_text_add(&text, " more holders keep ");
		vc_text_bytes(&text, left, emit->exact);
		vc_text_add(&text, " in ");
		vc_text_number(&text, blocks);
		vc_text_add(&text, " blocks (-n 0 shows all)");
		vc_emit_line(emit, "%s", vc_text_get(&text));
	}
	vc_text_deinit(&text);
	vc_emit_number(emit, "more_rows", rows->count - shown);
	vc_emit_number(emit, "more_bytes", left);
	return 0;
}

/** What a model has by design is left out unless it is asked for. */
static const uint32_t usual_roles = ((1u << VC_ROLES) - 1) &
	~(1u << VC_ROLE_PARAMETER | 1u << VC_ROLE_GRADIENT | 1u << VC_ROLE_OPTIMIZER |
	  1u << VC_ROLE_BUFFER | 1u << VC_ROLE_UNKNOWN);

static int emit_report(struct vc_emit *emit, struct vc_session *session,
		       const struct vc_roles *roles, uint32_t role_set, uint64_t most,
		       struct vc_problem *problem)
{
	const struct vc_tables *tables = &session->models[0].tables;
	struct vc_tensors_options options = {.by = VC_TENSORS_BY_HOLDER,
					     .device_plus_one = UINT32_MAX,
					     .role_set = role_set};
	struct holders holders = {tables, roles, NULL};
	struct vc_tensor_rows rows;
	struct vc_text text = {0};
	int error;

	error = vc_tensor_rows_make(tables, &session->accounts[0], roles, session->names, &options,
				    &session->arena, &rows);
	if (!error)
		error = find_holders(&holders, &session->arena);
	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	vc_emit_begin(emit, "vramcore.holders/1");
	vc_report_file_json(emit, "file", &session->models[0]);
	vc_report_moment(&text, tables);
	vc_text_add(&text, "   ");
	vc_text_bytes(&text, rows.bytes, emit->exact);
	vc_text_add(&text, " in ");
	vc_text_number(&text, rows.blocks);
	vc_text_add(&text, role_set == usual_roles ?
		    " blocks; without parameters, buffers, gradients, optimizer state (see --role)" :
		    " blocks");
	vc_emit_heading(emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	error = emit_rows(emit, session, &holders, &rows, most);
	if (*roles->why)
		vc_emit_line(emit, "not known: some tensors; %s", roles->why);
	vc_emit_string(emit, "not_known", *roles->why ? roles->why : NULL);
	return error ? error : vc_report_end(emit, session, false, problem);
}

int vc_verb_holders(const struct vc_command *command, struct vc_emit *emit,
		    struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct vc_roles roles;
	uint32_t role_set = 0;
	uint64_t most;
	int status = vc_option_number(command, VC_OPTION_COUNT, 20, UINT32_MAX, &most, problem);

	if (!status)
		status = vc_option_roles(command, &role_set, problem);
	if (status)
		return status;
	vc_session_wants_roles(&wanted);
	status = vc_session_open(command, 0, 1, &wanted, &session, problem);
	if (status)
		return status;
	status = vc_session_roles(&session, &roles, problem);
	if (!status)
		status = emit_report(emit, &session, &roles, role_set ? role_set : usual_roles, most,
				     problem);
	vc_session_close(&session);
	return status;
}
