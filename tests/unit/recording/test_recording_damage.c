/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged recordings: every bit flipped, cut at every length, random damage, hostile sizes. Damage
 * leads to the same tables, or to a fault, or to an error; never to other numbers without a word.
 * Every fifth bit and every third length; VRAMCORE_FULL=1 takes all, flips bits for three moments and
 * damages 100,000 recordings.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "recording_test.h"

/* Hundreds of thousands of conversions: short stacks of allocations keep them affordable. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "malloc_context_size=1:quarantine_size_mb=4";
}

static const struct vc_convert_options moments[] = {
	{.at = VC_AT_NOW},
	{.at = VC_AT_MOMENT, .number = 1},
	{.at = VC_AT_NUMBER, .number = 25},
};

static int is_long(void)
{
	return getenv("VRAMCORE_FULL") != NULL;
}

static void test_every_bit(void **state)
{
	struct made_recording made;
	uint64_t same = 0, faults_seen = 0, errors = 0;
	unsigned last = is_long() ? 3 : 1;

	(void)state;
	made_golden(&made);
	for (unsigned m = 0; m < last; m++) {
		struct vc_tables whole;

		convert_whole(&made, &moments[m], &whole);
		for (uint64_t bit = 0; bit < made.length * 8; bit += is_long() ? 1 : 5) {
			struct vc_faults faults = {0};
			struct vc_tables tables;
			int error;

			made.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			error = convert_made(&made, &moments[m], &tables, &faults);
			made.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			if (error) {
				assert_true(error < 0 && faults.count);
				errors++;
				continue;
			}
			if (faults.count) {
				assert_string_not_equal(faults.kept[0].section, "");
				faults_seen++;
			} else {
				if (!same_tables(&tables, &whole))
					fail_msg("bit %u of byte %llu changes the tables",
						 (unsigned)(bit % 8),
						 (unsigned long long)bit / 8);
				same++;
			}
			vc_tables_deinit(&tables);
		}
		vc_tables_deinit(&whole);
	}
	printf("bits: %llu same, %llu faults, %llu errors\n", (unsigned long long)same,
	       (unsigned long long)faults_seen, (unsigned long long)errors);
	assert_true(same && faults_seen > 5000 && errors > 20);
	made_end(&made);
}

/* Where a chunk is whole before the cut all of its items are given. */
static void check_cut(const struct made_recording *made, const struct vc_tables *whole,
		      const struct vc_tables *tables)
{
	static const struct {
		enum vc_recording_table from;
		enum vc_table_index to;
	} pair[] = {
		{VC_REC_MODULES, VC_TABLE_modules},   {VC_REC_SITES, VC_TABLE_sites},
		{VC_REC_THREADS, VC_TABLE_threads},   {VC_REC_MOMENTS, VC_TABLE_moments},
		{VC_REC_FAILURES, VC_TABLE_failures}, {VC_REC_ENVIRONMENT, VC_TABLE_environment},
		{VC_REC_FREED, VC_TABLE_freed},
	};

	for (size_t i = 0; i < sizeof(pair) / sizeof(*pair); i++)
		if (made->base[pair[i].from] + 4096 <= made->length)
			assert_int_equal(tables->rows[pair[i].to], whole->rows[pair[i].to]);
}

