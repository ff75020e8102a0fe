/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording as a snapshot of PyTorch: memory at an address becomes a segment, mappings that
 * follow each other one expandable segment, what a caching allocator handed out the blocks in
 * them, and what it holds free the inactive ones. A segment without blocks is one block.
 */
#include <stdlib.h>
#include <string.h>

#include "analyze/model.h"
#include "analyze/pickle_write.h"
#include "analyze/torch_write.h"

enum { SMALL_MOST = 2 << 20, DEVICES_MOST = 1024, TEXTS = 32, PLACE_BYTES = 256 };

/** A segment, or a block of one, with where it lies. */
struct piece {
	uint64_t address, size, requested, row;
	bool mapping;
};

struct writer {
	struct vc_pickle_writer pickle;
	const struct vc_tables *tables;
	const struct vc_names *names;
	uint32_t *stack;          /* remembered, plus 1: by vc_names_place */
	struct {
		const char *text;
		uint32_t number;
	} shared[TEXTS];
	struct piece *segments, *blocks;
	uint64_t segment_count, block_count;
	uint64_t frames_left;
	uint64_t left_out;        /* blocks */
};

bool vc_torch_is_segment(const struct vc_tables *tables, uint64_t row)
{
	switch (vc_value(tables, VC_COL_allocations_kind, row)) {
	case VC_KIND_LINEAR:
	case VC_KIND_PITCHED:
	case VC_KIND_MANAGED:
	case VC_KIND_ASYNC:
	case VC_KIND_MAPPING:
		break;
	default: /* no memory, or none at an address */
		return false;
	}
	return vc_value(tables, VC_COL_allocations_address, row) &&
	       vc_value(tables, VC_COL_allocations_size, row) &&
	       vc_value(tables, VC_COL_allocations_state, row) != VC_STATE_IN_DOUBT;
}

static bool is_block(const struct vc_tables *tables, uint64_t row)
{
	return vc_value(tables, VC_COL_allocations_kind, row) == VC_KIND_BLOCK &&
	       vc_value(tables, VC_COL_allocations_size, row) &&
	       vc_value(tables, VC_COL_allocations_state, row) != VC_STATE_IN_DOUBT;
}

/* ---- pieces ---- */

static int by_address(const void *a, const void *b)
{
	const struct piece *one = a, *other = b;

	if (one->address != other->address)
		return one->address < other->address ? -1 : 1;
	return one->row < other->row ? -1 : one->row > other->row;
}

/** Mappings that follow each other on a device become one. */
static void join_mappings(struct writer *writer)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < writer->segment_count; i++) {
		struct piece *piece = &writer->segments[i];
		struct piece *before = count ? &writer->segments[count - 1] : NULL;

		if (before && before->mapping && piece->mapping &&
		    before->address + before->size == piece->address &&
		    vc_value(writer->tables, VC_COL_allocations_device_plus_one, before->row) ==
			    vc_value(writer->tables, VC_COL_allocations_device_plus_one,
				     piece->row)) {
			before->size += piece->size;
			before->requested += piece->requested;
		} else {
			writer->segments[count++] = *piece;
		}
	}
	writer->segment_count = count;
}

static int find_pieces(struct writer *writer)
{
	const struct vc_tables *tables = writer->tables;
	uint64_t rows = tables->rows[VC_TABLE_allocations];

	writer->segments = malloc((rows + 1) * sizeof(*writer->segments));
	writer->blocks = malloc((rows + 1) * sizeof(*writer->blocks));
	if (!writer->segments || !writer->blocks)
		return VC_E_NO_MEMORY;
	for (uint64_t row = 0; row < rows; row++) {
		struct piece piece = {
			.address = vc_value(tables, VC_COL_allocations_address, row),
			.size = vc_value(tables, VC_COL_allocations_size, row),
			.requested = vc_value(tables, VC_COL_allocations_requested, row),
			.row = row,
			.mapping = vc_value(tables, VC_COL_allocations_kind, row) ==
				   VC_KIND_MAPPING,
		};

		if (piece.size > UINT64_MAX - piece.address)
			piece.size = UINT64_MAX - piece.address;
		if (!piece.requested) /* unknown */
			piece.requested = piece.size;
		if (vc_torch_is_segment(tables, row))
			writer->segments[writer->segment_count++] = piece;
		else if (is_block(tables, row))
			writer->blocks[writer->block_count++] = piece;
	}
	qsort(writer->segments, writer->segment_count, sizeof(struct piece), by_address);
	qsort(writer->blocks, writer->block_count, sizeof(struct piece), by_address);
	join_mappings(writer);
	return 0;
}

/* ---- values ---- */

/** A text of this file, remembered by its address. */
static void put_word(struct writer *writer, const char *text)
{
	unsigned i = 0;

	while (i < TEXTS && writer->shared[i].text && writer->shared[i].text != text)
		i++;
	if (i < TEXTS && writer->shared[i].text) {
		vc_pickle_recall(&writer->pickle, writer->shared[i].number);
		return;
	}
	vc_pickle_text(&writer->pickle, text, strlen(text));
	if (i < TEXTS) {
		writer->shared[i].text = text;
		writer->shared[i].number = vc_pickle_remember(&writer->pickle);
	}
}

