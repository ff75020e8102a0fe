/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/values.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Indexes of the memo may skip ahead by this much: its size follows the file's, not a number in it. */
enum { MEMO_SLACK = 65536 };

int vc_values_init(struct vc_values *values, struct vc_tables *tables,
		   const struct vc_limits *limits)
{
	*values = (struct vc_values){.tables = tables, .limits = limits};
	values->cache = calloc(VC_TEXT_CACHE_ENTRIES, sizeof(*values->cache));
	return values->cache ? 0 : VC_E_NO_MEMORY;
}

void vc_values_deinit(struct vc_values *values)
{
	for (uint64_t i = 0; i < values->node_count; i++)
		free(values->nodes[i].items);
	free(values->nodes);
	free(values->numbers);
	free(values->memo);
	free(values->scratch);
	free(values->cache);
	*values = (struct vc_values){0};
}

int vc_values_wrong(struct vc_values *values, int error, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(values->what, sizeof(values->what), format, list);
	va_end(list);
	return error;
}

int vc_values_limit(struct vc_values *values, enum vc_limit limit)
{
	return vc_values_wrong(values, VC_E_LIMIT, "more than %llu %s (--limit %s=N lifts this)",
			       (unsigned long long)values->limits->most[limit],
			       vc_limit_text[limit], vc_limit_name[limit]);
}

/** Doubles an array of `size`-byte entries where `count` fill it. */
static int grow(void *array, uint64_t *capacity, uint64_t count, size_t size)
{
	uint64_t larger = *capacity ? *capacity * 2 : 64;
	void *grown;

	if (count < *capacity)
		return 0;
	while (larger <= count)
		larger *= 2;
	if (larger > SIZE_MAX / size / 2)
		return VC_E_NO_MEMORY;
	grown = realloc(*(void **)array, larger * size);
	if (!grown)
		return VC_E_NO_MEMORY;
	*(void **)array = grown;
	*capacity = larger;
	return 0;
}

/* ---- texts and numbers ---- */

/** Tables keep no NUL inside strings. */
static int text_with_nul(struct vc_values *values, const uint8_t *bytes, size_t length,
			 uint64_t *ret)
{
	if (length > values->scratch_room) {
		uint8_t *larger = realloc(values->scratch, length);

		if (!larger)
			return VC_E_NO_MEMORY;
		values->scratch = larger;
		values->scratch_room = length;
	}
	for (size_t i = 0; i < length; i++)
		values->scratch[i] = bytes[i] ? bytes[i] : ' ';
	values->nuls++;
	return vc_tables_string(values->tables, (const char *)values->scratch, length, ret);
}

static int text_row(struct vc_values *values, const uint8_t *bytes, size_t length, uint64_t *ret)
{
	if (length > values->limits->most[VC_LIMIT_STRINGS] - values->tables->text_bytes ||
	    values->tables->text_bytes > values->limits->most[VC_LIMIT_STRINGS])
		return vc_values_limit(values, VC_LIMIT_STRINGS);
	if (memchr(bytes, 0, length))
		return text_with_nul(values, bytes, length, ret);
	return vc_tables_string(values->tables, (const char *)bytes, length, ret);
}

int vc_values_text(struct vc_values *values, const uint8_t *bytes, size_t length, uint64_t *ret)
{
	struct vc_text_cache text, *entry;
	bool known;
	uint64_t row = 0;
	int error;

	if (length && length <= VC_TEXT_CACHED_LENGTH) {
		entry = vc_values_cached(values, bytes, length, &text, &known);
		row = entry->row;
		if (!known) {
			error = text_row(values, bytes, length, &row);
			if (error)
				return error;
			text.row = (uint32_t)row;
			if (row <= UINT32_MAX)
				*entry = text;
		}
	} else if (length) {
		error = text_row(values, bytes, length, &row);
		if (error)
			return error;
	}
	*ret = vc_value_make(VC_VALUE_TEXT, row);
	return 0;
}

static int boxed(struct vc_values *values, unsigned tag, uint64_t bits, uint64_t *ret)
{
	int error = grow(&values->numbers, &values->number_capacity, values->number_count,
			 sizeof(*values->numbers));

	if (error)
		return error;
	values->numbers[values->number_count] = bits;
	*ret = vc_value_make(tag, values->number_count++);
	return 0;
}

