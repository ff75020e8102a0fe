#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Import of PyTorch snapshots against CPython's pickle.load: time and memory in one run.

usage: bench_pickle.py BIN [MEGABYTES ...]       (default 1 84; 1000 takes minutes and 7 GB)

Processor time of loading alone; memory is the most that the process had. The best of three.
"""
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
binaries = sys.argv[1]
sizes = [float(size) for size in sys.argv[2:]] or [1, 84]
LOAD = """import pickle, resource, sys, time
start = time.process_time()
data = pickle.load(open(sys.argv[1], "rb"))
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def best(command):
    runs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            for _ in range(3)]
    return min(float(run[0]) for run in runs), min(int(run[-1 if len(run) == 2 else 2])
                                                   for run in runs)


def command_seconds(*arguments):
    before = os.times()
    subprocess.run([os.path.join(binaries, "vramcore"), *arguments], check=True,
                   stdout=subprocess.DEVNULL)
    after = os.times()
    return (after.children_user - before.children_user +
            after.children_system - before.children_system)


print("| file | pickle.load | import | times as fast | memory | import | part of it | top | diff |")
print("|---|---|---|---|---|---|---|---|---|")
with tempfile.TemporaryDirectory() as folder:
    for size in sizes:
        path = os.path.join(folder, f"{size:g}.pickle")
        subprocess.run([sys.executable, os.path.join(here, "make_torch_snapshot.py"), str(size),
                        path], check=True)
        python, python_memory = best([sys.executable, "-c", LOAD, path])
        ours, our_memory = best([os.path.join(binaries, "bench_torch"), path])
        print(f"| {os.path.getsize(path) / 1e6:.1f} MB | {python:.3f} s | {ours:.3f} s | "
              f"{python / ours:.1f} | {python_memory / 1024:.0f} MiB | {our_memory / 1024:.0f} MiB "
              f"| {our_memory / python_memory:.2f} | {command_seconds('top', path):.2f} s | "
              f"{command_seconds('diff', path, path):.2f} s |", flush=True)
        os.unlink(path)
