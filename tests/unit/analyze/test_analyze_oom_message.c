/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out-of-memory messages of PyTorch: one case for each wording, with the sizes worked out by hand. The
 * texts were seen in logs.
 */
#include "tests/unit/analyze/oom_texts.h"

/* ---- PyTorch ---- */

static void test_torch_1(void **state)
{
	const struct vc_oom_message *m = only(
		"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 3; 79.00 GiB "
		"total capacity; 71.25 GiB already allocated; 1.50 GiB free; 75.25 GiB reserved in "
		"total by PyTorch) If reserved memory is >> allocated memory try setting "
		"max_split_size_mb to avoid fragmentation.\n");

	(void)state;
	assert_int_equal(m->wording, VC_OOM_WORDING_TORCH_CUDA);
	assert_int_equal(m->device, 3);
	told(m, VC_OOM_REQUESTED, 2 * GIB);
	assert_int_equal(m->sizes[VC_OOM_REQUESTED].within, 5368710); /* 0.005 GiB, rounded up */
	told(m, VC_OOM_TOTAL, 79 * GIB);
	told(m, VC_OOM_ALLOCATED, 71 * GIB + GIB / 4);
	told(m, VC_OOM_FREE, GIB + GIB / 2);
	told(m, VC_OOM_RESERVED, 75 * GIB + GIB / 4);
	kind(VC_OOM_KIND_FRAGMENTED);
	consistent();
	assert_int_equal(row("unallocated"), 4 * GIB);
	assert_int_equal(row("residual"), 2 * GIB + GIB / 4);
}

static void test_torch_cached(void **state)
{
	const struct vc_oom_message *m = only(
		"RuntimeError: CUDA out of memory. Tried to allocate 1.75 GiB (GPU 0; 10.75 GiB "
		"total capacity; 4.00 GiB already allocated; 512.00 MiB free; 5.50 GiB cached)\n");

	(void)state;
	told(m, VC_OOM_UNALLOCATED, 5 * GIB + GIB / 2); /* then: what is held beside the 4.00 */
	told(m, VC_OOM_FREE, 512 * MIB);
	kind(VC_OOM_KIND_FRAGMENTED);
	consistent();
	assert_int_equal(row("residual"), 3 * GIB / 4);
}

static void test_torch_allowed_1(void **state)
{
	const struct vc_oom_message *m = only(
		"RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 16.00 GiB "
		"total capacity; 3.50 GiB already allocated; 12.00 GiB free; 4.00 GiB allowed; 3.75 "
		"GiB reserved in total by PyTorch)\n");

	(void)state;
	told(m, VC_OOM_LIMIT, 4 * GIB);
	kind(VC_OOM_KIND_LIMIT); /* 3.75 + 1 > 4, though 12 is free */
	assert_int_equal(reading.finding_count, 1);
	consistent();
}

static void test_torch_2(void **state)
{
	const struct vc_oom_message *m = only(
		TORCH_2 "64.00 MiB. GPU 1 has a total capacity of 80.00 GiB of which 32.00 MiB is "
		"free. Including non-PyTorch memory, this process has 79.50 GiB memory in use. Of "
		"the allocated memory 78.00 GiB is allocated by PyTorch, and 48.00 MiB is reserved "
		"by PyTorch but unallocated. If reserved but unallocated memory is large try "
		"setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  "
		"See documentation for Memory Management  (https://pytorch.org/docs)\n");

	(void)state;
	assert_int_equal(m->device, 1);
	told(m, VC_OOM_IN_USE, 79 * GIB + GIB / 2);
	told(m, VC_OOM_UNALLOCATED, 48 * MIB);
	kind(VC_OOM_KIND_FULL);
	consistent();
	assert_int_equal(row("outside"), GIB + GIB / 2 - 48 * MIB);
	assert_int_equal(row("residual"), GIB / 2 - 32 * MIB);
}

