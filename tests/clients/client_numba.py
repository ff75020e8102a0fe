# SPDX-License-Identifier: Apache-2.0
"""numba-cuda: arrays of all sorts, a kernel compiled and launched (accepted, not run), streams, deferred frees."""
import gc

import numpy as np
from numba import cuda

from clients import compare, end


@cuda.jit
def add(a, b):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += b[i]


def main():
    first = cuda.to_device(np.arange(1 << 20, dtype=np.float32))
    second = cuda.device_array((1000, 33), dtype=np.float64)
    compare("device arrays", 3)
    pinned = cuda.pinned_array(4096, dtype=np.uint8)
    mapped = cuda.mapped_array(1024, dtype=np.float32)
    managed = cuda.managed_array(1 << 16, dtype=np.int32)
    compare("pinned, mapped, managed", 6)
    stream = cuda.stream()
    with cuda.pinned(np.zeros(1 << 16)):
        compare("registered", 6)
    copied = cuda.to_device(np.ones(1 << 18), stream=stream)
    stream.synchronize()
    compare("by a stream", 6)
    try:
        add[64, 256](first, first)
        cuda.synchronize()
    except Exception as error:  # pylint: disable=broad-except
        if not any(word in str(error) for word in ("libnvvm", "NVVM", "libdevice", "nvJitLink")):
            raise
        print("SKIPPED: no kernel was compiled, which needs the toolkit's compiler:", error)
    compare("a kernel compiled and launched", 6)
    first.copy_to_host()
    like = cuda.device_array_like(second)
    total, free = cuda.current_context().get_memory_info()
    assert total and free
    compare("copied", 6)
    del first, second, like, copied
    gc.collect()
    compare("dropped: frees are put off")
    cuda.current_context().deallocations.clear()
    compare("freed")
    with cuda.defer_cleanup():
        for size in range(1, 200):
            cuda.device_array(size * 100)
        compare("many", 100)
    cuda.current_context().deallocations.clear()
    compare("many: freed")
    del pinned, mapped, managed
    gc.collect()
    cuda.current_context().deallocations.clear()
    compare("host memory freed")
    with cuda.gpus[1]:
        other = cuda.device_array(1 << 20)
        compare("another device", 3)
        del other
    cuda.current_context().reset()
    compare("context reset")
    end(13)


main()
