/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: which one is current to a thread, and what goes with one that is destroyed.
 *
 * What belongs to a context are the records that carry its value. Memory of cuMemCreate,
 * reservations, mappings and pools belong to the process or the device and carry none.
 */
#include "capture/inside/effects.h"

#include <string.h>

#include "capture/inside/device.h"
#include "capture/inside/start.h"
#include "capture/inside/thread.h"

#define KIND_CONTEXT VC_KINDS(VC_KIND_CONTEXT)

/* ---- what is current ---- */

static void set_current(uint64_t context, int device)
{
	struct vc_claim claim;

	vc_thread_local.context = context;
	vc_thread_local.context_known = true;
	vc_thread_local.device = (int16_t)device;
	if (device < 0 && context && vc_store_ready() &&
	    vc_store_find(context, KIND_CONTEXT, &claim))
		vc_thread_local.device = (int16_t)(claim.copy.device_plus_one - 1);
}

void vc_before_CONTEXT_CURRENT(struct vc_call *call)
{
	(void)call;
}

void vc_after_CONTEXT_CURRENT(struct vc_call *call, vc_cu_result result)
{
	if (result != VC_CU_SUCCESS)
		return;
	call->outer = vc_enter();
	vc_start_thread();
	set_current(call->address, -1);
	/* A thread that sets none pops: what is below is not known. */
	if (!call->address)
		vc_thread_local.context_known = false;
	vc_call_leave(call);
}

void vc_before_CONTEXT_POP(struct vc_call *call)
{
	(void)call;
}

void vc_after_CONTEXT_POP(struct vc_call *call, vc_cu_result result)
{
	(void)call;
	if (result == VC_CU_SUCCESS)
		vc_thread_local.context_known = false;
}

/* ---- birth ---- */

static void context_born(struct vc_call *call, uint64_t context, uint8_t flags, uint32_t references)
{
	struct vc_birth birth;

	call->kind = VC_KIND_CONTEXT;
	call->references = references;
	vc_call_stack(call);
	vc_call_birth(call, &birth);
	birth.address = context;
	birth.context = context;
	birth.flags = flags;
	vc_store_commit(vc_store_begin(&birth), &birth);
	vc_device_used(call->device_plus_one - 1);
	vc_call_succeeded();
}

void vc_before_CONTEXT_CREATE(struct vc_call *call)
{
	(void)call;
}

void vc_after_CONTEXT_CREATE(struct vc_call *call, vc_cu_result result)
{
	uint64_t context = vc_call_out(call->out, call->out_bytes);

	call->record = VC_NO_RECORD;
	if (vc_call_enter(call, result == VC_CU_SUCCESS || result == VC_CU_OUT_OF_MEMORY)) {
		vc_call_stack(call);
		if (result == VC_CU_SUCCESS)
			context_born(call, context, 0, 1);
		else
			vc_call_failed(call, result, 0, call->device_plus_one - 1);
	}
	if (result == VC_CU_SUCCESS)
		set_current(context, call->device_plus_one - 1);
	vc_call_leave(call);
}

void vc_before_CONTEXT_ATTACH(struct vc_call *call)
{
	(void)call;
}

void vc_after_CONTEXT_ATTACH(struct vc_call *call, vc_cu_result result)
{
	if (result != VC_CU_SUCCESS)
		return;
	call->outer = vc_enter();
	if (vc_store_ready())
		vc_store_reference(vc_call_out(call->out, call->out_bytes), KIND_CONTEXT, 1);
	vc_call_leave(call);
}

/* ---- death, with all that the context holds ---- */

struct context_search {
	struct vc_claims *claims;
	uint64_t context;
};

static bool claim_owned(const struct vc_claim *claim, void *argument)
{
	struct context_search *search = argument;
	struct vc_claim own = *claim;

	if (claim->copy.context == search->context)
		vc_claims_add(search->claims, &own);
	return true;
}

/* The context's own record is among them: it carries its own value. */
static void claim_context(struct vc_call *call, uint64_t context)
{
	struct context_search search = {.claims = call->claims, .context = context};

	if (!context)
		return;
	vc_call_stack(call);
	vc_store_visit(claim_owned, &search);
}

static void context_ends(struct vc_call *call, vc_cu_result result)
{
	struct vc_death death;

	call->outer = vc_enter();
	if (vc_store_ready()) {
		if (result == VC_CU_SUCCESS) {
			vc_call_death(call, &death);
			vc_claims_commit(call->claims, &death);
		} else {
			vc_call_refused(call, result);
			vc_claims_undo(call->claims);
		}
	}
	if (result == VC_CU_SUCCESS &&
	    vc_thread_local.context == (call->handle ? call->handle : call->address))
		vc_thread_local.context_known = false;
	vc_call_leave(call);
}

void vc_before_CONTEXT_DESTROY(struct vc_call *call)
{
	if (vc_call_enter(call, false))
		claim_context(call, call->address);
	vc_call_leave(call);
}

void vc_after_CONTEXT_DESTROY(struct vc_call *call, vc_cu_result result)
{
	context_ends(call, result);
}

void vc_before_CONTEXT_DETACH(struct vc_call *call)
{
	if (vc_call_enter(call, false) &&
	    vc_store_reference(call->address, KIND_CONTEXT, -1) == 0)
		claim_context(call, call->address);
	vc_call_leave(call);
}

void vc_after_CONTEXT_DETACH(struct vc_call *call, vc_cu_result result)
{
	context_ends(call, result);
	if (result == VC_CU_SUCCESS)
		return;
	call->outer = vc_enter();
	if (vc_store_ready())
		vc_store_reference(call->address, KIND_CONTEXT, 1);
	vc_call_leave(call);
}

/* ---- a device's own context ---- */

