/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/sites.h"

#include <string.h>

#include "capture/inside/peak.h"
#include "capture/inside/store_parts.h"

#define VC_SITE_PLACES (2 * VC_SITES_MAX)
#define VC_SITE_PROBES 256u
#define VC_SITE_KEY_WORDS ((offsetof(struct vc_site, allocated_count) - 8) / 8)

static struct {
	uint32_t *place;                     /* row numbers; 0: free */
	uint64_t epoch_start[VC_DEVICES_MAX]; /* live bytes at the begin of the device's epoch */
	uint64_t blocks[VC_DEVICES_MAX];      /* live bytes of blocks */
} sites;

static enum vc_kind_bytes bytes_of_kind(uint8_t kind)
{
	static const uint8_t bytes[] = {
#define VC_KIND(name, number, text, meaning) [number] = VC_BYTES_##meaning,
#include "formats/kinds.def"
#undef VC_KIND
	};

	return kind < sizeof(bytes) ? (enum vc_kind_bytes)bytes[kind] : VC_BYTES_NONE;
}

static struct vc_site *site_at(uint32_t row)
{
	return vc_space_at(VC_REC_SITES, row);
}

static struct vc_device *device_of(uint16_t device_plus_one)
{
	if (device_plus_one == 0 || device_plus_one > VC_DEVICES_MAX)
		return NULL;
	return &vc_space_root()->device[device_plus_one - 1];
}

static bool site_is(uint32_t row, const struct vc_site_key *key)
{
	const struct vc_site *site = site_at(row);

	return site && site->stack == key->stack && site->python == key->python &&
	       site->device_plus_one == key->device_plus_one && site->kind == key->kind;
}

/* A new row, or VC_SITE_OTHER. */
static uint32_t site_add(const struct vc_site_key *key)
{
	struct vc_site image = {
		.stack = key->stack,
		.python = key->python,
		.device_plus_one = key->device_plus_one,
		.kind = key->kind,
	};
	struct vc_site *site;
	uint64_t row;

	if (vc_space_used(VC_REC_SITES) >= VC_SITES_MAX)
		return VC_SITE_OTHER;
	row = vc_space_append(VC_REC_SITES, 1);
	if (row >= VC_SITES_MAX)
		return VC_SITE_OTHER;
	site = site_at((uint32_t)row);
	vc_put_words(&site->check + 1, &image.check + 1, VC_SITE_KEY_WORDS);
	vc_put_release(&site->check, vc_check_words(&image.check + 1, VC_SITE_KEY_WORDS, row));
	return (uint32_t)row;
}

void vc_sites_start(void)
{
	static const struct vc_site_key other;

	sites.place = vc_space_private(VC_SITE_PLACES * sizeof(*sites.place));
	site_add(&other);
}

uint32_t vc_sites_row(const struct vc_site_key *key)
{
	uint64_t hash = vc_mix((uint64_t)key->stack << 32 | key->python);
	uint32_t added = VC_SITE_OTHER;

	hash = vc_mix(hash ^ ((uint64_t)key->device_plus_one << 8 | key->kind));
	for (uint32_t probe = 0; sites.place && probe < VC_SITE_PROBES; probe++) {
		uint32_t *place = &sites.place[(hash + probe) % VC_SITE_PLACES];
		uint32_t row = __atomic_load_n(place, __ATOMIC_ACQUIRE);

		if (row == 0) {
			/* The row comes first: a place is never taken by somebody still busy. */
			if (added == VC_SITE_OTHER)
				added = site_add(key);
			if (added == VC_SITE_OTHER)
				break;
			if (__atomic_compare_exchange_n(place, &row, added, false, __ATOMIC_SEQ_CST,
							__ATOMIC_ACQUIRE))
				return added;
		}
		if (site_is(row, key))
			return row;
	}
	/* Row 0 has no chunk in the smallest of recordings: then nothing is left to add to. */
	vc_store_count(VC_COUNTER_SITES_OTHER);
	return VC_SITE_OTHER;
}

static uint64_t live_bytes(const struct vc_site *site)
{
	uint64_t freed = vc_word_value(vc_get(&site->freed_bytes));
	uint64_t allocated = vc_word_value(vc_get(&site->allocated_bytes));

	return allocated > freed ? allocated - freed : 0;
}

/*
 * Before a site changes: if its device began an epoch since the last change, what lives now is what
 * lived then. The bytes are stored before the epoch, since a reader takes the live bytes while the
 * epoch is older than the device's.
 */
static void site_note_peak(struct vc_site *site, const struct vc_device *device)
{
	uint64_t now = vc_get(&device->peak_epoch), old = vc_get(&site->peak_epoch);

	if (old == now)
		return;
	vc_put(&site->peak_bytes, vc_word(live_bytes(site)));
	vc_swap_if(&site->peak_epoch, &old, now);
}

