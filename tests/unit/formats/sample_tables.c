/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/formats/sample_tables.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uint64_t sample_next(struct sample_numbers *numbers)
{
	uint64_t value = numbers->state += 0x9e3779b97f4a7c15u;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

static void must(int error)
{
	if (!error)
		return;
	fprintf(stderr, "sample tables: %s\n", vc_error_text(error));
	exit(1);
}

/* A column without references, in one of several shapes; the first rows are the edges. */
static uint64_t shaped_value(unsigned shape, uint64_t row, struct sample_numbers *numbers)
{
	static const uint64_t edges[] = {
		0, UINT64_MAX, 1, UINT64_MAX - 1, 1ull << 63, (1ull << 63) - 1, 0xff, 0x100,
	};
	uint64_t random = sample_next(numbers);

	switch (shape) {
	case 0: /* edges, then anything */
		return row < sizeof(edges) / sizeof(edges[0]) ? edges[row] : random;
	case 1: /* constant, large */
		return UINT64_MAX;
	case 2: /* small */
		return random % 5;
	case 3: /* aligned addresses */
		return 0x7f0000000000 + (random % 65536 << 9);
	case 4: /* nearly increasing times */
		return 1700000000000000000u + row * 1000000 + random % 3000000;
	case 5: /* runs */
		return row / 7;
	case 6: /* falling */
		return UINT64_MAX - row * 512;
	default: /* two bytes */
		return random % 60000;
	}
}

/* A value that a program could have. */
static uint64_t plausible_value(const struct vc_tables *tables, unsigned column, uint64_t row,
				struct sample_numbers *numbers)
{
	uint64_t random = sample_next(numbers), rows = tables->rows[VC_TABLE_allocations];

	switch (column) {
	case VC_COL_process_steps_known:
	case VC_COL_devices_used_known:
		return 1;
	case VC_COL_devices_device:
		return row;
	case VC_COL_devices_total:
		return 80ull << 30;
	case VC_COL_devices_free:
		return 40ull << 30;
	case VC_COL_process_deaths_missing:
		return 0;
	case VC_COL_sites_device:
	case VC_COL_failures_device:
		return random % 2;
	case VC_COL_allocations_birth:
		return row * 2 + 1;
	case VC_COL_freed_birth:
		return row * 2 + 2;
	case VC_COL_freed_death:
		return rows * 2 + row * 2 + random % 2;
	case VC_COL_allocations_device_plus_one:
	case VC_COL_freed_device_plus_one:
		return 1 + random % 2;
	case VC_COL_allocations_flags:
		return random % 16 ? 0 : 1;
	case VC_COL_process_number:
		return rows * 5;
	default:
		break;
	}
	switch (vc_column_info[column].type) {
	case VC_TYPE_ADDRESS:
		return 0x7f0000000000 + (random % (1 << 20) << 9);
	case VC_TYPE_BYTES:
		return (random % (1 << 18) << 9);
	case VC_TYPE_TIME:
		return 1790000000000000000u + row * 1000000 + random % 3000000;
	case VC_TYPE_KIND:
		return 1 + random % 4;
	case VC_TYPE_STATE:
		return random % 10 ? VC_STATE_LIVE : 1 + random / 16 % 3;
	case VC_TYPE_BIRTH:
		return random % 4 ? 0 : random / 4 % rows * 2 + 1;
	default:
		return random % 1000;
	}
}

static uint64_t reference(const struct vc_tables *tables, unsigned column, uint64_t row,
			  bool plausible, struct sample_numbers *numbers)
{
	uint64_t random = sample_next(numbers);

	switch (vc_column_info[column].type) {
	case VC_TYPE_STRING:
		return random % tables->rows[VC_TABLE_strings];
	case VC_TYPE_ROW_modules:
		return random % (tables->rows[VC_TABLE_modules] + 1);
	case VC_TYPE_ROW_stacks:
		return random % (tables->rows[VC_TABLE_stacks] + 1);
	case VC_TYPE_ROW_sites:
		return random % (tables->rows[VC_TABLE_sites] + 1);
	case VC_TYPE_ROW_source_frames:
		return random % (tables->rows[VC_TABLE_source_frames] + 1);
	case VC_TYPE_ROW_source_stacks:
		return random % (tables->rows[VC_TABLE_source_stacks] + 1);
	case VC_TYPE_ROW_segments:
		return random % (tables->rows[VC_TABLE_segments] + 1);
	case VC_TYPE_ROW_blocks:
		return random % (tables->rows[VC_TABLE_blocks] + 1);
	case VC_TYPE_ROW_trace_details:
		return random % (tables->rows[VC_TABLE_trace_details] + 1);
	case VC_TYPE_ROW_tensors:
		return random % (tables->rows[VC_TABLE_tensors] + 1);
	case VC_TYPE_ROW_storages:
		return random % (tables->rows[VC_TABLE_storages] + 1);
	case VC_TYPE_ROW_graph_nodes:
		return random % (tables->rows[VC_TABLE_graph_nodes] + 1);
	case VC_TYPE_ROW_holder_steps:
		return random % (tables->rows[VC_TABLE_holder_steps] + 1);
	default:
		break;
	}
	switch (column) {
	case VC_COL_stacks_first:
	case VC_COL_source_stacks_first:
		return row;
	case VC_COL_source_stacks_count:
		return random % (tables->rows[VC_TABLE_source_lists] - row + 1) % 64;
	case VC_COL_stacks_count:
		return random % (tables->rows[VC_TABLE_frames] - row + 1) % 64;
	case VC_COL_symbols_first:
		return row;
	case VC_COL_symbols_count:
		return random % (tables->rows[VC_TABLE_symbol_frames] - row + 1) % 8;
	case VC_COL_failure_sites_failure:
		return random % tables->rows[VC_TABLE_failures];
	case VC_COL_failure_sites_site:
		return random % tables->rows[VC_TABLE_sites];
	default:
		return plausible ? plausible_value(tables, column, row, numbers) :
				   shaped_value(column % 8, row, numbers);
	}
}

static void fill_strings(struct vc_tables *tables, uint64_t rows, struct sample_numbers *numbers)
{
	while (tables->rows[VC_TABLE_strings] < rows + 1) {
		char text[64];
		uint64_t random = sample_next(numbers), row;
		int length = snprintf(text, sizeof(text), "/lib/%" PRIx64 "/\xc3\xa4.so",
				      random >> random % 64);

		must(vc_tables_string(tables, text, (size_t)length, &row));
		must(vc_tables_string(tables, "\x01\xff\n", 3, &row));
	}
}

/* Counters that leave the evidence complete. */
static void fill_evidence(struct vc_tables *tables)
{
	static const char *const keys[] = {
		"allocations_seen", "frees_seen", "calls_failed", "deaths_overwritten", "retries",
	};

	for (uint64_t row = 0; row < sizeof(keys) / sizeof(keys[0]); row++) {
		must(vc_tables_string(tables, keys[row], strlen(keys[row]),
				      &tables->column[VC_COL_evidence_key][row]));
		tables->column[VC_COL_evidence_value][row] = 1000 + row;
		tables->column[VC_COL_evidence_detail][row] = 0;
	}
	tables->rows[VC_TABLE_evidence] = sizeof(keys) / sizeof(keys[0]);
}

static void fill(struct vc_tables *tables, uint64_t rows, uint64_t start, bool plausible)
{
	struct sample_numbers numbers = {start};
	uint64_t row;

	must(vc_tables_init(tables));
	fill_strings(tables, rows, &numbers);
	/* All rows first, so that references can be to any of them. */
	for (unsigned table = 0; table < VC_TABLES; table++) {
		uint64_t count = table == VC_TABLE_process ? 1 : rows;

		if (plausible && table == VC_TABLE_devices)
			count = 2;
		while (table != VC_TABLE_strings && tables->rows[table] < count)
			must(vc_tables_append(tables, (enum vc_table_index)table, &row));
	}
	for (unsigned column = 0; column < VC_COLUMNS; column++)
		for (row = 0; tables->column[column] &&
			      row < tables->rows[vc_column_info[column].table];
		     row++)
			tables->column[column][row] = reference(tables, column, row, plausible,
							    &numbers);
}

void sample_tables_fill(struct vc_tables *tables, uint64_t rows, uint64_t start)
{
	fill(tables, rows, start, false);
}

void sample_tables_fill_plausible(struct vc_tables *tables, uint64_t rows, uint64_t start)
{
	fill(tables, rows, start, true);
	fill_evidence(tables);
}

static bool texts_equal(const struct vc_tables *one, const struct vc_tables *other)
{
	return one->text_bytes == other->text_bytes &&
	       !memcmp(one->text, other->text, one->text_bytes) &&
	       !memcmp(one->text_offset, other->text_offset,
		       one->rows[VC_TABLE_strings] * sizeof(uint64_t));
}

bool sample_tables_equal(const struct vc_tables *one, const struct vc_tables *other)
{
	for (unsigned table = 0; table < VC_TABLES; table++)
		if (one->rows[table] != other->rows[table]) {
			fprintf(stderr, "%s: %" PRIu64 " and %" PRIu64 " rows\n",
				vc_table_info[table].name, one->rows[table], other->rows[table]);
			return false;
		}
	for (unsigned column = 0; column < VC_COLUMNS; column++) {
		const struct vc_column_info *info = &vc_column_info[column];
		uint64_t rows = one->rows[info->table];

		if (!one->column[column] != !other->column[column] ||
		    (one->column[column] &&
		     memcmp(one->column[column], other->column[column], rows * 8))) {
			fprintf(stderr, "%s.%s differs\n", vc_table_info[info->table].name,
				info->name);
			return false;
		}
	}
	if (!texts_equal(one, other)) {
		fprintf(stderr, "strings differ\n");
		return false;
	}
	return true;
}

void sample_tables_dump(const struct vc_tables *tables, FILE *to)
{
	for (unsigned column = 0; column < VC_COLUMNS; column++) {
		const struct vc_column_info *info = &vc_column_info[column];

		if (!tables->column[column])
			continue;
		fprintf(to, "%s.%s:", vc_table_info[info->table].name, info->name);
		for (uint64_t row = 0; row < tables->rows[info->table]; row++)
			fprintf(to, " %" PRIu64, tables->column[column][row]);
		fputc('\n', to);
	}
	for (uint64_t row = 0; row < tables->rows[VC_TABLE_strings]; row++) {
		fprintf(to, "string %" PRIu64 ": ", row);
		for (const char *at = vc_tables_text(tables, row); *at; at++)
			fprintf(to, *at > ' ' && *at < 0x7f && *at != '\\' ? "%c" : "\\x%02x",
				(unsigned char)*at);
		fputc('\n', to);
	}
}
