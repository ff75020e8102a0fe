/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/cursor.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

void vc_cursor_init(struct vc_cursor *cursor, const void *bytes, size_t length, uint64_t base)
{
	cursor->start = cursor->position = bytes;
	cursor->end = length ? cursor->start + length : cursor->start;
	cursor->base = base;
}

size_t vc_cursor_left(const struct vc_cursor *cursor)
{
	return (size_t)(cursor->end - cursor->position);
}

uint64_t vc_cursor_offset(const struct vc_cursor *cursor)
{
	return cursor->base + (uint64_t)(cursor->position - cursor->start);
}

int vc_cursor_bytes(struct vc_cursor *cursor, uint64_t length, const uint8_t **ret)
{
	if (length > vc_cursor_left(cursor))
		return VC_E_TRUNCATED;
	*ret = cursor->position;
	cursor->position += length;
	return 0;
}

int vc_cursor_u8(struct vc_cursor *cursor, uint8_t *ret)
{
	const uint8_t *bytes;

	if (vc_cursor_bytes(cursor, sizeof(*ret), &bytes))
		return VC_E_TRUNCATED;
	*ret = *bytes;
	return 0;
}

int vc_cursor_u16(struct vc_cursor *cursor, uint16_t *ret)
{
	const uint8_t *bytes;

	if (vc_cursor_bytes(cursor, sizeof(*ret), &bytes))
		return VC_E_TRUNCATED;
	memcpy(ret, bytes, sizeof(*ret));
	*ret = le16toh(*ret);
	return 0;
}

int vc_cursor_u32(struct vc_cursor *cursor, uint32_t *ret)
{
	const uint8_t *bytes;

	if (vc_cursor_bytes(cursor, sizeof(*ret), &bytes))
		return VC_E_TRUNCATED;
	memcpy(ret, bytes, sizeof(*ret));
	*ret = le32toh(*ret);
	return 0;
}

int vc_cursor_u64(struct vc_cursor *cursor, uint64_t *ret)
{
	const uint8_t *bytes;

	if (vc_cursor_bytes(cursor, sizeof(*ret), &bytes))
		return VC_E_TRUNCATED;
	memcpy(ret, bytes, sizeof(*ret));
	*ret = le64toh(*ret);
	return 0;
}

int vc_cursor_varint(struct vc_cursor *cursor, uint64_t *ret)
{
	const uint8_t *position = cursor->position;
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 70; shift += 7) {
		uint8_t byte;

		if (position == cursor->end)
			return VC_E_TRUNCATED;
		byte = *position++;
		if ((shift == 63 && byte > 1) || (shift && !byte))
			return VC_E_CORRUPT;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			cursor->position = position;
			*ret = value;
			return 0;
		}
	}
	return VC_E_CORRUPT;
}

/* ---- buffer ---- */

void vc_buffer_deinit(struct vc_buffer *buffer)
{
	free(buffer->bytes);
	memset(buffer, 0, sizeof(*buffer));
}

uint8_t *vc_buffer_room(struct vc_buffer *buffer, size_t length)
{
	uint8_t *room;

	if (buffer->error)
		return NULL;
	if (length > buffer->capacity - buffer->length) {
		size_t capacity = buffer->capacity ? buffer->capacity * 2 : 256;
		uint8_t *larger = NULL;

		if (length <= SIZE_MAX / 4 && buffer->length <= SIZE_MAX / 4) {
			if (capacity < buffer->length + length)
				capacity = buffer->length + length;
			larger = realloc(buffer->bytes, capacity);
		}
		if (!larger) {
			buffer->error = VC_E_NO_MEMORY;
			return NULL;
		}
		buffer->bytes = larger;
		buffer->capacity = capacity;
	}
	room = buffer->bytes + buffer->length;
	buffer->length += length;
	return room;
}

void vc_buffer_put(struct vc_buffer *buffer, const void *bytes, size_t length)
{
	uint8_t *room = vc_buffer_room(buffer, length);

	if (room && length)
		memcpy(room, bytes, length);
}

void vc_buffer_u8(struct vc_buffer *buffer, uint8_t value)
{
	vc_buffer_put(buffer, &value, sizeof(value));
}

void vc_buffer_u16(struct vc_buffer *buffer, uint16_t value)
{
	value = htole16(value);
	vc_buffer_put(buffer, &value, sizeof(value));
}

void vc_buffer_u32(struct vc_buffer *buffer, uint32_t value)
{
	value = htole32(value);
	vc_buffer_put(buffer, &value, sizeof(value));
}

void vc_buffer_u64(struct vc_buffer *buffer, uint64_t value)
{
	value = htole64(value);
	vc_buffer_put(buffer, &value, sizeof(value));
}

void vc_buffer_varint(struct vc_buffer *buffer, uint64_t value)
{
	uint8_t bytes[10];
	size_t length = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[length++] = (uint8_t)(value | 0x80);
	bytes[length++] = (uint8_t)value;
	vc_buffer_put(buffer, bytes, length);
}

void vc_buffer_align(struct vc_buffer *buffer, size_t alignment)
{
	size_t length = -buffer->length & (alignment - 1);
	uint8_t *room = vc_buffer_room(buffer, length);

	if (room)
		memset(room, 0, length);
}
