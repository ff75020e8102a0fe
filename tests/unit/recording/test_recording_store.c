/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's own writer at work in several threads while its file is converted again and
 * again, now and at moments that the threads take. The judge is a journal that the threads keep:
 * what was born and died under which number.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/inside/store.h"
#include "recording_test.h"

#define THREADS 4u
#define JOURNAL_MAX (1u << 21)
#define CONVERSIONS 60u
#define HELD 150u
#define LINEAR VC_KINDS(VC_KIND_LINEAR)

struct entry {
	uint64_t death, address, size;
};

static struct entry *journal; /* by birth number */
static int stop;
static uint64_t next_address;

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static uint64_t allocate(uint64_t *seed)
{
	struct vc_birth birth = {
		.size = 1 + random_next(seed) % 100000,
		.address = 0x7f0000000000 +
			   512 * __atomic_fetch_add(&next_address, 1, __ATOMIC_RELAXED),
		.device_plus_one = 1,
		.kind = VC_KIND_LINEAR,
	};
	uint32_t record;
	uint64_t number, frames[3] = {vc_frame(0, birth.size % 7), 2, 3};

	birth.requested = birth.size - 1;
	birth.stack = vc_store_stack_known(frames[0] + 99, 3);
	if (!birth.stack)
		birth.stack = vc_store_stack_add(frames[0] + 99, frames, 3, VC_STACK_COMPLETE);
	birth.label = vc_store_string("tensor", 6);
	record = vc_store_begin(&birth);
	if (random_next(seed) % 50 == 0) {
		vc_store_abandon(record);
		return 0;
	}
	number = vc_store_commit(record, &birth);
	if (number && number < JOURNAL_MAX) {
		journal[number].address = birth.address;
		journal[number].size = birth.size;
	}
	return number ? birth.address : 0;
}

static void release(uint64_t address, uint64_t *seed)
{
	const struct vc_death death = {.thread = 7, .step = 3};
	struct vc_claim claim;

	if (!vc_store_claim(address, LINEAR, &claim))
		abort();
	if (random_next(seed) % 50 == 0) {
		vc_store_free_undo(&claim);
		if (!vc_store_claim(address, LINEAR, &claim))
			abort();
	}
	if (claim.birth < JOURNAL_MAX)
		journal[claim.birth].death = vc_word_value(claim.copy.death);
	vc_store_free_commit(&claim, &death);
}

static void *churn(void *argument)
{
	uint64_t seed = 0x9e3779b9u + (uintptr_t)argument, held[HELD] = {0};

	for (uint64_t round = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); round++) {
		uint64_t *at = &held[random_next(&seed) % HELD];
		struct vc_moment moment = {
			.trigger = "step", .moment = "after-step", .step = round};

		if (*at) {
			release(*at, &seed);
			*at = 0;
		} else {
			*at = allocate(&seed);
		}
		if (random_next(&seed) % 20000 == 0)
			vc_store_moment(&moment);
		if (vc_word_value(__atomic_load_n(&vc_store_root()->clock, __ATOMIC_RELAXED)) >
		    JOURNAL_MAX - 10000)
			break;
	}
	return NULL;
}

static void *agent(void *argument)
{
	(void)argument;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		vc_store_grow();
		usleep(1000);
	}
	return NULL;
}

static bool journal_live(uint64_t birth, uint64_t number)
{
	const struct entry *entry = &journal[birth];

	return entry->address && birth <= number && (!entry->death || entry->death > number);
}

