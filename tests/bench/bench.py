#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the recorder and the command, and prints tables with ratios (Markdown).

usage: bench.py BIN [--quick] [--only PART[,PART...]] [--format-document FORMAT.md]

BIN is the folder of the build's programs. Parts: hooks, instructions, calls, files, views, more.
What is compared runs in turns, in processes of its own that pin their thread to one processor;
medians of rounds are printed. What this machine lacks (heaptrack, valgrind, zstd) is said, and its
rows left out.
"""
import argparse
import os
import platform
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HEAPTRACK = "/usr/lib/heaptrack/libheaptrack_preload.so"
DEPTHS = (10, 30, 43, 60)
LIVE = (10_000, 100_000, 200_000, 1_000_000)
PARTS = ("hooks", "instructions", "calls", "files", "views", "more")


class Bench:
    """What all parts share: programs, folder, environment."""

    def __init__(self, options, folder):
        self.bin = os.path.abspath(options.bin)
        self.quick = options.quick
        self.document = options.format_document
        self.folder = folder
        self.simulated = os.path.join(self.bin, "simcuda")

    def program(self, name):
        return os.path.join(self.bin, name)

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith(("VRAMCORE_", "SIMCUDA_", "LD_PRELOAD", "DUMP_HEAPTRACK"))}
        kept["LD_LIBRARY_PATH"] = self.simulated
        kept["VRAMCORE_DIR"] = self.folder
        kept.update(more)
        return kept

    def run(self, arguments, may_fail=False, **more):
        done = subprocess.run(arguments, env=self.environment(**more), capture_output=True,
                              text=True, check=False)
        if done.returncode and may_fail:
            return None
        if done.returncode:
            sys.exit(f"bench: {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}")
        for name in os.listdir(self.folder):
            if name.endswith(".vrec"):
                os.unlink(os.path.join(self.folder, name))
        return done.stdout

    def folder_of(self, name):
        path = os.path.join(self.folder, name)
        shutil.rmtree(path, ignore_errors=True)
        return path


def skip(what):
    print(f"\n**SKIPPED: {what}**\n")


def table(head, rows):
    print("\n| " + " | ".join(head) + " |")
    print("|---" + "|--:" * (len(head) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


# ---- hooks: nanoseconds added to a pair ----

def pair(bench, mode, depth, count, **more):
    out = bench.run([bench.program("bench_program"), "pairs", mode, str(depth), str(count)], **more)
    return [float(number) for number in out.split()[:3]]


def part_hooks(bench):
    recorded = {"LD_PRELOAD": bench.program("libvramcore.so")}
    kinds = [("driver", recorded), ("block", recorded), ("torch", recorded)]
    have = os.path.exists(HEAPTRACK)
    if have:
        kinds.append(("malloc", {"LD_PRELOAD": HEAPTRACK, "DUMP_HEAPTRACK_OUTPUT": "/dev/null"}))
    else:
        skip("no heaptrack here (package heaptrack): its columns are left out")
    rounds, count = (2, 5000) if bench.quick else (9, 15000)
    added = {(mode, depth): [] for mode, _ in kinds for depth in DEPTHS}
    for _ in range(rounds):
        for depth in DEPTHS:
            for mode, environment in kinds:
                before = pair(bench, mode, depth, count)
                after = pair(bench, mode, depth, count, **environment)
                added[mode, depth].append([b - a for a, b in zip(before, after)])
    middle = {key: [statistics.median(column) for column in zip(*values)]
              for key, values in added.items()}
    names = {"driver": "cuMemAlloc + cuMemFree", "block": "vramcore_block + _free",
             "torch": "report of PyTorch's allocator, both",
             "malloc": "heaptrack, malloc + free"}
    rows = []
    for depth in DEPTHS:
        for mode, _ in kinds:
            row = [f"{depth} frames, {names[mode]}"]
            row += [f"{value:.0f}" for value in middle[mode, depth]]
            if have:
                row += ["" if mode == "malloc" else f"{a / b:.2f}" if b > 0 else "-"
                        for a, b in zip(middle[mode, depth], middle["malloc", depth])]
            rows.append(row)
    print(f"\n### Added to an allocation and its free, nanoseconds ({rounds} rounds of {count:,} "
          "pairs, in turns)\n\nMedian and 99th percentile of single pairs by the clock, and "
          "processor time by pair; each the\ndifference to the same program without a recorder. "
          "heaptrack writes to /dev/null, without its interpreter.")
    table(["", "median", "p99", "processor time"] +
          (["/ heaptrack: median", "p99", "processor time"] if have else []), rows)


def part_instructions(bench):
    if not shutil.which("valgrind"):
        skip("no valgrind here: instructions are not counted")
        return
    rows = []
    for depth in DEPTHS:
        out = os.path.join(bench.folder, "callgrind.out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
                   "--toggle-collect=vramcore*_block*", bench.program("bench_program"), "pairs",
                   "alone", str(depth), "2000"]
        # Now and then valgrind gives up: the agent maps files of a descriptor table of its own.
        for last in (False,) * 9 + (True,):
            text = bench.run(command, may_fail=not last,
                             LD_PRELOAD=bench.program("libvramcore.so"))
            if text is not None:
                break
        pairs = int(text.split()[3])
        with open(out, encoding="utf-8", errors="replace") as file:
            total = int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M).group(1))
        os.unlink(out)
        rows.append([f"{depth} frames", f"{total / pairs:,.0f}"])
        if bench.quick:
            break
    print("\n### Instructions of vramcore_block + vramcore_block_free (callgrind, no driver)")
    table(["", "by pair"], rows)


# ---- calls: the longest ----

def part_calls(bench):
    steps, count = (400, 500) if bench.quick else (3000, 500)
    own = [bench.program("bench_program"), "calls", "100000", str(steps), str(count)]
    out = bench.folder_of("calls")
    run = [bench.program("vramcore"), "run", "--quiet", f"--out={out}", "--max-files=100000",
           "--max-bytes=100GiB"]
    found = {"no recorder": bench.run(own),
             "recorded, no snapshot": bench.run([*run, "--", *own])}
    taken = "recorded, a snapshot every 100 steps"
    found[taken] = bench.run([*run, "--every=100steps", "--", *own])
    files = os.listdir(out)
    size = max((os.path.getsize(os.path.join(out, name)) for name in files), default=0)
    shutil.rmtree(out, ignore_errors=True)
    rows, switches = [], []
    for how, text in found.items():
        for line in text.splitlines():
            word = line.split()
            if word[0] == "kernel":
                switches.append([how, *word[1:]])
                continue
            microseconds = [f"{int(n) / 1000:,.1f}" for n in word[3:6] + word[7:10]]
            rows.append([f"{how}: {word[0]} ({int(word[1]):,} calls)", *microseconds])
    print(f"\n### Single calls with 100,000 blocks live, microseconds\n\n{len(files)} snapshots of "
          f"up to {size:,} bytes were taken meanwhile by the supervisor.\nThe scheduler's part of "
          "the clock's column shows in the rows without a recorder.")
    table(["", "clock: median", "p99.9", "max", "processor time: median", "p99.9", "max"], rows)
    print("How often the thread lost its processor in all of it, by waiting and to others (then "
          "the clock\ncounts what others did), and page faults:")
    table(["", "waited", "taken away", "page faults"], switches)


# ---- files and views ----

def record_live(bench):
    """Two snapshots by number of live blocks, the second with 1 % more."""
    out = bench.folder_of("live")
    counts = [n for n in LIVE if n <= 200_000] if bench.quick else LIVE
    steps = [step for n in counts for step in (n // 100, n // 100 + n // 10_000)]
    bench.run([bench.program("vramcore"), "run", "--quiet", f"--out={out}", "--budget=1GiB",
               "--at-step=" + ",".join(map(str, steps)), "--", bench.program("bench_program"),
               "live", *(str(step * 100) for step in steps)])
    found = {}
    for name in os.listdir(out):
        step = re.search(r"step(\d+)", name)
        if step:
            found[int(step.group(1))] = os.path.join(out, name)
    missing = [step for step in steps if step not in found]
    if missing:
        sys.exit(f"bench: no snapshot of steps {missing} in {out}: {os.listdir(out)}")
    return {n: (found[n // 100], found[n // 100 + n // 10_000]) for n in counts}


def column_names(document):
    with open(document, encoding="utf-8") as file:
        text = file.read()
    section = re.search(r"^#### allocations: table.*?(?=^#### )", text, re.M | re.S).group(0)
    rows = re.findall(r"^\| (\d+) \| (\w+) \|", section, re.M)
    return {int(number): name for number, name in rows}


def sections(path):
    """Name -> compressed bytes of each section."""
    with open(path, "rb") as file:
        data = file.read()
    start, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<3H", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, start + size * i) for i in range(count)]
    text = data[headers[names][4]:][:headers[names][5]]
    return {text[name:].split(b"\0")[0].decode(): data[offset:offset + length]
            for name, _, _, _, offset, length in headers}


def zstd(data, *options):
    return subprocess.run(["zstd", "-qc", *options], input=data, capture_output=True,
                          check=True).stdout


def columns_of(data):
    """Column number -> (encoding, bytes before compression), of a section's groups."""
    found = {}
    while data:
        _, _, count = struct.unpack_from("<QII", data)
        end = 16 + 24 * count
        for i in range(count):
            column, _, encoding, _, offset, length = struct.unpack_from("<HBBIQQ", data,
                                                                        16 + 24 * i)
            before = found.get(column, (0, b""))[1]
            found[column] = (encoding, before + data[offset:offset + length])
            end = offset + length
        data = data[end:]
    return found


