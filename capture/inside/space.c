/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/space.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "capture/inside/atomic.h"
#include "capture/inside/budget.h"
#include "capture/inside/space_file.h"
#include "capture/inside/system.h"
#include "capture/inside/thread.h"
#include "formats/error.h"

#define VC_PAGE 4096u
/* Records and freed entries leave this share of the budget to sites, stacks and the like. */
#define VC_SHARE_OF_SMALL_TABLES 8

static const uint8_t table_order[] = {
#define VC_ORDER(name, item, base, doublings) VC_REC_##name,
	VC_SPACE_TABLES(VC_ORDER)
#undef VC_ORDER
};

/* Chunks that the busiest tables begin with: 636 KiB in all. */
#define VC_FIRST_ROUNDS 3

/* Chunks a thread goes past that others are busy with, and how long it looks at each. */
#define VC_TRIES 24
#define VC_SPINS 300

/* Runs of records that a thread left out because another was busy making their chunk. */
#define VC_SKIPPED 16

/*
 * A thread of the program may be refused what the agent is given: the agent is asked, once, and
 * waited for, a bounded time. Only it asks the system again.
 */
enum full { FULL_NOT, FULL_AGENT_ASKED, FULL_REFUSED };
#define VC_AGENT_WAITS 40
#define VC_AGENT_WAIT 100000 /* nanoseconds */

struct vc_table_space {
	uint64_t full;                /* enum full: refused by system or budget */
	uint64_t skipped[VC_SKIPPED]; /* runs of single items left out: next above, end below; 0 */
	uint64_t skips;               /* entries of it in use, ever */
};

struct vc_space_map vc_space_map;

static struct vc_space {
	uint64_t budget;
	/* first mapping: what chunks may still be taken from; used by vc_space_create alone */
	uint64_t first_next, first_end;
	struct vc_table_space table[VC_REC_TABLES];
	void (*wake)(void);           /* the agent, which may grow what others may not */
} space;

/* ---- chunks there are ---- */

static uint64_t chunk_bytes(enum vc_recording_table table, const struct vc_place *place)
{
	return (place->count * vc_table_shape[table].item + VC_PAGE - 1) & ~(uint64_t)(VC_PAGE - 1);
}

static char *chunk_address(enum vc_recording_table table, uint64_t chunk)
{
	if (chunk >= VC_TABLE_CHUNKS)
		return NULL;
	return __atomic_load_n(&vc_space_map.chunk[table][chunk], __ATOMIC_ACQUIRE);
}

/* Chunks there are without a gap. */
static uint64_t chunks_ready(enum vc_recording_table table)
{
	uint64_t chunk = 0;
	const char *address;

	while ((address = chunk_address(table, chunk)) && address != VC_CHUNK_BUSY)
		chunk++;
	return chunk;
}

uint64_t vc_space_room(enum vc_recording_table table)
{
	struct vc_place place;

	place = vc_space_chunk(table, chunks_ready(table));
	return place.first;
}

uint64_t vc_space_bytes(enum vc_recording_table table)
{
	return vc_space_room(table) * vc_table_shape[table].item;
}

uint64_t vc_space_used(enum vc_recording_table table)
{
	return vc_word_value(vc_get(&vc_space_map.root->used[table]));
}

/* ---- storage ---- */

void *vc_space_private(size_t bytes)
{
	void *address;

	if (!vc_budget_addresses(bytes))
		return NULL;
	address = vc_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (vc_sys_failed(address))
		return NULL;
	vc_sys_madvise(address, bytes, MADV_DONTFORK);
	vc_sys_madvise(address, bytes, MADV_DONTDUMP);
	return address;
}

void vc_space_on_full(void (*wake)(void))
{
	space.wake = wake;
}

/*
 * Maps a range after it got its storage. The addresses are taken first, so that a limit on them
 * shows before the file grows.
 */
static char *file_map(uint64_t offset, uint64_t bytes)
{
	char *address;
	void *mapped;
	int descriptor;

	if (!vc_budget_addresses(bytes))
		return NULL;
	address = vc_sys_mmap(NULL, bytes, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (vc_sys_failed(address))
		return NULL;
	descriptor = vc_space_file_open();
	if (descriptor < 0)
		goto out_unmap;
	if (vc_space_file_store(descriptor, offset, bytes) < 0)
		goto out_close;
	mapped = vc_sys_mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			     descriptor, offset);
	if (vc_sys_failed(mapped))
		goto out_close;
	vc_sys_madvise(address, bytes, MADV_DONTFORK);
	vc_space_file_close(descriptor);
	return address;

out_close:
	vc_space_file_close(descriptor);
out_unmap:
	vc_sys_munmap(address, bytes);
	return NULL;
}

