/* SPDX-License-Identifier: Apache-2.0 */
/* cuInit, the environment, fork, and what can be asked at any time. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

static _Atomic uint32_t not_live;
_Atomic uint32_t *sim_live = &not_live;

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool started; /* stays true in a child, where the word behind sim_live is wiped */
static _Atomic uint64_t last_id;
static _Atomic unsigned int last_shard;
static __thread unsigned int thread_shard __attribute__((tls_model("initial-exec")));

uint64_t sim_next_id(void)
{
	return atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
}

unsigned int sim_thread_shard(void)
{
	if (SIM_UNLIKELY(!thread_shard))
		thread_shard = 1 + atomic_fetch_add(&last_shard, 1) % SIM_SHARDS;
	return thread_shard - 1;
}

void *sim_pages(size_t size)
{
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return pages == MAP_FAILED ? NULL : pages;
}

uint64_t sim_parse_size(const char *text, const char **end)
{
	static const char units[] = "KMGT";
	char *rest;
	uint64_t value = strtoull(text, &rest, 0);
	const char *unit = *rest ? strchr(units, *rest) : NULL;

	if (unit) {
		value <<= 10 * (unit - units + 1);
		rest++;
		if (*rest == 'i')
			rest++;
		if (*rest == 'B')
			rest++;
	}
	if (end)
		*end = rest;
	return value;
}

/* SIMCUDA_DEVICES and SIMCUDA_MEMORY; the last size of a list holds for all further devices. */
static uint64_t read_devices(void)
{
	const char *count = getenv("SIMCUDA_DEVICES");
	const char *memory = getenv("SIMCUDA_MEMORY");
	const char *overhead = getenv("SIMCUDA_CONTEXT_OVERHEAD");
	uint64_t size = 80 * SIM_GIB;
	uint64_t sum = 0;

	sim_device_count = count && *count ? atoi(count) : 1;
	if (sim_device_count < 0)
		sim_device_count = 0;
	if (sim_device_count > SIM_MAX_DEVICES)
		sim_device_count = SIM_MAX_DEVICES;
	if (overhead && *overhead)
		sim_context_overhead = sim_parse_size(overhead, NULL);
	for (int i = 0; i < sim_device_count; i++) {
		if (memory && *memory) {
			uint64_t next = sim_parse_size(memory, &memory);

			size = next ? next : size;
			if (*memory == ',')
				memory++;
		}
		sim_devices[i].total = size / SIM_GRANULE * SIM_GRANULE;
		sum += sim_devices[i].total;
	}
	return sum;
}

static CUresult start(void)
{
	uint64_t memory = read_devices();
	const char *clear = getenv("SIMCUDA_CLEAR");
	uint64_t size = 16 * memory + 64 * SIM_GIB;
	_Atomic uint32_t *live;
	CUresult result;

	if (!sim_device_count)
		return CUDA_ERROR_NO_DEVICE;
	sim_clears = !clear || strcmp(clear, "0") != 0;
	live = sim_pages(4096);
	if (!live || madvise((void *)live, 4096, MADV_WIPEONFORK))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_space_open(&sim_main_space, 0, size);
	if (result != CUDA_SUCCESS) {
		munmap((void *)live, 4096);
		return result;
	}
	sim_judge_start();
	result = sim_context_start();
	for (int i = 0; i < sim_device_count && result == CUDA_SUCCESS; i++) {
		sim_devices[i].heaps = sim_heap_create(i, true, SIM_SHARDS);
		if (!sim_devices[i].heaps)
			result = CUDA_ERROR_OUT_OF_MEMORY;
		else
			result = sim_pool_start(i);
	}
	if (result != CUDA_SUCCESS) {
		sim_space_close(&sim_main_space);
		munmap((void *)live, 4096);
		return result;
	}
	sim_live = live;
	started = true;
	atomic_store_explicit(live, 1, memory_order_release);
	return CUDA_SUCCESS;
}

static CUresult init(unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_load_explicit(sim_live, memory_order_acquire))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&start_lock);
	if (!started)
		result = start();
	else if (!atomic_load(sim_live))
		result = CUDA_ERROR_NOT_INITIALIZED; /* a child of an initialised process */
	pthread_mutex_unlock(&start_lock);
	return result;
}

static CUresult driver_version(int *version)
{
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = SIM_DRIVER_VERSION;
	return CUDA_SUCCESS;
}

static const struct {
	const char *name;
	const char *text;
	CUresult number;
} results[] = {
#define SIM_RESULT(name, number, text) { #name, text, name },
#include "results.def"
#undef SIM_RESULT
};

static CUresult error_text(CUresult error, const char **ret, bool name)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = NULL;
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i].number == error) {
			*ret = name ? results[i].name : results[i].text;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_VALUE;
}

/*
 * No table is ever answered. One of them is how the vendor's runtime library makes sure of the
 * driver's authenticity; a simulation has no business passing that check.
 */
static CUresult export_table(const void **table)
{
	if (table)
		*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

SIM_ENTRY_ALWAYS(cuInit, (unsigned int flags), init(flags))
SIM_ENTRY_ALWAYS(cuDriverGetVersion, (int *version), driver_version(version))
SIM_ENTRY_ALWAYS(cuGetErrorName, (CUresult error, const char **name),
		 error_text(error, name, true))
SIM_ENTRY_ALWAYS(cuGetErrorString, (CUresult error, const char **text),
		 error_text(error, text, false))
SIM_ENTRY_ALWAYS(cuGetExportTable, (const void **table, const CUuuid *id),
		 ((void)id, export_table(table)))
