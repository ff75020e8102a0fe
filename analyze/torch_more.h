/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a record of a PyTorch snapshot has beside what is known of it: keys of a later PyTorch, user
 * metadata that is no text. Private to the importer and the writer.
 *
 * It is kept as JSON, one object a record, so that it can be read and goes back to a pickle as it
 * was: {"(": [...]} is a tuple, {"{": [[key, value], ...]} a dict with keys that are no texts (or
 * with one of these two). Values that are records, or too large, are left out and counted.
 */
#ifndef VC_ANALYZE_TORCH_MORE_H
#define VC_ANALYZE_TORCH_MORE_H

#include "analyze/pickle_write.h"
#include "analyze/torch_records.h"

/** Bytes of one such text. */
enum { VC_TORCH_MORE_MOST = 64 << 10 };

/** Sets a pair of key and value aside; vc_torch_more takes them. */
void vc_torch_leave(struct vc_torch *torch, const uint64_t *pair);
/** What was set aside, as a row of strings: 0 nothing. */
int vc_torch_more(struct vc_torch *torch, uint64_t *ret);
/** One value as JSON, a row of strings; 0 where it cannot be kept. */
int vc_torch_plain(struct vc_torch *torch, uint64_t value, uint64_t *ret);

/** Writes the pairs of such a text into an open dict; nothing where it is damaged. */
void vc_torch_write_more(struct vc_pickle_writer *writer, const char *text);

#endif