int vc_values_long(struct vc_values *values, int64_t number, uint64_t *ret)
{
	return boxed(values, VC_VALUE_LONG, (uint64_t)number, ret);
}

int vc_values_unsigned(struct vc_values *values, uint64_t number, uint64_t *ret)
{
	return number >> 63 ? boxed(values, VC_VALUE_UNSIGNED, number, ret) :
			      vc_values_number(values, (int64_t)number, ret);
}

int vc_values_fraction(struct vc_values *values, double number, uint64_t *ret)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	return boxed(values, VC_VALUE_FRACTION, bits, ret);
}

int vc_values_get_number(const struct vc_values *values, uint64_t value, uint64_t *ret)
{
	switch (vc_value_tag(value)) {
	case VC_VALUE_INTEGER:
		*ret = (uint64_t)((int64_t)(value << 8) >> 8);
		return 0;
	case VC_VALUE_BOOLEAN:
		*ret = vc_value_content(value);
		return 0;
	case VC_VALUE_LONG:
	case VC_VALUE_UNSIGNED:
		*ret = values->numbers[vc_value_content(value)];
		return 0;
	default:
		return VC_E_INVALID;
	}
}

const char *vc_value_kind(uint64_t value)
{
	static const char *const kind[] = {
		[VC_VALUE_NONE] = "None", [VC_VALUE_BOOLEAN] = "a truth value",
		[VC_VALUE_INTEGER] = "a number", [VC_VALUE_LONG] = "a number",
		[VC_VALUE_UNSIGNED] = "a number", [VC_VALUE_FRACTION] = "a fraction",
		[VC_VALUE_TEXT] = "a text", [VC_VALUE_PAIR] = "a tuple",
		[VC_VALUE_NEW_LIST] = "an empty list", [VC_VALUE_NEW_DICT] = "an empty dict",
		[VC_VALUE_LIST] = "a list", [VC_VALUE_TUPLE] = "a tuple",
		[VC_VALUE_DICT] = "a dict", [VC_VALUE_RUN] = "a list of records",
		[VC_VALUE_REFERENCE] = "a container",
	};
	unsigned tag = vc_value_tag(value);

	return tag < VC_VALUE_RECORD ? kind[tag] : "a record";
}

/* ---- nodes ---- */

static int new_node(struct vc_values *values, struct vc_node node, unsigned tag, uint64_t *ret)
{
	int error;

	if (values->node_count >= values->limits->most[VC_LIMIT_OBJECTS])
		return vc_values_limit(values, VC_LIMIT_OBJECTS);
	error = grow(&values->nodes, &values->node_capacity, values->node_count,
		     sizeof(*values->nodes));
	if (error)
		return error;
	values->nodes[values->node_count] = node;
	*ret = vc_value_make(tag, values->node_count++);
	return 0;
}

static bool has_node(uint64_t value)
{
	unsigned tag = vc_value_tag(value);

	return tag == VC_VALUE_LIST || tag == VC_VALUE_TUPLE || tag == VC_VALUE_DICT ||
	       tag == VC_VALUE_RUN;
}

/** Adds finished values to a node. */
static int add_items(struct vc_values *values, uint64_t container, const uint64_t *items,
		     uint64_t count)
{
	struct vc_node *node = &values->nodes[vc_value_content(container)];
	uint64_t *larger;

	for (uint64_t i = 0; i < count; i++) {
		unsigned depth = has_node(items[i]) ? vc_values_node(values, items[i])->depth : 0;

		if (depth >= values->limits->most[VC_LIMIT_DEPTH] || depth >= UINT16_MAX)
			return vc_values_limit(values, VC_LIMIT_DEPTH);
		if (depth + 1 > node->depth)
			node->depth = (uint16_t)(depth + 1);
	}
	if (node->count + count > node->capacity) {
		uint64_t room = node->count + count;

		if (node->capacity && room < node->capacity * 2)
			room = node->capacity * 2;
		larger = realloc(node->items, room * sizeof(*larger));
		if (!larger)
			return VC_E_NO_MEMORY;
		node->items = larger;
		node->capacity = room;
	}
	if (count)
		memcpy(node->items + node->count, items, count * sizeof(*items));
	node->count += count;
	return 0;
}

