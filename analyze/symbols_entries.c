/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <stdlib.h>

#include "analyze/symbols_private.h"
#include "formats/error.h"

/*
 * libdw reads an entry again for each question about it, and all of its attributes to find the next
 * one. Here each is read once, forwards, by a description made from the abbreviations: attributes
 * that nobody asks for and that have a fixed size are one step.
 */

/* What an attribute is read for. */
enum use {
	USE_NONE,
	USE_SIBLING,
	USE_LOW,
	USE_HIGH,
	USE_RANGES,
	USE_ORIGIN,
	USE_NAME,
	USE_CALL_FILE,
	USE_CALL_LINE,
};

struct vc_step {
	uint32_t size; /* fixed: bytes to step over; else VARIES */
	uint16_t form;
	uint8_t use;
	int64_t constant; /* of DW_FORM_implicit_const */
};

struct vc_abbreviation {
	uint64_t code;
	size_t first, count; /* steps */
	uint16_t tag;
	bool children;
};

#define VARIES UINT32_MAX
enum { ABBREVIATIONS_MAX = 1 << 20 };

static uint8_t use_of(uint64_t name)
{
	switch (name) {
	case DW_AT_sibling:
		return USE_SIBLING;
	case DW_AT_low_pc:
		return USE_LOW;
	case DW_AT_high_pc:
		return USE_HIGH;
	case DW_AT_ranges:
		return USE_RANGES;
	case DW_AT_abstract_origin:
		return USE_ORIGIN;
	case DW_AT_name:
	case DW_AT_linkage_name:
	case DW_AT_MIPS_linkage_name:
		return USE_NAME;
	case DW_AT_call_file:
		return USE_CALL_FILE;
	case DW_AT_call_line:
		return USE_CALL_LINE;
	default:
		return USE_NONE;
	}
}

static uint32_t size_of_form(const struct vc_entries *entries, uint64_t form)
{
	switch (form) {
	case DW_FORM_flag_present:
	case DW_FORM_implicit_const:
		return 0;
	case DW_FORM_data1:
	case DW_FORM_flag:
	case DW_FORM_ref1:
	case DW_FORM_strx1:
	case DW_FORM_addrx1:
		return 1;
	case DW_FORM_data2:
	case DW_FORM_ref2:
	case DW_FORM_strx2:
	case DW_FORM_addrx2:
		return 2;
	case DW_FORM_strx3:
	case DW_FORM_addrx3:
		return 3;
	case DW_FORM_data4:
	case DW_FORM_ref4:
	case DW_FORM_ref_sup4:
	case DW_FORM_strx4:
	case DW_FORM_addrx4:
		return 4;
	case DW_FORM_data8:
	case DW_FORM_ref8:
	case DW_FORM_ref_sup8:
	case DW_FORM_ref_sig8:
		return 8;
	case DW_FORM_data16:
		return 16;
	case DW_FORM_addr:
		return entries->address_size;
	case DW_FORM_ref_addr:
		return entries->version <= 2 ? entries->address_size : entries->offset_size;
	case DW_FORM_strp:
	case DW_FORM_strp_sup:
	case DW_FORM_line_strp:
	case DW_FORM_sec_offset:
	case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt:
		return entries->offset_size;
	default:
		return VARIES;
	}
}

/* Room for one more of them. */
static void *grown(void *array, size_t count, size_t *capacity, size_t size)
{
	size_t larger = *capacity ? *capacity * 2 : 256;

	if (count < *capacity)
		return array;
	array = reallocarray(array, larger, size);
	if (array)
		*capacity = larger;
	return array;
}

static int add_step(struct vc_entries *entries, struct vc_abbreviation *abbreviation,
		    const struct vc_step *step)
{
	struct vc_step *last = abbreviation->count ? &entries->steps[entries->step_count - 1] : NULL;
	struct vc_step *all;

	if (last && step->use == USE_NONE && step->size != VARIES && last->use == USE_NONE &&
	    last->size < UINT16_MAX) {
		last->size += step->size;
		return 0;
	}
	all = grown(entries->steps, entries->step_count, &entries->step_capacity, sizeof(*all));
	if (!all)
		return VC_E_NO_MEMORY;
	entries->steps = all;
	all[entries->step_count++] = *step;
	abbreviation->count++;
	return 0;
}

static int read_steps(struct vc_entries *entries, struct vc_bytes *bytes,
		      struct vc_abbreviation *abbreviation)
{
	int error = 0;

	while (!error && !bytes->bad) {
		uint64_t name = vc_bytes_leb(bytes), form = vc_bytes_leb(bytes);
		struct vc_step step = {.form = (uint16_t)form, .use = use_of(name)};

		if (!name && !form)
			break;
		if (form > UINT16_MAX)
			return VC_E_CORRUPT;
		step.size = size_of_form(entries, form);
		if (form == DW_FORM_implicit_const)
			step.constant = vc_bytes_signed_leb(bytes);
		error = add_step(entries, abbreviation, &step);
	}
	return error;
}