static void put_number(struct writer *writer, const char *key, uint64_t number)
{
	put_word(writer, key);
	vc_pickle_unsigned(&writer->pickle, number);
}

static void begin_dict(struct writer *writer)
{
	vc_pickle_put(&writer->pickle, VC_PICKLE_DICT);
	vc_pickle_put(&writer->pickle, VC_PICKLE_MARK);
}

static void put_frame(struct writer *writer, const struct vc_frame_name *frame)
{
	static const char name[] = "name", filename[] = "filename", line[] = "line";
	const char *module = frame->module ? frame->module : "", *slash = strrchr(module, '/');
	const char *file = frame->file ? frame->file : *module ? module : "??";
	const char *function = frame->function;
	char place[PLACE_BYTES];

	if (!function) { /* code without a name: where it is in its file */
		snprintf(place, sizeof(place), "%.*s+0x%llx", PLACE_BYTES - 32,
			 *module ? slash ? slash + 1 : module : "??",
			 (unsigned long long)frame->offset);
		function = place;
	}
	begin_dict(writer);
	put_word(writer, name);
	vc_pickle_text(&writer->pickle, function, strlen(function));
	put_word(writer, filename);
	vc_pickle_text(&writer->pickle, file, strlen(file));
	put_number(writer, line, frame->line);
	vc_pickle_put(&writer->pickle, VC_PICKLE_SET);
}

static void put_stack(struct writer *writer, uint64_t row)
{
	static const char frames[] = "frames";
	uint64_t stack = vc_stack_reference(writer->tables,
					    vc_value(writer->tables, VC_COL_allocations_stack, row),
					    vc_value(writer->tables, VC_COL_allocations_python,
						     row));
	const struct vc_chain *chain = vc_names_chain(writer->names, 0, stack);
	uint64_t place = vc_names_place(writer->names, 0, stack);

	put_word(writer, frames);
	if (writer->stack[place]) {
		vc_pickle_recall(&writer->pickle, writer->stack[place]);
		return;
	}
	if (chain->count > writer->frames_left) {
		writer->pickle.error = VC_E_LIMIT;
		return;
	}
	writer->frames_left -= chain->count;
	vc_pickle_put(&writer->pickle, VC_PICKLE_LIST);
	writer->stack[place] = vc_pickle_remember(&writer->pickle);
	for (uint32_t i = 0; i < chain->count; i++) {
		vc_pickle_item(&writer->pickle, i);
		put_frame(writer, chain->frames[i]);
	}
	vc_pickle_list_end(&writer->pickle, chain->count);
}

/* ---- segments ---- */

static const char active[] = "active_allocated", inactive[] = "inactive";

/** A block; `row` UINT64_MAX: one that is free. */
static void put_block(struct writer *writer, uint64_t index, const struct piece *piece)
{
	static const char address[] = "address", size[] = "size", state[] = "state",
			  requested[] = "requested_size", frames[] = "frames";

	vc_pickle_item(&writer->pickle, index);
	begin_dict(writer);
	put_number(writer, address, piece->address);
	put_number(writer, size, piece->size);
	put_number(writer, requested, piece->requested);
	put_word(writer, state);
	put_word(writer, piece->row == UINT64_MAX ? inactive : active);
	if (piece->row == UINT64_MAX) {
		put_word(writer, frames);
		vc_pickle_put(&writer->pickle, VC_PICKLE_LIST);
	} else {
		put_stack(writer, piece->row);
	}
	vc_pickle_put(&writer->pickle, VC_PICKLE_SET);
}

struct sums {
	uint64_t blocks, allocated, requested;
};

/** The gap before `to`, as a free block. */
static void put_gap(struct writer *writer, uint64_t from, uint64_t to, struct sums *sums)
{
	if (from < to)
		put_block(writer, sums->blocks++,
			  &(struct piece){.address = from, .size = to - from, .row = UINT64_MAX});
}

static void put_used(struct writer *writer, const struct piece *piece, struct sums *sums)
{
	put_block(writer, sums->blocks++, piece);
	sums->allocated += piece->size;
	sums->requested += piece->requested;
}

/** Blocks `first` .. `end` - 1 in a segment, with what is free between them. */
static void put_blocks(struct writer *writer, const struct piece *segment, uint64_t first,
		       uint64_t end, struct sums *sums)
{
	uint64_t at = segment->address;

	for (uint64_t i = first; i < end; i++) {
		const struct piece *block = &writer->blocks[i];

		if (block->address < at || block->size > segment->address + segment->size -
								 block->address) {
			writer->left_out++; /* blocks of this form follow each other */
			continue;
		}
		put_gap(writer, at, block->address, sums);
		put_used(writer, block, sums);
		at = block->address + block->size;
	}
	if (at == segment->address && first == end)
		put_used(writer, segment, sums);
	else
		put_gap(writer, at, segment->address + segment->size, sums);
}

