/* SPDX-License-Identifier: Apache-2.0 */
/* Chains among each other: which are the same, and what all of them begin with. */
#include "analyze/names.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/owner.h"
#include "analyze/source_frame.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- keys ---- */

static uint64_t mix_text(uint64_t hash, const char *text)
{
	return XXH3_64bits_withSeed(text, strlen(text), hash);
}

static uint64_t mix_frame(uint64_t hash, const struct vc_frame_name *frame)
{
	if (frame->owner == VC_OWNER_LIBRARY)
		return mix_text(hash, frame->library);
	if (frame->function && frame->file && frame->line) {
		hash = mix_text(hash, frame->function);
		hash = mix_text(hash, vc_path_name(frame->file));
		return hash * 31 + frame->line;
	}
	hash = mix_text(hash, *frame->build_id ? frame->build_id : vc_path_name(frame->module));
	return XXH3_64bits_withSeed(&frame->offset, sizeof(frame->offset), hash);
}

static uint64_t chain_hash(const struct vc_chain *chain, unsigned depth)
{
	const struct vc_frame_name *before = NULL;
	uint64_t hash = 1;
	unsigned users = 0;

	for (uint32_t i = 0; i < chain->count; i++) {
		const struct vc_frame_name *frame = chain->frames[i];

		if (frame->owner != VC_OWNER_USER && frame->owner != VC_OWNER_LIBRARY)
			continue;
		/* what a library does inside itself is its own affair */
		if (frame->owner == VC_OWNER_LIBRARY && before && before->library &&
		    !strcmp(before->library, frame->library))
			continue;
		hash = mix_frame(hash, frame);
		before = frame;
		if (frame->owner == VC_OWNER_USER && depth && ++users == depth)
			break;
	}
	if (!before && chain->count)
		hash = mix_frame(hash, chain->frames[0]);
	if (chain->count && !chain->has_user && vc_owner_tells(chain->frames[chain->user]))
		hash = mix_text(hash, chain->frames[chain->user]->function);
	return hash;
}

uint64_t vc_chain_key(const struct vc_chain *chain, unsigned depth)
{
	uint64_t hash = chain_hash(chain, depth);

	if (chain->forward)
		hash = hash * 31 + chain_hash(chain->forward, depth);
	return hash ? hash : 1;
}

/* ---- what all chains begin with ---- */

enum { COMMON_FUNCTIONS_MOST = 16 };

static bool same_function(const struct vc_frame_name *a, const struct vc_frame_name *b)
{
	return a == b || (a->owner == VC_OWNER_USER && b->owner == VC_OWNER_USER && a->function &&
			  b->function && a->file && b->file && !strcmp(a->function, b->function) &&
			  !strcmp(vc_path_name(a->file), vc_path_name(b->file)));
}

/** The user's frame after this one; count where there is none. */
static uint32_t next_user(const struct vc_chain *chain, uint32_t frame)
{
	do
		frame++;
	while (frame < chain->count && chain->frames[frame]->owner != VC_OWNER_USER);
	return frame;
}

/** True when every chain has the function of the first chain at `shown`, and callers of its own. */
static bool all_share(struct vc_chain *const *chains, size_t count, bool innermost)
{
	const struct vc_frame_name *first = chains[0]->frames[chains[0]->shown];

	for (size_t i = 0; i < count; i++) {
		const struct vc_frame_name *frame = chains[i]->frames[chains[i]->shown];

		if (!chains[i]->has_user || !same_function(first, frame) ||
		    (!innermost && frame->line != first->line) ||
		    next_user(chains[i], chains[i]->shown) >= chains[i]->count)
			return false;
	}
	return true;
}

static int compare_hashes(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/** How many different lines the chains show. */
static size_t count_shown(struct vc_chain *const *chains, size_t count, uint64_t *hashes)
{
	size_t different = 1;

	for (size_t i = 0; i < count; i++)
		hashes[i] = mix_frame(1, chains[i]->frames[chains[i]->shown]);
	qsort(hashes, count, sizeof(*hashes), compare_hashes);
	for (size_t i = 1; i < count; i++)
		different += hashes[i] != hashes[i - 1];
	return different;
}

/** Moves what is shown `steps` user frames out from the innermost one. */
static void show_from(struct vc_chain *const *chains, size_t count, unsigned steps)
{
	for (size_t i = 0; i < count; i++) {
		chains[i]->shown = chains[i]->user;
		for (unsigned j = 0; j < steps; j++)
			chains[i]->shown = next_user(chains[i], chains[i]->shown);
	}
}

unsigned vc_names_common(struct vc_chain *const *chains, size_t count)
{
	unsigned passed = 0, best = 0;
	size_t most, shown;
	uint64_t *hashes;

	for (size_t i = 0; i < count; i++)
		if (!chains[i]->count)
			return 0;
	if (count < 2 || !(hashes = calloc(count, sizeof(*hashes))))
		return 0;
	show_from(chains, count, 0);
	most = count_shown(chains, count, hashes);
	while (passed < COMMON_FUNCTIONS_MOST && all_share(chains, count, !passed)) {
		show_from(chains, count, ++passed);
		shown = count_shown(chains, count, hashes);
		if (shown > most) {
			most = shown;
			best = passed;
		}
	}
	show_from(chains, count, best);
	free(hashes);
	return best;
}
