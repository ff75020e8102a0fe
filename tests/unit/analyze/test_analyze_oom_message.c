/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Out-of-memory messages: one case for each wording, with the sizes worked out by hand, and what makes
 * messages hard to find: prefixes, wraps, escapes, ranks that interleave. The texts were seen in logs.
 */
#include "tests/unit/analyze/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/oom_message.h"
#include "analyze/oom_pattern.h"
#include "analyze/views/oom_message.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)
#define HUNDREDTHS(n, unit) (((n) * (unit) + 50) / 100)

static struct vc_oom_reader *reader;
static struct vc_oom_log found;
static struct vc_arena arena;
static struct vc_oom_reading reading;

static int tear_down(void **state)
{
	(void)state;
	vc_oom_reader_destroy(reader);
	reader = NULL;
	vc_arena_deinit(&arena);
	return 0;
}

/** Reads a text in pieces of `piece` bytes. */
static void read_pieces(const char *text, size_t length, size_t piece)
{
	tear_down(NULL);
	assert_int_equal(vc_oom_reader_create(&reader), 0);
	for (size_t at = 0; at < length; at += piece)
		assert_int_equal(vc_oom_reader_feed(reader, text + at, length - at < piece ?
						    length - at : piece), 0);
	assert_int_equal(vc_oom_reader_finish(reader, &found), 0);
}

/** The one message of a text; what follows from it is in `reading`. */
static const struct vc_oom_message *only(const char *text)
{
	read_pieces(text, strlen(text), 4096);
	assert_int_equal(found.source_count, 1);
	assert_ptr_equal(found.last, found.sources[0].first);
	assert_int_equal(vc_oom_message_read(found.last, VC_TEXT_ROUNDED, &arena, &reading), 0);
	return found.last;
}

static void told(const struct vc_oom_message *message, enum vc_oom_quantity quantity,
		 uint64_t bytes)
{
	assert_true(message->sizes[quantity].told);
	assert_int_equal(message->sizes[quantity].bytes, bytes);
}

static void kind(enum vc_oom_kind expected)
{
	assert_string_equal(vc_oom_kinds[reading.findings[0].kind].key,
			    vc_oom_kinds[expected].key);
}

static void consistent(void)
{
	int64_t total = 0, share = 0;

	assert_int_equal(reading.contradiction_count, 0);
	assert_int_equal(reading.missing_count, 0);
	for (unsigned i = 0; i < reading.row_count; i++) {
		total += reading.rows[i].bytes;
		share += reading.rows[i].share;
	}
	assert_int_equal(total, reading.total);
	assert_int_equal(share, reading.total ? 1000 : 0);
}

static int64_t row(const char *key)
{
	for (unsigned i = 0; i < reading.row_count; i++)
		if (!strcmp(reading.rows[i].key, key))
			return reading.rows[i].bytes;
	fail_msg("no row %s", key);
	return 0;
}

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

#define TORCH_2 "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "

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

/* ---- the others ---- */

