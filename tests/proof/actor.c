/* SPDX-License-Identifier: Apache-2.0 */
/*
 * actor WORD...: a program that does what its words say, one after the other.
 *
 *   alloc NAME BYTES    free NAME      memory of the device; a failed alloc says so with "try"
 *   try NAME BYTES                     an alloc that may fail: nothing happens then
 *   fail COUNT BYTES                   allocations that must fail, caught one by one
 *   step N                             tells a step
 *   out TEXT   err TEXT                a line
 *   sleep MILLISECONDS
 *   touch FILE   wait FILE             makes a file; waits until there is one
 *   catch SIGNAL                       says from now on that it got it, instead of dying of it
 *   obey SIGNAL                        ends well from now on when it gets it
 *   close N                            closes a descriptor
 *   work N                             pairs of allocations, to have something to convert
 *   descriptors FILE                   lists the descriptors that are open
 *   init                               only asks whether the driver is there, on one thread
 *   environ                            prints the environment but for what the recorder needs
 *   fork WORD... end                   a child does these, is waited for
 *   exec PROGRAM...   exit N   _exit N   raise N
 *
 * The driver starts with the first word that needs it. Numbers may end in K, M, G.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/vramcore.h"
#include "functions.h"

extern char **environ;

#define NAMES 64

static struct {
	const char *name;
	vc_cu_pointer pointer;
} memory[NAMES];

static void say(const char *what, const char *name)
{
	fprintf(stderr, "actor: %s %s\n", what, name);
	exit(99);
}

static void need_driver(void)
{
	static bool started;
	vc_cu_context context;

	if (started)
		return;
	started = true;
	test_functions_get("link");
	if (cu.cuInit(0) || cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context))
		say("no driver", "");
}

static unsigned long long number(const char *text)
{
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	return *end == 'K' ? value << 10 :
	       *end == 'M' ? value << 20 :
	       *end == 'G' ? value << 30 :
			     value;
}

__attribute__((noinline)) static bool allocate(const char *name, const char *bytes)
{
	need_driver();
	for (size_t i = 0; i < NAMES; i++) {
		if (memory[i].name)
			continue;
		if (cu.cuMemAlloc_v2(&memory[i].pointer, number(bytes)))
			return false;
		memory[i].name = name;
		return true;
	}
	say("too many names", name);
	return false;
}

static void give_back(const char *name)
{
	for (size_t i = 0; i < NAMES; i++)
		if (memory[i].name && !strcmp(memory[i].name, name)) {
			memory[i].name = NULL;
			if (!cu.cuMemFree_v2(memory[i].pointer))
				return;
		}
	say("cannot free", name);
}

__attribute__((noinline)) static void fail(const char *count, const char *bytes)
{
	vc_cu_pointer pointer;

	need_driver();
	for (unsigned long long i = 0; i < number(count); i++)
		if (cu.cuMemAlloc_v2(&pointer, number(bytes)) != 2)
			say("did not fail", bytes);
}

static void work(const char *pairs)
{
	vc_cu_pointer pointer[64];

	need_driver();
	for (unsigned long long i = 0; i < number(pairs); i += 64) {
		for (int k = 0; k < 64; k++)
			if (cu.cuMemAlloc_v2(&pointer[k], 1000))
				say("cannot", "work");
		for (int k = 0; k < 64; k++)
			cu.cuMemFree_v2(pointer[k]);
	}
}

static volatile sig_atomic_t caught;
static void on_signal(int signal_number)
{
	caught = signal_number;
}

static void on_order(int signal_number)
{
	(void)signal_number;
	_exit(0);
}

static void wait_for(const char *file)
{
	for (int i = 0; i < 6000; i++) {
		bool there = !access(file, F_OK);
		char here[4096];

		if (!getcwd(here, sizeof(here))) /* the test is over */
			_exit(0);

		if (caught) {
			printf("got %s\n", sigabbrev_np(caught));
			fflush(stdout);
			caught = 0;
		}
		if (there)
			return;
		usleep(10000);
	}
	say("waited in vain for", file);
}

