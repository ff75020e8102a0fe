#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training scripts made by seeds (random_training.py), bare and recorded with a snapshot every third step.

usage: test_random.py BINARY_FOLDER [--seeds N] [--first SEED] [--jobs N] [--minutes N] [--verbose]
Of each seed standard output (with numbers of every step to the last bit), standard error and exit status
must be the same byte by byte; the snapshots must be those of every third step, each whole, with
PyTorch's blocks in it, and the walk over the tensors: every parameter that the script says it has on the
device, by name and bytes, and as many tensors of its optimizer. A walk that a slow machine ended early
is counted; names in it must be right. Five seeds; VRAMCORE_FULL=1, or --seeds: 200, or as many as are
said. --minutes: no new seed is begun after so long. --verbose: a line for every seed. Skipped where
the wheel of PyTorch cannot be had.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIMTORCH = HERE.parent / "simtorch" / "run"
SCRIPT = HERE / "random_training.py"
STEPS, EVERY = 9, 3
# PyTorch 2.2 has no function that every backward pass goes through
OLD = re.match(r"2\.[0-2]\.", os.environ.get("SIMTORCH_VERSION", ""))
MOMENT = "after-step" if OLD else "before-backward"
GRADIENTS, TIME_UP, MEMORY_UP = 1, 2, 4  # of walks.flags
PARAMETER, OPTIMIZER = 1, 4              # of tensors.found
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}


def run(binaries, *command):
    done = subprocess.run([SIMTORCH, "--bin", binaries, *command], env=ENVIRONMENT, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=900, check=False)
    # lines of PyTorch's own log have the time and the process
    stderr = re.sub(rb"^([WI]\d{4} )[\d:.]+ \d+ ", rb"\1", done.stderr, flags=re.MULTILINE)
    return {"status": done.returncode, "stdout": done.stdout, "stderr": stderr}


def info_of(binaries, path):
    done = subprocess.run([binaries / "vramcore", "info", "--json", "--no-symbols", path],
                          capture_output=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


def tables_of(binaries, path):
    done = subprocess.run([binaries / "vramcore", "export", path, "--to", "json"], stdout=subprocess.PIPE,
                          timeout=120, check=False)
    return json.loads(done.stdout)["tables"]


def look_at_tensors(tables, memory, lbfgs):
    """(what is wrong with the walk, in words; whether it was ended early)"""
    if [walk["why"] for walk in tables["walks"]] != [""]:
        return [f"walks {tables['walks']}"], False
    early = bool(tables["walks"][0]["flags"] & (TIME_UP | MEMORY_UP))
    on_device = [row for row in tables["tensors"] if row["device_plus_one"]]
    # the average of a model has parameters too; the name of a model's root is its class
    parameters = {row["name"].split(".", 1)[1]: row["bytes"] for row in on_device
                  if row["found"] == PARAMETER and not row["name"].startswith("AveragedModel")}
    state = sum(row["found"] == OPTIMIZER for row in on_device)
    wrong, expected = [], memory["parameters"]
    if not parameters.items() <= expected.items() or not early and len(parameters) != len(expected):
        wrong.append(f"parameters {parameters}, expected {expected}")
    if not tables["walks"][0]["flags"] & GRADIENTS or not on_device:
        wrong.append(f"gradients were not read, or no tensor: {tables['walks']}")
    if not early and not lbfgs and state != memory["state"]:  # L-BFGS's grow with its history
        wrong.append(f"{state} tensors of the optimizer's, expected {memory['state']}")
    return wrong, early


def look_at(binaries, paths, memory, lbfgs):
    """(what is wrong with the snapshots of a run, in words; how many walks were ended early)"""
    steps, wrong, early = [], [], 0  # the first third step has a step before it: all are before a backward pass
    for path in paths:
        tensors, cut = look_at_tensors(tables_of(binaries, path), memory, lbfgs)
        wrong += [f"{path.name}: {line}" for line in tensors]
        early += cut
        status, info = info_of(binaries, path)
        steps.append(info["file"]["step"])
        if info["file"]["moment"] != MOMENT:
            wrong.append(f"{path.name}: {info['file']['moment']}")
        shown = [device.get("torch") for device in info["devices"]]
        if status or not any(numbers and numbers["allocated"] for numbers in shown):
            wrong.append(f"{path.name}: info ends with {status}, of PyTorch {shown}, "
                         f"{info['evidence']['items']}")
    expected = list(range(EVERY, STEPS + 1, EVERY))
    if sorted(steps) != expected:
        wrong.append(f"snapshots of steps {sorted(steps)}, expected {expected}")
    return wrong, early


def one(binaries, seed):
    """(what differs for a seed, in words; how many walks were ended early)"""
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
        memory = re.search(rb"^in memory (.*)", bare["stdout"], re.MULTILINE)
        if b"devices cpu cuda\n" not in bare["stdout"] or not memory:
            return wrong + [f"the script had no device, or not all its steps: {bare}"], 0
        about, early = look_at(binaries, (folder / "out").glob("*.vramcore"), json.loads(memory[1]),
                               b"'optimizer': 'lbfgs'" in bare["stdout"])
        return wrong + about, early
    finally:
        shutil.rmtree(folder)


def main():
    full = os.environ.get("VRAMCORE_FULL") == "1"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=200 if full else 5)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=24 * 60)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    binaries, end = options.binaries.resolve(), time.monotonic() + 60 * options.minutes
    done, failed, early = 0, 0, 0

    def work(seed):
        return one(binaries, seed) if time.monotonic() < end else None

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        seeds = range(options.first, options.first + options.seeds)
        for seed, found in zip(seeds, pool.map(work, seeds)):
            if isinstance(found, dict):
                print(found["stdout"].decode() + found["stderr"].decode())
                return 77
            wrong, cut = found or ((), 0)
            done, failed, early = done + (found is not None), failed + bool(wrong), early + cut
            for line in wrong:
                print(f"seed {seed}: {line}", flush=True)
            if options.verbose and found:
                print(f"seed {seed}: {'differs' if wrong else 'the same'}, {cut} walks ended early", flush=True)
    print(f"{done} seeds, {failed} differ; of {done * (STEPS // EVERY)} walks over tensors {early} ended early")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
