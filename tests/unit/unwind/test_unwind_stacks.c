/* SPDX-License-Identifier: Apache-2.0 */
/* The unwinder on alternate stacks, fibers, small and deep stacks, and through unknown code. */
#include "tests/unit/unwind/test_unwind.h"

#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/unwind/judge.h"

static void expect_no_mismatch(uint64_t stacks)
{
	assert_int_equal(judge_counts.mismatches, 0);
	assert_int_equal(judge_counts.hash_mismatches, 0);
	assert_true(judge_counts.stacks >= stacks);
}

/* Chains of nodes that take a known, small amount of stack. */
static void small_chain(struct chain *chain, unsigned int length)
{
	unsigned int i;

	chain->leaf = judge_leaf;
	chain->length = length;
	for (i = 0; i < length; i++) {
		chain->node[i] = chain_o2_nodes[judge_random(NODE_ALIGNED)];
		chain->padding[i] = 16;
	}
}

static void on_signal(int number)
{
	struct chain chain = { .length = 0 };

	(void)number;
	small_chain(&chain, 5);
	chain_next(&chain, 0);
}

static void raise_as_leaf(struct chain *chain)
{
	judge_leaf(chain);
	raise(SIGUSR1);
	judge_leaf(chain);
}

void test_alternate_stack(void **context)
{
	static char memory[64 * 1024];
	stack_t alternate = { .ss_sp = memory, .ss_size = sizeof(memory) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	struct chain chain = { .length = 0 };
	unsigned int i;

	(void)context;
	judge_seed(11);
	assert_int_equal(sigaltstack(&alternate, NULL), 0);
	for (i = 0; i < 200; i++) {
		action.sa_flags = i & 1 ? SA_ONSTACK : 0;
		sigaction(SIGUSR1, &action, NULL);
		judge_shuffle(&chain, 0, 3 + judge_random(20));
		chain.leaf = raise_as_leaf;
		chain_next(&chain, 0);
	}
	signal(SIGUSR1, SIG_DFL);
	alternate.ss_flags = SS_DISABLE;
	sigaltstack(&alternate, NULL);
	expect_no_mismatch(600);
}

/* Signals that strike anywhere: prologues, epilogues, linkage tables. */
static volatile sig_atomic_t struck;

static void on_timer(int number)
{
	(void)number;
	judge_here();
	struck++;
}

static void nothing(struct chain *chain)
{
	__asm__ volatile("" : : "r"(chain) : "memory");
}

void test_signal_in_leaf(void **context)
{
	struct itimerval often = { { 0, 300 }, { 0, 300 } };
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_timer, .sa_flags = SA_RESTART };
	struct chain chain = { .length = 0 };
	unsigned int i;

	(void)context;
	judge_seed(12);
	small_chain(&chain, 20);
	chain.leaf = nothing;
	struck = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (i = 0; i < 100000000 && struck < 300; i++)
		chain_next(&chain, 0);
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_DFL);
	assert_true(struck >= 300);
	expect_no_mismatch(300);
}

enum { FIBERS = 6, FIBER_STACK = 128 * 1024, SWITCHES = 200 };

static ucontext_t fiber[FIBERS];
static ucontext_t home;
static unsigned int switches;

static void switch_as_leaf(struct chain *chain)
{
	unsigned int from;
	unsigned int to;

	(void)chain;
	judge_here();
	while (switches < SWITCHES) {
		from = switches++ % FIBERS;
		to = switches % FIBERS;
		swapcontext(&fiber[from], &fiber[to]);
		judge_here();
	}
}

static void fiber_main(void)
{
	struct chain chain = { .length = 0 };

	judge_shuffle(&chain, 0, 4 + judge_random(8));
	chain.leaf = switch_as_leaf;
	chain_next(&chain, 0);
}

void test_fibers(void **context)
{
	unsigned int round;
	unsigned int i;

	(void)context;
	judge_seed(13);
	/* Stacks of later rounds lie where those of earlier rounds were. */
	for (round = 0; round < 4; round++) {
		char *memory = mmap(NULL, FIBERS * FIBER_STACK, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_true(memory != MAP_FAILED);
		switches = 0;
		for (i = 0; i < FIBERS; i++) {
			getcontext(&fiber[i]);
			fiber[i].uc_stack.ss_sp = memory + i * FIBER_STACK;
			fiber[i].uc_stack.ss_size = FIBER_STACK;
			fiber[i].uc_link = &home;
			makecontext(&fiber[i], fiber_main, 0);
		}
		for (i = 0; i < FIBERS; i++)
			swapcontext(&home, &fiber[(switches + i) % FIBERS]);
		judge_here();
		munmap(memory, FIBERS * FIBER_STACK);
	}
	expect_no_mismatch(4 * SWITCHES);
}

static void *small_thread(void *argument)
{
	/* All but the frames lies outside the stack of this thread. */
	chain_next(argument, 0);
	return NULL;
}

void test_small_thread(void **context)
{
	static struct chain chain;
	pthread_attr_t attributes;
	pthread_t thread;
	unsigned int i;

	(void)context;
	small_chain(&chain, 10);
	pthread_attr_init(&attributes);
	assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN), 0);
	for (i = 0; i < 20; i++) {
		assert_int_equal(pthread_create(&thread, &attributes, small_thread, &chain), 0);
		pthread_join(thread, NULL);
	}
	pthread_attr_destroy(&attributes);
	expect_no_mismatch(20);
}

