/* SPDX-License-Identifier: Apache-2.0 */
/* Records of what lives, and the ring of what was freed. */
#include <string.h>

#include "capture/inside/index.h"
#include "capture/inside/overflow.h"
#include "capture/inside/sites.h"
#include "capture/inside/store_parts.h"
#include "capture/inside/thread.h"

/* Free slots are kept in several lists, so that threads seldom meet. */
#define VC_FREE_LISTS 8u
/* Share of the budget that the freed ring may take. */
#define VC_SHARE_OF_RING 16
#define VC_SHARE_OF_WIDE_RING 4 /* where moments are shown that are long past */
/* In the link of a record: it is in use and the index has no entry for it. */
#define VC_UNINDEXED UINT32_MAX

static struct {
	/* head: record number plus 1 below, a count of changes above */
	struct {
		uint64_t head;
		uint64_t own_line[7];
	} free_list[VC_FREE_LISTS] __attribute__((aligned(64)));
	uint64_t unindexed; /* live records that only a scan finds */
	bool wide;          /* see VC_SHARE_OF_WIDE_RING */
} records;

/* ---- slots ---- */

static struct vc_record *record_at(uint32_t record)
{
	return vc_space_at(VC_REC_RECORDS, record);
}

static unsigned own_list(void)
{
	return (unsigned)(vc_mix((uintptr_t)&vc_thread_local) % VC_FREE_LISTS);
}

static uint32_t slot_pop(uint64_t *head)
{
	uint64_t old = vc_get_acquire(head);

	for (;;) {
		uint32_t slot = (uint32_t)old - 1;
		uint32_t *link;
		uint64_t next;

		if ((uint32_t)old == 0)
			return VC_NO_RECORD;
		link = vc_space_link(slot);
		next = __atomic_load_n(link, __ATOMIC_RELAXED);
		if (vc_swap_if(head, &old, ((old >> 32) + 1) << 32 | next)) {
			__atomic_store_n(link, 0, __ATOMIC_RELAXED);
			return slot;
		}
	}
}

static void slot_push(uint32_t slot)
{
	uint64_t *head = &records.free_list[own_list()].head, old = vc_get_acquire(head);
	uint32_t *link = vc_space_link(slot);

	do {
		__atomic_store_n(link, (uint32_t)old, __ATOMIC_RELAXED);
	} while (!vc_swap_if(head, &old, ((old >> 32) + 1) << 32 | (slot + UINT64_C(1))));
}

static uint32_t slot_take(void)
{
	unsigned own = own_list();
	uint64_t fresh;

	for (unsigned i = 0; i < VC_FREE_LISTS; i++) {
		uint32_t slot = slot_pop(&records.free_list[(own + i) % VC_FREE_LISTS].head);

		if (slot != VC_NO_RECORD)
			return slot;
	}
	fresh = vc_space_append(VC_REC_RECORDS, 1);
	return fresh < VC_NO_RECORD ? (uint32_t)fresh : VC_NO_RECORD;
}

/* ---- numbers ---- */

static uint64_t clock_next(void)
{
	return vc_word_value(vc_add(&vc_space_root()->clock, vc_word(1))) + 1;
}

/* ---- births ---- */

static void image_fill(struct vc_record *image, const struct vc_birth *birth, uint64_t time,
		       uint32_t site)
{
	*image = (struct vc_record){
		.references = vc_word(birth->references),
		.address = birth->address,
		.size = birth->size,
		.requested = birth->requested,
		.time = time,
		.parent = birth->parent,
		.stream = birth->stream,
		.context = birth->context,
		.step = birth->step,
		.offset = birth->offset,
		.pool = birth->pool,
		.stack = birth->stack,
		.python = birth->python,
		.module = birth->module,
		.phase = birth->phase,
		.site = site,
		.thread = birth->thread,
		.label = birth->label,
		.call = birth->call,
		.kind = birth->kind,
		.flags = birth->flags,
		.device_plus_one = birth->device_plus_one,
		.call_name = birth->call_name,
		.module_object = birth->module_object,
	};
}

