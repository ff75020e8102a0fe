/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: handles, mappings into them, and what is bound to multicast objects.
 *
 * A handle's record counts its references and its mappings together: the bytes go when both are
 * gone, as the driver has it. A mapping names its handle by the birth number of the record, since
 * the driver may use the value of a released handle again while mappings of it remain. Memory that is
 * bound to a multicast object is kept by the binding as by a mapping.
 */
#include "capture/inside/effects.h"

#include "capture/inside/thread.h"

struct birth_search {
	uint64_t birth;
	struct vc_claim *ret;
};

static bool same_birth(const struct vc_claim *claim, void *argument)
{
	struct birth_search *search = argument;

	if (claim->birth != search->birth)
		return true;
	*search->ret = *claim;
	search->birth = 0;
	return false;
}

/* The handle's record by its value, or, where the value means another one by now, by its number. */
static bool find_handle(uint64_t handle, uint64_t birth, struct vc_claim *ret)
{
	struct birth_search search = {.birth = birth, .ret = ret};

	if (vc_store_find(handle, VC_KINDS_HANDLES, ret) && (!birth || ret->birth == birth))
		return true;
	if (!birth)
		return false;
	vc_store_visit(same_birth, &search);
	return search.birth == 0;
}

/* Takes one reference off; claims the record with the last. False: it was not there. */
static bool drop_reference(struct vc_call *call, struct vc_claim *handle)
{
	uint32_t left = vc_store_reference_found(handle, -1);

	if (left == VC_NO_RECORD)
		return false;
	if (left == 0)
		vc_claims_add(call->claims, handle);
	return true;
}

/* ---- what is bound to a multicast object ---- */

struct binding_search {
	const struct vc_call *call;
	struct vc_claims *claims; /* NULL: the first is looked for */
	struct vc_claim found;
	bool any;
};

/* All of an object, or those of a device in a range of it. */
static bool is_binding(const struct vc_claim *claim, void *argument)
{
	struct binding_search *search = argument;
	const struct vc_record *record = &claim->copy;
	const struct vc_call *call = search->call;

	if (record->kind != VC_KIND_BINDING || record->address != call->address)
		return true;
	if (call->size && (record->offset < call->offset ||
			   record->offset - call->offset >= call->size ||
			   record->device_plus_one != call->device_plus_one))
		return true;
	search->found = *claim;
	search->any = true;
	if (search->claims)
		vc_claims_add(search->claims, &search->found);
	return search->claims != NULL;
}

static void unmap_handle(const struct vc_record *mapping, const struct vc_death *death);

/* With the object go its bindings. */
static void drop_bindings(uint64_t multicast, const struct vc_death *death)
{
	const struct vc_call all = {.address = multicast};

	for (;;) {
		struct binding_search search = {.call = &all};

		vc_store_visit(is_binding, &search);
		if (!search.any || !vc_store_claim_found(&search.found))
			return;
		unmap_handle(&search.found.copy, death);
		vc_store_free_commit(&search.found, death);
	}
}

/* ---- release and retain ---- */

void vc_before_HANDLE_RELEASE(struct vc_call *call)
{
	struct vc_claim handle;

	if (vc_call_enter(call, false)) {
		vc_call_stack(call);
		if (find_handle(call->address, 0, &handle) && drop_reference(call, &handle))
			call->parent = handle.birth;
	}
	vc_call_leave(call);
}

void vc_after_HANDLE_RELEASE(struct vc_call *call, vc_cu_result result)
{
	struct vc_death death;
	struct vc_claim handle;

	call->outer = vc_enter();
	if (vc_store_ready()) {
		if (result == VC_CU_SUCCESS) {
			vc_call_death(call, &death);
			if (!call->parent)
				vc_store_count(VC_COUNTER_FREES_UNKNOWN);
			if (call->claims->count &&
			    call->claims->first[0].copy.kind == VC_KIND_MULTICAST)
				drop_bindings(call->address, &death);
			vc_claims_commit(call->claims, &death);
		} else {
			vc_call_refused(call, result);
			vc_claims_undo(call->claims);
			if (call->parent && find_handle(call->address, call->parent, &handle))
				vc_store_reference_found(&handle, 1);
		}
	}
	vc_call_leave(call);
}

void vc_before_HANDLE_RETAIN(struct vc_call *call)
{
	(void)call;
}

/*
 * The driver gives a handle for the memory at an address. Where it is a value that is not known
 * (the program released the one it had), the mapping at the address tells which record it is.
 */
