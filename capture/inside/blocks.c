/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/blocks.h"

#include "capture/inside/stack.h"
#include "capture/inside/thread.h"

void vc_block_stacks(const struct vc_registers *registers, struct vc_stacks *ret)
{
	*ret = (struct vc_stacks){0};
	if (vc_thread_local.depth != 1) {
		vc_store_count(VC_COUNTER_STACKS_SKIPPED);
		return;
	}
	vc_stack_take(registers, ret);
}

bool vc_block_died(uint64_t address, enum vc_kind kind, const struct vc_stacks *stacks,
		   enum vc_own_call call, uint64_t *ret)
{
	struct vc_claim claim;
	struct vc_death death = {
		.stack = stacks->native,
		.python = stacks->python,
		.thread = vc_thread_local.id,
		.call_name = vc_start_own_name(call),
		.step = vc_start_step(),
	};

	if (!vc_store_claim(address, VC_KINDS(kind), &claim))
		return false;
	vc_store_free_commit(&claim, &death);
	*ret = vc_word_value(claim.copy.death);
	return true;
}

uint64_t vc_block_born(struct vc_birth *birth, enum vc_own_call call, bool *ret_replaced)
{
	const struct vc_stacks stacks = {birth->stack, birth->python, birth->module_object};
	uint64_t number;

	*ret_replaced = vc_block_died(birth->address, (enum vc_kind)birth->kind, &stacks, call,
				      &number);
	birth->step = vc_start_step();
	birth->phase = vc_thread_local.phase;
	birth->thread = vc_thread_local.id;
	birth->call_name = vc_start_own_name(call);
	number = vc_store_add(birth);
	vc_start_announce();
	return number;
}
