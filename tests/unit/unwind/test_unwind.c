/* SPDX-License-Identifier: Apache-2.0 */
/* The unwinder against libgcc: random chains, replay, heap and system calls. */
#include "tests/unit/unwind/test_unwind.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/inside/modules.h"
#include "tests/unit/unwind/judge.h"

/* Counts heap calls of the calling thread; the real ones are glibc's own names. */
static __thread uint64_t heap_calls;
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void __libc_free(void *old);

void *malloc(size_t size)
{
	heap_calls++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	heap_calls++;
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	heap_calls++;
	return __libc_realloc(old, size);
}

void free(void *old)
{
	heap_calls++;
	__libc_free(old);
}

static void expect_no_mismatch(void)
{
	assert_int_equal(judge_counts.mismatches, 0);
	assert_int_equal(judge_counts.hash_mismatches, 0);
}

/* Chains that share a random part with the one before, as allocations of a program do. */
static void *random_chains(void *argument)
{
	struct chain chain = { .length = 0 };
	unsigned int i;

	judge_seed((uintptr_t)argument);
	for (i = 0; i < 3000; i++) {
		unsigned int length = 4 + judge_random(50);
		unsigned int from = chain.length ? judge_random(chain.length) : 0;

		judge_shuffle(&chain, from < length ? from : length, length);
		chain_next(&chain, 0);
	}
	return NULL;
}

static void test_random_chains(void **context)
{
	struct vc_unwind_counts counts;
	pthread_t threads[3];
	unsigned int i;

	(void)context;
	for (i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, random_chains,
						(void *)(uintptr_t)(i + 2)), 0);
	random_chains((void *)1);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	vc_unwind_counts_of(judge_state(), &counts);
	print_message("%llu stacks, %llu frames; main thread: %llu of %llu frames replayed, "
		      "%llu rules decoded\n",
		      (unsigned long long)judge_counts.stacks,
		      (unsigned long long)judge_counts.frames,
		      (unsigned long long)counts.frames_replayed,
		      (unsigned long long)counts.frames,
		      (unsigned long long)counts.rules_decoded);
	expect_no_mismatch();
	assert_true(judge_counts.stacks >= 12000);
	assert_true(counts.frames_replayed > counts.frames / 10);
}

/*
 * Stacks whose inner frames have equal sp and return addresses, but whose outer frames differ: an
 * outer frame of variable size, of one of several functions, makes up for the size of the next, or
 * the next aligns its frame and so takes up the difference. What the other stack left lies
 * unchanged in the unused part of the outer frame, so that only the frame pointer, or the word that
 * an aligned frame finds its caller by, tells the two apart.
 */
static uintptr_t sp_seen[2];
static unsigned int variant;

static void note_sp(struct chain *chain)
{
	sp_seen[variant] = (uintptr_t)__builtin_frame_address(0);
	judge_leaf(chain);
}

static void same_place(unsigned int second_kind, unsigned int total)
{
	static chain_node *const *const lists[] = { chain_o2_nodes, chain_os_nodes,
						    chain_fp_nodes };
	struct chain chain = { .length = 8 };
	unsigned int same = 0;
	unsigned int run;
	unsigned int i;

	for (run = 0; run < 6000; run++) {
		variant = run & 1;
		if (!variant) {
			chain.node[0] = chain_o2_nodes[NODE_BUSY];
			chain.node[2] = chain_o2_nodes[second_kind];
			/* Some of the inner frames save the frame pointer, others leave it. */
			for (i = 3; i < chain.length; i++)
				chain.node[i] = lists[judge_random(2)][judge_random(2) ? NODE_PLAIN
										      : NODE_BUSY];
		}
		chain.node[1] = lists[judge_random(3)][NODE_VARIABLE];
		chain.leaf = note_sp;
		chain.padding[1] = 16 * (1 + judge_random(15));
		chain.padding[2] = total ? total + 16 * judge_random(5) - chain.padding[1] : 0;
		chain_next(&chain, 0);
		same += variant && sp_seen[0] == sp_seen[1];
	}
	expect_no_mismatch();
	print_message("%u of 3000 pairs of stacks were at the same place\n", same);
#if defined(__x86_64__)
	/* Else this did not test what it is for; other processors lay frames out differently. */
	assert_true(same > 300);
#endif
}

static void test_same_place_other_frame_pointer(void **context)
{
	(void)context;
	judge_seed(7);
	same_place(NODE_VARIABLE, 512);
}

