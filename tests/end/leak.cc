/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C++ program whose allocations go through inlined and templated helpers, with one leak.
 *
 *   leak STEPS [BYTES]   BYTES (default 4096) leaked a step, in Cache<Key>::insert
 *
 * Built with -O2; -DREBUILT adds code in front, so that every offset differs and no line does.
 */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <unordered_map>
#include <vector>

#include "capture/vramcore.h"

extern "C" {
#include "driver.h"
}

static struct driver driver;

#ifdef REBUILT
extern "C" __attribute__((noinline, used)) uint64_t moved(uint64_t value) { for (int i = 0; i < 9; i++) value = value * 31 + (value >> 7); return value; }
#endif

template <typename T> struct DeviceAllocator {
	using value_type = T;

	T *allocate(size_t count) const
	{
		device_pointer pointer = 0;

		if (driver.memory_allocate(&pointer, count * sizeof(T)) != 0)
			std::exit(1);
		return reinterpret_cast<T *>(pointer);
	}
	void deallocate(T *pointer) const
	{
		driver.memory_free(reinterpret_cast<device_pointer>(pointer));
	}
};

template <typename T> class DeviceBuffer {
public:
	explicit DeviceBuffer(size_t count) : data_(DeviceAllocator<T>().allocate(count))
	{
	}
	~DeviceBuffer()
	{
		DeviceAllocator<T>().deallocate(data_);
	}
	DeviceBuffer(const DeviceBuffer &) = delete;
	DeviceBuffer &operator=(const DeviceBuffer &) = delete;

private:
	T *data_;
};

template <typename Key> class Cache {
public:
	__attribute__((noinline)) void insert(Key key, size_t bytes)
	{
		items_.emplace(key, std::make_unique<DeviceBuffer<char>>(bytes)); /* LEAK */
		count_++;
	}

private:
	std::unordered_map<Key, std::unique_ptr<DeviceBuffer<char>>> items_;
	size_t count_ = 0;
};

static __attribute__((noinline)) void forward(Cache<uint64_t> &cache, uint64_t step, size_t bytes)
{
	DeviceBuffer<float> activation(1 << 18);

	cache.insert(step, bytes);
}

int main(int argc, char **argv)
{
	uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100;
	size_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4096;

	driver_open(&driver);
	static Cache<uint64_t> cache;
	DeviceBuffer<float> weights(1 << 22);
#ifdef REBUILT
	if (moved(steps) == 1)
		return 3;
#endif
	for (uint64_t step = 1; step <= steps; step++) {
		forward(cache, step, bytes);
		vramcore_step(step);
	}
	std::fflush(nullptr);
	std::_Exit(0);
}
