/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/effects.h"

#include <string.h>
#include <sys/mman.h>

#include "capture/inside/device.h"
#include "capture/inside/failure.h"
#include "capture/inside/stack.h"
#include "capture/inside/start.h"
#include "capture/inside/system.h"
#include "capture/inside/thread.h"

/* ---- entering and leaving ---- */

bool vc_call_enter(struct vc_call *call, bool start)
{
	call->outer = vc_enter();
	if (!vc_store_ready()) {
		if (!start || !call->outer)
			return false;
		call->first = vc_start();
		if (!vc_store_ready())
			return false;
	}
	vc_start_thread();
	if (!call->outer)
		vc_store_count(VC_COUNTER_REENTERED);
	return true;
}

bool vc_call_enter_after(struct vc_call *call, vc_cu_result result)
{
	if (call->begun || (result != VC_CU_SUCCESS && result != VC_CU_OUT_OF_MEMORY)) {
		call->outer = vc_enter();
		return vc_store_ready();
	}
	if (!vc_call_enter(call, true))
		return false;
	vc_call_stack(call);
	return true;
}

void vc_call_stack(struct vc_call *call)
{
	struct vc_stacks stacks;

	if (call->stack)
		return;
	if (!call->outer) {
		vc_store_count(VC_COUNTER_STACKS_SKIPPED);
		return;
	}
	vc_stack_take(&call->registers, &stacks);
	call->stack = stacks.native;
	call->python = stacks.python;
	call->module_object = stacks.module_object;
}

void vc_call_leave(struct vc_call *call)
{
	(void)call;
	vc_leave();
}

/* ---- what is known ---- */

uint64_t vc_call_out(const void *out, unsigned int bytes)
{
	uint32_t narrow;
	uint64_t wide;

	if (!out)
		return 0;
	if (bytes == sizeof(narrow)) {
		memcpy(&narrow, out, sizeof(narrow));
		return narrow;
	}
	memcpy(&wide, out, sizeof(wide));
	return wide;
}

void vc_call_birth(const struct vc_call *call, struct vc_birth *ret)
{
	*ret = (struct vc_birth){
		.size = call->size ? call->size : call->width * call->height,
		.stream = call->stream,
		.pool = call->pool,
		.offset = call->offset,
		.parent = call->parent,
		.step = vc_start_step(),
		.stack = call->stack,
		.python = call->python,
		.module_object = call->module_object,
		.phase = vc_thread_local.phase,
		.thread = vc_thread_local.id,
		.call_name = vc_start_call_name(call->row),
		.call = (uint16_t)(call->row + 1),
		.kind = call->kind,
		.flags = vc_thread_local.capturing ? VC_FLAG_CAPTURED : 0,
		.references = call->references,
		.device_plus_one = (uint16_t)call->device_plus_one,
	};
	if (!call->out)
		ret->address = call->address;
	if (call->location) {
		if (call->location->type == VC_CU_LOCATION_DEVICE)
			ret->device_plus_one = (uint16_t)(call->location->id + 1);
		else if (call->kind == VC_KIND_HANDLE)
			ret->kind = VC_KIND_HOST_HANDLE;
	}
	ret->requested = ret->size;
}

void vc_call_death(const struct vc_call *call, struct vc_death *ret)
{
	*ret = (struct vc_death){
		.stack = call->stack,
		.python = call->python,
		.thread = vc_thread_local.id,
		.call_name = vc_start_call_name(call->row),
		.step = vc_start_step(),
	};
}

void vc_call_succeeded(void)
{
	vc_failure_over();
	vc_start_announce();
}

void vc_call_failed(struct vc_call *call, vc_cu_result result, uint64_t requested, int device)
{
	vc_store_abandon(call->record);
	vc_failure_note(call, result, requested, device);
}

void vc_call_refused(struct vc_call *call, vc_cu_result result)
{
	if (result == VC_CU_DEINITIALIZED)
		vc_store_count(VC_COUNTER_DEINITIALIZED);
	else if (result != VC_CU_OUT_OF_MEMORY)
		vc_failure_note(call, result, 0, -1);
}

/* ---- claims ---- */

struct vc_claim *vc_claims_at(struct vc_claims *claims, uint32_t number)
{
	return claims->capacity ? &claims->more[number] : &claims->first[number];
}

