/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain data (numbers, texts, lists, tuples, dicts) as a file of another program brings it, kept as
 * small as it can be: a value is one 64-bit number, texts are rows of `strings`, and whatever the
 * importer knows becomes a row of a table at once, so that only what is open is kept.
 *
 * A value has a tag in its top byte and 56 bits of content. Containers that a file refers to again
 * live in the memo; the rest only on the reader's stack. A dict is handed to the importer when it is
 * filled: it may make a record of it (a tag of its own and a row number). Lists of records of rising
 * rows become runs. A container that another one holds never changes: so none can hold itself, and
 * depth is bounded. The reader of a format (pickle, JSON) calls the functions in the order of the
 * file. Errors leave a clause in `what`. Not thread safe.
 */
#ifndef VC_ANALYZE_VALUES_H
#define VC_ANALYZE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analyze/limits.h"
#include "formats/tables.h"

enum vc_value_tag {
	VC_VALUE_NONE,
	VC_VALUE_BOOLEAN,
	VC_VALUE_INTEGER,    /* signed, 56 bits */
	VC_VALUE_LONG,       /* entry of `numbers`, signed 64 bits */
	VC_VALUE_UNSIGNED,   /* entry of `numbers`, 2^63 and above */
	VC_VALUE_FRACTION,   /* entry of `numbers`, bits of a double */
	VC_VALUE_TEXT,       /* row of `strings` */
	VC_VALUE_PAIR,       /* tuple of two numbers below 2^28 */
	VC_VALUE_NEW_LIST,   /* empty so far */
	VC_VALUE_NEW_DICT,
	VC_VALUE_LIST,       /* nodes */
	VC_VALUE_TUPLE,
	VC_VALUE_DICT,
	VC_VALUE_RUN,        /* a list of records with rising rows */
	VC_VALUE_REFERENCE,  /* entry of the memo that is still being filled */
	VC_VALUE_RECORD,     /* first tag of the importer's own */
	VC_VALUE_TAGS = 64,
};

/** Set in a value of the memo that another container holds. */
#define VC_VALUE_HELD (UINT64_C(1) << 63)
#define VC_VALUE_CONTENT ((UINT64_C(1) << 56) - 1)

static inline uint64_t vc_value_make(unsigned tag, uint64_t content)
{
	return (uint64_t)tag << 56 | content;
}

static inline unsigned vc_value_tag(uint64_t value)
{
	return (unsigned)(value >> 56);
}

static inline uint64_t vc_value_content(uint64_t value)
{
	return value & VC_VALUE_CONTENT;
}

struct vc_node {
	uint64_t *items;     /* of a dict: key, value, key, value, ...; NULL for runs */
	uint64_t count;      /* of items; records of a run */
	uint64_t capacity;   /* for runs: first row */
	uint8_t tag;         /* of the records of a run */
	uint16_t depth;      /* containers inside, itself counted */
};

/** The keys, in their order, of the dicts that a file has most of. */
enum { VC_SHAPE_MOST = 24 };
struct vc_shape {
	uint64_t keys[VC_SHAPE_MOST];
	unsigned count;      /* 0: there is none */
};

/** What the importer makes of containers; returns VC_E_NOT_FOUND where it leaves them as they are. */
struct vc_record_maker {
	void *context;
	/** A dict of `count` pairs. */
	int (*dict)(void *context, const uint64_t *pairs, uint64_t count, uint64_t *ret);
	/** Items added to a list that is new or what this function made of it before. */
	int (*list)(void *context, uint64_t list, const uint64_t *items, uint64_t count,
		    uint64_t *ret);
	/**
	 * Dicts with the keys of `shape`, the importer's, may come as their values alone: the same
	 * record as `dict` makes, or VC_E_NOT_FOUND where that has to look at them. NULL: none.
	 */
	const struct vc_shape *shape;
	int (*alike)(void *context, const uint64_t *values, uint64_t *ret);
};

/** Rows of short texts that came before. */
enum { VC_TEXT_CACHE_ENTRIES = 1024, VC_TEXT_CACHED_LENGTH = 16 };
struct vc_text_cache {
	uint64_t low, high;
	uint32_t length, row;
};

struct vc_values {
	struct vc_tables *tables;
	const struct vc_limits *limits;
	struct vc_record_maker maker;
	struct vc_node *nodes;
	uint64_t node_count, node_capacity;
	uint64_t *numbers;
	uint64_t number_count, number_capacity;
	uint64_t *memo;
	uint64_t memo_count, memo_capacity; /* count: 1 + highest index put */
	uint64_t memo_puts;
	uint64_t nuls;       /* strings that held a NUL, which became a space */
	uint8_t *scratch;
	size_t scratch_room;
	char what[256];      /* why a function failed, "" where the error says all */
	struct vc_text_cache *cache;
};

int vc_values_init(struct vc_values *values, struct vc_tables *tables,
		   const struct vc_limits *limits);
