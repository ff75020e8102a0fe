/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedding main|thread PYTHON SCRIPT [ARGUMENT ...]: a program of its own that has an interpreter in it,
 * in its first thread or in another one, and runs a script there. PYTHON is whose environment is used.
 * When the interpreter has ended, the program goes on with the device: it takes 1 MiB of it by itself.
 */
#include <Python.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int count;
static char **values;
static int status = 1;

static int stop(PyStatus why)
{
	fprintf(stderr, "embedding: %s: %s\n", why.func ? why.func : "", why.err_msg ? why.err_msg : "");
	return 1;
}

static int begin(void)
{
	PyConfig config;
	PyStatus done;

	PyConfig_InitPythonConfig(&config);
	config.parse_argv = 0;
	done = PyConfig_SetBytesString(&config, &config.program_name, values[2]);
	if (!PyStatus_Exception(done))
		done = PyConfig_SetBytesArgv(&config, count - 3, values + 3);
	if (!PyStatus_Exception(done))
		done = Py_InitializeFromConfig(&config);
	PyConfig_Clear(&config);
	return PyStatus_Exception(done) ? stop(done) : 0;
}

static void *run(void *argument)
{
	FILE *script = fopen(values[3], "r");

	if (!script || begin())
		return argument;
	status = PyRun_SimpleFileEx(script, values[3], 1) != 0;
	if (Py_FinalizeEx() != 0)
		status = 120;
	return argument;
}

/* The primary context that PyTorch made is still there. */
static int go_on(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*retain)(void **, int), (*set)(void *), (*take)(unsigned long long *, size_t);
	unsigned long long taken;
	void *context;

	if (!driver)
		return 1;
	*(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&set = dlsym(driver, "cuCtxSetCurrent");
	*(void **)&take = dlsym(driver, "cuMemAlloc_v2");
	return retain(&context, 0) || set(context) || take(&taken, 1 << 20);
}

int main(int number, char **arguments)
{
	pthread_t thread;

	if (number < 4)
		return 64;
	count = number;
	values = arguments;
	if (strcmp(arguments[1], "thread") != 0) {
		run(NULL);
	} else {
		/* its own stack, as a server's workers have */
		pthread_create(&thread, NULL, run, NULL);
		pthread_join(thread, NULL);
	}
	if (status)
		return status;
	return go_on() ? 2 : 0;
}
