/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/churn.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/store/fixture.h"

struct worker {
	struct churn *churn;
	uint64_t random;
	uint32_t id;
};

static void add(uint64_t *to, uint64_t by)
{
	__atomic_fetch_add(to, by, __ATOMIC_RELAXED);
}

/* The pretended driver hands an address out that nobody has. */
static bool driver_take(struct churn *churn, uint32_t i)
{
	uint64_t none = 0;

	return __atomic_compare_exchange_n(&churn->owner[i], &none, 1, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

static void churn_allocate(struct worker *worker, uint32_t i)
{
	struct churn *churn = worker->churn;
	uint64_t size = 1 + fixture_random(&worker->random) % 1000000;
	struct vc_birth birth = {
		.size = size,
		.requested = size,
		.stack = 1 + (uint32_t)(size % 50),
		.device_plus_one = 1 + size % 3,
		.kind = VC_KIND_LINEAR,
		.thread = worker->id,
	};
	uint32_t record = vc_store_begin(&birth);

	if (!driver_take(churn, i)) {
		vc_store_abandon(record);
		add(&churn->failed, 1);
		return;
	}
	birth.address = churn_address(i);
	vc_store_commit(record, &birth);
	add(&churn->allocated, 1);
	add(&churn->allocated_bytes, size);
	__atomic_store_n(&churn->lives[i], size, __ATOMIC_RELEASE);
}

static void churn_free(struct worker *worker, uint32_t i)
{
	struct churn *churn = worker->churn;
	uint64_t size = __atomic_exchange_n(&churn->lives[i], 0, __ATOMIC_SEQ_CST);
	struct vc_death death = {.thread = worker->id, .stack = 3};
	struct vc_claim claim;
	bool known;

	if (!size)
		return;
	known = vc_store_claim(churn_address(i), LINEAR, &claim);
	if (known && fixture_random(&worker->random) % 16 == 0) {
		vc_store_free_undo(&claim);
		known = vc_store_claim(churn_address(i), LINEAR, &claim);
	}
	/* From here on another thread can be given the address. */
	__atomic_store_n(&churn->owner[i], 0, __ATOMIC_SEQ_CST);
	if (!known || claim.copy.size != size) {
		add(&churn->unknown, 1);
		return;
	}
	vc_store_free_commit(&claim, &death);
	add(&churn->freed, 1);
	add(&churn->freed_bytes, size);
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct churn *churn = worker->churn;

	for (uint64_t n = 0; churn->operations == 0 || n < churn->operations; n++) {
		uint64_t random = fixture_random(&worker->random);
		uint32_t i = (uint32_t)(random >> 8) % CHURN_ADDRESSES;

		if (__atomic_load_n(&churn->lives[i], __ATOMIC_RELAXED))
			churn_free(worker, i);
		else
			churn_allocate(worker, i);
		if (churn->operations == 0 && __atomic_load_n(&churn->stop, __ATOMIC_RELAXED))
			break;
	}
	return NULL;
}

static void *agent(void *argument)
{
	struct churn *churn = argument;

	while (!__atomic_load_n(&churn->stop, __ATOMIC_RELAXED)) {
		vc_store_grow();
		usleep(500);
	}
	return NULL;
}

void churn_run(struct churn *churn)
{
	struct worker worker[CHURN_THREADS_MAX];
	pthread_t thread[CHURN_THREADS_MAX], helper;

	__atomic_store_n(&churn->stop, 0, __ATOMIC_RELAXED);
	if (pthread_create(&helper, NULL, agent, churn))
		abort();
	for (uint32_t i = 0; i < churn->threads; i++) {
		worker[i] = (struct worker){
			churn, (i + 1) * 0x9e3779b97f4a7c15u + churn->seed, i + 1};
		if (pthread_create(&thread[i], NULL, work, &worker[i]))
			abort();
	}
	for (uint32_t i = 0; i < churn->threads; i++)
		pthread_join(thread[i], NULL);
	__atomic_store_n(&churn->stop, 1, __ATOMIC_RELAXED);
	pthread_join(helper, NULL);
}

void churn_drain(struct churn *churn)
{
	struct worker worker = {churn, 1, 99};

	for (uint32_t i = 0; i < CHURN_ADDRESSES; i++)
		churn_free(&worker, i);
}
