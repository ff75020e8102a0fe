/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/unhooked.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/inside/store.h"
#include "capture/inside/thread.h"

#define NAMES_KEPT 32u
#define NAME_BYTES 64u

static const char *const harmless[] = {
#define VC_HARMLESS(name) #name,
#include "capture/harmless.def"
#undef VC_HARMLESS
};

enum { SLOT_EMPTY, SLOT_FILLING, SLOT_READY };

static struct slot {
	uint32_t state;
	uint32_t said; /* recording that has it */
	char name[NAME_BYTES];
} slots[NAMES_KEPT];
static uint32_t recording; /* number of the one that is open */

/* Not the C library's: another library may stand in front of that. */
static int compare(const char *left, const char *right)
{
	while (*left && *left == *right) {
		left++;
		right++;
	}
	return (unsigned char)*left - (unsigned char)*right;
}

bool vc_unhooked_suspect(const char *name)
{
	size_t low = 0, high = sizeof(harmless) / sizeof(harmless[0]);

	if (name[0] != 'c' || name[1] != 'u' || name[2] < 'A' || name[2] > 'Z')
		return false;
	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = compare(harmless[middle], name);

		if (!order)
			return false;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return true;
}

static void say(struct slot *slot)
{
	uint32_t now = __atomic_load_n(&recording, __ATOMIC_ACQUIRE);

	if (!vc_store_ready() || __atomic_exchange_n(&slot->said, now, __ATOMIC_ACQ_REL) == now)
		return;
	vc_store_count(VC_COUNTER_UNHOOKED_SYMBOLS);
	vc_store_detail_add("unhooked_symbols", slot->name);
}

/* The slot of a name, a new one if need be; NULL: none is left. */
static struct slot *slot_of(const char *name)
{
	for (size_t i = 0; i < NAMES_KEPT; i++) {
		struct slot *slot = &slots[i];
		uint32_t state = SLOT_EMPTY;

		if (__atomic_compare_exchange_n(&slot->state, &state, SLOT_FILLING, false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			for (size_t at = 0; at + 1 < NAME_BYTES && name[at]; at++)
				slot->name[at] = name[at];
			__atomic_store_n(&slot->state, SLOT_READY, __ATOMIC_RELEASE);
			return slot;
		}
		if (state == SLOT_READY && !compare(slot->name, name))
			return slot;
	}
	return NULL;
}

void vc_unhooked_handed_out(const char *name)
{
	struct slot *slot;
	int saved = errno;

	vc_enter();
	slot = slot_of(name);
	if (slot)
		say(slot);
	else
		vc_store_count(VC_COUNTER_UNHOOKED_SYMBOLS);
	vc_leave();
	errno = saved;
}

void vc_unhooked_begin(void)
{
	__atomic_fetch_add(&recording, 1, __ATOMIC_ACQ_REL);
	for (size_t i = 0; i < NAMES_KEPT; i++)
		if (__atomic_load_n(&slots[i].state, __ATOMIC_ACQUIRE) == SLOT_READY)
			say(&slots[i]);
}
