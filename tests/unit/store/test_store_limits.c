/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store where something is short: budget, file system, limits, time to live; and in children.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/inside/budget.h"
#include "capture/inside/thread.h"
#include "tests/unit/store/churn.h"
#include "tests/unit/store/fixture.h"

#define LIVE 30000u

/* What a child found wrong, in words; shared with it. */
static char *said;

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			snprintf(said, 200, "line %d: %s", __LINE__, #condition);                  \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

/* Runs a test in a process of its own, since limits cannot be taken back. */
static void in_child(void (*run)(void))
{
	int status;
	pid_t pid;

	said[0] = '\0';
	pid = fork();
	if (pid == 0) {
		run();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	if (status)
		fail_msg("status %#x, %s", (unsigned)status, said);
}

/*
 * LIVE births, then the frees of all. Whatever was short, the totals are complete, what has a
 * record is found, and lost + kept = all.
 */
static void fill_and_check(bool expect_lost)
{
	static const struct vc_death death;
	uint64_t bytes = 0, kept = 0, records = 0;
	struct vc_claim claim;
	struct mini mini;

	for (uint64_t i = 1; i <= LIVE; i++) {
		bytes += i;
		kept += fixture_allocate(i * 512, i) != VC_NO_RECORD;
		if (i % 1024 == 0)
			vc_store_grow();
	}
	EXPECT(expect_lost ? kept < LIVE : kept == LIVE);
	EXPECT(mini_read(vc_store_path(), &mini));
	EXPECT(mini.live == kept);
	EXPECT(mini.allocated_count == LIVE);
	EXPECT(mini.allocated_bytes == bytes);
	EXPECT(mini.root->device[0].peak == bytes * 17);
	EXPECT(mini_counter(&mini, VC_COUNTER_RECORDS_LOST) == LIVE - kept);
	EXPECT(!expect_lost || mini_counter(&mini, VC_COUNTER_GROWTH_FAILED) > 0);
	mini_close(&mini);
	for (uint64_t i = 1; i <= LIVE; i++) {
		EXPECT(vc_store_find(i * 512, LINEAR, &claim));
		EXPECT(!vc_store_find(i * 512, VC_KINDS(VC_KIND_BLOCK), &claim));
		EXPECT(vc_store_claim(i * 512, LINEAR, &claim));
		EXPECT(claim.copy.size == i);
		EXPECT(!vc_store_claim_found(&(struct vc_claim){
			.record = claim.record, .birth = claim.birth, .copy = claim.copy}));
		vc_store_free_undo(&claim);
		EXPECT(vc_store_claim_found(&claim));
		records += claim.record != VC_NO_RECORD;
		vc_store_free_commit(&claim, &death);
		EXPECT(!vc_store_find(i * 512, LINEAR, &claim));
	}
	EXPECT(records == kept);
	EXPECT(vc_store_device_live(0) == 0);
	EXPECT(mini_read(vc_store_path(), &mini));
	EXPECT(mini.live == 0);
	EXPECT(mini.freed_count == LIVE && mini.freed_bytes == bytes);
	mini_close(&mini);
}

static void tiny_budget(void)
{
	static const uint64_t budget[] = {33000, 40000, 70000, 150000, 200000, 300000, 500000};
	struct stat facts;

	EXPECT(fixture_start_in(fixture_folder(), 1000) < 0);
	EXPECT(!vc_store_ready());
	EXPECT(fixture_allocate(1, 1) == VC_NO_RECORD);
	/* the root alone, without any chunk: nothing breaks */
	EXPECT(fixture_start_in(fixture_folder(), budget[0]) == 0);
	EXPECT(fixture_allocate(1, 1) == VC_NO_RECORD);
	EXPECT(vc_store_device_live(0) == 1);
	EXPECT(fixture_free(1));
	EXPECT(!fixture_free(1));
	EXPECT(vc_store_device_live(0) == 0);
	EXPECT(vc_store_string("x", 1) == 0);
	for (size_t i = 2; i < sizeof(budget) / sizeof(budget[0]); i++) {
		EXPECT(fixture_start_in(fixture_folder(), budget[i]) == 0);
		fill_and_check(true);
		EXPECT(stat(vc_store_path(), &facts) == 0);
		EXPECT((uint64_t)facts.st_size <= budget[i]);
	}
}

static void test_tiny_budget(void **state)
{
	(void)state;
	in_child(tiny_budget);
}

/* ---- full file systems ---- */

static void mount_memory(const char *path, const char *options)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", path, "tmpfs", 0, options)) {
		print_message("SKIPPED: needs the right to mount\n");
		_exit(77);
	}
}