static void initialise(void)
{
	DIR *tasks;
	int count = 0;

	if (!vramcore_v1_step)
		say("without the recorder:", "init");
	test_functions_get("link");
	if (cu.cuInit(0))
		say("no driver", "");
	tasks = opendir("/proc/self/task");
	while (readdir(tasks))
		count++;
	closedir(tasks);
	if (count != 3) /* and . and .. */
		say("more threads after", "init");
}

static void list_descriptors(const char *file)
{
	bool open_one[64];
	FILE *list;

	for (int i = 0; i < 64; i++)
		open_one[i] = fcntl(i, F_GETFD) >= 0;
	list = fopen(file, "w");
	for (int i = 0; i < 64; i++)
		if (open_one[i])
			fprintf(list, "%d\n", i);
	fclose(list);
}

static void print_environment(void)
{
	for (char **entry = environ; *entry; entry++)
		if (strncmp(*entry, "VRAMCORE_", 9) && strncmp(*entry, "LD_PRELOAD=", 11) &&
		    strncmp(*entry, "NVTX_INJECTION64_PATH=", 22))
			puts(*entry);
}

static char **act(char **word);

static char **child(char **word)
{
	pid_t pid;
	int depth = 1;

	fflush(NULL);
	pid = fork();
	if (!pid) {
		while (*word && strcmp(*word, "end"))
			word = act(word);
		exit(0);
	}
	waitpid(pid, NULL, 0);
	for (; *word && depth; word++)
		depth += !strcmp(*word, "fork") ? 1 : !strcmp(*word, "end") ? -1 : 0;
	return word;
}

/* Words of two operands, then of one, then of none; gives the next word. */
static char **act(char **word)
{
	const char *verb = word[0], *first = word[1] ? word[1] : "";
	const char *second = word[1] && word[2] ? word[2] : "";

	if (!strcmp(verb, "alloc")) {
		if (!allocate(first, second))
			say("no memory for", first);
		return word + 3;
	}
	if (!strcmp(verb, "try"))
		return allocate(first, second), word + 3;
	if (!strcmp(verb, "fail"))
		return fail(first, second), word + 3;
	if (!strcmp(verb, "environ"))
		return print_environment(), word + 1;
	if (!strcmp(verb, "init"))
		return initialise(), word + 1;
	if (!strcmp(verb, "fork"))
		return child(word + 1);
	if (!strcmp(verb, "exec")) {
		fflush(NULL);
		execvp(first, word + 1);
		say("cannot run", first);
	}
	if (!strcmp(verb, "descriptors"))
		list_descriptors(first);
	else if (!strcmp(verb, "free"))
		give_back(first);
	else if (!strcmp(verb, "step"))
		vramcore_step(number(first));
	else if (!strcmp(verb, "out"))
		puts(first);
	else if (!strcmp(verb, "err"))
		fprintf(stderr, "%s\n", first);
	else if (!strcmp(verb, "sleep"))
		usleep((useconds_t)number(first) * 1000);
	else if (!strcmp(verb, "touch"))
		close(open(first, O_WRONLY | O_CREAT, 0600));
	else if (!strcmp(verb, "wait"))
		fflush(NULL), wait_for(first);
	else if (!strcmp(verb, "catch"))
		signal((int)number(first), on_signal);
	else if (!strcmp(verb, "obey"))
		signal((int)number(first), on_order);
	else if (!strcmp(verb, "close"))
		fflush(NULL), close((int)number(first));
	else if (!strcmp(verb, "work"))
		work(first);
	else if (!strcmp(verb, "exit"))
		exit((int)number(first));
	else if (!strcmp(verb, "_exit"))
		fflush(NULL), _exit((int)number(first));
	else if (!strcmp(verb, "raise"))
		fflush(NULL), raise((int)number(first));
	else
		say("what is", verb);
	return word + 2;
}

int main(int argc, char **argv)
{
	(void)argc;
	for (char **word = argv + 1; *word;)
		word = act(word);
	return 0;
}
