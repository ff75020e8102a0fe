/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "formats/column.h"
#include "tests/unit/formats/sample_tables.h"

#define SHAPES 9

static struct vc_column_encoder *encoder;
static struct vc_column_key key;
static uint64_t values[VC_GROUP_ROWS], decoded[VC_GROUP_ROWS];

static int start(void **state)
{
	(void)state;
	return vc_column_encoder_create(&encoder);
}

static int stop(void **state)
{
	(void)state;
	vc_column_encoder_destroy(encoder);
	vc_column_encoder_destroy(NULL);
	return 0;
}

static void make_values(unsigned shape, uint64_t rows, struct sample_numbers *numbers)
{
	for (uint64_t row = 0; row < rows; row++) {
		uint64_t random = sample_next(numbers);

		switch (shape) {
		case 0:
			values[row] = random;
			break;
		case 1:
			values[row] = UINT64_MAX;
			break;
		case 2:
			values[row] = row % 2 ? UINT64_MAX : 0;
			break;
		case 3:
			values[row] = random % 2 ? 1ull << 63 : (1ull << 63) - 1;
			break;
		case 4:
			values[row] = 0x7f0000000000 + (random % 10000 << 9);
			break;
		case 5:
			values[row] = row / 100;
			break;
		case 6:
			values[row] = UINT64_MAX - (row << 20);
			break;
		case 7: /* all but one bit the same: the widest shift */
			values[row] = random << 63;
			break;
		default:
			values[row] = random % 3 * 1000003;
			break;
		}
	}
}

static void decode_all(const struct vc_buffer *buffer, enum vc_encoding encoding, uint64_t rows)
{
	struct vc_cursor cursor;

	memset(decoded, 0xa5, sizeof(decoded));
	vc_cursor_init(&cursor, buffer->bytes, buffer->length, 0);
	assert_int_equal(vc_column_decode(&cursor, encoding, rows, &key, decoded), 0);
	assert_memory_equal(decoded, values, rows * sizeof(uint64_t));
}

static void every_encoding_keeps_every_value(void **state)
{
	static const uint64_t sizes[] = {1, 2, 3, 255, 5000, VC_GROUP_ROWS};
	struct sample_numbers numbers = {1};
	struct vc_buffer buffer = {0};
	unsigned refused = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned shape = 0; shape < SHAPES; shape++) {
			make_values(8, sizes[i], &numbers);
			assert_int_equal(vc_column_key_build(values, sizes[i], &key), 0);
			assert_true(key.distinct <= 3);
			make_values(shape, sizes[i], &numbers);
			for (int k = VC_ENCODING_CONSTANT; k < VC_ENCODING_TEXT; k++) {
				int error;

				buffer.length = 0;
				error = vc_column_encode_as(encoder, values, sizes[i], &key, 7,
							    (enum vc_encoding)k, &buffer);
				if (k == VC_ENCODING_CONSTANT && error == VC_E_INVALID) {
					refused++;
					continue;
				}
				assert_int_equal(error, 0);
				decode_all(&buffer, (enum vc_encoding)k, sizes[i]);
			}
		}
	assert_true(refused > 0 && refused < 6 * SHAPES);
	vc_buffer_deinit(&buffer);
}

/* What the encoder should find for itself. */
static enum vc_encoding choose(unsigned shape, size_t *bytes)
{
	struct sample_numbers numbers = {2};
	struct vc_buffer buffer = {0};
	enum vc_encoding encoding;

	make_values(shape, VC_GROUP_ROWS, &numbers);
	assert_int_equal(vc_column_encode(encoder, values, VC_GROUP_ROWS, NULL, 0, &buffer,
					  &encoding),
			 0);
	decode_all(&buffer, encoding, VC_GROUP_ROWS);
	*bytes = buffer.length;
	vc_buffer_deinit(&buffer);
	return encoding;
}