void vc_values_deinit(struct vc_values *values);
/** Writes `what` and returns `error`. */
int vc_values_wrong(struct vc_values *values, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/** Says that a limit was reached; returns VC_E_LIMIT. */
int vc_values_limit(struct vc_values *values, enum vc_limit limit);

int vc_values_text(struct vc_values *values, const uint8_t *bytes, size_t length, uint64_t *ret);
/** Where a short text that is not empty has its entry in the cache; *known: it is there. */
static inline struct vc_text_cache *vc_values_cached(const struct vc_values *values,
						     const uint8_t *bytes, size_t length,
						     struct vc_text_cache *text, bool *known)
{
	uint64_t word[2] = {0, 0};
	struct vc_text_cache *entry;

	memcpy(word, bytes, length);
	entry = &values->cache[((word[0] ^ word[1] * 3) * 0x9e3779b97f4a7c15u + length) >> 54];
	*text = (struct vc_text_cache){word[0], word[1], (uint32_t)length, 0};
	*known = entry->length == length && entry->low == word[0] && entry->high == word[1];
	return entry;
}
/** The same as vc_values_text for a text that came not long before; false for others. */
static inline bool vc_values_known_text(const struct vc_values *values, const uint8_t *bytes,
					size_t length, uint64_t *ret)
{
	struct vc_text_cache text, *entry;
	bool known;

	if (length - 1 >= VC_TEXT_CACHED_LENGTH)
		return false;
	entry = vc_values_cached(values, bytes, length, &text, &known);
	*ret = vc_value_make(VC_VALUE_TEXT, entry->row);
	return known;
}
int vc_values_long(struct vc_values *values, int64_t number, uint64_t *ret);
int vc_values_unsigned(struct vc_values *values, uint64_t number, uint64_t *ret);
int vc_values_fraction(struct vc_values *values, double number, uint64_t *ret);
int vc_values_tuple(struct vc_values *values, uint64_t *items, uint64_t count, uint64_t *ret);

static inline int vc_values_number(struct vc_values *values, int64_t number, uint64_t *ret)
{
	if (number < -(INT64_C(1) << 55) || number >= INT64_C(1) << 55)
		return vc_values_long(values, number, ret);
	*ret = vc_value_make(VC_VALUE_INTEGER, (uint64_t)number & VC_VALUE_CONTENT);
	return 0;
}

/** Adds items to the list, or pairs to the dict, at *container; *container changes. */
int vc_values_append(struct vc_values *values, uint64_t *container, uint64_t *items,
		     uint64_t count);
int vc_values_set(struct vc_values *values, uint64_t *container, uint64_t *pairs, uint64_t count);

/** Remembers the value; containers become a reference to the entry. */
int vc_values_remember(struct vc_values *values, uint64_t index, uint64_t *value);
/** Whether the next entries of the memo have room and are within the limit. */
static inline bool vc_values_can_memoize(const struct vc_values *values, unsigned entries)
{
	return values->memo_count + entries <= values->memo_capacity &&
	       values->memo_count + entries <= values->limits->most[VC_LIMIT_MEMO] &&
	       values->memo_count <= values->memo_puts;
}
/** Remembers a finished value as the next entry, which there is room for; a reference to it. */
static inline uint64_t vc_values_memoize(struct vc_values *values, uint64_t value)
{
	values->memo[values->memo_count] = value;
	values->memo_puts++;
	return vc_value_make(VC_VALUE_REFERENCE, values->memo_count++);
}
/** The value of an entry of the memo. */
int vc_values_recall_any(struct vc_values *values, uint64_t index, uint64_t *ret);

/** Whether an entry of the memo is what most are: a text, or a container that is complete. */
static inline bool vc_value_is_plain(uint64_t entry)
{
	return entry & VC_VALUE_HELD || vc_value_tag(entry) == VC_VALUE_TEXT;
}
/** The same as vc_values_recall_any, fast for those. */
static inline int vc_values_recall(struct vc_values *values, uint64_t index, uint64_t *ret)
{
	if (index >= values->memo_count || !vc_value_is_plain(values->memo[index]))
		return vc_values_recall_any(values, index, ret);
	*ret = values->memo[index] & ~VC_VALUE_HELD;
	return 0;
}
/** The finished value behind a reference; from now on it cannot change. */
uint64_t vc_values_use(struct vc_values *values, uint64_t value);

/* ---- asking ---- */

/** Any whole number as 64 bits; VC_E_INVALID for anything else. Booleans are 0 and 1. */
int vc_values_get_number(const struct vc_values *values, uint64_t value, uint64_t *ret);
/** Node of a LIST, TUPLE, DICT or RUN. */
static inline const struct vc_node *vc_values_node(const struct vc_values *values, uint64_t value)
{
	return &values->nodes[vc_value_content(value)];
}
/** "a text", "a list", ... */
const char *vc_value_kind(uint64_t value);

#endif
