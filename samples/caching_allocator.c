/* SPDX-License-Identifier: Apache-2.0 */
#include "caching_allocator.h"

#include <stdio.h>
#include <stdlib.h>

#include "capture/vramcore.h"

#define GRANULE ((size_t)512)
#define SMALL_SEGMENT ((size_t)2 << 20)  /* for blocks under 1 MiB */
#define LARGE_SEGMENT ((size_t)20 << 20) /* for blocks under 10 MiB; larger ones get their own */
#define BINS 48
#define BUCKETS (1u << 16)

/* A piece of a segment, free or handed out. Pieces of a segment are linked in address order. */
struct block {
	device_pointer address;
	size_t bytes;
	bool free, small;
	struct block *before, *after;        /* in the segment */
	struct block *bin_before, *bin_after; /* among free pieces of about this size */
	struct block *hash_next;
};

static struct {
	const struct driver *driver;
	bool report;
	struct block *bin[2][BINS];
	struct block *handed_out[BUCKETS];
	size_t allocated, reserved;
} cache;

void caching_open(const struct driver *driver, bool report)
{
	cache.driver = driver;
	cache.report = report;
}

static struct block *new_block(device_pointer address, size_t bytes, bool small)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block) {
		fprintf(stderr, "train: out of host memory\n");
		exit(2);
	}
	block->address = address;
	block->bytes = bytes;
	block->small = small;
	return block;
}

static unsigned int bin_of(size_t bytes)
{
	return 63u - (unsigned int)__builtin_clzll(bytes / GRANULE);
}

static void bin_add(struct block *block)
{
	struct block **head = &cache.bin[block->small][bin_of(block->bytes)];

	block->free = true;
	block->bin_before = NULL;
	block->bin_after = *head;
	if (*head)
		(*head)->bin_before = block;
	*head = block;
}

static void bin_remove(struct block *block)
{
	if (block->bin_before)
		block->bin_before->bin_after = block->bin_after;
	else
		cache.bin[block->small][bin_of(block->bytes)] = block->bin_after;
	if (block->bin_after)
		block->bin_after->bin_before = block->bin_before;
	block->free = false;
}

/* A free piece that is large enough: the first that fits of the smallest bin that has one. */
static struct block *find_cached(size_t bytes, bool small)
{
	for (unsigned int bin = bin_of(bytes); bin < BINS; bin++)
		for (struct block *block = cache.bin[small][bin]; block; block = block->bin_after)
			if (block->bytes >= bytes)
				return block;
	return NULL;
}

static struct block *new_segment(size_t bytes, bool small)
{
	size_t segment = small ? SMALL_SEGMENT : bytes < LARGE_SEGMENT / 2 ? LARGE_SEGMENT : bytes;
	device_pointer address;
	struct block *block;

	if (cache.driver->memory_allocate(&address, segment) != 0) {
		caching_release_cached();
		if (cache.driver->memory_allocate(&address, segment) != 0)
			return NULL;
	}
	cache.reserved += segment;
	block = new_block(address, segment, small);
	bin_add(block);
	return block;
}

static void split(struct block *block, size_t bytes)
{
	struct block *rest;

	if (block->bytes == bytes)
		return;
	rest = new_block(block->address + bytes, block->bytes - bytes, block->small);
	rest->before = block;
	rest->after = block->after;
	if (rest->after)
		rest->after->before = rest;
	block->after = rest;
	block->bytes = bytes;
	bin_add(rest);
}

static struct block **bucket_of(device_pointer address)
{
	return &cache.handed_out[(address / GRANULE * 0x9e3779b97f4a7c15u) >> 48];
}

device_pointer caching_allocate(size_t bytes)
{
	bool small = bytes < (size_t)1 << 20;
	struct block *block, **bucket;

	bytes = (bytes + GRANULE - 1) / GRANULE * GRANULE;
	block = find_cached(bytes, small);
	if (!block)
		block = new_segment(bytes, small);
	if (!block)
		return 0;
	bin_remove(block);
	split(block, bytes);
	bucket = bucket_of(block->address);
	block->hash_next = *bucket;
	*bucket = block;
	cache.allocated += bytes;
	if (cache.report)
		vramcore_block((void *)block->address, bytes, NULL);
	return block->address;
}

/* Joins `block` with the piece after it. */
static void join_after(struct block *block)
{
	struct block *after = block->after;

	block->bytes += after->bytes;
	block->after = after->after;
	if (block->after)
		block->after->before = block;
	free(after);
}

void caching_free(device_pointer pointer)
{
	struct block **link = bucket_of(pointer), *block;

	while (*link && (*link)->address != pointer)
		link = &(*link)->hash_next;
	block = *link;
	if (!block) {
		fprintf(stderr, "train: block freed twice\n");
		abort();
	}
	*link = block->hash_next;
	if (cache.report)
		vramcore_block_free((void *)pointer);
	cache.allocated -= block->bytes;
	if (block->after && block->after->free) {
		bin_remove(block->after);
		join_after(block);
	}
	if (block->before && block->before->free) {
		block = block->before;
		bin_remove(block);
		join_after(block);
	}
	bin_add(block);
}

void caching_release_cached(void)
{
	for (int small = 0; small < 2; small++)
		for (unsigned int bin = 0; bin < BINS; bin++)
			for (struct block *block = cache.bin[small][bin], *next; block; block = next) {
				next = block->bin_after;
				if (block->before || block->after)
					continue;
				bin_remove(block);
				cache.driver->memory_free(block->address);
				cache.reserved -= block->bytes;
				free(block);
			}
}

void caching_totals(size_t *allocated, size_t *reserved)
{
	*allocated = cache.allocated;
	*reserved = cache.reserved;
}