def part_files(bench, live):
    sizes = {n: os.path.getsize(files[0]) for n, files in live.items()}
    marginal = (sizes[200_000] - sizes[100_000]) / 100_000
    out = bench.folder_of("train")
    bench.run([bench.program("vramcore"), "run", "--quiet", f"--out={out}", "--budget=1GiB",
               "--at-step=100000,200000", "--", bench.program("train"), "--steps", "200010"])
    train = {int(re.search(r"step(\d+)", name).group(1)): os.path.getsize(os.path.join(out, name))
             for name in os.listdir(out)}
    shutil.rmtree(out)
    rows = [["blocks at 64 stacks of 2 threads, 5 streams, 64 sizes",
             *(f"{sizes[n]:,}" for n in (100_000, 200_000)), f"{marginal:.2f}"],
            ["samples/train --leak cache (one site)",
             *(f"{train[n]:,}" for n in (100_000, 200_000)),
             f"{(train[200_000] - train[100_000]) / 100_000:.2f}"]]
    print("\n### Snapshot files of recorded programs, bytes")
    table(["", "100,000 blocks", "200,000 blocks", "by further block"], rows)
    if not shutil.which("zstd") or not bench.document:
        skip("no zstd program or no FORMAT.md: columns are not told apart")
        return
    names = column_names(bench.document)
    parts = []
    for n in (100_000, 200_000):
        body = sections(live[n][0])[".vramcore.allocations"][24:]
        parts.append(columns_of(zstd(body, "-d")))
    rows = []
    for column, (encoding, data) in parts[1].items():
        small = [len(zstd(part[column][1], "-3")) for part in parts]
        rows.append([names.get(column, column), encoding, f"{len(data) / 200_000:.2f}",
                     f"{(small[1] - small[0]) / 100_000:.2f}"])
    rows.sort(key=lambda row: -float(row[3]))
    print("\nColumns of `allocations`, bytes by further block, each compressed on its own (which "
          "costs\nmore than together):")
    table(["column", "encoding", "before compression", "compressed"],
          [row for row in rows if float(row[3]) >= 0.005])