static void test_xla(void **state)
{
	const struct vc_oom_message *m = only(
		"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while "
		"trying to allocate 4770354232 bytes.\nBufferAssignment OOM Debugging.\n"
		"BufferAssignment stats:\n             parameter allocation:  512.00MiB\n"
		"              constant allocation:    48.5KiB\n        maybe_live_out allocation:    "
		"9.50GiB\n     preallocated temp allocation:    4.50GiB\n  preallocated temp "
		"fragmentation:       112B (0.00%)\n                 total allocation:   14.50GiB\n"
		"              total fragmentation:  680.00MiB (4.60%)\nPeak buffers:\n\tBuffer 1:\n"
		"\t\tSize: 4.50GiB\n\t\tOperator: op_name=\"jit(f)/dot\" source_file=\"/u/models.py\" "
		"source_line=689\n\tBuffer 2:\n\t\tSize: 1.00GiB\n");

	(void)state;
	assert_int_equal(m->wording, VC_OOM_WORDING_XLA);
	told(m, VC_OOM_REQUESTED, 4770354232);
	assert_int_equal(m->sizes[VC_OOM_REQUESTED].within, 0);
	told(m, VC_OOM_CONSTANTS, 49664);
	told(m, VC_OOM_TEMPORARY, 4 * GIB + GIB / 2);
	told(m, VC_OOM_PLAN_TOTAL, 14 * GIB + GIB / 2);
	told(m, VC_OOM_LARGEST_BUFFER, 4 * GIB + GIB / 2);
	assert_string_equal(m->buffer.file, "/u/models.py");
	assert_int_equal(m->buffer.line, 689);
	consistent();
	m = only("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
		 "4.44GiB.\n");
	told(m, VC_OOM_REQUESTED, HUNDREDTHS(444, GIB));
	m = only("E xla/pjrt.cc:555] Resource exhausted: Failed to allocate request for 3.39GiB "
		 "(3640655872B) on device ordinal 2");
	told(m, VC_OOM_REQUESTED_EXACT, 3640655872);
	assert_int_equal(m->device, 2);
	m = only("W bfc_allocator.cc:501] Allocator (GPU_3_bfc) ran out of memory trying to allocate "
		 "2.98GiB (rounded to 3199993600)requested by op\nE0518 pjrt.cc:3045] Execution of "
		 "replica 0 failed: RESOURCE_EXHAUSTED: Out of memory while trying to allocate "
		 "3199993600 bytes.\nTraceback (most recent call last):\n  File \"/u/fit.py\", line 33, "
		 "in f\n    g()\nXlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
		 "allocate 3199993600 bytes.\n");
	assert_int_equal(m->wording, VC_OOM_WORDING_XLA);
	assert_int_equal(m->device, 3);
	assert_int_equal(m->times, 2);
	assert_int_equal(m->user.line, 33);
	told(m, VC_OOM_REQUESTED, 3199993600);
	m = only("Ran out of memory in memory space hbm. Used 15.70G of 15.48G hbm. Exceeded hbm "
		 "capacity by 225.28M.\n");
	kind(VC_OOM_KIND_TOO_LARGE);
	consistent();
}

static void test_tensorflow(void **state)
{
	const struct vc_oom_message *m = only(
		"2020-07-20 10:48:49.7: W tensorflow/core/common_runtime/bfc_allocator.cc:419] "
		"Allocator (GPU_1_bfc) ran out of memory trying to allocate 3.16GiB (rounded to "
		"3397386240).  Current allocation summary follows.\n"
		"2020-07-20 10:48:49.7: I bfc_allocator.cc:632] Chunk at 0x7f1f of size 512\n"
		"2020-07-20 10:48:49.7: I bfc_allocator.cc:645] Sum Total of in-use chunks: 9.31GiB\n"
		"2020-07-20 10:48:49.7: I bfc_allocator.cc:647] total_region_allocated_bytes_: "
		"10619240448 memory_limit_: 10619240448 available bytes: 0\n"
		"2020-07-20 10:48:49.7: I bfc_allocator.cc:652] Stats: \n"
		"Limit:                 10619240448\nInUse:                 10000000000\n"
		"MaxInUse:              10500000000\n"
		"2020-07-20 10:48:50.0: W op_kernel.cc:1753] OP_REQUIRES failed at conv.cc:140 : "
		"Resource exhausted: OOM when allocating tensor with shape[32,3,2160,4096] and type "
		"float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc\n"
		"tensorflow.errors_impl.ResourceExhaustedError: OOM when allocating tensor with "
		"shape[32,3,2160,4096] and type float on /job:localhost/replica:0/task:0/device:GPU:1 "
		"by allocator GPU_1_bfc\n");

	(void)state;
	assert_int_equal(m->wording, VC_OOM_WORDING_TF_TENSOR);
	assert_int_equal(m->times, 2);
	assert_int_equal(m->device, 1);
	assert_string_equal(m->shape, "[32,3,2160,4096]");
	assert_string_equal(m->type, "float");
	told(m, VC_OOM_REQUESTED_EXACT, 3397386240);
	told(m, VC_OOM_LIMIT, 10619240448);
	kind(VC_OOM_KIND_FULL); /* 619,240,448 are left of the limit */
	consistent();
	only("OOM when allocating tensor with shape[123008,500] and type half on "
	     "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu\n");
	assert_true(reading.requested_computed);
	assert_int_equal(reading.requested.bytes, 123008 * 500 * 2);
	kind(VC_OOM_KIND_HOST);
	m = only("W bfc_allocator.cc:275] Allocator (GPU_0_bfc) ran out of memory trying to "
		 "allocate 2.10GiB with freed_by_count=0. The caller indicates that this is not a "
		 "failure, but may mean that there could be performance gains\n");
	assert_true(m->no_failure);
	m = only("I cuda_driver.cc:739] failed to allocate 3.39G (3640655872 bytes) from device: "
		 "CUDA_ERROR_OUT_OF_MEMORY: out of memory\n");
	assert_int_equal(m->wording, VC_OOM_WORDING_EXECUTOR);
	told(m, VC_OOM_REQUESTED_EXACT, 3640655872);
	consistent();
}

