/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a debug section, read one number after the other, never past their end.
 *
 * A read that does not fit gives 0, sets `bad` and moves to the end, so that a loop that asks
 * `vc_bytes_left` ends. Values are little endian, as in every file that is read here. Unlike
 * formats/cursor.h this takes LEB128 numbers that are longer than needed, which assemblers write.
 */
#ifndef VC_ANALYZE_SYMBOLS_BYTES_H
#define VC_ANALYZE_SYMBOLS_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct vc_bytes {
	const uint8_t *at, *end;
	bool bad;
};

static inline size_t vc_bytes_left(const struct vc_bytes *bytes)
{
	return (size_t)(bytes->end - bytes->at);
}

static inline void vc_bytes_fail(struct vc_bytes *bytes)
{
	bytes->at = bytes->end;
	bytes->bad = true;
}

static inline void vc_bytes_skip(struct vc_bytes *bytes, uint64_t count)
{
	if (count > vc_bytes_left(bytes))
		vc_bytes_fail(bytes);
	else
		bytes->at += count;
}

/* A number of 0 to 8 bytes. */
static inline uint64_t vc_bytes_fixed(struct vc_bytes *bytes, unsigned size)
{
	uint64_t value = 0;

	if (size > 8 || size > vc_bytes_left(bytes)) {
		vc_bytes_fail(bytes);
		return 0;
	}
	memcpy(&value, bytes->at, size);
	bytes->at += size;
	return value;
}

static inline uint64_t vc_bytes_leb(struct vc_bytes *bytes)
{
	uint64_t value = 0;
	unsigned shift = 0;

	while (bytes->at < bytes->end) {
		uint8_t byte = *bytes->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
		shift += 7;
	}
	bytes->bad = true;
	return 0;
}

static inline int64_t vc_bytes_signed_leb(struct vc_bytes *bytes)
{
	uint64_t value = 0;
	unsigned shift = 0;

	while (bytes->at < bytes->end) {
		uint8_t byte = *bytes->at++;

		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (byte & 0x80)
			continue;
		if (shift < 64 && byte & 0x40)
			value |= ~(uint64_t)0 << shift;
		return (int64_t)value;
	}
	bytes->bad = true;
	return 0;
}

/* The text that begins here; NULL where none ends before the end. */
static inline const char *vc_bytes_text(struct vc_bytes *bytes)
{
	const char *text = (const char *)bytes->at;
	const uint8_t *end = vc_bytes_left(bytes) ?
				     memchr(bytes->at, '\0', vc_bytes_left(bytes)) : NULL;

	if (!end) {
		vc_bytes_fail(bytes);
		return NULL;
	}
	bytes->at = end + 1;
	return text;
}

/* What begins at a position of a section. */
static inline struct vc_bytes vc_bytes_from(struct vc_bytes section, uint64_t position)
{
	vc_bytes_skip(&section, position);
	return section;
}

#endif