static void full_disk(void)
{
	char path[256], zeroes[4096] = {0};
	struct stat facts;
	int filler;

	snprintf(path, sizeof(path), "%s", fixture_folder());
	mount_memory(path, "size=1m");
	EXPECT(fixture_start_in(path, 64 * MIB) == 0);
	fill_and_check(true);
	/* 1/8 of 1 MiB */
	EXPECT(stat(vc_store_path(), &facts) == 0 && facts.st_size <= (off_t)MIB / 8);

	/* 64 MiB that somebody else fills after the start: growth fails, nothing faults */
	umount(path);
	mount_memory(path, "size=64m");
	EXPECT(fixture_start_in(path, 64 * MIB) == 0);
	strcat(path, "/filler");
	filler = open(path, O_CREAT | O_RDWR, 0600);
	while (write(filler, zeroes, sizeof(zeroes)) > 0)
		;
	fill_and_check(true);
	/* room again: the agent's next growth finds it */
	EXPECT(ftruncate(filler, 0) == 0);
	EXPECT(vc_store_grow());
	EXPECT(fixture_allocate(1, 1) != VC_NO_RECORD);
}

static void test_full_disk(void **state)
{
	(void)state;
	in_child(full_disk);
}

/* ---- limits of the process ---- */

static void file_limit(void)
{
	struct rlimit limit = {512 << 10, 512 << 10};
	struct stat facts;

	EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	EXPECT(fixture_start_in(fixture_folder(), 64 * MIB) == 0);
	fill_and_check(true);
	EXPECT(stat(vc_store_path(), &facts) == 0 && facts.st_size <= 512 << 10);
	limit.rlim_cur = 0;
	EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	EXPECT(fixture_start_in(fixture_folder(), 64 * MIB) < 0);
	EXPECT(!vc_store_ready());
	EXPECT(access(vc_store_path(), F_OK) < 0);
}

static uint64_t address_space(void)
{
	char buffer[256];
	const char *at = buffer;

	EXPECT(vc_read_small("/proc/self/statm", buffer, sizeof(buffer)) > 0);
	return vc_budget_number(&at) * 4096;
}

static void address_limit(void)
{
	static const uint64_t more[] = {64 << 10, 300 << 10, 1 << 20, 3 << 20, 6 << 20, 7 << 20};

	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			struct rlimit limit = {address_space() + more[i], RLIM_INFINITY};

			EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
			if (fixture_start_in(fixture_folder(), 64 * MIB) == 0)
				for (uint64_t n = 1; n <= LIVE; n++)
					fixture_allocate(n * 512, n);
			limit.rlim_cur = RLIM_INFINITY;
			EXPECT(setrlimit(RLIMIT_AS, &limit) == 0);
			if (vc_store_ready()) {
				struct mini mini;
				struct vc_claim claim;

				EXPECT(mini_read(vc_store_path(), &mini));
				EXPECT(mini.allocated_count == LIVE);
				EXPECT(mini.live + mini_counter(&mini, VC_COUNTER_RECORDS_LOST) ==
				       LIVE);
				EXPECT(mini.live == 0 || vc_store_find(512, LINEAR, &claim));
				mini_close(&mini);
			}
			_exit(0);
		}
		EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
	}
}

static void test_limits(void **state)
{
	(void)state;
	in_child(file_limit);
	in_child(address_limit);
}

/* ---- children ---- */