static void test_torch_2_1_misspelt(void **state)
{
	const struct vc_oom_message *m = only(
		"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 "
		"has a total capacty of 4.00 GiB of which 0 bytes is free. Of the allocated memory "
		"2.50 GiB is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but "
		"unallocated.\n");

	(void)state;
	told(m, VC_OOM_TOTAL, 4 * GIB);
	told(m, VC_OOM_FREE, 0);
	assert_int_equal(m->sizes[VC_OOM_FREE].within, 0);
	consistent();
}

static void test_torch_processes(void **state)
{
	const struct vc_oom_message *m = only(
		TORCH_2 "42.00 MiB. GPU 0 has a total capacity of 48.00 GiB of which 8.00 MiB is "
		"free. Process 644963 has 6.00 MiB memory in use. Process 3053273 has 29.00 GiB "
		"memory in use. Process 3120922 has 15.00 GiB memory in use. Including non-PyTorch "
		"memory, this process has 3.00 GiB memory in use. Of the allocated memory 2.50 GiB "
		"is allocated by PyTorch, and 32.00 MiB is reserved by PyTorch but unallocated.\n");

	(void)state;
	assert_int_equal(m->process_count, 3);
	assert_int_equal(m->processes[1].pid, 3053273);
	assert_int_equal(m->processes[1].size.bytes, 29 * GIB);
	kind(VC_OOM_KIND_OTHER_PROCESSES);
	consistent();
}

/* In a container: "this process" is not named, and must be the only one that is large enough. */
static void test_torch_container(void **state)
{
	only(TORCH_2 "256.00 MiB. GPU 0 has a total capacity of 22.00 GiB of which 128.00 MiB is "
	     "free. Process 2109 has 512.00 MiB memory in use. Process 1448259 has 21.25 GiB memory "
	     "in use. Of the allocated memory 20.00 GiB is allocated by PyTorch, with 256.00 MiB "
	     "allocated in private pools (e.g., CUDA Graphs), and 64.00 MiB is reserved by PyTorch "
	     "but unallocated.\n");
	(void)state;
	consistent();
	kind(VC_OOM_KIND_FULL);
	assert_int_equal(row("private_pools"), 256 * MIB);
	assert_int_equal(row("allocated"), 20 * GIB - 256 * MIB);
	assert_int_equal(row("outside"), 21 * GIB + GIB / 4 - 20 * GIB - 64 * MIB);
	assert_int_equal(row("process"), 512 * MIB);
}

/* Two that could be this one: neither is called another process. */
static void test_torch_container_unknown(void **state)
{
	only(TORCH_2 "1.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 256.00 MiB is "
	     "free. Process 1 has 39.00 GiB memory in use. Process 2 has 40.00 GiB memory in use. Of "
	     "the allocated memory 38.00 GiB is allocated by PyTorch, and 64.00 MiB is reserved by "
	     "PyTorch but unallocated.\n");
	(void)state;
	consistent();
	assert_string_equal(reading.rows[0].text, "process 1, this one or another");
	for (unsigned i = 0; i < reading.finding_count; i++)
		assert_int_not_equal(reading.findings[i].kind, VC_OOM_KIND_OTHER_PROCESSES);
}

static void test_torch_allowed_2(void **state)
{
	const struct vc_oom_message *m = only(
		TORCH_2 "8.00 GiB. GPU 0 has a total capacity of 48.00 GiB of which 46.00 GiB is "
		"free. Including non-PyTorch memory, this process has 768.00 MiB memory in use. "
		"800.00 MiB allowed; Of the allocated memory 245.00 MiB is allocated by PyTorch, "
		"and 16.00 MiB is reserved by PyTorch but unallocated.\n");

	(void)state;
	told(m, VC_OOM_LIMIT, 800 * MIB);
	kind(VC_OOM_KIND_LIMIT);
	consistent();
}

