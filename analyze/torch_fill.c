/* SPDX-License-Identifier: Apache-2.0 */
/* What a PyTorch snapshot is to all views: allocations, freed, devices, evidence. */
#include <stdlib.h>
#include <string.h>

#include "analyze/torch_finish.h"

struct fill {
	struct vc_torch *torch;
	struct vc_tables *tables;
	const struct vc_wanted_columns *wanted;
};

static uint64_t get(const struct vc_tables *tables, enum vc_column_index column, uint64_t row)
{
	return tables->column[column][row];
}

static void set(struct vc_tables *tables, enum vc_column_index column, uint64_t row,
		uint64_t value)
{
	if (tables->column[column])
		tables->column[column][row] = value;
}

static bool is_wanted(const struct fill *fill, enum vc_column_index column)
{
	return !fill->wanted || fill->wanted->column[column];
}

static bool is_active(const struct vc_tables *tables, uint64_t block)
{
	return !strncmp(vc_tables_text(tables, get(tables, VC_COL_blocks_state, block)), "active",
			6);
}

/** Both halves of a pool's id in one number; large ones, which no program has, lose bits. */
static uint64_t pool_of(const struct vc_tables *tables, uint64_t segment)
{
	return get(tables, VC_COL_segments_pool_first, segment) << 32 |
	       (get(tables, VC_COL_segments_pool_second, segment) & UINT32_MAX);
}

static int add_segment(struct fill *fill, uint64_t segment, uint64_t birth)
{
	struct vc_tables *tables = fill->tables;
	uint64_t row, size = get(tables, VC_COL_segments_total_size, segment);
	uint64_t device = get(tables, VC_COL_segments_device, segment);
	int error = vc_tables_append(tables, VC_TABLE_allocations, &row);

	if (error)
		return error;
	set(tables, VC_COL_allocations_birth, row, birth);
	set(tables, VC_COL_allocations_state, row, VC_STATE_LIVE);
	set(tables, VC_COL_allocations_kind, row,
	    get(tables, VC_COL_segments_host, segment) ? VC_KIND_PINNED : VC_KIND_LINEAR);
	set(tables, VC_COL_allocations_address, row,
	    get(tables, VC_COL_segments_address, segment));
	set(tables, VC_COL_allocations_size, row, size);
	set(tables, VC_COL_allocations_requested, row, size);
	set(tables, VC_COL_allocations_device_plus_one, row, device < UINT32_MAX ? device + 1 : 0);
	set(tables, VC_COL_allocations_stream, row, get(tables, VC_COL_segments_stream, segment));
	set(tables, VC_COL_allocations_pool, row, pool_of(tables, segment));
	set(tables, VC_COL_allocations_python, row, get(tables, VC_COL_segments_stack, segment));
	set(tables, VC_COL_allocations_segment, row, segment + 1);
	set(tables, VC_COL_allocations_block_state, row, fill->torch->inactive);
	return 0;
}

static int add_block(struct fill *fill, uint64_t block, uint64_t birth, uint64_t parent)
{
	struct vc_tables *tables = fill->tables;
	uint64_t segment = get(tables, VC_COL_blocks_segment, block) - 1, row;
	uint64_t device = get(tables, VC_COL_segments_device, segment);
	int error = vc_tables_append(tables, VC_TABLE_allocations, &row);

	if (error)
		return error;
	set(tables, VC_COL_allocations_birth, row, birth);
	set(tables, VC_COL_allocations_state, row, VC_STATE_LIVE);
	set(tables, VC_COL_allocations_kind, row, VC_KIND_BLOCK);
	set(tables, VC_COL_allocations_address, row, get(tables, VC_COL_blocks_address, block));
	set(tables, VC_COL_allocations_size, row, get(tables, VC_COL_blocks_size, block));
	set(tables, VC_COL_allocations_requested, row, get(tables, VC_COL_blocks_requested, block));
	set(tables, VC_COL_allocations_device_plus_one, row, device < UINT32_MAX ? device + 1 : 0);
	set(tables, VC_COL_allocations_stream, row, get(tables, VC_COL_segments_stream, segment));
	set(tables, VC_COL_allocations_parent, row, parent);
	set(tables, VC_COL_allocations_pool, row, pool_of(tables, segment));
	set(tables, VC_COL_allocations_python, row, get(tables, VC_COL_blocks_stack, block));
	set(tables, VC_COL_allocations_segment, row, segment + 1);
	set(tables, VC_COL_allocations_block_state, row, get(tables, VC_COL_blocks_state, block));
	return 0;
}

