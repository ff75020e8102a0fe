/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inner interfaces of the simulated CUDA driver.
 *
 * Model: one address arena of 2 MiB granules. Device addresses are never readable by the host;
 * the bytes live at the same offset of a second window, the store, over a sparse memfd. A
 * device's memory is a counter that allocations charge. Every handle given out is a number looked
 * up in a registry. All functions may be called from any thread; none may be called from a signal
 * handler. After start nothing calls malloc, so that a test can hold the driver's callers to
 * that.
 */
#ifndef SIM_H
#define SIM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "judge_file.h"
#include "sim_cuda.h"

#define SIM_MIB (1ull << 20)
#define SIM_GIB (1ull << 30)
#define SIM_GRANULE (2 * SIM_MIB)
#define SIM_SLOT 512ull
#define SIM_SLAB_SLOTS (SIM_GRANULE / SIM_SLOT)
#define SIM_LARGE SIM_MIB /* requests from here on take whole granules */
#define SIM_MAX_DEVICES 16
#define SIM_SHARDS 8
#define SIM_CONTEXT_DEPTH 16
#define SIM_DRIVER_VERSION 13000

#define SIM_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

/* --- entry points (entry macros, start.c, fail.c) --- */

enum sim_symbol_id {
#define SIM_SYMBOL(name, base, version, mode) SIM_ID_##name,
#include "symbols.def"
#undef SIM_SYMBOL
	SIM_ID_COUNT
};

/** Nonzero when SIMCUDA_FAIL names at least one symbol. */
extern bool sim_fail_active;
/** Counts one call of the symbol; the result that call must give, or CUDA_SUCCESS to go on. */
CUresult sim_fail(enum sim_symbol_id id);
void sim_fail_start(void);

/** Points to a word that is 1 while the driver is initialised in this very process, not a child. */
extern _Atomic uint32_t *sim_live;

#define SIM_CHECK_FAIL(name) SIM_CHECK_FAIL_ID(SIM_ID_##name)
#define SIM_CHECK_FAIL_ID(id)                                                                      \
	do {                                                                                       \
		if (SIM_UNLIKELY(sim_fail_active)) {                                               \
			CUresult injected_ = sim_fail(id);                                         \
			if (injected_ != CUDA_SUCCESS)                                             \
				return injected_;                                                  \
		}                                                                                  \
	} while (0)

/* Three kinds of exported function: callable at any time, after cuInit, with a current context. */
#define SIM_ENTRY_ALWAYS(name, parameters, expression)                                             \
	CUresult name parameters                                                                   \
	{                                                                                          \
		SIM_CHECK_FAIL(name);                                                              \
		return expression;                                                                 \
	}

#define SIM_ENTRY(name, parameters, expression)                                                    \
	CUresult name parameters                                                                   \
	{                                                                                          \
		SIM_CHECK_FAIL(name);                                                              \
		if (SIM_UNLIKELY(!atomic_load_explicit(sim_live, memory_order_acquire)))           \
			return CUDA_ERROR_NOT_INITIALIZED;                                         \
		return expression;                                                                 \
	}

#define SIM_ENTRY_CONTEXT(name, parameters, expression)                                            \
	CUresult name parameters                                                                   \
	{                                                                                          \
		struct sim_object *context;                                                        \
		CUresult current_;                                                                 \
                                                                                                   \
		SIM_CHECK_FAIL(name);                                                              \
		if (SIM_UNLIKELY(!atomic_load_explicit(sim_live, memory_order_acquire)))           \
			return CUDA_ERROR_NOT_INITIALIZED;                                         \
		current_ = sim_current(&context);                                                  \
		if (SIM_UNLIKELY(current_ != CUDA_SUCCESS))                                        \
			return current_;                                                           \
		(void)context;                                                                     \
		return expression;                                                                 \
	}

