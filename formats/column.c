/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/column.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zstd.h>

/* Rows the encoder judges an encoding by, and the level it compresses them with. */
#define SAMPLE_ROWS 4096u
#define SAMPLE_LEVEL 1

struct vc_column_encoder {
	ZSTD_CCtx *context;
	uint64_t delta[VC_GROUP_ROWS];
	uint64_t keyed[VC_GROUP_ROWS];
	uint64_t last[VC_GROUP_ROWS];
	struct vc_buffer sample;
	struct vc_buffer compressed;
};

/* What FIXED and the planes begin with. */
struct packing {
	uint8_t width, shift;
	uint16_t key_column;
	uint64_t base;
};

static uint64_t zigzag(uint64_t value)
{
	return value << 1 ^ (uint64_t)((int64_t)value >> 63);
}

static uint64_t unzigzag(uint64_t value)
{
	return value >> 1 ^ (0 - (value & 1));
}

static unsigned bytes_needed(uint64_t value)
{
	return value ? (71 - (unsigned)__builtin_clzll(value)) / 8 : 1;
}

/* ---- keys ---- */

int vc_column_key_build(const uint64_t *values, uint64_t rows, struct vc_column_key *ret)
{
	struct slot {
		uint64_t value;
		uint32_t number_plus_one;
	} *slots;
	uint64_t seed = 0, size = 16;

	if (rows > VC_GROUP_ROWS)
		return VC_E_INVALID;
	while (size < rows * 2)
		size *= 2;
	slots = calloc(size, sizeof(*slots));
	if (!slots)
		return VC_E_NO_MEMORY;
	/* A file cannot choose values that collide when it cannot know the seed. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = (uint64_t)(uintptr_t)slots;
	ret->distinct = 0;
	for (uint64_t row = 0; row < rows; row++) {
		unsigned __int128 product = (unsigned __int128)(values[row] ^ seed) *
					    (seed | 0x9e3779b97f4a7c15u);
		uint64_t at = ((uint64_t)(product >> 64) ^ (uint64_t)product) & (size - 1);

		while (slots[at].number_plus_one && slots[at].value != values[row])
			at = (at + 1) & (size - 1);
		if (!slots[at].number_plus_one) {
			slots[at].value = values[row];
			slots[at].number_plus_one = ++ret->distinct;
		}
		ret->rows[row] = slots[at].number_plus_one - 1;
	}
	free(slots);
	return 0;
}

/* ---- encoding ---- */

int vc_column_encoder_create(struct vc_column_encoder **ret)
{
	struct vc_column_encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder)
		return VC_E_NO_MEMORY;
	encoder->context = ZSTD_createCCtx();
	if (!encoder->context) {
		free(encoder);
		return VC_E_NO_MEMORY;
	}
	*ret = encoder;
	return 0;
}

void vc_column_encoder_destroy(struct vc_column_encoder *encoder)
{
	if (!encoder)
		return;
	ZSTD_freeCCtx(encoder->context);
	vc_buffer_deinit(&encoder->sample);
	vc_buffer_deinit(&encoder->compressed);
	free(encoder);
}

/* Differences from the row before; the first row's is 0, its value is the base. */
static void make_delta(const uint64_t *values, uint64_t rows, uint64_t *ret)
{
	ret[0] = 0;
	for (uint64_t row = 1; row < rows; row++)
		ret[row] = values[row] - values[row - 1];
}

static void make_keyed(const uint64_t *values, uint64_t rows, const struct vc_column_key *key,
		       uint64_t *last, uint64_t *ret)
{
	memset(last, 0, key->distinct * sizeof(*last));
	for (uint64_t row = 0; row < rows; row++) {
		ret[row] = values[row] - last[key->rows[row]];
		last[key->rows[row]] = values[row];
	}
}

/* Takes the zero bits that all differences end in away, and their sign to the lowest bit. */
static struct packing pack_differences(uint64_t *values, uint64_t rows)
{
	struct packing packing = {.width = 1};
	uint64_t all = 0, highest = 0;

