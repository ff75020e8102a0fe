/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of four to eight threads that allocate and free with every function there is, on all devices,
 * and keep the journal that the descriptor in PROOF_JOURNAL holds.
 *
 * Threads hand memory to each other, so that much is freed by another thread than asked for it.
 * Between calls a thread waits where the judge holds it. PROOF_WAY chooses how the driver is
 * reached (tests/capture/functions.h); PROOF_ACTOR asks for children (forks.c).
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "formats/tables.h"
#include "forks.h"
#include "functions.h"
#include "journal.h"

#define GRANULE ((size_t)2 << 20)
#define HELD 48
#define DEVICES_MAX 8
#define EXCHANGE 16
#define STEPS 14

static struct journal *journal;
static vc_cu_context primary[DEVICES_MAX];
static int devices;
static struct journal_object *exchange[EXCHANGE]; /* memory on its way to another thread */

/* Two handles, one of them mapped twice; `step` says which call is next. */
struct set {
	unsigned int step;
	struct journal_object *range, *handle[2], *mapping[3];
	uint32_t users[2]; /* references and mappings of each handle */
	uint32_t extra;
};

struct churner {
	struct journal_thread *own;
	unsigned int number;
	int device;
	uint64_t random, since_held;
	uint32_t call;
	struct journal_object *held[HELD], *pool;
	struct set set[2];
	char *host; /* to be registered */
};

/* ---- journal ---- */

static uint64_t random_below(struct churner *self, uint64_t limit)
{
	self->random ^= self->random << 13;
	self->random ^= self->random >> 7;
	self->random ^= self->random << 17;
	return (self->random >> 11) % limit;
}

static void next_call(struct churner *self)
{
	self->call = __atomic_add_fetch(&journal->calls, 1, __ATOMIC_RELAXED);
}

static struct journal_object *intend(struct churner *self, uint32_t kind, int device, uint64_t size)
{
	struct journal_object *object = &self->own->object[self->own->count];

	*object = (struct journal_object){
		.kind = kind, .device = device, .size = size, .born_call = self->call};
	__atomic_store_n(&object->born_before, journal_tick(journal), __ATOMIC_RELEASE);
	__atomic_store_n(&self->own->count, self->own->count + 1, __ATOMIC_RELEASE);
	return object;
}

/* The outcome; NULL where the call failed. */
static struct journal_object *made(struct journal_object *object, vc_cu_result result,
				   uint64_t address)
{
	if (result) {
		__atomic_add_fetch(&journal->failures, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&object->kind, 0, __ATOMIC_RELEASE);
		return NULL;
	}
	__atomic_store_n(&object->address, address, __ATOMIC_RELEASE);
	__atomic_store_n(&object->born_after, journal_tick(journal), __ATOMIC_RELEASE);
	return object;
}

static void doom(struct churner *self, struct journal_object *object)
{
	object->dies_call = self->call;
	__atomic_store_n(&object->dies_before, journal_tick(journal), __ATOMIC_RELEASE);
}

static void gone(struct journal_object *object, vc_cu_result result)
{
	if (result)
		__atomic_add_fetch(&journal->failures, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&object->dies_after, journal_tick(journal), __ATOMIC_RELEASE);
}

/* ---- memory of one address ---- */

static size_t some_size(struct churner *self)
{
	static const size_t most[] = {512, 4096, 100000, 1 << 20, 3 << 20};

	return 1 + random_below(self, most[random_below(self, 5)]);
}

static struct journal_object *make_plain(struct churner *self, unsigned int which)
{
	size_t size = some_size(self), pitch = 0;
	struct journal_object *object;
	vc_cu_pointer pointer = 0;
	vc_cu_result result;

	if (which == 0) {
		object = intend(self, VC_KIND_LINEAR, self->device, size);
		result = cu.cuMemAlloc_v2(&pointer, size);
	} else if (which == 1) {
		size_t width = 1 + size % 3000, height = 1 + size % 17;

		object = intend(self, VC_KIND_PITCHED, self->device, 0);
		result = cu.cuMemAllocPitch_v2(&pointer, &pitch, width, height, 4);
		object->size = pitch * height;
	} else if (which == 2) {
		object = intend(self, VC_KIND_MANAGED, self->device, size);
		result = cu.cuMemAllocManaged(&pointer, size, 1);
	} else if (which == 3) {
		object = intend(self, VC_KIND_ASYNC, self->device, size);
		result = cu.cuMemAllocAsync(&pointer, size, NULL);
	} else {
		object = intend(self, VC_KIND_ASYNC, self->device, size);
		result = cu.cuMemAllocAsync_ptsz(&pointer, size, NULL);
	}
	return made(object, result, pointer);
}