/* The legacy symbol together with its per-thread-default-stream twin. */
#define SIM_ENTRY_CONTEXT_TWIN(name, suffix, parameters, expression)                               \
	SIM_ENTRY_CONTEXT(name, parameters, expression)                                            \
	SIM_ENTRY_CONTEXT(name##suffix, parameters, expression)

/* --- objects: handles (objects.c) --- */

enum sim_object_type {
	SIM_NO_OBJECT,
	SIM_CONTEXT,
	SIM_STREAM,
	SIM_EVENT,
	SIM_POOL,
	SIM_HANDLE,
	SIM_ARRAY,
	SIM_MIPMAP,
	SIM_MODULE,
	SIM_FUNCTION,
	SIM_LIBRARY,
	SIM_KERNEL,
	SIM_GRAPH,
	SIM_GRAPH_EXEC,
	SIM_NODE,
	SIM_EXTERNAL,
	SIM_GREEN,
	SIM_RESOURCES,
};

struct sim_heap;

/**
 * One object behind a handle. The memory of an object is never given back or used for something
 * else, so a stale pointer can be read; the tag says whether it is still the same object.
 */
struct sim_object {
	_Atomic uint64_t tag; /* the handle while it lives, 0 when free */
	uint32_t index;
	uint32_t generation;
	enum sim_object_type type;
	int device;
	uint64_t context; /* handle of the context that owns it, or 0 */
	uint32_t row;     /* judge row, or SIM_NO_ROW */
	struct sim_object *next;
	union {
		struct {
			bool primary;
			_Atomic uint32_t active; /* references of the primary context, else 1 */
			unsigned int flags;
			unsigned int attached;
			uint32_t peers; /* bit per device */
			uint64_t id;
			size_t limit[CU_LIMIT_MAX];
		} context_data;
		struct {
			unsigned int flags;
			int priority;
			uint64_t id;
			uint64_t graph; /* handle of the graph it captures into, or 0 */
			bool joined;    /* through an event: another stream began the capture */
		} stream;
		struct {
			unsigned int flags;
			_Atomic uint64_t nanoseconds; /* 0: never recorded */
			_Atomic uint64_t graph;	      /* recorded in a capture into that graph */
		} event;
		struct {
			struct sim_heap *heap;
			bool standing; /* a device's default pool */
			bool doomed;   /* destroyed by the program, still with memory out */
			bool imported;
			uint64_t threshold;
			uint64_t reserved, reserved_high, used, used_high, maximum;
			int reuse[3];
		} pool;
		struct {
			uint64_t backing; /* address of the granules whose store holds the bytes */
			uint64_t size;
			uint32_t references;
			uint32_t mappings;
			bool multicast;
			struct sim_binding *bindings; /* of a multicast object */
			CUmemAllocationProp properties;
		} handle;
		struct {
			CUDA_ARRAY3D_DESCRIPTOR descriptor;
			unsigned int levels;
			uint64_t bytes;
			uint64_t level[32]; /* of a mipmap: its arrays; of an array: owner */
		} array;
		struct {
			uint64_t parent;
			uint64_t name; /* a hash of it: mangled names are long and begin alike */
		} code;
		struct {
			uint32_t references; /* the graph's own handle and its executables */
			bool named;          /* the graph's own handle still counts */
			bool backed;         /* launched: its memory is charged */
			uint64_t bytes;
			struct sim_graph_range *ranges; /* its memory, the newest first */
		} graph;
		struct {
			struct sim_object *graph;
		} exec; /* also a node */
		struct {
			uint64_t size;
		} external;
	};
};

/** A new object with a new handle, or NULL when there are too many. */
struct sim_object *sim_object_create(enum sim_object_type type);
void sim_object_destroy(struct sim_object *object);
/** The living object of that type behind the handle, or NULL for anything else. */
struct sim_object *sim_object_find(enum sim_object_type type, uint64_t handle);
/** Calls visit for every living object of the type. */
void sim_object_each(enum sim_object_type type, void (*visit)(struct sim_object *, void *),
		     void *argument);

static inline uint64_t sim_object_handle(const struct sim_object *object)
{
	return atomic_load_explicit(&object->tag, memory_order_relaxed);
}

/* --- contexts and devices (context.c, device.c) --- */

/** The thread's current context; INVALID_CONTEXT or CONTEXT_IS_DESTROYED without one. */
CUresult sim_current(struct sim_object **ret);
CUresult sim_context_find(CUcontext context, struct sim_object **ret);
CUresult sim_context_start(void);

struct sim_device {
	uint64_t total;
	_Atomic uint64_t used;
	struct sim_object *primary;
	struct sim_object *default_pool;
	_Atomic(struct sim_object *) pool;
	struct sim_heap *heaps; /* SIM_SHARDS of them */
};

extern struct sim_device sim_devices[SIM_MAX_DEVICES];
extern int sim_device_count;

static inline bool sim_device_valid(CUdevice device)
{
	return device >= 0 && device < sim_device_count;
}

/** Takes bytes of a device's memory; false when there is not that much left. */
bool sim_charge(int device, uint64_t bytes);
void sim_uncharge(int device, uint64_t bytes);
/** What a context costs, as SIMCUDA_CONTEXT_OVERHEAD says. */
extern uint64_t sim_context_overhead;

/* --- address space (space.c) --- */

/** What a range of device addresses is; the values are those of the judge's rows. */
struct sim_range {
	uint64_t base;
	uint64_t span;      /* whole slots or granules */
	uint64_t requested; /* as the program asked */
	uint32_t kind;      /* enum sim_row_kind */
	uint32_t row;
	int device;
	bool managed;
	bool charged;
	_Atomic bool dirty;
	uint64_t context;
	struct sim_object *pool;
	uint64_t id;
	struct sim_range *next;
};

/** Handle memory, or a part of it, at an address range inside a reservation. */
struct sim_mapping {
	uint64_t base;
	uint64_t size;
	struct sim_object *handle;
	uint64_t access; /* CUmemAccess_flags */
	uint32_t row;
	struct sim_mapping *next;
};

struct sim_slab;

struct sim_granule {
	_Atomic(struct sim_range *) range; /* a whole-granule range covers this granule, or */
	_Atomic(struct sim_slab *) slab;   /* a slab of small ones does */
	_Atomic(struct sim_mapping *) mapping;
};

struct sim_extent {
	uint64_t first; /* granule number */
	uint64_t count;
	struct sim_extent *next;
};

#define SIM_BINS 512

struct sim_space {
	uint64_t base;
	uint64_t size;
	char *store;
	uint64_t next; /* first granule never used */
	struct sim_granule *granules;
	pthread_mutex_t lock;
	struct sim_extent *bins[SIM_BINS + 1]; /* by count; the last holds everything longer */
	uint64_t torn;			       /* released granules since the last merge */
};

extern struct sim_space sim_main_space; /* 64-bit addresses */
extern struct sim_space sim_low_space;  /* below 4 GiB, for the first, 32-bit ABI; made on demand */

CUresult sim_space_open(struct sim_space *space, uint64_t hint, uint64_t size);
/** The first call opens the low space; NULL if there is no room for it. */
struct sim_space *sim_space_low(void);
void sim_space_close(struct sim_space *space);
struct sim_space *sim_space_of(uint64_t address);
/** Address of count free granules, 0 if there are none; the caller publishes what they hold. */
uint64_t sim_space_take(struct sim_space *space, uint64_t count, uint64_t alignment);
void sim_space_give(struct sim_space *space, uint64_t address, uint64_t count);
/** Forgets the bytes behind whole pages of a range. */
void sim_space_punch(uint64_t address, uint64_t size);

static inline struct sim_granule *sim_granule_of(struct sim_space *space, uint64_t address)
{
	return &space->granules[(address - space->base) / SIM_GRANULE];
}

static inline char *sim_store(struct sim_space *space, uint64_t address)
{
	return space->store + (address - space->base);
}

/** Zeroed memory straight from the kernel, never given back; NULL when there is none. */
void *sim_pages(size_t size);

/* --- heaps: ranges of either size (heap.c) --- */

struct sim_request {
	struct sim_space *space;
	struct sim_heap *heap; /* for small ranges */
	uint64_t size;
	uint64_t alignment; /* of whole-granule ranges */
	uint32_t kind;
	int device;
	bool charged; /* against the device, here; a pool does that by itself */
	bool whole;   /* whole granules even if small */
	uint64_t context;
	struct sim_object *pool;
};

struct sim_heap *sim_heap_create(int device, bool charged, unsigned int count);
struct sim_heap *sim_heap_at(struct sim_heap *heaps, unsigned int number);
/** Makes a range, its judge row included. */
CUresult sim_range_create(const struct sim_request *request, struct sim_range **ret);
/**
 * Removes the range that starts exactly at the address, if accept agrees with its kind; its
 * description before the removal goes to gone.
 */
CUresult sim_range_destroy(uint64_t address, uint32_t accepted_kinds, struct sim_range *gone);
/** Copies the description of the range that holds the address; false if nothing does. */
bool sim_range_find(uint64_t address, struct sim_range *ret);
/** Removes every range that belongs to the context. */
void sim_range_destroy_all(uint64_t context);
/** SIMCUDA_CLEAR: whether memory handed out again has its first 64 KiB cleared; it has. */
extern bool sim_clears;
/** Marks that bytes behind the range were written. */
void sim_range_touch(uint64_t address);

/** What cuMemFree takes. */
#define SIM_FREEABLE                                                                               \
	(1u << SIM_ROW_LINEAR | 1u << SIM_ROW_PITCHED | 1u << SIM_ROW_MANAGED |                    \
	 1u << SIM_ROW_ASYNC | 1u << SIM_ROW_IMPORT | 1u << SIM_ROW_MAPPING)

/* --- what the parts tell each other --- */

CUresult sim_free_device(uint64_t address);
CUresult sim_pool_start(int device);
void sim_pool_credit(struct sim_object *pool, uint64_t size);
/** Gives back what pools hold beyond their threshold: the effect of a synchronisation. */
void sim_pools_settle(int device);
void sim_host_destroy_all(uint64_t context);
void sim_arrays_destroy_all(uint64_t context);
void sim_streams_destroy_all(uint64_t context);
void sim_code_destroy_all(uint64_t context);

struct sim_host {
	uint64_t address;
	uint64_t size;
	unsigned int flags;
	bool registered;
	uint64_t context;
	int device;
	uint32_t row;
};

/** Copies the description of the pinned or registered host range that holds the address. */
bool sim_host_find(uint64_t address, struct sim_host *ret);

/** CUDA_SUCCESS if the stream handle may be used in the context. */
CUresult sim_stream_check(CUstream stream);

/** The graph that the stream is capturing into, or NULL. */
struct sim_object *sim_capturing(CUstream stream);
/** Work on the stream becomes a node of the graph that it is capturing into, if it is. */
void sim_capture_node(CUstream stream);
/** A stream that waits for an event of a capture takes part in it. */
void sim_capture_join(CUstream stream, uint64_t graph);
/** Memory of a graph: an address now, bytes when it is launched. */
CUresult sim_graph_allocate(struct sim_object *context, struct sim_object *graph, size_t size,
			    CUdeviceptr *ret);
/** CUDA_SUCCESS if the address is memory of that graph, for a free that is captured. */
CUresult sim_graph_free(struct sim_object *graph, uint64_t address);
/** The same for a free that is not captured: it has run since, and the memory was not freed yet. */
CUresult sim_graph_free_now(uint64_t address);
/**
 * A handle of a kind of judge's row: HANDLE has memory of its own, IMPORT is charged to nobody,
 * MULTICAST has none.
 */
CUresult sim_handle_create(size_t size, const CUmemAllocationProp *properties, uint32_t kind,
			   uint64_t *ret);
CUresult sim_primary_retain(CUdevice device);
void sim_primary_release(CUdevice device);
/** A stream of that context. */
CUresult sim_stream_create(struct sim_object *context, CUstream *ret, unsigned int flags,
			   int priority);
/** The device of the handle that is mapped at an address; false if nothing is. */
bool sim_mapping_device(uint64_t address, int *ret);
/** Size and properties of a handle that a program may still use. */
CUresult sim_handle_describe(uint64_t handle, CUmemAllocationProp *properties, uint64_t *size);
/** The pool that a program may still use, or NULL. */
struct sim_object *sim_pool_find(CUmemoryPool pool);
/** An imported pool: known by its handle, with no memory of its own. */
CUresult sim_pool_import(int device, CUmemoryPool *ret);

/** The host's bytes of [address, address + size), in pieces; part gets the length of the first. */
CUresult sim_translate(uint64_t address, uint64_t size, bool write, char **bytes, uint64_t *part);

/** The exported symbol's address that cuGetProcAddress answers; NULL and why not. */
void *sim_procaddress(const char *name, int version, cuuint64_t flags,
		      CUdriverProcAddressQueryResult *why);

/** Number of a row of symbols.def by its exported name, or -1. */
int sim_symbol_find(const char *name, size_t length);

/* --- the judge's file (judge_write.c) --- */

#define SIM_NO_ROW UINT32_MAX

/** Opens SIMCUDA_MAP; without it rows cost nothing. */
void sim_judge_start(void);
uint32_t sim_judge_add(uint32_t kind, uint64_t address, uint64_t size, int device,
		       uint64_t context);
void sim_judge_remove(uint32_t row);

uint64_t sim_parse_size(const char *text, const char **end);
uint64_t sim_next_id(void);
unsigned int sim_thread_shard(void);

#endif
