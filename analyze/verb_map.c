/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore map: segments, blocks and holes as a picture; fragmentation. */
#include <stdlib.h>

#include "analyze/chart.h"
#include "analyze/report.h"
#include "analyze/views/advice.h"
#include "analyze/views/map.h"

enum { BAR_LEAST = 8, ROWS_MOST = 16, DETAIL_MARGIN = 20 };

struct map_report {
	const struct vc_command *command;
	struct vc_emit *emit;
	struct vc_session *session;
	const struct vc_tables *tables;
	struct vc_map map;
	struct vc_path_prefix prefix;
	uint64_t rows;
	uint32_t device_plus_one;   /* UINT32_MAX: all */
	bool utf8;
	const struct vc_map_segment *one; /* shown alone; NULL: all */
	bool has_address;
	uint64_t address;
};

static unsigned line_width(const struct map_report *report)
{
	return report->emit->width ? report->emit->width : 100;
}

/** A segment as one line of cells, each for `cell` bytes. */
static const char *draw_bar(struct map_report *report, const struct vc_map_segment *segment,
			    uint64_t cell)
{
	uint64_t count = (segment->size - 1) / cell + 1;
	uint64_t *used = vc_arena_allocate(&report->session->arena, count, sizeof(*used));
	struct vc_text text = {0};

	if (!used)
		return "";
	vc_map_cells(&report->map, segment, cell, count, used);
	for (uint64_t i = 0; i < count; i++)
		vc_chart_fill(&text, report->utf8, used[i],
			      i + 1 < count ? cell : segment->size - i * cell);
	return vc_report_keep(report->session, &text);
}

static const struct vc_chain *chain_of(struct map_report *report, uint64_t row)
{
	uint64_t stack = vc_stack_reference(
		report->tables, vc_value(report->tables, VC_COL_allocations_stack, row),
		vc_value(report->tables, VC_COL_allocations_python, row));

	return vc_names_chain(report->session->names, 0, stack);
}

/* ---- all segments ---- */

static void add_figure(struct vc_text *text, uint64_t count, const char *one, const char *more)
{
	vc_text_number(text, count);
	vc_text_add(text, " %s", count == 1 ? one : more);
}

static void device_json(struct vc_emit *emit, const struct vc_map_device *device)
{
	vc_emit_number(emit, "segments_count", device->count);
	vc_emit_number(emit, "segment_bytes", device->bytes);
	vc_emit_number(emit, "used_bytes", device->used);
	vc_emit_number(emit, "free_bytes", device->free);
	vc_emit_number(emit, "blocks", device->blocks);
	vc_emit_number(emit, "holes", device->holes);
	vc_emit_number(emit, "largest_hole", device->largest_hole);
	vc_emit_number(emit, "fragmentation_permille", device->fragmentation);
	vc_emit_number(emit, "empty_segments", device->empty);
	vc_emit_number(emit, "empty_bytes", device->empty_bytes);
	vc_emit_number(emit, "pinned_segments", device->pinned);
	vc_emit_number(emit, "pinned_free_bytes", device->pinned_free);
	vc_emit_number(emit, "other_allocations", device->others);
	vc_emit_number(emit, "other_bytes", device->other_bytes);
}