static void encoder_chooses_well(void **state)
{
	size_t bytes;

	(void)state;
	assert_int_equal(choose(1, &bytes), VC_ENCODING_CONSTANT);
	assert_int_equal(bytes, 8);
	choose(4, &bytes); /* 10,000 values: two bytes each are enough */
	assert_true(bytes <= 16 + 2 * VC_GROUP_ROWS);
	choose(6, &bytes);
	assert_true(bytes <= 16 + VC_GROUP_ROWS * 2);
	choose(7, &bytes); /* one bit each, and no more than a byte before compression */
	assert_true(bytes <= 16 + VC_GROUP_ROWS);
}

/* A column that another one determines costs next to nothing when it is keyed by it. */
static void keys_pay(void **state)
{
	struct sample_numbers numbers = {3};
	struct vc_buffer buffer = {0};
	enum vc_encoding encoding;

	(void)state;
	for (uint64_t row = 0; row < VC_GROUP_ROWS; row++)
		values[row] = sample_next(&numbers) % 500;
	assert_int_equal(vc_column_key_build(values, VC_GROUP_ROWS, &key), 0);
	assert_int_equal(key.distinct, 500);
	for (uint64_t row = 0; row < VC_GROUP_ROWS; row++)
		values[row] = values[row] * 0x9e3779b97f4a7c15u;
	assert_int_equal(vc_column_encode(encoder, values, VC_GROUP_ROWS, &key, 18, &buffer,
					  &encoding),
			 0);
	assert_int_equal(encoding, VC_ENCODING_KEYED_PLANES);
	decode_all(&buffer, encoding, VC_GROUP_ROWS);
	vc_buffer_deinit(&buffer);
}

/* FORMAT.md, by hand: distance from the base 100 in units of 2^4, two bytes wide. */
static void bytes_as_documented(void **state)
{
	static const uint8_t fixed[] = {2, 4, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0,
					0, 0, 1, 0, 0, 1};
	static const uint8_t planes[] = {2, 4, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0,
					 0, 1, 0, 0, 0, 1};
	static const uint8_t delta[] = {0xc8, 0x01, 0x20, 0xe0, 0x3f};
	static const uint8_t runs[] = {1, 0xc8, 0x01, 1, 0x20, 1, 0xe0, 0x3f};
	static const uint8_t delta_planes[] = {2, 4, 0, 0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0, 0, 0,
					       0, 2, 0xfe, 0, 0, 1};
	static const struct {
		enum vc_encoding encoding;
		const uint8_t *bytes;
		size_t length;
	} cases[] = {
		{VC_ENCODING_FIXED, fixed, sizeof(fixed)},
		{VC_ENCODING_PLANES, planes, sizeof(planes)},
		{VC_ENCODING_DELTA, delta, sizeof(delta)},
		{VC_ENCODING_RUNS, runs, sizeof(runs)},
		{VC_ENCODING_DELTA_PLANES, delta_planes, sizeof(delta_planes)},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vc_buffer buffer = {0};

		values[0] = 100;
		values[1] = 116;
		values[2] = 100 + 4096;
		assert_int_equal(vc_column_encode_as(encoder, values, 3, NULL, 0, cases[i].encoding,
						     &buffer),
				 0);
		assert_int_equal(buffer.length, cases[i].length);
		assert_memory_equal(buffer.bytes, cases[i].bytes, cases[i].length);
		decode_all(&buffer, cases[i].encoding, 3);
		vc_buffer_deinit(&buffer);
	}
}

