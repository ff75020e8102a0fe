/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/pickle.h"

#include <stdlib.h>

#include "analyze/pickle_machine.h"
#include "formats/error.h"

enum { PROTOCOL_MOST = 5, NAME_BYTES = 100 };

/** Position below which the stack belongs to what is outside the last mark. */
static uint64_t floor_of(const struct vc_pickle_machine *machine)
{
	return machine->mark_count ? machine->marks[machine->mark_count - 1] : 0;
}

static int grow_stack(struct vc_pickle_machine *machine)
{
	uint64_t room = machine->room ? machine->room * 2 : 4096;
	uint64_t *larger;

	if (machine->top >= machine->values->limits->most[VC_LIMIT_STACK])
		return vc_values_limit(machine->values, VC_LIMIT_STACK);
	larger = realloc(machine->stack, room * sizeof(*larger));
	if (!larger)
		return VC_E_NO_MEMORY;
	machine->stack = larger;
	machine->room = room;
	return 0;
}

static inline int push(struct vc_pickle_machine *machine, uint64_t value)
{
	if (machine->top == machine->room) {
		int error = grow_stack(machine);

		if (error)
			return error;
	}
	machine->stack[machine->top++] = value;
	return 0;
}

static int underflow(struct vc_pickle_machine *machine)
{
	return vc_values_wrong(machine->values, VC_E_CORRUPT, "it takes more than is there");
}

/* ---- refusals ---- */

/** Adds printable characters of a line of the stream; the byte after it. */
static const uint8_t *add_line(const uint8_t *at, const uint8_t *end, char *text, size_t room)
{
	size_t length = strlen(text);

	for (; at < end && *at != '\n'; at++) {
		if (length + 1 < room)
			text[length++] = *at >= ' ' && *at < 0x7f && *at != '\'' ? (char)*at : '?';
	}
	text[length] = 0;
	return at < end ? at + 1 : at;
}

/** "STACK_GLOBAL 'os system'": its names are the two texts on the stack. */
static void add_stacked(const struct vc_pickle_machine *machine, char *text, size_t room)
{
	for (unsigned i = 2; i >= 1; i--) {
		const char *name;
		uint64_t value = machine->top >= i ? machine->stack[machine->top - i] : 0;

		if (vc_value_tag(value) != VC_VALUE_TEXT)
			continue;
		name = vc_tables_text(machine->values->tables, vc_value_content(value));
		add_line((const uint8_t *)name, (const uint8_t *)name + strlen(name), text, room);
		if (i == 2)
			strncat(text, " ", room - strlen(text) - 1);
	}
}

static int refuse(struct vc_pickle_machine *machine, uint8_t opcode)
{
	static const char *const names[256] = {
#define VC_OPCODE(name, byte, class) [byte] = #name,
#include "analyze/pickle_opcodes.def"
#undef VC_OPCODE
	};
	const uint8_t *at = machine->stream->at, *end;
	char text[NAME_BYTES] = "";

	if (!names[opcode])
		return vc_values_wrong(machine->values, VC_E_CORRUPT, "0x%02x is no opcode", opcode);
	if (opcode == OP_GLOBAL || opcode == OP_INST) {
		if (vc_stream_fill(machine->stream, 2 * NAME_BYTES))
			return VC_E_IO;
		end = machine->stream->end;
		at = add_line(machine->stream->at, end, text, sizeof(text));
		strncat(text, " ", sizeof(text) - strlen(text) - 1);
		add_line(at, end, text, sizeof(text));
	} else if (opcode == OP_STACK_GLOBAL) {
		add_stacked(machine, text, sizeof(text));
	}
	return vc_values_wrong(machine->values, VC_E_NOT_OURS, *text ? "%s '%s'" : "%s%s",
			       names[opcode], text);
}

/* ---- operands ---- */

/** Waits for the bytes of an operand. */
static int need(struct vc_pickle_machine *machine, size_t bytes)
{
	int error = 0;

	if ((size_t)(machine->stream->end - machine->stream->at) >= bytes)
		return 0;
	error = vc_stream_fill(machine->stream, bytes);
	if (!error && (size_t)(machine->stream->end - machine->stream->at) < bytes)
		error = VC_E_TRUNCATED;
	return error;
}