static struct journal_object *make_host(struct churner *self, bool old)
{
	size_t size = some_size(self);
	struct journal_object *object = intend(self, VC_KIND_PINNED, self->device, size);
	void *pointer = NULL;
	vc_cu_result result;

	result = old ? cu.cuMemAllocHost_v2(&pointer, size) : cu.cuMemHostAlloc(&pointer, size, 0);
	return made(object, result, (uintptr_t)pointer);
}

static struct journal_object *make_from_pool(struct churner *self)
{
	size_t size = some_size(self);
	vc_cu_pointer pointer = 0;
	struct journal_object *object;
	vc_cu_result result;

	if (!self->pool)
		return NULL;
	object = intend(self, VC_KIND_ASYNC, self->pool->device, size);
	result = cu.cuMemAllocFromPoolAsync(&pointer, size, (vc_cu_pool)self->pool->address, NULL);
	return made(object, result, pointer);
}

static void end_plain(struct churner *self, struct journal_object *object)
{
	vc_cu_result result;

	doom(self, object);
	if (object->kind == VC_KIND_PINNED)
		result = cu.cuMemFreeHost((void *)object->address);
	else if (object->kind != VC_KIND_ASYNC)
		result = cu.cuMemFree_v2(object->address);
	else if (random_below(self, 2))
		result = cu.cuMemFreeAsync(object->address, NULL);
	else
		result = cu.cuMemFreeAsync_ptsz(object->address, NULL);
	gone(object, result);
}

static void plain_call(struct churner *self)
{
	struct journal_object **slot = &self->held[random_below(self, HELD)];
	uint64_t which = random_below(self, 9);

	if (*slot && which == 0) { /* to another thread; what comes back takes its place */
		*slot = __atomic_exchange_n(&exchange[random_below(self, EXCHANGE)], *slot,
					    __ATOMIC_ACQ_REL);
	} else if (*slot) {
		end_plain(self, *slot);
		*slot = NULL;
	} else if (which < 5) {
		*slot = make_plain(self, (unsigned int)which);
	} else if (which < 7) {
		*slot = make_host(self, which == 5);
	} else {
		*slot = make_from_pool(self);
	}
}

/* ---- pools, registered memory, contexts ---- */

static void pool_call(struct churner *self)
{
	int device = (int)random_below(self, (uint64_t)devices);
	struct vc_cu_pool_properties properties = {.allocation_type = 1, .location = {1, device}};
	struct journal_object *object;
	vc_cu_pool pool = NULL;
	vc_cu_result result;

	if (self->pool) {
		doom(self, self->pool);
		gone(self->pool, cu.cuMemPoolDestroy((vc_cu_pool)self->pool->address));
		self->pool = NULL;
		return;
	}
	object = intend(self, VC_KIND_POOL, device, 0);
	result = cu.cuMemPoolCreate(&pool, &properties);
	self->pool = made(object, result, (uintptr_t)pool);
}

static void registered_call(struct churner *self)
{
	struct journal_object *object = intend(self, VC_KIND_REGISTERED, self->device, 1 << 15);

	object->address = (uintptr_t)self->host;
	object = made(object, cu.cuMemHostRegister_v2(self->host, 1 << 15, 0), object->address);
	if (!object)
		return;
	next_call(self);
	doom(self, object);
	gone(object, cu.cuMemHostUnregister(self->host));
}

static void current_call(struct churner *self)
{
	self->device = (int)random_below(self, (uint64_t)devices);
	if (cu.cuCtxSetCurrent(primary[self->device]))
		__atomic_add_fetch(&journal->failures, 1, __ATOMIC_RELAXED);
}

static void hold_here(struct churner *self);

/* A context with memory in it, which goes with it. */
static void context_calls(struct churner *self)
{
	int device = self->device, other = (int)random_below(self, (uint64_t)devices);
	struct journal_object *object[4];
	vc_cu_context context = NULL;
	vc_cu_result result;

	object[0] = intend(self, VC_KIND_CONTEXT, other, 0);
	result = cu.cuCtxCreate_v2(&context, 0, other);
	object[0] = made(object[0], result, (uintptr_t)context);
	if (!object[0])
		return;
	self->device = other;
	for (unsigned int i = 1; i < 4; i++) {
		next_call(self);
		object[i] = i == 3 ? make_host(self, false) : make_plain(self, i - 1);
		hold_here(self);
	}
	next_call(self);
	for (int i = 0; i < 4; i++)
		if (object[i])
			doom(self, object[i]);
	result = cu.cuCtxDestroy_v2(context);
	for (int i = 0; i < 4; i++)
		if (object[i])
			gone(object[i], result);
	self->device = device;
	if (cu.cuCtxSetCurrent(primary[device]))
		__atomic_add_fetch(&journal->failures, 1, __ATOMIC_RELAXED);
}

