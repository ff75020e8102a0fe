# SPDX-License-Identifier: Apache-2.0
"""Ends while daemon threads allocate: their states are freed under their feet."""
import ctypes
import sys
import threading
import time

driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert driver.cuInit(0) == 0 and driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0


def work(depth):
    if depth:
        return work(depth - 1)
    pointer = ctypes.c_uint64()
    # no Python between the calls of one round: the loop runs on while the interpreter ends
    while True:
        driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(512))
        driver.cuMemFree_v2(pointer)


def start(depth):
    driver.cuCtxSetCurrent(context)
    work(depth)


for n in range(3):
    threading.Thread(target=start, args=(5 + 20 * n,), daemon=True).start()
time.sleep(0.1)
print("done")
sys.exit(3)
