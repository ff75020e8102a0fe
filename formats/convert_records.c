/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/convert_parts.h"

#include <stdlib.h>
#include <string.h>

/* Beside the state of a row until the rows are sorted. */
#define FROM_RING 0x100u     /* its record has left its slot */
#define FROM_FREEING 0x200u  /* its record was being freed: the ring may know more */
#define STATE_BITS 0xffu

#define CONTAINERS_BACK 16   /* containers looked at for one block */

int vc_numbers_add(struct vc_numbers *numbers, uint64_t number)
{
	if (numbers->count == numbers->capacity) {
		uint64_t capacity = numbers->capacity ? numbers->capacity * 2 : 64;
		uint64_t *larger = realloc(numbers->number, capacity * sizeof(*larger));

		if (!larger)
			return VC_E_NO_MEMORY;
		numbers->number = larger;
		numbers->capacity = capacity;
	}
	numbers->number[numbers->count++] = number;
	return 0;
}

static int by_number(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

void vc_numbers_sort(struct vc_numbers *numbers)
{
	if (numbers->count)
		qsort(numbers->number, numbers->count, sizeof(uint64_t), by_number);
}

bool vc_numbers_have(const struct vc_numbers *numbers, uint64_t number)
{
	return numbers->count && bsearch(&number, numbers->number, numbers->count,
					 sizeof(uint64_t), by_number);
}

/* ---- records ---- */

/* A row that still holds raw ids; vc_convert_finish_records translates them. */
static int add_allocation(struct vc_conversion *conversion, const struct vc_record *record,
			  uint64_t birth, uint64_t references, uint64_t state)
{
	uint64_t row = conversion->tables.rows[VC_TABLE_allocations];

	if (row >= conversion->options->rows_max)
		return VC_E_LIMIT;
	if (vc_tables_reserve(&conversion->tables, VC_TABLE_allocations, row + 1))
		return VC_E_NO_MEMORY;
	conversion->tables.rows[VC_TABLE_allocations] = row + 1;
	VC_CELL(conversion, allocations_birth, row) = birth;
	VC_CELL(conversion, allocations_state, row) = state;
	VC_CELL(conversion, allocations_kind, row) = record->kind;
	VC_CELL(conversion, allocations_address, row) = record->address;
	VC_CELL(conversion, allocations_size, row) = record->size;
	VC_CELL(conversion, allocations_requested, row) = record->requested;
	VC_CELL(conversion, allocations_device_plus_one, row) = record->device_plus_one;
	VC_CELL(conversion, allocations_context, row) = record->context;
	VC_CELL(conversion, allocations_stream, row) = record->stream;
	VC_CELL(conversion, allocations_parent, row) = record->parent;
	VC_CELL(conversion, allocations_offset, row) = record->offset;
	VC_CELL(conversion, allocations_pool, row) = record->pool;
	VC_CELL(conversion, allocations_references, row) = references;
	VC_CELL(conversion, allocations_time, row) = vc_convert_time(conversion, record->time);
	VC_CELL(conversion, allocations_step, row) = record->step;
	VC_CELL(conversion, allocations_phase, row) = record->phase;
	VC_CELL(conversion, allocations_thread, row) = record->thread;
	VC_CELL(conversion, allocations_stack, row) = record->stack;
	VC_CELL(conversion, allocations_python, row) = record->python;
	VC_CELL(conversion, allocations_module, row) = record->module;
	VC_CELL(conversion, allocations_site, row) = record->site;
	VC_CELL(conversion, allocations_flags, row) = record->flags;
	VC_CELL(conversion, allocations_call, row) = record->call_name;
	VC_CELL(conversion, allocations_label, row) = record->label;
	VC_CELL(conversion, allocations_segment, row) = record->module_object; /* for convert_paths.c */
	VC_CELL(conversion, allocations_block_state, row) = 0;
	VC_CELL(conversion, allocations_metadata, row) = 0;
	if (record->time > conversion->latest)
		conversion->latest = record->time;
	return 0;
}

static int take_record(void *self, enum vc_item state, uint64_t slot, const void *item,
		       uint64_t offset)
{
	static const struct vc_record nothing;
	struct vc_conversion *conversion = self;
	const struct vc_record *record = item;
	uint64_t number = vc_state_number(record->state), death, row_state = VC_STATE_LIVE;

	(void)slot;
	(void)offset;
	if (state == VC_ITEM_GOOD && number > conversion->highest)
		conversion->highest = number;
	if (state == VC_ITEM_BAD || number > conversion->number)
		return 0;
	if (state == VC_ITEM_PARTIAL)
		return add_allocation(conversion, &nothing, 0, 0, VC_STATE_IN_DOUBT);
	if (vc_state_of(record->state) == VC_RECORD_FILLING)
		return add_allocation(conversion, record, 0, vc_word_value(record->references),
				      VC_STATE_IN_DOUBT);
	if (vc_state_of(record->state) == VC_RECORD_FREEING) {
		death = vc_word_value(record->death);
		if (vc_numbers_add(&conversion->freeing, number))
			return VC_E_NO_MEMORY;
		if (death && death <= conversion->number)
			row_state = VC_STATE_BEING_FREED;
		row_state |= FROM_FREEING;
		if (vc_convert_walk_missed(conversion, death) &&
		    vc_numbers_add(&conversion->missed, number))
			return VC_E_NO_MEMORY;
	}
	return add_allocation(conversion, record, number, vc_word_value(record->references),
			      row_state);
}

int vc_convert_records(struct vc_conversion *conversion)
{
	uint64_t used = vc_recording_used(&conversion->recording, VC_REC_RECORDS);
	int error;

	if (used > conversion->options->rows_max)
		used = conversion->options->rows_max;
	error = vc_tables_reserve(&conversion->tables, VC_TABLE_allocations, used);
	if (!error)
		error = vc_recording_scan(&conversion->recording, VC_REC_RECORDS, take_record,
					  conversion);
	vc_numbers_sort(&conversion->freeing);
	return error;
}

/* ---- freed ring ---- */

static int add_freed(struct vc_conversion *conversion, const struct vc_freed *freed, uint64_t entry)
{
	const struct vc_record *record = &freed->record;
	uint64_t row;
	int error;

	if (conversion->freed_next_known &&
	    entry + conversion->options->freed_max < conversion->freed_next)
		return 0;
	error = vc_tables_append(&conversion->tables, VC_TABLE_freed, &row);
	if (!error)
		error = vc_numbers_add(&conversion->entry, entry);
	if (error)
		return error;
	VC_CELL(conversion, freed_birth, row) = freed->birth;
	VC_CELL(conversion, freed_death, row) = freed->death;
	VC_CELL(conversion, freed_kind, row) = record->kind;
	VC_CELL(conversion, freed_address, row) = record->address;
	VC_CELL(conversion, freed_size, row) = record->size;
	VC_CELL(conversion, freed_requested, row) = record->requested;
	VC_CELL(conversion, freed_device_plus_one, row) = record->device_plus_one;
	VC_CELL(conversion, freed_time, row) = vc_convert_time(conversion, record->time);
	VC_CELL(conversion, freed_step, row) = record->step;
	VC_CELL(conversion, freed_thread, row) = record->thread;
	VC_CELL(conversion, freed_stack, row) = record->stack;
	VC_CELL(conversion, freed_python, row) = record->python;
	VC_CELL(conversion, freed_death_time, row) = vc_convert_time(conversion, freed->death_time);
	VC_CELL(conversion, freed_death_step, row) = freed->death_step;
	VC_CELL(conversion, freed_death_thread, row) = freed->death_thread;
	VC_CELL(conversion, freed_death_stack, row) = freed->death_stack;
	VC_CELL(conversion, freed_death_python, row) = freed->death_python;
	VC_CELL(conversion, freed_label, row) = record->label;
	if (freed->death_time > conversion->latest)
		conversion->latest = freed->death_time;
	return 0;
}

static int take_freed(void *self, enum vc_item state, uint64_t slot, const void *item,
		      uint64_t offset)
{
	struct vc_conversion *conversion = self;
	const struct vc_freed *freed = item;
	uint64_t sequence = vc_word_value(freed->sequence), references, entry;

	(void)offset;
	if (state == VC_ITEM_BAD)
		return 0;
	if (slot < conversion->slots)
		conversion->sequence[slot] = sequence;
	if (state != VC_ITEM_GOOD)
		return 0;
	entry = sequence / 2 - 1;
	if (freed->death > conversion->highest)
		conversion->highest = freed->death;
	if (freed->death <= conversion->number && entry >= conversion->newest_before)
		conversion->newest_before = entry + 1;
	if (freed->birth > conversion->number)
		return 0;
	if (freed->death > conversion->number) {
		if (vc_convert_walk_missed(conversion, freed->death) &&
		    vc_numbers_add(&conversion->missed, freed->birth))
			return VC_E_NO_MEMORY;
		references = vc_word_good(freed->record.references) ?
				     vc_word_value(freed->record.references) :
				     0;
		return add_allocation(conversion, &freed->record, freed->birth, references,
				      VC_STATE_LIVE | FROM_RING);
	}
	if (vc_numbers_have(&conversion->freeing, freed->birth) &&
	    vc_numbers_add(&conversion->gone, freed->birth))
		return VC_E_NO_MEMORY;
	return add_freed(conversion, freed, entry);
}

/*
 * An entry whose slot holds an older one was not overwritten: it had not been written yet, so its
 * record had not left its own slot when the records were read, which was before; or its number was
 * given up for another one. A slot that was never used though the ring has gone round is new: the
 * entry was elsewhere.
 */
static bool entry_overwritten(uint64_t sequence, uint64_t entry, uint64_t ring_slots)
{
	return sequence >= 2 * (entry + 1) || (!sequence && entry >= ring_slots);
}

/* Counts the entries from N at S to `end` that were overwritten before they were read. */
static int find_missing(struct vc_conversion *conversion, uint64_t end)
{
	struct vc_recording *recording = &conversion->recording;
	uint64_t ring_slots = vc_recording_value(recording, &recording->root->freed_slots, 0);
	uint64_t from = conversion->freed_next_known ? conversion->freed_next :
						       conversion->newest_before;
	uint64_t back = 2 * conversion->slots, low = from, missing = 0;
	uint8_t *found;

	if (end <= from)
		return 0;
	/* the few that a map of bits is worth; further back hardly any entry can be left */
	if (end - from > back) {
		low = end - back;
		missing = low - from;
	}
	found = calloc(1, (end - low) / 8 + 1);
	if (!found)
		return VC_E_NO_MEMORY;
	for (uint64_t slot = 0; slot < conversion->slots; slot++) {
		uint64_t sequence = conversion->sequence[slot], entry = sequence / 2 - 1;

		if (!sequence || sequence & 1 || entry < from || entry >= end)
			continue;
		if (entry >= low)
			found[(entry - low) / 8] |= (uint8_t)(1u << (entry - low) % 8);
		else if (missing)
			missing--;
	}
	for (uint64_t entry = low; entry < end; entry++) {
		uint64_t slot = ring_slots ? entry % ring_slots : 0;

		if (found[(entry - low) / 8] >> (entry - low) % 8 & 1)
			continue;
		missing += slot >= conversion->slots ||
			   entry_overwritten(conversion->sequence[slot], entry, ring_slots);
	}
	free(found);
	conversion->deaths_missing = missing;
	return 0;
}

int vc_convert_freed(struct vc_conversion *conversion)
{
	struct vc_recording *recording = &conversion->recording;
	uint64_t end = vc_recording_value(recording, &recording->root->freed_next, 0);
	int error;

	conversion->slots = vc_recording_used(recording, VC_REC_FREED);
	conversion->sequence = calloc(conversion->slots + 1, sizeof(uint64_t));
	if (!conversion->sequence)
		return VC_E_NO_MEMORY;
	error = vc_recording_scan(recording, VC_REC_FREED, take_freed, conversion);
	if (!error)
		error = find_missing(conversion, end);
	free(conversion->sequence);
	conversion->sequence = NULL;
	vc_numbers_sort(&conversion->gone);
	vc_numbers_sort(&conversion->missed);
	return error;
}

/* ---- order ---- */

struct keyed {
	uint64_t key;
	uint32_t row;
};

/* Least significant byte first: stable, and linear where keys are dense. */
static int sort_keyed(struct keyed *keyed, uint64_t count)
{
	struct keyed *from = keyed, *to;
	uint64_t any = 0;
	bool sorted = true;

	for (uint64_t i = 0; i < count; i++) {
		any |= keyed[i].key;
		sorted &= !i || keyed[i - 1].key <= keyed[i].key;
	}
	if (sorted)
		return 0;
	to = malloc(count * sizeof(*to));
	if (!to)
		return VC_E_NO_MEMORY;
	for (unsigned shift = 0; shift < 64 && any >> shift; shift += 8) {
		uint64_t start[257] = {0};
		struct keyed *swap = from;

		for (uint64_t i = 0; i < count; i++)
			start[(from[i].key >> shift & 255) + 1]++;
		for (unsigned i = 0; i < 256; i++)
			start[i + 1] += start[i];
		for (uint64_t i = 0; i < count; i++)
			to[start[from[i].key >> shift & 255]++] = from[i];
		from = to;
		to = swap;
	}
	if (from != keyed) {
		memcpy(keyed, from, count * sizeof(*keyed));
		to = from;
	}
	free(to);
	return 0;
}

/* Makes `count` rows of a table out of the rows that `keyed` names, in that order. */
static int take_rows(struct vc_tables *tables, enum vc_table_index table,
		     const struct keyed *keyed, uint64_t count)
{
	const struct vc_table_info *info = &vc_table_info[table];
	bool same = count == tables->rows[table];
	uint64_t *gathered;

	for (uint64_t i = 0; same && i < count; i++)
		same = keyed[i].row == i;
	if (same)
		return 0;
	gathered = malloc(tables->capacity[table] * sizeof(*gathered));
	if (!gathered)
		return VC_E_NO_MEMORY;
	for (unsigned c = info->first; c < info->first + (unsigned)info->columns; c++) {
		uint64_t *before = tables->column[c];

		for (uint64_t i = 0; i < count; i++)
			gathered[i] = before[keyed[i].row];
		tables->column[c] = gathered;
		gathered = before; /* each has room for `capacity` rows */
	}
	free(gathered);
	tables->rows[table] = count;
	return 0;
}

/* Whether the ring says that a record which was being freed died at or before S. */
static bool row_given_up(struct vc_conversion *conversion, uint64_t row)
{
	return VC_CELL(conversion, allocations_state, row) & FROM_FREEING &&
	       vc_numbers_have(&conversion->gone, VC_CELL(conversion, allocations_birth, row));
}

static int sort_allocations(struct vc_conversion *conversion)
{
	uint64_t rows = conversion->tables.rows[VC_TABLE_allocations], kept = 0;
	const uint64_t *birth = conversion->tables.column[VC_COL_allocations_birth];
	uint64_t *state = conversion->tables.column[VC_COL_allocations_state];
	struct keyed *keyed = malloc((rows + 1) * sizeof(*keyed));
	int error;

	if (!keyed)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < rows; i++)
		keyed[i] = (struct keyed){birth[i], (uint32_t)i};
	error = sort_keyed(keyed, rows);
	for (uint64_t i = 0; !error && i < rows; i++) {
		uint32_t row = keyed[i].row;

		if (row_given_up(conversion, row))
			continue;
		if (kept && keyed[i].key && keyed[kept - 1].key == keyed[i].key) {
			bool ring = state[row] & FROM_RING;

			if (ring == !!(state[keyed[kept - 1].row] & FROM_RING))
				vc_recording_fault(&conversion->recording, VC_E_CORRUPT,
						   ring ? "freed" : "records", 0);
			if (ring)
				keyed[kept - 1] = keyed[i];
			continue;
		}
		keyed[kept++] = keyed[i];
	}
	if (!error)
		error = take_rows(&conversion->tables, VC_TABLE_allocations, keyed, kept);
	free(keyed);
	for (uint64_t i = 0; !error && i < kept; i++)
		VC_CELL(conversion, allocations_state, i) &= STATE_BITS;
	return error;
}