static void record_publish(struct vc_record *record, const struct vc_record *image, uint64_t number,
			   enum vc_record_state state)
{
	vc_put_words(&record->address, &image->address, VC_RECORD_CHECKED_WORDS);
	vc_put(&record->references, image->references);
	vc_put(&record->death, 0);
	vc_put(&record->check, vc_check_words(&image->address, VC_RECORD_CHECKED_WORDS, number));
	vc_put_release(&record->state, vc_state_word(number, state));
}

uint32_t vc_store_begin(const struct vc_birth *birth)
{
	struct vc_record image;
	uint32_t slot;

	if (!vc_store_ready())
		return VC_NO_RECORD;
	slot = slot_take();
	if (slot == VC_NO_RECORD)
		return VC_NO_RECORD;
	image_fill(&image, birth, vc_store_time(), VC_SITE_OTHER);
	record_publish(record_at(slot), &image, vc_word_value(vc_get(&vc_space_root()->clock)),
		       VC_RECORD_FILLING);
	return slot;
}

static void index_add(uint64_t address, uint32_t slot)
{
	if (vc_index_insert(address, slot))
		return;
	__atomic_store_n(vc_space_link(slot), VC_UNINDEXED, __ATOMIC_RELAXED);
	vc_add(&records.unindexed, 1);
	vc_store_count(VC_COUNTER_UNINDEXED);
}

/* The record becomes live; its fields are written anew, with the time that the call began. */
static uint64_t born(uint32_t slot, const struct vc_birth *birth, uint64_t time)
{
	const struct vc_site_key key = {birth->stack, birth->python, birth->device_plus_one,
					birth->kind};
	struct vc_site_change change = {
		.bytes = birth->size,
		.step = birth->step,
		.device_plus_one = birth->device_plus_one,
		.kind = birth->kind,
	};
	uint32_t site = vc_sites_row(&key);
	struct vc_record image;
	uint64_t number = 0;

	vc_store_count(VC_COUNTER_ALLOCATIONS_SEEN);
	if (slot == VC_NO_RECORD) {
		struct vc_overflow entry = {birth->address, birth->size, site,
					    birth->device_plus_one, birth->kind};

		vc_overflow_add(&entry);
		vc_store_count(VC_COUNTER_RECORDS_LOST);
		vc_store_count_by(VC_COUNTER_RECORDS_LOST_BYTES, birth->size);
	} else {
		image_fill(&image, birth, time, site);
		number = clock_next();
		record_publish(record_at(slot), &image, number, VC_RECORD_LIVE);
		index_add(birth->address, slot);
	}
	vc_sites_born(site, &change);
	return number;
}

uint64_t vc_store_commit(uint32_t slot, const struct vc_birth *birth)
{
	if (!vc_store_ready())
		return 0;
	/* A second look at the clock costs more than it says. */
	return born(slot, birth,
		    slot == VC_NO_RECORD ? 0 : vc_get(&record_at(slot)->time));
}

uint64_t vc_store_add(const struct vc_birth *birth)
{
	if (!vc_store_ready())
		return 0;
	return born(slot_take(), birth, vc_store_time());
}

void vc_store_abandon(uint32_t slot)
{
	if (!vc_store_ready())
		return;
	vc_store_count(VC_COUNTER_CALLS_FAILED);
	/* Also a failed call takes a number: two fillings of a slot never carry the same one. */
	clock_next();
	if (slot == VC_NO_RECORD)
		return;
	vc_put_release(&record_at(slot)->state, 0);
	slot_push(slot);
}

/* ---- look-ups ---- */

/* A whole copy of a record that stayed live while it was made. */
static bool record_copy(uint32_t slot, struct vc_claim *ret)
{
	const struct vc_record *record = record_at(slot);
	uint64_t state = record ? vc_get_acquire(&record->state) : 0;

	if (vc_state_of(state) != VC_RECORD_LIVE)
		return false;
	vc_get_words((uint64_t *)&ret->copy, (const uint64_t *)record, sizeof(*record) / 8);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	ret->copy.state = state;
	ret->record = slot;
	ret->birth = vc_state_number(state);
	return vc_get(&record->state) == state;
}