static int compare_codes(const void *left, const void *right)
{
	const struct vc_abbreviation *a = left, *b = right;

	return a->code < b->code ? -1 : a->code > b->code;
}

static int read_abbreviations(struct vc_entries *entries, struct vc_bytes bytes)
{
	bool rising = true;
	int error = 0;

	entries->abbreviation_count = entries->step_count = 0;
	while (!error && !bytes.bad) {
		struct vc_abbreviation next = {.code = vc_bytes_leb(&bytes)}, *all;

		if (!next.code)
			break;
		if (entries->abbreviation_count == ABBREVIATIONS_MAX)
			return VC_E_CORRUPT;
		next.tag = (uint16_t)vc_bytes_leb(&bytes);
		next.children = vc_bytes_fixed(&bytes, 1) != 0;
		next.first = entries->step_count;
		error = read_steps(entries, &bytes, &next);
		if (error)
			break;
		all = grown(entries->abbreviations, entries->abbreviation_count,
			    &entries->abbreviation_capacity, sizeof(*all));
		if (!all)
			return VC_E_NO_MEMORY;
		entries->abbreviations = all;
		rising &= !entries->abbreviation_count ||
			  all[entries->abbreviation_count - 1].code < next.code;
		all[entries->abbreviation_count++] = next;
	}
	if (!rising)
		qsort(entries->abbreviations, entries->abbreviation_count,
		      sizeof(*entries->abbreviations), compare_codes);
	return error;
}

int vc_entries_open(struct vc_entries *entries, const struct vc_sections *sections,
		    Dwarf_Die *unit, int64_t *work)
{
	struct vc_entries old = *entries;
	struct vc_bytes bytes;
	Dwarf_Half version;
	Dwarf_Off abbreviations;
	Dwarf_Die die;
	uint64_t length;
	int error;

	if (!dwarf_cu_die(unit->cu, &die, &version, &abbreviations, &entries->address_size,
			  &entries->offset_size, NULL, NULL))
		return VC_E_CORRUPT;
	entries->version = version;
	entries->section = sections->entries;
	entries->unit = dwarf_dieoffset(unit) - dwarf_cuoffset(unit);
	bytes = vc_bytes_from(sections->entries, entries->unit);
	length = vc_bytes_fixed(&bytes, 4);
	if (length == 0xffffffff)
		length = vc_bytes_fixed(&bytes, 8);
	if (length < vc_bytes_left(&bytes))
		bytes.end = bytes.at + length;
	entries->bytes = (struct vc_bytes){.at = sections->entries.at, .end = bytes.end};
	vc_bytes_skip(&entries->bytes, dwarf_dieoffset(unit));
	if (bytes.bad || entries->bytes.bad)
		return VC_E_CORRUPT;
	/* Units may share their abbreviations, and a made-up file may have many that do. */
	if (old.abbreviations_at == sections->abbreviations.at + abbreviations &&
	    old.version == entries->version && old.address_size == entries->address_size &&
	    old.offset_size == entries->offset_size)
		return 0;
	error = read_abbreviations(entries, vc_bytes_from(sections->abbreviations, abbreviations));
	entries->abbreviations_at = error ? NULL : sections->abbreviations.at + abbreviations;
	*work -= (int64_t)(entries->abbreviation_count + entries->step_count);
	return error;
}

void vc_entries_deinit(struct vc_entries *entries)
{
	free(entries->abbreviations);
	free(entries->steps);
	*entries = (struct vc_entries){0};
}

static const struct vc_abbreviation *find_abbreviation(const struct vc_entries *entries,
						       uint64_t code)
{
	struct vc_abbreviation key = {.code = code};

	/* Compilers number them from 1 on. */
	if (code - 1 < entries->abbreviation_count && entries->abbreviations[code - 1].code == code)
		return &entries->abbreviations[code - 1];
	return entries->abbreviation_count ?
		       bsearch(&key, entries->abbreviations, entries->abbreviation_count,
			       sizeof(key), compare_codes) :
		       NULL;
}

/* Steps over a value of a form without a fixed size; the number in it where that is all it is. */
static uint64_t read_varying(const struct vc_entries *entries, struct vc_bytes *bytes,
			     uint64_t form)
{
	uint32_t size;

	switch (form) {
	case DW_FORM_string:
		vc_bytes_text(bytes);
		break;
	case DW_FORM_block1:
		vc_bytes_skip(bytes, vc_bytes_fixed(bytes, 1));
		break;
	case DW_FORM_block2:
		vc_bytes_skip(bytes, vc_bytes_fixed(bytes, 2));
		break;
	case DW_FORM_block4:
		vc_bytes_skip(bytes, vc_bytes_fixed(bytes, 4));
		break;
	case DW_FORM_block:
	case DW_FORM_exprloc:
		vc_bytes_skip(bytes, vc_bytes_leb(bytes));
		break;
	case DW_FORM_sdata:
		return (uint64_t)vc_bytes_signed_leb(bytes);
	case DW_FORM_udata:
	case DW_FORM_ref_udata:
	case DW_FORM_strx:
	case DW_FORM_addrx:
	case DW_FORM_loclistx:
	case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index:
	case DW_FORM_GNU_str_index:
		return vc_bytes_leb(bytes);
	case DW_FORM_indirect:
		form = vc_bytes_leb(bytes);
		size = size_of_form(entries, form);
		if (form == DW_FORM_indirect || form == DW_FORM_implicit_const)
			vc_bytes_fail(bytes);
		else if (size != VARIES)
			vc_bytes_skip(bytes, size);
		else
			read_varying(entries, bytes, form);
		break;
	default:
		vc_bytes_fail(bytes);
		break;
	}
	return 0;
}

