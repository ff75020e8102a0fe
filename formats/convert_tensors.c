/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/convert_tensors.h"

#include <stdbool.h>
#include <string.h>

#include "formats/walk_tensors.h"

#define ROWS_MOST (UINT64_C(1) << 28)

/* A field of a row and the column it goes to, by the column's own type. */
struct field {
	enum vc_column_index column;
	uint16_t offset, bytes;
};

struct kind {
	enum vc_walk_kind kind;
	enum vc_table_index table;
	size_t row_bytes;
	struct field field[16];
};

#define FIELD(table, structure, name)                                                              \
	{VC_COL_##table##_##name, offsetof(struct structure, name),                                \
	 sizeof(((struct structure *)0)->name)}

static const struct kind kinds[] = {
	{VC_WALK_TENSORS, VC_TABLE_tensors, sizeof(struct vc_walk_tensor),
	 {FIELD(tensors, vc_walk_tensor, storage), FIELD(tensors, vc_walk_tensor, object),
	  FIELD(tensors, vc_walk_tensor, data), FIELD(tensors, vc_walk_tensor, offset),
	  FIELD(tensors, vc_walk_tensor, bytes), FIELD(tensors, vc_walk_tensor, dtype),
	  FIELD(tensors, vc_walk_tensor, shape), FIELD(tensors, vc_walk_tensor, strides),
	  FIELD(tensors, vc_walk_tensor, name), FIELD(tensors, vc_walk_tensor, detail),
	  FIELD(tensors, vc_walk_tensor, type), FIELD(tensors, vc_walk_tensor, found),
	  FIELD(tensors, vc_walk_tensor, flags),
	  FIELD(tensors, vc_walk_tensor, device_plus_one)}},
	{VC_WALK_STORAGES, VC_TABLE_storages, sizeof(struct vc_walk_storage),
	 {FIELD(storages, vc_walk_storage, address), FIELD(storages, vc_walk_storage, bytes),
	  FIELD(storages, vc_walk_storage, tensors), FIELD(storages, vc_walk_storage, tensor),
	  FIELD(storages, vc_walk_storage, found),
	  FIELD(storages, vc_walk_storage, device_plus_one)}},
	{VC_WALK_NODES, VC_TABLE_graph_nodes, sizeof(struct vc_walk_node),
	 {FIELD(graph_nodes, vc_walk_node, object), FIELD(graph_nodes, vc_walk_node, name),
	  FIELD(graph_nodes, vc_walk_node, saved)}},
	{VC_WALK_SAVED, VC_TABLE_saved_tensors, sizeof(struct vc_walk_saved),
	 {FIELD(saved_tensors, vc_walk_saved, node), FIELD(saved_tensors, vc_walk_saved, tensor),
	  FIELD(saved_tensors, vc_walk_saved, name), FIELD(saved_tensors, vc_walk_saved, packed)}},
	{VC_WALK_HOLDERS, VC_TABLE_holders, sizeof(struct vc_walk_holder),
	 {FIELD(holders, vc_walk_holder, storage), FIELD(holders, vc_walk_holder, step),
	  FIELD(holders, vc_walk_holder, ways), FIELD(holders, vc_walk_holder, depth)}},
	{VC_WALK_STEPS, VC_TABLE_holder_steps, sizeof(struct vc_walk_step),
	 {FIELD(holder_steps, vc_walk_step, parent), FIELD(holder_steps, vc_walk_step, kind),
	  FIELD(holder_steps, vc_walk_step, text), FIELD(holder_steps, vc_walk_step, owner),
	  FIELD(holder_steps, vc_walk_step, file), FIELD(holder_steps, vc_walk_step, line),
	  FIELD(holder_steps, vc_walk_step, count)}},
	{VC_WALK_WALKS, VC_TABLE_walks, sizeof(struct vc_walk_walk),
	 {FIELD(walks, vc_walk_walk, flags), FIELD(walks, vc_walk_walk, nanoseconds),
	  FIELD(walks, vc_walk_walk, holder_nanoseconds), FIELD(walks, vc_walk_walk, objects),
	  FIELD(walks, vc_walk_walk, reached), FIELD(walks, vc_walk_walk, tensors),
	  FIELD(walks, vc_walk_walk, without_memory), FIELD(walks, vc_walk_walk, memory),
	  FIELD(walks, vc_walk_walk, opaque), FIELD(walks, vc_walk_walk, thread),
	  FIELD(walks, vc_walk_walk, why)}},
};