static void test_every_length(void **state)
{
	struct made_recording made;
	struct vc_tables whole;
	uint64_t length, partial = 0, stride = is_long() ? 1 : 3;

	(void)state;
	made_golden(&made);
	convert_whole(&made, NULL, &whole);
	length = made.length;
	for (made.length = 0; made.length < length; made.length += stride) {
		/* a copy that ends where the file does, so that a sanitizer sees a read past it */
		struct made_recording cut = made;
		struct vc_faults faults = {0};
		struct vc_tables tables;
		int error;

		cut.bytes = malloc(made.length + 1);
		memcpy(cut.bytes, made.bytes, made.length);
		error = convert_made(&cut, NULL, &tables, &faults);
		free(cut.bytes);
		if (made.length < VC_ROOT_BYTES) {
			assert_int_equal(error, made.length < 16 ? VC_E_NOT_A_RECORDING :
								   VC_E_TRUNCATED);
			assert_int_equal(faults.kept[0].offset, made.length);
			assert_string_equal(faults.kept[0].section, "root");
			continue;
		}
		assert_int_equal(error, 0);
		assert_int_equal(faults.kept[0].error, VC_E_TRUNCATED);
		assert_string_not_equal(faults.kept[0].section, "");
		assert_int_equal(faults.kept[0].offset, made.length);
		check_cut(&made, &whole, &tables);
		vc_tables_deinit(&tables);
		partial++;
	}
	assert_int_equal(partial, (length - 1) / stride - (VC_ROOT_BYTES - 1) / stride);
	made.length = length;
	vc_tables_deinit(&whole);
	made_end(&made);
}

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Makes all checks fit again, so that damage behind them is seen. */
static void mend(struct made_recording *made)
{
	struct vc_root *root = made->root;

	root->fixed_check =
		vc_check_words((const uint64_t *)&root->fixed, sizeof(root->fixed) / 8, 0);
	for (uint32_t i = 0; i < 16; i++)
		if (root->chunk[i].check)
			root->chunk[i].check =
				vc_check_words((const uint64_t *)&root->chunk[i], 7, i);
	for (uint32_t i = 0; i < made->items[VC_REC_RECORDS]; i++) {
		struct vc_record *record = made_record_at(made, i);

		record->state -= record->state % VC_WORD_FACTOR;
		record->check = vc_check_words(&record->address, VC_RECORD_CHECKED_WORDS,
					       vc_state_number(record->state));
	}
	for (uint32_t i = 0; i < made->items[VC_REC_FREED]; i++) {
		struct vc_freed *freed = made_freed_at(made, i);

		freed->sequence -= freed->sequence % VC_WORD_FACTOR;
		freed->check = vc_check_words(&freed->birth, sizeof(*freed) / 8 - 2,
					      vc_word_value(freed->sequence) / 2 - 1);
	}
	for (uint64_t *word = &root->host; word < root->reserved; word++)
		*word -= *word % VC_WORD_FACTOR;
}

static void damage(struct made_recording *made, uint64_t *seed)
{
	unsigned changes = 1 + random_next(seed) % 40;

	for (unsigned i = 0; i < changes; i++) {
		/* half of the changes near the front, where sizes and places stand */
		uint64_t range = random_next(seed) % 2 ? made->length : 12288;
		uint64_t at = random_next(seed) % range / 8 * 8, word;

		switch (random_next(seed) % 5) {
		case 0:
			word = random_next(seed);
			break;
		case 1:
			word = UINT64_MAX >> random_next(seed) % 64;
			break;
		case 2:
			word = vc_word(random_next(seed) % 10000);
			break;
		case 3:
			word = random_next(seed) % 20 * 4096;
			break;
		default:
			word = 0;
		}
		memcpy(made->bytes + at, &word, 8);
	}
}

static void test_random_damage(void **state)
{
	unsigned rounds = is_long() ? 100000 : 3000, converted = 0;
	struct made_recording made, damaged;
	uint64_t seed = 88172645463325252u;

	(void)state;
	made_golden(&made);
	damaged = made;
	for (unsigned round = 0; round < rounds; round++) {
		struct vc_faults faults = {0};
		struct vc_tables tables;
		struct vc_fault fault;

		damaged.bytes = malloc(made.length);
		damaged.root = (struct vc_root *)damaged.bytes;
		memcpy(damaged.bytes, made.bytes, made.length);
		damage(&damaged, &seed);
		if (round % 2) {
			memcpy(damaged.root->magic, VC_RECORDING_MAGIC, 16);
			damaged.root->fixed = made.root->fixed;
			mend(&damaged);
		}
		if (!convert_made(&damaged, &moments[round % 3], &tables, &faults)) {
			assert_int_equal(vc_tables_check(&tables, &fault), 0);
			vc_tables_deinit(&tables);
			converted++;
		}
		free(damaged.bytes);
	}
	printf("random damage: %u of %u converted\n", converted, rounds);
	assert_true(converted > rounds / 4);
	made_end(&made);
}

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t peak_memory(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss << 10;
}

