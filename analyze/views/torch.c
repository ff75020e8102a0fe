/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/views/torch.h"

#include <stdlib.h>
#include <string.h>

const char vc_torch_not_known[] = "not known: roles (a torch snapshot has none); what lies outside "
				  "PyTorch's allocator";

enum state { STATE_INACTIVE, STATE_PENDING, STATE_ALLOCATED };

static enum state state_of(const struct vc_tables *tables, uint64_t block)
{
	const char *state = vc_string(tables, VC_COL_blocks_state, block);

	if (!strcmp(state, "active_allocated"))
		return STATE_ALLOCATED;
	return strncmp(state, "active", 6) ? STATE_INACTIVE : STATE_PENDING;
}

/** `held`: others of its segment are in use, so that it cannot be given back to the driver. */
static void count_block(const struct vc_tables *tables, uint64_t block, bool held,
			struct vc_torch_numbers *numbers)
{
	uint64_t size = vc_value(tables, VC_COL_blocks_size, block);
	numbers->blocks++;
	switch (state_of(tables, block)) {
	case STATE_ALLOCATED:
		numbers->active_blocks++;
		break;
	case STATE_PENDING:
		numbers->active_blocks++;
		numbers->pending_free += size;
		break;
	case STATE_INACTIVE:
		numbers->inactive += size;
		numbers->inactive_split += held ? size : 0;
		if (size > numbers->largest_free)
			numbers->largest_free = size;
		break;
	}
}

static bool on_device(const struct vc_tables *tables, uint64_t segment, uint64_t device)
{
	return vc_value(tables, VC_COL_segments_device, segment) == device &&
	       !vc_value(tables, VC_COL_segments_host, segment);
}

void vc_torch_numbers(const struct vc_tables *tables, uint64_t device,
		      struct vc_torch_numbers *ret)
{
	struct vc_torch_numbers numbers = {0};
	uint64_t blocks = tables->rows[VC_TABLE_blocks];
	const uint64_t *of = tables->column[VC_COL_blocks_segment];

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_segments]; i++) {
		if (!on_device(tables, i, device))
			continue;
		numbers.segments++;
		numbers.expandable += vc_value(tables, VC_COL_segments_expandable, i) != 0;
		numbers.reserved += vc_value(tables, VC_COL_segments_total_size, i);
		numbers.allocated += vc_value(tables, VC_COL_segments_allocated_size, i);
		numbers.active += vc_value(tables, VC_COL_segments_active_size, i);
		numbers.requested += vc_value(tables, VC_COL_segments_requested_size, i);
		numbers.requested_known |= vc_value(tables, VC_COL_segments_keys, i) >>
						   VC_KEY_REQUESTED_SIZE & 1;
	}
	/* blocks of a segment follow each other: first whether any of them is held, then the sums */
	for (uint64_t first = 0, end; of && first < blocks; first = end) {
		bool held = false;

		for (end = first; end < blocks && of[end] == of[first]; end++)
			held |= state_of(tables, end) != STATE_INACTIVE;
		if (!of[first] || !on_device(tables, of[first] - 1, device))
			continue;
		for (uint64_t i = first; i < end; i++)
			count_block(tables, i, held, &numbers);
	}
	numbers.rounding_waste = numbers.requested_known && numbers.active > numbers.requested ?
					 numbers.active - numbers.requested : 0;
	for (uint64_t i = 0; vc_tables_has(tables, VC_COL_trace_device) &&
			     i < tables->rows[VC_TABLE_trace]; i++)
		numbers.events += vc_value(tables, VC_COL_trace_device, i) == device;
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_failures]; i++)
		numbers.ooms += vc_value(tables, VC_COL_failures_device, i) == device;
	*ret = numbers;
}

void vc_torch_heading(struct vc_text *text, const struct vc_tables *tables, uint64_t device,
		      enum vc_text_exact exact)
{
	struct vc_torch_numbers numbers;
	uint64_t events = vc_value(tables, VC_COL_origin_events, 0);

	vc_torch_numbers(tables, device, &numbers);
	vc_text_add(text, "allocated ");
	vc_text_bytes(text, numbers.allocated, exact);
	vc_text_add(text, ", reserved ");
	vc_text_bytes(text, numbers.reserved, exact);
	vc_text_add(text, ", ");
	vc_text_number(text, numbers.segments);
	vc_text_add(text, numbers.segments == 1 ? " segment, " : " segments, ");
	vc_text_number(text, numbers.blocks);
	vc_text_add(text, numbers.blocks == 1 ? " block, " : " blocks, ");
	if (!events) {
		vc_text_add(text, "no trace");
		return;
	}
	vc_text_add(text, "trace of ");
	vc_text_number(text, events);
	vc_text_add(text, events == 1 ? " event" : " events");
}

bool vc_torch_recorded(const struct vc_tables *tables, const struct vc_account *account,
		       uint32_t device_plus_one, struct vc_torch_recorded *ret)
{
	const struct vc_account_device *device = vc_account_find_device(account, device_plus_one);
	struct vc_torch_recorded recorded = {0};
	uint64_t row;

	if (device_plus_one && !vc_device_row(tables, device_plus_one - 1, &row)) {
		recorded.said = vc_value(tables, VC_COL_devices_torch_known, row) != 0;
		recorded.said_allocated = vc_value(tables, VC_COL_devices_torch_allocated, row);
		recorded.said_reserved = vc_value(tables, VC_COL_devices_torch_reserved, row);
	}
	if (device) {
		recorded.allocated = device->torch_allocated;
		recorded.reserved = device->torch_reserved;
		recorded.cached = device->torch_cached;
		recorded.segments = device->torch_segments;
		recorded.blocks = device->torch_blocks;
	}
	if (!recorded.said && !recorded.segments && !recorded.blocks)
		return false;
	*ret = recorded;
	return true;
}