struct conversion {
	struct vc_walk *walk;
	struct vc_tables *tables;
	const struct kind *kind;
};

/* Rows that a value of a column may refer to; UINT64_MAX: it is no reference. */
static uint64_t rows_of(const struct vc_tables *tables, enum vc_column_type type)
{
	switch (type) {
	case VC_TYPE_ROW_tensors:
		return tables->rows[VC_TABLE_tensors];
	case VC_TYPE_ROW_storages:
		return tables->rows[VC_TABLE_storages];
	case VC_TYPE_ROW_graph_nodes:
		return tables->rows[VC_TABLE_graph_nodes];
	case VC_TYPE_ROW_holder_steps:
		return tables->rows[VC_TABLE_holder_steps];
	default:
		return UINT64_MAX;
	}
}

static int put(const struct conversion *conversion, const struct field *field, uint64_t row,
	       uint64_t value)
{
	struct vc_tables *tables = conversion->tables;
	enum vc_column_type type = vc_column_info[field->column].type;
	struct vc_fault fault;
	int error = 0;

	if (type == VC_TYPE_STRING) {
		const char *text = vc_walk_text(conversion->walk, value);

		error = vc_tables_string(tables, text, strlen(text), &value);
	} else if ((rows_of(tables, type) != UINT64_MAX && value > rows_of(tables, type)) ||
		   (field->column == VC_COL_holder_steps_parent && value > row)) {
		vc_fault_set(&fault, VC_E_RANGE, vc_table_info[conversion->kind->table].section,
			     row);
		vc_faults_add(conversion->walk->faults, &fault);
		value = 0;
	}
	if (!error)
		tables->column[field->column][row] = value;
	return error;
}

static int take(void *self, uint64_t number, const void *row)
{
	const struct conversion *conversion = self;
	const struct kind *kind = conversion->kind;
	int error = 0;

	for (size_t i = 0; !error && i < sizeof(kind->field) / sizeof(kind->field[0]); i++) {
		const struct field *field = &kind->field[i];
		uint64_t value = 0;

		if (!field->bytes)
			break;
		/* little endian, as the file is */
		memcpy(&value, (const char *)row + field->offset, field->bytes);
		error = put(conversion, field, number, value);
	}
	return error;
}

/* Rows of zeroes for all kinds, so that references between them can be told. */
static int make_rows(struct vc_walk *walk, struct vc_tables *tables)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint64_t count = vc_walk_count(walk, kinds[i].kind), row;
		int error;

		if (kinds[i].kind == VC_WALK_WALKS && count > 1)
			return VC_E_CORRUPT;
		if (count > ROWS_MOST)
			return VC_E_LIMIT;
		error = vc_tables_reserve(tables, kinds[i].table, count);
		for (uint64_t j = 0; !error && j < count; j++)
			error = vc_tables_append(tables, kinds[i].table, &row);
		if (error)
			return error;
	}
	return 0;
}

int vc_convert_tensors(struct vc_walk *walk, struct vc_tables *tables)
{
	int error = make_rows(walk, tables);

	for (size_t i = 0; !error && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct conversion conversion = {walk, tables, &kinds[i]};

		error = vc_walk_scan(walk, kinds[i].kind, kinds[i].row_bytes, take, &conversion);
	}
	return error;
}