static bool claims_grow(struct vc_claims *claims)
{
	uint32_t capacity = claims->capacity ? claims->capacity * 4 : 64;
	struct vc_claim *more;

	more = vc_sys_mmap(NULL, capacity * sizeof(*more), PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (vc_sys_failed(more))
		return false;
	memcpy(more, vc_claims_at(claims, 0), claims->count * sizeof(*more));
	if (claims->capacity)
		vc_sys_munmap(claims->more, claims->capacity * sizeof(*more));
	claims->more = more;
	claims->capacity = capacity;
	return true;
}

bool vc_claims_add(struct vc_claims *claims, struct vc_claim *claim)
{
	uint32_t room = claims->capacity ? claims->capacity :
					   sizeof(claims->first) / sizeof(claims->first[0]);

	if (claims->count == room && !claims_grow(claims))
		return false;
	if (!vc_store_claim_found(claim))
		return false;
	*vc_claims_at(claims, claims->count++) = *claim;
	return true;
}

static void claims_end(struct vc_claims *claims)
{
	if (claims->capacity)
		vc_sys_munmap(claims->more, claims->capacity * sizeof(*claims->more));
	claims->count = claims->capacity = 0;
}

void vc_claims_commit(struct vc_claims *claims, const struct vc_death *death)
{
	for (uint32_t i = 0; i < claims->count; i++)
		vc_store_free_commit(vc_claims_at(claims, i), death);
	claims_end(claims);
}

void vc_claims_undo(struct vc_claims *claims)
{
	for (uint32_t i = 0; i < claims->count; i++)
		vc_store_free_undo(vc_claims_at(claims, i));
	claims_end(claims);
}

/* ---- allocate ---- */

/* What .pool may name. */
#define PARENTS                                                                                    \
	(VC_KINDS(VC_KIND_POOL) | VC_KINDS(VC_KIND_GRAPH) | VC_KINDS(VC_KIND_GREEN_CONTEXT))

/* Apart, so that its room on the stack is not taken while the stack is walked. */
static __attribute__((noinline)) void begin_record(struct vc_call *call)
{
	struct vc_birth birth;
	struct vc_claim pool;

	if (call->pool && vc_store_find(call->pool, PARENTS, &pool)) {
		call->parent = pool.birth;
		call->device_plus_one = pool.copy.device_plus_one;
	}
	vc_call_birth(call, &birth);
	call->record = vc_store_begin(&birth);
}

void vc_before_ALLOCATE(struct vc_call *call)
{
	call->record = VC_NO_RECORD;
	call->begun = vc_call_enter(call, false);
	if (call->begun) {
		vc_call_stack(call);
		begin_record(call);
	}
	vc_call_leave(call);
}

/* Fields that only the driver's answer gives. */
static void complete_birth(struct vc_call *call, struct vc_birth *birth)
{
	uint64_t pitch = vc_call_out(call->pitch, call->pitch_bytes);

	if (call->out)
		birth->address = vc_call_out(call->out, call->out_bytes);
	if (call->pitch)
		birth->size = pitch * call->height;
	if (birth->kind == VC_KIND_ASYNC)
		vc_graph_captured(call, birth);
	vc_device_complete(call, birth);
}

void vc_after_ALLOCATE(struct vc_call *call, vc_cu_result result)
{
	struct vc_birth birth;

	if (vc_call_enter_after(call, result)) {
		vc_call_birth(call, &birth);
		if (!call->begun)
			call->record = vc_store_begin(&birth);
		if (result == VC_CU_SUCCESS) {
			complete_birth(call, &birth);
			vc_store_commit(call->record, &birth);
			vc_call_succeeded();
		} else {
			vc_call_failed(call, result, birth.requested,
				       (int)birth.device_plus_one - 1);
		}
	}
	vc_call_leave(call);
}

/* ---- free ---- */

void vc_before_FREE(struct vc_call *call)
{
	struct vc_claims *claims = call->claims;

	if (vc_call_enter(call, false) && call->address) {
		vc_call_stack(call);
		if (vc_store_claim(call->address, call->kinds, &claims->first[0]))
			claims->count = 1;
		else if (call->kinds == VC_KINDS_FREEABLE &&
			 vc_store_find(call->address, VC_KINDS(VC_KIND_GRAPH_ALLOCATION),
				       &claims->first[0]))
			call->parent = claims->first[0].birth; /* stays: its graph may run again */
	}
	vc_call_leave(call);
}

void vc_after_FREE(struct vc_call *call, vc_cu_result result)
{
	struct vc_death death;

	call->outer = vc_enter();
	if (!vc_store_ready()) {
		vc_call_leave(call);
		return;
	}
	if (result == VC_CU_SUCCESS) {
		vc_call_death(call, &death);
		if (!call->claims->count && !call->parent && call->address)
			vc_store_count(VC_COUNTER_FREES_UNKNOWN);
		vc_claims_commit(call->claims, &death);
	} else {
		vc_call_refused(call, result);
		vc_claims_undo(call->claims);
	}
	vc_call_leave(call);
}

/* ---- export ---- */

void vc_before_EXPORT(struct vc_call *call)
{
	(void)call;
}

void vc_after_EXPORT(struct vc_call *call, vc_cu_result result)
{
	if (result == VC_CU_SUCCESS) {
		call->outer = vc_enter();
		if (vc_store_ready())
			vc_store_count(VC_COUNTER_EXPORTS);
		vc_call_leave(call);
	} else {
		vc_failure_result(call->row, result, &call->registers);
	}
}
