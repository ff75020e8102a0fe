/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore top --by role|module|tensor|holder, --role: what PyTorch's blocks are for. */
#include "analyze/verb_top_tensors.h"

#include <string.h>

#include "analyze/report.h"
#include "analyze/views/tensors.h"

struct top {
	const struct vc_command *command;
	struct vc_emit *emit;
	struct vc_session *session;
	const struct vc_tables *tables;
	const struct vc_account *account;
	struct vc_roles roles;
	struct vc_tensors_options options;
	uint64_t rows;
	struct vc_path_prefix prefix;
};

enum {
	COLUMN_BYTES,
	COLUMN_SHARE,
	COLUMN_COUNT,
	COLUMN_TEXT,
	COLUMN_HOW,
	COLUMN_KIND,
	COLUMN_DETAIL,
	COLUMN_SITE,
	COLUMNS
};

bool vc_top_is_of_tensors(const struct vc_command *command)
{
	const char *by = vc_option_value(command, VC_OPTION_BY, "site");

	if (vc_option_given(command, VC_OPTION_ROLE))
		return true;
	for (unsigned i = 0; i < VC_TENSORS_BY_PLACE; i++)
		if (!strcmp(by, vc_tensors_by_text[i]))
			return true;
	return false;
}

/** "exact", "inferred", or how much of it is. */
static const char *how_known(struct top *top, const struct vc_tensor_row *row)
{
	struct vc_text text = {0};

	if (row->role == VC_ROLE_UNKNOWN)
		return "unknown";
	if (!row->inferred_bytes)
		return "exact";
	if (row->inferred_bytes == row->bytes)
		return "inferred";
	vc_text_add(&text, "inferred ");
	vc_text_bytes(&text, row->inferred_bytes, top->emit->exact);
	return vc_report_keep(top->session, &text);
}

static const struct vc_chain *chain_of(const struct top *top, uint64_t row)
{
	const struct vc_tables *tables = top->tables;

	return vc_names_chain(top->session->names, 0,
			      vc_stack_reference(
				      tables, vc_value(tables, VC_COL_allocations_stack, row),
				      vc_value(tables, VC_COL_allocations_python, row)));
}

static void emit_row(struct top *top, const struct vc_tensor_row *row, int64_t share)
{
	const struct vc_chain *chain = chain_of(top, row->largest);
	struct vc_cell cells[COLUMNS] = {
		[COLUMN_BYTES] = {.number = row->bytes},
		[COLUMN_SHARE] = {.amount = share},
		[COLUMN_COUNT] = {.number = row->count},
		[COLUMN_TEXT] = {.text = row->text},
		[COLUMN_HOW] = {.text = how_known(top, row)},
		[COLUMN_KIND] = {.text = row->alike ? row->kind : "of several kinds"},
		[COLUMN_DETAIL] = {.text = row->detail},
		[COLUMN_SITE] = {.text = vc_report_site(top->session, chain, &top->prefix)},
	};

	vc_emit_row(top->emit, cells);
	vc_emit_string(top->emit, "role", vc_role_key[row->role]);
	vc_emit_number(top->emit, "inferred_bytes", row->inferred_bytes);
	vc_emit_number(top->emit, "folded", row->folded);
	vc_emit_row_end(top->emit);
}