static void put_device(struct writer *writer, uint64_t row)
{
	static const char device[] = "device", stream[] = "stream";
	uint64_t plus_one = vc_value(writer->tables, VC_COL_allocations_device_plus_one, row);

	put_word(writer, device);
	vc_pickle_signed(&writer->pickle, plus_one <= DEVICES_MOST ? (int64_t)plus_one - 1 : -1);
	put_word(writer, stream);
	vc_pickle_signed(&writer->pickle,
			 (int64_t)vc_value(writer->tables, VC_COL_allocations_stream, row));
}

static void put_segment(struct writer *writer, uint64_t index, const struct piece *segment,
			uint64_t first, uint64_t end)
{
	static const char address[] = "address", total[] = "total_size", blocks[] = "blocks",
			  allocated[] = "allocated_size", active_size[] = "active_size",
			  requested[] = "requested_size", type[] = "segment_type",
			  large[] = "large", small[] = "small", pool[] = "segment_pool_id",
			  expandable[] = "is_expandable";
	struct sums sums = {0};

	vc_pickle_item(&writer->pickle, index);
	begin_dict(writer);
	put_device(writer, segment->row);
	put_number(writer, address, segment->address);
	put_number(writer, total, segment->size);
	put_word(writer, type);
	put_word(writer, segment->size <= SMALL_MOST ? small : large);
	put_word(writer, pool);
	vc_pickle_unsigned(&writer->pickle, 0);
	vc_pickle_unsigned(&writer->pickle, 0);
	vc_pickle_put(&writer->pickle, VC_PICKLE_PAIR);
	put_word(writer, expandable);
	vc_pickle_put(&writer->pickle, segment->mapping ? VC_PICKLE_TRUE : VC_PICKLE_FALSE);
	put_stack(writer, segment->row);
	put_word(writer, blocks);
	vc_pickle_put(&writer->pickle, VC_PICKLE_LIST);
	put_blocks(writer, segment, first, end, &sums);
	vc_pickle_list_end(&writer->pickle, sums.blocks);
	put_number(writer, allocated, sums.allocated);
	put_number(writer, active_size, sums.allocated);
	put_number(writer, requested, sums.requested);
	vc_pickle_put(&writer->pickle, VC_PICKLE_SET);
}

/** Segments and blocks by address. A block that lies in no segment is one of its own. */
static void put_segments(struct writer *writer)
{
	uint64_t next = 0, count = 0, first;

	vc_pickle_put(&writer->pickle, VC_PICKLE_LIST);
	for (uint64_t i = 0; i <= writer->segment_count; i++) {
		const struct piece *segment =
			i < writer->segment_count ? &writer->segments[i] : NULL;

		for (; next < writer->block_count &&
		       (!segment || writer->blocks[next].address < segment->address);
		     next++)
			put_segment(writer, count++, &writer->blocks[next], next, next);
		if (!segment)
			break;
		first = next;
		while (next < writer->block_count &&
		       writer->blocks[next].address - segment->address < segment->size)
			next++;
		put_segment(writer, count++, segment, first, next);
	}
	vc_pickle_list_end(&writer->pickle, count);
}

static void put_top(struct writer *writer)
{
	static const char segments[] = "segments", traces[] = "device_traces",
			  settings[] = "allocator_settings", annotations[] = "external_annotations";
	uint64_t devices = 0;

	for (uint64_t i = 0; i < writer->segment_count; i++) {
		uint64_t device = vc_value(writer->tables, VC_COL_allocations_device_plus_one,
					   writer->segments[i].row);

		if (device > devices && device <= DEVICES_MOST)
			devices = device;
	}
	begin_dict(writer);
	put_word(writer, segments);
	put_segments(writer);
	put_word(writer, traces);
	vc_pickle_put(&writer->pickle, VC_PICKLE_LIST);
	for (uint64_t i = 0; i < devices; i++) {
		vc_pickle_item(&writer->pickle, i);
		vc_pickle_put(&writer->pickle, VC_PICKLE_LIST);
	}
	vc_pickle_list_end(&writer->pickle, devices);
	put_word(writer, settings);
	vc_pickle_put(&writer->pickle, VC_PICKLE_DICT);
	put_word(writer, annotations);
	vc_pickle_put(&writer->pickle, VC_PICKLE_LIST);
	vc_pickle_put(&writer->pickle, VC_PICKLE_SET);
}

int vc_torch_write_recording(FILE *out, const struct vc_tables *tables,
			     const struct vc_names *names, const struct vc_limits *limits,
			     uint64_t *left_out)
{
	struct writer writer = {.tables = tables, .names = names,
				.frames_left = limits->most[VC_LIMIT_RECORDS]};
	int error = find_pieces(&writer);

	writer.stack = calloc(vc_names_places(names, 0), sizeof(*writer.stack));
	if (!error && !writer.stack)
		error = VC_E_NO_MEMORY;
	if (!error) {
		vc_pickle_start(&writer.pickle, out);
		put_top(&writer);
		error = vc_pickle_end(&writer.pickle);
	}
	if (!error)
		*left_out = writer.left_out;
	free(writer.segments);
	free(writer.blocks);
	free(writer.stack);
	return error;
}