def measure(arguments, environment):
    """Seconds by the clock, seconds of processor time and MiB of one run."""
    start = time.monotonic()
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"bench: {' '.join(arguments)} ended with {process.returncode}")
    return (time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def part_views(bench, live):
    rows = []
    for n, (old, new) in live.items():
        for verb, files in (("top", [old]), ("diff", [old, new])):
            runs = [measure([bench.program("vramcore"), verb, *files], bench.environment())
                    for _ in range(3 if bench.quick else 7)]
            middle = [statistics.median(column) for column in zip(*runs)]
            rows.append([f"`{verb}`, {n:,} blocks", f"{middle[0]:.3f}",
                         f"{min(run[0] for run in runs):.3f}", f"{middle[1]:.3f}",
                         f"{middle[2]:.0f}"])
    print("\n### The command on recorded snapshots")
    table(["", "seconds, median", "at best", "processor time", "MiB"], rows)


# ---- the other programs ----

def part_more(bench):
    for name in ("bench_unwind", "bench_store", "bench_snapshot"):
        arguments = [bench.program(name)]
        if name != "bench_unwind":
            arguments.append(bench.folder)
        print(f"\n### {name}\n\n```\n{bench.run(arguments).rstrip()}\n```", flush=True)
    skip("bench_symbols wants a file with large debug information: see its head")


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    if found:
        model = found.group(1)
    with open("/proc/loadavg", encoding="utf-8") as file:
        load = " ".join(file.read().split()[:3])
    print(f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {model}, "
          f"{len(os.sched_getaffinity(0))} processors, Linux {platform.release()}, load {load}",
          flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("bin")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--format-document")
    options = parser.parse_args()
    parts = options.only.split(",")
    if any(part not in PARTS for part in parts):
        parser.error("unknown part")
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="vramcore-bench-", dir=place) as folder:
        bench = Bench(options, folder)
        machine()
        if "hooks" in parts:
            part_hooks(bench)
        if "instructions" in parts:
            part_instructions(bench)
        if "calls" in parts:
            part_calls(bench)
        if "files" in parts or "views" in parts:
            live = record_live(bench)
            if "files" in parts:
                part_files(bench, live)
            if "views" in parts:
                part_views(bench, live)
        if "more" in parts:
            part_more(bench)
        machine()


if __name__ == "__main__":
    main()
