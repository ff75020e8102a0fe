# SPDX-License-Identifier: Apache-2.0
"""How long a walk over tensors takes, and with holders, by storages and by objects of the heap.

usage: tests/simtorch/run python tests/bench/bench_walk.py LIBWALK_PROBE.so
Milliseconds of the calling thread's processor time and of the clock, best of three; megabytes that
it took for itself; bytes of what it wrote."""
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "walk"))
import torch
from walk import Probe

probe = Probe(sys.argv[1])


def best(holders):
    rows = []
    for _ in range(3):
        processor, clock = time.thread_time(), time.perf_counter()
        path, walked = probe.ask(holders=holders)
        rows.append(((time.thread_time() - processor) * 1e3, (time.perf_counter() - clock) * 1e3))
        size = os.path.getsize(path)
        walk = probe.read(path)
    return min(r[0] for r in rows), min(r[1] for r in rows), walk.walk, size


print("%9s %9s %9s  %21s  %21s %8s %9s" % ("storages", "nodes", "objects", "walk ms (cpu, clock)",
                                           "with holders ms", "memory", "file"))
graph, kept, filler = [], [], []
weight = torch.ones(8, requires_grad=True)
for storages, objects in ((1000, 0), (10000, 0), (100000, 0), (1000, 1000000)):
    graph.clear(), kept.clear(), filler.clear()
    filler.extend([[i] for i in range(objects and objects - 300000)])
    x = weight
    for i in range(storages // 2):  # half of them saved by a graph, half objects
        if i % 100 == 0:
            x = weight
        x = x * torch.ones(8)
        graph.append(x) if i % 100 == 99 else None
        kept.append(torch.ones(8))
    plain, full = best(False), best(True)
    print("%9d %9d %9d  %9.0f, %9.0f  %9.0f, %9.0f %5.1f MB %6.1f MB" % (
        storages, storages // 2, full[2].objects, plain[0], plain[1], full[0], full[1],
        full[2].memory / 1e6, full[3] / 1e6), flush=True)
