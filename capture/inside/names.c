/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What records refer to: strings, stacks, modules; and the process's threads, variables, devices.
 */
#include <string.h>

#include "capture/inside/store_parts.h"

#define VC_STRING_PLACES (1u << 17)
#define VC_STACK_PLACES (1u << 18)
#define VC_PROBES 128u
#define VC_STRING_BYTES_MAX 8192u
#define VC_STACK_HEAD_WORDS (sizeof(struct vc_stack_head) / 8)
#define VC_STRING_HEAD_WORDS (sizeof(struct vc_string_head) / 8)

/* Hash places hold the upper half of a hash and an id below; 0: free. Nothing is ever taken out. */
static struct {
	uint64_t *string;
	uint64_t *stack;
	uint64_t device_taken[VC_DEVICES_MAX];
} names;

void vc_names_start(void)
{
	names.string = vc_space_private(VC_STRING_PLACES * sizeof(uint64_t));
	names.stack = vc_space_private(VC_STACK_PLACES * sizeof(uint64_t));
}

void vc_names_forget(void)
{
	memset(&names, 0, sizeof(names));
}

static uint64_t place_of(uint64_t hash, uint32_t id)
{
	return (hash & UINT64_C(0xffffffff00000000)) | id;
}

static bool place_has(uint64_t place, uint64_t hash)
{
	return place && place >> 32 == hash >> 32;
}

/* ---- strings ---- */

static uint64_t string_hash(const char *bytes, size_t length)
{
	uint64_t hash = vc_mix(length + 1);

	while (length >= 8) {
		uint64_t word;

		memcpy(&word, bytes, 8);
		hash = vc_mix(hash ^ word);
		bytes += 8;
		length -= 8;
	}
	if (length) {
		uint64_t word = 0;

		memcpy(&word, bytes, length);
		hash = vc_mix(hash ^ word);
	}
	return hash;
}

static bool string_is(uint32_t id, const char *bytes, size_t length)
{
	const struct vc_string_head *head = vc_space_at(VC_REC_STRINGS, id);

	return head && head->length == length && !memcmp(head + 1, bytes, length);
}

/* Copies a string into the recording; 0: no room. */
static uint32_t string_add(const char *bytes, size_t length)
{
	uint64_t words = VC_STRING_HEAD_WORDS + length / 8 + 1;
	uint64_t unit = vc_space_append(VC_REC_STRINGS, words);
	struct vc_string_head *head;

	if (unit > UINT32_MAX) {
		vc_store_count(VC_COUNTER_STRINGS_LOST);
		return 0;
	}
	head = vc_space_at(VC_REC_STRINGS, unit);
	/* a copy of the recording may be made meanwhile */
	vc_put(&head->length, length);
	vc_put_bytes((uint64_t *)(head + 1), bytes, length);
	vc_put_release(&head->check, vc_check_words(&head->length, words - 1, unit));
	return (uint32_t)unit;
}

uint32_t vc_store_string(const char *bytes, size_t length)
{
	uint32_t added = 0;
	uint64_t hash;

	if (!bytes || length == 0 || !vc_store_ready())
		return 0;
	if (length > VC_STRING_BYTES_MAX)
		length = VC_STRING_BYTES_MAX;
	hash = string_hash(bytes, length);
	for (uint32_t probe = 0; names.string && probe < VC_PROBES; probe++) {
		uint64_t *at = &names.string[(hash + probe) % VC_STRING_PLACES];
		uint64_t place = vc_get_acquire(at);

		if (place == 0) {
			if (!added)
				added = string_add(bytes, length);
			if (!added || vc_swap_if(at, &place, place_of(hash, added)))
				return added;
		}
		if (place_has(place, hash) && string_is((uint32_t)place, bytes, length))
			return (uint32_t)place;
	}
	return added ? added : string_add(bytes, length);
}

const char *vc_store_text(uint32_t id)
{
	const struct vc_string_head *head = NULL;

	if (id && vc_store_ready())
		head = vc_space_at(VC_REC_STRINGS, id);
	return head && vc_get_acquire(&head->check) ? (const char *)(head + 1) : "";
}

/* ---- stacks ---- */

static const struct vc_stack_head *stack_at(uint32_t id, uint64_t hash, uint32_t count)
{
	const struct vc_stack_head *head = vc_space_at(VC_REC_STACKS, id);

	return head && head->hash == hash && head->count == count ? head : NULL;
}

uint32_t vc_store_stack_known(uint64_t hash, uint32_t count)
{
	if (!vc_store_ready())
		return 0;
	for (uint32_t probe = 0; names.stack && probe < VC_PROBES; probe++) {
		uint64_t place = vc_get_acquire(&names.stack[(hash + probe) % VC_STACK_PLACES]);

		if (place == 0)
			return 0;
		if (place_has(place, hash) && stack_at((uint32_t)place, hash, count))
			return (uint32_t)place;
	}
	return 0;
}

static uint32_t stack_copy(uint64_t hash, const uint64_t *frames, uint32_t count,
			   enum vc_stack_end end)
{
	uint64_t words = VC_STACK_HEAD_WORDS + count;
	uint64_t unit = vc_space_append(VC_REC_STACKS, words);
	const struct vc_stack_head image = {.hash = hash, .count = count, .end = end};
	struct vc_stack_head *head;

	if (unit > UINT32_MAX) {
		vc_store_count(VC_COUNTER_STACKS_LOST);
		return 0;
	}
	head = vc_space_at(VC_REC_STACKS, unit);
	vc_put_words(&head->check + 1, &image.check + 1, VC_STACK_HEAD_WORDS - 1);
	vc_put_words((uint64_t *)(head + 1), frames, count);
	vc_put_release(&head->check, vc_check_words(&head->hash, words - 1, unit));
	return (uint32_t)unit;
}

