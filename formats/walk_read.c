/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/walk_read.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_CHECKED_WORDS                                                                         \
	((offsetof(struct vc_walk_head, check) - offsetof(struct vc_walk_head, read_version)) / 8)

static void say(struct vc_walk *walk, int error, uint64_t offset)
{
	struct vc_fault fault = {0};

	vc_fault_set(&fault, error, "walk", offset);
	vc_faults_add(walk->faults, &fault);
}

/* All of them, or an error. */
static int read_all(const struct vc_recording_source *source, uint64_t offset, void *buffer,
		    size_t length)
{
	for (size_t done = 0; done < length;) {
		size_t got = 0;
		int error = source->read(source->self, offset + done, (char *)buffer + done,
					 length - done, &got);

		if (error)
			return error;
		if (!got)
			return VC_E_TRUNCATED;
		done += got;
	}
	return 0;
}

static int check_head(const struct vc_walk_head *head, const struct vc_recording_source *source)
{
	if (memcmp(head->magic, VC_WALK_MAGIC, sizeof(head->magic)) != 0)
		return VC_E_NOT_OURS;
	if (head->read_version > VC_WALK_READ_VERSION)
		return VC_E_TOO_NEW;
	if (head->check !=
	    vc_check_words((const uint64_t *)&head->read_version, HEAD_CHECKED_WORDS, 0))
		return VC_E_CHECKSUM;
	if (head->pieces > VC_WALK_PIECES_MAX)
		return VC_E_LIMIT;
	if (head->bytes > source->length)
		return VC_E_TRUNCATED;
	return 0;
}

/* Without an entry the numbers of all rows that follow would be wrong. */
static int check_piece(const struct vc_walk *walk, uint32_t index)
{
	const struct vc_walk_piece *piece = &walk->piece[index];

	if (piece->entry_check !=
	    vc_check_words((const uint64_t *)piece, sizeof(*piece) / 8 - 1, index))
		return VC_E_CHECKSUM;
	if (!piece->row_bytes || piece->row_bytes > VC_WALK_ROW_BYTES_MAX ||
	    (piece->kind == VC_WALK_STRINGS ? piece->row_bytes != 1 : piece->row_bytes % 8))
		return VC_E_CORRUPT;
	if (piece->rows > VC_WALK_PIECE_BYTES_MAX / piece->row_bytes)
		return VC_E_LIMIT;
	if (piece->offset < VC_WALK_DATA_OFFSET || piece->offset % 4096 ||
	    piece->offset > walk->head.bytes ||
	    piece->rows * piece->row_bytes > walk->head.bytes - piece->offset)
		return VC_E_RANGE;
	return 0;
}

/* The rows of a piece into the buffer. */
static int read_piece(struct vc_walk *walk, uint32_t index)
{
	const struct vc_walk_piece *piece = &walk->piece[index];
	size_t bytes = (size_t)(piece->rows * piece->row_bytes), words = (bytes + 7) / 8;
	int error;

	memset(walk->buffer + bytes, 0, words * 8 - bytes);
	error = read_all(walk->source, piece->offset, walk->buffer, bytes);
	if (!error &&
	    piece->check != vc_check_words((const uint64_t *)walk->buffer, words, index))
		error = VC_E_CHECKSUM;
	return error;
}

static int read_strings(struct vc_walk *walk)
{
	uint64_t bytes = vc_walk_count(walk, VC_WALK_STRINGS), at = 0;

	if (bytes > walk->head.bytes) /* pieces that overlap */
		return VC_E_CORRUPT;
	walk->strings = calloc(1, bytes + 1);
	if (!walk->strings)
		return VC_E_NO_MEMORY;
	walk->string_bytes = bytes;
	for (uint32_t i = 0; i < walk->head.pieces; i++) {
		const struct vc_walk_piece *piece = &walk->piece[i];
		int error;

		if (piece->kind != VC_WALK_STRINGS)
			continue;
		error = read_piece(walk, i);
		if (error)
			say(walk, error, piece->offset);
		else
			memcpy(walk->strings + at, walk->buffer, piece->rows);
		at += piece->rows;
	}
	walk->strings[0] = '\0';
	return 0;
}