static inline uint64_t take(struct vc_pickle_machine *machine, unsigned bytes)
{
	uint64_t value = 0;

	memcpy(&value, machine->stream->at, bytes);
	machine->stream->at += bytes;
	return le64toh(value);
}

static int push_text(struct vc_pickle_machine *machine, uint64_t length)
{
	uint64_t value;
	int error;

	if (length > machine->values->limits->most[VC_LIMIT_STRING])
		return vc_values_limit(machine->values, VC_LIMIT_STRING);
	error = need(machine, length);
	if (!error)
		error = vc_values_text(machine->values, machine->stream->at, length, &value);
	if (error)
		return error;
	machine->stream->at += length;
	return push(machine, value);
}

/** Little-endian two's complement of any length that fits 64 bits. */
static int push_long(struct vc_pickle_machine *machine, uint64_t length)
{
	uint64_t number = 0, value;
	int error;

	if (length > 9)
		return vc_values_wrong(machine->values, VC_E_LIMIT, "a number of %llu bytes",
				       (unsigned long long)length);
	if (length && length <= 8 && machine->stream->end - machine->stream->at >= 8) {
		unsigned unused = 64 - 8 * (unsigned)length;

		memcpy(&number, machine->stream->at, 8); /* what follows it is shifted out */
		machine->stream->at += length;
		error = vc_values_number(machine->values,
					 (int64_t)(le64toh(number) << unused) >> unused, &value);
		return error ? error : push(machine, value);
	}
	error = need(machine, length);
	if (error)
		return error;
	number = take(machine, length < 8 ? (unsigned)length : 8);
	if (length == 9) {
		uint8_t high = (uint8_t)take(machine, 1);

		if (high && !(high == 0xff && number >> 63))
			return vc_values_wrong(machine->values, VC_E_LIMIT,
					       "a number over 64 bits");
		error = high ? vc_values_number(machine->values, (int64_t)number, &value) :
			       vc_values_unsigned(machine->values, number, &value);
	} else {
		unsigned unused = length ? 64 - 8 * (unsigned)length : 0;

		error = vc_values_number(machine->values, (int64_t)(number << unused) >> unused,
					 &value);
	}
	return error ? error : push(machine, value);
}

static int push_fraction(struct vc_pickle_machine *machine)
{
	uint64_t bits = be64toh(htole64(take(machine, 8))), value;
	double number;
	int error;

	memcpy(&number, &bits, sizeof(number));
	error = vc_values_fraction(machine->values, number, &value);
	return error ? error : push(machine, value);
}

/* ---- containers ---- */

static int push_mark(struct vc_pickle_machine *machine)
{
	if (machine->mark_count >= machine->values->limits->most[VC_LIMIT_DEPTH])
		return vc_values_limit(machine->values, VC_LIMIT_DEPTH);
	if (machine->mark_count == machine->mark_room) {
		uint64_t room = machine->mark_room ? machine->mark_room * 2 : 64;
		uint64_t *larger = realloc(machine->marks, room * sizeof(*larger));

		if (!larger)
			return VC_E_NO_MEMORY;
		machine->marks = larger;
		machine->mark_room = room;
	}
	machine->marks[machine->mark_count++] = machine->top;
	return 0;
}

/** Ends a mark: *ret is where the values above it begin. */
static int pop_mark(struct vc_pickle_machine *machine, uint64_t *ret)
{
	if (!machine->mark_count)
		return underflow(machine);
	*ret = machine->marks[--machine->mark_count];
	return 0;
}

/** Adds what is above the last mark to the container below it. */
static int add_marked(struct vc_pickle_machine *machine, bool pairs)
{
	uint64_t first = 0, count, *container;
	int error = pop_mark(machine, &first);

	if (error)
		return error;
	count = machine->top - first;
	if (first <= floor_of(machine) || (pairs && count % 2))
		return underflow(machine);
	container = &machine->stack[first - 1];
	machine->top = first;
	return pairs ? vc_values_set(machine->values, container, container + 1, count / 2) :
		       vc_values_append(machine->values, container, container + 1, count);
}

