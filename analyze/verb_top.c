/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore top: what holds the memory, largest first. */
#include <stdlib.h>

#include "analyze/report.h"
#include "analyze/verb_top_tensors.h"
#include "analyze/views/sites.h"
#include "analyze/views/torch.h"

struct top {
	const struct vc_command *command;
	struct vc_emit *emit;
	struct vc_session *session;
	const struct vc_tables *tables;
	const struct vc_account *account;
	enum vc_by by;
	enum vc_account_mode mode;
	uint64_t rows, depth;
	uint32_t device_plus_one; /* UINT32_MAX: all */
	struct vc_path_prefix prefix;
};

enum { COLUMN_BYTES, COLUMN_SHARE, COLUMN_BLOCKS, COLUMN_CACHED, COLUMN_SITE, COLUMNS };

/** "0x7f2c4a000000  20.0 MiB large, expandable" */
static void add_segment(const struct top *top, struct vc_text *text, uint64_t row_plus_one)
{
	const struct vc_tables *tables = top->tables;
	uint64_t row = row_plus_one - 1;

	if (!row_plus_one) {
		vc_text_add(text, "(none)");
		return;
	}
	vc_text_add(text, "0x%llx  ",
		    (unsigned long long)vc_value(tables, VC_COL_segments_address, row));
	vc_text_bytes(text, vc_value(tables, VC_COL_segments_total_size, row), top->emit->exact);
	vc_text_add(text, " %s%s", vc_string(tables, VC_COL_segments_type, row),
		    vc_value(tables, VC_COL_segments_expandable, row) ? ", expandable" : "");
}

static const char *row_text(struct top *top, const struct vc_site_row *row)
{
	struct vc_text text = {0};

	switch (top->by) {
	case VC_BY_SITE:
		return vc_report_site(top->session, row->chain, &top->prefix);
	case VC_BY_DEVICE:
		vc_report_device(&text, top->tables, (uint32_t)row->value);
		break;
	case VC_BY_STREAM:
		vc_text_add(&text, row->value ? "0x%llx" : "default stream",
			    (unsigned long long)row->value);
		break;
	case VC_BY_THREAD:
		vc_text_add(&text, "%llu", (unsigned long long)row->value);
		for (uint64_t i = 0; i < top->tables->rows[VC_TABLE_threads]; i++)
			if (vc_value(top->tables, VC_COL_threads_thread, i) == row->value)
				vc_text_add(&text, " %s",
					    vc_string(top->tables, VC_COL_threads_name, i));
		break;
	case VC_BY_SIZE:
		vc_text_number(&text, row->value);
		vc_text_add(&text, " B each");
		break;
	case VC_BY_SEGMENT:
		add_segment(top, &text, row->value);
		break;
	case VC_BY_POOL:
		vc_text_add(&text, "(%llu, %llu)%s", (unsigned long long)(row->value >> 32),
			    (unsigned long long)(row->value & UINT32_MAX),
			    row->value ? "" : " default");
		break;
	default:
		vc_text_add(&text, "%s", *row->text ? row->text : "(none)");
	}
	return vc_report_keep(top->session, &text);
}

static void emit_row(struct top *top, const struct vc_site_row *row, int64_t share)
{
	struct vc_cell cells[COLUMNS] = {
		[COLUMN_BYTES] = {.number = row->bytes},
		[COLUMN_SHARE] = {.amount = share},
		[COLUMN_BLOCKS] = {.number = row->count},
		[COLUMN_CACHED] = {.number = row->cached_bytes},
		[COLUMN_SITE] = {.text = row_text(top, row)},
	};

	vc_emit_row(top->emit, cells);
	vc_emit_number(top->emit, "cached_allocations", row->cached_count);
	vc_emit_number(top->emit, "in_doubt_bytes", row->doubt_bytes);
	vc_emit_number(top->emit, "in_doubt", row->doubt_count);
	if (top->by == VC_BY_SITE)
		vc_report_stack_json(top->emit, "stack", row->chain);
	vc_emit_row_end(top->emit);
}