static void test_llama(void **state)
{
	const struct vc_oom_message *m = only(
		"1.06.520 E ggml_backend_cuda_buffer_type_alloc_buffer: allocating 144817.04 MiB on "
		"device 2: cudaMalloc failed: out of memory\nalloc_tensor_range: failed to allocate "
		"CUDA2 buffer of size 151851674624\nllama_model_load: error loading model\n");

	(void)state;
	assert_int_equal(m->wording, VC_OOM_WORDING_GGML);
	assert_int_equal(m->device, 2);
	told(m, VC_OOM_REQUESTED_EXACT, 151851674624);
	consistent();
	m = only("ggml_cuda_host_malloc: failed to allocate 1900,00 MiB of pinned memory: out of "
		 "memory\n");
	told(m, VC_OOM_REQUESTED, 1900 * MIB);
	kind(VC_OOM_KIND_HOST);
	m = only("CUDA error: out of memory\n  current device: 3, in function alloc at a.cu:3\n");
	assert_int_equal(m->device, 3);
}

static void test_nccl(void **state)
{
	const struct vc_oom_message *m = only(
		"ng30903:3063028:3066152 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of "
		"memory'\n\nng30903:3063028:3066152 [3] include/alloc.h:185 NCCL WARN Failed to CUDA "
		"calloc 6291456 bytes\n");

	(void)state;
	assert_int_equal(m->wording, VC_OOM_WORDING_NCCL);
	assert_int_equal(m->device, 3);
	assert_string_equal(m->call, "include/alloc.h:178");
	told(m, VC_OOM_REQUESTED, 6291456);
	consistent();
	m = only("n1:12:34 [1] enqueue.cc:1085 NCCL WARN Cuda failure 2 'out of memory'\n");
	assert_int_equal(m->device, 1);
	only("ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 "
	     "'out of memory'\n");
	m = only("n1:12:34 [1] NCCL WARN Cuda failure 2 'out of memory'\n"
		 "n1:12:34 [1] alloc.h:1 NCCL WARN Failed to CUDA host alloc 4096 bytes\n");
	told(m, VC_OOM_REQUESTED, 4096);
	kind(VC_OOM_KIND_HOST);
}

static void test_short_ones(void **state)
{
	static const struct {
		const char *text;
		enum vc_oom_wording wording;
	} cases[] = {
		{"CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
		 VC_OOM_WORDING_NUMBA},
		{"MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /rmm/x.hpp:60: "
		 "cudaErrorMemoryAllocation out of memory", VC_OOM_WORDING_RMM},
		{"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`",
		 VC_OOM_WORDING_CUBLAS},
		{"torch.AcceleratorError: CUDA error: out of memory", VC_OOM_WORDING_CUDA},
		{"cuda runtime error (2) : out of memory at THCStorage.cu:58", VC_OOM_WORDING_CUDA},
		{"RuntimeError: HIP error: out of memory", VC_OOM_WORDING_HIP},
	};
	const struct vc_oom_message *m;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(only(cases[i].text)->wording, cases[i].wording);
		assert_int_equal(found.messages, 1);
	}
	m = only("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 25,600,000 bytes "
		 "(allocated so far: 3,635,267,072 bytes, limit set to: 3,640,000,000 bytes).\n");
	assert_int_equal(m->wording, VC_OOM_WORDING_CUPY);
	told(m, VC_OOM_REQUESTED, 25600000);
	told(m, VC_OOM_RESERVED, 3635267072);
	kind(VC_OOM_KIND_LIMIT);
	consistent();
	m = only("cupy.cuda.memory.OutOfMemoryError: out of memory to allocate 1073741824 bytes "
		 "(total 12373894656 bytes)\n");
	told(m, VC_OOM_RESERVED, 12373894656);
	only("[2] Call to cuMemHostAlloc results in CUDA_ERROR_OUT_OF_MEMORY\n");
	kind(VC_OOM_KIND_HOST);
}

