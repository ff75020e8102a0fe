/* SPDX-License-Identifier: Apache-2.0 */
/* A build without libdw reads no native stacks. */
#include "capture/outside/native_stacks.h"

bool vc_native_available(void)
{
	return false;
}

struct vc_native *vc_native_open(uint64_t pid, const struct vc_memory *memory)
{
	(void)pid, (void)memory;
	return NULL;
}

struct vc_native *vc_native_open_core(int descriptor, const struct vc_memory *memory)
{
	(void)descriptor, (void)memory;
	return NULL;
}

void vc_native_core_threads(struct vc_native *native, struct vc_thread_stacks *stacks)
{
	(void)native, (void)stacks;
}

void vc_native_close(struct vc_native *native)
{
	(void)native;
}

uint32_t vc_native_unwind(struct vc_native *native, uint64_t stack_pointer, uint64_t instruction,
			  uint64_t *frames, uint32_t max, uint32_t *ret_guessed_from)
{
	(void)native, (void)stack_pointer, (void)instruction, (void)frames, (void)max;
	(void)ret_guessed_from;
	return 0;
}

bool vc_native_file(struct vc_native *native, uint64_t address, struct vc_mapped_file *ret)
{
	(void)native, (void)address, (void)ret;
	return false;
}

bool vc_native_symbol(struct vc_native *native, const char *name, uint64_t *ret)
{
	(void)native, (void)name, (void)ret;
	return false;
}
