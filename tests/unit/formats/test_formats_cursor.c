/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/cursor.h"

static void reads_little_endian(void **state)
{
	static const uint8_t bytes[] = {
		0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,
		0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
	};
	struct vc_cursor cursor;
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;

	(void)state;
	vc_cursor_init(&cursor, bytes, sizeof(bytes), 1000);
	assert_int_equal(vc_cursor_u8(&cursor, &u8), 0);
	assert_int_equal(u8, 1);
	assert_int_equal(vc_cursor_u16(&cursor, &u16), 0);
	assert_int_equal(u16, 0x0302);
	assert_int_equal(vc_cursor_u32(&cursor, &u32), 0);
	assert_int_equal(u32, 0x07060504);
	assert_int_equal(vc_cursor_u64(&cursor, &u64), 0);
	assert_true(u64 == 0x0f0e0d0c0b0a0908);
	assert_int_equal(vc_cursor_offset(&cursor), 1015);
	assert_int_equal(vc_cursor_left(&cursor), 0);
}

static void stays_where_a_read_failed(void **state)
{
	static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7};
	struct vc_cursor cursor;
	const uint8_t *found = bytes;
	uint64_t u64 = 42;
	uint32_t u32;

	(void)state;
	vc_cursor_init(&cursor, bytes, sizeof(bytes), 0);
	assert_int_equal(vc_cursor_u64(&cursor, &u64), VC_E_TRUNCATED);
	assert_int_equal(u64, 42);
	assert_int_equal(vc_cursor_u32(&cursor, &u32), 0);
	assert_int_equal(vc_cursor_u32(&cursor, &u32), VC_E_TRUNCATED);
	assert_int_equal(vc_cursor_offset(&cursor), 4);
	assert_int_equal(vc_cursor_bytes(&cursor, UINT64_MAX, &found), VC_E_TRUNCATED);
	assert_ptr_equal(found, bytes);
	assert_int_equal(vc_cursor_bytes(&cursor, 3, &found), 0);
	assert_ptr_equal(found, bytes + 4);
}

static void varints(void **state)
{
	static const uint64_t values[] = {
		0, 1, 127, 128, 16383, 16384, UINT32_MAX, 1ull << 63, UINT64_MAX,
	};
	struct vc_buffer buffer = {0};
	struct vc_cursor cursor;
	uint64_t value;

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		vc_buffer_varint(&buffer, values[i]);
	assert_int_equal(buffer.error, 0);
	assert_int_equal(buffer.length, 1 + 1 + 1 + 2 + 2 + 3 + 5 + 10 + 10);
	vc_cursor_init(&cursor, buffer.bytes, buffer.length, 0);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		assert_int_equal(vc_cursor_varint(&cursor, &value), 0);
		assert_true(value == values[i]);
	}
	assert_int_equal(vc_cursor_varint(&cursor, &value), VC_E_TRUNCATED);
	vc_buffer_deinit(&buffer);
}

static int one_varint(const uint8_t *bytes, size_t length)
{
	struct vc_cursor cursor;
	uint64_t value;
	int error;

	vc_cursor_init(&cursor, bytes, length, 0);
	error = vc_cursor_varint(&cursor, &value);
	if (error)
		assert_ptr_equal(cursor.position, bytes);
	return error;
}

static void varints_that_are_none(void **state)
{
	static const uint8_t cut[] = {0x80, 0x80};
	static const uint8_t longer_than_needed[] = {0x81, 0x00};
	static const uint8_t too_large[] = {0xff, 0xff, 0xff, 0xff, 0xff,
					    0xff, 0xff, 0xff, 0xff, 2};
	static const uint8_t endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					  0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	(void)state;
	assert_int_equal(one_varint(cut, sizeof(cut)), VC_E_TRUNCATED);
	assert_int_equal(one_varint(longer_than_needed, 2), VC_E_CORRUPT);
	assert_int_equal(one_varint(too_large, sizeof(too_large)), VC_E_CORRUPT);
	assert_int_equal(one_varint(endless, sizeof(endless)), VC_E_CORRUPT);
}

static void buffer_keeps_its_error(void **state)
{
	struct vc_buffer buffer = {0};

	(void)state;
	vc_buffer_u8(&buffer, 7);
	vc_buffer_align(&buffer, 8);
	assert_int_equal(buffer.length, 8);
	assert_memory_equal(buffer.bytes, "\7\0\0\0\0\0\0\0", 8);
	assert_null(vc_buffer_room(&buffer, SIZE_MAX / 2));
	assert_int_equal(buffer.error, VC_E_NO_MEMORY);
	vc_buffer_u8(&buffer, 7);
	assert_int_equal(buffer.length, 8);
	vc_buffer_deinit(&buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_little_endian),
		cmocka_unit_test(stays_where_a_read_failed),
		cmocka_unit_test(varints),
		cmocka_unit_test(varints_that_are_none),
		cmocka_unit_test(buffer_keeps_its_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
