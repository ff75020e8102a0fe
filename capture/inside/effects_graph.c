/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: what is captured into them, their nodes that allocate, their executables.
 *
 * An allocation of a graph is a range of addresses, from the making of its node until neither the
 * graph nor an executable of it is left; the bytes behind it come and go as the graph runs, so a
 * free of its address ends nothing. Its record names the graph's as its parent, as an executable's
 * does.
 */
#include "capture/inside/effects.h"

#include "capture/inside/failure.h"
#include "capture/inside/start.h"
#include "capture/inside/thread.h"

#define KIND_GRAPH VC_KINDS(VC_KIND_GRAPH)

/* Streams that are captured now, by any thread; allocations of graphs that live. */
static uint32_t captures;
static uint32_t allocations;

void vc_graph_forget(void)
{
	captures = 0;
	allocations = 0;
}

bool vc_graph_captures(void)
{
	return vc_thread_local.capturing || __atomic_load_n(&captures, __ATOMIC_ACQUIRE);
}

/* ---- capture ---- */

/* The graph that a stream is captured into, 0: none, or the driver does not tell. */
static uint64_t graph_of_stream(uint64_t stream)
{
	vc_cu_graph graph = NULL;
	uint64_t number;
	int status = 0;

	if (!vc_driver.cuStreamGetCaptureInfo_v2 ||
	    vc_driver.cuStreamGetCaptureInfo_v2((vc_cu_stream)(uintptr_t)stream, &status, &number,
						&graph, NULL, NULL) ||
	    status != VC_CU_CAPTURING)
		return 0;
	return VC_HANDLE(graph);
}

void vc_graph_captured(const struct vc_call *call, struct vc_birth *birth)
{
	struct vc_claim graph;
	uint64_t handle;

	if (__builtin_expect(!__atomic_load_n(&captures, __ATOMIC_ACQUIRE), 1))
		return;
	handle = graph_of_stream(call->stream);
	if (!handle)
		return;
	birth->kind = VC_KIND_GRAPH_ALLOCATION;
	birth->pool = handle;
	birth->parent = vc_store_find(handle, KIND_GRAPH, &graph) ? graph.birth : 0;
	__atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}

static void graph_born(struct vc_call *call, uint64_t handle)
{
	struct vc_birth birth;

	call->kind = VC_KIND_GRAPH;
	vc_call_stack(call);
	vc_call_birth(call, &birth);
	birth.address = handle;
	birth.flags |= VC_FLAG_CAPTURED;
	vc_store_commit(vc_store_begin(&birth), &birth);
}

void vc_before_CAPTURE_BEGIN(struct vc_call *call)
{
	(void)call;
}

void vc_after_CAPTURE_BEGIN(struct vc_call *call, vc_cu_result result)
{
	struct vc_claim graph;

	if (result != VC_CU_SUCCESS) {
		vc_failure_result(call->row, result, &call->registers);
		return;
	}
	__atomic_fetch_add(&captures, 1, __ATOMIC_ACQ_REL);
	if (vc_call_enter(call, true)) {
		vc_thread_local.capture_graph = 0;
		if (!call->address) {
			uint64_t handle = graph_of_stream(call->stream);

			if (handle && !vc_store_find(handle, KIND_GRAPH, &graph))
				graph_born(call, handle);
			vc_thread_local.capture_graph = handle;
		}
	}
	vc_call_leave(call);
	if (vc_thread_local.capturing < UINT8_MAX)
		vc_thread_local.capturing++;
}

/* An error that says so ends a capture as well; others say that nothing was ended. */
static bool capture_ended(vc_cu_result result)
{
	switch (result) {
	case VC_CU_SUCCESS:
	case 901: /* invalidated */
	case 902: /* merge */
	case 904: /* unjoined */
	case 905: /* isolation */
	case 906: /* implicit */
	case 907: /* captured event */
		return true;
	default:
		return false;
	}
}

struct search {
	struct vc_claims *claims;
	uint64_t graph; /* number of its birth */
	bool held;
};

static bool claim_allocation(const struct vc_claim *claim, void *argument)
{
	struct search *search = argument;
	struct vc_claim own = *claim;

	if (claim->copy.kind == VC_KIND_GRAPH_ALLOCATION && claim->copy.parent == search->graph)
		vc_claims_add(search->claims, &own);
	return true;
}

