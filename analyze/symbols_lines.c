/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <stdlib.h>

#include "analyze/symbols_private.h"
#include "formats/error.h"

/*
 * libdw makes a sorted array of every row of a unit, and keeps it. Here a row is looked at once,
 * as it comes by, for the few addresses that are wanted.
 */

enum { FILES_MAX = 1 << 20, FORMATS_MAX = 16 };

/* One field of an entry in the lists of directories and files of version 5. */
struct format {
	uint64_t content, form;
};

void vc_lines_deinit(struct vc_lines *lines)
{
	free(lines->directories);
	free(lines->files);
	*lines = (struct vc_lines){0};
}

static int add_directory(struct vc_lines *lines, const char *name)
{
	if (lines->directory_count == FILES_MAX)
		return VC_E_CORRUPT;
	if (lines->directory_count == lines->directory_capacity) {
		size_t capacity = lines->directory_capacity ? lines->directory_capacity * 2 : 64;
		void *grown = reallocarray(lines->directories, capacity, sizeof(const char *));

		if (!grown)
			return VC_E_NO_MEMORY;
		lines->directories = grown;
		lines->directory_capacity = capacity;
	}
	lines->directories[lines->directory_count++] = name;
	return 0;
}

static int add_file(struct vc_lines *lines, const char *name, uint64_t directory)
{
	if (lines->file_count == FILES_MAX)
		return VC_E_CORRUPT;
	if (lines->file_count == lines->file_capacity) {
		size_t capacity = lines->file_capacity ? lines->file_capacity * 2 : 256;
		void *grown = reallocarray(lines->files, capacity, sizeof(*lines->files));

		if (!grown)
			return VC_E_NO_MEMORY;
		lines->files = grown;
		lines->file_capacity = capacity;
	}
	lines->files[lines->file_count++] =
		(struct vc_line_file){.name = name, .directory = directory};
	return 0;
}

/* Lists before version 5: texts up to an empty one; files with three numbers each. */
static int read_old_lists(struct vc_lines *lines, struct vc_bytes *header)
{
	const char *name;
	int error = add_directory(lines, NULL); /* that of the compilation */

	while (!error && (name = vc_bytes_text(header)) && *name)
		error = add_directory(lines, name);
	if (!error)
		error = add_file(lines, NULL, 0);
	while (!error && (name = vc_bytes_text(header)) && *name) {
		uint64_t directory = vc_bytes_leb(header);

		vc_bytes_leb(header); /* time */
		vc_bytes_leb(header); /* size */
		error = add_file(lines, name, directory);
	}
	return error;
}

/* A field that may be a text, a number or neither. False: of a form that is not known. */
static bool read_field(const struct vc_sections *sections, unsigned offset_size,
		       struct vc_bytes *header, uint64_t form, const char **text, uint64_t *number)
{
	struct vc_bytes texts;

	switch (form) {
	case DW_FORM_string:
		*text = vc_bytes_text(header);
		break;
	case DW_FORM_line_strp:
	case DW_FORM_strp:
		texts = vc_bytes_from(form == DW_FORM_strp ? sections->texts : sections->line_texts,
				      vc_bytes_fixed(header, offset_size));
		*text = vc_bytes_text(&texts);
		break;
	case DW_FORM_udata:
		*number = vc_bytes_leb(header);
		break;
	case DW_FORM_data1:
		*number = vc_bytes_fixed(header, 1);
		break;
	case DW_FORM_data2:
		*number = vc_bytes_fixed(header, 2);
		break;
	case DW_FORM_data4:
		*number = vc_bytes_fixed(header, 4);
		break;
	case DW_FORM_data8:
		*number = vc_bytes_fixed(header, 8);
		break;
	case DW_FORM_data16:
		vc_bytes_skip(header, 16);
		break;
	case DW_FORM_block:
		vc_bytes_skip(header, vc_bytes_leb(header));
		break;
	default:
		return false;
	}
	return true;
}