static void test_torch_hip(void **state)
{
	const struct vc_oom_message *m = only(
		"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 7 has a "
		"total capacity of 288.00 GiB of which 203.50 GiB is free. Of the allocated memory "
		"68.00 GiB is allocated by PyTorch, and 1.00 MiB is reserved by PyTorch but "
		"unallocated.\n");

	(void)state;
	assert_int_equal(m->wording, VC_OOM_WORDING_TORCH_HIP);
	assert_int_equal(m->device, 7);
	kind(VC_OOM_KIND_UNEXPLAINED);
	consistent();
	assert_int_equal(row("residual"), 288 * GIB - 203 * GIB - GIB / 2 - 68 * GIB - MIB);
}

static void test_torch_no_device(void **state)
{
	const struct vc_oom_message *m = only(
		TORCH_2 "224.00 MiB. GPU  has a total capacity of 44.00 GiB of which 160.00 MiB is "
		"free. Process 47694 has 43.75 GiB memory in use. Of the allocated memory 43.25 GiB "
		"is allocated by PyTorch, and 396.00 MiB is reserved by PyTorch but unallocated.\n");

	(void)state;
	assert_int_equal(m->device, -1);
	kind(VC_OOM_KIND_FRAGMENTED); /* 396 >= 224 */
	consistent();
}

static void test_torch_xpu(void **state)
{
	const struct vc_oom_message *m = only(
		"torch.OutOfMemoryError: XPU out of memory. Tried to allocate 32.00 GiB. GPU 0 has a "
		"total capacity of 12.00 GiB of which 9.00 GiB is free. Of the allocated memory 0 "
		"bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. "
		"Please use empty_cache to release all unoccupied cached memory.\n");

	(void)state;
	assert_int_equal(m->wording, VC_OOM_WORDING_TORCH_XPU);
	kind(VC_OOM_KIND_TOO_LARGE);
	consistent();
}

static void test_torch_mps(void **state)
{
	const struct vc_oom_message *m = only(
		"RuntimeError: MPS backend out of memory (MPS allocated: 14.25 GiB, other "
		"allocations: 3.50 GiB, max allowed: 20.00 GiB). Tried to allocate 2.75 GiB on "
		"shared pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit\n");

	(void)state;
	told(m, VC_OOM_REQUESTED, 2 * GIB + 3 * GIB / 4);
	told(m, VC_OOM_OTHER_ALLOCATIONS, 3 * GIB + GIB / 2);
	kind(VC_OOM_KIND_LIMIT); /* 14.25 + 3.5 + 2.75 = 20.5 > 20 */
	consistent();
	assert_int_equal(row("room"), 2 * GIB + GIB / 4);
}

static void test_torch_async(void **state)
{
	const struct vc_oom_message *m = only(
		"torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of "
		"memory)\nCurrently allocated     : 28.50 GiB\nRequested               : 7.25 GiB\n"
		"Device limit            : 31.50 GiB\nFree (according to CUDA): 32.00 MiB\nPyTorch "
		"limit (set by user-supplied memory fraction)\n                        : "
		"17179869184.00 GiB\n");

	(void)state;
	assert_int_equal(m->wording, VC_OOM_WORDING_TORCH_ASYNC);
	told(m, VC_OOM_REQUESTED, 7 * GIB + GIB / 4);
	told(m, VC_OOM_TOTAL, 31 * GIB + GIB / 2);
	assert_true(m->sizes[VC_OOM_LIMIT].beyond); /* no limit: nothing wrong about it */
	kind(VC_OOM_KIND_FULL);
	consistent();
}

static void test_torch_nonsense(void **state)
{
	only("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB "
	     "memory.\n");
	(void)state;
	kind(VC_OOM_KIND_NONSENSE);
}

/* ---- contradictions ---- */

