/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What importing a PyTorch snapshot costs: every column of every table.
 *
 * usage: bench_torch FILE
 * Prints seconds of processor time, of the clock, and the most memory in KiB.
 */
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "analyze/model.h"

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct vc_problem problem = {0};
	struct vc_wanted_columns wanted = {0};
	struct vc_model model;
	struct rusage usage;
	double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);

	if (argc != 2) {
		fprintf(stderr, "usage: bench_torch FILE\n");
		return 64;
	}
	/* all that the dump holds, and nothing that a view makes of it */
	vc_wanted_small(&wanted);
	vc_wanted_table(&wanted, VC_TABLE_trace);
	if (vc_model_open(argv[1], &wanted, NULL, &model, &problem)) {
		fprintf(stderr, "bench_torch: %s\n", problem.what);
		return 1;
	}
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	start = seconds(CLOCK_MONOTONIC) - start;
	getrusage(RUSAGE_SELF, &usage);
	printf("%.3f %.3f %ld %llu\n", cpu, start, usage.ru_maxrss,
	       (unsigned long long)model.tables.rows[VC_TABLE_trace]);
	vc_model_close(&model);
	return 0;
}