	for (uint64_t row = 0; row < rows; row++)
		all |= values[row];
	packing.shift = all ? (uint8_t)__builtin_ctzll(all) : 0;
	for (uint64_t row = 0; row < rows; row++) {
		values[row] = zigzag((uint64_t)((int64_t)values[row] >> packing.shift));
		highest |= values[row];
	}
	packing.width = (uint8_t)bytes_needed(highest);
	return packing;
}

static struct packing find_packing(const uint64_t *values, uint64_t rows)
{
	struct packing packing = {.base = UINT64_MAX};
	uint64_t all = 0, highest = 0;

	for (uint64_t row = 0; row < rows; row++)
		packing.base = values[row] < packing.base ? values[row] : packing.base;
	for (uint64_t row = 0; row < rows; row++) {
		uint64_t distance = values[row] - packing.base;

		all |= distance;
		highest = distance > highest ? distance : highest;
	}
	packing.shift = all ? (uint8_t)__builtin_ctzll(all) : 0;
	packing.width = (uint8_t)bytes_needed(highest >> packing.shift);
	/* Small numbers are easier to read, and no larger, without a base. */
	if (bytes_needed((highest + packing.base) >> packing.shift) == packing.width &&
	    highest + packing.base >= highest && !(packing.base << (63 - packing.shift) << 1))
		packing.base = 0;
	return packing;
}

static void put_packing(struct vc_buffer *out, const struct packing *packing)
{
	vc_buffer_u8(out, packing->width);
	vc_buffer_u8(out, packing->shift);
	vc_buffer_u16(out, packing->key_column);
	vc_buffer_u32(out, 0);
	vc_buffer_u64(out, packing->base);
}

static void put_fixed(struct vc_buffer *out, const uint64_t *values, uint64_t rows,
		      const struct packing *packing)
{
	uint8_t *to = vc_buffer_room(out, rows * packing->width);

	if (!to)
		return;
	for (uint64_t row = 0; row < rows; row++) {
		uint64_t value = (values[row] - packing->base) >> packing->shift;

		for (unsigned byte = 0; byte < packing->width; byte++, value >>= 8)
			*to++ = (uint8_t)value;
	}
}

static void put_planes(struct vc_buffer *out, const uint64_t *values, uint64_t rows,
		       const struct packing *packing)
{
	uint8_t *to = vc_buffer_room(out, rows * packing->width);

	if (!to)
		return;
	for (unsigned byte = 0; byte < packing->width; byte++)
		for (uint64_t row = 0; row < rows; row++)
			*to++ = (uint8_t)((values[row] - packing->base) >> packing->shift >>
					  8 * byte);
}

/* Differences are packed already: their planes take neither base nor shift. */
static void put_difference_planes(struct vc_buffer *out, const uint64_t *values, uint64_t rows,
				  unsigned width)
{
	struct packing plain = {.width = (uint8_t)width};

	put_planes(out, values, rows, &plain);
}

static void put_delta(struct vc_buffer *out, const uint64_t *values, uint64_t rows)
{
	uint64_t before = 0;

	for (uint64_t row = 0; row < rows; row++) {
		vc_buffer_varint(out, zigzag(values[row] - before));
		before = values[row];
	}
}

static void put_runs(struct vc_buffer *out, const uint64_t *values, uint64_t rows)
{
	uint64_t before = 0, end;

	for (uint64_t row = 0; row < rows; row = end) {
		for (end = row + 1; end < rows && values[end] == values[row]; end++)
			;
		vc_buffer_varint(out, end - row);
		vc_buffer_varint(out, zigzag(values[row] - before));
		before = values[row];
	}
}

static bool all_equal(const uint64_t *values, uint64_t rows)
{
	for (uint64_t row = 1; row < rows; row++)
		if (values[row] != values[0])
			return false;
	return true;
}

/* What the encoder found out about a column: the differences are in the encoder. */
struct shape {
	struct packing plain, delta, keyed;
};

