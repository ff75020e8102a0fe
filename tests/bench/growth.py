#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""growth.py BIN [--quick|--most]: how cost and the recorder's own memory grow (Markdown tables).

One number grows at a time: blocks that live, threads, depth of the stacks, loaded modules. Each
program runs alone and with the recorder, in turns; the difference of the medians of three rounds
is printed. Processor time is that of the calling threads. "lost" are records that there was no room
for, after the limits of FORMAT.md. --most: ten million blocks, once, with a budget that holds them.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
QUICK = "--quick" in sys.argv
MOST = "--most" in sys.argv
ROUNDS = 1 if QUICK or MOST else 3
PAIRS = 20_000
BLOCKS = (1_000, 10_000, 100_000) if QUICK else (1_000, 10_000, 100_000, 1_000_000)
THREADS = (1, 2, 4, 8, 16, 32, 64)
DEPTHS = (10, 30, 60, 100, 200)
MODULES = (0, 10, 100, 300)


def lost_of(path):
    done = subprocess.run([BIN + "/vramcore", "info", "--json", path], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False)
    found = []

    def look(value):
        if isinstance(value, dict):
            if value.get("key") == "records_lost" or value.get("name") == "records_lost":
                found.append(value.get("value", value.get("count", 0)))
            if isinstance(value.get("records_lost"), int):
                found.append(value["records_lost"])
            for one in value.values():
                look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    try:
        look(json.loads(done.stdout))
    except ValueError:
        return "?"
    return max(found, default=0)


def once(folder, recorded, blocks, threads, depth, modules):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("VRAMCORE_", "SIMCUDA_", "LD_"))}
    kept["LD_LIBRARY_PATH"] = BIN + "/simcuda"
    if recorded:
        kept.update(LD_PRELOAD=BIN + "/libvramcore.so", VRAMCORE_DIR=folder)
        if MOST:
            kept.update(VRAMCORE_BUDGET="4GiB")
    done = subprocess.run([BIN + "/bench_growth", str(blocks), str(threads), str(depth), str(PAIRS),
                           *modules], env=kept, stdout=subprocess.PIPE, text=True, check=True)
    numbers = [float(word) for word in done.stdout.split()]
    for name in os.listdir(folder):
        if name.endswith(".vrec"):
            path = os.path.join(folder, name)
            numbers.append(os.stat(path).st_blocks * 512 / 1024)
            numbers.append(lost_of(path))
            os.unlink(path)
    return numbers


def row(folder, blocks, threads, depth, modules):
    alone, recorded = [], []
    for _ in range(ROUNDS):
        alone.append(once(folder, False, blocks, threads, depth, modules))
        recorded.append(once(folder, True, blocks, threads, depth, modules))

    def added(column):
        return (statistics.median(numbers[column] for numbers in recorded) -
                statistics.median(numbers[column] for numbers in alone))

    size = statistics.median(numbers[4] for numbers in recorded)
    print(f"| {blocks:,} | {threads} | {depth} | {len(modules)} | {added(0):,.0f} | "
          f"{added(1):,.0f} | {size / 1024:,.1f} | {size * 1024 / blocks:,.0f} | {added(2) / 1024:,.1f} | "
          f"{recorded[-1][5]} |", flush=True)


def main():
    folder = tempfile.mkdtemp(prefix="vramcore-growth-", dir="/dev/shm")
    copies = []
    try:
        for number in range(max(MODULES)):
            copies.append(f"{folder}/libgrowth{number}.so")
            shutil.copy(BIN + "/libhost_plugin.so", copies[-1])
        print("| blocks | threads | depth | modules | ns an allocation, growing | ns a pair | "
              "recording, MiB | bytes a block | private, MiB | lost |")
        print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
        for blocks in (10_000_000,) if MOST else BLOCKS:
            row(folder, blocks, 1, 30, [])
        if MOST:
            return
        for threads in THREADS:
            row(folder, 10_000, threads, 30, [])
        for depth in DEPTHS:
            row(folder, 10_000, 1, depth, [])
        for modules in MODULES:
            row(folder, 10_000, 1, 30, copies[:modules])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