/** Allocations that are drawn nowhere. */
static void emit_others(struct map_report *report, const struct vc_map_device *device)
{
	struct vc_text text = {0};

	if (!device->others)
		return;
	add_figure(&text, device->others, "allocation", "allocations");
	vc_text_add(&text, ", ");
	vc_text_bytes(&text, device->other_bytes, report->emit->exact);
	vc_text_add(&text, ", without blocks: what is free in %s is not known",
		    device->others == 1 ? "it" : "them");
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

static void emit_figures(struct map_report *report, const struct vc_map_device *device)
{
	enum vc_text_exact exact = report->emit->exact;
	struct vc_text text = {0};

	if (!device->count) {
		emit_others(report, device);
		return;
	}
	add_figure(&text, device->count, "segment", "segments");
	vc_text_add(&text, ", ");
	vc_text_bytes(&text, device->bytes, exact);
	vc_text_add(&text, ": ");
	vc_text_bytes(&text, device->used, exact);
	vc_text_add(&text, " in ");
	add_figure(&text, device->blocks, "block", "blocks");
	vc_text_add(&text, ", ");
	vc_text_bytes(&text, device->free, exact);
	vc_text_add(&text, " free in ");
	add_figure(&text, device->holes, "hole", "holes");
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	vc_text_add(&text, "largest hole ");
	vc_text_bytes(&text, device->largest_hole, exact);
	vc_text_add(&text, ", fragmentation ");
	vc_text_share(&text, (int64_t)device->fragmentation);
	vc_text_add(&text, "; ");
	vc_text_bytes(&text, device->empty_bytes, exact);
	vc_text_add(&text, " in ");
	add_figure(&text, device->empty, "empty segment", "empty segments");
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	if (device->pinned) {
		add_figure(&text, device->pinned, "segment is", "segments are");
		vc_text_add(&text, " pinned by blocks of at most 1/%d of it: ",
			    VC_MAP_PINNED_SHARE);
		vc_text_bytes(&text, device->pinned_free, exact);
		vc_text_add(&text, " cannot go back");
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
	}
	vc_text_deinit(&text);
	emit_others(report, device);
}

static int by_free(const void *a, const void *b)
{
	const struct vc_map_segment *x = *(const struct vc_map_segment *const *)a;
	const struct vc_map_segment *y = *(const struct vc_map_segment *const *)b;

	if (x->free != y->free)
		return x->free > y->free ? -1 : 1;
	return x->address < y->address ? -1 : x->address > y->address;
}

static int by_number(const void *a, const void *b)
{
	const struct vc_map_segment *x = *(const struct vc_map_segment *const *)a;
	const struct vc_map_segment *y = *(const struct vc_map_segment *const *)b;

	return x < y ? -1 : x > y;
}

enum { COLUMN_NUMBER, COLUMN_ADDRESS, COLUMN_SIZE, COLUMN_USED, COLUMN_HOLE, COLUMN_BAR,
	COLUMNS };

static void emit_segment(struct map_report *report, const struct vc_map_segment *segment,
			 uint64_t cell)
{
	struct vc_cell cells[COLUMNS] = {
		[COLUMN_NUMBER] = {.number = (uint64_t)(segment - report->map.segments)},
		[COLUMN_ADDRESS] = {.number = segment->address},
		[COLUMN_SIZE] = {.number = segment->size},
		[COLUMN_USED] = {.amount = (int64_t)((double)segment->used * 1000.0 /
						     (double)segment->size)},
		[COLUMN_HOLE] = {.number = segment->largest_hole},
		[COLUMN_BAR] = {.text = report->emit->json ? "" :
							     draw_bar(report, segment, cell)},
	};

	vc_emit_row(report->emit, cells);
	vc_emit_number(report->emit, "used_bytes", segment->used);
	vc_emit_number(report->emit, "free_bytes", segment->free);
	vc_emit_number(report->emit, "blocks", segment->blocks);
	vc_emit_number(report->emit, "holes", segment->holes);
	vc_emit_bool(report->emit, "pinned", segment->pinned);
	vc_emit_address(report->emit, "stream",
			vc_value(report->tables, VC_COL_allocations_stream, segment->row));
	vc_emit_row_end(report->emit);
}

static int emit_segments(struct map_report *report, const struct vc_map_device *device)
{
	static const struct vc_emit_column columns[COLUMNS] = {
		[COLUMN_NUMBER] = {"segment", "segment", VC_CELL_NUMBER, true},
		[COLUMN_ADDRESS] = {"address", "address", VC_CELL_ADDRESS, true},
		[COLUMN_SIZE] = {"size", "size", VC_CELL_BYTES, false},
		[COLUMN_USED] = {"used_permille", "used", VC_CELL_SHARE, true},
		[COLUMN_HOLE] = {"largest_hole", "largest hole", VC_CELL_BYTES, true},
		[COLUMN_BAR] = {NULL, "map", VC_CELL_TEXT, false},
	};
	const struct vc_map_segment **order =
		vc_arena_allocate(&report->session->arena, device->count, sizeof(*order));
	uint64_t shown = report->rows && report->rows < device->count ? report->rows :
									device->count;
	unsigned width = line_width(report), bar = width > 68 ? width - 60 : BAR_LEAST;
	uint64_t largest = 1;

	if (!order)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < device->count; i++)
		order[i] = &report->map.segments[device->first + i];
	qsort(order, device->count, sizeof(*order), by_free);
	qsort(order, shown, sizeof(*order), by_number);
	for (uint64_t i = 0; i < shown; i++)
		if (order[i]->size > largest)
			largest = order[i]->size;
	vc_emit_table(report->emit, "segments", columns, COLUMNS);
	for (uint64_t i = 0; i < shown; i++)
		emit_segment(report, order[i], (largest - 1) / bar + 1);
	vc_emit_table_end(report->emit);
	vc_emit_number(report->emit, "more_segments", device->count - shown);
	if (shown < device->count)
		vc_emit_line(report->emit, "%llu more with less free (-n 0 shows all)",
			     (unsigned long long)(device->count - shown));
	if (shown) {
		struct vc_text text = {0};

		vc_text_bytes(&text, (largest - 1) / bar + 1, report->emit->exact);
		vc_emit_line(report->emit, "%s  one cell is %s",
			     vc_chart_fill_legend(report->utf8), vc_text_get(&text));
		vc_text_deinit(&text);
	}
	return 0;
}

