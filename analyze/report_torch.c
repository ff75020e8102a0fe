/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/report_torch.h"

#include <string.h>

#include "analyze/views/torch.h"

static void add_bytes(struct vc_text *text, const struct vc_emit *emit, const char *name,
		      uint64_t bytes)
{
	vc_text_add(text, "%s ", name);
	vc_text_bytes(text, bytes, emit->exact);
}

static void emit_json(struct vc_emit *emit, const struct vc_torch_numbers *numbers)
{
	vc_emit_object(emit, "torch");
	vc_emit_number(emit, "allocated", numbers->allocated);
	vc_emit_number(emit, "active", numbers->active);
	if (numbers->requested_known)
		vc_emit_number(emit, "requested", numbers->requested);
	else
		vc_emit_null(emit, "requested");
	vc_emit_number(emit, "reserved", numbers->reserved);
	vc_emit_number(emit, "inactive", numbers->inactive);
	vc_emit_number(emit, "inactive_split", numbers->inactive_split);
	vc_emit_number(emit, "pending_free", numbers->pending_free);
	vc_emit_number(emit, "rounding_waste", numbers->rounding_waste);
	vc_emit_number(emit, "largest_free_block", numbers->largest_free);
	vc_emit_number(emit, "segments", numbers->segments);
	vc_emit_number(emit, "expandable_segments", numbers->expandable);
	vc_emit_number(emit, "blocks", numbers->blocks);
	vc_emit_number(emit, "active_blocks", numbers->active_blocks);
	vc_emit_number(emit, "events", numbers->events);
	vc_emit_number(emit, "ooms", numbers->ooms);
	vc_emit_object_end(emit);
}

void vc_report_torch(struct vc_emit *emit, const struct vc_tables *tables, uint64_t device)
{
	struct vc_torch_numbers numbers;
	struct vc_text text = {0};

	vc_torch_numbers(tables, device, &numbers);
	add_bytes(&text, emit, "  torch: allocated", numbers.allocated);
	add_bytes(&text, emit, ", active", numbers.active);
	if (numbers.requested_known)
		add_bytes(&text, emit, ", requested", numbers.requested);
	add_bytes(&text, emit, ", reserved", numbers.reserved);
	vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_text_clear(&text);
	add_bytes(&text, emit, "  inactive split", numbers.inactive_split);
	add_bytes(&text, emit, ", largest free block", numbers.largest_free);
	if (numbers.requested_known)
		add_bytes(&text, emit, ", lost to rounding", numbers.rounding_waste);
	if (numbers.pending_free)
		add_bytes(&text, emit, ", waiting for a stream", numbers.pending_free);
	vc_text_add(&text, ", ");
	vc_text_number(&text, numbers.ooms);
	vc_text_add(&text, numbers.ooms == 1 ? " OOM in the trace" : " OOMs in the trace");
	vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	emit_json(emit, &numbers);
}

/** A number that is known only where PyTorch said it. */
static void said_number(struct vc_emit *emit, const char *name, bool said, uint64_t value)
{
	if (said)
		vc_emit_number(emit, name, value);
	else
		vc_emit_null(emit, name);
}

/**
 * What only PyTorch's own list of segments tells, where the interpreter could be asked for it at
 * the moment: a list that was made a little later has other blocks.
 */