static uint64_t read_value(const struct vc_entries *entries, struct vc_bytes *bytes,
			   const struct vc_step *step)
{
	if (step->form == DW_FORM_implicit_const)
		return (uint64_t)step->constant;
	if (step->size == VARIES)
		return read_varying(entries, bytes, step->form);
	if (step->size <= 8)
		return vc_bytes_fixed(bytes, step->size);
	vc_bytes_skip(bytes, step->size);
	return 0;
}

static bool in_unit(unsigned form)
{
	return form == DW_FORM_ref1 || form == DW_FORM_ref2 || form == DW_FORM_ref4 ||
	       form == DW_FORM_ref8 || form == DW_FORM_ref_udata;
}

/* Forms of DW_AT_high_pc: an address, or a number that is a size. */
static bool is_number(unsigned form)
{
	return form == DW_FORM_data1 || form == DW_FORM_data2 || form == DW_FORM_data4 ||
	       form == DW_FORM_data8 || form == DW_FORM_udata || form == DW_FORM_implicit_const;
}

static void note(const struct vc_entries *entries, struct vc_entry *entry,
		 const struct vc_step *step, uint64_t value)
{
	switch (step->use) {
	case USE_SIBLING:
		entry->sibling = in_unit(step->form) ? entries->unit + value : 0;
		break;
	case USE_LOW:
		entry->has_code = true;
		entry->simple |= step->form == DW_FORM_addr;
		entry->low = value;
		break;
	case USE_HIGH:
		entry->has_high = step->form == DW_FORM_addr || is_number(step->form);
		entry->high_is_size = step->form != DW_FORM_addr;
		entry->high = value;
		break;
	case USE_RANGES:
		entry->has_code = entry->has_ranges = true;
		break;
	case USE_ORIGIN:
		if (in_unit(step->form))
			entry->origin = entries->unit + value;
		break;
	case USE_NAME:
		entry->named = true;
		break;
	case USE_CALL_FILE:
		entry->call_file = value;
		break;
	case USE_CALL_LINE:
		entry->call_line = value;
		break;
	default:
		break;
	}
}

bool vc_entries_next(struct vc_entries *entries, struct vc_entry *ret)
{
	struct vc_bytes *bytes = &entries->bytes;
	const struct vc_abbreviation *abbreviation;
	const struct vc_step *step, *end;
	uint64_t code;

	if (!vc_bytes_left(bytes))
		return false;
	*ret = (struct vc_entry){.offset = (uint64_t)(bytes->at - entries->section.at)};
	code = vc_bytes_leb(bytes);
	if (!code)
		return !bytes->bad;
	abbreviation = find_abbreviation(entries, code);
	if (!abbreviation) {
		vc_bytes_fail(bytes);
		return false;
	}
	ret->tag = abbreviation->tag;
	ret->children = abbreviation->children;
	step = entries->steps + abbreviation->first;
	for (end = step + abbreviation->count; step < end; step++) {
		if (step->use != USE_NONE)
			note(entries, ret, step, read_value(entries, bytes, step));
		else if (step->size != VARIES)
			vc_bytes_skip(bytes, step->size);
		else
			read_varying(entries, bytes, step->form);
	}
	ret->simple &= ret->has_high && !ret->has_ranges;
	if (ret->high_is_size)
		ret->high += ret->low;
	return !bytes->bad;
}

static bool step_to_sibling(struct vc_entries *entries, const struct vc_entry *entry)
{
	uint64_t here = (uint64_t)(entries->bytes.at - entries->section.at);

	if (entry->sibling < here || entry->sibling - here > vc_bytes_left(&entries->bytes))
		return false;
	entries->bytes.at += entry->sibling - here;
	return true;
}

void vc_entries_skip(struct vc_entries *entries, const struct vc_entry *entry, int64_t *work)
{
	unsigned depth = 1;
	struct vc_entry next;

	if (!entry->children || step_to_sibling(entries, entry))
		return;
	while (depth > 0 && *work > 0 && vc_entries_next(entries, &next)) {
		--*work;
		if (!next.tag)
			depth--;
		else if (next.children && !step_to_sibling(entries, &next))
			depth++;
	}
}