/* Every row against the journal, then the journal against the rows. */
static void judge(const struct vc_tables *tables, uint64_t moving)
{
	uint64_t number = CELL(tables, process_number, 0), doubt = 0, extra = 0, absent = 0;
	uint64_t missing = CELL(tables, process_deaths_missing, 0);
	uint8_t *shown = calloc(JOURNAL_MAX, 1);

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_allocations]; i++) {
		uint64_t birth = CELL(tables, allocations_birth, i);
		uint64_t state = CELL(tables, allocations_state, i);

		if (state == VC_STATE_IN_DOUBT) {
			doubt++;
			continue;
		}
		assert_true(birth && birth <= number && !shown[birth] && journal[birth].address);
		assert_true(CELL(tables, allocations_address, i) == journal[birth].address);
		assert_true(CELL(tables, allocations_size, i) == journal[birth].size);
		assert_true(CELL(tables, allocations_requested, i) == journal[birth].size - 1);
		assert_string_equal(TEXT(tables, allocations_label, i), "tensor");
		assert_true(CELL(tables, allocations_stack, i) != 0);
		assert_true(CELL(tables, allocations_site, i) != 0);
		shown[birth] = 1;
		if (!journal_live(birth, number))
			extra++;
	}
	for (uint64_t birth = 1; birth <= number; birth++)
		absent += journal_live(birth, number) && !shown[birth];
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_freed]; i++) {
		uint64_t birth = CELL(tables, freed_birth, i), death = CELL(tables, freed_death, i);

		assert_true(death <= number && birth < death && journal[birth].death == death);
		assert_true(CELL(tables, freed_address, i) == journal[birth].address);
		assert_true(!shown[birth]);
	}
	/* only calls in flight differ: at most one a thread; and what is said to be missing */
	if (extra > moving || absent > doubt + missing || doubt > moving)
		fail_msg("S %llu: %llu extra, %llu absent, %llu in doubt, %llu missing",
			 (unsigned long long)number, (unsigned long long)extra,
			 (unsigned long long)absent, (unsigned long long)doubt,
			 (unsigned long long)missing);
	free(shown);
}

static void convert_now_and_then(int descriptor, unsigned round, struct vc_tables *ret)
{
	struct vc_convert_options options = {.state = "running"};
	struct vc_recording_source source;
	struct vc_recording_moment *moment;
	struct vc_faults faults = {0};
	size_t count = 0;

	assert_int_equal(vc_recording_source_descriptor(descriptor, &source), 0);
	if (round % 3) {
		assert_int_equal(vc_recording_moments(&source, &moment, &count, &faults), 0);
		if (count) {
			options.at = VC_AT_MOMENT;
			options.number = moment[count - 1 - round % (count < 4 ? count : 4)].row;
		}
		free(moment);
	}
	assert_int_equal(vc_convert(&source, &options, ret, &faults), 0);
	/* a thread that was put to sleep between two stores may be seen there, in doubt */
	for (uint64_t i = 0; i < faults.count && i < VC_FAULTS_KEPT; i++)
		if (faults.kept[i].error != VC_E_UNSTABLE)
			fail_msg("fault %s in %s at %llu", vc_error_text(faults.kept[i].error),
				 faults.kept[i].section,
				 (unsigned long long)faults.kept[i].offset);
}

static void test_writer_and_reader(void **state)
{
	const struct vc_store_options options = {.budget = 4 << 20};
	static struct vc_tables tables[CONVERSIONS];
	struct vc_tables last;
	pthread_t thread[THREADS + 1];
	uint64_t with_missing = 0, live = 0;
	int descriptor;

	(void)state;
	journal = calloc(JOURNAL_MAX, sizeof(*journal));
	assert_int_equal(vc_store_start(&options, &descriptor), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, churn, (void *)(i + 1)), 0);
	assert_int_equal(pthread_create(&thread[THREADS], NULL, agent, NULL), 0);
	usleep(20000);
	for (unsigned i = 0; i < CONVERSIONS; i++)
		convert_now_and_then(descriptor, i, &tables[i]);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i <= THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < CONVERSIONS; i++) {
		with_missing += CELL(&tables[i], process_deaths_missing, 0) != 0;
		live += tables[i].rows[VC_TABLE_allocations];
		judge(&tables[i], THREADS);
		vc_tables_deinit(&tables[i]);
	}
	/* at rest: equal */
	convert_now_and_then(descriptor, 0, &last);
	assert_int_equal(CELL(&last, process_deaths_missing, 0), 0);
	judge(&last, 0);
	printf("%u conversions, %llu rows, %llu with deaths missing, clock %llu, freed %llu\n",
	       CONVERSIONS, (unsigned long long)live, (unsigned long long)with_missing,
	       (unsigned long long)CELL(&last, process_number, 0),
	       (unsigned long long)last.rows[VC_TABLE_freed]);
	assert_true(live > CONVERSIONS * 10);
	assert_true(CELL(&last, process_number, 0) > 10000);
	vc_tables_deinit(&last);
	close(descriptor);
	free(journal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writer_and_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
