# SPDX-License-Identifier: Apache-2.0
"""Programs that run out of device memory, each in its own way; oom_cases.py NAME runs one.

The device has 8 GiB. What a program prints and how it ends must be the same with and without the
recorder; test_oom.py says what its snapshots must show.
"""
import sys

import torch

MIB, GIB = 1 << 20, 1 << 30


def take(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def say(error):
    print(type(error).__name__, str(error).split(". ")[0])


def caught(size):
    try:
        return take(size)
    except torch.cuda.OutOfMemoryError as error:
        say(error)
        return None


def fragment(kept):
    """80 segments of 64 MiB, of each of which 2 MiB stay."""
    fill = []
    for _ in range(80):
        whole = take(64 * MIB)
        del whole
        kept.append(take(2 * MIB))
        fill.append(take(62 * MIB))


def fragmented():
    kept = []
    fragment(kept)
    caught(4 * GIB)


def uncaught():
    kept = []
    fragment(kept)
    take(4 * GIB)


def full():
    kept = [take(GIB) for _ in range(6)]
    caught(4 * GIB)
    return kept


def beyond():
    caught(9 * GIB)


def limit():
    torch.cuda.set_per_process_memory_fraction(0.25)
    kept = take(GIB)
    caught(2 * GIB)
    return kept


def repeated():
    """A loop that catches it and goes on: at one place, then at many."""
    kept = take(GIB)
    for _ in range(300):
        caught(9 * GIB)
    for _ in range(300):
        caught(9 * GIB)
        kept = take(512)
    return kept


def finder():
    """A batch size is halved until it fits."""
    size, kept = 64 * GIB, take(512)
    fits = None
    while fits is None:
        try:
            fits = torch.empty(size, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            size //= 2
    print("fits", size)
    return kept


def released():
    """The cache is in the way: PyTorch gives it back and tries again."""
    for _ in range(3):
        large = [take(GIB) for _ in range(6)]
        del large
        kept = take(5 * GIB)
        del kept
        torch.cuda.empty_cache()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