static int make_node(struct vc_values *values, unsigned tag, const uint64_t *items, uint64_t count,
		     uint64_t *ret)
{
	int error = new_node(values, (struct vc_node){.depth = 1}, tag, ret);

	return error ? error : add_items(values, *ret, items, count);
}

uint64_t vc_values_use(struct vc_values *values, uint64_t value)
{
	uint64_t *entry;

	if (vc_value_tag(value) != VC_VALUE_REFERENCE)
		return value;
	entry = &values->memo[vc_value_content(value)];
	*entry |= VC_VALUE_HELD;
	return *entry & ~VC_VALUE_HELD;
}

static void use_all(struct vc_values *values, uint64_t *items, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		if (vc_value_tag(items[i]) == VC_VALUE_REFERENCE)
			items[i] = vc_values_use(values, items[i]);
}

int vc_values_tuple(struct vc_values *values, uint64_t *items, uint64_t count, uint64_t *ret)
{
	const uint64_t small = UINT64_C(1) << 28;

	use_all(values, items, count);
	if (count == 2 && vc_value_tag(items[0]) == VC_VALUE_INTEGER &&
	    vc_value_tag(items[1]) == VC_VALUE_INTEGER && vc_value_content(items[0]) < small &&
	    vc_value_content(items[1]) < small) {
		*ret = vc_value_make(VC_VALUE_PAIR, vc_value_content(items[0]) << 28 |
							    vc_value_content(items[1]));
		return 0;
	}
	return make_node(values, VC_VALUE_TUPLE, items, count, ret);
}

/* ---- filling ---- */

/** The place of the container's value: the stack's, or the memo's. */
static int place_of(struct vc_values *values, uint64_t *container, uint64_t **ret)
{
	if (vc_value_tag(*container) != VC_VALUE_REFERENCE) {
		*ret = container;
		return 0;
	}
	*ret = &values->memo[vc_value_content(*container)];
	if (**ret & VC_VALUE_HELD)
		return vc_values_wrong(values, VC_E_CORRUPT,
				       "a container is changed after another took it in");
	return 0;
}

/** Whether the items are records of one kind with rising rows that continue a list. */
static bool continues(const struct vc_values *values, uint64_t list, const uint64_t *items,
		      uint64_t count)
{
	uint64_t next = items[0];

	if (vc_value_tag(next) < VC_VALUE_RECORD)
		return false;
	if (vc_value_tag(list) == VC_VALUE_RUN) {
		const struct vc_node *run = vc_values_node(values, list);

		next = vc_value_make(run->tag, run->capacity + run->count);
	} else if (vc_value_tag(list) != VC_VALUE_NEW_LIST) {
		return false;
	}
	for (uint64_t i = 0; i < count; i++)
		if (items[i] != next + i)
			return false;
	return true;
}

/** A run that cannot go on becomes a list of its records. */
static int run_to_list(struct vc_values *values, uint64_t *list)
{
	struct vc_node run = *vc_values_node(values, *list);
	uint64_t made, item;
	int error = make_node(values, VC_VALUE_LIST, NULL, 0, &made);

	for (uint64_t i = 0; !error && i < run.count; i++) {
		item = vc_value_make(run.tag, run.capacity + i);
		error = add_items(values, made, &item, 1);
	}
	if (!error)
		*list = made;
	return error;
}

static int append_to_run(struct vc_values *values, uint64_t *list, const uint64_t *items,
			 uint64_t count)
{
	if (vc_value_tag(*list) == VC_VALUE_RUN) {
		values->nodes[vc_value_content(*list)].count += count;
		return 0;
	}
	return new_node(values,
			(struct vc_node){.count = count, .capacity = vc_value_content(items[0]),
					 .tag = (uint8_t)vc_value_tag(items[0]), .depth = 1},
			VC_VALUE_RUN, list);
}