/** Every segment, followed by its active blocks. Those of host memory stay inside their segment. */
static int fill_allocations(struct fill *fill)
{
	const struct vc_tables *tables = fill->tables;
	uint64_t *first = calloc(tables->rows[VC_TABLE_segments] + 1, sizeof(*first));
	uint64_t block = 0, birth = 0;
	int error = first ? 0 : VC_E_NO_MEMORY;

	/* blocks of one segment follow each other: where each segment's begin */
	for (uint64_t i = 0; !error && i < tables->rows[VC_TABLE_blocks]; i++) {
		uint64_t segment = get(tables, VC_COL_blocks_segment, i) - 1;

		if (!i || get(tables, VC_COL_blocks_segment, i - 1) != segment + 1)
			first[segment] = i;
	}
	for (uint64_t i = 0; !error && i < tables->rows[VC_TABLE_segments]; i++) {
		uint64_t parent = ++birth;

		error = add_segment(fill, i, parent);
		for (block = first[i]; !error && block < tables->rows[VC_TABLE_blocks] &&
				       get(tables, VC_COL_blocks_segment, block) == i + 1;
		     block++)
			if (is_active(tables, block) && !get(tables, VC_COL_segments_host, i))
				error = add_block(fill, block, ++birth, parent);
	}
	free(first);
	return error;
}

static int add_device(struct vc_tables *tables, uint64_t device)
{
	uint64_t row;
	int error;

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_devices]; i++)
		if (get(tables, VC_COL_devices_device, i) == device)
			return 0;
	error = vc_tables_append(tables, VC_TABLE_devices, &row);
	if (!error)
		set(tables, VC_COL_devices_device, row, device);
	return error;
}

/** Devices with segments, and the time of the newest event. */
static int fill_devices(struct fill *fill)
{
	enum { DEVICES_MOST = 1024 };
	struct vc_tables *tables = fill->tables;
	uint64_t latest = 0;
	int error = 0;

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_segments] && !error; i++)
		if (get(tables, VC_COL_segments_device, i) < UINT32_MAX &&
		    !get(tables, VC_COL_segments_host, i) &&
		    tables->rows[VC_TABLE_devices] < DEVICES_MOST)
			error = add_device(tables, get(tables, VC_COL_segments_device, i));
	for (uint64_t i = 0; fill->torch->keep_trace && i < tables->rows[VC_TABLE_trace]; i++)
		if (vc_value(tables, VC_COL_trace_time_us, i) > latest)
			latest = vc_value(tables, VC_COL_trace_time_us, i);
	if (latest < UINT64_MAX / 1000)
		set(tables, VC_COL_process_snapshot_time, 0, latest * 1000);
	return error;
}

/* ---- evidence ---- */

static int add_evidence(struct vc_tables *tables, const char *key, uint64_t value,
			uint64_t detail)
{
	uint64_t row, text;
	int error;

	if (!value)
		return 0;
	error = vc_tables_string(tables, key, strlen(key), &text);
	if (!error)
		error = vc_tables_append(tables, VC_TABLE_evidence, &row);
	if (error)
		return error;
	set(tables, VC_COL_evidence_key, row, text);
	set(tables, VC_COL_evidence_value, row, value);
	set(tables, VC_COL_evidence_detail, row, detail);
	return 0;
}

/** Sums of the blocks of each segment. */
struct sums {
	uint64_t total, allocated, active;
};

static int fill_evidence(struct fill *fill)
{
	struct vc_tables *tables = fill->tables;
	uint64_t segments = tables->rows[VC_TABLE_segments], incomplete = 0, differ = 0;
	struct sums *sums = calloc(segments + 1, sizeof(*sums));
	int error;

	if (!sums)
		return VC_E_NO_MEMORY;
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_blocks]; i++) {
		struct sums *sum = &sums[get(tables, VC_COL_blocks_segment, i) - 1];
		const char *state = vc_tables_text(tables, get(tables, VC_COL_blocks_state, i));
		uint64_t size = get(tables, VC_COL_blocks_size, i);

		sum->total += size;
		sum->active += is_active(tables, i) ? size : 0;
		sum->allocated += strcmp(state, "active_allocated") ? 0 : size;
	}
	for (uint64_t i = 0; i < segments; i++) {
		bool known = get(tables, VC_COL_segments_keys, i) >>
				     VC_TORCH_KEY_ALLOCATED_SIZE & 1;

		incomplete += sums[i].total != get(tables, VC_COL_segments_total_size, i);
		differ += known &&
			  (sums[i].allocated != get(tables, VC_COL_segments_allocated_size, i) ||
			   sums[i].active != get(tables, VC_COL_segments_active_size, i));
	}
	free(sums);
	error = add_evidence(tables, "torch_blocks_missing", incomplete, 0);
	if (!error)
		error = add_evidence(tables, "torch_sizes_differ", differ, 0);
	if (!error)
		error = add_evidence(tables, "torch_unknown_keys", fill->torch->unknown_keys,
				     fill->torch->unknown_key);
	if (!error)
		error = add_evidence(tables, "import_nul", fill->torch->values.nuls, 0);
	return error;
}

int vc_torch_fill(struct vc_torch *torch, const struct vc_wanted_columns *wanted)
{
	struct fill fill = {torch, torch->tables, wanted};
	int error = fill_allocations(&fill);

	if (!error && torch->keep_trace &&
	    (is_wanted(&fill, VC_COL_freed_address) || is_wanted(&fill, VC_COL_allocations_time) ||
	     is_wanted(&fill, VC_COL_allocations_metadata)))
		error = vc_torch_use_trace(torch->tables, is_wanted(&fill, VC_COL_freed_address));
	if (!error)
		error = fill_devices(&fill);
	if (!error)
		error = fill_evidence(&fill);
	return error;
}