static void test_nothing(void **state)
{
	static const char text[] = "out of memory\nKilled\nMemoryError\nall is well: 2.00 GiB free; "
				   "to avoid CUDA out of memory use less\n";

	(void)state;
	read_pieces(text, sizeof(text) - 1, 7);
	assert_null(found.last);
	assert_int_equal(found.lines, 4);
}

/* ---- where it stands ---- */

static void test_traceback(void **state)
{
	const struct vc_oom_message *m = only(
		"Traceback (most recent call last):\n"
		"  File \"C:\\Users\\u\\train.py\", line 7, in <module>\n    main()\n"
		"  File \"/u/model.py\", line 84, in forward\n    return self.fc(x)\n"
		"           ^^^^^^^^^^\n"
		"  File \"/opt/lib/python3.10/site-packages/torch/nn/modules/linear.py\", line 114, in "
		"forward\n    return F.linear(input, self.weight, self.bias)\n"
		"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0\n");

	(void)state;
	assert_string_equal(m->user.file, "/u/model.py");
	assert_int_equal(m->user.line, 84);
	assert_string_equal(m->user.function, "forward");
	assert_string_equal(m->user.source, "return self.fc(x)");
	assert_int_equal(m->innermost.line, 114);
	m = only("Traceback (most recent call last):\n  File \"/u/a.py\", line 84, in f\n    g()\n"
		 "KeyError: 3\nepoch 2\nepoch 3\nRuntimeError: CUDA error: out of memory\n");
	assert_string_equal(m->innermost.file, ""); /* that traceback had ended */
	m = only("/usr/lib/python3/dist-packages/torch/optim/adam.py in _init_group(self, group)\n"
		 "    172                     )\n--> 174                     state = "
		 "torch.zeros_like(\n    175                         p\n\nOutOfMemoryError: CUDA out "
		 "of memory. Tried to allocate 2.00 MiB. GPU 0\n");
	assert_int_equal(m->innermost.line, 174);
	assert_string_equal(m->user.file, "");
	m = only("Cell In[18], line 9\n      7 a = 1\n----> 9 tracks = inference(frames)\n\nFile "
		 "~/tapir/lib/python3.10/site-packages/jax/_src/x.py:92, in f(x)\n     91 y\n---> 92 "
		 "    z\n\nXlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
		 "allocate 8 bytes.\n");
	assert_string_equal(m->user.file, "Cell In[18]");
	assert_int_equal(m->user.line, 9);
	m = only("Traceback (most recent call last):\n  File \"/u/data.py\", line 5, in f\n    x = "
		 "x.pin_memory()\nRuntimeError: CUDA error: out of memory\n");
	kind(VC_OOM_KIND_HOST);
}

static const char wrapped[] =
	"\x1b[31mtorch.OutOfMemoryError\x1b[0m: CUDA out of memory.\r\n"
	"Tried to allocate 20.00 MiB.\r\n"
	"GPU 0 has a total capac\r\n"
	"ity of 15.50 GiB of which 149.\r\n"
	"50 MiB is free.\r\n"
	"Process 1839 has 320.00 MiB mem\r\n"
	"ory in use.\r\n"
	"Including non-PyTorch memory, this process has 15.00 GiB memory in use.\r\n"
	"Of the allocated memory 11.50\r\n"
	"GiB is allocated by PyTorch,\r\n"
	"and 10.25 MiB is reserved by PyTorch but unalloca\r\n"
	"ted.\r\n";