static void emit_rest(struct top *top, const struct vc_site_row *rest, uint64_t count,
		      int64_t share)
{
	struct vc_text text = {0};
	struct vc_cell cells[COLUMNS] = {
		[COLUMN_BYTES] = {.number = rest->bytes},
		[COLUMN_SHARE] = {.amount = share},
		[COLUMN_BLOCKS] = {.number = rest->count},
		[COLUMN_CACHED] = {.number = rest->cached_bytes},
	};

	if (!count)
		return;
	vc_text_number(&text, count);
	vc_text_add(&text, " more (-n 0 shows all)");
	cells[COLUMN_SITE].text = vc_report_keep(top->session, &text);
	vc_emit_text_row(top->emit, cells);
}

static int emit_table(struct top *top, const struct vc_sites *sites)
{
	const struct vc_emit_column columns[COLUMNS] = {
		[COLUMN_BYTES] = {"bytes", "bytes", VC_CELL_BYTES, false},
		[COLUMN_SHARE] = {"share", "share", VC_CELL_SHARE, true},
		[COLUMN_BLOCKS] = {"count", top->account->has_blocks ? "blocks" : "allocations",
				   VC_CELL_NUMBER, true},
		[COLUMN_CACHED] = {"cached_bytes", vc_sites_have_cached(sites) ? "cached" : NULL,
				   VC_CELL_BYTES, true},
		[COLUMN_SITE] = {vc_by_text[top->by], vc_by_text[top->by], VC_CELL_CHAIN, false},
	};
	struct vc_sites_rest rest;
	int64_t *shares;
	int error = vc_sites_shares(sites, top->rows, &top->session->arena, &shares, &rest);

	if (error)
		return error;
	for (uint64_t i = 0; i < rest.shown; i++)
		vc_path_prefix_add(&top->prefix, sites->rows[i].chain);
	vc_emit_table(top->emit, "rows", columns, COLUMNS);
	for (uint64_t i = 0; i < rest.shown; i++)
		emit_row(top, &sites->rows[i], shares[i]);
	emit_rest(top, &rest.sum, rest.count, shares[rest.shown]);
	vc_emit_table_end(top->emit);
	vc_emit_number(top->emit, "more_rows", rest.count);
	vc_emit_number(top->emit, "more_bytes", rest.sum.bytes);
	return 0;
}

/** "live 2.00 GiB in 40 blocks, cached and free 1.00 GiB, reserved 3.00 GiB" */
static void add_totals(struct vc_text *text, const struct vc_account_device *device,
		       enum vc_text_exact exact)
{
	vc_text_add(text, "live ");
	vc_text_bytes(text, device->live_bytes, exact);
	vc_text_add(text, " in ");
	vc_text_number(text, device->live_count);
	vc_text_add(text, " %s", vc_account_unit(device));
	if (device->cached_allocations) {
		vc_text_add(text, ", cached and free ");
		vc_text_bytes(text, device->cached_bytes, exact);
		vc_text_add(text, ", reserved ");
		vc_text_bytes(text, device->reserved_bytes, exact);
	}
	if (device->doubt_count) {
		vc_text_add(text, ", in doubt ");
		vc_text_bytes(text, device->doubt_bytes, exact);
	}
}