/* References by device, outside the recording: two threads that retain at once make one record. */
static uint32_t retained_in[VC_DRIVERS][VC_DEVICES_MAX];
static uint64_t primary_in[VC_DRIVERS][VC_DEVICES_MAX];
#define retained (retained_in[vc_thread_local.driver])
#define primary (primary_in[vc_thread_local.driver])

void vc_context_forget(void)
{
	memset(retained_in, 0, sizeof(retained_in));
	memset(primary_in, 0, sizeof(primary_in));
}

static bool device_in_range(const struct vc_call *call)
{
	return call->device_plus_one > 0 && call->device_plus_one <= (int)VC_DEVICES_MAX;
}

void vc_before_PRIMARY_RETAIN(struct vc_call *call)
{
	(void)call;
}

void vc_after_PRIMARY_RETAIN(struct vc_call *call, vc_cu_result result)
{
	int device = call->device_plus_one - 1;
	uint64_t context = vc_call_out(call->out, call->out_bytes);

	call->record = VC_NO_RECORD;
	if (vc_call_enter(call, result == VC_CU_SUCCESS || result == VC_CU_OUT_OF_MEMORY) &&
	    device_in_range(call)) {
		if (result != VC_CU_SUCCESS) {
			vc_call_stack(call);
			vc_call_failed(call, result, 0, device);
		} else {
			uint32_t references = __atomic_add_fetch(&retained[device], 1,
								 __ATOMIC_ACQ_REL);

			if (__atomic_exchange_n(&primary[device], context, __ATOMIC_ACQ_REL)) {
				vc_store_reference(context, KIND_CONTEXT, 1);
				vc_call_succeeded();
			} else {
				context_born(call, context, VC_FLAG_PRIMARY, references);
			}
		}
	}
	vc_call_leave(call);
}

/* One reference less; the number before, 0 where none was known. */
static uint32_t release_one(int device)
{
	uint32_t before = __atomic_load_n(&retained[device], __ATOMIC_ACQUIRE);

	while (before && !__atomic_compare_exchange_n(&retained[device], &before, before - 1,
						      false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
	return before;
}

/* Takes a reference off the device's own context; with the last it goes. */
static void release_before(struct vc_call *call)
{
	int device = call->device_plus_one - 1;
	uint32_t before = release_one(device);

	call->references = before; /* what a refused call gives back */
	call->handle = __atomic_load_n(&primary[device], __ATOMIC_ACQUIRE);
	if (before == 1)
		claim_context(call, call->handle);
	else if (before)
		vc_store_reference(call->handle, KIND_CONTEXT, -1);
}

static void release_after(struct vc_call *call, vc_cu_result result)
{
	bool last = call->references == 1;

	context_ends(call, result);
	if (!call->references || !device_in_range(call))
		return;
	if (result == VC_CU_SUCCESS) {
		if (last)
			__atomic_store_n(&primary[call->device_plus_one - 1], 0, __ATOMIC_RELEASE);
		return;
	}
	call->outer = vc_enter();
	__atomic_fetch_add(&retained[call->device_plus_one - 1], 1, __ATOMIC_ACQ_REL);
	if (vc_store_ready() && !last)
		vc_store_reference(call->handle, KIND_CONTEXT, 1);
	vc_call_leave(call);
}

void vc_before_PRIMARY_RELEASE(struct vc_call *call)
{
	if (vc_call_enter(call, false) && device_in_range(call))
		release_before(call);
	vc_call_leave(call);
}

void vc_after_PRIMARY_RELEASE(struct vc_call *call, vc_cu_result result)
{
	release_after(call, result);
}

void vc_before_PRIMARY_RESET(struct vc_call *call)
{
	if (vc_call_enter(call, false) && device_in_range(call)) {
		call->handle = __atomic_load_n(&primary[call->device_plus_one - 1],
					       __ATOMIC_ACQUIRE);
		claim_context(call, call->handle);
	}
	vc_call_leave(call);
}

void vc_after_PRIMARY_RESET(struct vc_call *call, vc_cu_result result)
{
	context_ends(call, result);
	if (result == VC_CU_SUCCESS && device_in_range(call)) {
		__atomic_store_n(&retained[call->device_plus_one - 1], 0, __ATOMIC_RELEASE);
		__atomic_store_n(&primary[call->device_plus_one - 1], 0, __ATOMIC_RELEASE);
	}
}

/* ---- green contexts: a part of a device, which keeps the device's own context ---- */

void vc_before_GREEN_CREATE(struct vc_call *call)
{
	vc_before_ALLOCATE(call);
}

void vc_after_GREEN_CREATE(struct vc_call *call, vc_cu_result result)
{
	uint64_t context;

	vc_after_ALLOCATE(call, result);
	if (result != VC_CU_SUCCESS || !device_in_range(call))
		return;
	call->outer = vc_enter();
	__atomic_fetch_add(&retained[call->device_plus_one - 1], 1, __ATOMIC_ACQ_REL);
	context = __atomic_load_n(&primary[call->device_plus_one - 1], __ATOMIC_ACQUIRE);
	if (context && vc_store_ready())
		vc_store_reference(context, KIND_CONTEXT, 1);
	vc_call_leave(call);
}

void vc_before_GREEN_DESTROY(struct vc_call *call)
{
	struct vc_claim green;

	if (vc_call_enter(call, false)) {
		vc_call_stack(call);
		if (vc_store_find(call->address, call->kinds, &green) &&
		    vc_claims_add(call->claims, &green)) {
			call->device_plus_one = green.copy.device_plus_one;
			if (device_in_range(call))
				release_before(call);
		}
	}
	vc_call_leave(call);
}

void vc_after_GREEN_DESTROY(struct vc_call *call, vc_cu_result result)
{
	release_after(call, result);
}
