/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the messages of a text, for the tests of out-of-memory messages. */
#ifndef TESTS_UNIT_ANALYZE_OOM_TEXTS_H
#define TESTS_UNIT_ANALYZE_OOM_TEXTS_H

#include "tests/unit/analyze/cmocka.h"

#include <string.h>

#include "analyze/oom_message.h"
#include "analyze/views/oom_message.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

/* how the messages of torch 2 begin */
#define TORCH_2 "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "

/* what the last text held */
extern struct vc_oom_reader *reader;
extern struct vc_oom_log found;
extern struct vc_arena arena;
extern struct vc_oom_reading reading;

int tear_down(void **state);
/** Reads a text in pieces of `piece` bytes. */
void read_pieces(const char *text, size_t length, size_t piece);
/** The one message of a text; what follows from it is in `reading`. */
const struct vc_oom_message *only(const char *text);

/** The message tells these bytes. */
void told(const struct vc_oom_message *message, enum vc_oom_quantity quantity, uint64_t bytes);
/** The first finding is of this kind. */
void kind(enum vc_oom_kind expected);
/** Nothing is contradicted or missing, and rows add up. */
void consistent(void);
/** Bytes of the row with this key. */
int64_t row(const char *key);

#endif
