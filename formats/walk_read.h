/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a walk file (walk.h) and trusts nothing.
 *
 * The directory and all strings are read when it is opened, rows piece by piece when they are
 * visited. A file with a damaged head or directory is refused; a piece whose check does not fit is a
 * fault and is left out, while the numbers of its rows stay taken. Work and memory are bounded by the length of the file. Not thread safe; for use
 * outside the host.
 */
#ifndef VC_FORMATS_WALK_READ_H
#define VC_FORMATS_WALK_READ_H

#include <stddef.h>
#include <stdint.h>

#include "formats/recording_read.h" /* struct vc_recording_source */
#include "formats/walk.h"

#define VC_WALK_BYTES_MAX (UINT64_C(1) << 30)
#define VC_WALK_ROW_BYTES_MAX 4096u

struct vc_walk {
	struct vc_walk_head head;
	struct vc_faults *faults;
	/* private */
	const struct vc_recording_source *source;
	struct vc_walk_piece *piece;
	char *strings;
	uint64_t string_bytes;
	uint8_t *buffer;           /* for one piece */
};

/**
 * Opens a walk file; the source must outlive *ret. Faults that leave the rest readable go to
 * *faults (may be NULL), which must outlive *ret. On an error *ret is untouched, and *fault (may be
 * NULL) says where.
 */
int vc_walk_open(const struct vc_recording_source *source, struct vc_walk *ret,
		 struct vc_faults *faults, struct vc_fault *fault);
/**
 * Opens the file of a moment of `recording`, a path, by vc_recording_walk; gives a descriptor, which
 * the caller closes, or -1. Its path is put into ret_path.
 */
int vc_walk_find(const char *recording, uint32_t walk_plus_one, char *ret_path, size_t size);
/** Accepts a struct that is all zero. */
void vc_walk_close(struct vc_walk *walk);
/** Rows of a kind, those of damaged pieces too. */
uint64_t vc_walk_count(const struct vc_walk *walk, enum vc_walk_kind kind);
/** Called for each row; `row` has as many bytes as were asked for. Not 0 ends the scan. */
typedef int (*vc_walk_visit)(void *self, uint64_t number, const void *row);
/** Visits the rows of a kind in order; each is cut or filled with zeroes to `row_bytes`. */
int vc_walk_scan(struct vc_walk *walk, enum vc_walk_kind kind, size_t row_bytes,
		 vc_walk_visit visit, void *self);
/** A string by id; "" and a fault where it is not there. Valid until the walk is closed. */
const char *vc_walk_text(struct vc_walk *walk, uint64_t id);

#endif