/* A million records in slots that were used again and again: births in no order. */
static void test_million(void **state)
{
	const uint32_t count = 1000000;
	struct made_sizes sizes = {{0}};
	struct made_recording made;
	struct vc_tables tables;
	uint64_t before;
	double began, took;

	(void)state;
	sizes.items[VC_REC_RECORDS] = count;
	sizes.items[VC_REC_FREED] = 16;
	made_start(&made, &sizes);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t birth = (uint64_t)i * 7919 % count + 1;

		made_record(&made, i, birth, VC_RECORD_LIVE, 0, made_linear(birth));
	}
	made.root->clock = vc_word(count);
	before = peak_memory();
	began = seconds(CLOCK_PROCESS_CPUTIME_ID);
	convert_whole(&made, NULL, &tables);
	took = seconds(CLOCK_PROCESS_CPUTIME_ID) - began;
	assert_int_equal(tables.rows[VC_TABLE_allocations], count);
	for (uint32_t i = 0; i < count; i++)
		if (CELL(&tables, allocations_birth, i) != i + 1u ||
		    CELL(&tables, allocations_size, i) != 0x100001u + i)
			fail_msg("row %u", i);
	printf("a million records: %.2f s of processor, %llu MiB\n", took,
	       (unsigned long long)(peak_memory() - before) >> 20);
#ifndef __SANITIZE_ADDRESS__
	assert_true(took < 1.5);
	assert_true(peak_memory() - before < 260u << 20);
#endif
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* Every record filling and torn: waiting for writers that never come must end. */
static void test_all_torn(void **state)
{
	struct made_sizes sizes = {{0}};
	struct made_recording made;
	struct vc_faults faults = {0};
	struct vc_tables tables;
	double began;

	(void)state;
	sizes.items[VC_REC_RECORDS] = 20000;
	sizes.items[VC_REC_FREED] = 4;
	made_start(&made, &sizes);
	for (uint32_t i = 0; i < 20000; i++) {
		made_record(&made, i, 5, VC_RECORD_FILLING, 0, made_linear(i));
		made_record_at(&made, i)->size++;
	}
	made.root->clock = vc_word(10);
	began = seconds(CLOCK_MONOTONIC);
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), 0);
	assert_int_equal(faults.count, 20000);
	assert_int_equal(tables.rows[VC_TABLE_allocations], 20000);
	assert_true(seconds(CLOCK_MONOTONIC) - began < 20);
	vc_tables_deinit(&tables);
	made_end(&made);
}

/* Stacks whose checks fit but that lie inside one another, to make much of little. */
static void test_overlapping_stacks(void **state)
{
	const uint32_t units = 8000;
	struct made_sizes sizes = {{0}};
	struct made_recording made;
	struct vc_faults faults = {0};
	struct vc_tables tables;
	uint64_t *unit;

	(void)state;
	sizes.items[VC_REC_RECORDS] = units;
	sizes.items[VC_REC_STACKS] = units;
	sizes.items[VC_REC_FREED] = 4;
	made_start(&made, &sizes);
	unit = (uint64_t *)(made.bytes + made.base[VC_REC_STACKS]);
	/* from the last on: a head holds the check and reaches over all later heads */
	for (uint32_t at = units - 3; at > 0; at -= 3) {
		uint64_t count = units - at - 3;

		if (count > 4000)
			count = 4000;
		unit[at + 2] = count;
		unit[at] = vc_check_words(unit + at + 1, 2 + count, at);
		if (at < 4)
			break;
	}
	for (uint32_t i = 0; i < units / 3; i++) {
		struct vc_record record = made_linear(i + 1);

		record.stack = units - 3 - 3 * i;
		made_record(&made, i, i + 1, VC_RECORD_LIVE, 0, record);
	}
	made.root->used[VC_REC_STACKS] = vc_word(units);
	made.root->clock = vc_word(units);
	assert_int_equal(convert_made(&made, NULL, &tables, &faults), VC_E_LIMIT);
	assert_true(has_fault(&faults, VC_E_LIMIT, ""));
	made_end(&made);
}

static void test_limits(void **state)
{
	struct vc_convert_options options = {.rows_max = 3};
	struct vc_recording_bytes bytes = {0};
	struct vc_recording_source source;
	struct vc_faults faults = {0};
	struct made_recording made;
	struct vc_tables tables;

	(void)state;
	made_golden(&made);
	assert_int_equal(convert_made(&made, &options, &tables, &faults), VC_E_LIMIT);
	bytes.bytes = made.bytes;
	bytes.length = made.length;
	vc_recording_source_memory(&bytes, &source);
	source.length = VC_RECORDING_BYTES_MAX + 1;
	assert_int_equal(vc_convert(&source, NULL, &tables, &faults), VC_E_LIMIT);
	made_end(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_bit),	cmocka_unit_test(test_every_length),
		cmocka_unit_test(test_random_damage),	cmocka_unit_test(test_million),
		cmocka_unit_test(test_all_torn),	cmocka_unit_test(test_overlapping_stacks),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
