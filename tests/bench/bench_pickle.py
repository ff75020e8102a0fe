#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Import of PyTorch snapshots against CPython's pickle.load: time and memory in one run.

usage: bench_pickle.py BIN [MEGABYTES ...]       (default 1 84; 1000 takes minutes and 7 GB)

Processor time of loading alone, and of whole commands; memory is the most that the process had.
The best of three.
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


def cost(*arguments):
    """Seconds of user and of system time, MiB: the best of three."""
    runs = []
    for _ in range(3):
        process = subprocess.Popen([os.path.join(binaries, "vramcore"), *arguments],
                                   stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode in (0, 1), arguments
        runs.append((usage.ru_utime, usage.ru_stime, usage.ru_maxrss / 1024))
    return min(runs, key=lambda run: run[0] + run[1])


lines = []
print("| file | pickle.load | import | times as fast | memory | import | part of it |")
print("|---|--:|--:|--:|--:|--:|--:|")
with tempfile.TemporaryDirectory() as folder:
    for size in sizes:
        path = os.path.join(folder, f"{size:g}.pickle")
        subprocess.run([sys.executable, os.path.join(here, "make_torch_snapshot.py"), str(size),
                        path], check=True)
        python, python_memory = best([sys.executable, "-c", LOAD, path])
        ours, our_memory = best([os.path.join(binaries, "bench_torch"), path])
        name = f"{os.path.getsize(path) / 1e6:.1f} MB"
        print(f"| {name} | {python:.3f} s | {ours:.3f} s | {python / ours:.1f} | "
              f"{python_memory / 1024:.0f} MiB | {our_memory / 1024:.0f} MiB | "
              f"{our_memory / python_memory:.2f} |", flush=True)
        for verb, *files in (("top", path), ("timeline", path), ("diff", path, path)):
            user, system, memory = cost(verb, *files)
            lines.append(f"| {verb}, {name} | {user:.2f} s | {system:.2f} s | {memory:.0f} MiB |")
        os.unlink(path)
print("\n| command | user | system | memory |\n|---|--:|--:|--:|")
print("\n".join(lines))