/* Takes the next `bytes` of the file; VC_SPACE_NONE: over the budget. */
static uint64_t range_take(enum vc_recording_table table, uint64_t bytes)
{
	uint64_t limit = space.budget, old = vc_get(&vc_space_map.root->file_bytes), offset;

	if (table == VC_REC_RECORDS || table == VC_REC_FREED)
		limit -= limit / VC_SHARE_OF_SMALL_TABLES;
	do {
		offset = vc_word_value(old);
		if (offset + bytes > limit)
			return VC_SPACE_NONE;
	} while (!vc_swap_if(&vc_space_map.root->file_bytes, &old, vc_word(offset + bytes)));
	return offset;
}

static void range_return(uint64_t offset, uint64_t bytes)
{
	uint64_t old = vc_word(offset + bytes);

	/* Where another range was taken since, this one stays a hole that nothing points to. */
	vc_swap_if(&vc_space_map.root->file_bytes, &old, vc_word(offset));
}

/* ---- chunks ---- */

static bool directory_add(enum vc_recording_table table, const struct vc_place *place,
			  uint64_t offset, uint64_t bytes, const char *address)
{
	struct vc_chunk chunk = {
		.table = table,
		.first = place->first,
		.count = place->count,
		.offset = offset,
		.bytes = bytes,
		.address = (uint64_t)(uintptr_t)address,
	};
	uint64_t old = vc_get(&vc_space_map.root->chunks), index;
	struct vc_chunk *to;

	do {
		index = vc_word_value(old);
		if (index >= VC_ROOT_CHUNKS)
			return false;
	} while (!vc_swap_if(&vc_space_map.root->chunks, &old, vc_word(index + 1)));
	to = &vc_space_map.root->chunk[index];
	vc_put_words((uint64_t *)to, (const uint64_t *)&chunk, 7);
	vc_put_release(&to->check, vc_check_words((const uint64_t *)&chunk, 7, index));
	return true;
}

/* Storage and mapping of a chunk: from the first mapping while there is some, else of its own. */
static char *chunk_storage(enum vc_recording_table table, uint64_t bytes, uint64_t *ret_offset)
{
	char *address;

	if (space.first_end - space.first_next >= bytes) {
		*ret_offset = space.first_next;
		space.first_next += bytes;
		return (char *)vc_space_map.root + *ret_offset;
	}
	*ret_offset = range_take(table, bytes);
	if (*ret_offset == VC_SPACE_NONE)
		return NULL;
	address = file_map(*ret_offset, bytes);
	if (!address)
		range_return(*ret_offset, bytes);
	return address;
}

static char *chunk_make(enum vc_recording_table table, const struct vc_place *place)
{
	uint64_t bytes = chunk_bytes(table, place), offset;
	uint32_t *link = NULL;
	char *address;

	if (vc_word_value(vc_get(&vc_space_map.root->chunks)) >= VC_ROOT_CHUNKS)
		return NULL;
	if (table == VC_REC_RECORDS) {
		link = vc_space_map.link[place->chunk];
		if (!link)
			link = vc_space_private(place->count * sizeof(*link));
		if (!link)
			return NULL;
		vc_space_map.link[place->chunk] = link;
	}
	address = chunk_storage(table, bytes, &offset);
	if (!address || !directory_add(table, place, offset, bytes, address))
		return NULL;
	return address;
}

enum chunk_result { CHUNK_READY, CHUNK_BUSY, CHUNK_NONE };

/* Counted once until growth succeeds. */
static enum chunk_result refused(struct vc_table_space *t)
{
	bool ask = space.wake && !vc_thread_local.keeps;
	uint64_t before = __atomic_exchange_n(&t->full, ask ? FULL_AGENT_ASKED : FULL_REFUSED,
					      __ATOMIC_RELAXED);

	if (ask)
		space.wake();
	else if (before != FULL_REFUSED)
		vc_store_count(VC_COUNTER_GROWTH_FAILED);
	return CHUNK_NONE;
}

/* Whether the agent makes the chunk that this thread could not. */
static bool agent_grows(enum vc_recording_table table, uint64_t chunk)
{
	static uint32_t never;
	const struct timespec wait = {0, VC_AGENT_WAIT};
	uint64_t *full = &space.table[table].full, asked = FULL_AGENT_ASKED;
	const char *address;

	for (int i = 0; i < VC_AGENT_WAITS && vc_get(full) == FULL_AGENT_ASKED; i++)
		vc_sys_futex_wait(&never, 0, &wait);
	address = chunk_address(table, chunk);
	if (address && address != VC_CHUNK_BUSY)
		return true;
	if (vc_swap_if(full, &asked, FULL_REFUSED))
		vc_store_count(VC_COUNTER_GROWTH_FAILED);
	return false;
}