static bool kind_is(uint8_t kind, uint64_t kinds)
{
	return kind < 64 && kinds & VC_KINDS(kind);
}

/* A record met in a search: its slot and its birth. */
struct vc_met {
	uint32_t slot;
	uint64_t birth; /* 0: none met */
};

/*
 * Takes a record into account. Of records with one address the newest counts: the free of an older
 * one was not seen.
 */
static void meet(struct vc_met *met, uint32_t slot, uint64_t address, uint64_t kinds)
{
	const struct vc_record *record = record_at(slot);
	uint64_t state, number;
	uint8_t kind;

	if (!record || vc_get(&record->address) != address)
		return;
	state = vc_get_acquire(&record->state);
	number = vc_state_number(state);
	if (vc_state_of(state) != VC_RECORD_LIVE || number <= met->birth)
		return;
	kind = __atomic_load_n(&record->kind, __ATOMIC_RELAXED);
	if (!kind_is(kind, kinds) || vc_get(&record->address) != address)
		return;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (vc_get(&record->state) == state)
		*met = (struct vc_met){slot, number};
}

static struct vc_met search(uint64_t address, uint64_t kinds)
{
	uint32_t slot[VC_INDEX_FOUND_MAX];
	unsigned count = vc_index_find(address, slot);
	struct vc_met met = {0};

	for (unsigned i = 0; i < count; i++)
		meet(&met, slot[i], address, kinds);
	if (!met.birth && vc_get(&records.unindexed)) {
		uint64_t used = vc_space_used(VC_REC_RECORDS);

		for (uint64_t i = 0; i < used; i++)
			meet(&met, (uint32_t)i, address, kinds);
	}
	return met;
}

/* ---- allocations without a record: of them a claim has the totals' side only ---- */

static void overflow_fill(const struct vc_overflow *entry, uint32_t place, struct vc_claim *ret)
{
	*ret = (struct vc_claim){
		.record = VC_NO_RECORD,
		.copy = {
			.address = entry->address,
			.size = entry->size,
			.site = entry->site,
			.device_plus_one = entry->device_plus_one,
			.kind = entry->kind,
			.module_object = place,
		},
	};
}

static bool overflow_find(uint64_t address, uint64_t kinds, struct vc_claim *ret)
{
	struct vc_overflow entry;

	if (!vc_store_ready() || !vc_overflow_find(address, kinds, &entry))
		return false;
	overflow_fill(&entry, 0, ret);
	return true;
}

static bool overflow_claim(uint64_t address, uint64_t kinds, struct vc_claim *ret)
{
	struct vc_overflow entry;
	uint32_t place;

	if (!vc_store_ready() || !vc_overflow_claim(address, kinds, &entry, &place))
		return false;
	overflow_fill(&entry, place, ret);
	return true;
}

bool vc_store_find(uint64_t address, uint64_t kinds, struct vc_claim *ret)
{
	/* One that died between the search and the copy may have left another of that address. */
	for (int tries = 0; tries < 8 && vc_store_ready(); tries++) {
		struct vc_met met = search(address, kinds);

		if (!met.birth)
			break;
		if (record_copy(met.slot, ret) && ret->birth == met.birth)
			return true;
	}
	return overflow_find(address, kinds, ret);
}

/* Of two records that hold an address the newer counts. */
static void take_newer(struct vc_claim *best, const struct vc_claim *claim, bool *found)
{
	if (*found && best->birth > claim->birth)
		return;
	*best = *claim;
	*found = true;
}

bool vc_store_find_containing(uint64_t address, uint64_t kinds, struct vc_claim *ret)
{
	struct vc_claim claim;
	bool found = false;
	uint64_t used;

	if (!vc_store_ready())
		return false;
	used = vc_space_used(VC_REC_RECORDS);
	for (uint64_t slot = 0; slot < used; slot++) {
		const struct vc_record *record = record_at((uint32_t)slot);

		if (record && address - vc_get(&record->address) < vc_get(&record->size) &&
		    record_copy((uint32_t)slot, &claim) &&
		    address - claim.copy.address < claim.copy.size &&
		    kind_is(claim.copy.kind, kinds))
			take_newer(ret, &claim, &found);
	}
	return found;
}