static int sort_freed(struct vc_conversion *conversion)
{
	uint64_t rows = conversion->tables.rows[VC_TABLE_freed], skip = 0, kept = 0;
	struct keyed *keyed = malloc((rows + 1) * sizeof(*keyed));
	int error;

	if (!keyed)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < rows; i++)
		keyed[i] = (struct keyed){conversion->entry.number[i], (uint32_t)i};
	error = sort_keyed(keyed, rows);
	for (uint64_t i = 0; i < rows; i++) {
		/* a slot that was read twice */
		if (!kept || keyed[kept - 1].key != keyed[i].key)
			keyed[kept++] = keyed[i];
	}
	if (kept > conversion->options->freed_max)
		skip = kept - conversion->options->freed_max;
	if (!error)
		error = take_rows(&conversion->tables, VC_TABLE_freed, keyed + skip, kept - skip);
	free(keyed);
	return error;
}

/* ---- references ---- */

/* Ids of the recording in a column become rows of the table they refer to. */
static int translate(struct vc_conversion *conversion, enum vc_column_index column,
		     int (*one)(struct vc_conversion *conversion, uint64_t id, uint64_t *ret))
{
	uint64_t *value = conversion->tables.column[column];
	uint64_t rows = conversion->tables.rows[vc_column_info[column].table];

	for (uint64_t i = 0; i < rows; i++) {
		int error = one(conversion, value[i], &value[i]);

		if (error)
			return error;
	}
	return 0;
}