static void try_everything(void)
{
	struct vc_birth birth = fixture_birth(0x1000, 1);
	struct vc_moment moment = {.trigger = "x"};
	struct vc_failure failure = {.device_plus_one = 1};
	struct vc_device_facts facts = {.name = "x"};
	struct vc_claim claim = {0};
	struct vc_death death = {0};
	uint64_t frame = 1;

	EXPECT(!vc_store_ready());
	EXPECT(vc_store_begin(&birth) == VC_NO_RECORD);
	EXPECT(vc_store_commit(VC_NO_RECORD, &birth) == 0);
	vc_store_commit(0, &birth);
	vc_store_abandon(0);
	EXPECT(!vc_store_find(0x1000, LINEAR, &claim));
	EXPECT(!vc_store_find_containing(0x1000, LINEAR, &claim));
	EXPECT(!vc_store_claim(0x1000, LINEAR, &claim));
	EXPECT(!vc_store_claim_found(&claim));
	vc_store_free_commit(&claim, &death);
	vc_store_free_undo(&claim);
	EXPECT(vc_store_reference(0x1000, LINEAR, 1) == 0);
	EXPECT(vc_store_string("y", 1) == 0);
	EXPECT(*vc_store_text(5) == '\0');
	EXPECT(vc_store_stack_known(1, 1) == 0);
	EXPECT(vc_store_stack_add(1, &frame, 1, VC_STACK_COMPLETE) == 0);
	EXPECT(vc_store_module_add("x", 0, 0, 0, NULL, 0) == UINT32_MAX);
	vc_store_thread_add(1, "x");
	vc_store_environment_add("x", "y");
	vc_store_device_add(0, &facts);
	EXPECT(vc_store_device_live(0) == 0);
	vc_store_count(VC_COUNTER_RETRIES);
	EXPECT(vc_store_moment(&moment) == UINT32_MAX);
	EXPECT(vc_store_failure(&failure) == UINT32_MAX);
	vc_store_failure_outcome(0, VC_FAILURE_RETRIED);
	EXPECT(!vc_store_grow());
	vc_store_unlink();
}

static void child_of_recorded(void)
{
	try_everything();
	/* its own recording */
	EXPECT(fixture_start_in(fixture_folder(), 16 * MIB) == 0);
	EXPECT(vc_store_ready());
	for (uint64_t i = 1; i < 1000; i++)
		EXPECT(fixture_allocate(i * 512, 1) != VC_NO_RECORD);
	EXPECT(vc_store_root()->fixed.pid == (uint64_t)getpid());
	EXPECT(vc_thread_block() != NULL);
	vc_store_unlink();
	_exit(0);
}

static void children(void)
{
	char path[512], before[VC_ROOT_BYTES];
	uint64_t size = 64 << 10;
	int status;
	pid_t pid;

	EXPECT(fixture_start_in(fixture_folder(), 16 * MIB) == 0);
	strcpy(path, vc_store_path());
	EXPECT(vc_thread_block() != NULL);
	for (uint64_t i = 1; i < 1000; i++)
		fixture_allocate(i * 512, 1);
	memcpy(before, vc_store_root(), sizeof(before));
	pid = fork();
	if (pid == 0)
		child_of_recorded();
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		child_of_recorded();
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
	EXPECT(memcmp(before, vc_store_root(), sizeof(before)) == 0);
	EXPECT(access(path, F_OK) == 0);

	/* a vfork child shares the memory: what it does is this process's */
	pid = vfork();
	if (pid == 0) {
		if (vc_store_ready())
			fixture_allocate(0x77000000, 1);
		_exit(0);
	}
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
	EXPECT(vc_store_ready());
	EXPECT(fixture_free(0x77000000));
	(void)size;
}

static void test_children(void **state)
{
	(void)state;
	in_child(children);
}

/* A kernel that cannot empty a page in children: the process id is asked for instead. */
static void children_of_old_kernel(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
	int status;
	pid_t pid;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
	EXPECT(fixture_start_in(fixture_folder(), 16 * MIB) == 0);
	EXPECT(vc_store_ready());
	EXPECT(fixture_allocate(1, 1) != VC_NO_RECORD);
	pid = fork();
	if (pid == 0) {
		try_everything();
		_exit(0);
	}
	EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
	EXPECT(vc_store_ready() && fixture_free(1));
}

static void test_children_of_old_kernel(void **state)
{
	(void)state;
	in_child(children_of_old_kernel);
}

/* ---- descriptors ---- */

static unsigned descriptors(void)
{
	unsigned count = 0;

	for (int i = 0; i < 1200; i++)
		count += fcntl(i, F_GETFD) >= 0;
	return count;
}

