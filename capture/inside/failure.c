/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/inside/failure.h"

#include "capture/inside/events.h"
#include "capture/inside/start.h"
#include "capture/inside/thread.h"

/* A failure whose details found no room is remembered as this row plus 1. */
#define ROW_LOST_PLUS_ONE UINT32_MAX

void vc_failure_mark(struct vc_call *call, vc_cu_result result, uint64_t requested, int device)
{
	struct vc_failure failure = {
		.step = vc_start_step(),
		.requested = requested,
		.call_name = vc_start_call_name(call->row),
		.result = (uint32_t)result,
		.phase = vc_thread_local.phase,
		.thread = vc_thread_local.id,
		.stack = call->stack,
	};
	bool again = vc_thread_local.failure_plus_one != 0;
	size_t free_bytes, total;
	uint32_t row;

	if (device < 0 && vc_thread_local.context_known)
		device = vc_thread_local.device;
	if (!vc_thread_local.capturing) {
		if (device < 0 && vc_driver.cuCtxGetDevice &&
		    vc_driver.cuCtxGetDevice(&device))
			device = -1;
		if (vc_driver.cuMemGetInfo_v2 && !vc_driver.cuMemGetInfo_v2(&free_bytes, &total)) {
			failure.free_plus_one = free_bytes + 1;
			failure.total = total;
		}
	}
	failure.device_plus_one = (uint16_t)(device + 1);
	row = vc_store_failure(&failure);
	vc_thread_local.failure_plus_one = row == UINT32_MAX ? ROW_LOST_PLUS_ONE : row + 1;
	vc_event_failure(row, again);
}

void vc_failure_over(void)
{
	uint32_t row_plus_one = vc_thread_local.failure_plus_one;

	if (__builtin_expect(!row_plus_one, 1))
		return;
	vc_thread_local.failure_plus_one = 0;
	vc_store_count(VC_COUNTER_RETRIES);
	if (row_plus_one != ROW_LOST_PLUS_ONE)
		vc_store_failure_outcome(row_plus_one - 1, VC_FAILURE_RETRIED);
}