/** Line breaks anywhere, CRLF, escapes; fed in pieces of every size. */
static void test_wrapped(void **state)
{
	(void)state;
	for (size_t piece = 1; piece < 40; piece++) {
		const struct vc_oom_message *m;

		read_pieces(wrapped, sizeof(wrapped) - 1, piece);
		m = found.last;
		assert_int_equal(found.messages, 1);
		assert_int_equal(m->process_count, 1);
		told(m, VC_OOM_REQUESTED, 20 * MIB);
		told(m, VC_OOM_TOTAL, 15 * GIB + GIB / 2);
		told(m, VC_OOM_FREE, 149 * MIB + MIB / 2);
		told(m, VC_OOM_ALLOCATED, 11 * GIB + GIB / 2);
		told(m, VC_OOM_UNALLOCATED, 10 * MIB + MIB / 4);
		assert_null(strchr(m->text, '\x1b'));
	}
}

/** The same message cut into lines of every width says the same. */
static void test_every_width(void **state)
{
	static const char text[] =
		TORCH_2 "64.00 MiB. GPU 1 has a total capacity of 80.00 GiB of which 32.50 MiB is "
		"free. Process 123 has 12.00 MiB memory in use. Including non-PyTorch memory, this "
		"process has 79.50 GiB memory in use. 79.75 GiB allowed; Of the allocated memory "
		"78.00 GiB is allocated by PyTorch, with 22.00 MiB allocated in private pools "
		"(e.g., CUDA Graphs), and 48.00 MiB is reserved by PyTorch but unallocated.";
	static const struct {
		enum vc_oom_quantity quantity;
		uint64_t bytes;
	} sizes[] = {
		{VC_OOM_REQUESTED, 64 * MIB}, {VC_OOM_TOTAL, 80 * GIB},
		{VC_OOM_FREE, 32 * MIB + MIB / 2}, {VC_OOM_IN_USE, 79 * GIB + GIB / 2},
		{VC_OOM_LIMIT, 79 * GIB + 3 * GIB / 4}, {VC_OOM_ALLOCATED, 78 * GIB},
		{VC_OOM_PRIVATE_POOLS, 22 * MIB}, {VC_OOM_UNALLOCATED, 48 * MIB},
	};
	char cut[2 * sizeof(text)];

	(void)state;
	for (size_t width = 12; width < sizeof(text); width++) {
		const struct vc_oom_message *m;
		size_t to = 0;

		for (size_t i = 0; text[i]; i++) {
			if (i && i % width == 0)
				cut[to++] = '\n';
			cut[to++] = text[i];
		}
		cut[to] = '\0';
		m = only(cut);
		if (found.messages != 1 || m->device != 1 || m->process_count != 1)
			fail_msg("width %zu: %d messages, device %d, %u processes", width,
				 (int)found.messages, (int)m->device, m->process_count);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			if (m->sizes[sizes[i].quantity].bytes != sizes[i].bytes)
				fail_msg("width %zu, size %zu", width, i);
	}
}

static void test_ranks(void **state)
{
	static const char text[] =
		"[rank1]: Traceback (most recent call last):\n"
		"[rank0]: Traceback (most recent call last):\n"
		"[rank1]:   File \"/u/one.py\", line 1, in a\n"
		"[rank0]:   File \"/u/zero.py\", line 2, in b\n"
		"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate\n"
		"[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate\n"
		"[rank1]: 1.00 GiB. GPU 1 has a total capacity of 8.00 GiB of which 0 bytes\n"
		"[rank0]: 2.00 GiB. GPU 0 has a total capacity of 16.00 GiB of which 0 bytes\n"
		"[rank1]: is free. Of the allocated memory 7.00 GiB is allocated by PyTorch.\n"
		"[rank0]: is free. Of the allocated memory 15.00 GiB is allocated by PyTorch.\n"
		"[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0\n";
	const struct vc_oom_message *one, *zero;

	(void)state;
	read_pieces(text, sizeof(text) - 1, 100);
	assert_int_equal(found.source_count, 2);
	assert_int_equal(found.messages, 3);
	one = found.sources[0].first;
	zero = found.sources[1].first;
	assert_int_equal(one->rank, 1);
	assert_int_equal(zero->rank, 0);
	told(one, VC_OOM_REQUESTED, GIB);
	told(one, VC_OOM_ALLOCATED, 7 * GIB);
	told(zero, VC_OOM_TOTAL, 16 * GIB);
	assert_string_equal(one->user.file, "/u/one.py");
	assert_string_equal(zero->user.file, "/u/zero.py");
	assert_int_equal(found.sources[1].messages, 2);
	told(found.last, VC_OOM_REQUESTED, 4 * GIB);
}

