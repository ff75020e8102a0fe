/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/mini_reader.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool bad(struct mini *mini, const char *format, ...)
{
	va_list list;

	if (mini->bad[0])
		return false;
	va_start(list, format);
	vsnprintf(mini->bad, sizeof(mini->bad), format, list);
	va_end(list);
	return false;
}

/* sum of (word + 1) * factor, factor -> 5 * factor + 2, begun with the number */
static uint64_t check_of(const void *from, size_t count, uint64_t number)
{
	const uint64_t *words = from;
	uint64_t sum = number * 0xd6e8feb86659fd93u + 0xd6e8feb86659fd93u;
	uint64_t factor = 0x9e3779b97f4a7c15u;

	while (count-- > 0) {
		sum += *words * factor + factor;
		words++;
		factor = 5 * factor + 2;
	}
	return sum == 0 ? 1 : sum;
}

static bool word_of(struct mini *mini, uint64_t word, const char *what, uint64_t *ret)
{
	*ret = word / 17;
	if (word - *ret * 17 == 0)
		return true;
	return bad(mini, "%s: %llu is no multiple of 17", what, (unsigned long long)word);
}

static bool chunk_good(const struct mini *mini, uint64_t i)
{
	const struct vc_chunk *chunk = &mini->root->chunk[i];

	return chunk->check != 0;
}

const void *mini_item(const struct mini *mini, uint64_t table, uint64_t number, size_t item)
{
	uint64_t chunks = mini->root->chunks / 17;

	for (uint64_t i = 0; i < chunks; i++) {
		const struct vc_chunk *chunk = &mini->root->chunk[i];

		if (chunk_good(mini, i) && chunk->table == table && number >= chunk->first &&
		    number < chunk->first + chunk->count)
			return mini->bytes + chunk->offset + (number - chunk->first) * item;
	}
	return NULL;
}

const char *mini_text(const struct mini *mini, uint32_t id)
{
	const struct vc_string_head *head;

	if (id == 0)
		return "";
	head = mini_item(mini, VC_REC_STRINGS, id, 8);
	if (!head || head->check != check_of(&head->length, 1 + head->length / 8 + 1, id))
		return NULL;
	return (const char *)(head + 1);
}

uint64_t mini_counter(const struct mini *mini, enum vc_counter counter)
{
	return mini->root->counter[counter] / 17;
}

