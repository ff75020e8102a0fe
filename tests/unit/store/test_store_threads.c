/* SPDX-License-Identifier: Apache-2.0 */
/* The store under many threads, and under signal handlers that interrupt it. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "capture/inside/thread.h"
#include "tests/unit/store/churn.h"
#include "tests/unit/store/fixture.h"

static struct churn churn;

static uint64_t operations(void)
{
	const char *text = getenv("STORE_OPERATIONS");

	return text ? strtoull(text, NULL, 10) : 60000;
}

/* Births and deaths all have numbers of their own, up to the clock. */
static void verify_numbers(const struct mini *mini)
{
	uint64_t clock = mini->root->clock / 17, slots = mini->root->freed_slots / 17;
	uint8_t *taken = calloc(clock + 1, 1);

	for (uint64_t i = 0; i < mini->root->used[VC_REC_RECORDS] / 17; i++) {
		const struct vc_record *record = mini_item(mini, VC_REC_RECORDS, i, 160);

		if (record && record->state)
			assert_int_equal(taken[record->state / 17 >> 2]++, 0);
	}
	for (uint64_t i = 0; i < slots; i++) {
		const struct vc_freed *freed = mini_item(mini, VC_REC_FREED, i, 224);

		if (freed->sequence == 0)
			continue;
		assert_true(freed->birth < freed->death && freed->death <= clock);
		assert_int_equal(taken[freed->birth]++, 0);
		assert_int_equal(taken[freed->death]++, 0);
	}
	free(taken);
}

/* Every record in its place, nothing else, and the totals add up. */
static void verify(void)
{
	uint64_t live = 0, live_bytes = 0, device = 0, used;
	struct vc_birth birth = fixture_birth(0xdead000, 1);
	struct vc_claim claim;
	struct mini mini;
	uint32_t slot;

	assert_int_equal(churn.unknown, 0);
	for (uint32_t i = 0; i < CHURN_ADDRESSES; i++) {
		bool found = vc_store_find(churn_address(i), LINEAR, &claim);

		assert_int_equal(found, churn.lives[i] != 0);
		if (!found)
			continue;
		assert_int_equal(claim.copy.size, churn.lives[i]);
		live++;
		live_bytes += churn.lives[i];
	}
	fixture_read(&mini);
	verify_numbers(&mini);
	assert_int_equal(mini.live, live);
	assert_int_equal(mini.live_bytes, live_bytes);
	assert_int_equal(mini.filling + mini.freeing + mini.freed_writing, 0);
	assert_int_equal(mini.allocated_count, churn.allocated);
	assert_int_equal(mini.allocated_bytes, churn.allocated_bytes);
	assert_int_equal(mini.freed_count, churn.freed);
	assert_int_equal(mini.freed_bytes, churn.freed_bytes);
	for (unsigned i = 0; i < 3; i++)
		device += mini.root->device[i].live / 17;
	assert_int_equal(device, live_bytes);
	assert_int_equal(mini_counter(&mini, VC_COUNTER_RECORDS_LOST), 0);
	assert_int_equal(mini_counter(&mini, VC_COUNTER_ALLOCATIONS_SEEN), churn.allocated);
	assert_int_equal(mini_counter(&mini, VC_COUNTER_CALLS_FAILED), churn.failed);
	/* each free has its entry but for those that met a slot still written to */
	assert_true(mini.root->freed_next / 17 >= churn.freed);
	assert_true(mini.root->freed_next / 17 <= churn.freed + churn.freed / 100);
	assert_true(mini.freed + mini_counter(&mini, VC_COUNTER_DEATHS_OVERWRITTEN) >= churn.freed);
	/* as many births as there are empty slots need no new one */
	used = mini.root->used[VC_REC_RECORDS] / 17;
	for (uint64_t i = live; i < used; i++) {
		slot = vc_store_begin(&birth);
		assert_true(slot < used);
	}
	assert_int_equal(vc_store_root()->used[VC_REC_RECORDS], used * 17);
	slot = vc_store_begin(&birth);
	assert_true(slot == used);
	mini_close(&mini);
}

static void churn_with(unsigned threads, uint64_t seed)
{
	memset(&churn, 0, sizeof(churn));
	fixture_start(64 * MIB);
	churn.threads = threads;
	churn.seed = seed;
	churn.operations = operations();
	churn_run(&churn);
	verify();
}

static void test_churn(void **state)
{
	(void)state;
	churn_with(4, 1);
	churn_with(8, 2);
}

/*
 * Far too small: most get no record. Whose address comes back is still known, and totals are
 * right.
 */
