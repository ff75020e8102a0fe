/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects of an interpreter, each kept once, and where the interpreter's own code lies.
 *
 * A code object is known by its print. Hash places hold the upper half of a print's hash and the
 * row plus 1 below; nothing is ever taken out: a code object at an address that another one had has
 * another print, and a row of its own.
 */
#include <string.h>

#include "capture/inside/store_parts.h"

#define VC_CODES_MAX (1u << 16)
#define VC_CODE_PLACES (4 * VC_CODES_MAX)
#define VC_CODE_PROBES 64u
#define VC_STACK_HEAD_WORDS (sizeof(struct vc_stack_head) / 8)

static struct {
	uint64_t *place;
	struct vc_code_print *print; /* by row */
} codes;

void vc_codes_start(void)
{
	codes.place = vc_space_private(VC_CODE_PLACES * sizeof(*codes.place));
	codes.print = vc_space_private(VC_CODES_MAX * sizeof(*codes.print));
}

void vc_codes_forget(void)
{
	memset(&codes, 0, sizeof(codes));
}

static uint64_t print_hash(const struct vc_code_print *print)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof(print->word) / sizeof(print->word[0]); i++) {
		hash = (hash ^ print->word[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
	}
	return hash;
}

static bool place_has(uint64_t place, uint64_t hash, const struct vc_code_print *print)
{
	return place >> 32 == hash >> 32 &&
	       !memcmp(&codes.print[(uint32_t)place - 1], print, sizeof(*print));
}

uint32_t vc_store_code_known(const struct vc_code_print *print)
{
	uint64_t hash = print_hash(print);

	if (!codes.place || !codes.print || !vc_store_ready())
		return 0;
	for (uint32_t probe = 0; probe < VC_CODE_PROBES; probe++) {
		uint64_t place = vc_get_acquire(&codes.place[(hash + probe) % VC_CODE_PLACES]);

		if (!place)
			return 0;
		if (place_has(place, hash, print))
			return (uint32_t)place;
	}
	return 0;
}

/* Two threads that meet a code object at once may each write a row of it; either is good. */
uint32_t vc_store_code_add(const struct vc_code_print *print, const struct vc_code_row *row)
{
	uint64_t hash = print_hash(print);
	uint32_t added;

	if (!codes.place || !codes.print || !vc_store_ready() ||
	    vc_space_used(VC_REC_CODES) >= VC_CODES_MAX)
		return 0;
	added = vc_names_row_add(VC_REC_CODES, row, sizeof(*row));
	if (added >= VC_CODES_MAX)
		return 0;
	memcpy(&codes.print[added], print, sizeof(*print));
	for (uint32_t probe = 0; probe < VC_CODE_PROBES; probe++) {
		uint64_t *at = &codes.place[(hash + probe) % VC_CODE_PLACES], place = vc_get(at);

		if (!place &&
		    vc_swap_if(at, &place, (hash & UINT64_C(0xffffffff00000000)) | (added + 1)))
			break;
	}
	return added + 1;
}

uint32_t vc_store_bytes(const void *bytes, size_t length)
{
	uint64_t words = VC_STACK_HEAD_WORDS + (length + 7) / 8, unit;
	const struct vc_stack_head image = {.count = (uint32_t)((length + 7) / 8)};
	struct vc_stack_head *head;

	if (!length || length > VC_STORE_BYTES_MAX || !vc_store_ready())
		return 0;
	unit = vc_space_append(VC_REC_STACKS, words);
	if (unit > UINT32_MAX)
		return 0;
	head = vc_space_at(VC_REC_STACKS, unit);
	vc_put_words(&head->check + 1, &image.check + 1, VC_STACK_HEAD_WORDS - 1);
	vc_put_bytes((uint64_t *)(head + 1), bytes, length);
	vc_put_release(&head->check, vc_check_words(&head->hash, words - 1, unit));
	return (uint32_t)unit;
}

bool vc_store_eval_add(uint32_t module_plus_one, uint64_t low, uint64_t high)
{
	const struct vc_eval_row image = {.low = low, .high = high, .module = module_plus_one};

	return vc_store_ready() &&
	       vc_names_row_add(VC_REC_EVALS, &image, sizeof(image)) != UINT32_MAX;
}