static enum chunk_result chunk_grow(enum vc_recording_table table, uint64_t chunk, bool again)
{
	struct vc_table_space *t = &space.table[table];
	uint64_t all = UINT64_MAX, before = 0;
	enum chunk_result result = CHUNK_READY;
	struct vc_place place;
	char *address = NULL;

	if (chunk >= VC_TABLE_CHUNKS || (!again && vc_get(&t->full)))
		return CHUNK_NONE;
	/* A handler must not find its own thread busy here, nor cut the calls below short. */
	vc_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof(all), 0, 0);
	if (!__atomic_compare_exchange_n(&vc_space_map.chunk[table][chunk], &address,
					 VC_CHUNK_BUSY, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_ACQUIRE)) {
		result = address == VC_CHUNK_BUSY ? CHUNK_BUSY : CHUNK_READY;
		goto out;
	}
	place = vc_space_chunk(table, chunk);
	address = chunk_make(table, &place);
	__atomic_store_n(&vc_space_map.chunk[table][chunk], address, __ATOMIC_RELEASE);
	if (address)
		vc_put(&t->full, FULL_NOT);
	else
		result = refused(t);
out:
	vc_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before), 0, 0);
	return result;
}

bool vc_space_grow(enum vc_recording_table table, bool again)
{
	return chunk_grow(table, chunks_ready(table), again) == CHUNK_READY;
}

bool vc_space_grow_ahead(enum vc_recording_table table)
{
	uint64_t ready = chunks_ready(table), used = vc_space_used(table);
	struct vc_place last;

	last = vc_space_chunk(table, ready ? ready - 1 : 0);
	/* The last chunk is half of all, or as much as is ever added at once. */
	if (ready && used + last.count <= last.first + last.count)
		return false;
	return vc_space_grow(table, true);
}

/* Remembers numbers that were left out, for tables whose items need no order. */
static void skipped_keep(enum vc_recording_table table, uint64_t first, uint64_t end)
{
	struct vc_table_space *t = &space.table[table];
	uint64_t index;

	if (table != VC_REC_RECORDS || end > UINT32_MAX)
		return;
	index = vc_add(&t->skips, 1);
	if (index < VC_SKIPPED)
		vc_put_release(&t->skipped[index], first << 32 | end);
}

/* One number that was left out and whose chunk is there by now. */
static uint64_t skipped_take(enum vc_recording_table table)
{
	struct vc_table_space *t = &space.table[table];
	uint64_t skips = vc_get(&t->skips);

	for (uint64_t i = 0; i < skips && i < VC_SKIPPED; i++) {
		uint64_t run = vc_get_acquire(&t->skipped[i]);

		while (run >> 32 < (uint32_t)run && vc_space_at(table, run >> 32))
			if (vc_swap_if(&t->skipped[i], &run, run + (UINT64_C(1) << 32)))
				return run >> 32;
	}
	return VC_SPACE_NONE;
}

/*
 * Whether a chunk that another thread is busy with is there within some microseconds: mostly it is,
 * and nothing is left out then. No more than that: the other thread may not be running.
 */
static bool moment_passes(enum vc_recording_table table, uint64_t chunk)
{
	const char *address = chunk_address(table, chunk);

	for (int i = 0; address == VC_CHUNK_BUSY && i < VC_SPINS; i++) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
		address = chunk_address(table, chunk);
	}
	return address && address != VC_CHUNK_BUSY;
}

/* The chunk that `number` lies in is not there: makes it, or one behind it. */
static bool append_grow(enum vc_recording_table table, uint64_t old_word, uint64_t chunk)
{
	for (uint64_t next = chunk; next < chunk + VC_TRIES; next++) {
		struct vc_place place;

		if (!moment_passes(table, next)) {
			enum chunk_result result = chunk_grow(table, next, false);

			if (result == CHUNK_NONE && !agent_grows(table, next))
				return false;
			if (result == CHUNK_BUSY)
				continue;
		}
		place = vc_space_chunk(table, next);
		if (next > chunk &&
		    vc_swap_if(&vc_space_map.root->used[table], &old_word, vc_word(place.first)))
			skipped_keep(table, vc_word_value(old_word), place.first);
		return true;
	}
	return false;
}

