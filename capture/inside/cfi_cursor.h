/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the numbers that .eh_frame is made of from bytes that may be damaged.
 *
 * A read past the end marks the cursor as bad and yields 0, so that callers check once, at the end.
 * For cfi.c alone: the names are not prefixed. No allocation; callable anywhere.
 */
#ifndef VC_CAPTURE_INSIDE_CFI_CURSOR_H
#define VC_CAPTURE_INSIDE_CFI_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A cursor over bytes that may be damaged: a read past the end sets bad and yields 0. */
struct cursor {
	uintptr_t at;
	uintptr_t end;
	bool bad;
};

static inline bool take(struct cursor *c, void *bytes, size_t size)
{
	if (c->bad || c->at > c->end || c->end - c->at < size) {
		c->bad = true;
		memset(bytes, 0, size);
		return false;
	}
	memcpy(bytes, (const void *)c->at, size);
	c->at += size;
	return true;
}

static inline uint8_t take_u8(struct cursor *c)
{
	uint8_t v;

	take(c, &v, sizeof(v));
	return v;
}

static inline uint16_t take_u16(struct cursor *c)
{
	uint16_t v;

	take(c, &v, sizeof(v));
	return v;
}

static inline uint32_t take_u32(struct cursor *c)
{
	uint32_t v;

	take(c, &v, sizeof(v));
	return v;
}

static inline uint64_t take_u64(struct cursor *c)
{
	uint64_t v;

	take(c, &v, sizeof(v));
	return v;
}

static inline uint64_t take_uleb(struct cursor *c)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = take_u8(c);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && !c->bad);
	return value;
}

static inline int64_t take_sleb(struct cursor *c)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = take_u8(c);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) && !c->bad);
	if (shift < 64 && (byte & 0x40))
		value |= ~(uint64_t)0 << shift;
	return (int64_t)value;
}

static inline void skip(struct cursor *c, uint64_t size)
{
	if (c->bad || size > c->end - c->at)
		c->bad = true;
	else
		c->at += size;
}

#endif