static void test_same_place_aligned(void **context)
{
	(void)context;
	judge_seed(8);
	same_place(NODE_ALIGNED, 0);
	same_place(NODE_ALIGNED_VARIABLE, 0);
}

static void test_hash(void **context)
{
	struct vc_unwind_state *state = judge_state_new();
	struct vc_native_stack stack = { 0 };
	uint64_t hash[50];
	unsigned int i;

	(void)context;
	for (i = 0; i < 50; i++) {
		judge_take(state, &stack);
		hash[i] = stack.hash;
	}
	for (i = 1; i < 50; i++)
		assert_true(hash[i] == hash[0]);
	/* Another line of this function is another stack. */
	judge_take(state, &stack);
	assert_true(stack.hash != hash[0]);
	assert_int_equal(stack.end, VC_STACK_COMPLETE);
	assert_true(stack.modules[0] != 0);
	judge_state_free(state);
}

/* Captures in the middle of a chain with everything known. */
static uint64_t heap_calls_seen;
static int errno_seen;

static void count_heap_calls(struct chain *chain)
{
	struct vc_native_stack stack;
	uint64_t before = heap_calls;

	errno = 77;
	judge_take(judge_state(), &stack);
	errno_seen = errno;
	heap_calls_seen += heap_calls - before;
	__asm__ volatile("" : : "r"(chain) : "memory");
}

/* Also with nothing known: the first capture of a thread calls no allocator either. */
static void *first_capture(void *argument)
{
	count_heap_calls(argument);
	return NULL;
}

static void test_no_heap_calls(void **context)
{
	struct chain chain = { .length = 0 };
	uint64_t before = heap_calls;
	pthread_t thread;
	unsigned int i;

	(void)context;
	free(malloc(1));
	assert_true(heap_calls == before + 2); /* the counter counts */
	judge_shuffle(&chain, 0, 30);
	chain.leaf = count_heap_calls;
	for (i = 0; i < 100; i++) {
		chain_next(&chain, 0);
		assert_int_equal(errno_seen, 77);
	}
	chain.length = 0;
	pthread_create(&thread, NULL, first_capture, &chain);
	pthread_join(thread, NULL);
	assert_int_equal(errno_seen, 77);
	assert_int_equal(heap_calls_seen, 0);
}

/* From here on any system call but the end kills the process. */
static void forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(77);
}

static void take_only(struct chain *chain)
{
	struct vc_native_stack stack;

	judge_take(judge_state(), &stack);
	__asm__ volatile("" : : "r"(chain) : "memory");
}

static int run_without_system_calls(bool guilty)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct chain chain = { .length = 0 };
		unsigned int i;

		judge_seed(3);
		judge_shuffle(&chain, 0, 40);
		/* C nodes only: exceptions allocate, and the allocator may call the kernel. */
		for (i = 0; i < chain.length; i++)
			chain.node[i] = chain_o2_nodes[judge_random(NODE_SORT)];
		chain.leaf = take_only;
		chain_next(&chain, 0);
		forbid_system_calls();
		for (i = 0; i < 2000; i++) {
			chain.length = 1 + judge_random(40);
			chain_next(&chain, 0);
		}
		if (guilty)
			syscall(SYS_getpid);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

static void test_no_system_calls(void **context)
{
	int status = run_without_system_calls(false);

	(void)context;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("no seccomp here\n");
		skip();
	}
	assert_int_equal(status, 0);
	assert_true(WIFSIGNALED(run_without_system_calls(true)));
}

static int forget_counts(void **context)
{
	(void)context;
	judge_counts = (struct judge_counts){ 0 };
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, forget_counts)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_random_chains),
		TEST(test_same_place_other_frame_pointer),
		TEST(test_same_place_aligned),
		TEST(test_hash),
		TEST(test_no_heap_calls),
		TEST(test_no_system_calls),
		TEST(test_alternate_stack),
		TEST(test_signal_in_leaf),
		TEST(test_fibers),
		TEST(test_small_thread),
		TEST(test_limit),
		TEST(test_jit_frame),
		TEST(test_state_passed_on),
		TEST(test_stack_that_grew),
		TEST(test_stack_used),
		TEST(test_module_table),
		TEST(test_no_unwind_data),
		TEST(test_swapped_objects),
		TEST(test_damaged_unwind_data),
		TEST(test_objects_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
