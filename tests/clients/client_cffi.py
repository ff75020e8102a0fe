# SPDX-License-Identifier: Apache-2.0
"""cffi: the driver opened and called by declarations."""
import cffi

from clients import compare, end


def main():
    ffi = cffi.FFI()
    ffi.cdef("""int cuInit(unsigned flags); int cuDevicePrimaryCtxRetain(void **context, int device);
                int cuCtxSetCurrent(void *context); int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
                int cuMemFree_v2(unsigned long long pointer);""")
    driver = ffi.dlopen("libcuda.so.1")
    context, pointer = ffi.new("void **"), ffi.new("unsigned long long *")
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(context, 0) == 0 and driver.cuCtxSetCurrent(context[0]) == 0
    assert driver.cuMemAlloc_v2(pointer, 4711) == 0
    compare("allocated", 2)
    assert driver.cuMemFree_v2(pointer[0]) == 0
    compare("freed")
    end(2)


main()
