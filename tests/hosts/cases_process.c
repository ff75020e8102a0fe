/* SPDX-License-Identifier: Apache-2.0 */
/* What a program sees of itself, its descriptors, children and end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

/* ---- state ---- */

static void state(void)
{
	vc_cu_context context;
	vc_cu_pointer pointer[3];

	host_state("start");
	host_functions();
	HOST_SAY(cu.cuMemAlloc_v2(&pointer[0], 10));
	HOST_SAY(cu.cuInit(0));
	host_state("cuInit");
	HOST_SAY(cu.cuCtxCreate_v2(&context, 0, 0));
	host_state("context");
	for (int i = 0; i < 3; i++)
		HOST_SAY(cu.cuMemAlloc_v2(&pointer[i], 1000));
	HOST_SAY(cu.cuMemFree_v2(pointer[0] + 1));
	HOST_SAY(cu.cuMemFree_v2(pointer[0]));
	HOST_SAY(cu.cuMemFree_v2(pointer[0]));
	HOST_SAY(cu.cuMemAlloc_v2(&pointer[0], (size_t)1 << 50));
	HOST_SAY(cu.cuMemAlloc_v2(NULL, 10));
	host_state("allocated");
	printf("churn %d\n", host_churn(20000)); /* far enough for the recording to grow */
	usleep(300000);
	host_state("grown");
	HOST_SAY(cu.cuCtxDestroy_v2(context));
	HOST_SAY(cu.cuMemAlloc_v2(&pointer[0], 10));
	host_state("end");
}

/* An error of the loader that is pending stays pending through the first and later calls. */
static void loader(void)
{
	vc_cu_context context;
	const char *text;

#ifdef TEST_NOT_LINKED
	host_functions();
	dlsym(RTLD_DEFAULT, "no_such_function");
#else
	dlsym(RTLD_DEFAULT, "no_such_function");
	host_functions();
#endif
	HOST_SAY(cu.cuInit(0));
	HOST_SAY(cu.cuCtxCreate_v2(&context, 0, 0));
	printf("churn %d\n", host_churn(10));
	text = dlerror();
	printf("%s\n", text ? strrchr(text, ':') : "nothing");
	printf("%s\n", dlerror() ? "still" : "nothing");
}

/* ---- descriptors ---- */

/* A reader that waits for the end of a pipe gets it when the program closes its end. */
static void pipes(void)
{
	int end[2], status;
	char byte;
	pid_t pid;

	if (pipe(end))
		return;
	pid = fork();
	if (!pid) {
		close(end[1]);
		alarm(10);
		_exit(read(end[0], &byte, 1) == 0 ? 7 : 8);
	}
	close(end[0]);
	host_begin();
	printf("churn %d\n", host_churn(100));
	close(end[1]);
	waitpid(pid, &status, 0);
	printf("reader %x\n", (unsigned int)status);
	/* Also our own standard output, which the one who runs us waits for. */
	fflush(stdout);
	close(1);
	close(2);
	usleep(100000);
	printf("unseen\n");
}

/* All descriptors are closed by a program that made none of them, then used again. */
static void closes(void)
{
	vc_cu_pointer pointer;
	int copy;

	host_begin();
	HOST_SAY(cu.cuMemAlloc_v2(&pointer, 1000));
	fflush(stdout);
	copy = fcntl(1, F_DUPFD, 50);
	closefrom(0 + 51);
	for (int i = 0; i < 50; i++)
		close(i);
	/* The lowest numbers are the program's. */
	for (int i = 0; i < 5; i++)
		dprintf(copy, "open %d\n", open("/dev/null", O_RDWR));
	dprintf(copy, "churn %d\n", host_churn(30000));
	usleep(300000);
	for (int i = 0; i < 60; i++)
		if (fcntl(i, F_GETFD) >= 0)
			dprintf(copy, "descriptor %d\n", i);
}

static void none_open(void)
{
	vc_cu_pointer pointer;

	close(0);
	close(1);
	host_functions();
	cu.cuInit(0);
	cu.cuCtxSetCurrent(NULL);
	for (int i = 0; i < 3; i++)
		dprintf(2, "open %d\n", open("/dev/null", O_RDWR));
	if (cu.cuDevicePrimaryCtxRetain && cu.cuMemAlloc_v2) {
		vc_cu_context context;

		dprintf(2, "retain %d\n", cu.cuDevicePrimaryCtxRetain(&context, 0));
		dprintf(2, "set %d\n", cu.cuCtxSetCurrent(context));
		dprintf(2, "alloc %d\n", cu.cuMemAlloc_v2(&pointer, 1000));
	}
	for (int i = 0; i < 10; i++)
		if (fcntl(i, F_GETFD) >= 0)
			dprintf(2, "descriptor %d\n", i);
}

/* ---- children ---- */

static void wait_loop(void)
{
	int status, ended = 0;

	host_begin();
	printf("churn %d\n", host_churn(100));
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(i);
		if (pid < 0)
			printf("no fork\n");
	}
	while (waitpid(-1, &status, 0) > 0)
		ended += WEXITSTATUS(status);
	printf("sum of statuses %d, errno %d\n", ended, errno);
	host_state("end");
}

static volatile sig_atomic_t children_seen;

static void on_child(int number)
{
	(void)number;
	while (waitpid(-1, NULL, WNOHANG) > 0)
		children_seen++;
}

