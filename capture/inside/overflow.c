/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/overflow.h"

#include <stddef.h>
#include <string.h>

#include "capture/inside/atomic.h"
#include "capture/inside/space.h"
#include "capture/inside/system.h"

#define VC_BUCKET 4u
#define VC_BUCKETS (1u << 16) /* 262,144 entries, 8 MiB, touched as it fills */

/* One half of a cache line. */
struct vc_overflow_slot {
	uint64_t key;  /* address plus 1; 0: free; VC_TAKEN: somebody is busy with it */
	uint64_t size;
	uint64_t what; /* site below, kind and device above */
	uint64_t reserved;
};
#define VC_TAKEN UINT64_MAX

static struct {
	struct vc_overflow_slot *slot;
	uint64_t failed;
} overflow;

static struct vc_overflow_slot *slots(void)
{
	return __atomic_load_n(&overflow.slot, __ATOMIC_ACQUIRE);
}

/* Threads that come at once each map a table; the first one stays. */
static struct vc_overflow_slot *slots_make(void)
{
	const size_t bytes = sizeof(struct vc_overflow_slot) * VC_BUCKETS * VC_BUCKET;
	struct vc_overflow_slot *at = slots(), *none = NULL;

	if (at || vc_get(&overflow.failed))
		return at;
	at = vc_space_private(bytes);
	if (!at) {
		vc_put(&overflow.failed, 1);
		return slots();
	}
	if (__atomic_compare_exchange_n(&overflow.slot, &none, at, false, __ATOMIC_SEQ_CST,
					__ATOMIC_ACQUIRE))
		return at;
	vc_sys_munmap(at, bytes);
	return none;
}

static uint32_t bucket_of(uint64_t address, unsigned side)
{
	uint64_t hash = vc_mix(address + 0x632be59bd9b4e019u);

	return (uint32_t)((side ? hash >> 32 : hash) % VC_BUCKETS) * VC_BUCKET;
}

bool vc_overflow_add(const struct vc_overflow *entry)
{
	struct vc_overflow_slot *slot = slots_make();

	for (unsigned i = 0; slot && i < 2 * VC_BUCKET; i++) {
		struct vc_overflow_slot *at =
			&slot[bucket_of(entry->address, i / VC_BUCKET) + i % VC_BUCKET];
		uint64_t none = 0;

		if (vc_get(&at->key) || !vc_swap_if(&at->key, &none, VC_TAKEN))
			continue;
		vc_put(&at->size, entry->size);
		vc_put(&at->what, (uint64_t)entry->kind << 48 |
				  (uint64_t)entry->device_plus_one << 32 | entry->site);
		vc_put_release(&at->key, entry->address + 1);
		return true;
	}
	return false;
}

/* What stands at a place, if it is of one of the kinds. */
static bool slot_read(const struct vc_overflow_slot *at, uint64_t address, uint64_t kinds,
		      struct vc_overflow *ret)
{
	uint64_t what = vc_get(&at->what);

	if (what >> 48 >= 64 || !(kinds >> (what >> 48) & 1))
		return false;
	*ret = (struct vc_overflow){
		.address = address,
		.size = vc_get(&at->size),
		.site = (uint32_t)what,
		.device_plus_one = (uint16_t)(what >> 32),
		.kind = (uint8_t)(what >> 48),
	};
	return true;
}

bool vc_overflow_find(uint64_t address, uint64_t kinds, struct vc_overflow *ret)
{
	const struct vc_overflow_slot *slot = slots();

	for (unsigned i = 0; slot && i < 2 * VC_BUCKET; i++) {
		const struct vc_overflow_slot *at =
			&slot[bucket_of(address, i / VC_BUCKET) + i % VC_BUCKET];

		if (vc_get_acquire(&at->key) == address + 1 && slot_read(at, address, kinds, ret))
			return true;
	}
	return false;
}

bool vc_overflow_claim(uint64_t address, uint64_t kinds, struct vc_overflow *ret,
		       uint32_t *ret_place)
{
	struct vc_overflow_slot *slot = slots();

	for (unsigned i = 0; slot && i < 2 * VC_BUCKET; i++) {
		uint32_t place = bucket_of(address, i / VC_BUCKET) + i % VC_BUCKET;
		struct vc_overflow_slot *at = &slot[place];
		uint64_t key = address + 1;

		if (vc_get_acquire(&at->key) != key || !vc_swap_if(&at->key, &key, VC_TAKEN))
			continue;
		if (slot_read(at, address, kinds, ret)) {
			*ret_place = place;
			return true;
		}
		vc_put_release(&at->key, address + 1);
	}
	return false;
}

void vc_overflow_drop(uint32_t place)
{
	vc_put_release(&slots()[place].key, 0);
}

void vc_overflow_undo(uint32_t place, uint64_t address)
{
	vc_put_release(&slots()[place].key, address + 1);
}

void vc_overflow_forget(void)
{
	memset(&overflow, 0, sizeof(overflow));
}
