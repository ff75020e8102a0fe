/* SPDX-License-Identifier: Apache-2.0 */
/* Out-of-memory messages of programs other than PyTorch, as seen in logs, sizes worked out by hand. */
#include "tests/unit/analyze/oom_texts.h"

#define HUNDREDTHS(n, unit) (((n) * (unit) + 50) / 100)

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_xla, tear_down),
		cmocka_unit_test_teardown(test_tensorflow, tear_down),
		cmocka_unit_test_teardown(test_llama, tear_down),
		cmocka_unit_test_teardown(test_nccl, tear_down),
		cmocka_unit_test_teardown(test_short_ones, tear_down),
		cmocka_unit_test_teardown(test_nothing, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