static void put_encoded(struct vc_column_encoder *encoder, const uint64_t *values, uint64_t first,
			uint64_t rows, const struct shape *shape, enum vc_encoding encoding,
			struct vc_buffer *out)
{
	switch (encoding) {
	case VC_ENCODING_CONSTANT:
		vc_buffer_u64(out, rows ? values[0] : 0);
		break;
	case VC_ENCODING_FIXED:
		put_packing(out, &shape->plain);
		put_fixed(out, values + first, rows, &shape->plain);
		break;
	case VC_ENCODING_PLANES:
		put_packing(out, &shape->plain);
		put_planes(out, values + first, rows, &shape->plain);
		break;
	case VC_ENCODING_DELTA:
		put_delta(out, values + first, rows);
		break;
	case VC_ENCODING_DELTA_PLANES:
		put_packing(out, &shape->delta);
		put_difference_planes(out, encoder->delta + first, rows, shape->delta.width);
		break;
	case VC_ENCODING_RUNS:
		put_runs(out, values + first, rows);
		break;
	case VC_ENCODING_KEYED_PLANES:
		put_packing(out, &shape->keyed);
		put_difference_planes(out, encoder->keyed + first, rows, shape->keyed.width);
		break;
	case VC_ENCODING_TEXT:
		break;
	}
}

static void find_shape(struct vc_column_encoder *encoder, const uint64_t *values, uint64_t rows,
		       const struct vc_column_key *key, uint16_t key_column, struct shape *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->plain = find_packing(values, rows);
	make_delta(values, rows, encoder->delta);
	ret->delta = pack_differences(encoder->delta, rows);
	ret->delta.base = values[0];
	if (!key)
		return;
	make_keyed(values, rows, key, encoder->last, encoder->keyed);
	ret->keyed = pack_differences(encoder->keyed, rows);
	ret->keyed.key_column = key_column;
}

int vc_column_encode(struct vc_column_encoder *encoder, const uint64_t *values, uint64_t rows,
		     const struct vc_column_key *key, uint16_t key_column, struct vc_buffer *out,
		     enum vc_encoding *ret)
{
	static const enum vc_encoding candidates[] = {
		VC_ENCODING_FIXED,	  VC_ENCODING_PLANES, VC_ENCODING_DELTA,
		VC_ENCODING_DELTA_PLANES, VC_ENCODING_RUNS,   VC_ENCODING_KEYED_PLANES,
	};
	uint64_t sample = rows < SAMPLE_ROWS ? rows : SAMPLE_ROWS, first = (rows - sample) / 2;
	enum vc_encoding best = VC_ENCODING_CONSTANT;
	size_t best_bytes = SIZE_MAX;
	struct shape shape;

	if (rows > VC_GROUP_ROWS)
		return VC_E_INVALID;
	if (all_equal(values, rows)) {
		put_encoded(encoder, values, 0, rows, NULL, VC_ENCODING_CONSTANT, out);
		*ret = VC_ENCODING_CONSTANT;
		return out->error;
	}
	find_shape(encoder, values, rows, key, key_column, &shape);
	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
		size_t bytes, bound;
		uint8_t *room;

		if (candidates[i] == VC_ENCODING_KEYED_PLANES && !key)
			continue;
		encoder->sample.length = encoder->compressed.length = 0;
		put_encoded(encoder, values, first, sample, &shape, candidates[i],
			    &encoder->sample);
		bound = ZSTD_compressBound(encoder->sample.length);
		room = vc_buffer_room(&encoder->compressed, bound);
		if (!room || encoder->sample.error)
			return VC_E_NO_MEMORY;
		bytes = ZSTD_compressCCtx(encoder->context, room, bound, encoder->sample.bytes,
					  encoder->sample.length, SAMPLE_LEVEL);
		if (ZSTD_isError(bytes))
			continue;
		/* Of two that compress alike, the one with less to decode. */
		bytes += encoder->sample.length / 32;
		if (bytes < best_bytes) {
			best_bytes = bytes;
			best = candidates[i];
		}
	}
	if (best_bytes == SIZE_MAX)
		return VC_E_COMPRESSION;
	put_encoded(encoder, values, 0, rows, &shape, best, out);
	*ret = best;
	return out->error;
}

