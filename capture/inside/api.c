/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions behind vramcore.h: what the program reports about itself.
 *
 * Each is exported under the name that the header calls and, for callers that look names up
 * (ctypes), under the plain one.
 */
#include <stdbool.h>
#include <string.h>

#include "capture/inside/blocks.h"
#include "capture/inside/events.h"
#include "capture/inside/phase.h"
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

VC_API(void, step, (uint64_t step))
{
	if (vc_start_enter(false))
		vc_phase_step(VC_STEP_PROGRAM, step);
	vc_leave();
}

VC_API(void, phase, (const char *name))
{
	if (vc_start_enter(false))
		vc_phase_set(name ? name : "", name ? strlen(name) : 0);
	vc_leave();
}

VC_API(void, phase_push, (const char *name))
{
	if (vc_start_enter(false))
		vc_phase_push(name ? name : "", name ? strlen(name) : 0);
	vc_leave();
}

VC_API(void, phase_pop, (void))
{
	if (vc_start_enter(false))
		vc_phase_pop();
	vc_leave();
}

VC_API(void, snapshot, (void))
{
	if (vc_start_enter(false))
		vc_event_request();
	vc_leave();
}

VC_API(int, start, (void))
{
	int result = vc_start_enter(true);

	if (result)
		vc_start_announce();
	vc_leave();
	return result;
}

/* ---- blocks and tensors ---- */

static void set_stacks(struct vc_birth *birth, const struct vc_registers *registers)
{
	struct vc_stacks stacks;

	vc_block_stacks(registers, &stacks);
	birth->stack = stacks.native;
	birth->python = stacks.python;
	birth->module_object = stacks.module_object;
}

static bool report_death(uint64_t address, enum vc_kind kind, const struct vc_registers *registers,
			 enum vc_own_call call)
{
	struct vc_stacks stacks;
	uint64_t number;

	vc_block_stacks(registers, &stacks);
	return vc_block_died(address, kind, &stacks, call, &number);
}

static void report_birth(struct vc_birth *birth, enum vc_own_call call)
{
	bool replaced;

	birth->flags = VC_FLAG_REPORTED;
	if (vc_thread_local.context_known) {
		birth->context = vc_thread_local.context;
		birth->device_plus_one = (uint16_t)(vc_thread_local.device + 1);
	}
	vc_block_born(birth, call, &replaced);
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
	if (vc_start_enter(true)) {
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
	if (vc_start_enter(false) && pointer) {
		if (!report_death((uint64_t)(uintptr_t)pointer, VC_KIND_BLOCK,
				  &registers, VC_OWN_block_free))
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
	if (vc_start_enter(true)) {
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
	if (vc_start_enter(false))
		report_death((uint64_t)(uintptr_t)pointer, VC_KIND_TENSOR,
			     &registers, VC_OWN_tensor_free);
	vc_leave();
}