static int read_directory(struct vc_walk *walk)
{
	uint64_t claimed = 0;
	int error;

	walk->piece = calloc(walk->head.pieces + 1u, sizeof(*walk->piece));
	walk->buffer = malloc(VC_WALK_PIECE_BYTES_MAX + 8);
	if (!walk->piece || !walk->buffer)
		return VC_E_NO_MEMORY;
	error = read_all(walk->source, sizeof(walk->head), walk->piece,
			 walk->head.pieces * sizeof(*walk->piece));
	if (error)
		return error;
	for (uint32_t i = 0; i < walk->head.pieces; i++) {
		const struct vc_walk_piece *piece = &walk->piece[i];

		error = check_piece(walk, i);
		if (error)
			return error;
		claimed += piece->rows * piece->row_bytes;
		/* pieces do not overlap, so that work is bounded by the file */
		if (claimed > walk->head.bytes)
			return VC_E_CORRUPT;
	}
	return read_strings(walk);
}

int vc_walk_open(const struct vc_recording_source *source, struct vc_walk *ret,
		 struct vc_faults *faults, struct vc_fault *fault)
{
	struct vc_walk walk = {.source = source, .faults = faults};
	int error = source->length > VC_WALK_BYTES_MAX ? VC_E_LIMIT : 0;

	if (!error)
		error = read_all(source, 0, &walk.head, sizeof(walk.head));
	if (!error)
		error = check_head(&walk.head, source);
	if (!error)
		error = read_directory(&walk);
	if (error) {
		vc_walk_close(&walk);
		return vc_fault_set(fault, error, "walk", 0);
	}
	*ret = walk;
	return 0;
}

void vc_walk_close(struct vc_walk *walk)
{
	free(walk->piece);
	free(walk->strings);
	free(walk->buffer);
	memset(walk, 0, sizeof(*walk));
}

int vc_walk_find(const char *recording, uint32_t walk_plus_one, char *ret_path, size_t size)
{
	if (!walk_plus_one || snprintf(ret_path, size, "%s" VC_WALK_SUFFIX "%u", recording,
				       walk_plus_one - 1) >= (int)size)
		return -1;
	return open(ret_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

uint64_t vc_walk_count(const struct vc_walk *walk, enum vc_walk_kind kind)
{
	uint64_t rows = 0;

	for (uint32_t i = 0; i < walk->head.pieces; i++)
		if (walk->piece[i].kind == kind)
			rows += walk->piece[i].rows;
	return rows;
}

static int visit_piece(const struct vc_walk *walk, uint32_t index, uint64_t first,
		       size_t row_bytes, vc_walk_visit visit, void *self)
{
	const struct vc_walk_piece *piece = &walk->piece[index];
	uint64_t row[VC_WALK_ROW_BYTES_MAX / 8] = {0};
	size_t length = piece->row_bytes < row_bytes ? piece->row_bytes : row_bytes;

	for (uint64_t i = 0; i < piece->rows; i++) {
		int result;

		memcpy(row, walk->buffer + i * piece->row_bytes, length);
		result = visit(self, first + i, row);
		if (result)
			return result;
	}
	return 0;
}

int vc_walk_scan(struct vc_walk *walk, enum vc_walk_kind kind, size_t row_bytes,
		 vc_walk_visit visit, void *self)
{
	uint64_t number = 0;
	int result = 0;

	if (row_bytes > VC_WALK_ROW_BYTES_MAX)
		return VC_E_INVALID;
	for (uint32_t i = 0; !result && i < walk->head.pieces; i++) {
		int error;

		if (walk->piece[i].kind != kind)
			continue;
		error = read_piece(walk, i);
		if (error)
			say(walk, error, walk->piece[i].offset);
		else
			result = visit_piece(walk, i, number, row_bytes, visit, self);
		number += walk->piece[i].rows;
	}
	return result;
}

const char *vc_walk_text(struct vc_walk *walk, uint64_t id)
{
	if (id < walk->string_bytes)
		return walk->strings + id;
	if (id)
		say(walk, VC_E_RANGE, 0);
	return "";
}