/* One of the two lists of version 5, which describe their own fields. */
static int read_list(struct vc_lines *lines, const struct vc_sections *sections,
		     unsigned offset_size, struct vc_bytes *header, bool directories)
{
	struct format formats[FORMATS_MAX];
	size_t format_count = vc_bytes_fixed(header, 1);
	uint64_t count;
	int error = 0;

	if (format_count > FORMATS_MAX)
		return VC_E_CORRUPT;
	for (size_t i = 0; i < format_count; i++) {
		formats[i].content = vc_bytes_leb(header);
		formats[i].form = vc_bytes_leb(header);
	}
	count = vc_bytes_leb(header);
	if (count > vc_bytes_left(header) || (count && !format_count))
		return VC_E_CORRUPT;
	for (; count > 0 && !error && !header->bad; count--) {
		const char *name = NULL;
		uint64_t directory = 0;

		for (size_t i = 0; i < format_count; i++) {
			const char *text = NULL;
			uint64_t number = 0;

			if (!read_field(sections, offset_size, header, formats[i].form, &text,
					&number))
				return VC_E_CORRUPT;
			if (formats[i].content == DW_LNCT_path)
				name = text;
			else if (formats[i].content == DW_LNCT_directory_index)
				directory = number;
		}
		error = directories ? add_directory(lines, name) : add_file(lines, name, directory);
	}
	return error;
}

int vc_lines_read(struct vc_lines *lines, const struct vc_sections *sections, uint64_t position)
{
	struct vc_bytes table = vc_bytes_from(sections->lines, position), header;
	unsigned offset_size = 4;
	uint64_t length = vc_bytes_fixed(&table, 4);
	int error;

	lines->directory_count = lines->file_count = 0;
	lines->program = (struct vc_bytes){0};
	if (length == 0xffffffff) {
		offset_size = 8;
		length = vc_bytes_fixed(&table, 8);
	}
	if (length > vc_bytes_left(&table))
		return VC_E_CORRUPT;
	table.end = table.at + length;
	lines->version = (unsigned)vc_bytes_fixed(&table, 2);
	if (lines->version < 2 || lines->version > 5)
		return VC_E_CORRUPT;
	if (lines->version >= 5)
		vc_bytes_skip(&table, 2); /* sizes of addresses and selectors */
	length = vc_bytes_fixed(&table, offset_size);
	if (table.bad || length > vc_bytes_left(&table))
		return VC_E_CORRUPT;
	header = (struct vc_bytes){.at = table.at, .end = table.at + length};
	lines->program = (struct vc_bytes){.at = header.end, .end = table.end};
	lines->minimum_step = (unsigned)vc_bytes_fixed(&header, 1);
	lines->slots = lines->version >= 4 ? (unsigned)vc_bytes_fixed(&header, 1) : 1;
	vc_bytes_skip(&header, 1); /* whether rows are statements */
	lines->line_base = (int8_t)vc_bytes_fixed(&header, 1);
	lines->line_range = (unsigned)vc_bytes_fixed(&header, 1);
	lines->first_special = (unsigned)vc_bytes_fixed(&header, 1);
	lines->operands = header.at;
	vc_bytes_skip(&header, lines->first_special ? lines->first_special - 1 : 0);
	if (header.bad || !lines->first_special || !lines->line_range || !lines->slots) {
		lines->program.at = lines->program.end;
		return VC_E_CORRUPT;
	}
	if (lines->version < 5)
		return read_old_lists(lines, &header);
	error = read_list(lines, sections, offset_size, &header, true);
	return error ? error : read_list(lines, sections, offset_size, &header, false);
}

/* The state machine. */

struct row {
	uint64_t address, file;
	uint32_t line;
};

struct run {
	const struct vc_lines *lines;
	const uint64_t *addresses; /* rising */
	size_t count, next;	   /* next: first that is not below the last row given out */
	struct vc_place *places;
	int64_t *work;
	struct row row, previous;
	unsigned slot;
	bool has_previous;
	bool dropped; /* the sequence starts at 0, as code that the linker dropped does */
};

