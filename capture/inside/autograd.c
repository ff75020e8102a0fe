/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/autograd.h"

#include <stdbool.h>
#include <string.h>

#include "capture/inside/atomic.h"
#include "capture/inside/python.h"
#include "capture/inside/space.h"
#include "capture/inside/stack.h"
#include "capture/inside/thread.h"

/*
 * Nodes that are remembered. One graph seldom has more; addresses are used again from step to step. A set
 * is a line of the processor's cache, and no two nodes are so near each other that they share one: what
 * lies together in the heap lies together here.
 */
#define SETS (1u << 16)
#define WAYS 2u
#define NODE_BYTES_SHIFT 6

/*
 * Words of a node that never change once a tensor has it: its table of functions, and the two that hold
 * the number it was given (the second up to PyTorch 2.14, where the first points to its count of
 * references; the first from 2.15 on, where the second is its depth in the graph).
 */
#define WORD_TYPE 0
#define WORD_FIRST 2
#define WORD_SECOND 3

struct made {
	uint64_t node;          /* address; 0: free */
	uint64_t print;
	uint64_t module_object;
	uint64_t check_python;  /* check above, id of the stack below: tells whether the four belong together */
};
_Static_assert(sizeof(struct made) * WAYS == 1 << NODE_BYTES_SHIFT, "a set is a line");

static struct made *made;  /* SETS * WAYS of them */
static uint64_t next_way;

void vc_autograd_forget(void)
{
	made = NULL;
}

/* ---- nodes and where they were made ---- */

static uint64_t print_of(const uint64_t *node)
{
	const uint64_t words[] = {node[WORD_TYPE], node[WORD_FIRST], node[WORD_SECOND]};

	return vc_check_words(words, sizeof(words) / sizeof(*words), (uintptr_t)node);
}

static uint64_t check_python(const struct made *entry, uint32_t python)
{
	uint64_t check = vc_check_words(&entry->node, 3, python);

	return (vc_mix(check) & UINT64_C(0xffffffff00000000)) | python;
}

static struct made *table(void)
{
	struct made *at = __atomic_load_n(&made, __ATOMIC_ACQUIRE), *known = NULL;

	if (__builtin_expect(at != NULL, 1))
		return at;
	at = vc_space_private(SETS * WAYS * sizeof(*at));
	if (!at)
		return NULL;
	/* of two threads that come at once one is too late, and its pages are never touched */
	return __atomic_compare_exchange_n(&made, &known, at, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE) ? at : known;
}

static struct made *set_of(struct made *entries, const uint64_t *node)
{
	uint64_t place = (uintptr_t)node >> NODE_BYTES_SHIFT;

	return entries + ((place ^ place >> 16) & (SETS - 1)) * WAYS;
}

/* False: this node is not known, whatever was known of another at its address. */
static bool find(const uint64_t *node, struct vc_forward *ret)
{
	struct made *entries = __atomic_load_n(&made, __ATOMIC_ACQUIRE), *set;
	struct made copy;

	if (!entries)
		return false;
	set = set_of(entries, node);
	for (unsigned int way = 0; way < WAYS; way++) {
		if (vc_get(&set[way].node) != (uintptr_t)node)
			continue;
		vc_get_words(&copy.node, &set[way].node, sizeof(copy) / 8);
		if (copy.node != (uintptr_t)node || copy.print != print_of(node) ||
		    copy.check_python != check_python(&copy, (uint32_t)copy.check_python))
			return false;
		*ret = (struct vc_forward){(uint32_t)copy.check_python, copy.module_object};
		return true;
	}
	return false;
}

static void remember(const uint64_t *node, const struct vc_forward *forward)
{
	struct made *entries = table(), *set;
	struct made image = {.node = (uintptr_t)node, .print = print_of(node),
			     .module_object = forward->module_object};
	unsigned int way = 0;

	if (!entries)
		return;
	image.check_python = check_python(&image, forward->python);
	set = set_of(entries, node);
	while (way < WAYS && vc_get(&set[way].node) && vc_get(&set[way].node) != image.node)
		way++;
	if (way == WAYS)
		way = vc_add(&next_way, 1) % WAYS;
	vc_put_words(&set[way].node, &image.node, sizeof(image) / 8);
}

/* ---- what runs ---- */

void vc_autograd_runs(const uint64_t *node, const struct vc_registers *caller)
{
	struct vc_thread *block = vc_thread_block();
	uint32_t count;

	if (!block)
		return;
	count = block->running_count;
	/* the stack grows down: what lies below has returned */
	while (count && block->running[count - 1].sp <= caller->sp)
		count--;
	if (count == VC_RUNNING_MAX) {
		memmove(&block->running[0], &block->running[1],
			(VC_RUNNING_MAX - 1) * sizeof(*block->running));
		count--;
	}
	block->running[count] = (struct vc_running){caller->sp, caller->pc, node};
	block->running_count = count + 1;
}

/* The frame of a stack that begins there; UINT32_MAX: none. */
static uint32_t frame_at(const struct vc_native_stack *stack, uintptr_t sp)
{
	uint32_t low = 0, high = stack->count;

	while (low < high) { /* outermost first: falling */
		uint32_t middle = low + (high - low) / 2;

		if (stack->sps[middle] > sp)
			low = middle + 1;
		else
			high = middle;
	}
	return low < stack->count && stack->sps[low] == sp ? low : UINT32_MAX;
}

/* Of a stack that was cut, or of another one than the call was made on, nothing can be said. */
static bool covers(const struct vc_native_stack *stack, uintptr_t sp)
{
	return sp >= stack->sps[stack->count - 1] && sp <= stack->sps[0];
}

struct vc_forward vc_autograd_forward(const struct vc_native_stack *stack)
{
	struct vc_thread *block = vc_thread_local.block;
	struct vc_forward forward = {0};

	while (block && block->running_count && stack->count) {
		const struct vc_running *running = &block->running[block->running_count - 1];
		uint32_t frame = frame_at(stack, running->sp);

		if (frame != UINT32_MAX && stack->pcs[frame] == running->pc) {
			find(running->node, &forward);
			break;
		}
		if (!covers(stack, running->sp))
			break;
		block->running_count--; /* it has returned */
	}
	return forward;
}

/* ---- what is made ---- */

/* By native code alone: in a backward pass it belongs to the node that runs. */
static struct vc_forward made_by_running(void)
{
	struct vc_thread *block = vc_thread_local.block;
	struct vc_registers here;
	struct vc_native_stack stack;

	VC_REGISTERS_HERE(&here);
	if (!block || !block->running_count ||
	    block->running[block->running_count - 1].sp <= here.sp ||
	    !vc_stack_view(&here, &stack))
		return (struct vc_forward){0};
	return vc_autograd_forward(&stack);
}

void vc_autograd_made(const uint64_t *node)
{
	struct vc_forward forward = {0};

	/* each of a node's tensors is told */
	if (vc_thread_local.depth != 1 || find(node, &forward))
		return;
	forward.python = vc_python_stack(0, &forward.module_object);
	if (!forward.python)
		forward = made_by_running();
	if (forward.python)
		remember(node, &forward);
}
