// SPDX-License-Identifier: Apache-2.0
// Exceptions that pass through the callers of hooks, and static objects that own device memory.
#include <cstdint>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

extern "C" {
int cuInit(unsigned int);
int cuCtxCreate_v2(void **, unsigned int, int);
int cuCtxSetCurrent(void *);
int cuMemAlloc_v2(std::uint64_t *, std::size_t);
int cuMemFree_v2(std::uint64_t);
}

namespace {

struct Block {
	std::uint64_t address = 0;
	explicit Block(std::size_t bytes)
	{
		if (int error = cuMemAlloc_v2(&address, bytes))
			throw std::runtime_error("alloc " + std::to_string(error));
	}
	Block(Block &&other) noexcept : address(other.address) { other.address = 0; }
	~Block()
	{
		if (address && cuMemFree_v2(address))
			std::printf("free failed\n");
	}
};

struct AtExit {
	std::uint64_t address = 0;
	~AtExit()
	{
		if (address)
			std::printf("static free %d\n", cuMemFree_v2(address));
	}
} at_exit;

int deep(int depth, std::size_t last)
{
	Block own(1000);
	std::vector<Block> more;

	more.emplace_back(depth ? 500 : last);
	return depth ? deep(depth - 1, last) + 1 : 0;
}

void thrower(void *context)
{
	cuCtxSetCurrent(context);
	for (int i = 0; i < 50; i++) {
		try {
			deep(i, i % 2 ? 100 : std::size_t(1) << 50);
		} catch (const std::runtime_error &error) {
			if (i % 2)
				std::printf("unexpected %s\n", error.what());
		}
	}
}

} // namespace

int main(int argc, char **)
{
	void *context = nullptr;
	int caught = 0;

	cuInit(0);
	try {
		Block early(100);
	} catch (const std::runtime_error &error) {
		std::printf("%s\n", error.what());
	}
	cuCtxCreate_v2(&context, 0, 0);
	cuMemAlloc_v2(&at_exit.address, 1 << 20);
	for (int i = 0; i < 100; i++) {
		try {
			deep(i % 40, std::size_t(1) << 50);
		} catch (const std::runtime_error &) {
			caught++;
		}
	}
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back(thrower, context);
	for (auto &thread : threads)
		thread.join();
	std::printf("caught %d\n", caught);
	if (argc > 1)
		return 0;
	throw std::runtime_error("not caught");
}
