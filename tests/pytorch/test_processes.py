#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of processes.py under `vramcore run`: what they print and how they end is as without it,
only the processes that used a device are recorded, and every map agrees with PyTorch's own snapshot.

usage: test_processes.py BINARY_FOLDER [NAME ...]
Skipped where the wheel of PyTorch cannot be had.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SIMTORCH = HERE.parent / "simtorch"
PROGRAM = HERE / "processes.py"
# name: (processes that use a device, moments that are compared)
PROGRAMS = {
    "torchrun_gloo": (2, 6), "torchrun_nccl": (2, 6),
    "loader_fork": (1, 4), "loader_spawn": (1, 4), "loader_forkserver": (1, 4),
    "engine_spawn": (1, 3), "engine_forkserver": (1, 3), "engine_after_import": (1, 3),
    "freeze": (1, 6), "subinterpreters": (1, 6), "daemons": (1, 3), "late": (1, 3),
}
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}
ENVIRONMENT.update(SIMCUDA_DEVICES="2", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")


def run(binaries, *command, **variables):
    return subprocess.run([SIMTORCH / "run", "--bin", binaries, *command], env=ENVIRONMENT | variables,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)


def said(text):
    """Without what multiprocessing's tracker says where the messages of a worker that ends cross each other."""
    return re.sub(r".*resource_tracker\.py:\d+: UserWarning: .*\n  warnings\.warn\(.*\n", "", text)


def one(binaries, name, folder):
    """What is wrong with a program, in words; None: skipped."""
    processes, moments = PROGRAMS[name]
    judged, out, wrong = folder / "judged", folder / "out", []
    judged.mkdir()
    bare = run(binaries, "python", PROGRAM, name)
    if bare.returncode == 77:
        print(bare.stdout + bare.stderr)
        return None
    recorded = run(binaries, binaries / "vramcore", "run", "--out", out, "--", "python", PROGRAM, name,
                   JUDGE_FOLDER=str(judged))
    lines = recorded.stderr.splitlines(keepends=True)
    last = lines.pop() if lines else ""
    if ((bare.returncode, bare.stdout, said(bare.stderr)) !=
            (recorded.returncode, recorded.stdout, said("".join(lines)))):
        wrong.append(f"bare {bare}\n    recorded {recorded}")
    if bare.returncode:
        wrong.append(f"ends with {bare.returncode} without the recorder: {bare.stderr}")
    used = re.search(r" (\d+) of \d+ process(es)? used the device and (was|were) recorded", last)
    if not used or int(used[1]) != processes:
        wrong.append(f"{processes} processes used a device; {last!r}")
    pids = {re.search(r"\.(\d+)(\.step\d+)?\.[a-z-]+(\.\d+)?\.vramcore$", path.name)[1]
            for path in out.glob("*.vramcore")}
    if len(pids) != processes:
        wrong.append(f"{processes} processes used a device; snapshots of {pids}")
    judge = subprocess.run([sys.executable, SIMTORCH / "judge.py", binaries / "vramcore", judged, out],
                           capture_output=True, text=True, check=False)
    compared = re.search(r"^(\d+) moments compared, (\d+) blocks", judge.stdout, re.MULTILINE)
    if judge.returncode or not compared or int(compared[1]) != moments:
        wrong.append(f"{moments} moments: {judge.stdout}{judge.stderr}")
    print(name, judge.stdout.strip().splitlines()[-1:], last.strip(), flush=True)
    return wrong


def main():
    binaries, failed = pathlib.Path(sys.argv[1]).resolve(), 0
    for name in sys.argv[2:] or PROGRAMS:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="vramcore-processes-"))
        try:
            wrong = one(binaries, name, folder)
        finally:
            shutil.rmtree(folder)
        if wrong is None:
            return 77
        failed += bool(wrong)
        for line in wrong:
            print(f"FAILED {name}: {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
