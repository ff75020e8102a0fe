/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the machine for pickle, and the opcodes that most of a file are. Private to it.
 */
#ifndef VC_ANALYZE_PICKLE_MACHINE_H
#define VC_ANALYZE_PICKLE_MACHINE_H

#include <endian.h>
#include <string.h>

#include "analyze/stream.h"
#include "analyze/values.h"

enum vc_pickle_opcode {
#define VC_OPCODE(name, byte, class) OP_##name = byte,
#include "analyze/pickle_opcodes.def"
#undef VC_OPCODE
};

/** Most bytes of an opcode and its operands, texts aside. */
enum { VC_PICKLE_OPCODE_BYTES = 16 };

struct vc_pickle_machine {
	struct vc_stream *stream;
	struct vc_values *values;
	uint64_t *stack, top, room;
	uint64_t *marks, mark_count, mark_room;
	unsigned protocol;
};

/**
 * A whole dict with the keys of the importer's shape, where all of it lies in the window and its
 * values are what they mostly are. Pushes its record; *offset: where its last opcode is. Anything
 * else is left to the loop: VC_E_NOT_FOUND, and nothing changed. `at` is behind EMPTY_DICT.
 */
int vc_pickle_alike(struct vc_pickle_machine *machine, uint64_t *offset);

/**
 * What most opcodes are: small numbers, and texts and finished containers of the memo. Their bytes
 * can be read at `at`. What is behind it; NULL: it is something else.
 */
static inline __attribute__((always_inline)) const uint8_t *
vc_pickle_plain(const uint8_t *at, const struct vc_values *values, uint64_t *ret)
{
	uint64_t number, length;
	uint32_t four;
	uint16_t two;

	memcpy(&four, at + 1, sizeof(four));
	four = le32toh(four);
	switch (*at) {
	case OP_BINGET:
		four = (uint8_t)four;
		if (four >= values->memo_count || !vc_value_is_plain(values->memo[four]))
			return NULL;
		*ret = values->memo[four] & ~VC_VALUE_HELD;
		return at + 2;
	case OP_LONG_BINGET:
		if (four >= values->memo_count || !vc_value_is_plain(values->memo[four]))
			return NULL;
		*ret = values->memo[four] & ~VC_VALUE_HELD;
		return at + 5;
	case OP_BININT1:
		*ret = vc_value_make(VC_VALUE_INTEGER, at[1]);
		return at + 2;
	case OP_BININT2:
		memcpy(&two, at + 1, sizeof(two));
		*ret = vc_value_make(VC_VALUE_INTEGER, le16toh(two));
		return at + 3;
	case OP_BININT:
		number = (uint64_t)(int64_t)(int32_t)four;
		*ret = vc_value_make(VC_VALUE_INTEGER, number & VC_VALUE_CONTENT);
		return at + 5;
	case OP_LONG1: /* an address or a time: of 6, 7 or 8 bytes */
		length = at[1];
		if (length - 1 > 7)
			return NULL;
		memcpy(&number, at + 2, sizeof(number));
		number = (uint64_t)((int64_t)(le64toh(number) << (64 - 8 * length)) >>
				    (64 - 8 * length));
		if (number + (UINT64_C(1) << 55) > VC_VALUE_CONTENT)
			return NULL;
		*ret = vc_value_make(VC_VALUE_INTEGER, number & VC_VALUE_CONTENT);
		return at + 2 + length;
	default:
		return NULL;
	}
}

/** Such values one after the other, while `at` is not above `last` and *top below `end`. */
static inline const uint8_t *vc_pickle_plain_run(const uint8_t *at, const uint8_t *last,
						 const struct vc_values *values, uint64_t **top,
						 const uint64_t *end)
{
	/* copies: what is written cannot change them */
	const struct vc_values memo = {.memo = values->memo, .memo_count = values->memo_count};
	uint64_t *to = *top;

	while (at <= last && to < end) {
		const uint8_t *next = vc_pickle_plain(at, &memo, to);

		if (!next)
			break;
		at = next;
		to++;
	}
	*top = to;
	return at;
}

#endif
