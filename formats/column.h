/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the numbers of one column of one row group are laid out before they are compressed.
 *
 * The encoder tries what may pay and keeps what zstd makes smallest, judged on a run of rows from
 * the middle of the group. The decoder takes nothing on trust: it reads inside the bytes given,
 * writes exactly the rows asked for, and refuses what it would have to ignore. FORMAT.md has the
 * layouts. One encoder per thread; not for use inside a host process.
 */
#ifndef VC_FORMATS_COLUMN_H
#define VC_FORMATS_COLUMN_H

#include <stddef.h>
#include <stdint.h>

#include "formats/cursor.h"

/** Most rows of a group. */
#define VC_GROUP_ROWS 65536u

/** Numbers are part of the format and are never used again. */
enum vc_encoding {
	VC_ENCODING_CONSTANT = 1,     /* one value for all rows */
	VC_ENCODING_FIXED = 2,        /* distance from a base, so many bytes a row */
	VC_ENCODING_PLANES = 3,       /* the same, all lowest bytes first, then the next ones */
	VC_ENCODING_DELTA = 4,        /* zig-zag varint of the difference from the row before */
	VC_ENCODING_DELTA_PLANES = 5, /* such differences as planes */
	VC_ENCODING_RUNS = 6,         /* length and difference of each run of equal values */
	VC_ENCODING_KEYED_PLANES = 7, /* difference from the last row of the same key */
	VC_ENCODING_TEXT = 8,         /* lengths of the strings, then their bytes */
};

/**
 * Which rows of a group have equal values in a column that others are keyed by: rows[i] is the
 * number of the value of row i, counted in order of first appearance.
 */
struct vc_column_key {
	uint32_t rows[VC_GROUP_ROWS];
	uint32_t distinct;
};

/** Fills *ret from the values of the key column; at most VC_GROUP_ROWS rows. */
int vc_column_key_build(const uint64_t *values, uint64_t rows, struct vc_column_key *ret);

struct vc_column_encoder; /* opaque */
int vc_column_encoder_create(struct vc_column_encoder **ret);
void vc_column_encoder_destroy(struct vc_column_encoder *encoder);
/**
 * Appends the best encoding of `rows` values (at most VC_GROUP_ROWS) to *out. `key` may be NULL;
 * key_column is the number of the column it was built from.
 */
int vc_column_encode(struct vc_column_encoder *encoder, const uint64_t *values, uint64_t rows,
		     const struct vc_column_key *key, uint16_t key_column, struct vc_buffer *out,
		     enum vc_encoding *ret);
/** Appends one particular encoding. VC_E_INVALID where these values cannot be encoded so. */
int vc_column_encode_as(struct vc_column_encoder *encoder, const uint64_t *values, uint64_t rows,
			const struct vc_column_key *key, uint16_t key_column,
			enum vc_encoding encoding, struct vc_buffer *out);

/** Number of the key column of KEYED_PLANES data. */
int vc_column_key_column(const struct vc_cursor *cursor, uint16_t *ret);
/**
 * Decodes `rows` values. The data must fill the cursor exactly. `key` is needed for KEYED_PLANES
 * only. On failure *ret holds garbage and the cursor stands near what was wrong.
 */
int vc_column_decode(struct vc_cursor *cursor, unsigned encoding, uint64_t rows,
		     const struct vc_column_key *key, uint64_t *ret);
/** TEXT: fills `lengths` and gives the bytes of all strings; VC_E_CORRUPT where one holds a NUL. */
int vc_column_decode_text(struct vc_cursor *cursor, uint64_t rows, uint64_t *lengths,
			  const char **ret);

#endif