static int emit_pins(struct map_report *report, const struct vc_map_device *device)
{
	enum { SITES_MOST = 5 };
	static const struct vc_emit_column columns[] = {
		{"bytes", "bytes", VC_CELL_BYTES, false},
		{"kept_bytes", "keep back", VC_CELL_BYTES, false},
		{"segments", "segments", VC_CELL_NUMBER, true},
		{"site", "blocks that pin segments", VC_CELL_CHAIN, false},
	};
	struct vc_pin *pins;
	uint64_t count;
	int error = vc_pins_make(report->tables, &report->map, device, report->session->names,
				 &report->session->arena, &pins, &count);

	if (error)
		return error;
	if (!count && !report->emit->json)
		return 0;
	vc_emit_table(report->emit, "pinned_by", columns, 4);
	for (uint64_t i = 0; i < count && i < SITES_MOST; i++) {
		vc_path_prefix_add(&report->prefix, pins[i].chain);
		vc_emit_row(report->emit, (struct vc_cell[]){
			{.number = pins[i].bytes}, {.number = pins[i].kept},
			{.number = pins[i].segments},
			{.text = vc_report_site(report->session, pins[i].chain,
						&report->prefix)}});
		vc_emit_row_end(report->emit);
	}
	vc_emit_table_end(report->emit);
	return 0;
}

