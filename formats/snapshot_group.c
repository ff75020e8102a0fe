/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/snapshot_group.h"

#include <stdlib.h>
#include <string.h>

#include "formats/snapshot_layout.h"

#define NO_COLUMN UINT32_MAX

/* Most columns of one table that this reader knows. */
#define KNOWN_COLUMNS 64u
_Static_assert(VC_COLUMNS <= 6 * KNOWN_COLUMNS, "make sure that no table has more columns");

struct entry {
	uint16_t number;
	uint8_t type, encoding;
	uint32_t flags;
	uint64_t offset, length;
	unsigned column;       /* enum vc_column_index, or NO_COLUMN */
	const uint64_t *values; /* once decoded */
	struct entry *key;     /* of KEYED_PLANES */
};

struct group {
	struct vc_group_reader *reader;
	enum vc_table_index table;
	const uint8_t *bytes;
	size_t length;
	uint64_t first, rows;
	uint32_t columns;
	struct entry *entries;
	struct entry *known[KNOWN_COLUMNS]; /* by place in the table; NULL: not there */
	const struct entry *key_built; /* whose values reader->key holds */
	unsigned scratch_used;
};

/* No more columns than these can be keys that nobody asked for: each is a known column. */
#define SCRATCH_COLUMNS 4u

int vc_group_reader_init(struct vc_group_reader *reader, struct vc_tables *tables,
			 uint64_t rows_max, uint64_t bytes_max)
{
	memset(reader, 0, sizeof(*reader));
	reader->tables = tables;
	reader->rows_max = rows_max;
	reader->bytes_left = bytes_max;
	reader->key = malloc(sizeof(*reader->key));
	return reader->key ? 0 : VC_E_NO_MEMORY;
}

void vc_group_reader_deinit(struct vc_group_reader *reader)
{
	free(reader->key);
	free(reader->scratch);
	memset(reader, 0, sizeof(*reader));
}

static unsigned find_column(enum vc_table_index table, uint16_t number)
{
	const struct vc_table_info *info = &vc_table_info[table];

	for (unsigned i = info->first; i < vc_table_end(table); i++)
		if (vc_column_info[i].number == number)
			return i;
	return NO_COLUMN;
}

static struct entry **known_entry(struct group *group, unsigned column)
{
	return &group->known[column - vc_table_info[group->table].first];
}

static int read_entry(struct group *group, struct vc_cursor *cursor, uint32_t index,
		      uint64_t *data_end)
{
	struct entry entry = {0};

	if (vc_cursor_u16(cursor, &entry.number) || vc_cursor_u8(cursor, &entry.type) ||
	    vc_cursor_u8(cursor, &entry.encoding) || vc_cursor_u32(cursor, &entry.flags) ||
	    vc_cursor_u64(cursor, &entry.offset) || vc_cursor_u64(cursor, &entry.length))
		return VC_E_TRUNCATED;
	entry.column = find_column(group->table, entry.number);
	if (entry.column == NO_COLUMN && !(entry.flags & VC_COLUMN_MAY_IGNORE))
		return VC_E_UNKNOWN_COLUMN;
	if (entry.column != NO_COLUMN &&
	    entry.type != vc_snapshot_type_number(vc_column_info[entry.column].type))
		return VC_E_CORRUPT;
	/* Data lies in the order of the directory without gaps. */
	if (entry.offset != *data_end || entry.length > group->length - *data_end)
		return VC_E_CORRUPT;
	*data_end += entry.length;
	group->entries[index] = entry;
	if (entry.column != NO_COLUMN) {
		if (*known_entry(group, entry.column))
			return VC_E_CORRUPT;
		*known_entry(group, entry.column) = &group->entries[index];
	}
	return 0;
}

