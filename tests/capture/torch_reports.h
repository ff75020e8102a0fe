/* SPDX-License-Identifier: Apache-2.0 */
/* What torch_reports.cpp keeps of the calls that reach PyTorch's own functions. C and C++. */
#ifndef TEST_CAPTURE_TORCH_REPORTS_H
#define TEST_CAPTURE_TORCH_REPORTS_H

#include <stdint.h>

struct test_torch_calls {
	int usage, memory; /* calls */
	void *pointer;
	int64_t size;
	uint64_t allocated, reserved;
	int type, index;
	int made, ran; /* nodes */
	const void *tensor, *node, *engine, *task, *inputs, *queue;
};

#endif
