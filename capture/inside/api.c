/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions behind vramcore.h: what the program reports about itself.
 *
 * Each is exported under the name that the header calls and, for callers that look names up
 * (ctypes), under the plain one.
 */
#include <stdbool.h>
#include <string.h>

#include "capture/inside/device.h"
#include "capture/inside/events.h"
#include "capture/inside/phase.h"
#include "capture/inside/python.h"
#include "capture/inside/stack.h"
#include "capture/inside/start.h"
#include "capture/inside/store.h"
#include "capture/inside/thread.h"

#define LABEL_MAX 240u

/* Under both names. */
#define VC_API(result, name, parameters)                                                           \
	__attribute__((visibility("default"), noinline)) result vramcore_v1_##name parameters;      \
	__attribute__((visibility("default"), alias("vramcore_v1_" #name)))                        \
	result vramcore_##name parameters;                                                         \
	result vramcore_v1_##name parameters

/* Enters; false when nothing is to be recorded (leave all the same). */
static bool enter(bool start)
{
	bool outer = vc_enter();

	if (!vc_store_ready() && (!start || !outer || !vc_start()) && !vc_store_ready())
		return false;
	vc_start_thread();
	return true;
}

VC_API(void, step, (uint64_t step))
{
	if (enter(false))
		vc_phase_step(step);
	vc_leave();
}

VC_API(void, phase, (const char *name))
{
	if (enter(false))
		vc_phase_set(name ? name : "", name ? strlen(name) : 0);
	vc_leave();
}

VC_API(void, phase_push, (const char *name))
{
	if (enter(false))
		vc_phase_push(name ? name : "", name ? strlen(name) : 0);
	vc_leave();
}

VC_API(void, phase_pop, (void))
{
	if (enter(false))
		vc_phase_pop();
	vc_leave();
}

VC_API(void, snapshot, (void))
{
	if (enter(false))
		vc_event_request();
	vc_leave();
}

VC_API(int, start, (void))
{
	int result = enter(true);

	if (result)
		vc_start_announce();
	vc_leave();
	return result;
}

/* ---- blocks and tensors ---- */

struct stacks {
	uint32_t native, python;
	uint64_t module_object;
};

static struct stacks capture_stacks(const struct vc_registers *registers)
{
	struct stacks stacks = {0};

	if (vc_thread_local.depth != 1) {
		vc_store_count(VC_COUNTER_STACKS_SKIPPED);
		return stacks;
	}
	stacks.native = vc_stack_capture(registers);
	stacks.python = vc_python_stack(&stacks.module_object);
	return stacks;
}

static void set_stacks(struct vc_birth *birth, const struct vc_registers *registers)
{
	struct stacks stacks = capture_stacks(registers);

	birth->stack = stacks.native;
	birth->python = stacks.python;
	birth->module_object = stacks.module_object;
}

static bool report_death(uint64_t address, enum vc_kind kind, struct stacks stacks,
			 enum vc_own_call call)
{
	struct vc_claim claim;
	struct vc_death death = {
		.stack = stacks.native,
		.python = stacks.python,
		.thread = vc_thread_local.id,
		.call_name = vc_start_own_name(call),
		.step = vc_start_step(),
	};

	if (!vc_store_claim(address, VC_KINDS(kind), &claim))
		return false;
	vc_store_free_commit(&claim, &death);
	return true;
}

static void report_birth(struct vc_birth *birth, enum vc_own_call call)
{
	/* What was told before and never taken back is over: its place is used again. */
	report_death(birth->address, (enum vc_kind)birth->kind,
		     (struct stacks){.native = birth->stack, .python = birth->python}, call);
	birth->step = vc_start_step();
	birth->phase = vc_thread_local.phase;
	birth->thread = vc_thread_local.id;
	birth->call_name = vc_start_own_name(call);
	birth->flags = VC_FLAG_REPORTED;
	if (vc_thread_local.context_known) {
		birth->context = vc_thread_local.context;
		birth->device_plus_one = (uint16_t)(vc_thread_local.device + 1);
	}
	vc_store_add(birth);
	vc_start_announce();
}

VC_API(void, block,
       (const void *pointer, size_t bytes, size_t requested, void *stream, const char *name))
{
	struct vc_birth birth = {
		.address = (uint64_t)(uintptr_t)pointer,
		.size = bytes,
		.requested = requested,
		.stream = (uint64_t)(uintptr_t)stream,
		.kind = VC_KIND_BLOCK,
	};
	struct vc_registers registers;

	VC_REGISTERS_OF_CALLER(&registers);
	if (enter(true)) {
		set_stacks(&birth, &registers);
		if (name)
			birth.label = vc_store_string(name, strnlen(name, LABEL_MAX));
		report_birth(&birth, VC_OWN_block);
	}
	vc_leave();
}

VC_API(void, block_free, (const void *pointer))
{
	struct vc_registers registers;

	VC_REGISTERS_OF_CALLER(&registers);
	if (enter(false) && pointer) {
		if (!report_death((uint64_t)(uintptr_t)pointer, VC_KIND_BLOCK,
				  capture_stacks(&registers), VC_OWN_block_free))
			vc_store_count(VC_COUNTER_BLOCKS_UNKNOWN);
	}
	vc_leave();
}

/* "role: name", or what there is of it. */
static uint32_t label_of(const char *role, const char *name)
{
	char label[LABEL_MAX];
	size_t length = 0, more;

	if (role) {
		length = strnlen(role, LABEL_MAX / 2);
		memcpy(label, role, length);
	}
	if (name && *name) {
		if (length) {
			memcpy(label + length, ": ", 2);
			length += 2;
		}
		more = strnlen(name, LABEL_MAX - length);
		memcpy(label + length, name, more);
		length += more;
	}
	return vc_store_string(label, length);
}

VC_API(void, tensor, (const void *pointer, size_t bytes, const char *role, const char *name))
{
	struct vc_birth birth = {
		.address = (uint64_t)(uintptr_t)pointer,
		.size = bytes,
		.requested = bytes,
		.kind = VC_KIND_TENSOR,
	};
	struct vc_registers registers;

	VC_REGISTERS_OF_CALLER(&registers);
	if (enter(true)) {
		set_stacks(&birth, &registers);
		birth.label = label_of(role, name);
		report_birth(&birth, VC_OWN_tensor);
	}
	vc_leave();
}

VC_API(void, tensor_free, (const void *pointer))
{
	struct vc_registers registers;

	VC_REGISTERS_OF_CALLER(&registers);
	if (enter(false))
		report_death((uint64_t)(uintptr_t)pointer, VC_KIND_TENSOR,
			     capture_stacks(&registers), VC_OWN_tensor_free);
	vc_leave();
}