static void test_churn_full(void **state)
{
	uint64_t live_bytes = 0, device = 0;
	struct mini mini;

	(void)state;
	memset(&churn, 0, sizeof(churn));
	fixture_start(250000);
	churn.threads = 4;
	churn.operations = operations() / 2;
	churn_run(&churn);
	assert_int_equal(churn.unknown, 0);
	fixture_read(&mini);
	for (uint32_t i = 0; i < CHURN_ADDRESSES; i++)
		live_bytes += churn.lives[i];
	for (unsigned i = 0; i < 3; i++)
		device += mini.root->device[i].live / 17;
	assert_int_equal(device, live_bytes);
	assert_true(mini_counter(&mini, VC_COUNTER_RECORDS_LOST) > 1000);
	assert_int_equal(mini.allocated_count, churn.allocated);
	assert_int_equal(mini.allocated_bytes, churn.allocated_bytes);
	assert_int_equal(mini.freed_count, churn.freed);
	assert_int_equal(mini.freed_bytes, churn.freed_bytes);
	mini_close(&mini);
	churn_drain(&churn);
	assert_int_equal(churn.unknown, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(vc_store_device_live(i), 0);
}

static void test_drain(void **state)
{
	(void)state;
	memset(&churn, 0, sizeof(churn));
	fixture_start(64 * MIB);
	churn.threads = 4;
	churn.operations = operations() / 4;
	churn_run(&churn);
	churn_drain(&churn);
	verify();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(vc_store_device_live(i), 0);
}

/* ---- names from many threads: one id each ---- */

#define NAMES 2000

static uint32_t string_ids[4][NAMES], stack_ids[4][NAMES];

static void *name_things(void *argument)
{
	unsigned me = (unsigned)(uintptr_t)argument;

	for (unsigned i = 0; i < NAMES; i++) {
		unsigned n = me & 1 ? i : NAMES - 1 - i;
		uint64_t frames[3] = {n, n + 1, n + 2};
		char text[32];

		snprintf(text, sizeof(text), "name %u", n);
		string_ids[me][n] = vc_store_string(text, strlen(text));
		stack_ids[me][n] = vc_store_stack_add((n + 1) * 0x9e3779b97f4a7c15u, frames, 3,
						      VC_STACK_COMPLETE);
	}
	return NULL;
}

static void test_names(void **state)
{
	pthread_t thread[4];
	struct mini mini;

	(void)state;
	fixture_start(64 * MIB);
	for (uintptr_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, name_things, (void *)i), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	for (unsigned n = 0; n < NAMES; n++) {
		char text[32];

		snprintf(text, sizeof(text), "name %u", n);
		assert_string_equal(vc_store_text(string_ids[0][n]), text);
		for (unsigned i = 0; i < 4; i++) {
			assert_int_not_equal(string_ids[i][n], 0);
			assert_int_equal(string_ids[i][n], string_ids[0][n]);
			assert_int_equal(stack_ids[i][n], stack_ids[0][n]);
		}
	}
	fixture_read(&mini);
	/*
	 * two threads that bring the same name at once may both copy it; only one copy gets an id
	 */
	assert_true(mini.strings >= NAMES && mini.strings < 2 * NAMES);
	mini_close(&mini);
}

/* ---- signal handlers ---- */

static volatile uint64_t handled, handler_bad;

static void handler(int signal)
{
	static uint64_t random = 88172645463325252u;
	uint64_t address = 0x5000000000u + (handled << 12), frames[4] = {1, 2, 3, handled};
	struct vc_failure failure = {.device_plus_one = 1, .requested = 1};
	char text[16] = "handler ";

	(void)signal;
	text[8] = (char)('a' + handled % 26);
	if (!vc_store_string(text, 9))
		handler_bad++;
	if (!vc_store_stack_add(handled * 0x9e3779b97f4a7c15u + 1, frames, 4, VC_STACK_COMPLETE))
		handler_bad++;
	fixture_allocate(address, 64);
	if (handled % 64 == 0)
		vc_store_failure(&failure);
	/* every second one stays */
	if (handled % 2 && !fixture_free(address))
		handler_bad++;
	fixture_random(&random);
	handled++;
}

static void test_signals(void **state)
{
	struct itimerval often = {{0, 97}, {0, 97}}, never = {{0, 0}, {0, 0}};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
	uint64_t count = operations() * 4, bad = 0;
	struct mini mini;
	char text[32];

	(void)state;
	handled = handler_bad = 0;
	fixture_start(128 * MIB);
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t address = 0x100000 + (i % 1000) * 512;

		fixture_allocate(address, 32);
		snprintf(text, sizeof(text), "main %llu", (unsigned long long)(i % 5000));
		bad += !vc_store_string(text, strlen(text));
		bad += !fixture_free(address);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	print_message("%llu handlers\n", (unsigned long long)handled);
	assert_true(handled > 10);
	assert_int_equal(bad, 0);
	assert_int_equal(handler_bad, 0);
	fixture_read(&mini);
	assert_int_equal(mini.live, (handled + 1) / 2);
	assert_int_equal(mini.filling + mini.freeing, 0);
	assert_int_equal(mini.allocated_count, count + handled);
	assert_int_equal(mini.freed_count, count + handled / 2);
	mini_close(&mini);
}

/* ---- thread blocks ---- */

static void *take_block(void *argument)
{
	char *bytes;

	(void)argument;
	if (!vc_thread_block())
		return NULL;
	bytes = vc_thread_unwind(vc_thread_block());
	for (size_t i = 0; i < VC_THREAD_UNWIND_BYTES; i += 4096)
		if (bytes[i])
			return NULL;
	memset(bytes, 0xff, VC_THREAD_UNWIND_BYTES);
	return bytes;
}

/* Threads one after the other: blocks are used again, empty; 200 of them need few. */
static void test_blocks(void **state)
{
	void *seen[200];
	unsigned different = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		pthread_t thread;
		unsigned j;

		assert_int_equal(pthread_create(&thread, NULL, take_block, NULL), 0);
		pthread_join(thread, &seen[i]);
		assert_non_null(seen[i]);
		for (j = 0; j < i && seen[j] != seen[i]; j++)
			;
		different += j == i;
	}
	assert_true(different < 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_churn), cmocka_unit_test(test_churn_full),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_names), cmocka_unit_test(test_signals),
		cmocka_unit_test(test_blocks),
	};

	return cmocka_run_group_tests_name("store threads", tests, NULL, NULL);
}