int vc_column_encode_as(struct vc_column_encoder *encoder, const uint64_t *values, uint64_t rows,
			const struct vc_column_key *key, uint16_t key_column,
			enum vc_encoding encoding, struct vc_buffer *out)
{
	struct shape shape;

	if (!rows || rows > VC_GROUP_ROWS || encoding < VC_ENCODING_CONSTANT ||
	    encoding >= VC_ENCODING_TEXT || (encoding == VC_ENCODING_KEYED_PLANES && !key) ||
	    (encoding == VC_ENCODING_CONSTANT && !all_equal(values, rows)))
		return VC_E_INVALID;
	find_shape(encoder, values, rows, key, key_column, &shape);
	put_encoded(encoder, values, 0, rows, &shape, encoding, out);
	return out->error;
}

/* ---- decoding ---- */

static int read_packing(struct vc_cursor *cursor, bool keyed, struct packing *ret)
{
	struct packing packing;
	uint32_t zero;

	if (vc_cursor_u8(cursor, &packing.width) || vc_cursor_u8(cursor, &packing.shift) ||
	    vc_cursor_u16(cursor, &packing.key_column) || vc_cursor_u32(cursor, &zero) ||
	    vc_cursor_u64(cursor, &packing.base))
		return VC_E_TRUNCATED;
	if (packing.width < 1 || packing.width > 8 || packing.shift > 63 || zero ||
	    (keyed ? packing.base != 0 : packing.key_column != 0))
		return VC_E_CORRUPT;
	*ret = packing;
	return 0;
}

int vc_column_key_column(const struct vc_cursor *cursor, uint16_t *ret)
{
	struct vc_cursor copy = *cursor;
	struct packing packing;
	int error = read_packing(&copy, true, &packing);

	if (!error)
		*ret = packing.key_column;
	return error;
}

static int decode_fixed(struct vc_cursor *cursor, uint64_t rows, uint64_t *ret)
{
	struct packing packing;
	const uint8_t *bytes;
	int error = read_packing(cursor, false, &packing);

	if (!error)
		error = vc_cursor_bytes(cursor, rows * packing.width, &bytes);
	if (error)
		return error;
	for (uint64_t row = 0; row < rows; row++) {
		uint64_t value = 0;

		for (unsigned byte = 0; byte < packing.width; byte++)
			value |= (uint64_t)*bytes++ << 8 * byte;
		ret[row] = packing.base + (value << packing.shift);
	}
	return 0;
}

static int decode_planes(struct vc_cursor *cursor, uint64_t rows, bool keyed,
			 struct packing *packing, uint64_t *ret)
{
	const uint8_t *bytes;
	int error = read_packing(cursor, keyed, packing);

	if (!error)
		error = vc_cursor_bytes(cursor, rows * packing->width, &bytes);
	if (error)
		return error;
	for (uint64_t row = 0; row < rows; row++)
		ret[row] = bytes[row];
	for (unsigned byte = 1; byte < packing->width; byte++) {
		bytes += rows;
		for (uint64_t row = 0; row < rows; row++)
			ret[row] |= (uint64_t)bytes[row] << 8 * byte;
	}
	return 0;
}

static int decode_plain_planes(struct vc_cursor *cursor, uint64_t rows, uint64_t *ret)
{
	struct packing packing;
	int error = decode_planes(cursor, rows, false, &packing, ret);

	for (uint64_t row = 0; !error && row < rows; row++)
		ret[row] = packing.base + (ret[row] << packing.shift);
	return error;
}

static int decode_delta_planes(struct vc_cursor *cursor, uint64_t rows, uint64_t *ret)
{
	struct packing packing;
	int error = decode_planes(cursor, rows, false, &packing, ret);
	uint64_t value = packing.base;

	for (uint64_t row = 0; !error && row < rows; row++) {
		value += unzigzag(ret[row]) << packing.shift;
		ret[row] = value;
	}
	return error;
}