static void report_own_list(struct vc_emit *emit, const struct vc_tables *tables,
			    uint32_t device_plus_one, uint64_t allocated)
{
	struct vc_torch_numbers numbers = {0};
	bool known = tables->rows[VC_TABLE_segments] != 0 && device_plus_one;
	struct vc_text text = {0};

	if (known)
		vc_torch_numbers(tables, device_plus_one - 1, &numbers);
	known = known && numbers.segments && numbers.allocated == allocated;
	said_number(emit, "active", known, numbers.active);
	said_number(emit, "requested", known && numbers.requested_known, numbers.requested);
	said_number(emit, "inactive_split", known, numbers.inactive_split);
	said_number(emit, "pending_free", known, numbers.pending_free);
	said_number(emit, "rounding_waste", known && numbers.requested_known,
		    numbers.rounding_waste);
	if (!known)
		return;
	add_bytes(&text, emit, "  by its own list: active", numbers.active);
	if (numbers.requested_known)
		add_bytes(&text, emit, ", requested", numbers.requested);
	add_bytes(&text, emit, ", inactive split", numbers.inactive_split);
	if (numbers.pending_free)
		add_bytes(&text, emit, ", waiting for a stream", numbers.pending_free);
	vc_text_add(&text, ", ");
	vc_text_number(&text, numbers.segments);
	vc_text_add(&text, numbers.segments == 1 ? " segment" : " segments");
	vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
}

void vc_report_torch_recorded(struct vc_emit *emit, const struct vc_tables *tables,
			      const struct vc_account *account, const struct vc_map *map,
			      uint32_t device_plus_one)
{
	struct vc_torch_recorded recorded;
	struct vc_text text = {0};
	uint64_t hole = 0;

	if (!vc_torch_recorded(tables, account, device_plus_one, &recorded))
		return;
	for (uint64_t i = 0; i < map->segment_count; i++) {
		const struct vc_map_segment *segment = &map->segments[i];

		if (segment->device_plus_one == device_plus_one && segment->torch &&
		    segment->largest_hole > hole)
			hole = segment->largest_hole;
	}
	add_bytes(&text, emit, "  torch.cuda.memory_allocated", recorded.allocated);
	add_bytes(&text, emit, ", memory_reserved", recorded.reserved);
	vc_text_add(&text, ": ");
	vc_text_number(&text, recorded.blocks);
	vc_text_add(&text, recorded.blocks == 1 ? " block" : " blocks");
	if (recorded.cached)
		add_bytes(&text, emit, ", largest hole", hole);
	vc_emit_line(emit, "%s", vc_text_get(&text));
	vc_text_deinit(&text);
	vc_emit_object(emit, "torch");
	vc_emit_number(emit, "allocated", recorded.allocated);
	vc_emit_number(emit, "reserved", recorded.reserved);
	vc_emit_number(emit, "cached", recorded.cached);
	vc_emit_number(emit, "blocks", recorded.blocks);
	vc_emit_number(emit, "driver_allocations", recorded.segments);
	vc_emit_number(emit, "largest_hole", hole);
	said_number(emit, "said_allocated", recorded.said, recorded.said_allocated);
	said_number(emit, "said_reserved", recorded.said, recorded.said_reserved);
	report_own_list(emit, tables, device_plus_one, recorded.allocated);
	vc_emit_object_end(emit);
}

/** Settings that say nothing: empty, off, or as torch has them when nobody asks. */
static bool is_usual(const char *value)
{
	static const char *const usual[] = {"", "0", "-1", "False", "None"};

	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
		if (!strcmp(value, usual[i]))
			return true;
	return false;
}

void vc_report_torch_settings(struct vc_emit *emit, const struct vc_tables *tables)
{
	uint64_t rows = tables->rows[VC_TABLE_allocator_settings];
	struct vc_text text = {0};

	vc_emit_object(emit, "allocator_settings");
	for (uint64_t i = 0; i < rows; i++) {
		const char *name = vc_string(tables, VC_COL_allocator_settings_name, i);
		const char *value = vc_string(tables, VC_COL_allocator_settings_value, i);

		vc_emit_string(emit, name, value);
		if (!is_usual(value))
			vc_text_add(&text, "%s%s %s", text.length ? ", " : "  settings: ", name,
				    value);
	}
	vc_emit_object_end(emit);
	if (rows)
		vc_emit_line(emit, "%s", text.length ? vc_text_get(&text) :
					 "  settings: all as PyTorch has them by itself");
	vc_text_deinit(&text);
}