/** Adds the value on top, or the pair, to the container below. */
static int add_one(struct vc_pickle_machine *machine, unsigned values)
{
	uint64_t *container;

	if (machine->top < floor_of(machine) + values + 1)
		return underflow(machine);
	machine->top -= values;
	container = &machine->stack[machine->top - 1];
	return values == 2 ? vc_values_set(machine->values, container, container + 1, 1) :
			     vc_values_append(machine->values, container, container + 1, 1);
}

static int make_tuple(struct vc_pickle_machine *machine, uint64_t count)
{
	uint64_t value;
	int error;

	if (machine->top < floor_of(machine) + count)
		return underflow(machine);
	error = vc_values_tuple(machine->values, &machine->stack[machine->top - count], count,
				&value);
	machine->top -= error ? 0 : count;
	return error ? error : push(machine, value);
}

static int make_marked_tuple(struct vc_pickle_machine *machine)
{
	uint64_t first = 0;
	int error = pop_mark(machine, &first);

	return error ? error : make_tuple(machine, machine->top - first);
}

static int remember(struct vc_pickle_machine *machine, uint64_t index)
{
	if (machine->top <= floor_of(machine))
		return underflow(machine);
	return vc_values_remember(machine->values, index, &machine->stack[machine->top - 1]);
}

static int recall(struct vc_pickle_machine *machine, uint64_t index)
{
	uint64_t value;
	int error = vc_values_recall(machine->values, index, &value);

	return error ? error : push(machine, value);
}

static int take_protocol(struct vc_pickle_machine *machine)
{
	machine->protocol = (unsigned)take(machine, 1);
	if (machine->protocol > PROTOCOL_MOST)
		return vc_values_wrong(machine->values, VC_E_TOO_NEW, "pickle protocol %u",
				       machine->protocol);
	return 0;
}

/* ---- the loop ---- */

static int step(struct vc_pickle_machine *machine, uint8_t opcode)
{
	struct vc_values *values = machine->values;
	uint64_t value;
	int error;

	switch (opcode) {
	case OP_BINGET:
		return recall(machine, take(machine, 1));
	case OP_LONG_BINGET:
		return recall(machine, take(machine, 4));
	case OP_MEMOIZE:
		return remember(machine, values->memo_count);
	case OP_BINPUT:
		return remember(machine, take(machine, 1));
	case OP_LONG_BINPUT:
		return remember(machine, take(machine, 4));
	case OP_MARK:
		return push_mark(machine);
	case OP_EMPTY_DICT:
		return push(machine, vc_value_make(VC_VALUE_NEW_DICT, 0));
	case OP_EMPTY_LIST:
		return push(machine, vc_value_make(VC_VALUE_NEW_LIST, 0));
	case OP_SETITEMS:
		return add_marked(machine, true);
	case OP_SETITEM:
		return add_one(machine, 2);
	case OP_APPENDS:
		return add_marked(machine, false);
	case OP_APPEND:
		return add_one(machine, 1);
	case OP_BININT1:
		return push(machine, vc_value_make(VC_VALUE_INTEGER, take(machine, 1)));
	case OP_BININT2:
		return push(machine, vc_value_make(VC_VALUE_INTEGER, take(machine, 2)));
	case OP_BININT:
		error = vc_values_number(values, (int32_t)take(machine, 4), &value);
		return error ? error : push(machine, value);
	case OP_LONG1:
		return push_long(machine, take(machine, 1));
	case OP_LONG4:
		return push_long(machine, take(machine, 4));
	case OP_SHORT_BINUNICODE:
		return push_text(machine, take(machine, 1));
	case OP_BINUNICODE:
		return push_text(machine, take(machine, 4));
	case OP_BINUNICODE8:
		return push_text(machine, take(machine, 8));
	case OP_BINFLOAT:
		return push_fraction(machine);
	case OP_NONE:
		return push(machine, vc_value_make(VC_VALUE_NONE, 0));
	case OP_NEWTRUE:
		return push(machine, vc_value_make(VC_VALUE_BOOLEAN, 1));
	case OP_NEWFALSE:
		return push(machine, vc_value_make(VC_VALUE_BOOLEAN, 0));
	case OP_EMPTY_TUPLE:
		return make_tuple(machine, 0);
	case OP_TUPLE1:
		return make_tuple(machine, 1);
	case OP_TUPLE2:
		return make_tuple(machine, 2);
	case OP_TUPLE3:
		return make_tuple(machine, 3);
	case OP_TUPLE:
		return make_marked_tuple(machine);
	case OP_PROTO:
		return take_protocol(machine);
	case OP_FRAME: /* only says how much to read ahead */
		take(machine, 8);
		return 0;
	default:
		return refuse(machine, opcode);
	}
}

