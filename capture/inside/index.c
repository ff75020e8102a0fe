/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/index.h"

#include <stddef.h>
#include <string.h>

#include "capture/inside/atomic.h"
#include "capture/inside/space.h"
#include "capture/inside/system.h"

#define VC_BUCKET 8u
#define VC_LEVELS 6

/*
 * log2 of the buckets of each level, touched as it fills: 256 KiB, 2 MiB, 16 MiB; then less than
 * eight times as much, because all of a new level is soon touched and each page costs a fault.
 */
static const uint8_t level_log2[VC_LEVELS] = {12, 15, 18, 20, 21, 22};

static struct vc_index {
	uint64_t *level[VC_LEVELS]; /* the buckets, NULL: none yet */
	uint64_t failed;            /* no memory: only the agent asks again */
} table;

struct vc_key {
	uint64_t tag;   /* in the upper half */
	uint64_t first, second;
};

static struct vc_key key_of(uint64_t address)
{
	uint64_t hash = vc_mix(address ^ 0x5851f42d4c957f2du);
	struct vc_key key = {
		.tag = hash & UINT64_C(0xffffffff00000000),
		.first = hash,
		.second = (hash * 0x9e3779b97f4a7c15u) >> 32,
	};

	return key;
}

static uint64_t level_buckets(unsigned level)
{
	return UINT64_C(1) << level_log2[level];
}

static uint64_t *level_at(unsigned level)
{
	return __atomic_load_n(&table.level[level], __ATOMIC_ACQUIRE);
}

static uint64_t *bucket_at(unsigned level, uint64_t *at, uint64_t hash)
{
	return at + (hash & (level_buckets(level) - 1)) * VC_BUCKET;
}

/* Threads that come at once each map a level; the first one stays. */
static bool level_make(unsigned level, bool again)
{
	uint64_t *expected = NULL, *at;
	size_t bytes;

	if (level >= VC_LEVELS || (!again && vc_get(&table.failed)))
		return false;
	bytes = level_buckets(level) * VC_BUCKET * sizeof(uint64_t);
	at = vc_space_private(bytes);
	vc_put(&table.failed, !at);
	if (!at)
		return level_at(level);
	if (!__atomic_compare_exchange_n(&table.level[level], &expected, at, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
		vc_sys_munmap(at, bytes);
	return true;
}

void vc_index_start(void)
{
	level_make(0, true);
}

static bool bucket_insert(uint64_t *bucket, uint64_t entry)
{
	for (unsigned i = 0; i < VC_BUCKET; i++) {
		uint64_t none = 0;

		if (vc_get(&bucket[i]) == 0 && vc_swap_if(&bucket[i], &none, entry))
			return true;
	}
	return false;
}

static unsigned bucket_free(const uint64_t *bucket)
{
	unsigned count = 0;

	for (unsigned i = 0; i < VC_BUCKET; i++)
		count += vc_get(&bucket[i]) == 0;
	return count;
}

static bool level_insert(unsigned level, const struct vc_key *key, uint64_t entry)
{
	uint64_t *at = level_at(level), *first, *second;

	if (!at)
		return false;
	first = bucket_at(level, at, key->first);
	second = bucket_at(level, at, key->second);
	if (bucket_free(first) < bucket_free(second))
		return bucket_insert(second, entry) || bucket_insert(first, entry);
	return bucket_insert(first, entry) || bucket_insert(second, entry);
}

bool vc_index_insert(uint64_t address, uint32_t record)
{
	struct vc_key key = key_of(address);
	uint64_t entry = key.tag | (record + UINT64_C(1));
	unsigned levels = 0;

	while (levels < VC_LEVELS && level_at(levels))
		levels++;
	for (unsigned level = levels; level-- > 0;)
		if (level_insert(level, &key, entry))
			return true;
	return level_make(levels, false) && level_insert(levels, &key, entry);
}

void vc_index_remove(uint64_t address, uint32_t record)
{
	struct vc_key key = key_of(address);
	uint64_t entry = key.tag | (record + UINT64_C(1));

	for (unsigned level = 0; level < VC_LEVELS; level++) {
		uint64_t *at = level_at(level);

		if (!at)
			break;
		for (unsigned side = 0; side < 2; side++) {
			uint64_t *bucket = bucket_at(level, at, side ? key.second : key.first);

			for (unsigned i = 0; i < VC_BUCKET; i++) {
				uint64_t old = entry;

				if (vc_get(&bucket[i]) == entry && vc_swap_if(&bucket[i], &old, 0))
					return;
			}
		}
	}
}

unsigned vc_index_find(uint64_t address, uint32_t ret[VC_INDEX_FOUND_MAX])
{
	struct vc_key key = key_of(address);
	unsigned found = 0;

	for (unsigned level = 0; level < VC_LEVELS; level++) {
		uint64_t *at = level_at(level);

		if (!at)
			break;
		__builtin_prefetch(bucket_at(level, at, key.second));
		for (unsigned side = 0; side < 2; side++) {
			uint64_t *bucket = bucket_at(level, at, side ? key.second : key.first);

			for (unsigned i = 0; i < VC_BUCKET; i++) {
				uint64_t entry = __atomic_load_n(&bucket[i], __ATOMIC_ACQUIRE);

				if (entry && (entry & UINT64_C(0xffffffff00000000)) == key.tag &&
				    found < VC_INDEX_FOUND_MAX)
					ret[found++] = (uint32_t)entry - 1;
			}
		}
	}
	return found;
}

bool vc_index_grow(uint64_t records)
{
	uint64_t places = 0;
	unsigned levels = 0;

	while (levels < VC_LEVELS && level_at(levels))
		places += level_buckets(levels++) * VC_BUCKET;
	return records > places / 2 && level_make(levels, true);
}

void vc_index_forget(void)
{
	memset(&table, 0, sizeof(table));
}
