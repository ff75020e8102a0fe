/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded cursor over bytes that came from elsewhere, and a buffer that bytes are put into.
 *
 * A cursor never reads past its end and does not move when a read fails, so that its position
 * names the byte that was wrong. `base` is the position of its first byte in the file. All values
 * are little endian. No global state; not for use inside a host process (the buffer allocates).
 */
#ifndef VC_FORMATS_CURSOR_H
#define VC_FORMATS_CURSOR_H

#include <stddef.h>
#include <stdint.h>

#include "formats/error.h"

struct vc_cursor {
	const uint8_t *start, *position, *end;
	uint64_t base;
};

/** A cursor over `length` bytes; `base` is the position of the first in the file. */
void vc_cursor_init(struct vc_cursor *cursor, const void *bytes, size_t length, uint64_t base);
/** Bytes not read yet. */
size_t vc_cursor_left(const struct vc_cursor *cursor);
/** Position in the file of the next byte. */
uint64_t vc_cursor_offset(const struct vc_cursor *cursor);

/* Each returns 0 or VC_E_TRUNCATED; *ret and the position are untouched on failure. */
int vc_cursor_u8(struct vc_cursor *cursor, uint8_t *ret);
int vc_cursor_u16(struct vc_cursor *cursor, uint16_t *ret);
int vc_cursor_u32(struct vc_cursor *cursor, uint32_t *ret);
int vc_cursor_u64(struct vc_cursor *cursor, uint64_t *ret);
/** The next `length` bytes; *ret points into the cursor's bytes. */
int vc_cursor_bytes(struct vc_cursor *cursor, uint64_t length, const uint8_t **ret);
/**
 * A number in 1 to 10 bytes of 7 bits, low bits first, the top bit set in all but the last. Also
 * VC_E_CORRUPT: more than 64 bits, or longer than needed.
 */
int vc_cursor_varint(struct vc_cursor *cursor, uint64_t *ret);

/** Bytes being built. All zero is an empty buffer. A failed put sets `error`, which then stays. */
struct vc_buffer {
	uint8_t *bytes;
	size_t length, capacity;
	int error;
};

void vc_buffer_deinit(struct vc_buffer *buffer);
/** Room for `length` more bytes: a pointer to them, or NULL with `error` set. */
uint8_t *vc_buffer_room(struct vc_buffer *buffer, size_t length);
void vc_buffer_put(struct vc_buffer *buffer, const void *bytes, size_t length);
void vc_buffer_u8(struct vc_buffer *buffer, uint8_t value);
void vc_buffer_u16(struct vc_buffer *buffer, uint16_t value);
void vc_buffer_u32(struct vc_buffer *buffer, uint32_t value);
void vc_buffer_u64(struct vc_buffer *buffer, uint64_t value);
void vc_buffer_varint(struct vc_buffer *buffer, uint64_t value);
/** Zero bytes up to the next multiple of `alignment`, a power of two. */
void vc_buffer_align(struct vc_buffer *buffer, size_t alignment);

#endif