static void test_prefixes(void **state)
{
	static const struct {
		const char *line, *rest, *label;
		int64_t rank;
	} cases[] = {
		{"[rank12]:   File", "  File", "[rank12]", 12},
		{"[default3]:x", "x", "[default3]", -1},
		{"[1,5]<stderr>:x", "x", "[1,5]<stderr>", 5},
		{"7: x", "x", "7", 7},
		{"(VllmWorker rank=3 pid=1090) ERROR 06-05 06:18:13 [multiproc_executor.py:470]   File",
		 "  File", "(VllmWorker rank=3 pid=1090)", 3},
		{"deep-seek-1  | ggml", "ggml", "deep-seek-1", -1},
		{"2024-06-17T13:18:29.371622Z ERROR shard", "shard", "", -1},
		{"  File \"x\"", "  File \"x\"", "", -1},
		{"> quoted", "quoted", "", -1},
		{"(not a prefix) x", "(not a prefix) x", "", -1},
		{"", "", "", -1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct vc_oom_prefix prefix;

		vc_oom_prefix_parse(cases[i].line, strlen(cases[i].line), &prefix);
		assert_string_equal(cases[i].line + prefix.length, cases[i].rest);
		assert_string_equal(prefix.label, cases[i].label);
		assert_int_equal(prefix.rank, cases[i].rank);
	}
}

static void test_repeated(void **state)
{
	static const char text[] = "RuntimeError: CUDA error: out of memory\nx\n"
				   "RuntimeError: CUDA error: out of memory\n"
				   "RuntimeError: CUDA error: out of memory\n";
	struct vc_oom_message first;

	(void)state;
	read_pieces(text, sizeof(text) - 1, 50);
	assert_int_equal(found.messages, 3);
	assert_int_equal(found.sources[0].messages, 1);
	first = *found.last;
	assert_int_equal(first.times, 3);
	assert_int_equal(first.line, 1);
}

/** UTF-16 as PowerShell writes it, a line of a megabyte, more prefixes than are told apart. */
static void test_hostile(void **state)
{
	static const char text[] = "RuntimeError: CUDA error: out of memory\n";
	size_t length = 1 << 20;
	char *wide = malloc(length + sizeof(text));
	char line[64];

	(void)state;
	assert_non_null(wide);
	for (size_t i = 0; i < sizeof(text); i++) {
		wide[2 * i] = text[i];
		wide[2 * i + 1] = '\0';
	}
	read_pieces(wide, 2 * sizeof(text), 5);
	assert_int_equal(found.messages, 1);
	memset(wide, '9', length);
	memcpy(wide + length, text, sizeof(text));
	read_pieces(wide, length + sizeof(text), 65536);
	assert_int_equal(found.messages, 1);
	free(wide);
	tear_down(NULL);
	assert_int_equal(vc_oom_reader_create(&reader), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "[rank%d]: CUDA error: out of memory\n", i);
		assert_int_equal(vc_oom_reader_feed(reader, line, strlen(line)), 0);
	}
	assert_int_equal(vc_oom_reader_finish(reader, &found), 0);
	assert_int_equal(found.source_count, 256);
	assert_true(found.sources_merged);
	assert_int_equal(found.messages, 1000);
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
		cmocka_unit_test_teardown(test_xla, tear_down),
		cmocka_unit_test_teardown(test_tensorflow, tear_down),
		cmocka_unit_test_teardown(test_llama, tear_down),
		cmocka_unit_test_teardown(test_nccl, tear_down),
		cmocka_unit_test_teardown(test_short_ones, tear_down),
		cmocka_unit_test_teardown(test_nothing, tear_down),
		cmocka_unit_test_teardown(test_traceback, tear_down),
		cmocka_unit_test_teardown(test_wrapped, tear_down),
		cmocka_unit_test_teardown(test_every_width, tear_down),
		cmocka_unit_test_teardown(test_ranks, tear_down),
		cmocka_unit_test_teardown(test_prefixes, tear_down),
		cmocka_unit_test_teardown(test_repeated, tear_down),
		cmocka_unit_test_teardown(test_hostile, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