/** Bytes of the operand of an opcode, texts aside. */
static unsigned operand_bytes(uint8_t opcode)
{
	switch (opcode) {
	case OP_BINGET:
	case OP_BINPUT:
	case OP_BININT1:
	case OP_LONG1:
	case OP_SHORT_BINUNICODE:
	case OP_PROTO:
		return 1;
	case OP_BININT2:
		return 2;
	case OP_LONG_BINGET:
	case OP_LONG_BINPUT:
	case OP_BININT:
	case OP_LONG4:
	case OP_BINUNICODE:
		return 4;
	case OP_BINUNICODE8:
	case OP_BINFLOAT:
	case OP_FRAME:
		return 8;
	default:
		return 0;
	}
}

/** Plain values, as long as the window and the stack have room. */
static void push_plain(struct vc_pickle_machine *machine)
{
	uint64_t *top = machine->stack + machine->top;

	machine->stream->at = vc_pickle_plain_run(machine->stream->at,
						  machine->stream->end - VC_PICKLE_OPCODE_BYTES,
						  machine->values, &top,
						  machine->stack + machine->room);
	machine->top = (uint64_t)(top - machine->stack);
}

static int run(struct vc_pickle_machine *machine, uint64_t *offset)
{
	struct vc_stream *stream = machine->stream;

	for (;;) {
		uint8_t opcode;
		int error;

		if (machine->room && stream->end - stream->at > VC_PICKLE_OPCODE_BYTES)
			push_plain(machine);
		if (stream->end - stream->at < VC_PICKLE_OPCODE_BYTES) {
			error = need(machine, VC_PICKLE_OPCODE_BYTES);
			*offset = vc_stream_offset(stream);
			if (error && error != VC_E_TRUNCATED)
				return error;
			if (stream->at == stream->end ||
			    (size_t)(stream->end - stream->at) < 1 + operand_bytes(*stream->at))
				return VC_E_TRUNCATED;
		}
		*offset = vc_stream_offset(stream);
		opcode = *stream->at++;
		if (opcode == OP_STOP)
			return 0;
		error = VC_E_NOT_FOUND;
		if (opcode == OP_EMPTY_DICT)
			error = vc_pickle_alike(machine, offset);
		if (error == VC_E_NOT_FOUND)
			error = step(machine, opcode);
		if (error)
			return error;
	}
}

int vc_pickle_read(struct vc_stream *stream, struct vc_values *values, struct vc_pickle *ret)
{
	struct vc_pickle_machine machine = {.stream = stream, .values = values};
	int error = run(&machine, &ret->offset);

	if (!error && (machine.top != 1 || machine.mark_count)) {
		ret->offset = vc_stream_offset(stream);
		error = vc_values_wrong(values, VC_E_CORRUPT, "STOP with %llu values left",
					(unsigned long long)machine.top);
	}
	if (!error) {
		ret->offset = vc_stream_offset(stream);
		ret->value = vc_values_use(values, machine.stack[0]);
		ret->protocol = machine.protocol;
	}
	free(machine.stack);
	free(machine.marks);
	return error;
}
