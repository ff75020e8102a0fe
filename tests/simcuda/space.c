/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address space: granules taken and given back.
 *
 * Released runs of granules wait in bins by their length and are taken again at exactly that
 * length, last one first, so that a program sees its old addresses soon. Longer runs are split
 * only when never-used space is short. When nothing fits, neighbours are merged once and it is
 * tried again.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "sim.h"

#define LOW_HINT 0x20000000ull
#define LOW_SIZE (512 * SIM_MIB)

struct sim_space sim_main_space = { .lock = PTHREAD_MUTEX_INITIALIZER };
struct sim_space sim_low_space = { .lock = PTHREAD_MUTEX_INITIALIZER };

static pthread_mutex_t extent_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_extent *free_extents;

static struct sim_extent *new_extent(void)
{
	struct sim_extent *extent;

	pthread_mutex_lock(&extent_lock);
	if (!free_extents) {
		const size_t count = 16384 / sizeof(*extent);

		extent = sim_pages(count * sizeof(*extent));
		for (size_t i = 0; extent && i < count; i++) {
			extent[i].next = free_extents;
			free_extents = &extent[i];
		}
	}
	extent = free_extents;
	if (extent)
		free_extents = extent->next;
	pthread_mutex_unlock(&extent_lock);
	return extent;
}

static void drop_extent(struct sim_extent *extent)
{
	pthread_mutex_lock(&extent_lock);
	extent->next = free_extents;
	free_extents = extent;
	pthread_mutex_unlock(&extent_lock);
}

static char *open_store(uint64_t size)
{
	int fd = memfd_create("simcuda", MFD_CLOEXEC);
	void *store;

	if (fd < 0)
		return MAP_FAILED;
	if (ftruncate(fd, (off_t)size)) {
		close(fd);
		return MAP_FAILED;
	}
	store = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	close(fd);
	/* A real device's memory is in no core file either. */
	if (store != MAP_FAILED)
		madvise(store, size, MADV_DONTDUMP);
	return store;
}