uint32_t vc_store_stack_add(uint64_t hash, const uint64_t *frames, uint32_t count,
			    enum vc_stack_end end)
{
	uint32_t added = 0;

	if (!vc_store_ready())
		return 0;
	for (uint32_t probe = 0; names.stack && probe < VC_PROBES; probe++) {
		uint64_t *at = &names.stack[(hash + probe) % VC_STACK_PLACES];
		uint64_t place = vc_get_acquire(at);

		if (place == 0) {
			if (!added)
				added = stack_copy(hash, frames, count, end);
			if (!added || vc_swap_if(at, &place, place_of(hash, added)))
				return added;
		}
		if (place_has(place, hash)) {
			const struct vc_stack_head *head = stack_at((uint32_t)place, hash, count);

			if (head && head->end == end && !memcmp(head + 1, frames, count * 8))
				return (uint32_t)place;
		}
	}
	/* Without a place a stack would be copied again at each of its calls. */
	if (!added)
		vc_store_count(VC_COUNTER_STACKS_LOST);
	return added;
}

bool vc_store_stack_goes_through(uint32_t id, const char *path, uint32_t frames)
{
	const struct vc_stack_head *head = NULL;
	const uint64_t *frame;

	if (id && vc_store_ready())
		head = vc_space_at(VC_REC_STACKS, id);
	frame = (const uint64_t *)(head + 1);
	for (uint32_t i = 0; head && i < head->count && i < frames; i++) {
		const struct vc_module_row *module = NULL;

		if (frame[i] >> 48)
			module = vc_space_at(VC_REC_MODULES, (frame[i] >> 48) - 1);
		if (module && vc_get_acquire(&module->check) &&
		    strstr(vc_store_text(module->path), path))
			return true;
	}
	return false;
}

/* ---- rows ---- */

static uint32_t text_id(const char *text)
{
	return text ? vc_store_string(text, strlen(text)) : 0;
}

uint32_t vc_names_row_add(enum vc_recording_table table, const void *image, size_t bytes)
{
	uint64_t row = vc_space_append(table, 1);
	const uint64_t *words = image;
	uint64_t *to;

	if (row >= UINT32_MAX)
		return UINT32_MAX;
	to = vc_space_at(table, row);
	vc_put_words(to + 1, words + 1, bytes / 8 - 1);
	vc_put_release(to, vc_check_words(words + 1, bytes / 8 - 1, row));
	return (uint32_t)row;
}

uint32_t vc_store_module_add(const char *path, uint64_t bias, uint64_t low, uint64_t high,
			     const uint8_t *build_id, uint32_t build_id_bytes)
{
	struct vc_module_row image = {.bias = bias, .low = low, .high = high};
	uint32_t row = UINT32_MAX;

	if (!vc_store_ready())
		return UINT32_MAX;
	if (build_id_bytes > sizeof(image.build_id))
		build_id_bytes = sizeof(image.build_id);
	if (build_id_bytes)
		memcpy(image.build_id, build_id, build_id_bytes);
	image.build_id_bytes = build_id_bytes;
	image.path = text_id(path);
	/* Frames have 16 bits for the row plus 1. */
	if (vc_space_used(VC_REC_MODULES) < UINT16_MAX)
		row = vc_names_row_add(VC_REC_MODULES, &image, sizeof(image));
	if (row >= UINT16_MAX) {
		vc_store_count(VC_COUNTER_MODULES_LOST);
		return UINT32_MAX;
	}
	return row;
}

void vc_store_thread_add(uint32_t thread, const char *name)
{
	struct vc_thread_row image = {.thread = thread};

	if (!vc_store_ready())
		return;
	image.name = text_id(name);
	if (vc_names_row_add(VC_REC_THREADS, &image, sizeof(image)) == UINT32_MAX)
		vc_store_count(VC_COUNTER_STRINGS_LOST);
}

void vc_store_environment_add(const char *name, const char *value)
{
	struct vc_environment_row image = {0};

	if (!vc_store_ready())
		return;
	image.name = text_id(name);
	image.value = text_id(value);
	if (vc_names_row_add(VC_REC_ENVIRONMENT, &image, sizeof(image)) == UINT32_MAX)
		vc_store_count(VC_COUNTER_STRINGS_LOST);
}

void vc_store_detail_add(const char *key, const char *detail)
{
	char name[64] = "(";
	size_t length = 1;

	while (length < sizeof(name) - 2 && *key)
		name[length++] = *key++;
	name[length++] = ')';
	name[length] = '\0';
	vc_store_environment_add(name, detail);
}

void vc_store_device_add(uint32_t device, const struct vc_device_facts *facts)
{
	struct vc_device image = {.driver_version = facts->driver_version, .total = facts->total};
	const size_t words =
		(offsetof(struct vc_device, live) - offsetof(struct vc_device, uuid)) / 8;
	const uint64_t *from = &image.check + 1;
	struct vc_device *to;

	if (device >= VC_DEVICES_MAX || !vc_store_ready())
		return;
	if (vc_add(&names.device_taken[device], 1) > 0)
		return;
	memcpy(image.uuid, facts->uuid, sizeof(image.uuid));
	image.name = text_id(facts->name);
	image.pci = text_id(facts->pci);
	to = &vc_space_root()->device[device];
	vc_put_words(&to->check + 1, from, words);
	vc_put_release(&to->check, vc_check_words(from, words, device));
}

uint64_t vc_store_device_live(uint32_t device)
{
	if (device >= VC_DEVICES_MAX || !vc_store_ready())
		return 0;
	return vc_word_value(vc_get(&vc_space_root()->device[device].live));
}
