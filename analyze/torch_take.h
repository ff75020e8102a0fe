/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of a PyTorch snapshot's records as what tables keep. Private to the importer.
 *
 * Each function takes a pair of key and value of a record ("event", for what is wrong with it) and
 * refuses a value of another kind with VC_E_CORRUPT.
 */
#ifndef VC_ANALYZE_TORCH_TAKE_H
#define VC_ANALYZE_TORCH_TAKE_H

#include "analyze/torch_records.h"

#define VC_TORCH_BIT(key) (UINT64_C(1) << VC_TORCH_KEY_##key)
#define VC_TORCH_ORIGIN_BITS ((UINT64_C(1) << VC_TORCH_ORIGIN_KEYS) - 1)

/** The key as a number; VC_TORCH_KEYS for one that is not known. */
static inline uint64_t vc_torch_key(uint64_t key)
{
	return vc_value_content(key) - 1 < VC_TORCH_KEYS ? vc_value_content(key) - 1 :
							   VC_TORCH_KEYS;
}

/** A whole number; None is 0. */
int vc_torch_take_number(struct vc_torch *torch, const char *record, const uint64_t *pair,
			 uint64_t *ret);
/** A text's row; None is "". */
int vc_torch_take_text(struct vc_torch *torch, const char *record, const uint64_t *pair,
		       uint64_t *ret);
/** Two numbers. */
int vc_torch_take_pair(struct vc_torch *torch, const char *record, const uint64_t *pair,
		       uint64_t *first, uint64_t *second);
/** Row plus 1 of a stack; 0 for an empty list. */
int vc_torch_take_stack(struct vc_torch *torch, const char *record, const uint64_t *pair,
			uint64_t *ret);
/** Rows of a run of records of one tag; none for an empty list. */
int vc_torch_take_run(struct vc_torch *torch, const char *record, const uint64_t *pair,
		      enum vc_torch_tag tag, uint64_t *first, uint64_t *count);

/** The words of actions, as the next rows of `strings` after the keys. */
int vc_torch_add_actions(struct vc_torch *torch);
/** A dict with these keys (bits of those that are known) as a row of trace. */
int vc_torch_make_event(struct vc_torch *torch, const uint64_t *pairs, uint64_t count,
			uint64_t keys, uint64_t *ret);
/** Record maker's `alike`. */
int vc_torch_make_alike(void *context, const uint64_t *values, uint64_t *ret);

#endif