static bool directory_check(struct mini *mini)
{
	uint64_t chunks, file_bytes;

	if (!word_of(mini, mini->root->chunks, "chunks", &chunks) ||
	    !word_of(mini, mini->root->file_bytes, "file_bytes", &file_bytes))
		return false;
	if (chunks > VC_ROOT_CHUNKS)
		return bad(mini, "%llu chunks", (unsigned long long)chunks);
	for (uint64_t i = 0; i < chunks; i++) {
		const struct vc_chunk *a = &mini->root->chunk[i];

		if (a->check == 0)
			continue;
		if (a->check != check_of(a, 7, i))
			return bad(mini, "chunk %llu: check", (unsigned long long)i);
		if (a->offset % 4096 || a->bytes % 4096 || a->offset < VC_ROOT_BYTES ||
		    a->offset + a->bytes > mini->length || a->table == 0 ||
		    a->table >= VC_REC_TABLES)
			return bad(mini, "chunk %llu: place", (unsigned long long)i);
		for (uint64_t j = 0; j < i; j++) {
			const struct vc_chunk *b = &mini->root->chunk[j];

			if (b->check == 0)
				continue;
			if (a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
				return bad(mini, "chunks %llu and %llu share bytes of the file",
					   (unsigned long long)i, (unsigned long long)j);
			if (a->table == b->table && a->first < b->first + b->count &&
			    b->first < a->first + a->count)
				return bad(mini, "chunks %llu and %llu share items",
					   (unsigned long long)i, (unsigned long long)j);
		}
	}
	return true;
}

static bool record_check(struct mini *mini, const struct vc_record *record, uint64_t slot)
{
	uint64_t state, death, number;
	bool whole;

	if (!word_of(mini, record->state, "state", &state))
		return false;
	number = state >> 2;
	switch (state & 3) {
	case VC_RECORD_EMPTY:
		mini->empty++;
		return true;
	case VC_RECORD_FILLING:
		mini->filling++;
		break;
	case VC_RECORD_LIVE:
		mini->live++;
		mini->live_bytes += record->size;
		break;
	case VC_RECORD_FREEING:
		mini->freeing++;
		break;
	}
	whole = record->check ==
		check_of(&record->address,
			 (sizeof(*record) - offsetof(struct vc_record, address)) / 8, number);
	if (!whole && (state & 3) == VC_RECORD_FILLING)
		mini->torn++;
	else if (!whole)
		return bad(mini, "record %llu: check", (unsigned long long)slot);
	if (number > mini->root->clock / 17)
		return bad(mini, "record %llu: born after the clock", (unsigned long long)slot);
	return word_of(mini, record->death, "death", &death) &&
	       word_of(mini, record->references, "references", &death);
}

static bool freed_check(struct mini *mini, const struct vc_freed *freed)
{
	uint64_t sequence, entry;

	if (!word_of(mini, freed->sequence, "sequence", &sequence))
		return false;
	if (sequence == 0)
		return true;
	if (sequence & 1) {
		mini->freed_writing++;
		return true;
	}
	entry = sequence / 2 - 1;
	/* 224 bytes less the sequence and check words */
	if (freed->check != check_of(&freed->birth, 26, entry))
		return bad(mini, "freed entry %llu: check", (unsigned long long)entry);
	if (freed->birth >= freed->death)
		return bad(mini, "freed entry %llu: died before it was born",
			   (unsigned long long)entry);
	if (entry >= mini->root->freed_next / 17)
		return bad(mini, "freed entry %llu: not taken yet", (unsigned long long)entry);
	mini->freed++;
	if (!mini->freed_lowest || entry + 1 < mini->freed_lowest)
		mini->freed_lowest = entry + 1;
	if (entry + 1 > mini->freed_highest)
		mini->freed_highest = entry + 1;
	return true;
}

static bool site_check(struct mini *mini, const struct vc_site *site, uint64_t row)
{
	uint64_t value[6];

	if (site->check == 0) {
		mini->unpublished++;
		return true;
	}
	if (site->check != check_of(&site->stack, 2, row))
		return bad(mini, "site %llu: check", (unsigned long long)row);
	if (!word_of(mini, site->allocated_count, "site", &value[0]) ||
	    !word_of(mini, site->allocated_bytes, "site", &value[1]) ||
	    !word_of(mini, site->freed_count, "site", &value[2]) ||
	    !word_of(mini, site->freed_bytes, "site", &value[3]) ||
	    !word_of(mini, site->peak_epoch, "site", &value[4]) ||
	    !word_of(mini, site->peak_bytes, "site", &value[5]))
		return false;
	mini->sites++;
	mini->allocated_count += value[0];
	mini->allocated_bytes += value[1];
	mini->freed_count += value[2];
	mini->freed_bytes += value[3];
	return true;
}

static bool row_check(struct mini *mini, const uint64_t *row, size_t words, uint64_t number,
		      uint64_t *counted)
{
	if (*row == 0) {
		mini->unpublished++;
		return true;
	}
	if (*row != check_of(row + 1, words - 1, number))
		return bad(mini, "row %llu: check", (unsigned long long)number);
	(*counted)++;
	return true;
}

static bool item_check(struct mini *mini, uint64_t table, const void *item, uint64_t number)
{
	const struct vc_failure_row *failure = item;

	switch (table) {
	case VC_REC_RECORDS:
		return record_check(mini, item, number);
	case VC_REC_FREED:
		return freed_check(mini, item);
	case VC_REC_SITES:
		return site_check(mini, item, number);
	case VC_REC_MODULES:
		return row_check(mini, item, 9, number, &mini->modules);
	case VC_REC_THREADS:
		return row_check(mini, item, 2, number, &mini->threads);
	case VC_REC_MOMENTS:
		return row_check(mini, item, 45, number, &mini->moments);
	case VC_REC_FAILURE_SITES:
		return row_check(mini, item, 4, number, &mini->failure_sites);
	case VC_REC_ENVIRONMENT:
		return row_check(mini, item, 2, number, &mini->environment);
	case VC_REC_FAILURES:
		if (failure->check == 0)
			mini->unpublished++;
		else if (failure->check != check_of(&failure->number, 14, number))
			return bad(mini, "failure %llu: check", (unsigned long long)number);
		else
			mini->failures++;
		return true;
	}
	return true;
}

static bool rows_check(struct mini *mini)
{
	static const size_t item[VC_REC_TABLES] = {
		[VC_REC_RECORDS] = 160, [VC_REC_FREED] = 224,	 [VC_REC_MODULES] = 72,
		[VC_REC_SITES] = 72,	[VC_REC_THREADS] = 16,	 [VC_REC_MOMENTS] = 360,
		[VC_REC_FAILURES] = 128, [VC_REC_FAILURE_SITES] = 32, [VC_REC_ENVIRONMENT] = 16,
	};
	uint64_t chunks = mini->root->chunks / 17;

	for (uint64_t i = 0; i < chunks; i++) {
		const struct vc_chunk *chunk = &mini->root->chunk[i];
		uint64_t used = mini->root->used[chunk->table] / 17;

		if (!chunk_good(mini, i) || item[chunk->table] == 0)
			continue;
		if (chunk->count * item[chunk->table] > chunk->bytes)
			return bad(mini, "chunk %llu: too small", (unsigned long long)i);
		for (uint64_t n = 0; n < chunk->count; n++) {
			const void *at = mini->bytes + chunk->offset + n * item[chunk->table];

			if (chunk->first + n >= used) {
				/* Nothing may stand where nothing was reserved. */
				if (*(const uint64_t *)at)
					return bad(mini, "table %llu: item %llu beyond the end",
						   (unsigned long long)chunk->table,
						   (unsigned long long)(chunk->first + n));
				continue;
			}
			if (!item_check(mini, chunk->table, at, chunk->first + n))
				return false;
		}
	}
	return true;
}

/* Strings and stacks are runs of units: zero units between them are gaps. */
static bool units_check(struct mini *mini, uint64_t table, uint64_t *counted)
{
	uint64_t chunks = mini->root->chunks / 17, used = mini->root->used[table] / 17;

	for (uint64_t i = 0; i < chunks; i++) {
		const struct vc_chunk *chunk = &mini->root->chunk[i];

		if (!chunk_good(mini, i) || chunk->table != table)
			continue;
		for (uint64_t n = 0; n < chunk->count && chunk->first + n < used;) {
			const uint64_t *unit =
				(const uint64_t *)(mini->bytes + chunk->offset) + n;
			uint64_t words;

			if (*unit == 0) {
				n++;
				continue;
			}
			words = table == VC_REC_STRINGS ? 1 + unit[1] / 8 + 1
							: 2 + (uint32_t)unit[2];
			if (n + 1 + words > chunk->count ||
			    *unit != check_of(unit + 1, words, chunk->first + n))
				return bad(mini, "table %llu unit %llu: check",
					   (unsigned long long)table,
					   (unsigned long long)(chunk->first + n));
			(*counted)++;
			n += 1 + words;
		}
	}
	return true;
}

static bool root_check(struct mini *mini)
{
	const struct vc_root *root = mini->root;
	uint64_t value;

	if (mini->length < VC_ROOT_BYTES || memcmp(root->magic, "VRAMCORE-RECORD\n", 16))
		return bad(mini, "no magic");
	if (root->fixed_check != check_of(&root->fixed, sizeof(root->fixed) / 8, 0))
		return bad(mini, "check of the fixed part");
	for (unsigned i = 0; i < VC_COUNTERS_MAX; i++)
		if (!word_of(mini, root->counter[i], "counter", &value))
			return false;
	for (unsigned i = 0; i < 16; i++)
		if (!word_of(mini, root->used[i], "used", &value))
			return false;
	for (unsigned i = 0; i < VC_DEVICES_MAX; i++) {
		const struct vc_device *device = &root->device[i];

		if (device->check && device->check != check_of(device->uuid, 5, i))
			return bad(mini, "check of device %u", i);
		if (!word_of(mini, device->live, "device live", &value) ||
		    !word_of(mini, device->peak, "device peak", &value) ||
		    !word_of(mini, device->peak_epoch, "device epoch", &value) ||
		    !word_of(mini, device->peak_time, "device time", &value) ||
		    !word_of(mini, device->peak_step, "device step", &value) ||
		    !word_of(mini, device->torch_number, "torch number", &value) ||
		    !word_of(mini, device->torch_allocated, "torch allocated", &value) ||
		    !word_of(mini, device->torch_reserved, "torch reserved", &value))
			return false;
	}
	return word_of(mini, root->clock, "clock", &value) &&
	       word_of(mini, root->freed_next, "freed_next", &value) &&
	       word_of(mini, root->freed_slots, "freed_slots", &value);
}

bool mini_read_descriptor(int descriptor, struct mini *ret)
{
	struct stat facts;
	void *bytes;

	memset(ret, 0, sizeof(*ret));
	if (fstat(descriptor, &facts))
		return bad(ret, "fstat");
	bytes = mmap(NULL, (size_t)facts.st_size + 1, PROT_READ, MAP_SHARED, descriptor, 0);
	if (bytes == MAP_FAILED)
		return bad(ret, "mmap");
	ret->bytes = bytes;
	ret->length = (uint64_t)facts.st_size;
	ret->root = bytes;
	return root_check(ret) && directory_check(ret) && rows_check(ret);
}

bool mini_units(struct mini *mini)
{
	return units_check(mini, VC_REC_STRINGS, &mini->strings) &&
	       units_check(mini, VC_REC_STACKS, &mini->stacks);
}

bool mini_read(const char *path, struct mini *ret)
{
	int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	bool good;

	if (descriptor < 0) {
		memset(ret, 0, sizeof(*ret));
		return bad(ret, "cannot open %s", path);
	}
	good = mini_read_descriptor(descriptor, ret);
	close(descriptor);
	return good;
}

void mini_close(struct mini *mini)
{
	if (mini->bytes)
		munmap((void *)(uintptr_t)mini->bytes, mini->length + 1);
	mini->bytes = NULL;
}