uint64_t vc_space_append(enum vc_recording_table table, uint64_t items)
{
	uint64_t *used = &vc_space_map.root->used[table], old = vc_get(used);

	if (items > UINT64_C(1) << vc_table_shape[table].base)
		return VC_SPACE_NONE;
	if (vc_get(&space.table[table].skips)) {
		uint64_t number = skipped_take(table);

		if (number != VC_SPACE_NONE)
			return number;
	}
	for (;;) {
		uint64_t number = vc_word_value(old);
		struct vc_place place;
		char *address;

		place = vc_space_place(table, number);
		if (number + items > place.first + place.count) {
			vc_swap_if(used, &old, vc_word(place.first + place.count));
			old = vc_get(used);
			continue;
		}
		address = chunk_address(table, place.chunk);
		if (!address || address == VC_CHUNK_BUSY) {
			if (!append_grow(table, old, place.chunk))
				return VC_SPACE_NONE;
			old = vc_get(used);
			continue;
		}
		if (vc_swap_if(used, &old, vc_word(number + items)))
			return number;
	}
}

/* ---- the beginning ---- */

/* Whether a recording begins with chunk number `round` of a table. */
static bool is_first(enum vc_recording_table table, unsigned round)
{
	/* A program without Python has none of these. */
	if (table == VC_REC_CODES || table == VC_REC_EVALS || table == VC_REC_PATHS)
		return false;
	if (round == 0)
		return true;
	/* What the first steps of a program fill, so that they need not grow it. */
	return table == VC_REC_RECORDS || table == VC_REC_FREED || table == VC_REC_STACKS ||
	       table == VC_REC_STRINGS;
}

static uint64_t first_bytes(unsigned rounds)
{
	uint64_t bytes = VC_ROOT_BYTES;

	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < sizeof(table_order); i++) {
			struct vc_place place = vc_space_chunk(table_order[i], round);

			if (is_first(table_order[i], round))
				bytes += chunk_bytes(table_order[i], &place);
		}
	return bytes;
}

/*
 * The root and the first chunks: one range, one mapping. Less of them, down to the root alone,
 * where the budget or the system does not give that much.
 */
static int root_map(int descriptor)
{
	uint64_t all = UINT64_MAX, before = 0, bytes = 0;
	unsigned rounds = VC_FIRST_ROUNDS;
	void *address;
	int result = -EFBIG;

	while (rounds > 1 && first_bytes(rounds) > space.budget / 8)
		rounds--;
	vc_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof(all), 0, 0);
	for (;; rounds--) {
		bytes = first_bytes(rounds);
		if (bytes <= space.budget && vc_budget_addresses(bytes))
			result = vc_space_file_store(descriptor, 0, bytes);
		if (result >= 0 || rounds == 0)
			break;
	}
	vc_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, sizeof(before), 0, 0);
	if (result < 0)
		return vc_space_file_error(result);
	address = vc_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	if (vc_sys_failed(address))
		return VC_E_NO_MEMORY;
	vc_sys_madvise(address, bytes, MADV_DONTFORK);
	vc_space_map.root = address;
	space.first_next = VC_ROOT_BYTES;
	space.first_end = bytes;
	return 0;
}

static void first_chunks(void)
{
	unsigned rounds = 1;

	while (rounds < VC_FIRST_ROUNDS && first_bytes(rounds + 1) <= space.first_end)
		rounds++;
	for (unsigned round = 0; round < rounds; round++)
		for (size_t i = 0; i < sizeof(table_order); i++)
			if (is_first(table_order[i], round))
				chunk_grow(table_order[i], round, true);
	space.first_next = space.first_end;
}

int vc_space_create(const struct vc_store_options *options, int *ret_descriptor)
{
	int descriptor = -1, error = vc_space_file_make(options, &descriptor);

	if (error < 0)
		return error;
	space.budget = vc_budget(descriptor, options->budget);
	error = root_map(descriptor);
	if (error < 0) {
		vc_sys_close(descriptor);
		vc_space_unlink();
		vc_space_forget();
		return error;
	}
	vc_put(&vc_space_map.root->file_bytes, vc_word(space.first_end));
	/* Units 0 of stacks and strings stand for none. */
	vc_put(&vc_space_map.root->used[VC_REC_STACKS], vc_word(1));
	vc_put(&vc_space_map.root->used[VC_REC_STRINGS], vc_word(1));
	first_chunks();
	*ret_descriptor = descriptor;
	return 0;
}

uint64_t vc_space_budget(void)
{
	return space.budget;
}

void vc_space_forget(void)
{
	vc_space_file_forget();
	memset(&vc_space_map, 0, sizeof(vc_space_map));
	memset(&space, 0, sizeof(space));
}