void vc_store_visit(bool (*visit)(const struct vc_claim *, void *), void *argument)
{
	struct vc_claim claim;
	uint64_t used;

	if (!vc_store_ready())
		return;
	used = vc_space_used(VC_REC_RECORDS);
	for (uint64_t slot = 0; slot < used; slot++)
		if (record_copy((uint32_t)slot, &claim) && !visit(&claim, argument))
			return;
}

uint32_t vc_store_reference_found(const struct vc_claim *claim, int by)
{
	struct vc_record *record;
	uint64_t old, count;

	if (!vc_store_ready())
		return VC_NO_RECORD;
	record = record_at(claim->record);
	if (!record)
		return VC_NO_RECORD;
	old = vc_get(&record->references);
	do {
		count = vc_word_value(old);
		if (by < 0 && count < (uint64_t)-(int64_t)by)
			count = 0;
		else
			count += (uint64_t)(int64_t)by;
		/* Freed since it was found: the words are another record's. */
		if (vc_get_acquire(&record->state) != claim->copy.state)
			return VC_NO_RECORD;
	} while (!vc_swap_if(&record->references, &old, vc_word(count)));
	return (uint32_t)count;
}

uint32_t vc_store_reference(uint64_t address, uint64_t kinds, int by)
{
	struct vc_claim claim;
	uint32_t count;

	if (!vc_store_find(address, kinds, &claim))
		return 0;
	count = vc_store_reference_found(&claim, by);
	return count == VC_NO_RECORD ? 0 : count;
}

/* ---- deaths ---- */

bool vc_store_claim_found(struct vc_claim *claim)
{
	struct vc_record *record;
	uint64_t old, death;

	if (!vc_store_ready())
		return false;
	if (claim->record == VC_NO_RECORD)
		return overflow_claim(claim->copy.address, VC_KINDS(claim->copy.kind), claim);
	record = record_at(claim->record);
	old = vc_state_word(claim->birth, VC_RECORD_LIVE);
	if (!record || !vc_swap_if(&record->state, &old,
				   vc_state_word(claim->birth, VC_RECORD_FREEING)))
		return false;
	death = clock_next();
	vc_put_release(&record->death, vc_word(death));
	vc_get_words((uint64_t *)&claim->copy, (const uint64_t *)record, sizeof(*record) / 8);
	return true;
}

bool vc_store_claim(uint64_t address, uint64_t kinds, struct vc_claim *ret)
{
	/*
	 * One that was found and lost to another thread may have left another of the same address.
	 */
	for (int tries = 0; tries < 8 && vc_store_ready(); tries++) {
		struct vc_met met = search(address, kinds);

		if (!met.birth)
			break;
		ret->record = met.slot;
		ret->birth = met.birth;
		if (vc_store_claim_found(ret))
			return true;
	}
	return overflow_claim(address, kinds, ret);
}

void vc_store_keep_deaths(void)
{
	records.wide = true;
}

bool vc_records_grow_ring(bool again)
{
	struct vc_root *root = vc_space_root();
	uint64_t old = vc_get(&root->freed_slots), bytes = vc_space_bytes(VC_REC_FREED), room;

	/* The next chunk is as large as all together, so far as chunks double. */
	if (bytes && 2 * bytes > vc_space_budget() / (records.wide ? VC_SHARE_OF_WIDE_RING :
							       VC_SHARE_OF_RING))
		return false;
	if (!vc_space_grow(VC_REC_FREED, again))
		return false;
	room = vc_word(vc_space_room(VC_REC_FREED));
	while (old < room && !vc_swap_if(&root->freed_slots, &old, room))
		;
	vc_put(&root->used[VC_REC_FREED], room);
	return true;
}

