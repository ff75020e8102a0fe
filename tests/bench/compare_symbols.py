#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Inline chains of a large debug file, address by address, against llvm-symbolizer's.

usage: compare_symbols.py BENCH_SYMBOLS DEBUG_FILE [COUNT [START]]

Addresses are drawn evenly from the sized functions of the file, by a sequence that START chooses.
Says which share of the chains is equal (function as the linker knows it, file name, line of every
frame) and lists the others by kind, with the time and memory of both. Exit status 1 below 98 %.
"""
import collections
import random
import re
import resource
import subprocess
import sys
import time


def choose(path, count, start):
    ranges, total = [], 0
    text = subprocess.run(["nm", "-S", "--defined-only", path], capture_output=True, text=True,
                          check=True).stdout
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tTwW":
            ranges.append((total, int(words[0], 16)))
            total += int(words[1], 16)
    if not ranges:
        sys.exit(f"{path}: no sized functions")
    numbers = random.Random(start)
    places = sorted(numbers.sample(range(total), count))
    chosen, at = [], 0
    for place in places:
        while at + 1 < len(ranges) and ranges[at + 1][0] <= place:
            at += 1
        chosen.append(ranges[at][1] + place - ranges[at][0])
    return sorted(set(chosen))


def run(command, addresses):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run(command, input="".join(f"0x{a:x}\n" for a in addresses),
                          capture_output=True, text=True, errors="surrogateescape", check=True)
    taken = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, taken, after.ru_utime - before.ru_utime, after.ru_maxrss >> 10


def plain(name):
    """Without a clone's suffix; which of a constructor's or destructor's names it is, left open."""
    name = name.split(".")[0]
    return re.sub(r"([CD])[0-5](?=[EI])", r"\1#", name) if name.startswith("_Z") else name


def frame(name, place):
    file, line = place.rsplit(":", 1)
    return plain(name), file.rsplit("/", 1)[-1], int(line)


def read_own(text):
    chains = {}
    for row in text.splitlines():
        address, *frames = row.split("\t")
        chains[int(address, 16)] = [frame(*f.rsplit(" ", 1)) for f in frames]
    return chains


def read_other(text, addresses):
    chains = {}
    blocks = text.split("\n\n")
    for address, block in zip(addresses, blocks):
        lines = block.strip("\n").split("\n")
        chains[address] = [frame(name, place.rsplit(":", 1)[0])
                           for name, place in zip(lines[::2], lines[1::2])]
    return chains


def kind(own, other):
    if not own or own[0][1] == "??":
        return "no line here" if other and other[0][1] != "??" else "neither has a line; names differ"
    if other[0][1] == "??":
        return "no line there"
    if len(own) != len(other):
        return "shorter here" if len(own) < len(other) else "longer here"
    if [f[0] for f in own] != [f[0] for f in other]:
        return "another function"
    if [f[1] for f in own] != [f[1] for f in other]:
        return "another file"
    if own[0][2] != other[0][2] and own[1:] == other[1:]:
        return "innermost line 0 there" if other[0][2] == 0 else \
               "innermost line 0 here" if own[0][2] == 0 else "another innermost line"
    return "another line of a call"


def main():
    bench, path = sys.argv[1:3]
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 10000
    start = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    addresses = choose(path, count, start)
    text, taken, processor, memory = run([bench, path, "--print"], addresses)
    own = read_own(text)
    print(f"here: {taken:.2f} s ({processor:.2f} s of processor), {memory} MiB")
    text, taken, processor, memory = run(
        ["llvm-symbolizer", "--inlines", "--functions=linkage", "--no-demangle", f"--obj={path}"],
        addresses)
    other = read_other(text, addresses)
    print(f"llvm-symbolizer: {taken:.2f} s ({processor:.2f} s of processor), "
          f"{memory} MiB (the larger of both)")
    kinds, examples = collections.Counter(), {}
    for address in addresses:
        if own.get(address) == other.get(address):
            continue
        what = kind(own.get(address, []), other.get(address, [("??", "??", 0)]))
        kinds[what] += 1
        examples.setdefault(what, (address, own.get(address), other.get(address)))
    same = len(addresses) - sum(kinds.values())
    print(f"{same} of {len(addresses)} chains are equal, {100 * same / len(addresses):.2f} %")
    for what, number in kinds.most_common():
        address, mine, its = examples[what]
        print(f"  {number:5} {what}: 0x{address:x}\n        here  {mine}\n        there {its}")
    return 0 if same * 100 >= len(addresses) * 98 else 1


sys.exit(main())
