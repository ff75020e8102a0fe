/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/torch.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/inside/atomic.h"
#include "capture/inside/autograd.h"
#include "capture/inside/blocks.h"
#include "capture/inside/failure.h"
#include "capture/inside/interpreter.h"
#include "capture/inside/loader.h"
#include "capture/inside/observe.h"
#include "capture/inside/peak.h"
#include "capture/inside/start.h"
#include "capture/inside/settings.h"
#include "capture/inside/store.h"
#include "capture/inside/thread.h"

#define EXPORTED __attribute__((visibility("default"), noinline))

/* c10::Device, passed in one register. ROCm's builds say CUDA as well, of HIP's devices. */
struct vc_torch_device {
	int8_t type, index;
};
enum { TORCH_CUDA = 1 };

typedef void usage_function(void *pointer, int64_t size, uint64_t allocated, uint64_t reserved,
			    struct vc_torch_device device);
typedef void memory_function(int64_t size, uint64_t allocated, uint64_t reserved,
			     struct vc_torch_device device);

/* ---- PyTorch's own functions ---- */

enum symbol {
#define VC_TORCH_USAGE(symbol) SYMBOL_##symbol,
#define VC_TORCH_MEMORY(symbol) SYMBOL_##symbol,
#define VC_TORCH_NODE_MADE(symbol) SYMBOL_##symbol, NODE_MADE = SYMBOL_##symbol,
#define VC_TORCH_NODE_RUNS(symbol) SYMBOL_##symbol, NODE_RUNS = SYMBOL_##symbol,
#include "capture/torch.def"
#undef VC_TORCH_USAGE
#undef VC_TORCH_MEMORY
#undef VC_TORCH_NODE_MADE
#undef VC_TORCH_NODE_RUNS
	SYMBOLS
};

static const char *const symbol_name[SYMBOLS] = {
#define VC_TORCH_USAGE(symbol) #symbol,
#define VC_TORCH_MEMORY(symbol) #symbol,
#define VC_TORCH_NODE_MADE(symbol) #symbol,
#define VC_TORCH_NODE_RUNS(symbol) #symbol,
#include "capture/torch.def"
#undef VC_TORCH_USAGE
#undef VC_TORCH_MEMORY
#undef VC_TORCH_NODE_MADE
#undef VC_TORCH_NODE_RUNS
};

static void *real[SYMBOLS];
static uint8_t looked_for[SYMBOLS];

static void *find_real(enum symbol symbol)
{
	void *function = __atomic_load_n(&real[symbol], __ATOMIC_ACQUIRE);

	if (__builtin_expect(function || __atomic_load_n(&looked_for[symbol], __ATOMIC_ACQUIRE), 1))
		return function;
	function = vc_object_next_symbol((const void *)find_real, symbol_name[symbol]);
	if (function)
		__atomic_store_n(&real[symbol], function, __ATOMIC_RELEASE);
	__atomic_store_n(&looked_for[symbol], 1, __ATOMIC_RELEASE);
	return function;
}

/* ---- blocks ---- */

static struct vc_device *totals_of(struct vc_torch_device device)
{
	if (device.index < 0 || device.index >= (int)VC_DEVICES_MAX)
		return NULL;
	return &vc_store_root()->device[device.index];
}

/*
 * The totals belong to a number. While there is none yet, they are not to be taken for those of the
 * number before: the word is 0 before the clock goes on.
 */
static void totals_begin(struct vc_device *totals)
{
	if (totals)
		vc_put(&totals->torch_number, 0);
}

static void totals_end(struct vc_device *totals, uint64_t number, uint64_t allocated,
		       uint64_t reserved)
{
	if (!totals)
		return;
	vc_put(&totals->torch_allocated, vc_word(allocated));
	vc_put(&totals->torch_reserved, vc_word(reserved));
	vc_put_release(&totals->torch_number, vc_word(number));
}

static uint64_t block_born(void *pointer, uint64_t size, struct vc_torch_device device,
			   const struct vc_registers *registers)
{
	struct vc_stacks stacks;
	struct vc_birth birth = {
		.address = (uint64_t)(uintptr_t)pointer,
		.size = size,
		.device_plus_one = (uint16_t)(device.index + 1),
		.kind = VC_KIND_BLOCK,
		.flags = VC_FLAG_REPORTED | VC_FLAG_TORCH,
	};
	uint64_t number;
	bool replaced;

	vc_block_stacks(registers, &stacks);
	vc_thread_note_allocates();
	birth.stack = stacks.native;
	birth.python = stacks.python;
	birth.module_object = stacks.module_object;
	number = vc_block_born(&birth, VC_OWN_torch_usage, &replaced);
	if (replaced)
		vc_store_count(VC_COUNTER_BLOCKS_REPLACED);
	vc_failure_block(stacks.python);
	return number;
}

/* Stacks where they are asked for only: they cost as much as all the rest. */
static uint64_t block_died(void *pointer, const struct vc_registers *registers)
{
	struct vc_stacks stacks = {0};
	uint64_t number = 0;

	if (vc_setting(VC_SETTING_FREE_STACKS))
		vc_block_stacks(registers, &stacks);
	if (!vc_block_died((uint64_t)(uintptr_t)pointer, VC_KIND_BLOCK, &stacks, VC_OWN_torch_usage,
			   &number))
		vc_store_count(VC_COUNTER_BLOCKS_UNKNOWN);
	return number;
}

/*
 * A free does not begin a recording: a forked child lets go of what its parent had. What is told
 * to a signal handler's call inside the recorder is kept, without a stack.
 */