static int emit_device(struct map_report *report, const struct vc_map_device *device)
{
	struct vc_text text = {0};
	int error;

	vc_emit_object(report->emit, NULL);
	vc_report_moment(&text, report->tables);
	vc_text_add(&text, "   ");
	vc_report_device(&text, report->tables, device->device_plus_one);
	vc_emit_heading(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_report_device_json(report->emit, "device", report->tables, device->device_plus_one);
	device_json(report->emit, device);
	emit_figures(report, device);
	error = emit_segments(report, device);
	if (!error)
		error = emit_pins(report, device);
	vc_emit_object_end(report->emit);
	return error;
}

/* ---- one segment ---- */

static void emit_part(struct map_report *report, const struct vc_map_part *part)
{
	bool hole = part->row == UINT64_MAX;
	const struct vc_chain *chain = hole ? NULL : chain_of(report, part->row);
	bool here = report->has_address && report->address - part->address < part->size;

	vc_emit_row(report->emit, (struct vc_cell[]){
		{.text = here ? ">" : ""},
		{.number = part->address}, {.number = part->size},
		{.text = hole ? "hole" : "block"},
		{.text = hole ? "" : vc_report_site(report->session, chain, &report->prefix)}});
	vc_emit_bool(report->emit, "here", here);
	if (!hole)
		vc_report_stack_json(report->emit, "stack", chain);
	vc_emit_row_end(report->emit);
}

/** The parts that are shown: those around the address, else the first ones. */
static void emit_parts(struct map_report *report, const struct vc_map_segment *segment)
{
	static const struct vc_emit_column columns[] = {
		{NULL, "", VC_CELL_TEXT, false},
		{"address", "address", VC_CELL_ADDRESS, false},
		{"size", "size", VC_CELL_BYTES, false},
		{"what", "what", VC_CELL_TEXT, true},
		{"site", "site", VC_CELL_CHAIN, false},
	};
	uint64_t shown = report->rows && report->rows < segment->part_count ? report->rows :
									      segment->part_count;
	uint64_t first = 0;

	for (uint64_t i = 0; report->has_address && i < segment->part_count; i++) {
		const struct vc_map_part *part = &report->map.parts[segment->first_part + i];

		if (report->address - part->address < part->size)
			first = i > shown / 2 ? i - shown / 2 : 0;
	}
	if (first > segment->part_count - shown)
		first = segment->part_count - shown;
	for (uint64_t i = first; i < first + shown; i++) {
		const struct vc_map_part *part = &report->map.parts[segment->first_part + i];

		if (part->row != UINT64_MAX)
			vc_path_prefix_add(&report->prefix, chain_of(report, part->row));
	}
	vc_emit_table(report->emit, "parts", columns, 5);
	for (uint64_t i = first; i < first + shown; i++)
		emit_part(report, &report->map.parts[segment->first_part + i]);
	vc_emit_table_end(report->emit);
	vc_emit_number(report->emit, "more_parts", segment->part_count - shown);
	if (shown < segment->part_count)
		vc_emit_line(report->emit, "%llu more blocks and holes (-n 0 shows all)",
			     (unsigned long long)(segment->part_count - shown));
}

/** The segment over several lines, with the address at the start of each. */
static int draw_segment(struct map_report *report, const struct vc_map_segment *segment)
{
	unsigned width = line_width(report);
	uint64_t columns = width > DETAIL_MARGIN + BAR_LEAST ? width - DETAIL_MARGIN : BAR_LEAST;
	uint64_t cell = (segment->size - 1) / (columns * ROWS_MOST) + 1;
	uint64_t count = (segment->size - 1) / cell + 1;
	uint64_t *used = vc_arena_allocate(&report->session->arena, count, sizeof(*used));
	struct vc_text text = {0};

	if (!used)
		return VC_E_NO_MEMORY;
	vc_map_cells(&report->map, segment, cell, count, used);
	for (uint64_t i = 0; i < count && !report->emit->json; i += columns) {
		vc_text_clear(&text);
		vc_text_add(&text, "  0x%-14llx  ",
			    (unsigned long long)(segment->address + i * cell));
		for (uint64_t j = i; j < count && j < i + columns; j++)
			vc_chart_fill(&text, report->utf8, used[j],
				      j + 1 < count ? cell : segment->size - j * cell);
		vc_emit_line(report->emit, "%s", vc_text_get(&text));
	}
	vc_text_clear(&text);
	vc_text_bytes(&text, cell, report->emit->exact);
	vc_emit_line(report->emit, "%s  one cell is %s", vc_chart_fill_legend(report->utf8),
		     vc_text_get(&text));
	vc_text_deinit(&text);
	return 0;
}

static int emit_one(struct map_report *report)
{
	const struct vc_map_segment *segment = report->one;
	enum vc_text_exact exact = report->emit->exact;
	struct vc_text text = {0};
	int error;

	vc_report_moment(&text, report->tables);
	vc_text_add(&text, "   ");
	vc_report_device(&text, report->tables, segment->device_plus_one);
	vc_emit_heading(report->emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	vc_text_add(&text, "segment %llu, 0x%llx +",
		    (unsigned long long)(segment - report->map.segments),
		    (unsigned long long)segment->address);
	vc_text_bytes(&text, segment->size, exact);
	vc_text_add(&text, ": ");
	vc_text_bytes(&text, segment->used, exact);
	vc_text_add(&text, " in ");
	add_figure(&text, segment->blocks, "block", "blocks");
	vc_text_add(&text, ", ");
	vc_text_bytes(&text, segment->free, exact);
	vc_text_add(&text, " free in ");
	add_figure(&text, segment->holes, "hole", "holes");
	vc_text_add(&text, ", the largest ");
	vc_text_bytes(&text, segment->largest_hole, exact);
	vc_emit_line(report->emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_report_device_json(report->emit, "device", report->tables, segment->device_plus_one);
	vc_emit_number(report->emit, "segment", (uint64_t)(segment - report->map.segments));
	vc_emit_address(report->emit, "address", segment->address);
	vc_emit_number(report->emit, "size", segment->size);
	vc_emit_number(report->emit, "used_bytes", segment->used);
	vc_emit_number(report->emit, "free_bytes", segment->free);
	vc_emit_number(report->emit, "blocks", segment->blocks);
	vc_emit_number(report->emit, "holes", segment->holes);
	vc_emit_number(report->emit, "largest_hole", segment->largest_hole);
	vc_emit_bool(report->emit, "pinned", segment->pinned);
	error = draw_segment(report, segment);
	if (!error)
		emit_parts(report, segment);
	return error;
}

/* ---- the verb ---- */

static int read_options(struct map_report *report, struct vc_problem *problem)
{
	const struct vc_command *command = report->command;
	uint64_t device;
	int error = vc_option_number(command, VC_OPTION_COUNT, 20, UINT32_MAX, &report->rows,
				     problem);

	if (!error)
		error = vc_option_number(command, VC_OPTION_DEVICE, UINT32_MAX - 1, UINT32_MAX - 1,
					 &device, problem);
	if (error)
		return error;
	report->device_plus_one = (uint32_t)device + 1;
	report->utf8 = vc_chart_is_utf8();
	report->has_address = command->operand_count == 2;
	if (report->has_address &&
	    vc_text_parse_address(command->operands[1], &report->address))
		return vc_problem_usage(problem, NULL, "%s: not an address in hexadecimal",
					command->operands[1]);
	if (report->has_address && vc_option_given(command, VC_OPTION_SEGMENT))
		return vc_problem_usage(problem, NULL, "an address and --segment: give one");
	return 0;
}

/** The one segment that was asked for. */
static int choose(struct map_report *report, struct vc_problem *problem)
{
	const char *path = report->session->models[0].path;
	uint64_t number;
	int error;

	if (report->has_address) {
		report->one = vc_map_find(&report->map, report->address, report->device_plus_one);
		if (!report->one)
			return vc_problem_set(problem, VC_E_NOT_FOUND, path,
					      "vramcore where FILE ADDRESS looks at all else",
					      "0x%llx lies in no segment",
					      (unsigned long long)report->address);
	}
	if (!vc_option_given(report->command, VC_OPTION_SEGMENT))
		return 0;
	error = vc_option_number(report->command, VC_OPTION_SEGMENT, 0, UINT64_MAX, &number,
				 problem);
	if (error)
		return error;
	if (number >= report->map.segment_count)
		return vc_problem_set(problem, VC_E_NOT_FOUND, path, NULL,
				      "no segment %llu: there are %llu, counted from 0",
				      (unsigned long long)number,
				      (unsigned long long)report->map.segment_count);
	report->one = &report->map.segments[number];
	return 0;
}

/** Most that is free in segments first, then most memory of any kind. */
static int by_worst(const void *a, const void *b)
{
	const struct vc_map_device *x = *(const struct vc_map_device *const *)a;
	const struct vc_map_device *y = *(const struct vc_map_device *const *)b;

	if (x->free != y->free)
		return x->free > y->free ? -1 : 1;
	if (x->bytes + x->other_bytes != y->bytes + y->other_bytes)
		return x->bytes + x->other_bytes > y->bytes + y->other_bytes ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int emit_all(struct map_report *report)
{
	const struct vc_map_device **order = vc_arena_allocate(
		&report->session->arena, report->map.device_count + UINT64_C(1), sizeof(*order));
	unsigned shown = 0;
	int error = order ? 0 : VC_E_NO_MEMORY;

	for (uint32_t i = 0; i < report->map.device_count && !error; i++)
		order[i] = &report->map.devices[i];
	if (!error)
		qsort(order, report->map.device_count, sizeof(*order), by_worst);
	vc_emit_list(report->emit, "devices");
	for (uint32_t i = 0; i < report->map.device_count && !error; i++) {
		const struct vc_map_device *device = order[i];

		if (report->device_plus_one != UINT32_MAX &&
		    device->device_plus_one != report->device_plus_one)
			continue;
		if (shown++)
			vc_emit_line(report->emit, "%s", "");
		error = emit_device(report, device);
	}
	vc_emit_list_end(report->emit);
	if (!shown)
		vc_emit_line(report->emit, "no device memory was live");
	else if (!report->map.segment_count)
		vc_emit_line(report->emit, "no blocks: the program's allocator reports none "
			     "(vramcore.h), and this is no snapshot of PyTorch");
	return error;
}

static int make_report(struct map_report *report, struct vc_problem *problem)
{
	struct vc_session *session = report->session;
	int error = vc_session_count(session, VC_ACCOUNT_AUTO, VC_COLUMNS, problem);

	if (!error)
		error = vc_session_names(session, problem);
	if (error)
		return error;
	report->tables = &session->models[0].tables;
	error = vc_map_make(report->tables, &session->accounts[0], &session->arena, &report->map);
	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	error = choose(report, problem);
	if (error)
		return error;
	vc_emit_begin(report->emit, report->one ? "vramcore.map.segment/1" : "vramcore.map/1");
	vc_report_file_json(report->emit, "file", &session->models[0]);
	error = report->one ? emit_one(report) : emit_all(report);
	if (vc_option_given(report->command, VC_OPTION_AT))
		vc_emit_line(report->emit, "blocks have the sizes that were asked for: what rounding "
			     "added to them is drawn as free");
	if (error)
		return vc_problem_set(problem, error, NULL, NULL, "%s", vc_error_text(error));
	return vc_report_end(report->emit, session, false, problem);
}

int vc_verb_map(const struct vc_command *command, struct vc_emit *emit, struct vc_problem *problem)
{
	struct vc_wanted_columns wanted = {0};
	struct vc_session session;
	struct map_report report = {.command = command, .emit = emit, .session = &session};
	int status = read_options(&report, problem);

	if (status)
		return status;
	vc_wanted_small(&wanted);
	vc_session_wants_account(&wanted);
	wanted.column[VC_COL_allocations_stream] = true;
	status = vc_session_open(command, 0, 1, &wanted, &session, problem);
	if (status)
		return status;
	status = make_report(&report, problem);
	vc_path_prefix_deinit(&report.prefix);
	vc_session_close(&session);
	return status;
}
