/* SPDX-License-Identifier: Apache-2.0 */
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/symbols_private.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { CHUNK = 64 * 1024, MEMOS = 8192 };

struct chunk {
	struct chunk *next;
	alignas(max_align_t) unsigned char bytes[];
};

struct vc_store {
	struct chunk *chunks;
	size_t left;			  /* at the end of the first chunk */
	size_t size;			  /* of the first chunk */
	const char **texts;		  /* hash table with open addressing */
	size_t text_count, text_capacity; /* capacity: a power of two */
	struct {
		const char *key, *value;
	} memos[MEMOS]; /* the newest of those that share a place */
};

struct vc_store *vc_store_create(void)
{
	return calloc(1, sizeof(struct vc_store));
}

void vc_store_destroy(struct vc_store *store)
{
	if (!store)
		return;
	while (store->chunks) {
		struct chunk *next = store->chunks->next;

		free(store->chunks);
		store->chunks = next;
	}
	free(store->texts);
	free(store);
}

void *vc_store_allocate(struct vc_store *store, size_t bytes)
{
	size_t rounded = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);

	if (rounded < bytes)
		return NULL;
	if (rounded > store->left) {
		size_t size = rounded > CHUNK ? rounded : CHUNK;
		struct chunk *chunk = malloc(sizeof(*chunk) + size);

		if (!chunk)
			return NULL;
		chunk->next = store->chunks;
		store->chunks = chunk;
		store->size = size;
		store->left = size;
	}
	store->left -= rounded;
	return store->chunks->bytes + store->size - store->left - rounded;
}

static size_t hash(const char *text)
{
	return XXH3_64bits(text, strlen(text));
}

static const char **slot_of(const struct vc_store *store, const char *text)
{
	size_t mask = store->text_capacity - 1, at = hash(text) & mask;

	while (store->texts[at] && strcmp(store->texts[at], text))
		at = (at + 1) & mask;
	return &store->texts[at];
}

static bool grow(struct vc_store *store)
{
	struct vc_store larger = *store;

	larger.text_capacity = store->text_capacity ? store->text_capacity * 2 : 1024;
	larger.texts = calloc(larger.text_capacity, sizeof(*larger.texts));
	if (!larger.texts)
		return false;
	for (size_t i = 0; i < store->text_capacity; i++)
		if (store->texts[i])
			*slot_of(&larger, store->texts[i]) = store->texts[i];
	free(store->texts);
	*store = larger;
	return true;
}

const char *vc_store_text(struct vc_store *store, const char *text)
{
	size_t length = strlen(text) + 1;
	const char **slot;
	char *copy;

	if (2 * store->text_count >= store->text_capacity && !grow(store))
		return NULL;
	slot = slot_of(store, text);
	if (*slot)
		return *slot;
	copy = vc_store_allocate(store, length);
	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	store->text_count++;
	*slot = copy;
	return copy;
}

const char **vc_store_memo(struct vc_store *store, const char *key)
{
	size_t at = (size_t)((uintptr_t)key * 0x9e3779b97f4a7c15u >> 40) % MEMOS;

	if (store->memos[at].key != key) {
		store->memos[at].key = key;
		store->memos[at].value = NULL;
	}
	return &store->memos[at].value;
}
