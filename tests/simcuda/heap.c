/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of device addresses: large ones of whole granules, small ones in slabs.
 *
 * A slab is one granule cut into 512-byte slots. It costs the device 2 MiB while anything lives
 * in it. Slabs belong to a heap with a lock of its own: a device has several, chosen by thread, a
 * pool one.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

#define WORDS (SIM_SLAB_SLOTS / 64)
#define HEAD 65536u

bool sim_clears;

struct sim_slab {
	uint64_t base;
	struct sim_heap *heap;
	struct sim_space *space;
	uint32_t free; /* slots */
	uint32_t longest; /* no free run is longer than this */
	uint32_t lowest; /* no free slot is lower than this */
	bool listed;
	_Atomic bool dirty;
	struct sim_slab *next, *previous; /* among the slabs of the heap with free slots */
	uint64_t used[WORDS];
	uint64_t first[WORDS]; /* slots where a range begins */
	struct sim_range *at[SIM_SLAB_SLOTS];
};

struct sim_heap {
	pthread_mutex_t lock;
	struct sim_slab *partial;
	struct sim_slab *spare; /* an empty slab kept with its address but not paid for */
	int device;
	bool charged;
	char padding[64];
};

/* Free descriptions, per thread shard; the memory is only ever used for descriptions. */
static struct {
	pthread_mutex_t lock;
	struct sim_range *list;
	char padding[64];
} shards[SIM_SHARDS] = { [0 ... SIM_SHARDS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

static pthread_mutex_t slab_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_slab *free_slabs;

bool sim_charge(int device, uint64_t bytes)
{
	struct sim_device *d = &sim_devices[device];
	uint64_t used = atomic_load_explicit(&d->used, memory_order_relaxed);

	do {
		if (bytes > d->total - used)
			return false;
	} while (!atomic_compare_exchange_weak(&d->used, &used, used + bytes));
	return true;
}

void sim_uncharge(int device, uint64_t bytes)
{
	atomic_fetch_sub(&sim_devices[device].used, bytes);
}

static struct sim_range *new_range(void)
{
	unsigned int shard = sim_thread_shard();
	struct sim_range *range;

	pthread_mutex_lock(&shards[shard].lock);
	if (!shards[shard].list) {
		const size_t count = 65536 / sizeof(*range);

		range = sim_pages(count * sizeof(*range));
		for (size_t i = 0; range && i < count; i++) {
			range[i].next = shards[shard].list;
			shards[shard].list = &range[i];
		}
	}
	range = shards[shard].list;
	if (range)
		shards[shard].list = range->next;
	pthread_mutex_unlock(&shards[shard].lock);
	return range;
}

static void drop_range(struct sim_range *range)
{
	unsigned int shard = sim_thread_shard();

	pthread_mutex_lock(&shards[shard].lock);
	range->next = shards[shard].list;
	shards[shard].list = range;
	pthread_mutex_unlock(&shards[shard].lock);
}

struct sim_heap *sim_heap_create(int device, bool charged, unsigned int count)
{
	struct sim_heap *heaps = sim_pages(count * sizeof(*heaps));

	for (unsigned int i = 0; heaps && i < count; i++) {
		pthread_mutex_init(&heaps[i].lock, NULL);
		heaps[i].device = device;
		heaps[i].charged = charged;
	}
	return heaps;
}

struct sim_heap *sim_heap_at(struct sim_heap *heaps, unsigned int number)
{
	return &heaps[number];
}

/* --- slabs; the heap's lock is held --- */

static void list_slab(struct sim_heap *heap, struct sim_slab *slab)
{
	slab->listed = true;
	slab->previous = NULL;
	slab->next = heap->partial;
	if (heap->partial)
		heap->partial->previous = slab;
	heap->partial = slab;
}

static void unlist_slab(struct sim_heap *heap, struct sim_slab *slab)
{
	slab->listed = false;
	if (slab->previous)
		slab->previous->next = slab->next;
	else
		heap->partial = slab->next;
	if (slab->next)
		slab->next->previous = slab->previous;
}

static struct sim_slab *new_slab(void)
{
	struct sim_slab *slab;

	pthread_mutex_lock(&slab_lock);
	slab = free_slabs;
	if (slab)
		free_slabs = slab->next;
	pthread_mutex_unlock(&slab_lock);
	if (!slab)
		slab = sim_pages(sizeof(*slab));
	return slab;
}

static void drop_slab(struct sim_slab *slab)
{
	pthread_mutex_lock(&slab_lock);
	slab->next = free_slabs;
	free_slabs = slab;
	pthread_mutex_unlock(&slab_lock);
}

static struct sim_slab *add_slab(struct sim_heap *heap, struct sim_space *space)
{
	struct sim_slab *slab = heap->spare;
	struct sim_granule *granule;

	if (heap->charged && !sim_charge(heap->device, SIM_GRANULE))
		return NULL;
	if (slab && slab->space == space) {
		heap->spare = NULL;
		list_slab(heap, slab);
		return slab;
	}
	slab = new_slab();
	if (slab)
		slab->base = sim_space_take(space, 1, 0);
	if (!slab || !slab->base) {
		if (slab)
			drop_slab(slab);
		if (heap->charged)
			sim_uncharge(heap->device, SIM_GRANULE);
		return NULL;
	}
	slab->heap = heap;
	slab->space = space;
	slab->free = SIM_SLAB_SLOTS;
	slab->longest = SIM_SLAB_SLOTS;
	slab->lowest = 0;
	list_slab(heap, slab);
	granule = sim_granule_of(space, slab->base);
	atomic_store_explicit(&granule->slab, slab, memory_order_release);
	atomic_store_explicit(&granule->range, NULL, memory_order_release);
	return slab;
}

static void remove_slab(struct sim_heap *heap, struct sim_slab *slab)
{
	if (slab->listed)
		unlist_slab(heap, slab);
	if (heap->charged)
		sim_uncharge(heap->device, SIM_GRANULE);
	if (atomic_exchange(&slab->dirty, false))
		sim_space_punch(slab->base, SIM_GRANULE);
	slab->longest = SIM_SLAB_SLOTS;
	slab->lowest = 0;
	if (!heap->spare) {
		heap->spare = slab;
		return;
	}
	sim_space_give(slab->space, slab->base, 1);
	drop_slab(slab);
}

/* First slot at or after from whose bit is value; SIM_SLAB_SLOTS if there is none. */
static uint32_t next_slot(const uint64_t *used, uint32_t from, bool value)
{
	while (from < SIM_SLAB_SLOTS) {
		uint64_t word = (value ? used[from / 64] : ~used[from / 64]) >> from % 64;

		if (word)
			return from + (uint32_t)__builtin_ctzll(word);
		from = (from / 64 + 1) * 64;
	}
	return SIM_SLAB_SLOTS;
}

static void set_slots(uint64_t *used, uint32_t from, uint32_t count, bool value)
{
	while (count) {
		uint32_t here = 64 - from % 64 < count ? 64 - from % 64 : count;
		uint64_t mask = (here == 64 ? ~0ull : (1ull << here) - 1) << from % 64;

		if (value)
			used[from / 64] |= mask;
		else
			used[from / 64] &= ~mask;
		from += here;
		count -= here;
	}
}

static bool take_slots(struct sim_slab *slab, uint32_t count, uint32_t *ret)
{
	uint32_t start = next_slot(slab->used, slab->lowest, false);
	uint32_t longest = 0;

	slab->lowest = start;
	while (start < SIM_SLAB_SLOTS) {
		uint32_t end = next_slot(slab->used, start, true);

		if (end - start >= count) {
			set_slots(slab->used, start, count, true);
			if (start == slab->lowest)
				slab->lowest = start + count;
			slab->free -= count;
			*ret = start;
			return true;
		}
		if (end - start > longest)
			longest = end - start;
		start = next_slot(slab->used, end, false);
	}
	slab->longest = longest;
	return false;
}

/* Finds room in the heap; grow says whether a new slab may be made. */
static struct sim_slab *take_small(struct sim_heap *heap, struct sim_space *space, uint32_t count,
				   bool grow, uint32_t *ret)
{
	struct sim_slab *slab;

	for (slab = heap->partial; slab; slab = slab->next)
		if (slab->space == space && slab->longest >= count && slab->free >= count &&
		    take_slots(slab, count, ret))
			break;
	if (!slab && grow) {
		slab = add_slab(heap, space);
		if (slab && !take_slots(slab, count, ret))
			slab = NULL;
	}
	if (slab && !slab->free)
		unlist_slab(heap, slab);
	return slab;
}

/* What an earlier owner wrote there is no result of anything that this one runs. */
static void clear_head(const struct sim_slab *slab, const struct sim_range *range)
{
	if (sim_clears && atomic_load_explicit(&slab->dirty, memory_order_relaxed))
		memset(sim_store(slab->space, range->base), 0,
		       range->span < HEAD ? range->span : HEAD);
}

static CUresult create_in(struct sim_heap *heap, const struct sim_request *request,
			  struct sim_range *range, bool grow)
{
	uint32_t count = (uint32_t)((request->size + SIM_SLOT - 1) / SIM_SLOT);
	struct sim_slab *slab;
	uint32_t slot;

	pthread_mutex_lock(&heap->lock);
	slab = take_small(heap, request->space, count, grow, &slot);
	if (slab) {
		range->base = slab->base + slot * SIM_SLOT;
		range->span = count * SIM_SLOT;
		slab->first[slot / 64] |= 1ull << slot % 64;
		slab->at[slot] = range;
		clear_head(slab, range);
		range->row = sim_judge_add(range->kind, range->base, range->requested,
					   range->device, range->context);
	}
	pthread_mutex_unlock(&heap->lock);
	return slab ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create_small(const struct sim_request *request, struct sim_range *range)
{
	CUresult result = create_in(request->heap, request, range, true);

	/* Another thread's slabs may have room when the device has none for a new one. */
	for (unsigned int i = 0; i < SIM_SHARDS && result != CUDA_SUCCESS && !request->pool; i++)
		result = create_in(&sim_devices[request->device].heaps[i], request, range, false);
	return result;
}

/* --- large ranges --- */

/* Managed memory is the host's too: its addresses show the same bytes as the store. */
static bool show_to_host(struct sim_space *space, struct sim_range *range)
{
	return mremap(sim_store(space, range->base), 0, range->span,
		      MREMAP_MAYMOVE | MREMAP_FIXED, (void *)range->base) != MAP_FAILED;
}

static void hide_from_host(struct sim_range *range)
{
	mmap((void *)range->base, range->span, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static void publish(struct sim_space *space, const struct sim_range *like, struct sim_range *range)
{
	struct sim_granule *granule = sim_granule_of(space, like->base);

	for (uint64_t i = 0; i < like->span / SIM_GRANULE; i++)
		atomic_store_explicit(&granule[i].range, range, memory_order_release);
}

static CUresult create_large(const struct sim_request *request, struct sim_range *range)
{
	range->span = (request->size + SIM_GRANULE - 1) / SIM_GRANULE * SIM_GRANULE;
	if (range->span < request->size)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (request->charged && !sim_charge(request->device, range->span))
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->base = sim_space_take(request->space, range->span / SIM_GRANULE, request->alignment);
	if (!range->base) {
		if (request->charged)
			sim_uncharge(request->device, range->span);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->charged = request->charged;
	range->managed = request->kind == SIM_ROW_MANAGED;
	if (range->managed && !show_to_host(request->space, range)) {
		sim_space_give(request->space, range->base, range->span / SIM_GRANULE);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (range->kind != SIM_ROW_NONE)
		range->row = sim_judge_add(range->kind, range->base, range->requested,
					   range->device, range->context);
	publish(request->space, range, range);
	return CUDA_SUCCESS;
}

CUresult sim_range_create(const struct sim_request *request, struct sim_range **ret)
{
	struct sim_range *range = new_range();
	bool small = request->size < SIM_LARGE && !request->whole;
	CUresult result;

	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->requested = request->size;
	range->kind = request->kind;
	range->device = request->device;
	range->context = request->context;
	range->pool = request->pool;
	range->row = SIM_NO_ROW;
	range->managed = false;
	range->charged = false;
	range->id = sim_next_id();
	atomic_store_explicit(&range->dirty, false, memory_order_relaxed);
	result = small ? create_small(request, range) : create_large(request, range);
	if (result != CUDA_SUCCESS)
		drop_range(range);
	else
		*ret = range;
	return result;
}

static CUresult destroy_small(struct sim_slab *slab, uint64_t address, uint32_t accepted,
			      struct sim_range *gone)
{
	struct sim_heap *heap = slab->heap;
	struct sim_range *range = NULL;
	uint32_t slot, count;

	pthread_mutex_lock(&heap->lock);
	/* Until the lock was held the slab may have been given up and taken by another heap. */
	if (slab->heap == heap && address - slab->base < SIM_GRANULE) {
		slot = (uint32_t)((address - slab->base) / SIM_SLOT);
		range = slab->at[slot];
	}
	if (!range || range->base != address || !(accepted & 1u << range->kind)) {
		pthread_mutex_unlock(&heap->lock);
		return CUDA_ERROR_INVALID_VALUE;
	}
	*gone = *range;
	sim_judge_remove(range->row);
	count = (uint32_t)(range->span / SIM_SLOT);
	slab->at[slot] = NULL;
	slab->first[slot / 64] &= ~(1ull << slot % 64);
	set_slots(slab->used, slot, count, false);
	slab->free += count;
	slab->longest = SIM_SLAB_SLOTS;
	if (slot < slab->lowest)
		slab->lowest = slot;
	if (!slab->listed)
		list_slab(heap, slab);
	if (slab->free == SIM_SLAB_SLOTS)
		remove_slab(heap, slab);
	pthread_mutex_unlock(&heap->lock);
	drop_range(range);
	return CUDA_SUCCESS;
}

/* One of many locks for large ranges, so that threads with different ones seldom meet. */
static pthread_mutex_t *range_lock(const struct sim_range *range)
{
	static pthread_mutex_t locks[64] = { [0 ... 63] = PTHREAD_MUTEX_INITIALIZER };

	return &locks[(uintptr_t)range / sizeof(*range) % 64];
}

static CUresult destroy_large(struct sim_space *space, uint64_t address, uint32_t accepted,
			      struct sim_range *gone)
{
	struct sim_granule *granule = sim_granule_of(space, address);
	struct sim_range *range;
	bool found;

	range = atomic_load_explicit(&granule->range, memory_order_acquire);
	if (!range)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(range_lock(range));
	found = atomic_load_explicit(&granule->range, memory_order_acquire) == range &&
		range->base == address && (accepted & 1u << range->kind);
	if (found) {
		*gone = *range;
		range->base = 0; /* from here on nobody else finds it */
	}
	pthread_mutex_unlock(range_lock(range));
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	sim_judge_remove(gone->row);
	if (gone->managed)
		hide_from_host(gone);
	if (gone->managed || atomic_load_explicit(&range->dirty, memory_order_relaxed))
		sim_space_punch(gone->base, gone->span);
	if (gone->charged)
		sim_uncharge(gone->device, gone->span);
	sim_space_give(space, gone->base, gone->span / SIM_GRANULE);
	drop_range(range);
	return CUDA_SUCCESS;
}

CUresult sim_range_destroy(uint64_t address, uint32_t accepted, struct sim_range *gone)
{
	struct sim_space *space = sim_space_of(address);
	struct sim_slab *slab;

	if (!space)
		return CUDA_ERROR_INVALID_VALUE;
	slab = atomic_load_explicit(&sim_granule_of(space, address)->slab, memory_order_acquire);
	if (slab)
		return destroy_small(slab, address, accepted, gone);
	return destroy_large(space, address, accepted, gone);
}

/* --- look-up --- */

static struct sim_range *find_small(struct sim_heap *heap, struct sim_slab *slab, uint64_t address)
{
	uint32_t slot, word;
	uint64_t bits;
	struct sim_range *range;

	if (slab->heap != heap || address - slab->base >= SIM_GRANULE)
		return NULL;
	slot = (uint32_t)((address - slab->base) / SIM_SLOT);
	word = slot / 64;
	bits = slab->first[word] & (~0ull >> (63 - slot % 64));
	while (!bits && word)
		bits = slab->first[--word];
	if (!bits)
		return NULL;
	range = slab->at[word * 64 + 63 - (uint32_t)__builtin_clzll(bits)];
	return address - range->base < range->span ? range : NULL;
}

static bool covers(const struct sim_range *range, uint64_t address)
{
	return range && range->base && address - range->base < range->span &&
	       range->kind != SIM_ROW_NONE;
}

bool sim_range_find(uint64_t address, struct sim_range *ret)
{
	struct sim_space *space = sim_space_of(address);
	struct sim_granule *granule = space ? sim_granule_of(space, address) : NULL;
	struct sim_slab *slab;
	struct sim_heap *heap;
	struct sim_range *range;
	pthread_mutex_t *lock;
	bool found;

	if (!granule)
		return false;
	slab = atomic_load_explicit(&granule->slab, memory_order_acquire);
	range = atomic_load_explicit(&granule->range, memory_order_acquire);
	if (!slab && !range)
		return false;
	heap = slab ? slab->heap : NULL;
	lock = heap ? &heap->lock : range_lock(range);
	pthread_mutex_lock(lock);
	if (heap)
		range = find_small(heap, slab, address);
	found = covers(range, address) &&
		(heap || atomic_load_explicit(&granule->range, memory_order_acquire) == range);
	if (found)
		*ret = *range;
	pthread_mutex_unlock(lock);
	return found;
}

void sim_range_touch(uint64_t address)
{
	struct sim_space *space = sim_space_of(address);
	struct sim_granule *granule = space ? sim_granule_of(space, address) : NULL;
	struct sim_range *range = granule ? atomic_load(&granule->range) : NULL;
	struct sim_slab *slab = granule ? atomic_load(&granule->slab) : NULL;

	if (slab)
		atomic_store_explicit(&slab->dirty, true, memory_order_relaxed);
	else if (range)
		atomic_store_explicit(&range->dirty, true, memory_order_relaxed);
}

/* --- the end of a context --- */

static void destroy_owned(uint64_t address, uint64_t context)
{
	struct sim_range range;

	if (!address || !sim_range_find(address, &range) || range.context != context)
		return;
	if (SIM_FREEABLE & 1u << range.kind)
		sim_free_device(range.base);
	else if (range.kind == SIM_ROW_IPC)
		sim_range_destroy(range.base, 1u << SIM_ROW_IPC, &range);
}

static void destroy_granule(struct sim_granule *granule, uint64_t address, uint64_t context)
{
	struct sim_slab *slab = atomic_load(&granule->slab);

	if (!slab) {
		destroy_owned(address, context);
		return;
	}
	for (uint64_t slot = 0; slot < SIM_SLAB_SLOTS; slot++)
		if (slab->first[slot / 64] & 1ull << slot % 64)
			destroy_owned(address + slot * SIM_SLOT, context);
}

void sim_range_destroy_all(uint64_t context)
{
	struct sim_space *spaces[] = { &sim_main_space, &sim_low_space };

	for (unsigned int s = 0; s < 2; s++)
		for (uint64_t i = 0; i < spaces[s]->next; i++)
			if (atomic_load(&spaces[s]->granules[i].slab) ||
			    atomic_load(&spaces[s]->granules[i].range))
				destroy_granule(&spaces[s]->granules[i],
						spaces[s]->base + i * SIM_GRANULE, context);
}