static int emit_table(struct top *top, const struct vc_tensor_rows *rows)
{
	bool role = top->options.by == VC_TENSORS_BY_ROLE;
	bool place = top->options.by == VC_TENSORS_BY_PLACE;
	const struct vc_emit_column columns[COLUMNS] = {
		[COLUMN_BYTES] = {"bytes", "bytes", VC_CELL_BYTES, false},
		[COLUMN_SHARE] = {"share", "share", VC_CELL_SHARE, true},
		[COLUMN_COUNT] = {"count", "blocks", VC_CELL_NUMBER, true},
		[COLUMN_TEXT] = {role ? "role_text" : vc_tensors_by_text[top->options.by],
				 vc_tensors_by_text[top->options.by],
				 place ? VC_CELL_CHAIN : VC_CELL_TEXT, false},
		[COLUMN_HOW] = {"how_known", role ? "how known" : NULL, VC_CELL_TEXT, true},
		[COLUMN_KIND] = {"tensor_kind", role ? NULL : "each", VC_CELL_TEXT, true},
		[COLUMN_DETAIL] = {"detail", top->options.by == VC_TENSORS_BY_MODULE ?
					     "largest is" : NULL, VC_CELL_TEXT, true},
		[COLUMN_SITE] = {"allocated_at", place || role ? NULL : "allocated at",
				 VC_CELL_CHAIN, true},
	};
	uint64_t shown = top->rows && top->rows < rows->count ? top->rows : rows->count, left = 0;
	int64_t *values = vc_arena_allocate(&top->session->arena, shown + 1, sizeof(*values));
	int64_t *shares = vc_arena_allocate(&top->session->arena, shown + 1, sizeof(*shares));
	struct vc_cell rest[COLUMNS] = {0};
	struct vc_text text = {0};
	int error;

	if (!values || !shares)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < rows->count; i++) {
		if (i < shown)
			values[i] = (int64_t)rows->rows[i].bytes;
		else
			left += rows->rows[i].bytes;
		if (i >= shown)
			rest[COLUMN_COUNT].number += rows->rows[i].count;
	}
	values[shown] = (int64_t)left;
	error = vc_text_shares(values, shown + 1, (int64_t)rows->bytes, shares);
	if (error)
		return error;
	vc_emit_table(top->emit, "rows", columns, COLUMNS);
	for (uint64_t i = 0; i < shown; i++)
		emit_row(top, &rows->rows[i], shares[i]);
	if (shown < rows->count) {
		vc_text_number(&text, rows->count - shown);
		vc_text_add(&text, " more (-n 0 shows all)");
		rest[COLUMN_BYTES].number = left;
		rest[COLUMN_SHARE].amount = shares[shown];
		rest[COLUMN_TEXT].text = vc_report_keep(top->session, &text);
		rest[COLUMN_HOW].text = rest[COLUMN_KIND].text = rest[COLUMN_DETAIL].text =
			rest[COLUMN_SITE].text = "";
		vc_emit_text_row(top->emit, rest);
	}
	vc_emit_table_end(top->emit);
	vc_emit_number(top->emit, "more_rows", rows->count - shown);
	vc_emit_number(top->emit, "more_bytes", left);
	return 0;
}

