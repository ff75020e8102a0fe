/* SPDX-License-Identifier: Apache-2.0 */
/* The unwinder and the table of loaded objects. */
#include "tests/unit/unwind/test_unwind.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/inside/modules.h"
#include "tests/unit/unwind/judge.h"

void test_module_table(void **context)
{
	struct vc_module_view view;
	struct vc_module_view again;
	char executable[PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", executable, sizeof(executable) - 1);

	(void)context;
	assert_true(size > 0);
	executable[size] = '\0';
	assert_int_equal(vc_module_of((uintptr_t)test_module_table, &view), 0);
	assert_string_equal(view.path, executable);
	assert_true(view.low <= (uintptr_t)test_module_table);
	assert_true(view.high > (uintptr_t)test_module_table);
	assert_int_equal(vc_module_at(view.index, &again), 0);
	assert_true(again.low == view.low);
	assert_int_equal(vc_module_of((uintptr_t)chain_o2_nodes[0], &view), 0);
	assert_non_null(strstr(view.path, "/libchain_o2.so"));
	assert_true(view.index != again.index);
	assert_int_equal(vc_module_of((uintptr_t)qsort, &view), 0);
	assert_non_null(strstr(view.path, "libc.so"));
	assert_int_equal(view.build_id_size, 20);
	if (getauxval(AT_SYSINFO_EHDR)) {
		assert_int_equal(vc_module_of(getauxval(AT_SYSINFO_EHDR) + 64, &view), 0);
		assert_non_null(strstr(view.path, "vdso"));
	}
	assert_true(vc_module_of(8, &view) < 0);
	assert_true(vc_module_at(0, &view) < 0);
	assert_true(vc_module_at(vc_modules_count() + 1, &view) < 0);
}

static struct vc_native_stack last;
static uint64_t last_pcs[VC_UNWIND_MAX_FRAMES];

static __attribute__((noinline)) void take_as_leaf(struct chain *chain)
{
	judge_take(judge_state(), &last);
	memcpy(last_pcs, last.pcs, last.count * sizeof(last_pcs[0]));
	__asm__ volatile("" : : "r"(chain) : "memory");
}

void test_no_unwind_data(void **context)
{
	struct chain chain = { .length = 2, .leaf = take_as_leaf };

	(void)context;
	chain.node[0] = chain_no_hdr_nodes[NODE_PLAIN];
	chain.node[1] = chain_o2_nodes[NODE_PLAIN];
	chain_next(&chain, 0);
	assert_int_equal(last.end, VC_STACK_NO_RULE);
	/* The node without, the one with, and the leaf. */
	assert_int_equal(last.count, 3);
	chain_next(&chain, 0);
	assert_int_equal(last.end, VC_STACK_NO_RULE);
	assert_int_equal(last.count, 3);
}

/* What a hook that stands in front of dlclose does. */
static void close_watched(void *handle)
{
	vc_modules_dlclose_begin();
	dlclose(handle);
	vc_modules_dlclose_end();
}

static __attribute__((noinline)) void in_swap(void *argument)
{
	take_as_leaf(argument);
	judge_leaf(argument);
	__asm__ volatile("" : : : "memory");
}

struct swap_seen {
	uint64_t pc;
	uint64_t hash;
	uint32_t module;
};

static struct swap_seen call_in(const char *path, void **handle)
{
	void (*swap_call)(void (*function)(void *), void *argument);
	struct swap_seen seen = { 0, 0, 0 };
	struct chain chain = { .length = 0 };
	unsigned int run;
	void *symbol;

	*handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(*handle);
	symbol = dlsym(*handle, "swap_call");
	assert_non_null(symbol);
	memcpy(&swap_call, &symbol, sizeof(symbol));
	for (run = 0; run < 3; run++) {
		swap_call(in_swap, &chain);
		__asm__ volatile("" : : : "memory");
		assert_int_equal(last.end, VC_STACK_COMPLETE);
	}
	seen.pc = last_pcs[last.count - 3];
	seen.module = last.modules[last.count - 3];
	seen.hash = last.hash;
	return seen;
}

static bool swap_once(void (*close)(void *))
{
	struct swap_seen small;
	struct swap_seen large;
	struct vc_module_view view;
	void *handle;

	small = call_in(LIBRARY_DIRECTORY "/libswap_small.so", &handle);
	close(handle);
	large = call_in(LIBRARY_DIRECTORY "/libswap_large.so", &handle);
	close(handle);
	assert_int_equal(judge_counts.mismatches, 0);
	if (small.pc != large.pc)
		return false;
	assert_true(small.module != large.module);
	assert_true(small.hash != large.hash);
	assert_int_equal(vc_module_at(small.module, &view), 0);
	assert_non_null(strstr(view.path, "libswap_small.so"));
	assert_int_equal(vc_module_at(large.module, &view), 0);
	assert_non_null(strstr(view.path, "libswap_large.so"));
	return true;
}

static void close_unseen(void *handle)
{
	dlclose(handle);
}

void test_swapped_objects(void **context)
{
	uint64_t generation = vc_modules_generation();
	unsigned int at_same_place = 0;
	unsigned int i;

	(void)context;
	for (i = 0; i < 5; i++)
		at_same_place += swap_once(close_unseen);
	vc_modules_watch_dlclose();
	for (i = 0; i < 5; i++)
		at_same_place += swap_once(close_watched);
	assert_true(vc_modules_generation() > generation);
	if (at_same_place == 0) {
		print_message("the loader put no object where another had been\n");
		skip();
	}
}

/* Header and unwind data of the library that the nodes of -O2 are in. */
struct unwind_data {
	uint8_t *low;
	uint8_t *high;
};

static int find_unwind_data(struct dl_phdr_info *info, size_t size, void *argument)
{
	struct unwind_data *data = argument;
	unsigned int i;

	(void)size;
	if (!strstr(info->dlpi_name, "libchain_o2.so"))
		return 0;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		/* The linker puts .eh_frame behind its header, at the end of the segment. */
		if (p->p_type == PT_GNU_EH_FRAME)
			data->low = (uint8_t *)info->dlpi_addr + p->p_vaddr;
	}
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint8_t *low = (uint8_t *)info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && data->low >= low && data->low < low + p->p_filesz)
			data->high = low + p->p_filesz;
	}
	return 1;
}