static void child_handler(void)
{
	signal(SIGCHLD, on_child);
	host_begin();
	for (int i = 0; i < 10; i++) {
		if (!fork())
			_exit(0);
		printf("churn %d\n", host_churn(100));
	}
	for (int i = 0; i < 100 && children_seen < 10; i++)
		usleep(10000);
	printf("children %d\n", (int)children_seen);
}

/* The usual two forks of a daemon; the grandchild uses the driver. */
static void daemonise(void)
{
	int end[2], status;
	char text[4096];
	ssize_t length;

	if (pipe(end))
		return;
	fflush(stdout);
	if (!fork()) {
		setsid();
		if (fork())
			_exit(0);
		if (chdir("/"))
			_exit(1);
		umask(027);
		dup2(end[1], 1);
		close(end[0]);
		close(end[1]);
		host_begin();
		printf("churn %d\n", host_churn(5000));
		host_state("daemon");
		exit(0);
	}
	close(end[1]);
	wait(&status);
	while ((length = read(end[0], text, sizeof(text))) > 0)
		fwrite(text, 1, (size_t)length, stdout);
	printf("status %x\n", (unsigned int)status);
}

/* ---- ends ---- */

static void *last_thread(void *argument)
{
	(void)argument;
	usleep(200000);
	printf("churn %d\n", host_churn(100));
	return NULL;
}

static void at_end(void)
{
	printf("the end\n");
}

/* The main thread ends first; the process ends with its last thread, and with its exit handlers. */
static void main_leaves(void)
{
	pthread_t thread;

	atexit(at_end);
	host_begin();
	pthread_create(&thread, NULL, last_thread, NULL);
	pthread_exit(NULL);
}

static void *begins(void *argument)
{
	host_begin();
	return last_thread(argument);
}

/* The recording is begun by a thread that the main one does not wait for. */
static void main_leaves_first(void)
{
	pthread_t thread;

	atexit(at_end);
	host_functions();
	pthread_create(&thread, NULL, begins, NULL);
	pthread_detach(thread);
	pthread_exit(NULL);
}

static void *only_begins(void *argument)
{
	host_begin();
	return argument;
}

/* The main thread stays, and ends the process, whichever thread began. */
static void thread_begins(void)
{
	pthread_t thread;

	atexit(at_end);
	host_functions();
	pthread_create(&thread, NULL, only_begins, NULL);
	pthread_join(thread, NULL);
	usleep(100000);
	host_state("begun");
	exit(3);
}

static void main_leaves_alone(void)
{
	atexit(at_end);
	host_begin();
	pthread_exit(NULL);
}

static vc_cu_pointer kept;

static void free_at_exit(void)
{
	vc_cu_pointer pointer;

	HOST_SAY(cu.cuMemFree_v2(kept));
	HOST_SAY(cu.cuMemAlloc_v2(&pointer, 2000));
	HOST_SAY(cu.cuMemFree_v2(pointer));
}

static __attribute__((destructor)) void free_at_unload(void)
{
	if (kept)
		free_at_exit();
}

static void exit_handlers(void)
{
	atexit(free_at_exit);
	host_begin();
	HOST_SAY(cu.cuMemAlloc_v2(&kept, 2000));
	exit(5);
}

static void *churn_for_ever(void *argument)
{
	(void)argument;
	for (;;)
		host_churn(10);
	return NULL;
}

static void churning(int threads)
{
	pthread_t thread;
	vc_cu_context context;

	host_functions();
	HOST_SAY(cu.cuInit(0));
	HOST_SAY(cu.cuDevicePrimaryCtxRetain(&context, 0));
	HOST_SAY(cu.cuCtxSetCurrent(context));
	for (int i = 0; i < threads; i++)
		pthread_create(&thread, NULL, churn_for_ever, NULL);
	usleep(30000);
	fflush(stdout);
}

static void exit_amid(void)
{
	churning(4);
	exit(6);
}

static void quick_exit_amid(void)
{
	churning(4);
	quick_exit(7);
}

static void *exits(void *argument)
{
	(void)argument;
	usleep(20000);
	exit(8);
}

static void other_thread_exits(void)
{
	pthread_t thread;

	churning(2);
	pthread_create(&thread, NULL, exits, NULL);
	for (;;)
		host_churn(10);
}

static void aborts(void)
{
	churning(2);
	abort();
}

static void killed(void)
{
	churning(2);
	raise(SIGTERM);
}

static void executes(void)
{
	churning(2);
	execl("/bin/echo", "echo", "executed", (char *)NULL);
}

const struct host_case host_process_cases[] = {
	{"state", state},
	{"loader", loader},
	{"pipes", pipes},
	{"closes", closes},
	{"none-open", none_open},
	{"wait-loop", wait_loop},
	{"child-handler", child_handler},
	{"daemonise", daemonise},
	{"main-leaves", main_leaves},
	{"main-leaves-alone", main_leaves_alone},
	{"main-leaves-first", main_leaves_first},
	{"thread-begins", thread_begins},
	{"exit-handlers", exit_handlers},
	{"exit-amid", exit_amid},
	{"quick-exit-amid", quick_exit_amid},
	{"other-thread-exits", other_thread_exits},
	{"aborts", aborts},
	{"killed", killed},
	{"executes", executes},
	{NULL, NULL},
};
