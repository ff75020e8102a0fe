/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/stack.h"

#include <string.h>

#include "capture/inside/autograd.h"
#include "capture/inside/modules.h"
#include "capture/inside/python.h"
#include "capture/inside/store.h"
#include "capture/inside/thread.h"

_Static_assert(VC_THREAD_UNWIND_BYTES >= VC_UNWIND_STATE_BYTES, "the unwinder needs more room");

/* Frames are put together in the rest of the page at the head of the thread's block. */
#define SCRATCH_OFFSET 192u
#define FRAMES_MAX ((4096u - SCRATCH_OFFSET) / sizeof(uint64_t))
_Static_assert(sizeof(struct vc_thread) <= SCRATCH_OFFSET, "no room beside the head");

/* By the unwinder's number of a module: row in the recording plus 1, and where it is loaded. */
static struct {
	uint32_t row_plus_one;
	uint64_t bias;
} module[VC_MODULES_MAX + 1];

extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char _etext[] __attribute__((visibility("hidden")));

static __attribute__((constructor)) void leave_out_own_frames(void)
{
	vc_unwind_set_own_code((uintptr_t)__ehdr_start, (uintptr_t)_etext);
}

void vc_stack_forget(void)
{
	leave_out_own_frames(); /* a recording may begin before the constructors have run */
	memset(module, 0, sizeof(module));
	vc_python_evals_forget();
}

/* Two threads that meet a module at once may each write a row of it; either is good. */
static uint32_t module_row(uint32_t number)
{
	uint32_t row_plus_one = __atomic_load_n(&module[number].row_plus_one, __ATOMIC_ACQUIRE);
	struct vc_module_view view;
	uint32_t row;

	if (row_plus_one)
		return row_plus_one;
	if (vc_module_at(number, &view) != 0)
		return 0;
	row = vc_store_module_add(view.path, view.bias, view.low, view.high, view.build_id,
				  view.build_id_size);
	if (row >= UINT16_MAX)
		return 0;
	vc_python_object(view.low);
	__atomic_store_n(&module[number].bias, view.bias, __ATOMIC_RELAXED);
	__atomic_store_n(&module[number].row_plus_one, row + 1, __ATOMIC_RELEASE);
	return row + 1;
}

static uint32_t add(uint64_t *frames, const struct vc_native_stack *stack, uint32_t count)
{
	enum vc_stack_end end = count < stack->count ? VC_STACK_LIMIT :
						       (enum vc_stack_end)stack->end;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = stack->count - 1 - i;
		uint32_t number = stack->modules[at];
		uint32_t row_plus_one = number && number <= VC_MODULES_MAX ? module_row(number) : 0;
		uint64_t bias = row_plus_one ? __atomic_load_n(&module[number].bias,
							       __ATOMIC_RELAXED) : 0;

		frames[i] = vc_frame(row_plus_one, stack->pcs[at] - bias);
	}
	vc_python_evals(stack, module_row);
	if (end != VC_STACK_COMPLETE)
		vc_store_count(VC_COUNTER_STACKS_CUT);
	return vc_store_stack_add(stack->hash, frames, count, end);
}

/*
 * The guard says that no other capture runs on this thread: a state in use was left so by a jump
 * out of a signal handler, half written.
 */
static bool unwind(void *state, const struct vc_registers *from, struct vc_native_stack *ret)
{
	if (vc_unwind(state, from, ret) == 0)
		return true;
	memset(state, 0, VC_THREAD_UNWIND_BYTES);
	return vc_unwind(state, from, ret) == 0;
}

bool vc_stack_view(const struct vc_registers *from, struct vc_native_stack *ret)
{
	struct vc_thread *block = vc_thread_block();

	return block && unwind(vc_thread_unwind(block), from, ret) && ret->count;
}

static uint32_t keep(const struct vc_native_stack *stack)
{
	uint32_t count = stack->count < FRAMES_MAX ? stack->count : FRAMES_MAX;
	uint32_t id = vc_store_stack_known(stack->hash, count);

	if (id)
		return id;
	return add((uint64_t *)((char *)vc_thread_local.block + SCRATCH_OFFSET), stack, count);
}

void vc_stack_take(const struct vc_registers *from, struct vc_stacks *ret)
{
	struct vc_forward forward = {0};
	struct vc_native_stack stack;

	*ret = (struct vc_stacks){0};
	if (vc_stack_view(from, &stack)) {
		ret->native = keep(&stack);
		forward = vc_autograd_forward(&stack);
	} else {
		vc_store_count(VC_COUNTER_STACKS_SKIPPED);
	}
	ret->python = vc_python_stack(forward.python, &ret->module_object);
	if (!ret->module_object)
		ret->module_object = forward.module_object;
}