/* A file that the host opened where ours was must never be written to, nor grown. */
static void stolen_descriptor(void)
{
	struct vc_store_options options = {.name = "x", .budget = 64 * MIB};
	struct stat facts;
	struct mini mini;
	char path[256];
	int copy, file;

	vc_store_forget();
	EXPECT(vc_store_start(&options, &copy) == 0);
	snprintf(path, sizeof(path), "%s/stolen", fixture_folder());
	file = open(path, O_RDWR | O_CREAT, 0600);
	EXPECT(file >= 0);
	for (int i = 0; i < 1200; i++)
		if (i > 2 && i != copy && i != file && fcntl(i, F_GETFD) >= 0)
			EXPECT(dup2(file, i) == i);
	for (uint64_t i = 1; i <= LIVE; i++)
		fixture_allocate(i * 512, 1);
	EXPECT(fstat(file, &facts) == 0 && facts.st_size == 0);
	EXPECT(mini_read_descriptor(copy, &mini));
	EXPECT(mini.live > 0 && mini.live < LIVE);
	EXPECT(mini.allocated_count == LIVE);
	EXPECT(mini_counter(&mini, VC_COUNTER_GROWTH_FAILED) > 0);
	mini_close(&mini);
	vc_store_forget();
	EXPECT(fcntl(file, F_GETFD) >= 0);
}

/* The host changes its folder, and has as many descriptors after growth as before. */
static void moved_folder(void)
{
	char here[256];
	struct mini mini;
	unsigned before = descriptors();

	snprintf(here, sizeof(here), "%s", fixture_folder());
	EXPECT(chdir(here) == 0);
	EXPECT(fixture_start_in(".", 64 * MIB) == 0);
	EXPECT(chdir("/") == 0);
	for (uint64_t i = 1; i <= LIVE; i++)
		EXPECT(fixture_allocate(i * 512, 1) != VC_NO_RECORD);
	EXPECT(descriptors() == before);
	EXPECT(mini_read(vc_store_path(), &mini));
	EXPECT(mini.live == LIVE);
	mini_close(&mini);
	/* another file under that name is not ours */
	EXPECT(rename(vc_store_path(), "/dev/null/x") < 0);
	EXPECT(unlink(vc_store_path()) == 0);
	EXPECT(close(open(vc_store_path(), O_CREAT | O_RDWR, 0600)) == 0);
	for (uint64_t i = 1; i <= LIVE; i++)
		fixture_allocate(i * 1024 + 256, 1);
	EXPECT(vc_store_device_live(0) == 2 * LIVE);
	EXPECT(descriptors() == before);
	{
		struct stat facts;

		EXPECT(stat(vc_store_path(), &facts) == 0 && facts.st_size == 0);
	}
}

static void no_descriptors(void)
{
	struct rlimit limit = {3, 3};

	EXPECT(fixture_start_in(fixture_folder(), 64 * MIB) == 0);
	EXPECT(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	for (uint64_t i = 1; i <= LIVE; i++)
		fixture_allocate(i * 512, 1);
	EXPECT(vc_store_device_live(0) == LIVE);
	for (uint64_t i = 1; i <= LIVE; i++)
		EXPECT(fixture_free(i * 512));
}

static void test_descriptors(void **state)
{
	(void)state;
	in_child(stolen_descriptor);
	in_child(moved_folder);
	in_child(no_descriptors);
}

/* ---- kill at any time ---- */

static void kill_once(struct churn *churn, uint64_t seed)
{
	char path[512];
	uint64_t random = seed * 0x9e3779b97f4a7c15u + 1, outcomes = 0, missing = 0;
	struct mini mini;
	int ready[2];
	pid_t pid;

	memset(churn, 0, sizeof(*churn));
	churn->threads = 4;
	churn->seed = seed;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		if (fixture_start_in(fixture_folder(), 16 * MIB))
			_exit(1);
		strcpy(path, vc_store_path());
		if (write(ready[1], path, sizeof(path)) != sizeof(path))
			_exit(1);
		churn_run(churn);
		_exit(1);
	}
	assert_int_equal(read(ready[0], path, sizeof(path)), sizeof(path));
	close(ready[0]);
	close(ready[1]);
	for (int i = 0; i < 3; i++)
		fixture_random(&random);
	usleep((useconds_t)(random % 20000));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	if (!mini_read(path, &mini))
		fail_msg("seed %llu: %s", (unsigned long long)seed, mini.bad);
	assert_true(mini.filling + mini.freeing <= 4);
	assert_true(mini.freed_writing <= 4);
	assert_true(mini.torn <= 4);
	/* every allocation that had an outcome is there, with its size */
	for (uint64_t slot = 0; slot < mini.root->used[VC_REC_RECORDS] / 17; slot++) {
		const struct vc_record *record = mini_item(&mini, VC_REC_RECORDS, slot, 160);
		uint64_t i = record ? (record->address - churn_address(0)) / 512 : UINT64_MAX;

		if (record && (record->state / 17 & 3) == VC_RECORD_LIVE &&
		    i < CHURN_ADDRESSES && churn->lives[i] == record->size)
			outcomes++;
	}
	for (uint32_t i = 0; i < CHURN_ADDRESSES; i++)
		missing += churn->lives[i] != 0;
	assert_int_equal(outcomes, missing);
	/* what lives beyond that was in flight: one a thread */
	assert_true(mini.live <= outcomes + 4);
	mini_close(&mini);
	unlink(path);
}