/* ---- virtual memory management ---- */

static void set_create(struct churner *self, struct set *set, int which)
{
	int device = (int)random_below(self, (uint64_t)devices);
	struct vc_cu_allocation_properties properties = {.type = 1, .location = {1, device}};
	size_t size = which ? GRANULE : 2 * GRANULE;
	struct journal_object *object = intend(self, VC_KIND_HANDLE, device, size);
	vc_cu_memory_handle handle = 0;
	vc_cu_result result = cu.cuMemCreate(&handle, size, &properties, 0);

	set->handle[which] = made(object, result, handle);
	set->users[which] = 1;
}

static void set_map(struct churner *self, struct set *set, int which, int handle, size_t at)
{
	size_t size = handle ? GRANULE : 2 * GRANULE;
	struct journal_object *object;
	vc_cu_result result;

	object = intend(self, VC_KIND_MAPPING, set->handle[handle]->device, size);
	object->address = set->range->address + at;
	result = cu.cuMemMap(object->address, size, 0, set->handle[handle]->address, 0);
	set->mapping[which] = made(object, result, object->address);
	set->users[handle]++;
}

static void doom_user(struct churner *self, struct set *set, int handle)
{
	if (--set->users[handle] == 0)
		doom(self, set->handle[handle]);
}

static void gone_user(struct set *set, int handle, vc_cu_result result)
{
	if (!set->users[handle])
		gone(set->handle[handle], result);
}

static void set_release(struct churner *self, struct set *set, int handle)
{
	doom_user(self, set, handle);
	gone_user(set, handle, cu.cuMemRelease(set->handle[handle]->address));
}

/* Mappings first .. last with one call; the first is of handle 0, the others of handle 1. */
static void set_unmap(struct churner *self, struct set *set, int first, int last)
{
	uint64_t address = set->mapping[first]->address;
	vc_cu_result result;

	for (int i = first; i <= last; i++) {
		doom(self, set->mapping[i]);
		doom_user(self, set, i > 0);
	}
	result = cu.cuMemUnmap(address, set->mapping[last]->address + set->mapping[last]->size -
						address);
	for (int i = first; i <= last; i++)
		gone(set->mapping[i], result);
	if (!first)
		gone_user(set, 0, result);
	if (last)
		gone_user(set, 1, result);
}

static void set_reserve(struct churner *self, struct set *set)
{
	struct journal_object *object = intend(self, VC_KIND_RESERVATION, -1, 8 * GRANULE);
	vc_cu_pointer pointer = 0;
	vc_cu_result result = cu.cuMemAddressReserve(&pointer, 8 * GRANULE, 0, 0, 0);

	set->range = made(object, result, pointer);
}

static void set_retain(struct set *set)
{
	vc_cu_memory_handle again = 0;

	if (cu.cuMemRetainAllocationHandle(&again, (void *)(set->range->address + GRANULE)) ||
	    again != set->handle[0]->address)
		__atomic_add_fetch(&journal->failures, 1, __ATOMIC_RELAXED);
	set->users[0]++;
}

static void set_free(struct churner *self, struct set *set)
{
	doom(self, set->range);
	gone(set->range, cu.cuMemAddressFree(set->range->address, 8 * GRANULE));
}

static void set_call(struct churner *self, struct set *set)
{
	switch (set->step) {
	case 0: set_reserve(self, set); break;
	case 1: set_create(self, set, 0); break;
	case 2: set_create(self, set, 1); break;
	case 3: set_map(self, set, 0, 0, 0); break;
	case 4: set_map(self, set, 1, 1, 2 * GRANULE); break;
	case 5: set_map(self, set, 2, 1, 3 * GRANULE); break;
	case 6: set_release(self, set, 1); break;
	case 7:
		set->extra = (uint32_t)random_below(self, 2);
		if (set->extra)
			set_retain(set);
		break;
	case 8: set_release(self, set, 0); break;
	case 9: set_unmap(self, set, 0, 1); break; /* ends handle 0 unless it was retained */
	case 10:
		if (set->extra)
			set_release(self, set, 0);
		break;
	case 11: set_unmap(self, set, 2, 2); break; /* ends handle 1 */
	case 12: set_free(self, set); break;
	default: break;
	}
	set->step = (set->step + 1) % STEPS;
}