int vc_values_append(struct vc_values *values, uint64_t *container, uint64_t *items,
		     uint64_t count)
{
	uint64_t *list;
	int error;

	use_all(values, items, count);
	error = place_of(values, container, &list);
	if (error || !count)
		return error;
	error = values->maker.list(values->maker.context, *list, items, count, list);
	if (error != VC_E_NOT_FOUND)
		return error;
	if (continues(values, *list, items, count))
		return append_to_run(values, list, items, count);
	switch (vc_value_tag(*list)) {
	case VC_VALUE_NEW_LIST:
		return make_node(values, VC_VALUE_LIST, items, count, list);
	case VC_VALUE_RUN:
		error = run_to_list(values, list);
		return error ? error : add_items(values, *list, items, count);
	case VC_VALUE_LIST:
		return add_items(values, *list, items, count);
	default:
		return vc_values_wrong(values, VC_E_CORRUPT, "items are added to %s",
				       vc_value_kind(*list));
	}
}

int vc_values_set(struct vc_values *values, uint64_t *container, uint64_t *pairs, uint64_t count)
{
	uint64_t *dict;
	int error;

	use_all(values, pairs, count * 2);
	error = place_of(values, container, &dict);
	if (error || !count)
		return error;
	if (vc_value_tag(*dict) == VC_VALUE_DICT)
		return add_items(values, *dict, pairs, count * 2);
	if (vc_value_tag(*dict) != VC_VALUE_NEW_DICT)
		return vc_values_wrong(values, VC_E_CORRUPT, "keys are added to %s",
				       vc_value_tag(*dict) >= VC_VALUE_RECORD ?
					       "a record that was complete" :
					       vc_value_kind(*dict));
	error = values->maker.dict(values->maker.context, pairs, count, dict);
	if (error != VC_E_NOT_FOUND)
		return error;
	return make_node(values, VC_VALUE_DICT, pairs, count * 2, dict);
}

/* ---- memo ---- */

static bool is_container(uint64_t value)
{
	unsigned tag = vc_value_tag(value);

	return tag == VC_VALUE_NEW_LIST || tag == VC_VALUE_NEW_DICT || tag == VC_VALUE_LIST ||
	       tag == VC_VALUE_DICT || tag == VC_VALUE_RUN || tag >= VC_VALUE_RECORD;
}

int vc_values_remember(struct vc_values *values, uint64_t index, uint64_t *value)
{
	uint64_t entry = *value;

	if (index >= values->limits->most[VC_LIMIT_MEMO])
		return vc_values_limit(values, VC_LIMIT_MEMO);
	if (index > values->memo_puts + MEMO_SLACK)
		return vc_values_wrong(values, VC_E_CORRUPT,
				       "memo entry %llu comes when %llu were made",
				       (unsigned long long)index,
				       (unsigned long long)values->memo_puts);
	if (index >= values->memo_capacity) {
		int error = grow(&values->memo, &values->memo_capacity, index,
				 sizeof(*values->memo));

		if (error)
			return error;
	}
	while (values->memo_count <= index) /* entries that were skipped */
		values->memo[values->memo_count++] = vc_value_make(VC_VALUE_REFERENCE, 0);
	if (is_container(entry))
		*value = vc_value_make(VC_VALUE_REFERENCE, index);
	else if (vc_value_tag(entry) == VC_VALUE_REFERENCE)
		/* a second name; references to references would never end */
		entry = vc_values_use(values, entry) | VC_VALUE_HELD;
	values->memo[index] = entry;
	values->memo_puts++;
	return 0;
}

int vc_values_recall_any(struct vc_values *values, uint64_t index, uint64_t *ret)
{
	uint64_t entry;

	if (index >= values->memo_count ||
	    vc_value_tag(values->memo[index]) == VC_VALUE_REFERENCE)
		return vc_values_wrong(values, VC_E_CORRUPT, "memo entry %llu does not exist",
				       (unsigned long long)index);
	entry = values->memo[index];
	*ret = entry & VC_VALUE_HELD || !is_container(entry) ?
		       entry & ~VC_VALUE_HELD : vc_value_make(VC_VALUE_REFERENCE, index);
	return 0;
}
