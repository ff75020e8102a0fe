/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time and memory of `vramcore top` and `diff` on files of N blocks: writes two of them into a
 * folder and runs the command on them.
 *
 * usage: bench_analyze VRAMCORE FOLDER [N ...]      (default 10,000 100,000 1,000,000)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "formats/snapshot_write.h"
#include "tests/unit/analyze/builder.h"

enum { STACKS = 2000, DEPTH = 30, STREAMS = 4 };
#define SEGMENT (UINT64_C(64) << 20)

/** N blocks of 4 KiB and more at 2,000 sites, in segments; the newest are the leak. */
static void write_file(const char *path, uint64_t blocks, uint64_t step)
{
	struct vc_tables tables;
	struct vc_fault fault = {0};
	uint64_t module, stack[STACKS], at = 0x7f0000000000, birth = 0, end = at, seed = 12345;
	int error = vc_tables_init(&tables);

	if (error)
		exit(1);
	build_process(&tables, step, "after-step", step, UINT64_MAX >> 20);
	build_device(&tables, 0, "GPU", "GPU-0", UINT64_C(1) << 40, UINT64_MAX);
	module = build_module(&tables, "/bench/program", "bb");
	for (uint64_t i = 0; i < STACKS; i++) {
		struct build_frame frames[DEPTH + 1] = {0};

		for (uint64_t j = 0; j < DEPTH; j++)
			frames[j] = (struct build_frame){module, 0x1000 + (i * (j < 6) + j) * 16};
		stack[i] = build_stack(&tables, frames);
	}
	for (uint64_t i = 0; i < blocks; i++) {
		uint64_t size;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		size = 512 + (seed >> 40) % 16 * 512;
		if (at + size > end) {
			at = end;
			build_allocation(&tables, (struct build_allocation){
				.kind = VC_KIND_LINEAR, .address = at, .size = SEGMENT,
				.stack = stack[0], .birth = ++birth, .device_plus_one = 1});
			end = at + SEGMENT;
		}
		build_allocation(&tables, (struct build_allocation){
			.kind = VC_KIND_BLOCK, .address = at, .size = size,
			.stack = stack[1 + (seed >> 33) % (STACKS - 1)], .birth = ++birth,
			.step = i * step / blocks, .seconds = i * step / blocks,
			.stream = seed % STREAMS, .device_plus_one = 1});
		at += size;
	}
	unlink(path);
	error = vc_snapshot_write(path, &tables, &fault);
	if (error) {
		fprintf(stderr, "%s: %s\n", path, vc_error_text(error));
		exit(1);
	}
	vc_tables_deinit(&tables);
}

/** Best of three runs; output is thrown away. */
static void measure(const char *what, uint64_t blocks, char *const *arguments)
{
	double best = 1e9;
	long memory = 0;

	for (int i = 0; i < 3; i++) {
		struct timespec start, end;
		struct rusage usage;
		int status;
		pid_t child;

		fflush(stdout);
		clock_gettime(CLOCK_MONOTONIC, &start);
		child = fork();
		if (!child) {
			if (freopen("/dev/null", "w", stdout))
				execv(arguments[0], arguments);
			_exit(127);
		}
		wait4(child, &status, 0, &usage);
		clock_gettime(CLOCK_MONOTONIC, &end);
		if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) {
			fprintf(stderr, "%s failed\n", what);
			exit(1);
		}
		if (best > (double)(end.tv_sec - start.tv_sec) +
				   (double)(end.tv_nsec - start.tv_nsec) / 1e9)
			best = (double)(end.tv_sec - start.tv_sec) +
			       (double)(end.tv_nsec - start.tv_nsec) / 1e9;
		memory = usage.ru_maxrss;
	}
	printf("%-5s %9llu blocks  %6.3f s  %5ld MiB\n", what, (unsigned long long)blocks, best,
	       memory / 1024);
}

int main(int argc, char **argv)
{
	static char *const usual[] = {"10000", "100000", "1000000"};
	char *const *counts = argc > 3 ? argv + 3 : usual;
	int count = argc > 3 ? argc - 3 : 3;

	if (argc < 3) {
		fprintf(stderr, "usage: bench_analyze VRAMCORE FOLDER [N ...]\n");
		return 64;
	}
	for (int i = 0; i < count; i++) {
		uint64_t blocks = strtoull(counts[i], NULL, 10);
		char old[4096], new[4096];

		snprintf(old, sizeof(old), "%s/old.vramcore", argv[2]);
		snprintf(new, sizeof(new), "%s/new.vramcore", argv[2]);
		write_file(old, blocks - blocks / 10, 1000);
		write_file(new, blocks, 50000);
		measure("top", blocks, (char *const[]){argv[1], (char[]){"top"}, new, NULL});
		measure("diff", blocks, (char *const[]){argv[1], (char[]){"diff"}, old, new, NULL});
		if (!getenv("BENCH_KEEP")) {
			unlink(old);
			unlink(new);
		}
	}
	return 0;
}
