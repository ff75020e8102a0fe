/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch's libc10.so and libc10_cuda.so are to the recorder, one half by each build:
 * functions with its names and types (OLD: those of PyTorch 1.13), and who calls them through the
 * procedure linkage table.
 */
#include <cstddef>
#include <cstdint>
#include <memory>

#include "torch_reports.h"

#define SHOWN __attribute__((visibility("default")))

namespace c10
{
#ifdef OLD
typedef int64_t total;
#else
typedef size_t total;
#endif
struct Device {
	int8_t type, index;
};
void reportMemoryUsageToProfiler(void *, int64_t, total, total, Device);
void reportOutOfMemoryToProfiler(int64_t, total, total, Device);
} // namespace c10

/* What is done to nodes of the autograd graph; of the types only the names count, and how Edge is passed. */
namespace at
{
class Tensor
{
};
} // namespace at
namespace torch
{
namespace autograd
{
struct Node {
	uint64_t words[8];
};
struct GraphTask {
};
struct InputBuffer {
};
struct ReadyQueue {
};
struct Edge {
	Node *function;
	uint32_t input_nr;
	Edge(Node *node, uint32_t number) : function(node), input_nr(number)
	{
	}
	Edge(const Edge &other) : function(other.function), input_nr(other.input_nr)
	{
	}
	~Edge()
	{
	}
};
namespace impl
{
void set_gradient_edge(const at::Tensor &, Edge);
}
struct Engine {
	void evaluate_function(std::shared_ptr<GraphTask> &, Node *, InputBuffer &,
			       const std::shared_ptr<ReadyQueue> &);
};
} // namespace autograd
} // namespace torch
using namespace torch::autograd;

#ifdef IS_C10
static struct test_torch_calls seen;

SHOWN void impl::set_gradient_edge(const at::Tensor &tensor, Edge edge)
{
	seen.made++;
	seen.tensor = &tensor;
	seen.node = edge.function;
	seen.index = static_cast<int>(edge.input_nr);
}

SHOWN void Engine::evaluate_function(std::shared_ptr<GraphTask> &task, Node *node, InputBuffer &inputs,
				     const std::shared_ptr<ReadyQueue> &queue)
{
	seen.ran++;
	seen.node = node;
	seen.engine = this;
	seen.task = &task;
	seen.inputs = &inputs;
	seen.queue = &queue;
	if (node->words[7])
		throw 42;
}

extern "C" SHOWN struct test_torch_calls *test_torch_seen()
{
	return &seen;
}

SHOWN void c10::reportMemoryUsageToProfiler(void *pointer, int64_t size, total allocated,
					    total reserved, Device device)
{
	seen.usage++;
	seen.pointer = pointer;
	seen.size = size;
	seen.allocated = static_cast<uint64_t>(allocated);
	seen.reserved = static_cast<uint64_t>(reserved);
	seen.type = device.type;
	seen.index = device.index;
}

SHOWN void c10::reportOutOfMemoryToProfiler(int64_t size, total allocated, total reserved,
					    Device device)
{
	seen.memory++;
	seen.size = size;
	seen.allocated = static_cast<uint64_t>(allocated);
	seen.reserved = static_cast<uint64_t>(reserved);
	seen.type = device.type;
	seen.index = device.index;
}
#else
extern "C" int cuMemAlloc_v2(uint64_t *pointer, size_t bytes);

/* Not tail calls: the caller is this library. */
extern "C" SHOWN void test_torch_usage(void *pointer, int64_t size, uint64_t allocated,
				       uint64_t reserved, int type, int index)
{
	c10::reportMemoryUsageToProfiler(pointer, size, static_cast<c10::total>(allocated),
					 static_cast<c10::total>(reserved),
					 {static_cast<int8_t>(type), static_cast<int8_t>(index)});
	asm volatile("");
}

extern "C" SHOWN void test_torch_memory(int64_t size, uint64_t allocated, uint64_t reserved,
					int type, int index)
{
	c10::reportOutOfMemoryToProfiler(size, static_cast<c10::total>(allocated),
					 static_cast<c10::total>(reserved),
					 {static_cast<int8_t>(type), static_cast<int8_t>(index)});
	asm volatile("");
}

extern "C" SHOWN void test_torch_made(const void *tensor, void *node, unsigned int number)
{
	impl::set_gradient_edge(*static_cast<const at::Tensor *>(tensor),
				Edge(static_cast<Node *>(node), number));
	asm volatile("");
}

/* Whether all arguments arrived; what is thrown comes back negative. */
extern "C" SHOWN int test_torch_runs(void *node, struct test_torch_calls *seen)
{
	std::shared_ptr<GraphTask> task;
	std::shared_ptr<ReadyQueue> queue;
	InputBuffer inputs;
	Engine engine;

	try {
		engine.evaluate_function(task, static_cast<Node *>(node), inputs, queue);
	} catch (int thrown) {
		return -thrown;
	}
	return seen->engine == &engine && seen->task == &task && seen->inputs == &inputs &&
	       seen->queue == &queue;
}

extern "C" SHOWN int test_torch_driver(uint64_t *pointer, size_t bytes)
{
	int result = cuMemAlloc_v2(pointer, bytes);

	asm volatile("");
	return result;
}
#endif