static void raise(uint64_t *word, uint64_t value, bool *ret_raised)
{
	uint64_t old = vc_get(word);

	while (old < value)
		if (vc_swap_if(word, &old, value)) {
			*ret_raised = true;
			return;
		}
}

static void device_born(struct vc_device *device, const struct vc_site_change *change)
{
	uint64_t live = vc_add(&device->live, vc_word(change->bytes)) + vc_word(change->bytes);
	uint64_t *start = &sites.epoch_start[change->device_plus_one - 1];
	uint64_t old = vc_get(start);
	bool higher = false;

	vc_peak_note(change->device_plus_one - 1u, VC_PEAK_DRIVER, vc_word_value(live));
	raise(&device->peak, live, &higher);
	if (!higher)
		return;
	vc_put(&device->peak_time, vc_word(vc_store_time()));
	vc_put(&device->peak_step, vc_word(change->step));
	if (live > old + old / 100 && vc_swap_if(start, &old, live))
		vc_add(&device->peak_epoch, vc_word(1));
}

static void block_born(const struct vc_site_change *change)
{
	unsigned int index = change->device_plus_one - 1u;

	vc_peak_note(index, VC_PEAK_BLOCKS,
		     vc_add(&sites.blocks[index], change->bytes) + change->bytes);
}

void vc_sites_born(uint32_t row, const struct vc_site_change *change)
{
	struct vc_device *device = device_of(change->device_plus_one);
	struct vc_site *site = site_at(row);

	if (site) {
		if (device)
			site_note_peak(site, device);
		vc_add(&site->allocated_count, vc_word(1));
		vc_add(&site->allocated_bytes, vc_word(change->bytes));
	}
	if (device && bytes_of_kind(change->kind) == VC_BYTES_DEVICE)
		device_born(device, change);
	if (device && change->kind == VC_KIND_BLOCK)
		block_born(change);
}

void vc_sites_died(uint32_t row, const struct vc_site_change *change)
{
	struct vc_device *device = device_of(change->device_plus_one);
	struct vc_site *site = site_at(row);

	if (site) {
		if (device)
			site_note_peak(site, device);
		vc_add(&site->freed_count, vc_word(1));
		vc_add(&site->freed_bytes, vc_word(change->bytes));
	}
	if (device && bytes_of_kind(change->kind) == VC_BYTES_DEVICE)
		vc_add(&device->live, 0 - vc_word(change->bytes));
	if (device && change->kind == VC_KIND_BLOCK)
		vc_add(&sites.blocks[change->device_plus_one - 1], 0 - change->bytes);
}

uint64_t vc_sites_blocks(unsigned int device)
{
	return vc_get(&sites.blocks[device]);
}

/* ---- the largest, for a failed allocation ---- */

static bool is_memory(uint8_t kind)
{
	switch (bytes_of_kind(kind)) {
	case VC_BYTES_DEVICE:
	case VC_BYTES_MANAGED:
	case VC_BYTES_INSIDE:
		return true;
	default:
		return false;
	}
}

/* Keeps `ret` sorted, largest first; `count` entries are there. */
static unsigned keep_largest(struct vc_site_total *ret, unsigned count, unsigned max,
			     const struct vc_site_total *total)
{
	unsigned at;

	if (count == max && ret[max - 1].bytes >= total->bytes)
		return count;
	if (count < max)
		count++;
	for (at = count - 1; at > 0 && ret[at - 1].bytes < total->bytes; at--)
		ret[at] = ret[at - 1];
	ret[at] = *total;
	return count;
}

unsigned vc_sites_largest(uint16_t device_plus_one, struct vc_site_total *ret, unsigned max)
{
	uint64_t used = vc_space_used(VC_REC_SITES);
	unsigned count = 0;

	for (uint64_t row = 0; row < used && row < VC_SITES_MAX; row++) {
		const struct vc_site *site = site_at((uint32_t)row);
		struct vc_site_total total = {.row = row};
		uint64_t freed;

		if (!site || vc_get_acquire(&site->check) == 0)
			continue;
		/* "Other" holds all devices and kinds. */
		if (row != VC_SITE_OTHER &&
		    (site->device_plus_one != device_plus_one || !is_memory(site->kind)))
			continue;
		total.bytes = live_bytes(site);
		freed = vc_word_value(vc_get(&site->freed_count));
		total.count = vc_word_value(vc_get(&site->allocated_count));
		total.count = total.count > freed ? total.count - freed : 0;
		if (total.bytes)
			count = keep_largest(ret, count, max, &total);
	}
	return count;
}

void vc_sites_forget(void)
{
	memset(&sites, 0, sizeof(sites));
}