void vc_after_HANDLE_RETAIN(struct vc_call *call, vc_cu_result result)
{
	struct vc_claim mapping, handle;
	uint64_t value, birth = 0;

	if (result != VC_CU_SUCCESS)
		return;
	call->outer = vc_enter();
	if (vc_store_ready()) {
		value = vc_call_out(call->out, call->out_bytes);
		if (vc_store_find(call->address, VC_KINDS(VC_KIND_MAPPING), &mapping) ||
		    vc_store_find_containing(call->address, VC_KINDS(VC_KIND_MAPPING), &mapping))
			birth = mapping.copy.parent;
		if (find_handle(value, birth, &handle))
			vc_store_reference_found(&handle, 1);
	}
	vc_call_leave(call);
}

/* ---- mappings ---- */

/* A binding begins as a mapping does, but that its memory may be given by address. */
void vc_before_BIND(struct vc_call *call)
{
	struct vc_claim mapping;
	uint64_t address = call->pool;

	call->pool = 0;
	if (address && vc_call_enter(call, false) &&
	    (vc_store_find(address, VC_KINDS(VC_KIND_MAPPING), &mapping) ||
	     vc_store_find_containing(address, VC_KINDS(VC_KIND_MAPPING), &mapping)))
		call->handle = mapping.copy.pool;
	if (address)
		vc_call_leave(call);
	vc_before_MAP(call);
}

void vc_after_BIND(struct vc_call *call, vc_cu_result result)
{
	vc_after_MAP(call, result);
}

void vc_before_MAP(struct vc_call *call)
{
	struct vc_birth birth;
	struct vc_claim handle;

	call->record = VC_NO_RECORD;
	call->begun = vc_call_enter(call, false);
	if (call->begun) {
		vc_call_stack(call);
		if (find_handle(call->handle, 0, &handle) &&
		    vc_store_reference_found(&handle, 1) != VC_NO_RECORD) {
			call->parent = handle.birth;
			call->device_plus_one = handle.copy.device_plus_one;
		}
		vc_call_birth(call, &birth);
		birth.pool = call->handle;
		call->record = vc_store_begin(&birth);
	}
	vc_call_leave(call);
}

void vc_after_MAP(struct vc_call *call, vc_cu_result result)
{
	struct vc_birth birth;
	struct vc_claim handle;

	if (vc_call_enter_after(call, result)) {
		vc_call_birth(call, &birth);
		birth.pool = call->handle;
		if (!call->begun)
			call->record = vc_store_begin(&birth);
		if (result == VC_CU_SUCCESS) {
			vc_store_commit(call->record, &birth);
			vc_call_succeeded();
		} else {
			if (call->parent && find_handle(call->handle, call->parent, &handle))
				vc_store_reference_found(&handle, -1);
			vc_call_failed(call, result, call->size, call->device_plus_one - 1);
		}
	}
	vc_call_leave(call);
}

/*
 * The range holds whole mappings, one after the other. They are claimed before the call; their
 * handles lose references after it, since only then it is known that they do.
 */
void vc_before_UNMAP(struct vc_call *call)
{
	uint64_t address = call->address, end = call->address + call->size;
	struct vc_claim mapping;

	if (vc_call_enter(call, false)) {
		vc_call_stack(call);
		while (address < end &&
		       vc_store_find(address, VC_KINDS(VC_KIND_MAPPING), &mapping) &&
		       mapping.copy.size && vc_claims_add(call->claims, &mapping))
			address += mapping.copy.size;
	}
	vc_call_leave(call);
}

/* The handle of a mapping that is gone: one reference less, and with the last its own death. */
static void unmap_handle(const struct vc_record *mapping, const struct vc_death *death)
{
	struct vc_claim handle;

	if (mapping->parent && find_handle(mapping->pool, mapping->parent, &handle) &&
	    vc_store_reference_found(&handle, -1) == 0 && vc_store_claim_found(&handle)) {
		if (handle.copy.kind == VC_KIND_MULTICAST)
			drop_bindings(handle.copy.address, death);
		vc_store_free_commit(&handle, death);
	}
}

void vc_after_UNMAP(struct vc_call *call, vc_cu_result result)
{
	struct vc_death death;

	call->outer = vc_enter();
	if (vc_store_ready()) {
		vc_call_death(call, &death);
		if (result == VC_CU_SUCCESS) {
			if (!call->claims->count)
				vc_store_count(VC_COUNTER_FREES_UNKNOWN);
			for (uint32_t i = 0; i < call->claims->count; i++)
				unmap_handle(&vc_claims_at(call->claims, i)->copy, &death);
			vc_claims_commit(call->claims, &death);
		} else {
			vc_call_refused(call, result);
			vc_claims_undo(call->claims);
		}
	}
	vc_call_leave(call);
}

void vc_before_UNBIND(struct vc_call *call)
{
	struct binding_search search = {.call = call, .claims = call->claims};

	if (vc_call_enter(call, false)) {
		vc_call_stack(call);
		vc_store_visit(is_binding, &search);
	}
	vc_call_leave(call);
}

void vc_after_UNBIND(struct vc_call *call, vc_cu_result result)
{
	vc_after_UNMAP(call, result);
}