static void begin_sequence(struct run *run)
{
	run->row = (struct row){.file = 1, .line = 1};
	run->slot = 0;
	run->has_previous = false;
	run->dropped = false;
}

/* The previous row holds for what lies before this one. */
static void give_row(struct run *run)
{
	const struct row *row = &run->previous;

	if ((run->next > 0 && run->addresses[run->next - 1] >= row->address) ||
	    (run->next < run->count && run->addresses[run->next] < row->address))
		run->next = vc_first_address(run->addresses, run->count, row->address);
	for (; run->next < run->count && run->addresses[run->next] < run->row.address; run->next++) {
		struct vc_place *place = &run->places[run->next];

		if (!place->known || place->row <= row->address)
			*place = (struct vc_place){.known = true, .row = row->address,
						   .file = row->file, .line = row->line};
		--*run->work;
	}
}

static void end_row(struct run *run, bool ends)
{
	if (!run->has_previous)
		run->dropped = run->row.address == 0;
	else if (run->row.address > run->previous.address && !run->dropped)
		give_row(run);
	run->previous = run->row;
	run->has_previous = true;
	if (ends)
		begin_sequence(run);
}

static void advance(struct run *run, uint64_t steps)
{
	const struct vc_lines *lines = run->lines;

	if (lines->slots > 1) {
		uint64_t slots = run->slot + steps;

		run->slot = (unsigned)(slots % lines->slots);
		steps = slots / lines->slots;
	}
	run->row.address += steps * lines->minimum_step;
}

static void extended(struct run *run, struct vc_bytes *program)
{
	uint64_t length = vc_bytes_leb(program);
	struct vc_bytes operand;

	if (length == 0 || length > vc_bytes_left(program)) {
		vc_bytes_fail(program);
		return;
	}
	operand = (struct vc_bytes){.at = program->at, .end = program->at + length};
	program->at += length;
	switch (vc_bytes_fixed(&operand, 1)) {
	case DW_LNE_end_sequence:
		end_row(run, true);
		break;
	case DW_LNE_set_address:
		run->row.address = vc_bytes_fixed(&operand, (unsigned)(length - 1));
		run->slot = 0;
		program->bad |= operand.bad;
		break;
	default: /* files that are defined here are what no compiler of today writes */
		break;
	}
}

static void standard(struct run *run, unsigned operation, struct vc_bytes *program)
{
	const struct vc_lines *lines = run->lines;

	switch (operation) {
	case 0:
		extended(run, program);
		break;
	case DW_LNS_copy:
		end_row(run, false);
		break;
	case DW_LNS_advance_pc:
		advance(run, vc_bytes_leb(program));
		break;
	case DW_LNS_advance_line:
		run->row.line += (uint32_t)vc_bytes_signed_leb(program);
		break;
	case DW_LNS_set_file:
		run->row.file = vc_bytes_leb(program);
		break;
	case DW_LNS_const_add_pc:
		advance(run, (255 - lines->first_special) / lines->line_range);
		break;
	case DW_LNS_fixed_advance_pc:
		run->row.address += vc_bytes_fixed(program, 2);
		run->slot = 0;
		break;
	default:
		for (unsigned i = lines->operands[operation - 1]; i > 0; i--)
			vc_bytes_leb(program);
		break;
	}
}

void vc_lines_place(const struct vc_lines *lines, const uint64_t *addresses, size_t count,
		    struct vc_place *places, int64_t *work)
{
	struct vc_bytes program = lines->program;
	struct run run = {.lines = lines, .addresses = addresses, .count = count, .places = places,
			  .work = work};

	*work -= (int64_t)(vc_bytes_left(&program) / 8);
	begin_sequence(&run);
	while (program.at < program.end && !program.bad && *work > 0) {
		unsigned operation = *program.at++;

		if (operation >= lines->first_special) {
			operation -= lines->first_special;
			advance(&run, operation / lines->line_range);
			run.row.line += (uint32_t)(lines->line_base +
						   (int)(operation % lines->line_range));
			end_row(&run, false);
		} else {
			standard(&run, operation, &program);
		}
	}
}