static int read_directory(struct group *group)
{
	uint32_t rows, columns;
	struct vc_cursor cursor;
	uint64_t data_end;

	vc_cursor_init(&cursor, group->bytes, group->length, 0);
	if (vc_cursor_u64(&cursor, &group->first) || vc_cursor_u32(&cursor, &rows) ||
	    vc_cursor_u32(&cursor, &columns))
		return VC_E_TRUNCATED;
	if (rows > VC_GROUP_ROWS || columns > VC_SNAPSHOT_GROUP_COLUMNS_MAX)
		return VC_E_CORRUPT;
	group->rows = rows;
	group->entries = calloc((size_t)columns + 1, sizeof(*group->entries));
	if (!group->entries)
		return VC_E_NO_MEMORY;
	group->columns = columns;
	data_end = VC_SNAPSHOT_GROUP_HEAD_BYTES + (uint64_t)columns * VC_SNAPSHOT_DIRECTORY_BYTES;
	if (data_end > group->length)
		return VC_E_TRUNCATED;
	for (uint32_t i = 0; i < columns; i++) {
		int error = read_entry(group, &cursor, i, &data_end);

		if (error)
			return error;
	}
	return data_end == group->length ? 0 : VC_E_CORRUPT;
}

/* ---- columns ---- */

static void entry_cursor(const struct group *group, const struct entry *entry,
			 struct vc_cursor *ret)
{
	vc_cursor_init(ret, group->bytes + entry->offset, entry->length, entry->offset);
}

/*
 * Keys stand before what they are keys of, so that following them comes to an end. They are
 * followed as far as a column nobody needs is never decoded.
 */
static int link_key(struct group *group, struct entry *entry)
{
	struct vc_cursor cursor;
	unsigned column;
	uint16_t number;
	int error;

	if (entry->encoding != VC_ENCODING_KEYED_PLANES)
		return 0;
	entry_cursor(group, entry, &cursor);
	error = vc_column_key_column(&cursor, &number);
	if (error)
		return error;
	column = find_column(group->table, number);
	if (column == NO_COLUMN)
		return VC_E_CORRUPT;
	entry->key = *known_entry(group, column);
	if (!entry->key || entry->key >= entry)
		return VC_E_CORRUPT;
	return 0;
}

/* Room for a key column that nobody asked for. Few readers need it. */
static uint64_t *scratch_column(struct group *group)
{
	struct vc_group_reader *reader = group->reader;

	if (group->scratch_used == SCRATCH_COLUMNS)
		return NULL;
	if (!reader->scratch)
		reader->scratch = malloc(sizeof(uint64_t) * VC_GROUP_ROWS * SCRATCH_COLUMNS);
	if (!reader->scratch)
		return NULL;
	return reader->scratch + (size_t)VC_GROUP_ROWS * group->scratch_used++;
}

static int decode_entry(struct group *group, struct entry *entry)
{
	struct vc_tables *tables = group->reader->tables;
	uint64_t *values = tables->column[entry->column];
	struct vc_cursor cursor;
	int error = 0;

	if (values) {
		values += tables->rows[group->table];
	} else {
		values = scratch_column(group);
		if (!values)
			return VC_E_LIMIT;
	}
	if (entry->key && group->key_built != entry->key) {
		error = vc_column_key_build(entry->key->values, group->rows, group->reader->key);
		group->key_built = entry->key;
	}
	entry_cursor(group, entry, &cursor);
	if (!error)
		error = vc_column_decode(&cursor, entry->encoding, group->rows,
					 entry->key ? group->reader->key : NULL, values);
	entry->values = values;
	return error;
}

/* Marks what is needed, from the end: a key is needed by what is keyed by it. */
static int decode_columns(struct group *group)
{
	const struct vc_tables *tables = group->reader->tables;
	bool *needed = calloc((size_t)group->columns + 1, sizeof(*needed));
	int error = needed ? 0 : VC_E_NO_MEMORY;

	for (uint32_t i = group->columns; !error && i-- > 0;) {
		struct entry *entry = &group->entries[i];

		if (entry->column == NO_COLUMN || (!needed[i] && !tables->column[entry->column]))
			continue;
		needed[i] = true;
		error = link_key(group, entry);
		if (!error && entry->key)
			needed[entry->key - group->entries] = true;
	}
	for (uint32_t i = 0; !error && i < group->columns; i++)
		if (needed[i])
			error = decode_entry(group, &group->entries[i]);
	free(needed);
	return error;
}

/* Columns that the group does not have read as 0. */
static void clear_missing(struct group *group)
{
	const struct vc_table_info *info = &vc_table_info[group->table];
	struct vc_tables *tables = group->reader->tables;

	for (unsigned i = info->first; i < vc_table_end(group->table); i++)
		if (tables->column[i] && !*known_entry(group, i))
			memset(tables->column[i] + tables->rows[group->table], 0,
			       group->rows * sizeof(uint64_t));
}

