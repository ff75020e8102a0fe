# SPDX-License-Identifier: Apache-2.0
"""A Python program that allocates, and then waits in C with the interpreter's lock held."""
import ctypes
import os
import sys

cuda = ctypes.CDLL("libcuda.so.1")
context, device, pointer = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()


def must(result):
    if result:
        sys.exit(2)


def make_weights():
    must(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(8 << 20)))


def hold_the_lock():
    ctypes.PyDLL(None).pause()


must(cuda.cuInit(0))
must(cuda.cuDeviceGet(ctypes.byref(device), 0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
must(cuda.cuCtxSetCurrent(context))
make_weights()
print("weights", hex(pointer.value))
print("ready", hex(os.getpid()), flush=True)
if len(sys.argv) > 1 and sys.argv[1] == "crash":
    sys.stdin.read()
    ctypes.PyDLL(None).abort()
hold_the_lock()
