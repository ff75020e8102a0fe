/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that PyTorch's allocator uses again is cleared.
 *
 * Kernels write nothing here, so that a block which held uploaded values and is handed out for a
 * result would show them as the result: sizes, indices and flags made of old bytes steer programs
 * into places that no real run sees. The allocator announces each block to
 * c10::reportMemoryUsageToProfiler, through a slot of libc10_cuda.so's own; the slot is pointed at
 * simtorch_clear_hook (clear_hook.S), which clears the first 64 KiB of a new block and goes on, as
 * a jump, to where the slot led: to PyTorch's function or to whoever stands in front of it. On the
 * stack nothing is added. SIMCUDA_CLEAR=0 leaves everything as it is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime.h"

#define HEAD 65536

/** Where the hook goes on to. */
extern void *simtorch_clear_next;
void simtorch_clear_hook(void);
void simtorch_clear_block(void *address, int64_t size, uint16_t device);

static const char allocator_library[] = "libc10_cuda.so";
static const char reporting_library[] = "libc10.so";
static const char *const names[] = {
	"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", /* int64_t is long */
	"_ZN3c1027reportMemoryUsageToProfilerEPvxmmNS_6DeviceE", /* it is long long */
};

/* Called by the hook for every report; device is {type, index}, of which type 1 is CUDA. */
void simtorch_clear_block(void *address, int64_t size, uint16_t device)
{
	CUcontext current = NULL, mine = NULL;

	if ((device & 0xff) != 1 || size <= 0 || !address)
		return;
	if (driver.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		return;
	if (!current && (runtime_primary(device >> 8, &mine) != cudaSuccess ||
			 driver.cuCtxPushCurrent(mine) != CUDA_SUCCESS))
		return;
	driver.cuMemsetD8((CUdeviceptr)(uintptr_t)address, 0, size < HEAD ? (size_t)size : HEAD);
	if (!current)
		driver.cuCtxPopCurrent(&mine);
}

static bool ends_with(const char *path, const char *name)
{
	const char *last = strrchr(path, '/');

	return !strcmp(last ? last + 1 : path, name);
}

static bool is_report(const char *symbol)
{
	return !strcmp(symbol, names[0]) || !strcmp(symbol, names[1]);
}

/* Where the slot leads, also before it was used for the first time. */
static void *next_of(const char *symbol)
{
	void *found = dlsym(RTLD_DEFAULT, symbol);
	void *library;

	if (found)
		return found;
	library = dlopen(reporting_library, RTLD_NOW | RTLD_NOLOAD);
	return library ? dlsym(library, symbol) : NULL;
}

static void redirect(void **slot, const char *symbol)
{
	void *next = next_of(symbol);
	void *page = (void *)((uintptr_t)slot & ~4095ul);

	if (!next || mprotect(page, 4096, PROT_READ | PROT_WRITE))
		return;
	simtorch_clear_next = next;
	*slot = (void *)simtorch_clear_hook;
}

struct dynamic {
	const Elf64_Sym *symbols;
	const char *strings;
	const Elf64_Rela *relocations;
	size_t size;
};

static struct dynamic read_dynamic(const Elf64_Dyn *entry)
{
	struct dynamic ret = { 0 };

	for (; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_SYMTAB)
			ret.symbols = (const void *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_STRTAB)
			ret.strings = (const void *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_JMPREL)
			ret.relocations = (const void *)entry->d_un.d_ptr;
		else if (entry->d_tag == DT_PLTRELSZ)
			ret.size = entry->d_un.d_val;
	}
	return ret;
}

static void patch(struct link_map *object)
{
	struct dynamic dynamic = read_dynamic(object->l_ld);

	if (!dynamic.symbols || !dynamic.strings || !dynamic.relocations)
		return;
	for (size_t i = 0; i < dynamic.size / sizeof(*dynamic.relocations); i++) {
		const Elf64_Rela *relocation = &dynamic.relocations[i];
		const Elf64_Sym *symbol = &dynamic.symbols[ELF64_R_SYM(relocation->r_info)];

		if (is_report(dynamic.strings + symbol->st_name))
			redirect((void **)(object->l_addr + relocation->r_offset),
				 dynamic.strings + symbol->st_name);
	}
}

/* At the first context: libc10_cuda is there by then if it comes at all. */
static void arrange(void)
{
	const char *wanted = getenv("SIMCUDA_CLEAR");
	void *library = NULL;
	struct link_map *object = NULL;

	if (wanted && !strcmp(wanted, "0"))
		return;
	library = dlopen(allocator_library, RTLD_NOW | RTLD_NOLOAD);
	if (library && !dlinfo(library, RTLD_DI_LINKMAP, &object) &&
	    ends_with(object->l_name, allocator_library))
		patch(object);
}

void runtime_clear_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, arrange);
}
