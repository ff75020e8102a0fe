/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dicts that are like the one before: one after the other their opcodes are what the machine's loop
 * would take them for, with less between them. Nothing but the importer's tables changes before the
 * whole dict is known to be one, and there what was made is found again.
 */
#include "analyze/pickle_machine.h"
#include "formats/error.h"

/** Bytes that can be read wherever a key begins: its own, a short text's, MEMOIZE. */
enum { MARGIN = 2 * VC_PICKLE_OPCODE_BYTES };

struct alike {
	struct vc_pickle_machine *machine;
	struct vc_values *values;
	const uint8_t *last;              /* a key may begin up to here */
	uint64_t memo[VC_SHAPE_MOST];     /* of values, in the order of MEMOIZE */
	unsigned memo_count;
	uint64_t items[VC_SHAPE_MOST];
};

/** A text of the memo that is the one wanted. */
static inline const uint8_t *take_key(const uint8_t *at, const struct vc_values *values,
				      uint64_t wanted)
{
	uint32_t index;
	size_t bytes = 5;

	memcpy(&index, at + 1, sizeof(index));
	index = le32toh(index);
	if (*at == OP_BINGET) {
		index = (uint8_t)index;
		bytes = 2;
	} else if (*at != OP_LONG_BINGET) {
		return NULL;
	}
	return index < values->memo_count && values->memo[index] == wanted ? at + bytes : NULL;
}

/** Behind MEMOIZE, where there is one. */
static const uint8_t *memoize(struct alike *alike, const uint8_t *at, uint64_t value)
{
	if (*at != OP_MEMOIZE)
		return at;
	alike->memo[alike->memo_count++] = value;
	return at + 1;
}

/** Frames, of a list that is made and filled at once: the room above the stack holds them. */
static const uint8_t *take_list(struct alike *alike, const uint8_t *at, uint64_t *ret)
{
	struct vc_pickle_machine *machine = alike->machine;
	const struct vc_record_maker *maker = &alike->values->maker;
	uint64_t *first = machine->stack + machine->top, *top = first;
	const uint64_t *end = machine->stack + machine->room - 2 * VC_SHAPE_MOST - 2;
	bool memoized = at[1] == OP_MEMOIZE;

	*ret = vc_value_make(VC_VALUE_NEW_LIST, 0);
	at += 1 + memoized;
	if (*at == OP_MARK) {
		at = vc_pickle_plain_run(at + 1, alike->last, alike->values, &top, end);
		if (at > alike->last || *at++ != OP_APPENDS || top == first ||
		    maker->list(maker->context, *ret, first, (uint64_t)(top - first), ret))
			return NULL;
	}
	if (memoized)
		alike->memo[alike->memo_count++] = *ret | VC_VALUE_HELD;
	return at;
}

/** What values are beside plain ones: texts that came before, a pair of small numbers, lists. */
static const uint8_t *take_other(struct alike *alike, const uint8_t *at, uint64_t *ret)
{
	switch (*at) {
	case OP_SHORT_BINUNICODE:
		if (!vc_values_known_text(alike->values, at + 2, at[1], ret))
			return NULL;
		return memoize(alike, at + 2 + at[1], *ret);
	case OP_EMPTY_LIST:
		return take_list(alike, at, ret);
	default:
		return NULL;
	}
}

static inline const uint8_t *take_value(struct alike *alike, const uint8_t *at, uint64_t *ret)
{
	const uint8_t *next = vc_pickle_plain(at, alike->values, ret);

	if (!next)
		return take_other(alike, at, ret);
	if (*at != OP_BININT1 || *next != OP_BININT1 || next[2] != OP_TUPLE2)
		return next;
	*ret = vc_value_make(VC_VALUE_PAIR, (uint64_t)at[1] << 28 | next[1]);
	return memoize(alike, next + 3, *ret);
}

/** The keys and values, from behind MARK on. */
static const uint8_t *take_pairs(struct alike *alike, const uint8_t *at)
{
	const struct vc_values *values = alike->values;
	const struct vc_shape *shape = values->maker.shape;

	for (unsigned i = 0; i < shape->count; i++) {
		if (at > alike->last)
			return NULL;
		at = take_key(at, values, shape->keys[i]);
		if (at)
			at = take_value(alike, at, &alike->items[i]);
		if (!at)
			return NULL;
	}
	return at <= alike->last && *at == OP_SETITEMS ? at : NULL;
}

/** Whether there is room and leave for all that such a dict may need on the way. */
static bool has_room(const struct vc_pickle_machine *machine)
{
	enum { MARKS = 2 };
	const struct vc_values *values = machine->values;

	return machine->stream->end - machine->stream->at > MARGIN &&
	       machine->room - machine->top > 2 * VC_SHAPE_MOST + 2 &&
	       machine->mark_count + MARKS <= values->limits->most[VC_LIMIT_DEPTH] &&
	       vc_values_can_memoize(values, VC_SHAPE_MOST + 1);
}

int vc_pickle_alike(struct vc_pickle_machine *machine, uint64_t *offset)
{
	struct vc_values *values = machine->values;
	const struct vc_record_maker *maker = &values->maker;
	struct alike alike;
	const uint8_t *at = machine->stream->at;
	bool memoized = *at == OP_MEMOIZE;
	uint64_t record;
	int error;

	if (!maker->shape || !maker->shape->count || !has_room(machine) || at[memoized] != OP_MARK)
		return VC_E_NOT_FOUND;
	alike.machine = machine;
	alike.values = values;
	alike.last = machine->stream->end - MARGIN;
	alike.memo_count = 0;
	at = take_pairs(&alike, at + memoized + 1);
	if (!at)
		return VC_E_NOT_FOUND;
	error = maker->alike(maker->context, alike.items, &record);
	if (error == VC_E_NOT_FOUND)
		return error;
	machine->stream->at = at;
	*offset = vc_stream_offset(machine->stream);
	if (error)
		return error;
	machine->stream->at++;
	machine->stack[machine->top++] = memoized ? vc_values_memoize(values, record) : record;
	for (unsigned i = 0; i < alike.memo_count; i++)
		vc_values_memoize(values, alike.memo[i]);
	return 0;
}
