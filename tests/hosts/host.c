/* SPDX-License-Identifier: Apache-2.0 */
/* host CASE: one program that is to be the same with and without the recorder. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int host_failures;
static uintptr_t recorder_low, recorder_high;

static int find_recorder(struct dl_phdr_info *info, size_t size, void *argument)
{
	(void)size;
	(void)argument;
	if (!strstr(info->dlpi_name, "libvramcore.so"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		recorder_low = info->dlpi_addr + segment->p_vaddr;
		recorder_high = recorder_low + segment->p_memsz;
	}
	return 1;
}

bool host_recorded(void)
{
	return recorder_high != 0;
}

bool host_in_recorder(uintptr_t address)
{
	return address >= recorder_low && address < recorder_high;
}

bool host_long(void)
{
	return getenv("VRAMCORE_FULL") && *getenv("VRAMCORE_FULL") == '1';
}

uint64_t host_counter(enum vc_counter counter)
{
	struct test_recording recording;
	uint64_t value;

	if (!host_recorded() || test_recording_open(getpid(), &recording) != 0)
		return 0;
	value = test_counter(&recording, counter);
	test_recording_close(&recording);
	return value;
}

void host_functions(void)
{
#ifdef TEST_NOT_LINKED
	const char *way = "dlsym";
#else
	const char *way = "link";
#endif

	if (!test_functions_get(way)) {
		printf("no driver\n");
		exit(70);
	}
}

void host_begin(void)
{
	vc_cu_context context;

	host_functions();
	HOST_SAY(cu.cuInit(0));
	HOST_SAY(cu.cuCtxCreate_v2(&context, 0, 0));
}

__attribute__((noinline)) int host_churn(int rounds)
{
	int failed = 0;

	for (int i = 0; i < rounds; i++) {
		vc_cu_pointer block[4];

		for (int k = 0; k < 4; k++)
			failed += cu.cuMemAlloc_v2(&block[k], (size_t)(1000 + k)) != 0;
		for (int k = 0; k < 4; k++)
			failed += cu.cuMemFree_v2(block[k]) != 0;
	}
	return failed;
}

int main(int argc, char **argv)
{
	static const struct host_case *const lists[] = {host_signal_cases, host_process_cases,
							host_memory_cases, host_limit_cases,
							host_quiet_cases, host_life_cases};

	dl_iterate_phdr(find_recorder, NULL);
	for (size_t i = 0; argc > 1 && i < sizeof(lists) / sizeof(lists[0]); i++)
		for (const struct host_case *at = lists[i]; at->name; at++)
			if (!strcmp(at->name, argv[1])) {
				at->run();
				return host_failures ? 99 : 0;
			}
	fprintf(stderr, "no such case\n");
	return 64;
}
