/* SPDX-License-Identifier: Apache-2.0 */
#include "analyze/pickle_write.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "formats/error.h"

enum { FRAME_BYTES = 64 << 10, PROTOCOL = 4, BATCH = 1000 };

enum opcode {
#define VC_OPCODE(name, byte, class) OP_##name = byte,
#include "analyze/pickle_opcodes.def"
#undef VC_OPCODE
};

static void write_out(struct vc_pickle_writer *writer, const void *bytes, size_t length)
{
	if (!writer->error && fwrite(bytes, 1, length, writer->out) != length)
		writer->error = VC_E_IO;
}

/** Writes what waits, as a frame. Called between opcodes only. */
static void flush(struct vc_pickle_writer *writer)
{
	uint64_t length = htole64(writer->length);
	uint8_t opcode = OP_FRAME;

	if (!writer->length)
		return;
	write_out(writer, &opcode, 1);
	write_out(writer, &length, sizeof(length));
	write_out(writer, writer->buffer, writer->length);
	writer->length = 0;
}

/** Room for an opcode with its operands. */
static uint8_t *reserve(struct vc_pickle_writer *writer, size_t bytes)
{
	if (writer->length >= FRAME_BYTES)
		flush(writer);
	if (writer->length + bytes > writer->room) {
		size_t room = writer->length + bytes + FRAME_BYTES;
		uint8_t *larger = writer->error ? NULL : realloc(writer->buffer, room);

		if (!larger) {
			writer->error = writer->error ? writer->error : VC_E_NO_MEMORY;
			return NULL;
		}
		writer->buffer = larger;
		writer->room = room;
	}
	writer->length += bytes;
	return writer->buffer + writer->length - bytes;
}

static void put(struct vc_pickle_writer *writer, uint8_t opcode, const void *operand,
		size_t length)
{
	uint8_t *to = reserve(writer, 1 + length);

	if (!to)
		return;
	*to = opcode;
	if (length)
		memcpy(to + 1, operand, length);
}

void vc_pickle_start(struct vc_pickle_writer *writer, FILE *out)
{
	static const uint8_t start[] = {OP_PROTO, PROTOCOL};

	*writer = (struct vc_pickle_writer){.out = out};
	write_out(writer, start, sizeof(start));
}

int vc_pickle_end(struct vc_pickle_writer *writer)
{
	put(writer, OP_STOP, NULL, 0);
	flush(writer);
	free(writer->buffer);
	writer->buffer = NULL;
	writer->room = 0;
	if (!writer->error && fflush(writer->out))
		writer->error = VC_E_IO;
	return writer->error;
}

void vc_pickle_put(struct vc_pickle_writer *writer, uint8_t opcode)
{
	put(writer, opcode, NULL, 0);
}

void vc_pickle_signed(struct vc_pickle_writer *writer, int64_t number)
{
	uint64_t little = htole64((uint64_t)number);
	uint8_t operand[9] = {8};

	if (number >= 0 && number < 256) {
		put(writer, OP_BININT1, &little, 1);
	} else if (number >= 0 && number < 65536) {
		put(writer, OP_BININT2, &little, 2);
	} else if (number >= INT32_MIN && number <= INT32_MAX) {
		put(writer, OP_BININT, &little, 4);
	} else {
		memcpy(operand + 1, &little, 8);
		put(writer, OP_LONG1, operand, sizeof(operand));
	}
}

void vc_pickle_unsigned(struct vc_pickle_writer *writer, uint64_t number)
{
	uint64_t little = htole64(number);
	uint8_t operand[10] = {9}; /* the ninth byte says that it is not negative */

	if (number <= INT64_MAX) {
		vc_pickle_signed(writer, (int64_t)number);
		return;
	}
	memcpy(operand + 1, &little, 8);
	put(writer, OP_LONG1, operand, sizeof(operand));
}

void vc_pickle_fraction(struct vc_pickle_writer *writer, double number)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	bits = htobe64(bits);
	put(writer, OP_BINFLOAT, &bits, sizeof(bits));
}

/** Bytes of the character at `at`, 0 where it is none. Surrogates are taken, as Python does. */
static size_t character(const uint8_t *at, size_t left)
{
	uint8_t first = *at;
	size_t length = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 :
			first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;

	if (!length || length > left)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if ((first == 0xe0 && at[1] < 0xa0) || (first == 0xf0 && at[1] < 0x90) ||
	    (first == 0xf4 && at[1] > 0x8f))
		return 0;
	return length;
}

/** Length with every byte that is no part of a character as U+FFFD; writes it where `to` is. */
static size_t repair(const uint8_t *bytes, size_t length, uint8_t *to)
{
	size_t total = 0;

	for (size_t at = 0; at < length;) {
		size_t good = character(bytes + at, length - at), put_bytes = good ? good : 3;

		if (to)
			memcpy(to + total, good ? bytes + at : (const uint8_t *)"\xef\xbf\xbd",
			       put_bytes);
		total += put_bytes;
		at += good ? good : 1;
	}
	return total;
}

void vc_pickle_text(struct vc_pickle_writer *writer, const char *bytes, size_t length)
{
	const uint8_t *from = (const uint8_t *)bytes;
	size_t written = repair(from, length, NULL), head = written < 256 ? 2 : 5;
	uint32_t little = htole32((uint32_t)written);
	uint8_t *to;

	if (written > UINT32_MAX) {
		writer->error = writer->error ? writer->error : VC_E_LIMIT;
		return;
	}
	to = reserve(writer, head + written);
	if (!to)
		return;
	*to = written < 256 ? OP_SHORT_BINUNICODE : OP_BINUNICODE;
	memcpy(to + 1, &little, head - 1);
	repair(from, length, to + head);
}

uint32_t vc_pickle_remember(struct vc_pickle_writer *writer)
{
	if (writer->remembered == UINT32_MAX)
		return 0;
	put(writer, OP_MEMOIZE, NULL, 0);
	return ++writer->remembered;
}

void vc_pickle_recall(struct vc_pickle_writer *writer, uint32_t number_plus_one)
{
	uint32_t little = htole32(number_plus_one - 1);

	if (number_plus_one <= 256)
		put(writer, OP_BINGET, &little, 1);
	else
		put(writer, OP_LONG_BINGET, &little, 4);
}

void vc_pickle_item(struct vc_pickle_writer *writer, uint64_t index)
{
	if (index && index % BATCH == 0)
		put(writer, OP_APPENDS, NULL, 0);
	if (index % BATCH == 0)
		put(writer, OP_MARK, NULL, 0);
}

void vc_pickle_list_end(struct vc_pickle_writer *writer, uint64_t count)
{
	if (count)
		put(writer, OP_APPENDS, NULL, 0);
}