static void test_contradictions(void **state)
{
	static const char *const texts[] = {
		/* more reserved than there is */
		"CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 8.00 GiB total capacity; "
		"7.00 GiB already allocated; 0 bytes free; 9.00 GiB reserved in total by PyTorch)",
		/* more allocated than reserved */
		"CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 8.00 GiB total capacity; "
		"5.00 GiB already allocated; 0 bytes free; 4.00 GiB reserved in total by PyTorch)",
		/* a counter below zero */
		TORCH_2 "4.00 GiB. GPU 0 has a total capacity of 32.00 GiB of which 1.00 GiB is "
		"free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in "
		"use. Of the allocated memory 6.00 GiB is allocated by PyTorch, and 1.00 GiB is "
		"reserved by PyTorch but unallocated.",
		/* allocated and unallocated beyond what the process uses */
		TORCH_2 "4.00 GiB. GPU 0 has a total capacity of 32.00 GiB of which 1.00 GiB is "
		"free. Including non-PyTorch memory, this process has 6.00 GiB memory in use. Of "
		"the allocated memory 6.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by "
		"PyTorch but unallocated.",
		/* 30 in use, 3 free of 32 */
		TORCH_2 "4.00 GiB. GPU 0 has a total capacity of 32.00 GiB of which 3.00 GiB is "
		"free. Including non-PyTorch memory, this process has 30.00 GiB memory in use. Of "
		"the allocated memory 6.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by "
		"PyTorch but unallocated.",
		"allocating 100.00 MiB on device 0: cudaMalloc failed: out of memory\n"
		"alloc_tensor_range: failed to allocate CUDA0 buffer of size 209715200",
		"Ran out of memory in memory space hbm. Used 15.70G of 15.48G hbm. Exceeded hbm "
		"capacity by 1.00G.",
		"RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1024 bytes.\n"
		" parameter allocation: 1.00GiB\n constant allocation: 0B\n maybe_live_out "
		"allocation: 1.00GiB\n preallocated temp allocation: 1.00GiB\n total allocation: "
		"4.00GiB\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		only(texts[i]);
		if (reading.contradiction_count != 1)
			fail_msg("case %zu: %u contradictions", i, reading.contradiction_count);
	}
}

/* 2.995 + 1.005 could be 4.00: what rounding can explain is no contradiction. */
static void test_rounding(void **state)
{
	only("CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 4.00 GiB total capacity; 3.00 "
	     "GiB already allocated; 1.01 GiB free; 3.00 GiB reserved in total by PyTorch)");
	(void)state;
	assert_int_equal(reading.contradiction_count, 0);
	only("CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 4.00 GiB total capacity; 3.00 "
	     "GiB already allocated; 1.02 GiB free; 3.00 GiB reserved in total by PyTorch)");
	assert_int_equal(reading.contradiction_count, 1);
}

static void test_partial(void **state)
{
	only(TORCH_2 "20.00 MiB. GPU 0 has a total capacity of 15.50 GiB of which 149.50 MiB is\n");
	(void)state;
	assert_int_equal(reading.missing_count, 3);
	assert_string_equal(reading.missing[0], "free");
	only("RuntimeError: CUDA error: out of memory\n");
	assert_int_equal(reading.missing_count, 1);
	kind(VC_OOM_KIND_NOT_TOLD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_torch_1, tear_down),
		cmocka_unit_test_teardown(test_torch_cached, tear_down),
		cmocka_unit_test_teardown(test_torch_allowed_1, tear_down),
		cmocka_unit_test_teardown(test_torch_2, tear_down),
		cmocka_unit_test_teardown(test_torch_2_1_misspelt, tear_down),
		cmocka_unit_test_teardown(test_torch_processes, tear_down),
		cmocka_unit_test_teardown(test_torch_container, tear_down),
		cmocka_unit_test_teardown(test_torch_container_unknown, tear_down),
		cmocka_unit_test_teardown(test_torch_allowed_2, tear_down),
		cmocka_unit_test_teardown(test_torch_hip, tear_down),
		cmocka_unit_test_teardown(test_torch_no_device, tear_down),
		cmocka_unit_test_teardown(test_torch_mps, tear_down),
		cmocka_unit_test_teardown(test_torch_xpu, tear_down),
		cmocka_unit_test_teardown(test_torch_async, tear_down),
		cmocka_unit_test_teardown(test_torch_nonsense, tear_down),
		cmocka_unit_test_teardown(test_contradictions, tear_down),
		cmocka_unit_test_teardown(test_rounding, tear_down),
		cmocka_unit_test_teardown(test_partial, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
