# SPDX-License-Identifier: Apache-2.0
"""ctypes: the driver's functions by name, by cuGetProcAddress, and by RTLD_DEFAULT of a global driver."""
import ctypes

from clients import compare, end


def check(result):
    assert result == 0, result


def main():
    driver = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    context, function = ctypes.c_void_p(), ctypes.c_void_p()
    pointers = [ctypes.c_uint64() for _ in range(4)]
    check(driver.cuInit(0))
    check(driver.cuCtxCreate_v2(ctypes.byref(context), 0, 1))
    check(driver.cuMemAlloc_v2(ctypes.byref(pointers[0]), ctypes.c_size_t(12345)))
    compare("by name", 2)
    check(driver.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(function), 12000, ctypes.c_uint64(0), None))
    ask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(function.value)
    check(ask(ctypes.addressof(pointers[1]), 1 << 22))
    compare("by cuGetProcAddress", 3)
    check(ctypes.CDLL(None).cuMemAllocManaged(ctypes.byref(pointers[2]), ctypes.c_size_t(1 << 20), 1))
    compare("in the global scope", 4)
    check(driver.cuGetProcAddress_v2(b"cuMemAllocAsync", ctypes.byref(function), 12000, ctypes.c_uint64(2), None))
    ask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(function.value)
    check(ask(ctypes.addressof(pointers[3]), 3 << 20, None))
    compare("with the flag of per-thread streams", 5)
    for pointer in pointers:
        check(driver.cuMemFree_v2(pointer))
    compare("freed")
    try:
        driver.cuNoSuchFunction
        raise SystemExit("a function that is not there was found")
    except AttributeError:
        pass
    end(5)


main()