/* ---- threads ---- */

static void hold_here(struct churner *self)
{
	uint32_t every = journal->hold_every;

	if (!every || ++self->since_held < every + random_below(self, every))
		return;
	self->since_held = 0;
	pthread_barrier_wait(&journal->held);
	pthread_barrier_wait(&journal->released);
}

static void one_call(struct churner *self)
{
	uint64_t which = random_below(self, 100);

	next_call(self);
	if (which < 70)
		plain_call(self);
	else if (which < 90)
		set_call(self, &self->set[which & 1]);
	else if (which < 93)
		pool_call(self);
	else if (which < 95)
		registered_call(self);
	else if (which < 99)
		current_call(self);
	else
		context_calls(self);
}

static void fault(void)
{
	volatile int *volatile nowhere = NULL;

	*nowhere = 0;
}

static void *churn(void *argument)
{
	struct churner *self = argument;

	self->own->thread = (uint32_t)gettid();
	if (cu.cuCtxSetCurrent(primary[self->device]))
		__atomic_add_fetch(&journal->failures, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&journal->started, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&journal->stop, __ATOMIC_RELAXED)) {
		if (self->own->count + 8 > JOURNAL_OBJECTS) {
			self->own->full = 1;
			break;
		}
		one_call(self);
		if (self->number == 0 &&
		    __atomic_load_n(&journal->end, __ATOMIC_RELAXED) == JOURNAL_FAULTS)
			fault();
		if (journal->hold_every)
			hold_here(self);
		else if (random_below(self, 64) == 0)
			usleep((useconds_t)random_below(self, 1000));
	}
	return NULL;
}

static void end_if_asked(void)
{
	uint32_t end = __atomic_load_n(&journal->end, __ATOMIC_RELAXED);

	if (end == JOURNAL_ABORTS)
		abort();
	if (end == JOURNAL_EXITS)
		exit(JOURNAL_STATUS);
}

/* Tells the steps that the judge asks for, and ends as it asks. */
static void tell_steps(void)
{
	while (!__atomic_load_n(&journal->stop, __ATOMIC_ACQUIRE)) {
		uint32_t wanted = __atomic_load_n(&journal->step_wanted, __ATOMIC_ACQUIRE);

		end_if_asked();
		if (wanted == journal->step_done) {
			usleep(100);
			continue;
		}
		journal->step_before = journal_tick(journal);
		vramcore_step(wanted);
		journal->step_after = journal_tick(journal);
		__atomic_store_n(&journal->step_done, wanted, __ATOMIC_RELEASE);
	}
}

static void start_devices(void)
{
	const char *count = getenv("SIMCUDA_DEVICES");

	devices = count ? atoi(count) : 1;
	if (devices > DEVICES_MAX)
		devices = DEVICES_MAX;
	if (cu.cuInit(0))
		exit(3);
	for (int i = 0; i < devices; i++) {
		struct churner self = {.own = &journal->table[0]};
		struct journal_object *object;

		vc_cu_result result;

		self.own->thread = (uint32_t)gettid();
		next_call(&self);
		object = intend(&self, VC_KIND_CONTEXT, i, 0);
		result = cu.cuDevicePrimaryCtxRetain(&primary[i], i);
		if (!made(object, result, (uintptr_t)primary[i]))
			exit(3);
	}
}

int main(void)
{
	const char *descriptor = getenv("PROOF_JOURNAL"), *way = getenv("PROOF_WAY");
	static struct churner churner[JOURNAL_THREADS];
	pthread_t thread[JOURNAL_THREADS];

	if (!descriptor)
		return 64;
	journal = mmap(NULL, sizeof(*journal), PROT_READ | PROT_WRITE, MAP_SHARED,
		       atoi(descriptor), 0);
	if (journal == MAP_FAILED || !test_functions_get(way ? way : "link"))
		return 3;
	start_devices();
	for (unsigned int i = 0; i < journal->threads; i++) {
		churner[i] = (struct churner){
			.own = &journal->table[i],
			.number = i,
			.device = (int)i % devices,
			.random = 88172645463325252u + i * 7919 + (uint64_t)getpid() * 104729,
			.host = aligned_alloc(4096, 1 << 15),
		};
		if (pthread_create(&thread[i], NULL, churn, &churner[i]))
			return 3;
	}
	if (getenv("PROOF_ACTOR"))
		__atomic_add_fetch(&journal->failures,
				   forks_make(&journal->stop, &journal->children),
				   __ATOMIC_RELAXED);
	else if (!journal->hold_every)
		tell_steps();
	for (unsigned int i = 0; i < journal->threads; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
