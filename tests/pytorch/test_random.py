#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training scripts made by seeds (random_training.py), bare and recorded with a snapshot every third step.

usage: test_random.py BINARY_FOLDER [--seeds N] [--first SEED] [--jobs N] [--minutes N]
Of each seed standard output (with numbers of every step to the last bit), standard error and exit status
must be the same byte by byte; the snapshots must be those of every third step, each whole, with
PyTorch's blocks in it. Six seeds; VRAMCORE_FULL=1, or --seeds: 200, or as many as are said. --minutes:
no new seed is begun after so long. Skipped where the wheel of PyTorch cannot be had.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIMTORCH = HERE.parent / "simtorch" / "run"
SCRIPT = HERE / "random_training.py"
STEPS, EVERY = 9, 3
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}


def run(binaries, *command):
    done = subprocess.run([SIMTORCH, "--bin", binaries, *command], env=ENVIRONMENT, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=900, check=False)
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def info_of(binaries, path):
    done = subprocess.run([binaries / "vramcore", "info", "--json", "--no-symbols", path],
                          capture_output=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


def look_at(binaries, paths):
    """What is wrong with the snapshots of a run, in words."""
    steps, wrong = [], []  # the first third step has a step before it: all are before a backward pass
    for path in paths:
        status, info = info_of(binaries, path)
        steps.append(info["file"]["step"])
        if info["file"]["moment"] != "before-backward":
            wrong.append(f"{path.name}: {info['file']['moment']}")
        shown = [device.get("torch") for device in info["devices"]]
        if status or not any(numbers and numbers["allocated"] for numbers in shown):
            wrong.append(f"{path.name}: info ends with {status}, of PyTorch {shown}, "
                         f"{info['evidence']['items']}")
    expected = list(range(EVERY, STEPS + 1, EVERY))
    if sorted(steps) != expected:
        wrong.append(f"snapshots of steps {sorted(steps)}, expected {expected}")
    return wrong


def one(binaries, seed):
    """What differs for a seed, in words."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vramcore-random-"))
    command = ["python", SCRIPT, str(seed), str(STEPS)]
    try:
        bare = run(binaries, *command)
        if bare["status"] == 77:
            return bare
        recorded = run(binaries, binaries / "vramcore", "run", "--quiet", "--out", folder / "out",
                       "--every", f"{EVERY}steps", "--", *command)
        wrong = [f"{key}: bare {bare[key]!r}\n    recorded {recorded[key]!r}"
                 for key in bare if bare[key] != recorded[key]]
        if b"devices cpu cuda\n" not in bare["stdout"]:
            wrong.append("the script had no device")
        return wrong + look_at(binaries, (folder / "out").glob("*.vramcore"))
    finally:
        shutil.rmtree(folder)


def main():
    full = os.environ.get("VRAMCORE_FULL") == "1"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=200 if full else 6)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=24 * 60)
    options = parser.parse_args()
    binaries, end = options.binaries.resolve(), time.monotonic() + 60 * options.minutes
    done, failed = 0, 0

    def work(seed):
        return one(binaries, seed) if time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        seeds = range(options.first, options.first + options.seeds)
        for seed, wrong in zip(seeds, pool.map(work, seeds)):
            if isinstance(wrong, dict):
                print(wrong["stdout"].decode() + wrong["stderr"].decode())
                return 77
            done += wrong is not None
            failed += bool(wrong)
            for line in wrong or ():
                print(f"seed {seed}: {line}", flush=True)
    print(f"{done} seeds, {failed} differ")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