static void test_kill(void **state)
{
	struct churn *churn = mmap(NULL, sizeof(*churn), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *text = getenv("STORE_KILLS");
	unsigned times = text ? (unsigned)strtoul(text, NULL, 10) : 30;

	(void)state;
	assert_true(churn != MAP_FAILED);
	vc_store_forget();
	for (unsigned i = 1; i <= times; i++)
		kill_once(churn, i);
	munmap(churn, sizeof(*churn));
}

/* ---- no heap, no system calls ---- */

static uint64_t heap_calls;
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
	__atomic_fetch_add(&heap_calls, 1, __ATOMIC_RELAXED);
	return __libc_malloc(size);
}
void *calloc(size_t count, size_t size)
{
	__atomic_fetch_add(&heap_calls, 1, __ATOMIC_RELAXED);
	return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size)
{
	__atomic_fetch_add(&heap_calls, 1, __ATOMIC_RELAXED);
	return __libc_realloc(old, size);
}

/* From here on every system call but exit kills the process (and clock_gettime, without a vDSO). */
static void forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

static void one_of_each(uint64_t i)
{
	uint64_t frames[4] = {1, 2, 3, i % 100};
	struct vc_claim claim;

	fixture_allocate(0x100000 + i % 500 * 512, 64);
	vc_store_string("a name", 6);
	vc_store_stack_known(i % 100, 4);
	vc_store_stack_add(i % 100, frames, 4, VC_STACK_COMPLETE);
	vc_store_find(1, LINEAR, &claim);
	vc_store_count(VC_COUNTER_RETRIES);
	vc_thread_block();
	EXPECT(fixture_free(0x100000 + i % 500 * 512));
}

static void steady_state(void)
{
	uint64_t before;

	EXPECT(fixture_start_in(fixture_folder(), 16 * MIB) == 0);
	for (uint64_t i = 0; i < 20000; i++) {
		one_of_each(i);
		vc_store_grow();
	}
	before = heap_calls;
	forbid_system_calls();
	for (uint64_t i = 0; i < 20000; i++)
		one_of_each(i);
	EXPECT(heap_calls == before);
}

/* A full recording is as quiet: nothing asks the system again and again. */
static void steady_when_full(void)
{
	EXPECT(fixture_start_in(fixture_folder(), 300000) == 0);
	for (uint64_t i = 1; i < 20000; i++)
		fixture_allocate(i * 512, 1);
	forbid_system_calls();
	for (uint64_t i = 20000; i < 40000; i++)
		EXPECT(fixture_allocate(i * 512, 1) == VC_NO_RECORD);
	EXPECT(vc_store_device_live(0) == 39999);
}

static void test_steady_state(void **state)
{
	uint64_t before = heap_calls;
	void *volatile heap;

	(void)state;
	in_child(steady_state);
	in_child(steady_when_full);
	/* the counter counts */
	heap = malloc(1);
	free(heap);
	assert_true(heap_calls > before);
}

/* ---- budget ---- */

static void test_budget(void **state)
{
	int descriptor = open(fixture_folder(), O_RDONLY | O_DIRECTORY);
	const char *text = "18446744073709551616", *number = "123 4";

	(void)state;
	assert_int_equal(vc_budget(descriptor, 1000), 1000);
	/* never more than 1/8 of the folder's size */
	assert_true(vc_budget(descriptor, UINT64_MAX) < UINT64_MAX / 8);
	assert_true(vc_budget_number(&text) == UINT64_MAX);
	assert_int_equal(vc_budget_number(&number), 123);
	assert_string_equal(number, " 4");
	close(descriptor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tiny_budget), cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_limits),	    cmocka_unit_test(test_children),
		cmocka_unit_test(test_children_of_old_kernel), cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_kill),	    cmocka_unit_test(test_steady_state),
		cmocka_unit_test(test_budget),
	};

	said = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	fixture_folder();
	return cmocka_run_group_tests_name("store limits", tests, NULL, NULL);
}
