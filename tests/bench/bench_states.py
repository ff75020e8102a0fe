#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures snapshots of running processes with many blocks, and of core files of some size.

usage: bench_states.py BIN [GIB]

BIN is the folder of the build's programs; GIB how much of memory that is written the core holds (default 4).
Prints a table (Markdown): medians of five rounds, of cores of three.
"""
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(sys.argv[1]).resolve()
GIB = int(sys.argv[2]) if len(sys.argv) > 2 else 4


def start(folder, *arguments, library=None, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}
    environment |= {"VRAMCORE_DIR": str(folder), "LD_LIBRARY_PATH": str(BIN / "simcuda"),
                    "LD_PRELOAD": str(library or BIN / "libvramcore.so")} | more
    process = subprocess.Popen([BIN / "states_target", *map(str, arguments)], env=environment, cwd=folder, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=lambda: resource.setrlimit(
                                   resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2))
    for line in process.stdout:
        if line.startswith("ready"):
            break
    return process


def measure(folder, rounds, *arguments):
    """Seconds and MiB of the command, in the middle of the rounds; bytes of what it wrote."""
    seconds, memory = [], []
    made = folder / "made.vramcore"
    for _ in range(rounds):
        made.unlink(missing_ok=True)
        began = time.monotonic()
        pid = os.spawnve(os.P_NOWAIT, BIN / "vramcore", ["vramcore", *map(str, arguments), "-o", str(made)],
                         os.environ | {"VRAMCORE_DIR": str(folder), "TMPDIR": str(folder)})
        _, status, usage = os.wait4(pid, 0)
        seconds.append(time.monotonic() - began)
        memory.append(usage.ru_maxrss / 1024)
        if status:
            sys.exit(f"bench_states: vramcore {arguments} ended with {status}")
    return statistics.median(seconds), statistics.median(memory), made.stat().st_size


def row(name, seconds, memory, written, read=None):
    speed = f"{read / seconds / (1 << 30):.1f}" if read else ""
    print(f"| {name} | {seconds:.3f} | {memory:.0f} | {written / 1e6:.2f} | {speed} |", flush=True)


def running(folder):
    for count in (100_000, 1_000_000):
        process = start(folder, "many", count)
        row(f"`snapshot PID`, {count:,} blocks", *measure(folder, 5, "snapshot", process.pid))
        process.kill()
        process.wait()


def core_of(folder, **more):
    process = start(folder, "large", 0, GIB << 30, VRAMCORE_IN_CORE="1", **more)
    process.send_signal(11)
    process.wait()
    found = [path for path in folder.iterdir() if path.name.split(".")[0] == "core"]
    if not found:
        return None
    return found[0].rename(folder / "kernel")


def cores(folder):
    core = core_of(folder)
    if not core:
        print("SKIPPED: the kernel writes no core files here")
        return
    size = core.stat().st_size
    row(f"`extract`, core of {size / (1 << 30):.1f} GiB", *measure(folder, 3, "extract", core), size)
    for command in ("zstd", "lz4"):
        if not shutil.which(command):
            continue
        packed = folder / "packed"
        with packed.open("wb") as out:
            subprocess.run([command, "-1", "-c", core], stdout=out, stderr=subprocess.DEVNULL, check=True)
        row(f"`extract`, the same packed by {command} -1 ({packed.stat().st_size / (1 << 30):.1f} GiB)",
            *measure(folder, 1, "extract", packed), size)
        packed.unlink()
    core.unlink()
    library = folder / "recorder.so"
    shutil.copy(BIN / "libvramcore.so", library)
    core = core_of(folder, library=library)
    row("`extract`, library renamed: all pages searched", *measure(folder, 3, "extract", core), size)
    core.unlink()


print("| what | seconds | MiB of memory | MB written | GiB/s of the core |\n|---|---|---|---|---|")
with tempfile.TemporaryDirectory(prefix="vramcore-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as place:
    running(pathlib.Path(place))
    cores(pathlib.Path(place))