static struct vc_native_stack last;

static __attribute__((noinline)) void take_as_leaf(struct chain *chain)
{
	judge_take(judge_state(), &last);
	__asm__ volatile("" : : "r"(chain) : "memory");
}

/* Looks at every depth, so that each stack is the last one and a little more. */
static void looking_node(struct chain *chain, unsigned int at)
{
	judge_here();
	chain_next(chain, at);
	judge_here();
}

void test_limit(void **context)
{
	static struct chain chain;
	uint64_t hash;
	unsigned int i;

	(void)context;
	small_chain(&chain, CHAIN_LONGEST - 1);
	for (i = 0; i < 10; i++) {
		chain.length = VC_UNWIND_MAX_FRAMES - 25 + i * 8;
		chain_next(&chain, 0);
	}
	chain.leaf = take_as_leaf;
	chain_next(&chain, 0);
	assert_int_equal(last.end, VC_STACK_LIMIT);
	/* judge_take leaves out its own frame where the walk begins in it. */
	assert_true(last.count >= VC_UNWIND_MAX_FRAMES - 1 && last.count <= VC_UNWIND_MAX_FRAMES);
	hash = last.hash;
	/* The same after a short stack: nothing of that one is mixed in. */
	judge_here();
	chain_next(&chain, 0);
	assert_true(hash == last.hash);
	for (i = 0; i < chain.length; i++)
		chain.node[i] = looking_node;
	chain_next(&chain, 0);
	expect_no_mismatch(11 + 2 * chain.length);
}

/* Code without unwind data that keeps a frame pointer, as a JIT compiler writes it. */
static const uint8_t jit_code[] = {
#if defined(__x86_64__)
	0x55,			/* push %rbp */
	0x48, 0x89, 0xe5,	/* mov %rsp, %rbp */
	0x48, 0x89, 0xf8,	/* mov %rdi, %rax */
	0x48, 0x89, 0xf7,	/* mov %rsi, %rdi */
	0xff, 0xd0,		/* call *%rax */
	0x5d,			/* pop %rbp */
	0xc3,			/* ret */
#elif defined(__aarch64__)
	0xfd, 0x7b, 0xbf, 0xa9, /* stp x29, x30, [sp, -16]! */
	0xfd, 0x03, 0x00, 0x91, /* mov x29, sp */
	0xe2, 0x03, 0x00, 0xaa, /* mov x2, x0 */
	0xe0, 0x03, 0x01, 0xaa, /* mov x0, x1 */
	0x40, 0x00, 0x3f, 0xd6, /* blr x2 */
	0xfd, 0x7b, 0xc1, 0xa8, /* ldp x29, x30, [sp], 16 */
	0xc0, 0x03, 0x5f, 0xd6, /* ret */
#endif
};

static void (*jit_call)(void (*function)(void *), void *argument);

static void in_jit(void *argument)
{
	struct chain *chain = argument;

	chain_next(chain, 3);
}

/* Two such frames, one calling the other. */
static void in_jit_twice(void *argument)
{
	jit_call(in_jit, argument);
	__asm__ volatile("" : : : "memory");
}

static void jit_node(struct chain *chain, unsigned int at)
{
	jit_call(at == 3 ? in_jit : in_jit_twice, chain);
	__asm__ volatile("" : : : "memory");
}

void test_jit_frame(void **context)
{
	struct vc_native_stack here;
	struct chain chain = { .length = 0 };
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t outer[VC_UNWIND_MAX_FRAMES];
	uint64_t hash = 0;
	uint32_t unknown = 0;
	uint32_t i;

	(void)context;
	assert_true(memory != MAP_FAILED);
	memcpy(memory, jit_code, sizeof(jit_code));
	mprotect(memory, 4096, PROT_READ | PROT_EXEC);
	__builtin___clear_cache((char *)memory, (char *)memory + sizeof(jit_code));
	memcpy(&jit_call, &memory, sizeof(memory));
	small_chain(&chain, 6);
	/* Between the frame pointer's setting and its use lies a function that saves it. */
	chain.node[1] = chain_o2_nodes[NODE_BUSY];
	chain.node[2] = jit_node;
	chain.node[4] = chain_o2_nodes[NODE_VARIABLE];
	chain.leaf = take_as_leaf;
	judge_take(judge_state(), &here);
	memcpy(outer, here.pcs, here.count * sizeof(outer[0]));
	chain_next(&chain, 0);
	hash = last.hash;
	assert_int_equal(last.end, VC_STACK_COMPLETE);
	/* Three nodes, the unknown frame, its callee, three nodes, the leaf; or more. */
	assert_true(last.count >= here.count + 3 + 1 + 1 + 3 + 1);
	for (i = 0; i + 1 < here.count; i++)
		assert_true(last.pcs[i] == outer[i]);
	for (i = 0; i < last.count; i++)
		unknown += last.modules[i] == 0;
	assert_int_equal(unknown, 1);
	chain_next(&chain, 0);
	assert_true(last.count != 0 && last.end == VC_STACK_COMPLETE);
	/* The call in this function is another one, the rest is the same. */
	assert_true(hash != last.hash);
	munmap(memory, 4096);
}

