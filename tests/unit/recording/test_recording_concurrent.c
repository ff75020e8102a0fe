/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small writer in a process of its own, by the rules of recording.h and nothing else, is read
 * while it runs, while it is stopped, and after SIGKILL. It keeps 100 to 101 records alive, oldest
 * out first, and every field of a record follows from its birth number.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recording_test.h"

#define ALIVE 100u
#define SLOTS 128u
#define RING 512u

struct writer {
	struct vc_root *root;
	struct vc_record *record;
	struct vc_freed *ring;
};

static void put(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static void put_last(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint64_t clock_next(struct writer *writer)
{
	return vc_word_value(
		__atomic_add_fetch(&writer->root->clock, vc_word(1), __ATOMIC_SEQ_CST));
}

static void put_fields(struct vc_record *to, uint64_t birth)
{
	const struct vc_record image = made_linear(birth);
	const uint64_t *from = &image.address;

	for (size_t i = 0; i < VC_RECORD_CHECKED_WORDS; i++)
		put(&to->address + i, from[i]);
}

static void give_birth(struct writer *writer, uint32_t slot)
{
	struct vc_record *record = &writer->record[slot];
	uint64_t number = vc_word_value(writer->root->clock);

	put_fields(record, number);
	put(&record->death, 0);
	put(&record->check, vc_check_words(&record->address, VC_RECORD_CHECKED_WORDS, number));
	put_last(&record->state, vc_state_word(number, VC_RECORD_FILLING));
	number = clock_next(writer);
	put_fields(record, number);
	put(&record->check, vc_check_words(&record->address, VC_RECORD_CHECKED_WORDS, number));
	put_last(&record->state, vc_state_word(number, VC_RECORD_LIVE));
}

static void let_die(struct writer *writer, uint32_t slot)
{
	struct vc_record *record = &writer->record[slot];
	uint64_t birth = vc_state_number(record->state), death, entry, words[26], at = 0;
	struct vc_freed *freed;

	put_last(&record->state, vc_state_word(birth, VC_RECORD_FREEING));
	death = clock_next(writer);
	put_last(&record->death, vc_word(death));
	entry = vc_word_value(__atomic_fetch_add(&writer->root->freed_next, vc_word(1),
						 __ATOMIC_SEQ_CST));
	freed = &writer->ring[entry % RING];
	put(&freed->sequence, vc_word(2 * entry + 1));
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	words[at++] = birth;
	words[at++] = death;
	words[at++] = death * 1000;
	for (unsigned i = 0; i < 3; i++)
		words[at++] = 0;
	memcpy(words + at, record, sizeof(*record));
	for (unsigned i = 0; i < 26; i++)
		put(&freed->birth + i, words[i]);
	put(&freed->check, vc_check_words(&freed->birth, 26, entry));
	put_last(&freed->sequence, vc_word(2 * (entry + 1)));
	put_last(&record->state, 0);
}

static void write_for_ever(struct writer *writer)
{
	for (uint64_t round = 0;; round++) {
		give_birth(writer, (uint32_t)(round % SLOTS));
		if (round >= ALIVE)
			let_die(writer, (uint32_t)((round - ALIVE) % SLOTS));
	}
}

/* Gives how many rows there are; checks all that can be checked of each. */
static void check(const struct vc_tables *tables, uint64_t moving)
{
	uint64_t number = CELL(tables, process_number, 0), live = 0, doubt = 0, freeing = 0;
	uint64_t missing = CELL(tables, process_deaths_missing, 0), last = 0;

	for (uint64_t i = 0; i < tables->rows[VC_TABLE_allocations]; i++) {
		uint64_t birth = CELL(tables, allocations_birth, i);
		uint64_t state = CELL(tables, allocations_state, i);

		if (state == VC_STATE_IN_DOUBT) {
			doubt++;
			continue;
		}
		assert_true(birth > last && birth <= number);
		assert_true(CELL(tables, allocations_address, i) == made_linear(birth).address);
		assert_true(CELL(tables, allocations_size, i) == made_linear(birth).size);
		live += state == VC_STATE_LIVE;
		freeing += state == VC_STATE_BEING_FREED;
		last = birth;
	}
	for (uint64_t i = 0; i < tables->rows[VC_TABLE_freed]; i++)
		assert_true(CELL(tables, freed_size, i) ==
			    made_linear(CELL(tables, freed_birth, i)).size);
	if (doubt + freeing > moving || live > ALIVE + 1 ||
	    live + doubt + freeing + missing < ALIVE)
		fail_msg("S %llu: %llu live, %llu in doubt, %llu being freed, %llu missing",
			 (unsigned long long)number, (unsigned long long)live,
			 (unsigned long long)doubt, (unsigned long long)freeing,
			 (unsigned long long)missing);
}

static void convert_descriptor(int descriptor, struct vc_tables *ret, uint64_t faults_allowed)
{
	struct vc_recording_source source;
	struct vc_faults faults = {0};

	assert_int_equal(vc_recording_source_descriptor(descriptor, &source), 0);
	assert_int_equal(vc_convert(&source, NULL, ret, &faults), 0);
	/* put to sleep, stopped or killed between two stores of a commit: in doubt, and said */
	assert_true(faults.count <= faults_allowed);
	for (uint64_t i = 0; i < faults.count; i++)
		assert_int_equal(faults.kept[i].error, VC_E_UNSTABLE);
}

static pid_t start_writer(int descriptor, uint64_t length, const struct made_recording *made)
{
	uint8_t *mapped = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	struct writer writer = {
		.root = (struct vc_root *)mapped,
		.record = (struct vc_record *)(mapped + made->base[VC_REC_RECORDS]),
		.ring = (struct vc_freed *)(mapped + made->base[VC_REC_FREED]),
	};
	pid_t pid;

	assert_true(mapped != MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(120);
		write_for_ever(&writer);
	}
	while (vc_word_value(__atomic_load_n(&writer.root->clock, __ATOMIC_RELAXED)) < 5000)
		usleep(1000);
	munmap(mapped, length);
	return pid;
}

static void test_running_stopped_dead(void **state)
{
	struct made_sizes sizes = {{0}};
	struct made_recording made;
	struct vc_tables tables, again;
	uint64_t whole = 0;

	(void)state;
	sizes.items[VC_REC_RECORDS] = SLOTS;
	sizes.items[VC_REC_FREED] = RING;
	made_start(&made, &sizes);
	made.root->used[VC_REC_RECORDS] = vc_word(SLOTS);
	for (unsigned round = 0; round < 30; round++) {
		int descriptor = memfd_create("recording", MFD_CLOEXEC), status;
		pid_t pid;

		assert_int_equal(write(descriptor, made.bytes, made.length), made.length);
		pid = start_writer(descriptor, made.length, &made);
		for (unsigned i = 0; i < 10; i++) {
			convert_descriptor(descriptor, &tables, 1);
			check(&tables, 2);
			whole += !CELL(&tables, process_deaths_missing, 0);
			vc_tables_deinit(&tables);
		}
		kill(pid, SIGSTOP);
		waitpid(pid, &status, WUNTRACED);
		convert_descriptor(descriptor, &tables, 1);
		check(&tables, 1);
		assert_int_equal(CELL(&tables, process_deaths_missing, 0), 0);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		convert_descriptor(descriptor, &again, 1);
		assert_true(same_tables(&tables, &again));
		vc_tables_deinit(&tables);
		vc_tables_deinit(&again);
		close(descriptor);
	}
	printf("%llu of 300 conversions of a running writer without deaths missing\n",
	       (unsigned long long)whole);
	assert_true(whole > 0);
	made_end(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_running_stopped_dead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
