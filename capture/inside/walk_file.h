/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a walk file (formats/walk.h) beside the recording, for one moment.
 *
 * One at a time in a process: vc_walk_begin takes the writer, vc_walk_finish or vc_walk_abandon
 * gives it back. Between them any number of kinds may be written in turns. Storage comes from
 * fallocate before it is mapped, so that no write can fail; where there is none left, or the file
 * reaches its limit, rows are refused and `full` is set: what is in the file stays good. System
 * calls are made, so this is not for hooks. CTX: the thread that holds the interpreter, inside the
 * guard.
 */
#ifndef VC_CAPTURE_INSIDE_WALK_FILE_H
#define VC_CAPTURE_INSIDE_WALK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/walk.h"

struct vc_walk_file;

/**
 * Begins the file of a moment whose number is `number` (S). NULL: there is no folder (a recording
 * in a memfd), no room, or a walk is under way.
 */
struct vc_walk_file *vc_walk_begin(uint64_t number);
/**
 * The next row of a kind, all zero, to be filled at once; NULL: full. All rows of a kind have the
 * same length. Its number is *ret_number (may be NULL).
 */
void *vc_walk_row(struct vc_walk_file *walk, enum vc_walk_kind kind, size_t row_bytes,
		  uint64_t *ret_number);
/** A row that was written before; NULL: there is none. */
void *vc_walk_row_at(struct vc_walk_file *walk, enum vc_walk_kind kind, uint64_t number);
/** Id of a string, each kept once; 0: "" or full. Cut at 4000 bytes. */
uint32_t vc_walk_string(struct vc_walk_file *walk, const char *text, size_t length);
/** A row of facts; `value` NULL: none. */
void vc_walk_fact(struct vc_walk_file *walk, const char *key, const char *value, const char *how);
void vc_walk_fact_number(struct vc_walk_file *walk, const char *key, uint64_t value,
			 const char *how);
/** Whether something did not fit. */
bool vc_walk_full(const struct vc_walk_file *walk);
/**
 * The file is whole: writes head and checks. Gives its number plus 1 (walk_plus_one of a moment); 0
 * where nothing is left of it.
 */
uint32_t vc_walk_finish(struct vc_walk_file *walk);
/** The file is taken away. */
void vc_walk_abandon(struct vc_walk_file *walk);
/** One that no moment refers to is taken away. */
void vc_walk_remove(uint32_t walk_plus_one);
/** In a forked child: no walk is under way. */
void vc_walk_forget(void);
/** Path of a walk file by its number plus 1, beside `recording`. False: too long. */
bool vc_walk_path(const char *recording, uint32_t walk_plus_one, char *ret, size_t size);

#endif
