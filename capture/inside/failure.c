/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/failure.h"

#include "capture/inside/device.h"
#include "capture/inside/events.h"
#include "capture/inside/start.h"
#include "capture/inside/thread.h"

/*
 * vc_thread_local.failure_plus_one: the first failure of a row of them without a success between,
 * plus 1, or this where its details found no room; the top bit once there was a second. With the
 * next bit it is the last that a framework reported, at failure_python.
 */
#define ROW_LOST_PLUS_ONE 0x3fffffffu
#define FAILED_AGAIN 0x80000000u
#define GAVE_UP 0x40000000u

static void outcome(uint32_t row_plus_one, enum vc_failure_outcome what)
{
	if (row_plus_one != ROW_LOST_PLUS_ONE)
		vc_store_failure_outcome(row_plus_one - 1, what);
}

static uint32_t event_row(uint32_t row_plus_one)
{
	return row_plus_one == ROW_LOST_PLUS_ONE ? UINT32_MAX : row_plus_one - 1;
}

/* The mark to show is the first: it has what was live before the program gave memory back. */
static void tell(uint32_t row_plus_one)
{
	uint32_t before = vc_thread_local.failure_plus_one;

	if (!before) {
		vc_thread_local.failure_plus_one = row_plus_one;
		vc_event_failure(event_row(row_plus_one), false);
		return;
	}
	outcome(row_plus_one, VC_FAILURE_OUT_OF_MEMORY);
	if (before & FAILED_AGAIN) {
		vc_event_failure(event_row(row_plus_one), true);
		return;
	}
	vc_thread_local.failure_plus_one = before | FAILED_AGAIN;
	outcome(before, VC_FAILURE_OUT_OF_MEMORY);
	vc_event_failure(event_row(before), true);
}

static struct vc_failure describe(const struct vc_call *call, vc_cu_result result)
{
	return (struct vc_failure){
		.step = vc_start_step(),
		.call_name = vc_start_call_name(call->row),
		.result = (uint32_t)result,
		.phase = vc_thread_local.phase,
		.thread = vc_thread_local.id,
		.stack = call->stack,
		.python = call->python,
	};
}

/* Of one recording: a program that runs out of memory over and over keeps room for blocks. */
#define MARKS_KEPT 1024

static uint32_t marks_kept;

/* What the device says, and the row; plus 1, or ROW_LOST_PLUS_ONE. */
static uint32_t keep_mark(struct vc_failure *failure, int device)
{
	uint32_t row;

	if (__atomic_load_n(&marks_kept, __ATOMIC_RELAXED) >= MARKS_KEPT ||
	    __atomic_fetch_add(&marks_kept, 1, __ATOMIC_RELAXED) >= MARKS_KEPT) {
		vc_store_count(VC_COUNTER_FAILURES_LOST);
		return ROW_LOST_PLUS_ONE;
	}
	if (device < 0 && vc_thread_local.context_known)
		device = vc_thread_local.device;
	failure->free_plus_one = vc_device_free(device, &device, &failure->total);
	failure->device_plus_one = (uint16_t)(device + 1);
	row = vc_store_failure(failure);
	return row < ROW_LOST_PLUS_ONE ? row + 1 : ROW_LOST_PLUS_ONE;
}

/* PyTorch's allocator calls the driver through the runtime library, if that is one of its own. */
static bool by_torch(uint32_t stack)
{
	return vc_store_stack_goes_through(stack, "/libc10_cuda.so", 4);
}

/* An allocator that has shown that it reports when it gives up. */
static bool reports_itself(int device)
{
	const struct vc_root *root = vc_store_root();

	if (device < 0 && vc_thread_local.context_known)
		device = vc_thread_local.device;
	for (int i = 0; i < (int)VC_DEVICES_MAX; i++)
		if ((device < 0 || i == device) &&
		    __atomic_load_n(&root->device[i].torch_reserved, __ATOMIC_RELAXED))
			return true;
	return false;
}

static void mark(struct vc_call *call, vc_cu_result result, uint64_t requested, int device)
{
	struct vc_failure failure;

	vc_call_stack(call);
	if (vc_thread_local.failure_plus_one && reports_itself(device) && by_torch(call->stack))
		return;
	if (vc_thread_local.failure_plus_one & GAVE_UP)
		vc_thread_local.failure_plus_one = 0;
	failure = describe(call, result);
	failure.requested = requested;
	tell(keep_mark(&failure, device));
}