static void emit_heading(struct top *top, const struct vc_account_device *device)
{
	struct vc_text text = {0};
	enum vc_text_exact exact = top->emit->exact;

	vc_report_moment(&text, top->tables);
	vc_text_add(&text, "   ");
	vc_report_device(&text, top->tables, device->device_plus_one);
	vc_emit_heading(top->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	if (vc_is_import(top->tables) && !vc_option_given(top->command, VC_OPTION_AT))
		vc_torch_heading(&text, top->tables, device->device_plus_one - 1, exact);
	else
		add_totals(&text, device, exact);
	vc_emit_line(top->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_report_device_json(top->emit, "device", top->tables, device->device_plus_one);
	vc_emit_number(top->emit, "live_bytes", device->live_bytes);
	vc_emit_number(top->emit, "live_count", device->live_count);
	vc_emit_number(top->emit, "block_bytes", device->block_bytes);
	vc_emit_number(top->emit, "cached_bytes", device->cached_bytes);
	vc_emit_number(top->emit, "reserved_bytes", device->reserved_bytes);
	vc_emit_number(top->emit, "in_doubt_bytes", device->doubt_bytes);
}
static int emit_device(struct top *top, const struct vc_account_device *device)
{
	struct vc_sites_options options = {.by = top->by, .depth = (unsigned)top->depth,
					   .device_plus_one = device->device_plus_one};
	struct vc_sites sites;
	int error = vc_sites_make(top->tables, top->account, top->session->names, 0, &options,
				  &top->session->arena, &sites);

	if (error)
		return error;
	vc_emit_object(top->emit, NULL);
	emit_heading(top, device);
	error = emit_table(top, &sites);
	vc_emit_object_end(top->emit);
	return error;
}

/** Every device with memory, the fullest first. */
static int emit_devices(struct top *top)
{
	uint32_t count, *order = vc_account_order(top->account, &top->session->arena, &count);
	unsigned shown = 0;
	int error = order ? 0 : VC_E_NO_MEMORY;

	vc_emit_list(top->emit, "devices");
	for (uint32_t i = 0; i < count && !error; i++) {
		const struct vc_account_device *device = &top->account->devices[order[i]];

		if (top->device_plus_one != UINT32_MAX &&
		    device->device_plus_one != top->device_plus_one)
			continue;
		if (shown++)
			vc_emit_line(top->emit, "%s", "");
		error = emit_device(top, device);
	}
	vc_emit_list_end(top->emit);
	if (!shown)
		vc_emit_line(top->emit, "no device memory was live");
	return error;
}

static int read_options(struct top *top, struct vc_problem *problem)
{
	const struct vc_command *command = top->command;
	uint64_t device;
	unsigned by;
	int error = vc_option_word(command, VC_OPTION_BY, vc_by_text, VC_BY_COUNT, VC_BY_SITE, &by,
				   problem);

	top->by = (enum vc_by)by;
	top->mode = vc_option_given(command, VC_OPTION_BLOCKS) ? VC_ACCOUNT_BLOCKS :
		    vc_option_given(command, VC_OPTION_ALLOCATIONS) ? VC_ACCOUNT_ALLOCATIONS :
								      VC_ACCOUNT_AUTO;
	if (!error)
		error = vc_option_number(command, VC_OPTION_COUNT, 20, UINT32_MAX, &top->rows,
					 problem);
	if (!error)
		error = vc_option_number(command, VC_OPTION_DEPTH, 0, 1000, &top->depth, problem);
	if (!error)
		error = vc_option_number(command, VC_OPTION_DEVICE, UINT32_MAX - 1, UINT32_MAX - 1,
					 &device, problem);
	if (!error)
		top->device_plus_one = (uint32_t)device + 1;
	return error;
}

static int report(struct top *top, struct vc_problem *problem)
{
	struct vc_session *session = top->session;
	int error = vc_session_count(session, top->mode, vc_by_column[top->by], problem), status;

	if (!error)
		error = vc_session_names(session, problem);
	if (error)
		return error;
	top->tables = &session->models[0].tables;
	top->account = &session->accounts[0];
	vc_emit_begin(top->emit, "vramcore.top/1");
	vc_report_file_json(top->emit, "file", &session->models[0]);
	vc_emit_string(top->emit, "by", vc_by_text[top->by]);
	error = emit_devices(top);
	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	if (vc_is_import(top->tables))
		vc_emit_line(top->emit, "%s", vc_torch_not_known);
	status = vc_report_end(top->emit, session, false, problem);
	if (status >= 0 && vc_command_fails_on(top->command, "live",
					       vc_account_most_live(top->account)))
		status = VC_EXIT_FAIL_ON;
	return status;
}

int vc_verb_top(const struct vc_command *command, struct vc_emit *emit, struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct top top = {.command = command, .emit = emit, .session = &session};
	int status;

	if (vc_top_is_of_tensors(command))
		return vc_verb_top_tensors(command, emit, problem);
	status = read_options(&top, problem);
	if (status)
		return status;
	vc_wanted_small(&wanted);
	vc_session_wants_account(&wanted);
	if (vc_by_column[top.by] < VC_COLUMNS)
		wanted.column[vc_by_column[top.by]] = true;
	status = vc_session_open(command, 0, 1, &wanted, &session, problem);
	if (status)
		return status;
	status = report(&top, problem);
	vc_path_prefix_deinit(&top.prefix);
	vc_session_close(&session);
	return status;
}
