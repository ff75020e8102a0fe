/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: on every seed, and on mutations of the seeds that are the
 * same in every run.
 *
 * usage: fuzz_NAME [--mutations COUNT] SEED...
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED_BYTES_MAX (1u << 24)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static uint64_t state = 1;

static uint64_t next_random(void)
{
	uint64_t value = state += 0x9e3779b97f4a7c15u;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

/* Changes a few bytes in one of several ways; may shorten. */
static size_t mutate(uint8_t *bytes, size_t length)
{
	static const uint8_t edges[] = {0, 1, 0x7f, 0x80, 0xff};

	for (unsigned changes = 1 + next_random() % 4; length && changes; changes--) {
		size_t at = next_random() % length, other = next_random() % length;
		size_t run = 1 + next_random() % 8;

		if (next_random() % 2) /* the beginning of a file decides more */
			at %= 4096;
		if (at >= length)
			at = 0;
		run = run > length - at ? length - at : run;
		switch (next_random() % 5) {
		case 0:
			bytes[at] ^= (uint8_t)(1u << next_random() % 8);
			break;
		case 1:
			bytes[at] = edges[next_random() % sizeof(edges)];
			break;
		case 2:
			memset(bytes + at, edges[next_random() % sizeof(edges)], run);
			break;
		case 3:
			run = run > length - other ? length - other : run;
			memmove(bytes + at, bytes + other, run);
			break;
		default:
			if (next_random() % 8 == 0)
				length = at;
			break;
		}
	}
	return length;
}

static void run_seed(const char *path, unsigned long mutations)
{
	uint8_t *seed = malloc(SEED_BYTES_MAX), *copy;
	FILE *file = fopen(path, "rb");
	size_t length;

	if (!file || !seed) {
		perror(path);
		exit(1);
	}
	length = fread(seed, 1, SEED_BYTES_MAX, file);
	fclose(file);
	LLVMFuzzerTestOneInput(seed, length);
	for (unsigned long i = 0; i < mutations; i++) {
		size_t changed;

		copy = malloc(length ? length : 1); /* as long as it is: reads past it show */
		if (!copy)
			exit(1);
		memcpy(copy, seed, length);
		changed = mutate(copy, length);
		LLVMFuzzerTestOneInput(copy, changed);
		free(copy);
	}
	free(seed);
}

int main(int argc, char **argv)
{
	unsigned long mutations = 0, seeds = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--mutations") && i + 1 < argc) {
			mutations = strtoul(argv[++i], NULL, 10);
			continue;
		}
		run_seed(argv[i], mutations);
		seeds++;
	}
	printf("%lu seeds, %lu mutations each\n", seeds, mutations);
	return seeds ? 0 : 64;
}
