/* SPDX-License-Identifier: Apache-2.0 */
/* What makes messages hard to find in a log: prefixes, wraps, escapes, ranks that interleave. */
#include "tests/unit/analyze/oom_texts.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyze/oom_pattern.h"

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