static int decode_keyed_planes(struct vc_cursor *cursor, uint64_t rows,
			       const struct vc_column_key *key, uint64_t *ret)
{
	struct packing packing;
	uint64_t *last;
	int error;

	if (!key)
		return VC_E_CORRUPT;
	error = decode_planes(cursor, rows, true, &packing, ret);
	if (error)
		return error;
	last = calloc((size_t)key->distinct + 1, sizeof(*last));
	if (!last)
		return VC_E_NO_MEMORY;
	for (uint64_t row = 0; row < rows; row++) {
		uint64_t *value = &last[key->rows[row]];

		*value += unzigzag(ret[row]) << packing.shift;
		ret[row] = *value;
	}
	free(last);
	return 0;
}

static int decode_delta(struct vc_cursor *cursor, uint64_t rows, uint64_t *ret)
{
	uint64_t value = 0, difference;

	for (uint64_t row = 0; row < rows; row++) {
		int error = vc_cursor_varint(cursor, &difference);

		if (error)
			return error;
		value += unzigzag(difference);
		ret[row] = value;
	}
	return 0;
}

static int decode_runs(struct vc_cursor *cursor, uint64_t rows, uint64_t *ret)
{
	uint64_t value = 0, row = 0, length, difference;

	while (row < rows) {
		int error = vc_cursor_varint(cursor, &length);

		if (!error)
			error = vc_cursor_varint(cursor, &difference);
		if (error)
			return error;
		if (!length || length > rows - row)
			return VC_E_CORRUPT;
		value += unzigzag(difference);
		while (length--)
			ret[row++] = value;
	}
	return 0;
}

static int decode_constant(struct vc_cursor *cursor, uint64_t rows, uint64_t *ret)
{
	uint64_t value;

	if (vc_cursor_u64(cursor, &value))
		return VC_E_TRUNCATED;
	for (uint64_t row = 0; row < rows; row++)
		ret[row] = value;
	return 0;
}

int vc_column_decode(struct vc_cursor *cursor, unsigned encoding, uint64_t rows,
		     const struct vc_column_key *key, uint64_t *ret)
{
	int error;

	if (rows > VC_GROUP_ROWS)
		return VC_E_CORRUPT;
	switch (encoding) {
	case VC_ENCODING_CONSTANT:
		error = decode_constant(cursor, rows, ret);
		break;
	case VC_ENCODING_FIXED:
		error = decode_fixed(cursor, rows, ret);
		break;
	case VC_ENCODING_PLANES:
		error = decode_plain_planes(cursor, rows, ret);
		break;
	case VC_ENCODING_DELTA:
		error = decode_delta(cursor, rows, ret);
		break;
	case VC_ENCODING_DELTA_PLANES:
		error = decode_delta_planes(cursor, rows, ret);
		break;
	case VC_ENCODING_RUNS:
		error = decode_runs(cursor, rows, ret);
		break;
	case VC_ENCODING_KEYED_PLANES:
		error = decode_keyed_planes(cursor, rows, key, ret);
		break;
	default:
		error = VC_E_CORRUPT;
	}
	if (!error && vc_cursor_left(cursor))
		error = VC_E_CORRUPT;
	return error;
}

int vc_column_decode_text(struct vc_cursor *cursor, uint64_t rows, uint64_t *lengths,
			  const char **ret)
{
	const uint8_t *bytes;
	uint64_t total = 0;

	if (rows > VC_GROUP_ROWS)
		return VC_E_CORRUPT;
	for (uint64_t row = 0; row < rows; row++) {
		int error = vc_cursor_varint(cursor, &lengths[row]);

		if (error)
			return error;
		if (__builtin_add_overflow(total, lengths[row], &total))
			return VC_E_CORRUPT;
	}
	if (total != vc_cursor_left(cursor))
		return total > vc_cursor_left(cursor) ? VC_E_TRUNCATED : VC_E_CORRUPT;
	vc_cursor_bytes(cursor, total, &bytes);
	if (total && memchr(bytes, 0, total))
		return VC_E_CORRUPT;
	*ret = (const char *)bytes;
	return 0;
}
