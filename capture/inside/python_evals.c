/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which native code runs Python.
 *
 * From 3.10 on every call of the interpreter keeps something on the C stack that its thread's state
 * leads to: the native frame around that address is the interpreter's, whatever the function is
 * called and however a compiler has split it. Before, the function is known by name. Ranges of such
 * functions are written into the recording; its reader puts the two stacks together with them.
 */
#include <string.h>

#include "capture/inside/modules.h"
#include "capture/inside/python.h"
#include "capture/inside/python_parts.h"
#include "capture/inside/store.h"

#define RANGES_MAX 32   /* an interpreter has one to three */
#define ANCHORS_MAX 32  /* looked for in one stack */
#define HOPS_MAX 2048

static struct {
	uint64_t low, high; /* published by high */
} range[RANGES_MAX];
static uint32_t range_count;

void vc_python_evals_forget(void)
{
	memset(range, 0, sizeof(range));
	range_count = 0;
}

static bool is_known(uint64_t pc)
{
	for (uint32_t i = 0; i < RANGES_MAX; i++) {
		uint64_t high = __atomic_load_n(&range[i].high, __ATOMIC_ACQUIRE);

		if (!high)
			return false;
		if (pc >= range[i].low && pc < high)
			return true;
	}
	return true; /* no more are kept */
}

/* `pc` lies in code that runs Python. */
static void keep_function(uint64_t pc, uint32_t row_plus_one)
{
	struct vc_module_view view;
	uintptr_t low, high;
	uint32_t at;

	if (!row_plus_one || is_known(pc) || !vc_module_function(pc, &low, &high) ||
	    vc_module_of(pc, &view) != 0)
		return;
	at = __atomic_fetch_add(&range_count, 1, __ATOMIC_RELAXED);
	if (at >= RANGES_MAX)
		return;
	vc_store_eval_add(row_plus_one, low - view.bias, high - view.bias);
	range[at].low = low;
	__atomic_store_n(&range[at].high, high, __ATOMIC_RELEASE);
}

/*
 * Addresses on the C stack, which begins at `low` and ends at `high`, each in a frame of the
 * interpreter, rising.
 */
static uint32_t anchors_of(const struct vc_python_layout *layout, uintptr_t thread, uintptr_t low,
			   uintptr_t high, uintptr_t ret[ANCHORS_MAX])
{
	uint32_t count = 0, hops = 0;
	uintptr_t at;

	if (layout->frame_owner >= 0 && layout->frame_entry < 0) {
		at = vc_python_frame_of(layout, thread);
		for (; vc_python_pointer(at) && count < ANCHORS_MAX && hops++ < HOPS_MAX;
		     at = vc_python_word(at, layout->frame_back))
			if (vc_python_is_mark(layout, at))
				ret[count++] = at;
		return count;
	}
	/* The last is the thread's own, not on the stack, and leads nowhere. */
	at = layout->thread_cframe >= 0 ? vc_python_word(thread, layout->thread_cframe) : 0;
	for (; at >= low && at < high && count < ANCHORS_MAX;
	     at = vc_python_word(at, layout->cframe_previous))
		ret[count++] = at;
	return count;
}

void vc_python_evals(const struct vc_native_stack *stack, uint32_t (*row_of)(uint32_t number))
{
	const struct vc_python_interpreter *interpreter = vc_python_interpreter();
	uintptr_t anchor[ANCHORS_MAX], thread;
	uint32_t count = 0, at = 0;

	if (!interpreter || !stack->count)
		return;
	thread = vc_python_enter(interpreter);
	if (thread)
		count = anchors_of(interpreter->layout, thread, stack->sps[stack->count - 1],
				   stack->sps[0], anchor);
	if (!vc_python_leave(interpreter))
		return;
	/* From the innermost frame outwards; the outermost has no known end. */
	for (uint32_t i = stack->count; i-- > 1 && at < count;) {
		while (at < count && anchor[at] < stack->sps[i])
			at++;
		if (at < count && anchor[at] < stack->sps[i - 1])
			keep_function(stack->pcs[i] - 1, row_of(stack->modules[i]));
	}
	if (interpreter->layout->version >= 0x030a || !interpreter->eval)
		return;
	for (uint32_t i = 0; i < stack->count; i++) {
		uintptr_t low, high;

		if (vc_module_function(interpreter->eval, &low, &high) &&
		    stack->pcs[i] > low && stack->pcs[i] <= high)
			keep_function(stack->pcs[i] - 1, row_of(stack->modules[i]));
	}
}