void vc_failure_reported(const struct vc_reported *reported)
{
	uint32_t before = vc_thread_local.failure_plus_one, row_plus_one;
	struct vc_failure failure = {
		.step = vc_start_step(),
		.requested = reported->requested,
		.call_name = vc_start_own_name(reported->call_name),
		.result = VC_CU_OUT_OF_MEMORY,
		.phase = vc_thread_local.phase,
		.thread = vc_thread_local.id,
		.stack = reported->stack,
		.python = reported->python,
	};

	/* The same place once more: a library that tries other ways, or a program that goes on. */
	if (before & GAVE_UP && reported->python == vc_thread_local.failure_python)
		return;
	if (before & GAVE_UP)
		before = 0;
	row_plus_one = keep_mark(&failure, reported->device);
	vc_thread_local.failure_plus_one = reported->python ? row_plus_one | GAVE_UP : 0;
	vc_thread_local.failure_python = reported->python;
	if (before & FAILED_AGAIN) { /* shown already */
		outcome(row_plus_one, VC_FAILURE_OUT_OF_MEMORY);
		return;
	}
	if (before && row_plus_one == ROW_LOST_PLUS_ONE)
		row_plus_one = before;
	else if (before)
		outcome(before, VC_FAILURE_REPORTED);
	vc_event_failure(event_row(row_plus_one), true);
}

void vc_failure_block(uint32_t python)
{
	uint32_t row_plus_one = vc_thread_local.failure_plus_one;

	if (__builtin_expect(!(row_plus_one & GAVE_UP), 1))
		return;
	vc_thread_local.failure_plus_one = 0;
	if (python != vc_thread_local.failure_python)
		return;
	vc_store_count(VC_COUNTER_RETRIES);
	outcome(row_plus_one & ~GAVE_UP, VC_FAILURE_RETRIED);
	vc_event_failure_retried(event_row(row_plus_one & ~GAVE_UP));
}

/* ---- errors of earlier work ---- */

/* Of one recording; what comes after them is counted. */
#define ERRORS_KEPT 16

static uint32_t errors_kept;

void vc_failure_forget(void)
{
	errors_kept = marks_kept = 0;
}

static bool of_earlier_work(vc_cu_result result)
{
	switch (result) {
#define VC_DEVICE_ERROR(number, text) case number:
#include "formats/device_errors.def"
#undef VC_DEVICE_ERROR
		return true;
	default:
		return false;
	}
}

/* The driver is not asked anything: it would say the same. */
static void keep_error(struct vc_call *call, vc_cu_result result, int device)
{
	struct vc_failure failure;
	uint32_t row;

	vc_store_count(VC_COUNTER_DEVICE_ERRORS);
	if (__atomic_load_n(&errors_kept, __ATOMIC_RELAXED) >= ERRORS_KEPT ||
	    __atomic_fetch_add(&errors_kept, 1, __ATOMIC_RELAXED) >= ERRORS_KEPT)
		return;
	vc_call_stack(call);
	failure = describe(call, result);
	if (device < 0 && vc_thread_local.context_known)
		device = vc_thread_local.device;
	failure.device_plus_one = (uint16_t)(device + 1);
	row = vc_store_failure(&failure);
	if (row >= ROW_LOST_PLUS_ONE)
		return;
	vc_store_failure_outcome(row, VC_FAILURE_ERROR);
	vc_event_error(row, failure.result, failure.device_plus_one);
}

void vc_failure_note(struct vc_call *call, vc_cu_result result, uint64_t requested, int device)
{
	if (result == VC_CU_OUT_OF_MEMORY)
		mark(call, result, requested, device);
	else if (of_earlier_work(result))
		keep_error(call, result, device);
}

void vc_failure_result(enum vc_row row, vc_cu_result result, const struct vc_registers *caller)
{
	struct vc_call call = {.row = row, .registers = *caller};

	if (result != VC_CU_OUT_OF_MEMORY && !of_earlier_work(result))
		return;
	if (vc_call_enter(&call, true))
		vc_failure_note(&call, result, 0, -1);
	vc_call_leave(&call);
}

/* ---- the next success ---- */

void vc_failure_over(void)
{
	uint32_t row_plus_one = vc_thread_local.failure_plus_one;

	if (__builtin_expect(!row_plus_one, 1) || row_plus_one & GAVE_UP)
		return;
	vc_thread_local.failure_plus_one = 0;
	if (row_plus_one & FAILED_AGAIN)
		return;
	vc_store_count(VC_COUNTER_RETRIES);
	outcome(row_plus_one, VC_FAILURE_RETRIED);
}
