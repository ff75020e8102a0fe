/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What standing in front of calls of which only the result is looked at costs: the simulated
 * driver's own functions against the recorder's wrappers, in turn, in one process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 401
#define CALLS 5000

typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			       unsigned, void *, void **, void **);
typedef int (*query_function)(void *);

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* What else runs on the machine only adds: the least of all turns is the cost. */
static double least(const double *values)
{
	double found = values[0];

	for (int i = 1; i < ROUNDS; i++)
		if (values[i] < found)
			found = values[i];
	return found;
}

static double launches(launch_function launch, void *function)
{
	double start = now();

	for (int i = 0; i < CALLS; i++)
		if (launch(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL))
			exit(1);
	return (now() - start) / CALLS;
}

static double queries(query_function query)
{
	double start = now();

	for (int i = 0; i < CALLS; i++)
		if (query(NULL))
			exit(1);
	return (now() - start) / CALLS;
}

static void *function_of(void *library, const char *name)
{
	void *function = dlsym(library, name);

	if (!function)
		exit(1);
	return function;
}

static void report(const char *what, const double *with, const double *without)
{
	double driver = least(without), both = least(with);

	printf("%-16s driver %6.2f ns, with the wrapper %6.2f ns, added %5.2f ns\n", what, driver, both,
	       both - driver);
}

/* bench_results DRIVER RECORDER: not preloaded, so that dlsym gives each library's own. */
int main(int argc, char **argv)
{
	void *driver = argc > 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	void *recorder = argc > 2 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;
	double with[ROUNDS], without[ROUNDS];
	launch_function launch[2];
	query_function query[2];
	int (*call)(unsigned), (*create)(void **, unsigned, int), (*load)(void **, const void *);
	int (*get)(void **, void *, const char *);
	void *context, *module, *function;

	if (!driver || !recorder) {
		fprintf(stderr, "usage: bench_results DRIVER RECORDER\n");
		return 64;
	}
	*(void **)&call = function_of(driver, "cuInit");
	*(void **)&create = function_of(driver, "cuCtxCreate_v2");
	*(void **)&load = function_of(driver, "cuModuleLoadData");
	*(void **)&get = function_of(driver, "cuModuleGetFunction");
	if (call(0) || create(&context, 0, 0) || load(&module, "code") ||
	    get(&function, module, "kernel"))
		return 1;
	*(void **)&launch[0] = function_of(driver, "cuLaunchKernel");
	*(void **)&launch[1] = function_of(recorder, "cuLaunchKernel");
	*(void **)&query[0] = function_of(driver, "cuStreamQuery");
	*(void **)&query[1] = function_of(recorder, "cuStreamQuery");
	if (launch[0] == launch[1])
		return 1;
	for (int i = 0; i < ROUNDS; i++) {
		without[i] = launches(launch[0], function);
		with[i] = launches(launch[1], function);
	}
	report("cuLaunchKernel", with, without);
	for (int i = 0; i < ROUNDS; i++) {
		without[i] = queries(query[0]);
		with[i] = queries(query[1]);
	}
	report("cuStreamQuery", with, without);
	return 0;
}