static void claim_allocations(struct vc_call *call, uint64_t graph)
{
	struct search search = {.claims = call->claims, .graph = graph};

	if (graph && __atomic_load_n(&allocations, __ATOMIC_ACQUIRE))
		vc_store_visit(claim_allocation, &search);
}

static void commit(struct vc_call *call)
{
	struct vc_death death;

	for (uint32_t i = 0; i < call->claims->count; i++)
		if (vc_claims_at(call->claims, i)->copy.kind == VC_KIND_GRAPH_ALLOCATION)
			__atomic_fetch_sub(&allocations, 1, __ATOMIC_RELAXED);
	vc_call_death(call, &death);
	vc_claims_commit(call->claims, &death);
}

void vc_before_CAPTURE_END(struct vc_call *call)
{
	(void)call;
}

static void graph_lost(struct vc_call *call)
{
	struct vc_claim graph;

	if (!vc_thread_local.capture_graph ||
	    !vc_store_find(vc_thread_local.capture_graph, KIND_GRAPH, &graph))
		return;
	vc_call_stack(call);
	if (vc_claims_add(call->claims, &graph))
		claim_allocations(call, graph.birth);
	commit(call);
}

void vc_after_CAPTURE_END(struct vc_call *call, vc_cu_result result)
{
	uint32_t before = __atomic_load_n(&captures, __ATOMIC_ACQUIRE);
	struct vc_claim graph;
	uint64_t handle;

	if (!capture_ended(result)) {
		vc_failure_result(call->row, result, &call->registers);
		return;
	}
	while (before && !__atomic_compare_exchange_n(&captures, &before, before - 1, false,
						      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		;
	if (vc_thread_local.capturing)
		vc_thread_local.capturing--;
	if (vc_call_enter(call, false)) {
		handle = vc_call_out(call->out, call->out_bytes);
		if (result != VC_CU_SUCCESS)
			graph_lost(call);
		else if (handle && !vc_store_find(handle, KIND_GRAPH, &graph))
			graph_born(call, handle);
		vc_thread_local.capture_graph = 0;
	}
	vc_call_leave(call);
}

/* ---- nodes ---- */

void vc_before_GRAPH_NODE(struct vc_call *call)
{
	call->record = VC_NO_RECORD;
	if (call->kind)
		vc_before_ALLOCATE(call);
}

void vc_after_GRAPH_NODE(struct vc_call *call, vc_cu_result result)
{
	if (!call->kind) {
		if (result != VC_CU_SUCCESS)
			vc_failure_result(call->row, result, &call->registers);
		return;
	}
	if (result == VC_CU_SUCCESS)
		__atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
	vc_after_ALLOCATE(call, result);
}

/* ---- the end of a graph or an executable ---- */

static bool holds_graph(const struct vc_claim *claim, void *argument)
{
	struct search *search = argument;

	if ((claim->copy.kind == VC_KIND_GRAPH_EXEC && claim->copy.parent == search->graph) ||
	    (claim->copy.kind == VC_KIND_GRAPH && claim->birth == search->graph))
		search->held = true;
	return !search->held;
}

/* What is claimed already holds nothing: of two that end at once the second finds nobody else. */
void vc_before_GRAPH_DESTROY(struct vc_call *call)
{
	struct search search = {.claims = call->claims};
	struct vc_claim own;

	if (vc_call_enter(call, false)) {
		vc_call_stack(call);
		if (vc_store_find(call->address, call->kinds, &own) &&
		    vc_claims_add(call->claims, &own)) {
			search.graph = own.copy.kind == VC_KIND_GRAPH ? own.birth : own.copy.parent;
			if (search.graph && __atomic_load_n(&allocations, __ATOMIC_ACQUIRE))
				vc_store_visit(holds_graph, &search);
			if (!search.held)
				claim_allocations(call, search.graph);
		}
	}
	vc_call_leave(call);
}

void vc_after_GRAPH_DESTROY(struct vc_call *call, vc_cu_result result)
{
	call->outer = vc_enter();
	if (vc_store_ready()) {
		if (result == VC_CU_SUCCESS) {
			if (!call->claims->count)
				vc_store_count(VC_COUNTER_FREES_UNKNOWN);
			commit(call);
		} else {
			vc_call_refused(call, result);
			vc_claims_undo(call->claims);
		}
	}
	vc_call_leave(call);
}