static void emit_heading(struct top *top, const struct vc_account_device *device,
			 const struct vc_tensor_rows *rows)
{
	struct vc_text text = {0};

	vc_report_moment(&text, top->tables);
	vc_text_add(&text, "   ");
	vc_report_device(&text, top->tables, device->device_plus_one);
	vc_emit_heading(top->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	for (unsigned role = 0; role < VC_ROLES; role++)
		if (top->options.role_set >> role & 1)
			vc_text_add(&text, "%s%s", text.length ? ", " : "", vc_role_text[role]);
	if (!text.length)
		vc_text_add(&text, "blocks of PyTorch's allocator");
	vc_text_add(&text, " ");
	vc_text_bytes(&text, rows->bytes, top->emit->exact);
	vc_text_add(&text, " in ");
	vc_text_number(&text, rows->blocks);
	vc_text_add(&text, rows->blocks == 1 ? " block" : " blocks");
	vc_emit_line(top->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_report_device_json(top->emit, "device", top->tables, device->device_plus_one);
	vc_emit_number(top->emit, "bytes", rows->bytes);
	vc_emit_number(top->emit, "count", rows->blocks);
}

static int emit_device(struct top *top, const struct vc_account_device *device)
{
	struct vc_tensor_rows rows;
	struct vc_text text = {0};
	int error;

	top->options.device_plus_one = device->device_plus_one;
	error = vc_tensor_rows_make(top->tables, top->account, &top->roles, top->session->names,
				    &top->options, &top->session->arena, &rows);
	if (error)
		return error;
	vc_emit_object(top->emit, NULL);
	emit_heading(top, device, &rows);
	error = emit_table(top, &rows);
	if (rows.folded) {
		vc_text_add(&text, "* folds rows of equal size, ");
		vc_text_number(&text, rows.folded + rows.count);
		vc_text_add(&text, " in all; --no-fold lists them");
		vc_emit_line(top->emit, "%s", vc_text_get(&text));
	}
	vc_text_deinit(&text);
	vc_emit_object_end(top->emit);
	return error;
}

static int emit_devices(struct top *top, uint32_t wanted)
{
	uint32_t count, *order = vc_account_order(top->account, &top->session->arena, &count);
	unsigned shown = 0;
	int error = order ? 0 : VC_E_NO_MEMORY;

	vc_emit_list(top->emit, "devices");
	for (uint32_t i = 0; i < count && !error; i++) {
		const struct vc_account_device *device = &top->account->devices[order[i]];

		if ((wanted != UINT32_MAX && device->device_plus_one != wanted) ||
		    !device->block_count)
			continue;
		if (shown++)
			vc_emit_line(top->emit, "%s", "");
		error = emit_device(top, device);
	}
	vc_emit_list_end(top->emit);
	if (!shown)
		vc_emit_line(top->emit, "no block of PyTorch's allocator was live");
	return error;
}

int vc_option_roles(const struct vc_command *command, uint32_t *ret, struct vc_problem *problem)
{
	const char *from = vc_option_value(command, VC_OPTION_ROLE, "");

	while (*from) {
		size_t length = strcspn(from, ",");
		unsigned role = 0;

		while (role < VC_ROLES && (strlen(vc_role_key[role]) != length ||
					   strncmp(vc_role_key[role], from, length)))
			role++;
		if (role == VC_ROLES)
			return vc_problem_usage(problem,
						"parameter, gradient, optimizer, activation, buffer, "
						"input, kv-cache, other, workspace, communication, "
						"autocast or unknown",
						"--role %s: no such role", from);
		*ret |= 1u << role;
		from += length + (from[length] == ',');
	}
	return 0;
}

static int read_options(struct top *top, uint32_t *ret_device, struct vc_problem *problem)
{
	uint64_t device;
	unsigned by;
	int error = vc_option_word(top->command, VC_OPTION_BY, vc_tensors_by_text,
				   VC_TENSORS_BY_COUNT, VC_TENSORS_BY_MODULE, &by, problem);

	if (!error)
		error = vc_option_roles(top->command, &top->options.role_set, problem);
	if (!error)
		error = vc_option_number(top->command, VC_OPTION_COUNT, 20, UINT32_MAX, &top->rows,
					 problem);
	if (!error)
		error = vc_option_number(top->command, VC_OPTION_DEVICE, UINT32_MAX - 1,
					 UINT32_MAX - 1, &device, problem);
	if (error)
		return error;
	top->options.by = (enum vc_tensors_by)by;
	top->options.no_fold = vc_option_given(top->command, VC_OPTION_NO_FOLD);
	*ret_device = (uint32_t)device + 1;
	return 0;
}

int vc_session_roles(struct vc_session *session, struct vc_roles *ret, struct vc_problem *problem)
{
	int error = vc_session_count(session, VC_ACCOUNT_AUTO, VC_COLUMNS, problem);

	if (!error)
		error = vc_session_names(session, problem);
	if (error)
		return error;
	error = vc_roles_make(&session->models[0].tables, &session->accounts[0], session->names, 0,
			      &session->arena, ret);
	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	if (!ret->walked)
		return vc_problem_set(problem, VC_E_NOT_FOUND, session->models[0].path,
				      "vramcore top --by site says where the memory comes from",
				      "nothing is known of tensors: %s", ret->why);
	return 0;
}

void vc_session_wants_roles(struct vc_wanted_columns *wanted)
{
	vc_wanted_small(wanted);
	vc_session_wants_account(wanted);
	wanted->column[VC_COL_allocations_module] = true;
	wanted->column[VC_COL_allocations_python] = true;
	wanted->column[VC_COL_allocations_step] = true;
}

int vc_verb_top_tensors(const struct vc_command *command, struct vc_emit *emit,
			struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct top top = {.command = command, .emit = emit, .session = &session};
	uint32_t device;
	int status = read_options(&top, &device, problem);

	if (status)
		return status;
	vc_session_wants_roles(&wanted);
	status = vc_session_open(command, 0, 1, &wanted, &session, problem);
	if (status)
		return status;
	status = vc_session_roles(&session, &top.roles, problem);
	if (!status) {
		top.tables = &session.models[0].tables;
		top.account = &session.accounts[0];
		vc_emit_begin(emit, "vramcore.top.tensors/1");
		vc_report_file_json(emit, "file", &session.models[0]);
		vc_emit_string(emit, "by", vc_tensors_by_text[top.options.by]);
		status = emit_devices(&top, device);
		if (status)
			vc_problem_set(problem, status, NULL, NULL, "%s", vc_error_text(status));
	}
	if (!status) {
		if (*top.roles.why)
			vc_emit_line(emit, "not known: some tensors; %s", top.roles.why);
		vc_emit_string(emit, "not_known", *top.roles.why ? top.roles.why : NULL);
		status = vc_report_end(emit, &session, false, problem);
		if (status >= 0 &&
		    vc_command_fails_on(command, "live", vc_account_most_live(top.account)))
			status = VC_EXIT_FAIL_ON;
	}
	vc_path_prefix_deinit(&top.prefix);
	vc_session_close(&session);
	return status;
}