static int read_text(struct group *group)
{
	struct entry *entry = *known_entry(group, VC_COL_strings_text);
	struct vc_cursor cursor;
	uint64_t *lengths;
	const char *bytes;
	int error;

	if (!entry || entry->encoding != VC_ENCODING_TEXT)
		return VC_E_CORRUPT;
	if (group->reader->bytes_left < entry->length + group->rows)
		return VC_E_LIMIT;
	lengths = malloc((group->rows + 1) * sizeof(*lengths));
	if (!lengths)
		return VC_E_NO_MEMORY;
	entry_cursor(group, entry, &cursor);
	error = vc_column_decode_text(&cursor, group->rows, lengths, &bytes);
	if (!error)
		error = vc_tables_load_strings(group->reader->tables, lengths, group->rows, bytes);
	if (!error)
		group->reader->bytes_left -= entry->length + group->rows;
	free(lengths);
	return error;
}

/* ---- rows ---- */

/* Whether rows of this table are referred to by their number. */
static bool numbered(enum vc_table_index table)
{
	switch (table) {
	case VC_TABLE_strings:
	case VC_TABLE_modules:
	case VC_TABLE_frames:
	case VC_TABLE_stacks:
	case VC_TABLE_sites:
	case VC_TABLE_failures:
	case VC_TABLE_symbol_frames:
		return true;
	default:
		return false;
	}
}

/* Room for rows in the limits; the bytes they take count as taken. */
static int take_rows(struct vc_group_reader *reader, enum vc_table_index table, uint64_t rows)
{
	const struct vc_table_info *info = &vc_table_info[table];
	uint64_t have = reader->tables->rows[table], row_bytes = 0;

	for (unsigned i = info->first; i < vc_table_end(table); i++)
		row_bytes += reader->tables->column[i] || table == VC_TABLE_strings ? 8 : 0;
	if (have > reader->rows_max || rows > reader->rows_max - have ||
	    rows * row_bytes > reader->bytes_left)
		return VC_E_LIMIT;
	reader->bytes_left -= rows * row_bytes;
	return vc_tables_reserve(reader->tables, table, have + rows);
}

static int fill_up(struct vc_group_reader *reader, enum vc_table_index table, uint64_t rows)
{
	static const uint64_t lengths[64];
	const struct vc_table_info *info = &vc_table_info[table];
	struct vc_tables *tables = reader->tables;
	int error = take_rows(reader, table, rows);

	if (error)
		return error;
	if (table != VC_TABLE_strings) {
		for (unsigned i = info->first; i < vc_table_end(table); i++)
			if (tables->column[i])
				memset(tables->column[i] + tables->rows[table], 0, rows * 8);
		tables->rows[table] += rows;
		return 0;
	}
	if (reader->bytes_left < rows)
		return VC_E_LIMIT;
	reader->bytes_left -= rows;
	while (!error && rows) {
		uint64_t count = rows < 64 ? rows : 64;

		error = vc_tables_load_strings(tables, lengths, count, "");
		rows -= count;
	}
	return error;
}

static int place(struct group *group, uint64_t rows_end, bool damaged)
{
	uint64_t have = group->reader->tables->rows[group->table];

	if (group->first > rows_end || group->rows > rows_end - group->first)
		return VC_E_CORRUPT;
	if (group->first == have)
		return 0;
	if (!damaged)
		return VC_E_CORRUPT;
	if (!numbered(group->table))
		return 0;
	if (group->first < have)
		return VC_E_CORRUPT;
	return fill_up(group->reader, group->table, group->first - have);
}

int vc_group_read(struct vc_group_reader *reader, enum vc_table_index table, const uint8_t *bytes,
		  size_t length, uint64_t rows_end, bool damaged)
{
	struct group group = {
		.reader = reader, .table = table, .bytes = bytes, .length = length,
	};
	int error = read_directory(&group);

	if (!error)
		error = place(&group, rows_end, damaged);
	if (!error)
		error = take_rows(reader, table, group.rows);
	if (!error && table == VC_TABLE_strings)
		error = read_text(&group);
	else if (!error)
		error = decode_columns(&group);
	if (!error && table != VC_TABLE_strings) {
		clear_missing(&group);
		reader->tables->rows[table] += group.rows;
	}
	free(group.entries);
	return error;
}