/* A state that another thread used before: its bounds and its last stack must not be believed. */
static void *use_state(void *state)
{
	struct vc_native_stack stack;

	judge_take(state, &stack);
	return (void *)(uintptr_t)(stack.end == VC_STACK_COMPLETE && stack.count >= 2);
}

void test_state_passed_on(void **context)
{
	enum { LARGE = 1024 * 1024 };
	struct vc_unwind_state *state = judge_state_new();
	char *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
	struct vc_unwind_counts counts;
	pthread_attr_t attributes;
	pthread_t thread;
	void *good;
	size_t size;
	unsigned int i = 0;

	(void)context;
	assert_true(memory != MAP_FAILED);
	pthread_attr_init(&attributes);
	/* Each stack is the lower half of the one before, and nothing is mapped above it. */
	for (size = LARGE; size >= LARGE / 8; size /= 2) {
		pthread_attr_setstack(&attributes, memory, size);
		assert_int_equal(pthread_create(&thread, &attributes, use_state, state), 0);
		pthread_join(thread, &good);
		assert_non_null(good);
		munmap(memory + size / 2, size / 2);
		vc_unwind_counts_of(state, &counts);
		assert_true(counts.range_lookups == ++i);
	}
	pthread_attr_destroy(&attributes);
	assert_non_null(use_state(state));
	assert_non_null(use_state(state));
	vc_unwind_counts_of(state, &counts);
	assert_true(counts.range_lookups == i + 1);
	judge_state_free(state);
	munmap(memory, LARGE / 16);
}

enum { GROWN = 512 * 1024, NOT_YET_GROWN = 64 * 1024 };

static void large_frames(void)
{
	struct chain chain = { .leaf = judge_leaf };
	unsigned int i;

	/* From the top of the grown stack into the part that was there before. */
	chain.length = (GROWN - NOT_YET_GROWN / 2) / 3100;
	for (i = 0; i < chain.length; i++)
		chain.node[i] = chain_o2_nodes[NODE_LARGE];
	chain_next(&chain, 0);
}

static void run_fiber(char *memory, size_t size, void (*function)(void))
{
	getcontext(&fiber[0]);
	fiber[0].uc_stack.ss_sp = memory;
	fiber[0].uc_stack.ss_size = size;
	fiber[0].uc_link = &home;
	makecontext(&fiber[0], function, 0);
	swapcontext(&home, &fiber[0]);
}

/* A stack lies where a smaller one was whose bounds are still known. On a thread of its own, since
 * bounds are read again the more rarely the more often that was of no use. */
static void *stack_that_grew(void *argument)
{
	char *memory = mmap(NULL, GROWN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	mprotect(memory, NOT_YET_GROWN, PROT_READ | PROT_WRITE);
	run_fiber(memory, NOT_YET_GROWN, judge_here);
	mprotect(memory, GROWN, PROT_READ | PROT_WRITE);
	run_fiber(memory, GROWN, large_frames);
	munmap(memory, GROWN);
	return argument;
}

void test_stack_that_grew(void **context)
{
	pthread_t thread;
	void *good;

	assert_int_equal(pthread_create(&thread, NULL, stack_that_grew, context), 0);
	pthread_join(thread, &good);
	assert_ptr_equal(good, context);
	expect_no_mismatch(2);
}

enum { PAINT = 0xa5, PAINTED = 64 * 1024 };

static struct vc_unwind_state *painted_state;
static uintptr_t painted_from;

static void capture_on_paint(void)
{
	struct vc_native_stack stack;

	painted_from = (uintptr_t)__builtin_frame_address(0);
	judge_take(painted_state, &stack);
	__asm__ volatile("" : : "r"(&stack) : "memory");
}

/* Bytes of stack that a capture takes, with those of the function that asks for it. */
static size_t stack_used(struct vc_unwind_state *state)
{
	uint8_t *memory = mmap(NULL, PAINTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
	size_t i = 0;
	size_t used;

	assert_true(memory != MAP_FAILED);
	memset(memory, PAINT, PAINTED);
	painted_state = state;
	run_fiber((char *)memory, PAINTED, capture_on_paint);
	while (i < PAINTED && memory[i] == PAINT)
		i++;
	used = painted_from - (uintptr_t)(memory + i);
	munmap(memory, PAINTED);
	return used;
}

void test_stack_used(void **context)
{
	struct vc_unwind_state *state = judge_state_new();
	size_t first = stack_used(state);
	size_t later;

	(void)context;
	later = stack_used(state);
	print_message("a first capture takes %zu bytes of stack, a later one %zu\n", first, later);
	assert_true(first > 100 && first <= 2048);
	assert_true(later > 100 && later <= 1024);
	judge_state_free(state);
}
