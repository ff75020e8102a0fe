# SPDX-License-Identifier: Apache-2.0
"""Allocations out of every kind of Python frame; each is told with the chain of sys._getframe.

Lines on standard output: JSON of [process id, what, size, [[file, function, line], innermost first]].
Every size is used once, so that the recording's record of an allocation is found by it. The chain is
taken on the line of the allocation itself.
"""
import ctypes
import functools
import gc
import json
import os
import sys
import threading

CHURN = int(os.environ.get("TEST_CHURN", "400"))
released = ctypes.CDLL("libcuda.so.1")   # calls without the GIL
held = ctypes.PyDLL("libcuda.so.1")      # calls with it
kept = []
sizes = iter(range(10000, 10000000))
lock = threading.Lock()
context = ctypes.c_void_p()


def note(what, size, frame):
    chain = []
    while frame is not None:
        code = frame.f_code
        chain.append([os.fsencode(code.co_filename).decode("utf-8", "replace"),
                      getattr(code, "co_qualname", code.co_name), frame.f_lineno or 0])
        frame = frame.f_back
    with lock:
        print(json.dumps([os.getpid(), what, size, chain]), flush=True)


def check(result):
    assert result == 0, result


def alloc():
    size, pointer = next(sizes), ctypes.c_uint64()
    ref = ctypes.byref(pointer)
    note("alloc", size, sys._getframe()); check(released.cuMemAlloc_v2(ref, ctypes.c_size_t(size)))
    kept.append(pointer)
    return size


def alloc_held():
    size, pointer = next(sizes), ctypes.c_uint64()
    ref = ctypes.byref(pointer)
    note("alloc", size, sys._getframe()); check(held.cuMemAlloc_v2(ref, ctypes.c_size_t(size)))
    kept.append(pointer)


def freed():
    size, pointer = next(sizes), ctypes.c_uint64()
    ref = ctypes.byref(pointer)
    note("born", size, sys._getframe()); check(released.cuMemAlloc_v2(ref, ctypes.c_size_t(size)))
    note("free", size, sys._getframe()); check(released.cuMemFree_v2(pointer))


def failing():
    size, pointer = (1 << 45) + next(sizes), ctypes.c_uint64()
    ref = ctypes.byref(pointer)
    note("fail", size, sys._getframe()); result = released.cuMemAlloc_v2(ref, ctypes.c_size_t(size))
    assert result == 2, result


def recursive(depth):
    if depth:
        return recursive(depth - 1)
    return alloc()


def generator(depth):
    if depth:
        yield from generator(depth - 1)
    alloc()
    yield depth


async def coroutine(depth):
    if depth:
        await coroutine(depth - 1)
    alloc()


class Meta(type):
    def __call__(cls, *arguments):
        alloc()
        return super().__call__(*arguments)


class Thing(metaclass=Meta):
    def __init__(self, value):
        self.value = value
        alloc()

    @property
    def prop(self):
        return alloc()

    def __lt__(self, other):
        alloc()
        return self.value < other.value

    def __enter__(self):
        alloc()
        return self

    def __exit__(self, *_):
        alloc_held()

    def __del__(self):
        alloc()

    @staticmethod
    def static():
        class Inner:
            def method(self):
                return (lambda: alloc())()
        return Inner().method()


def over_lines(first,
               second):
    return [
        alloc(),
        [alloc() for _ in range(2)],
        {key: alloc() for key in (first,
                                  second)},
        sum(alloc() for _ in range(2)),
    ]


def with_callbacks():
    list(map(lambda _: alloc(), range(2)))
    sorted([Thing(2), Thing(1)])
    functools.reduce(lambda a, b: a + b + alloc(), range(3))
    [3, 1, 2].sort(key=lambda value: (alloc(), value)[1])
    libc = ctypes.CDLL(None)
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))

    def compare_numbers(a, b):
        alloc()
        sorted([1, 2], key=lambda _: recursive(2))
        return a[0] - b[0]
    libc.qsort(numbers, ctypes.c_size_t(3), ctypes.c_size_t(4), kind(compare_numbers))


def executed(name, file, lines_before):
    source = "\n" * lines_before + f"def {name}():\n    x = 1\n    return alloc()\n{name}()\n"
    exec(compile(source, file, "exec"), {"alloc": alloc})


def with_exceptions():
    try:
        raise ValueError
    except ValueError:
        alloc()
    finally:
        alloc()


def traced():
    sys.setprofile(lambda *_: None)
    sys.settrace(lambda *_: None)
    alloc()
    recursive(3)
    sys.settrace(None)
    sys.setprofile(None)


def long_lines():
    # more bytes of code on one line than an entry of a line table has room for
    return [alloc(), [0] + [1] + [2] + [3] + [4] + [5] + [6] + [7] + [8] + [9] + [10] + [11] + [12] + [13] + [14] + [15] + [16] + [17] + [18] + [19] + [20] + [21] + [22] + [23] + [24] + [25] + [26] + [27] + [28] + [29] + [30] + [31] + [32] + [33] + [34], alloc()]


def churn():
    for i in range(CHURN):
        executed("abc"[i % 3] + "name", "/churn/%d.py" % (i % 7), i % 11)
        if i % 50 == 0:
            gc.collect()


def everything():
    alloc()
    alloc_held()
    freed()
    recursive(250)
    for _ in generator(5):
        pass
    try:
        coroutine(4).send(None)
    except StopIteration:
        pass
    with Thing(3) as thing:
        thing.prop
    del thing
    Thing.static()
    over_lines(1,
               2)
    with_callbacks()
    executed("plain", "<string>", 3)
    executed("función", "/tmp/ñ/программа.py", 0)
    executed("名前", "/tmp/目录/文件.py", 300)
    executed("𝔻eep", "/tmp/😀.py", 0)
    executed("raw", os.fsdecode(b"/tmp/\xff\xfe.py"), 1)
    with_exceptions()
    traced()
    long_lines()
    failing()


def main():
    if os.environ.get("TEST_FORK"):
        # each of the two has the device for itself, and a recording of its own
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
    check(released.cuInit(0))
    check(released.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
    everything()
    if os.environ.get("TEST_FORK") and not child:
        return
    churn()

    def threaded():
        check(released.cuCtxSetCurrent(context))
        for _ in range(3):
            everything()
    threads = [threading.Thread(target=threaded) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setrecursionlimit(5000)
    if os.environ.get("TEST_DEEP"):
        recursive(700)


main()