static void report_usage(void *pointer, int64_t size, uint64_t allocated, uint64_t reserved,
			 struct vc_torch_device device, const struct vc_registers *registers)
{
	struct vc_device *totals;
	uint64_t number;

	VC_OBSERVE(torch_blocks);
	if (vc_start_enter(size > 0) && size && pointer) {
		totals = totals_of(device);
		totals_begin(totals);
		number = size > 0 ? block_born(pointer, (uint64_t)size, device, registers) :
				    block_died(pointer, registers);
		totals_end(totals, number, allocated, reserved);
		if (size > 0 && totals)
			vc_peak_note((unsigned int)device.index, VC_PEAK_TORCH, allocated);
		vc_interpreter_first_block();
	}
	vc_leave();
}

static void report_memory(int64_t size, struct vc_torch_device device,
			  const struct vc_registers *registers)
{
	struct vc_reported failure = {
		.requested = size > 0 ? (uint64_t)size : 0,
		.call_name = VC_OWN_torch_memory,
		.device = device.index,
	};
	struct vc_stacks stacks;

	if (vc_start_enter(true)) {
		vc_block_stacks(registers, &stacks);
		failure.stack = stacks.native;
		failure.python = stacks.python;
		vc_failure_reported(&failure);
		vc_start_announce();
	}
	vc_leave();
}

/* ---- nodes of the autograd graph ---- */

/* There is one, since somebody calls it: of the caller's own library, where it is in no scope of ours. */
static void *real_for(enum symbol symbol, const void *caller)
{
	void *function = find_real(symbol);
	struct vc_object object;

	if (__builtin_expect(!function, 0) && vc_object_of(caller, &object))
		function = vc_object_symbol(&object, symbol_name[symbol]);
	return function;
}

/* Called by torch_nodes.S; they give the function to go on with. */
void *vc_torch_node_made(const uint64_t *const *edge, const void *caller);
void *vc_torch_node_runs(const uint64_t *node, uintptr_t sp, uintptr_t pc);

/* An Edge begins with the address of its node, in a pointer of whatever kind. */
void *vc_torch_node_made(const uint64_t *const *edge, const void *caller)
{
	int saved = errno;

	if (vc_start_enter(false) && *edge)
		vc_autograd_made(*edge);
	vc_leave();
	errno = saved;
	return real_for(NODE_MADE, caller);
}

void *vc_torch_node_runs(const uint64_t *node, uintptr_t sp, uintptr_t pc)
{
	const struct vc_registers caller = {.pc = pc, .sp = sp};
	int saved = errno;

	if (vc_start_enter(false))
		vc_autograd_runs(node, &caller);
	vc_leave();
	errno = saved;
	return real_for(NODE_RUNS, (const void *)pc);
}

/* ---- what is called instead ---- */

#define VC_TORCH_NODE_MADE(symbol) EXPORTED void symbol(void); /* torch_nodes.S */
#define VC_TORCH_NODE_RUNS(symbol) EXPORTED void symbol(void);
#define VC_TORCH_USAGE(symbol)                                                                     \
	EXPORTED usage_function symbol;                                                            \
	void symbol(void *pointer, int64_t size, uint64_t allocated, uint64_t reserved,            \
		    struct vc_torch_device device)                                                 \
	{                                                                                          \
		usage_function *own;                                                               \
                                                                                                   \
		if (device.type == TORCH_CUDA) {                                                   \
			struct vc_registers registers;                                             \
                                                                                                   \
			VC_REGISTERS_OF_CALLER(&registers);                                        \
			report_usage(pointer, size, allocated, reserved, device, &registers);      \
		}                                                                                  \
		*(void **)&own = find_real(SYMBOL_##symbol);                                       \
		if (own)                                                                           \
			own(pointer, size, allocated, reserved, device);                           \
	}
#define VC_TORCH_MEMORY(symbol)                                                                    \
	EXPORTED memory_function symbol;                                                           \
	void symbol(int64_t size, uint64_t allocated, uint64_t reserved,                           \
		    struct vc_torch_device device)                                                 \
	{                                                                                          \
		memory_function *own;                                                              \
                                                                                                   \
		if (device.type == TORCH_CUDA) {                                                   \
			struct vc_registers registers;                                             \
                                                                                                   \
			VC_REGISTERS_OF_CALLER(&registers);                                        \
			report_memory(size, device, &registers);                                   \
		}                                                                                  \
		*(void **)&own = find_real(SYMBOL_##symbol);                                       \
		if (own)                                                                           \
			own(size, allocated, reserved, device);                                    \
	}
#include "capture/torch.def"
#undef VC_TORCH_USAGE
#undef VC_TORCH_MEMORY
#undef VC_TORCH_NODE_MADE
#undef VC_TORCH_NODE_RUNS

void *vc_torch_redirect(const char *name, void *function)
{
	static void *const wrapper[SYMBOLS] = {
#define VC_TORCH_USAGE(symbol) (void *)symbol,
#define VC_TORCH_MEMORY(symbol) (void *)symbol,
#define VC_TORCH_NODE_MADE(symbol) (void *)symbol,
#define VC_TORCH_NODE_RUNS(symbol) (void *)symbol,
#include "capture/torch.def"
#undef VC_TORCH_USAGE
#undef VC_TORCH_MEMORY
#undef VC_TORCH_NODE_MADE
#undef VC_TORCH_NODE_RUNS
	};

	for (unsigned int i = 0; i < SYMBOLS; i++) {
		if (!vc_same_text(symbol_name[i], name) || function == wrapper[i])
			continue;
		__atomic_store_n(&real[i], function, __ATOMIC_RELEASE);
		return wrapper[i];
	}
	return function;
}
