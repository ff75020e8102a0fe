/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/pages.h"

#include <string.h>
#include <sys/mman.h>

#include "capture/inside/system.h"

#define FIRST_BYTES UINT64_C(65536)
#define PAGE UINT64_C(4096)
#define FIRST_SLOTS UINT64_C(8192)

static void *take(struct vc_pages *pages, uint64_t bytes)
{
	void *memory;

	if (pages->full || bytes > pages->limit - pages->taken) {
		pages->full = true;
		return NULL;
	}
	memory = vc_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
	if (vc_sys_failed(memory)) {
		pages->full = true;
		return NULL;
	}
	pages->taken += bytes;
	if (pages->taken > pages->most)
		pages->most = pages->taken;
	return memory;
}

static void give_back(struct vc_pages *pages, void *memory, uint64_t bytes)
{
	if (!memory)
		return;
	vc_sys_munmap(memory, bytes);
	pages->taken -= bytes;
}

static bool array_grow(struct vc_pages *pages, struct vc_array *array, size_t size, uint64_t least)
{
	uint64_t bytes = array->room * size, wanted = bytes ? bytes * 2 : FIRST_BYTES;
	void *moved;

	if (wanted < least * size)
		wanted = (least * size + PAGE - 1) / PAGE * PAGE;
	if (!bytes) {
		moved = take(pages, wanted);
	} else {
		if (pages->full || wanted - bytes > pages->limit - pages->taken) {
			pages->full = true;
			return false;
		}
		moved = (void *)vc_syscall(SYS_mremap, (long)array->item, (long)bytes, (long)wanted,
					   MREMAP_MAYMOVE, 0, 0);
		if (vc_sys_failed(moved)) {
			pages->full = true;
			return false;
		}
		pages->taken += wanted - bytes;
		if (pages->taken > pages->most)
			pages->most = pages->taken;
	}
	if (!moved)
		return false;
	array->item = moved;
	array->room = wanted / size;
	return true;
}

/* Room is rounded down to whole items: what is mapped is that, to the next page. */
void *vc_array_add(struct vc_pages *pages, struct vc_array *array, size_t size)
{
	if (array->count == array->room && !array_grow(pages, array, size, 0))
		return NULL;
	return array->item + array->count++ * size;
}

bool vc_array_fill(struct vc_pages *pages, struct vc_array *array, size_t size, uint64_t count)
{
	if (count > array->room && !array_grow(pages, array, size, count))
		return false;
	if (count > array->count)
		array->count = count;
	return true;
}

void vc_array_free(struct vc_pages *pages, struct vc_array *array, size_t size)
{
	give_back(pages, array->item, array->room * size);
	memset(array, 0, sizeof(*array));
}

static uint64_t hash_of(const void *pointer)
{
	return ((uintptr_t)pointer >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

/*
 * Where it is looked for first. Neighbours in memory are neighbours here, since a pass meets them one
 * after the other and the table is larger than caches are; each stretch of 64 KiB begins anywhere.
 */
static uint64_t first_slot(const struct vc_set *set, const void *pointer)
{
	uintptr_t stretch = (uintptr_t)pointer >> 16;

	return (((uintptr_t)pointer >> 4) + (stretch * UINT64_C(0x9e3779b97f4a7c15) >> 24)) &
	       (set->slots - 1);
}

/* The slot of a pointer, or the free one where it would go. */
static uint64_t slot_of(const struct vc_set *set, const void *pointer, uint64_t hash)
{
	uint64_t at = first_slot(set, pointer), tag = hash & UINT64_C(0xffffffff00000000);

	for (; set->slot[at]; at = (at + 1) & (set->slots - 1))
		if ((set->slot[at] & UINT64_C(0xffffffff00000000)) == tag &&
		    vc_set_at(set, (uint32_t)set->slot[at] - 1) == pointer)
			break;
	return at;
}

static bool set_grow(struct vc_pages *pages, struct vc_set *set, uint64_t least)
{
	struct vc_set bigger = *set;

	bigger.slots = set->slots ? set->slots * 2 : FIRST_SLOTS;
	while (bigger.slots < least)
		bigger.slots *= 2;
	bigger.slot = take(pages, bigger.slots * sizeof(uint64_t));
	if (!bigger.slot)
		return false;
	for (uint64_t i = 0; i < set->pointer.count; i++) {
		uint64_t hash = hash_of(vc_set_at(set, (uint32_t)i));
		uint64_t at = first_slot(&bigger, vc_set_at(set, (uint32_t)i));

		while (bigger.slot[at])
			at = (at + 1) & (bigger.slots - 1);
		bigger.slot[at] = (hash & UINT64_C(0xffffffff00000000)) | (i + 1);
	}
	give_back(pages, set->slot, set->slots * sizeof(uint64_t));
	*set = bigger;
	return true;
}

void vc_set_reserve(struct vc_pages *pages, struct vc_set *set, uint64_t count)
{
	if (count * 2 > set->slots && count * 2 * sizeof(uint64_t) < (pages->limit - pages->taken) / 2)
		set_grow(pages, set, count * 2);
}

uint32_t vc_set_add(struct vc_pages *pages, struct vc_set *set, const void *pointer, bool *ret_new)
{
	uint64_t hash = hash_of(pointer), at;
	void **item;

	if (set->pointer.count * 2 >= set->slots && !set_grow(pages, set, 0))
		return VC_NOT_THERE;
	at = slot_of(set, pointer, hash);
	*ret_new = !set->slot[at];
	if (set->slot[at])
		return (uint32_t)set->slot[at] - 1;
	item = set->pointer.count < VC_NOT_THERE - 1 ?
		vc_array_add(pages, &set->pointer, sizeof(void *)) : NULL;
	if (!item)
		return VC_NOT_THERE;
	*item = (void *)(uintptr_t)pointer;
	set->slot[at] = (hash & UINT64_C(0xffffffff00000000)) | set->pointer.count;
	return (uint32_t)set->pointer.count - 1;
}

uint32_t vc_set_find(const struct vc_set *set, const void *pointer)
{
	uint64_t at;

	if (!set->slots)
		return VC_NOT_THERE;
	at = slot_of(set, pointer, hash_of(pointer));
	return set->slot[at] ? (uint32_t)set->slot[at] - 1 : VC_NOT_THERE;
}

void vc_set_free(struct vc_pages *pages, struct vc_set *set)
{
	give_back(pages, set->slot, set->slots * sizeof(uint64_t));
	vc_array_free(pages, &set->pointer, sizeof(void *));
	memset(set, 0, sizeof(*set));
}