/* Reserves size bytes of addresses that start at a granule; 0 if there is no room. */
static uint64_t reserve(uint64_t hint, uint64_t size)
{
	uint64_t slack = hint ? 0 : SIM_GRANULE;
	int fixed = hint ? MAP_FIXED_NOREPLACE : 0;
	char *start = mmap((void *)hint, size + slack, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
	uint64_t address = (uint64_t)start;
	uint64_t base = (address + SIM_GRANULE - 1) / SIM_GRANULE * SIM_GRANULE;

	if (start == MAP_FAILED)
		return 0;
	if (hint && address != hint) {
		munmap(start, size);
		return 0;
	}
	if (base > address)
		munmap(start, base - address);
	if (address + size + slack > base + size)
		munmap((void *)(base + size), address + slack - base);
	madvise((void *)base, size, MADV_DONTDUMP);
	return base;
}

CUresult sim_space_open(struct sim_space *space, uint64_t hint, uint64_t size)
{
	uint64_t base = reserve(hint, size);
	uint64_t table = size / SIM_GRANULE * sizeof(struct sim_granule);
	char *store;

	if (!base)
		return CUDA_ERROR_OUT_OF_MEMORY;
	store = open_store(size);
	if (store == MAP_FAILED) {
		munmap((void *)base, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	space->granules = sim_pages(table);
	if (!space->granules) {
		munmap((void *)base, size);
		munmap(store, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	space->store = store;
	space->size = size;
	space->base = base;
	return CUDA_SUCCESS;
}

void sim_space_close(struct sim_space *space)
{
	munmap((void *)space->base, space->size);
	munmap(space->store, space->size);
	munmap(space->granules, space->size / SIM_GRANULE * sizeof(struct sim_granule));
	space->base = 0;
	space->size = 0;
	space->next = 0;
}

struct sim_space *sim_space_low(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool open;

	pthread_mutex_lock(&lock);
	open = sim_low_space.base ||
	       sim_space_open(&sim_low_space, LOW_HINT, LOW_SIZE) == CUDA_SUCCESS;
	pthread_mutex_unlock(&lock);
	return open ? &sim_low_space : NULL;
}

struct sim_space *sim_space_of(uint64_t address)
{
	if (address - sim_main_space.base < sim_main_space.size)
		return &sim_main_space;
	if (address - sim_low_space.base < sim_low_space.size)
		return &sim_low_space;
	return NULL;
}

static void bin_extent(struct sim_space *space, uint64_t first, uint64_t count)
{
	struct sim_extent *extent = new_extent();
	struct sim_extent **bin = &space->bins[count < SIM_BINS ? count : SIM_BINS];

	if (!extent)
		return; /* the addresses are lost, nothing else */
	extent->first = first;
	extent->count = count;
	extent->next = *bin;
	*bin = extent;
}

/* The first granule from there on whose address is a multiple of that many granules. */
static uint64_t align_start(const struct sim_space *space, uint64_t first, uint64_t align)
{
	uint64_t origin = space->base / SIM_GRANULE;

	return (first + origin + align - 1) / align * align - origin;
}

/* A binned run of at least count granules that can hold an aligned start; exact ones only if so. */
static bool take_binned(struct sim_space *space, uint64_t count, uint64_t align, bool exact,
			uint64_t *ret)
{
	uint64_t bin = count < SIM_BINS ? count : SIM_BINS;
	uint64_t last = exact ? bin : SIM_BINS;

	for (; bin <= last; bin++) {
		struct sim_extent **link = &space->bins[bin];

		for (; *link; link = &(*link)->next) {
			struct sim_extent *extent = *link;
			struct sim_extent found = *extent;
			uint64_t start = align_start(space, found.first, align);
			uint64_t lead = start - found.first;

			if (lead + count > found.count || (exact && found.count != count))
				continue;
			*link = found.next;
			drop_extent(extent);
			if (lead)
				bin_extent(space, found.first, lead);
			if (found.count > lead + count)
				bin_extent(space, start + count, found.count - lead - count);
			*ret = start;
			return true;
		}
	}
	return false;
}

static bool take_unused(struct sim_space *space, uint64_t count, uint64_t align, uint64_t *ret)
{
	uint64_t limit = space->size / SIM_GRANULE;
	uint64_t start = align_start(space, space->next, align);

	if (start > limit || count > limit - start)
		return false;
	if (start > space->next)
		bin_extent(space, space->next, start - space->next);
	space->next = start + count;
	*ret = start;
	return true;
}

static bool granule_empty(struct sim_granule *granule)
{
	return !atomic_load(&granule->range) && !atomic_load(&granule->slab);
}

/* Rebuilds the bins from the table, so that neighbours become one run. */
static void merge(struct sim_space *space)
{
	uint64_t first = 0;

	for (unsigned int i = 0; i <= SIM_BINS; i++) {
		while (space->bins[i]) {
			struct sim_extent *extent = space->bins[i];

			space->bins[i] = extent->next;
			drop_extent(extent);
		}
	}
	for (uint64_t i = 0; i < space->next; i++) {
		if (granule_empty(&space->granules[i]))
			continue;
		if (i > first)
			bin_extent(space, first, i - first);
		first = i + 1;
	}
	space->next = first; /* a free end goes back to the part never used */
	space->torn = 0;
}

/*
 * A granule counts as free by the table, so what is taken but not yet published there must not look
 * free to a merge: this stands for it. It covers no address, so no look-up ever finds it.
 */
static struct sim_range pending;

static void mark(struct sim_space *space, uint64_t first, uint64_t count, struct sim_range *range)
{
	for (uint64_t i = 0; i < count; i++)
		atomic_store_explicit(&space->granules[first + i].range, range,
				      memory_order_release);
}

/*
 * Short runs given back by a thread wait for the same size to be asked for again, without the lock
 * of the whole space. They stay taken by the table until everything else has been tried.
 */
#define CACHED_LENGTH 64u
#define CACHED_RUNS 8u

struct cache {
	pthread_mutex_t lock;
	uint32_t count[CACHED_LENGTH + 1];
	uint64_t first[CACHED_LENGTH + 1][CACHED_RUNS];
};

static struct cache caches[SIM_SHARDS] = {
	[0 ... SIM_SHARDS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER },
};

static bool take_cached(uint64_t count, uint64_t *ret)
{
	struct cache *cache = &caches[sim_thread_shard()];
	bool found;

	pthread_mutex_lock(&cache->lock);
	found = cache->count[count] > 0;
	if (found)
		*ret = cache->first[count][--cache->count[count]];
	pthread_mutex_unlock(&cache->lock);
	return found;
}

static bool give_cached(uint64_t first, uint64_t count)
{
	struct cache *cache = &caches[sim_thread_shard()];
	bool room;

	pthread_mutex_lock(&cache->lock);
	room = cache->count[count] < CACHED_RUNS;
	if (room)
		cache->first[count][cache->count[count]++] = first;
	pthread_mutex_unlock(&cache->lock);
	return room;
}

/* Makes what the caches hold free by the table; the space's lock is held. */
static void empty_caches(struct sim_space *space)
{
	for (unsigned int i = 0; i < SIM_SHARDS; i++) {
		pthread_mutex_lock(&caches[i].lock);
		for (uint64_t count = 1; count <= CACHED_LENGTH; count++) {
			while (caches[i].count[count]) {
				uint32_t last = --caches[i].count[count];

				mark(space, caches[i].first[count][last], count, NULL);
				space->torn += count;
			}
		}
		pthread_mutex_unlock(&caches[i].lock);
	}
}

static bool cacheable(const struct sim_space *space, uint64_t count, uint64_t align)
{
	return space == &sim_main_space && count <= CACHED_LENGTH && align == 1;
}

uint64_t sim_space_take(struct sim_space *space, uint64_t count, uint64_t alignment)
{
	uint64_t align = alignment > SIM_GRANULE ? alignment / SIM_GRANULE : 1;
	uint64_t first = 0;
	bool found;

	if (cacheable(space, count, align) && take_cached(count, &first))
		return space->base + first * SIM_GRANULE;
	pthread_mutex_lock(&space->lock);
	found = take_binned(space, count, align, true, &first) ||
		take_unused(space, count, align, &first) ||
		take_binned(space, count, align, false, &first);
	if (!found && space == &sim_main_space)
		empty_caches(space);
	if (!found && space->torn) {
		merge(space);
		found = take_binned(space, count, align, false, &first) ||
			take_unused(space, count, align, &first);
	}
	if (found)
		mark(space, first, count, &pending);
	pthread_mutex_unlock(&space->lock);
	return found ? space->base + first * SIM_GRANULE : 0;
}

void sim_space_give(struct sim_space *space, uint64_t address, uint64_t count)
{
	uint64_t first = (address - space->base) / SIM_GRANULE;

	/* Never without either of the two, or a merge would take it for free already. */
	mark(space, first, count, &pending);
	if (count == 1)
		atomic_store_explicit(&space->granules[first].slab, NULL, memory_order_release);
	if (cacheable(space, count, 1) && give_cached(first, count))
		return;
	pthread_mutex_lock(&space->lock);
	mark(space, first, count, NULL);
	bin_extent(space, first, count);
	space->torn += count;
	pthread_mutex_unlock(&space->lock);
}

void sim_space_punch(uint64_t address, uint64_t size)
{
	struct sim_space *space = sim_space_of(address);
	uint64_t start = (address + 4095) / 4096 * 4096;
	uint64_t end = (address + size) / 4096 * 4096;

	if (space && end > start)
		madvise(sim_store(space, start), end - start, MADV_REMOVE);
}