static void translate_sites(struct vc_conversion *conversion)
{
	uint64_t *value = conversion->tables.column[VC_COL_allocations_site];
	const uint64_t *state = conversion->tables.column[VC_COL_allocations_state];

	/* a record in doubt belongs to no site yet */
	for (uint64_t i = 0; i < conversion->tables.rows[VC_TABLE_allocations]; i++)
		value[i] = state[i] != VC_STATE_IN_DOUBT && value[i] < conversion->sites ?
				   conversion->site_row[value[i]] :
				   0;
}

/* ---- what a block lies in ---- */

struct container {
	uint64_t address, size, birth;
};

static int by_address(const void *left, const void *right)
{
	const struct container *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->birth < b->birth ? -1 : a->birth > b->birth;
}

/* Kinds whose address is one that a block can lie at. */
static bool holds_blocks(uint64_t kind)
{
	switch (kind) {
	case VC_KIND_LINEAR:
	case VC_KIND_PITCHED:
	case VC_KIND_MANAGED:
	case VC_KIND_ASYNC:
	case VC_KIND_MAPPING:
	case VC_KIND_PINNED:
	case VC_KIND_REGISTERED:
	case VC_KIND_IMPORT:
	case VC_KIND_GRAPH_ALLOCATION:
		return true;
	default:
		return false;
	}
}