/* Whatever the bytes, decoding stays inside them; the sanitized build watches. */
static void hostile_bytes(void **state)
{
	struct sample_numbers numbers = {4};
	unsigned good = 0;

	(void)state;
	make_values(8, 64, &numbers);
	assert_int_equal(vc_column_key_build(values, 64, &key), 0);
	for (unsigned round = 0; round < 200000; round++) {
		size_t length = sample_next(&numbers) % 40;
		uint8_t *bytes = malloc(length ? length : 1);
		struct vc_cursor cursor;
		const char *text;

		assert_non_null(bytes);
		for (size_t i = 0; i < length; i++)
			bytes[i] = (uint8_t)(sample_next(&numbers) >> sample_next(&numbers) % 8);
		if (length && round % 2)
			bytes[0] %= 10;
		vc_cursor_init(&cursor, bytes, length, 0);
		good += !vc_column_decode(&cursor, round % 10, sample_next(&numbers) % 64, &key,
					  decoded);
		vc_cursor_init(&cursor, bytes, length, 0);
		good += !vc_column_decode_text(&cursor, sample_next(&numbers) % 8, decoded, &text);
		free(bytes);
	}
	assert_true(good > 100);
}

static void refusals(void **state)
{
	static const uint8_t one[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6};
	uint8_t changed[sizeof(one)];
	struct vc_cursor cursor;

	(void)state;
	vc_cursor_init(&cursor, one, sizeof(one), 0);
	assert_int_equal(vc_column_decode(&cursor, VC_ENCODING_FIXED, 2, NULL, decoded), 0);
	assert_true(decoded[0] == 5 && decoded[1] == 6);
	for (uint64_t rows = 0; rows < 5; rows++) { /* data left over, or too little of it */
		vc_cursor_init(&cursor, one, sizeof(one), 0);
		if (rows != 2)
			assert_true(vc_column_decode(&cursor, VC_ENCODING_FIXED, rows, NULL,
						     decoded) < 0);
	}
	for (unsigned at = 0; at < 8; at++) { /* width, shift, key column, reserved bytes */
		memcpy(changed, one, sizeof(one));
		changed[at] = at == 1 ? 64 : at == 0 ? 9 : 1;
		vc_cursor_init(&cursor, changed, sizeof(changed), 0);
		assert_int_equal(vc_column_decode(&cursor, VC_ENCODING_FIXED, 2, NULL, decoded),
				 VC_E_CORRUPT);
	}
	vc_cursor_init(&cursor, one, sizeof(one), 0);
	assert_int_equal(vc_column_decode(&cursor, VC_ENCODING_KEYED_PLANES, 2, NULL, decoded),
			 VC_E_CORRUPT);
	vc_cursor_init(&cursor, one, sizeof(one), 0);
	assert_int_equal(vc_column_decode(&cursor, 99, 2, NULL, decoded), VC_E_CORRUPT);
	vc_cursor_init(&cursor, one, sizeof(one), 0);
	assert_int_equal(vc_column_decode(&cursor, VC_ENCODING_FIXED, VC_GROUP_ROWS + 1, NULL,
					  decoded),
			 VC_E_CORRUPT);
}

static void texts(void **state)
{
	static const uint8_t good[] = {2, 0, 1, 'a', 'b', 'c'}, with_nul[] = {2, 'a', 0};
	struct vc_cursor cursor;
	uint64_t lengths[4];
	const char *text;

	(void)state;
	vc_cursor_init(&cursor, good, sizeof(good), 0);
	assert_int_equal(vc_column_decode_text(&cursor, 3, lengths, &text), 0);
	assert_true(lengths[0] == 2 && lengths[1] == 0 && lengths[2] == 1);
	assert_memory_equal(text, "abc", 3);
	vc_cursor_init(&cursor, good, sizeof(good) - 1, 0);
	assert_int_equal(vc_column_decode_text(&cursor, 3, lengths, &text), VC_E_TRUNCATED);
	vc_cursor_init(&cursor, with_nul, sizeof(with_nul), 0);
	assert_int_equal(vc_column_decode_text(&cursor, 1, lengths, &text), VC_E_CORRUPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_encoding_keeps_every_value),
		cmocka_unit_test(encoder_chooses_well),
		cmocka_unit_test(keys_pay),
		cmocka_unit_test(bytes_as_documented),
		cmocka_unit_test(hostile_bytes),
		cmocka_unit_test(refusals),
		cmocka_unit_test(texts),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