/*
 * Takes the next entry of the ring. A slot that somebody is still writing to, or that a later entry
 * got first, is left alone, and its number with it.
 */
static struct vc_freed *ring_take(uint64_t *ret_number)
{
	struct vc_root *root = vc_space_root();

	for (int tries = 0; tries < 16; tries++) {
		uint64_t number = vc_word_value(vc_add(&root->freed_next, vc_word(1)));
		uint64_t slots = vc_word_value(vc_get_acquire(&root->freed_slots)), old, sequence;
		struct vc_freed *freed;

		if (number >= slots && vc_records_grow_ring(false))
			slots = vc_word_value(vc_get_acquire(&root->freed_slots));
		freed = slots ? vc_space_at(VC_REC_FREED, number % slots) : NULL;
		if (!freed)
			break;
		old = vc_get_acquire(&freed->sequence);
		sequence = vc_word_value(old);
		if (sequence & 1 || sequence > 2 * number)
			continue;
		if (!vc_swap_if(&freed->sequence, &old, vc_word(2 * number + 1)))
			continue;
		if (old)
			vc_store_count(VC_COUNTER_DEATHS_OVERWRITTEN);
		*ret_number = number;
		return freed;
	}
	vc_store_count(VC_COUNTER_DEATHS_OVERWRITTEN);
	return NULL;
}

static void ring_write(const struct vc_claim *claim, const struct vc_death *death)
{
	struct vc_freed image = {
		.birth = claim->birth,
		.death = vc_word_value(claim->copy.death),
		.death_time = vc_store_time(),
		.death_step = death->step,
		.death_stack = death->stack,
		.death_python = death->python,
		.death_thread = death->thread,
		.death_call_name = death->call_name,
		.record = claim->copy,
	};
	const size_t words = (sizeof(image) - offsetof(struct vc_freed, birth)) / 8;
	uint64_t number;
	struct vc_freed *freed = ring_take(&number);

	if (!freed)
		return;
	/* The odd sequence word must be seen before any of what follows. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	vc_put_words(&freed->birth, &image.birth, words);
	vc_put(&freed->check, vc_check_words(&image.birth, words, number));
	vc_put_release(&freed->sequence, vc_word(2 * (number + 1)));
}

static void index_drop(uint64_t address, uint32_t slot)
{
	uint32_t *link = vc_space_link(slot);

	if (__atomic_load_n(link, __ATOMIC_RELAXED) == VC_UNINDEXED) {
		__atomic_store_n(link, 0, __ATOMIC_RELAXED);
		vc_add(&records.unindexed, (uint64_t)-1);
		return;
	}
	vc_index_remove(address, slot);
}

void vc_store_free_commit(const struct vc_claim *claim, const struct vc_death *death)
{
	struct vc_site_change change = {
		.bytes = claim->copy.size,
		.step = death->step,
		.device_plus_one = claim->copy.device_plus_one,
		.kind = claim->copy.kind,
	};

	if (!vc_store_ready())
		return;
	if (claim->record == VC_NO_RECORD) {
		vc_overflow_drop((uint32_t)claim->copy.module_object);
	} else {
		ring_write(claim, death);
		vc_put_release(&record_at(claim->record)->state, 0);
		/* Only then may the slot go: its next user could have the same address. */
		index_drop(claim->copy.address, claim->record);
		slot_push(claim->record);
	}
	vc_sites_died(claim->copy.site, &change);
	vc_store_count(VC_COUNTER_FREES_SEEN);
}

void vc_store_free_undo(const struct vc_claim *claim)
{
	struct vc_record *record;

	if (!vc_store_ready())
		return;
	if (claim->record == VC_NO_RECORD) {
		vc_overflow_undo((uint32_t)claim->copy.module_object, claim->copy.address);
		return;
	}
	record = record_at(claim->record);
	vc_put(&record->death, 0);
	vc_put_release(&record->state, vc_state_word(claim->birth, VC_RECORD_LIVE));
}

void vc_records_forget(void)
{
	memset(&records, 0, sizeof(records));
	vc_overflow_forget();
}
