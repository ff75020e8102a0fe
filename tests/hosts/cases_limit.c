/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits, rights and filters that a program puts on itself. TEST_LIMIT is the number a case takes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

#define NOBODY 65534

static long number(void)
{
	const char *text = getenv("TEST_LIMIT");

	return text ? strtol(text, NULL, 10) : 0;
}

static void limit(int resource, rlim_t value)
{
	struct rlimit both = {value, value};

	HOST_SAY(setrlimit(resource, &both));
}

/*
 * Many live blocks, then all of them freed: the recording has to grow. With TEST_PAUSES its agent gets
 * time to do so even where the machine is busy.
 */
static void grow(void)
{
	static vc_cu_pointer block[30000];
	int failed = 0;

	for (size_t i = 0; i < 30000; i++) {
		if (i % 1000 == 0 && getenv("TEST_PAUSES"))
			usleep(20000);
		failed += cu.cuMemAlloc_v2(&block[i], 512) != 0;
	}
	for (size_t i = 0; i < 30000; i++)
		failed += cu.cuMemFree_v2(block[i]) != 0;
	printf("grown, %d failed\n", failed);
	for (size_t i = 0; i < 1000; i++)
		failed += cu.cuMemAlloc_v2(&block[i], 512) != 0;
	printf("kept 1000, %d failed\n", failed);
}

static void plain(void)
{
	host_begin();
	grow();
	host_state("end");
}

/* ---- address space ---- */

static long space_used(void)
{
	char text[64] = "";
	int descriptor = open("/proc/self/statm", O_RDONLY);

	if (descriptor < 0 || read(descriptor, text, sizeof(text) - 1) <= 0)
		return 0;
	close(descriptor);
	return strtol(text, NULL, 10) * 4096;
}

static void small_space(void)
{
	struct rlimit both;

	host_functions();
	HOST_SAY(cu.cuInit(0));
	fflush(stdout);
	both.rlim_cur = both.rlim_max = (rlim_t)(space_used() + number() * 1024);
	setrlimit(RLIMIT_AS, &both);
	host_begin();
	grow();
}

/* ---- files ---- */

static void small_files(void)
{
	host_functions();
	HOST_SAY(cu.cuInit(0)); /* the simulated driver has files of its own */
	limit(RLIMIT_FSIZE, (rlim_t)number() * 1024);
	host_begin();
	grow();
}

/* The limit comes when the recording is there, and the next growth would pass it. */
static void small_files_later(void)
{
	host_begin();
	limit(RLIMIT_FSIZE, (rlim_t)number() * 1024);
	grow();
}

/* What the exit leaves to be written is written by a thread of the program. */
static void files_main_leaves(void)
{
	small_files_later();
	pthread_exit(NULL);
}

static void no_descriptors(void)
{
	host_functions();
	HOST_SAY(cu.cuInit(0));
	limit(RLIMIT_NOFILE, 3);
	host_begin();
	grow();
}

/* ---- threads ---- */

static void install(const struct sock_filter *filter, size_t count, unsigned int flags)
{
	struct sock_fprog program = {(unsigned short)count,
				     (struct sock_filter *)(uintptr_t)filter};

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	printf("filter %ld\n",
	       syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
	fflush(stdout);
}

static void refuse_threads(void)
{
	static const struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 435 /* clone3 */, 2, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};

	install(filter, sizeof(filter) / sizeof(filter[0]), 0);
}

static void no_threads(void)
{
	refuse_threads();
	host_begin();
	grow();
	host_state("end");
}

static void few_processes(void)
{
	host_functions();
	limit(RLIMIT_NPROC, 1);
	HOST_SAY(setgroups(0, NULL));
	HOST_SAY(setresgid(NOBODY, NOBODY, NOBODY));
	HOST_SAY(setresuid(NOBODY, NOBODY, NOBODY));
	host_begin();
	grow();
}

/* ---- rights ---- */

static void nobody(void)
{
	host_begin();
	usleep(50000);
	/* Reaches all threads of the program, and waits for each. */
	HOST_SAY(setgroups(0, NULL));
	HOST_SAY(setresgid(NOBODY, NOBODY, NOBODY));
	HOST_SAY(setresuid(NOBODY, NOBODY, NOBODY));
	grow();
	host_state("end");
}

static void change_root(void)
{
	const char *folder = getenv("TEST_FOLDER");
	char empty[512];

	host_begin();
	usleep(50000);
	snprintf(empty, sizeof(empty), "%s/empty-%d", folder, getpid());
	mkdir(empty, 0755);
	HOST_SAY(chroot(empty));
	HOST_SAY(chdir("/"));
	grow();
}

/* The recording's name is gone. */
static void removed(void)
{
	struct test_recording recording;

	host_begin();
	usleep(50000);
	if (host_recorded() && test_recording_open(getpid(), &recording) == 0) {
		unlink(recording.path);
		test_recording_close(&recording);
	}
	grow();
}

/* ---- filters ---- */

#define ALLOW(number)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),                                       \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* What the program itself is allowed once it is set up; anything else kills it. */
static const struct sock_filter strict[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_exit), ALLOW(SYS_rt_sigreturn),
	ALLOW(SYS_futex),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

/* The same, and what the recorder's own thread needs to let the recording grow. */
static const struct sock_filter with_agent[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_exit), ALLOW(SYS_rt_sigreturn),
	ALLOW(SYS_futex), ALLOW(SYS_openat), ALLOW(SYS_close), ALLOW(SYS_fstat),
	ALLOW(SYS_fallocate), ALLOW(SYS_prlimit64), ALLOW(SYS_mmap), ALLOW(SYS_munmap),
	ALLOW(SYS_madvise), ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_restart_syscall),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static void filter_self(void)
{
	host_begin();
	printf("churn %d\n", host_churn(3000));
	usleep(300000);
	install(strict, sizeof(strict) / sizeof(strict[0]), 0);
	printf("churn %d\n", host_churn(3000));
	fflush(stdout);
	syscall(SYS_exit_group, 0);
}

static void filter_all(void)
{
	host_begin();
	printf("churn %d\n", host_churn(100));
	usleep(300000);
	install(with_agent, sizeof(with_agent) / sizeof(with_agent[0]),
		SECCOMP_FILTER_FLAG_TSYNC);
	grow();
	fflush(stdout);
	syscall(SYS_exit_group, 0);
}

const struct host_case host_limit_cases[] = {
	{"plain", plain},
	{"small-space", small_space},
	{"small-files", small_files},
	{"files-main-leaves", files_main_leaves},
	{"small-files-later", small_files_later},
	{"no-descriptors", no_descriptors},
	{"no-threads", no_threads},
	{"few-processes", few_processes},
	{"nobody", nobody},
	{"change-root", change_root},
	{"removed", removed},
	{"filter-self", filter_self},
	{"filter-all", filter_all},
	{NULL, NULL},
};
