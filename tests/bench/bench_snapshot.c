/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size of snapshots and time to write and read them.
 *
 * usage: bench_snapshot [FOLDER]
 *
 * The rows are made up to look like a training process with a caching allocator: 2,000 stacks
 * drawn with a strong preference for some, a few sizes for each stack, addresses that are multiples
 * of 512 scattered over segments, births and times that rise with gaps, three streams, eight
 * threads, 200 module names. "marginal" is the growth of the file per row from 100k to 200k rows.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "formats/snapshot_read.h"
#include "formats/snapshot_write.h"

#define STACKS 2000u
#define FRAMES_PER_STACK 30u
#define MODULES 200u

static uint64_t random_state;

static uint64_t next_random(void)
{
	uint64_t value = random_state += 0x9e3779b97f4a7c15u;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void must(int error, const char *what)
{
	if (!error)
		return;
	fprintf(stderr, "bench_snapshot: %s: %s\n", what, vc_error_text(error));
	exit(1);
}

static uint64_t string(struct vc_tables *tables, const char *format, uint64_t number)
{
	char text[128];
	uint64_t row;
	int length = snprintf(text, sizeof(text), format, number);

	must(vc_tables_string(tables, text, (size_t)length, &row), "string");
	return row;
}

static uint64_t append(struct vc_tables *tables, enum vc_table_index table)
{
	uint64_t row;

	must(vc_tables_append(tables, table, &row), "append");
	return row;
}

#define SET(table, name, row, value) (tables->column[VC_COL_##table##_##name][row] = (value))

static void fill_code(struct vc_tables *tables)
{
	SET(process, pid, append(tables, VC_TABLE_process), 4711);
	for (uint64_t i = 0; i < STACKS; i++) {
		uint64_t stack = append(tables, VC_TABLE_stacks);
		uint64_t site = append(tables, VC_TABLE_sites);

		SET(stacks, first, stack, tables->rows[VC_TABLE_frames]);
		SET(stacks, count, stack, FRAMES_PER_STACK);
		SET(sites, stack, site, stack + 1);
		for (unsigned k = 0; k < FRAMES_PER_STACK; k++) {
			uint64_t frame = append(tables, VC_TABLE_frames);

			SET(frames, offset, frame, k < 8 ? next_random() % (64u << 20) : k * 4096);
		}
	}
}

/* Low numbers are much more frequent than high ones, as call stacks are. */
static uint64_t skewed(uint64_t end)
{
	double at = (double)(next_random() >> 11) * 0x1p-53;

	return (uint64_t)(at * at * at * (double)end);
}

static void fill_allocations(struct vc_tables *tables, uint64_t rows)
{
	static const uint64_t streams[] = {0, 0x55d0c0ffee10, 0x55d0c0ffee80};
	uint64_t birth = 0, time = 1700000000000000000u, step = 0;
	uint64_t modules[MODULES], segment = 0;

	for (uint64_t i = 0; i < MODULES; i++)
		modules[i] = string(tables, "model.layers.%" PRIu64 ".mlp.fc1", i);
	for (uint64_t i = 0; i < rows; i++) {
		uint64_t row = append(tables, VC_TABLE_allocations);
		uint64_t stack = skewed(STACKS), choice = next_random() % 16;
		uint64_t requested = ((stack * 2654435761u) % 100000 + 1) * 64;

		if (choice == 0) /* some call sites ask for more than one size */
			requested += next_random() % 64 * 1024;
		if (next_random() % 64 == 0)
			segment = next_random() % 4096;
		birth += 1 + skewed(40);
		time += 2000 + skewed(200000);
		step += next_random() % 100 == 0;
		SET(allocations, birth, row, birth);
		SET(allocations, state, row, VC_STATE_LIVE);
		SET(allocations, kind, row, VC_KIND_BLOCK);
		SET(allocations, address, row,
		    0x7f2000000000 + (segment << 21) + (next_random() % 4096 << 9));
		SET(allocations, size, row, (requested + 511) & ~511ull);
		SET(allocations, requested, row, requested);
		SET(allocations, device_plus_one, row, 1);
		SET(allocations, context, row, 0x55d0deadbe00);
		SET(allocations, stream, row, streams[stack % 64 == 0 ? next_random() % 3 : 0]);
		SET(allocations, parent, row, segment + 1);
		SET(allocations, time, row, time);
		SET(allocations, step, row, step);
		SET(allocations, thread, row, 4711 + (stack % 8 == 0 ? next_random() % 8 : 0));
		SET(allocations, stack, row, stack + 1);
		SET(allocations, module, row, modules[stack % MODULES]);
		SET(allocations, site, row, stack + 1);
		SET(allocations, flags, row, VC_KIND_BLOCK);
		SET(allocations, call, row, modules[0]);
	}
}

struct result {
	uint64_t bytes;
	double write, read_all, read_eight;
};

static void want_eight(struct vc_snapshot_options *options)
{
	vc_snapshot_want(options, VC_COL_allocations_address);
	vc_snapshot_want(options, VC_COL_allocations_size);
	vc_snapshot_want(options, VC_COL_allocations_kind);
	vc_snapshot_want(options, VC_COL_allocations_state);
	vc_snapshot_want(options, VC_COL_allocations_device_plus_one);
	vc_snapshot_want(options, VC_COL_allocations_stack);
	vc_snapshot_want(options, VC_COL_allocations_site);
	vc_snapshot_want(options, VC_COL_allocations_parent);
}

static double read_once(const char *path, const struct vc_snapshot_options *options)
{
	struct vc_faults faults = {0};
	struct vc_tables tables;
	double start = seconds(), taken;

	must(vc_snapshot_read(path, options, &tables, &faults), "read");
	taken = seconds() - start;
	if (faults.count) {
		fprintf(stderr, "bench_snapshot: faults in %s\n", path);
		exit(1);
	}
	vc_tables_deinit(&tables);
	return taken;
}

static double read_best(const char *path, const struct vc_snapshot_options *options)
{
	double best = 1e9;

	for (unsigned i = 0; i < 5; i++) {
		double taken = read_once(path, options);

		best = taken < best ? taken : best;
	}
	return best;
}

static struct result measure(const char *folder, uint64_t rows)
{
	struct vc_snapshot_options eight = {0};
	struct result result = {0};
	struct vc_tables tables;
	struct stat status;
	char path[4096];
	double start;

	random_state = 1;
	must(vc_tables_init(&tables), "tables");
	fill_code(&tables);
	fill_allocations(&tables, rows);
	snprintf(path, sizeof(path), "%s/bench.%d.%" PRIu64 ".vramcore", folder, (int)getpid(),
		 rows);
	start = seconds();
	must(vc_snapshot_write(path, &tables, NULL), path);
	result.write = seconds() - start;
	vc_tables_deinit(&tables);
	if (!stat(path, &status))
		result.bytes = (uint64_t)status.st_size;
	want_eight(&eight);
	result.read_all = read_best(path, NULL);
	result.read_eight = read_best(path, &eight);
	unlink(path);
	return result;
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = {10000, 100000, 200000, 1000000};
	struct result results[4];

	printf("%10s %12s %10s %12s %14s\n", "rows", "bytes", "write s", "read all s",
	       "read 8 cols s");
	for (unsigned i = 0; i < 4; i++) {
		results[i] = measure(argc > 1 ? argv[1] : "/tmp", sizes[i]);
		printf("%10" PRIu64 " %12" PRIu64 " %10.3f %12.3f %14.3f\n", sizes[i],
		       results[i].bytes, results[i].write, results[i].read_all,
		       results[i].read_eight);
	}
	printf("marginal bytes a row, 100k to 200k: %.2f\n",
	       (double)(results[2].bytes - results[1].bytes) / 100000);
	return 0;
}
