/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dicts and lists of a PyTorch snapshot as rows of tables. Private to the importer.
 *
 * What a dict is, its keys say: "action" an event, "total_size" a segment, "size" and "state" a
 * block, "real_size" an older owner of a block, "stage" an annotation, "name" and "filename" a
 * frame. Frames and stacks are interned. Rows refer to each other once the container is known.
 */
#ifndef VC_ANALYZE_TORCH_RECORDS_H
#define VC_ANALYZE_TORCH_RECORDS_H

#include "analyze/values.h"

/** Tags of records. */
enum vc_torch_tag {
	VC_TORCH_FRAME = VC_VALUE_RECORD,
	VC_TORCH_STACK,      /* a list of frames */
	VC_TORCH_EVENT,
	VC_TORCH_SEGMENT,
	VC_TORCH_BLOCK,
	VC_TORCH_HISTORY,
	VC_TORCH_ANNOTATION,
};

/** Keys that are known; key k is row k + 1 of `strings`. The first are bits of `keys` columns. */
enum vc_torch_key {
#define VC_ORIGIN_KEY(name, number, text) VC_TORCH_KEY_##name,
#include "formats/origin_keys.def"
#undef VC_ORIGIN_KEY
	VC_TORCH_ORIGIN_KEYS,
	VC_TORCH_BEFORE_MORE = VC_TORCH_ORIGIN_KEYS - 1,
#define VC_TORCH_KEY(name, text) VC_TORCH_KEY_##name,
#include "analyze/torch_keys.def"
#undef VC_TORCH_KEY
	VC_TORCH_KEYS
};

/** Rows of a table by their contents. */
struct vc_interned {
	uint64_t *index;     /* row plus 1; 0 empty */
	uint64_t size, count;
};

enum {
	VC_TORCH_DETAIL_WORDS = 9, VC_TORCH_FRAME_WORDS = 7, VC_TORCH_LATEST = 16,
	VC_TORCH_LEFT_MOST = 32, VC_TORCH_EVENT_WORDS = 16,
};

/** What an event is made of, before it is a row; see torch_event.c. */
struct vc_torch_event {
	uint64_t word[VC_TORCH_EVENT_WORDS];
	bool metadata_left; /* it is no text */
};
/** How the value of a key is taken, and the word it goes to. */
struct vc_torch_field {
	uint8_t take, word;
};
/** What the latest event had: its keys, where they go, and the words that no key sets. */
struct vc_torch_alike {
	struct vc_shape shape;
	struct vc_torch_field field[VC_SHAPE_MOST];
	struct vc_torch_event event;
};

struct vc_torch {
	struct vc_values values;
	struct vc_tables *tables;
	struct vc_interned frames, stacks, details;
	struct vc_torch_alike alike;
	/* the latest detail of each action, and its row plus 1 */
	uint64_t latest[VC_TORCH_LATEST][VC_TORCH_DETAIL_WORDS], latest_row[VC_TORCH_LATEST];
	/* pairs of the record at hand whose keys are not known, see torch_more.h */
	uint64_t left[VC_TORCH_LEFT_MOST][2];
	unsigned left_count;
	uint64_t more_bytes;        /* of all texts made of such pairs */
	uint64_t unknown_keys;      /* left out */
	uint64_t unknown_key;       /* the first: row of strings */
	uint64_t extended;          /* frames that were copied: stacks that came in parts */
	uint64_t inactive;          /* row of strings: "inactive" */
	bool keep_trace;            /* the columns of trace are wanted */
};

int vc_torch_init(struct vc_torch *torch, struct vc_tables *tables,
		  const struct vc_limits *limits);
void vc_torch_deinit(struct vc_torch *torch);

/** A row that is looked for: values of the first `count` columns of a table. */
struct vc_torch_row {
	enum vc_table_index table;
	const uint64_t *cells;
	uint64_t count;
};
/** The row of a table that has these cells, made where there is none. */
int vc_torch_intern_row(struct vc_torch *torch, struct vc_interned *interned,
			struct vc_torch_row wanted, uint64_t *ret);
/** VC_E_LIMIT where a table may have no more rows. */
int vc_torch_check_records(struct vc_torch *torch, enum vc_table_index table);
/** A new row of zeroes, within the limit. */
int vc_torch_append(struct vc_torch *torch, enum vc_table_index table, uint64_t *ret);
/** Record maker's `list`: a list becomes a stack where all its items are frames. */
int vc_torch_make_list(void *context, uint64_t list, const uint64_t *items, uint64_t count,
		       uint64_t *ret);
/** Row plus 1 of a stack that also has a forward stack. */
int vc_torch_stack_with_forward(struct vc_torch *torch, uint64_t stack, uint64_t forward,
				uint64_t *ret);

#endif