/* The newest container born before `birth` that holds `address`; 0: none. */
static uint64_t find_container(const struct container *container, uint64_t count, uint64_t address,
			       uint64_t birth)
{
	uint64_t low = 0, high = count, best = 0;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (container[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (unsigned back = 0; back < CONTAINERS_BACK && back < low; back++) {
		const struct container *at = &container[low - 1 - back];

		if (address - at->address < at->size && at->birth < birth && at->birth > best)
			best = at->birth;
	}
	return best;
}

static int fill_parents_of(struct vc_conversion *conversion, uint64_t inner, bool in_blocks)
{
	uint64_t rows = conversion->tables.rows[VC_TABLE_allocations], count = 0, orphans = 0;
	struct container *container;

	for (uint64_t i = 0; i < rows; i++) {
		uint64_t kind = VC_CELL(conversion, allocations_kind, i);

		orphans += kind == inner && !VC_CELL(conversion, allocations_parent, i);
		count += in_blocks ? kind == VC_KIND_BLOCK : holds_blocks(kind);
	}
	if (!orphans || !count)
		return 0;
	container = malloc(count * sizeof(*container));
	if (!container)
		return VC_E_NO_MEMORY;
	count = 0;
	for (uint64_t i = 0; i < rows; i++) {
		uint64_t kind = VC_CELL(conversion, allocations_kind, i);
		uint64_t birth = VC_CELL(conversion, allocations_birth, i);

		if (birth && (in_blocks ? kind == VC_KIND_BLOCK : holds_blocks(kind)))
			container[count++] = (struct container){
				VC_CELL(conversion, allocations_address, i),
				VC_CELL(conversion, allocations_size, i), birth};
	}
	qsort(container, count, sizeof(*container), by_address);
	for (uint64_t i = 0; i < rows; i++) {
		uint64_t birth = VC_CELL(conversion, allocations_birth, i);

		if (VC_CELL(conversion, allocations_kind, i) == inner &&
		    !VC_CELL(conversion, allocations_parent, i))
			VC_CELL(conversion, allocations_parent, i) =
				find_container(container, count,
					       VC_CELL(conversion, allocations_address, i),
					       birth ? birth : UINT64_MAX);
	}
	free(container);
	return 0;
}

static int fill_parents(struct vc_conversion *conversion)
{
	int error = fill_parents_of(conversion, VC_KIND_BLOCK, false);

	if (!error) /* a tensor lies in a block where there is one */
		error = fill_parents_of(conversion, VC_KIND_TENSOR, true);
	if (!error)
		error = fill_parents_of(conversion, VC_KIND_TENSOR, false);
	return error;
}

int vc_convert_finish_records(struct vc_conversion *conversion)
{
	static const enum vc_column_index strings[] = {
		VC_COL_allocations_phase, VC_COL_allocations_module, VC_COL_allocations_call,
		VC_COL_allocations_label, VC_COL_freed_label,
	};
	static const enum vc_column_index stacks[] = {
		VC_COL_allocations_stack, VC_COL_freed_stack, VC_COL_freed_death_stack,
	};
	static const enum vc_column_index pythons[] = {
		VC_COL_allocations_python, VC_COL_freed_python, VC_COL_freed_death_python,
	};
	int error = sort_allocations(conversion);

	if (!error)
		error = sort_freed(conversion);
	for (size_t i = 0; !error && i < sizeof(strings) / sizeof(*strings); i++)
		error = translate(conversion, strings[i], vc_convert_string);
	for (size_t i = 0; !error && i < sizeof(stacks) / sizeof(*stacks); i++)
		error = translate(conversion, stacks[i], vc_convert_stack);
	for (size_t i = 0; !error && i < sizeof(pythons) / sizeof(*pythons); i++)
		error = translate(conversion, pythons[i], vc_convert_python);
	if (!error)
		error = fill_parents(conversion);
	if (!error)
		translate_sites(conversion);
	return error;
}