static struct vc_unwind_state *damaged_state;
static uint32_t wrong_ends;

static __attribute__((noinline)) void take_damaged(struct chain *chain)
{
	struct vc_native_stack stack;

	judge_take(damaged_state, &stack);
	wrong_ends += stack.end != VC_STACK_COMPLETE;
	__asm__ volatile("" : : "r"(chain) : "memory");
}

/*
 * Damages the unwind data of a library that is on the stack: whatever the walk finds, it ends.
 * In a child, since the data stays damaged.
 */
static void damage(void)
{
	struct chain chain = { .length = 12, .leaf = take_damaged };
	struct unwind_data data = { NULL, NULL };
	uint32_t run;
	uint32_t i;

	for (i = 0; i < chain.length; i++) {
		chain.node[i] = chain_o2_nodes[i % NODE_SORT];
		chain.padding[i] = 32;
	}
	dl_iterate_phdr(find_unwind_data, &data);
	if (!data.low || mprotect((void *)((uintptr_t)data.low & ~(uintptr_t)4095),
				  (size_t)(data.high - data.low) + 4096,
				  PROT_READ | PROT_WRITE | PROT_EXEC))
		_exit(1);
	judge_seed(5);
	for (run = 0; run < 6000; run++) {
		uint8_t *at = data.low + judge_random((uint32_t)(data.high - data.low));
		uint8_t old = *at;

		*at = (uint8_t)judge_random(256);
		damaged_state = judge_state_new();
		chain_next(&chain, 0);
		*at = old;
		judge_state_free(damaged_state);
	}
	/* Most damage hits an entry that is not in use, some must be seen. */
	if (wrong_ends < 100 || wrong_ends > run - 100)
		_exit(2);
}

void test_damaged_unwind_data(void **context)
{
	pid_t child = fork();
	int status;

	(void)context;
	if (child == 0) {
		alarm(60);
		damage();
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

/* Two threads look at their stacks while a third loads and unloads. */
static volatile bool loading;

static void *look_on(void *argument)
{
	struct chain chain = { .length = 0 };

	judge_seed((uintptr_t)argument);
	while (loading) {
		judge_shuffle(&chain, chain.length / 2, 5 + judge_random(25));
		chain_next(&chain, 0);
	}
	return NULL;
}

void test_objects_come_and_go(void **context)
{
	uint32_t before = vc_modules_count();
	unsigned int at_same_place = 0;
	pthread_t threads[2];
	unsigned int i;

	(void)context;
	vc_modules_watch_dlclose();
	loading = true;
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_on,
						(void *)(uintptr_t)(i + 20)), 0);
	for (i = 0; i < 100; i++)
		at_same_place += swap_once(close_watched);
	loading = false;
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(judge_counts.mismatches, 0);
	assert_int_equal(judge_counts.hash_mismatches, 0);
	assert_true(judge_counts.stacks > 600);
	/* What comes back as it was is the module it was, so the table does not fill up. */
	assert_true(at_same_place < 90 || vc_modules_count() - before < 100);
}
