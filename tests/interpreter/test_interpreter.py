#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The helper in the interpreter: every way a program starts, the steps it counts, its deadlines, and
that the program sees nothing of it.

usage: test_interpreter.py BIN [NAME ...]
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.path.join(HERE, "..", "simtorch", "run")
PROGRAM = os.path.join(HERE, "program.py")
binaries = os.path.abspath(sys.argv[1])
vramcore = os.path.join(binaries, "vramcore")
names = sys.argv[2:]
failures = 0


def check(what, found, expected):
    global failures
    if found != expected:
        print(f"{what}: {found!r}, not {expected!r}", flush=True)
        failures += 1


def run(arguments, under=()):
    variables = dict(os.environ, SIMCUDA_DEVICES="2", PYTHONDONTWRITEBYTECODE="1",
                     PYTHONPATH=HERE, OMP_NUM_THREADS="1")
    done = subprocess.run([RUN, "--bin", binaries, "--", *under, "python", *arguments], env=variables,
                          capture_output=True, text=True, check=False, cwd=HERE, timeout=600)
    if done.returncode == 77:
        print(done.stdout + done.stderr)
        sys.exit(77)
    return done


def record(arguments, *options):
    """Snapshots as tables by name, and the finished program."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(arguments, [vramcore, "run", "--out", folder, *options, "--"])
        found = []
        for path in sorted(glob.glob(os.path.join(folder, "*.vramcore"))):
            exported = subprocess.run([vramcore, "export", path, "--to", "json"],
                                      stdout=subprocess.PIPE, check=False)
            found.append(json.loads(exported.stdout)["tables"])
    return found, done


def framework(tables):
    return {row["key"]: row["value"] for row in tables["framework"]}


def evidence(tables):
    return {row["key"]: row["value"] for row in tables["evidence"]}


def blocks(tables):
    return [row for row in tables["allocations"] if row["kind"] == "block"]


# name: arguments of python, processes that use the device
STARTS = {
    "script": ([PROGRAM], 1),
    "module": (["-m", "program"], 1),
    "command": (["-c", "import program; program.train()"], 1),
    "isolated": (["-I", PROGRAM], 1),
    "thread": ([PROGRAM, "thread"], 1),
    "spawn": ([PROGRAM, "spawn"], 1),
    "fork": ([PROGRAM, "fork"], 1),
    "forkserver": ([PROGRAM, "forkserver"], 1),
    "loader": ([PROGRAM, "loader"], 1),
    "ranks": (["-m", "torch.distributed.run", "--nproc-per-node", "2", PROGRAM], 2),
}
# name: steps that are counted, and by whom
STEPS = {"accumulate": (4, "optimizer"), "closure": (3, "optimizer"), "two": (6, "optimizer"),
         "scheduler": (4, "optimizer"), "raises": (3, "optimizer"), "program": (102, "program"),
         "inference": (0, "none")}


def start(name):
    arguments, processes = STARTS[name]
    found, done = record(arguments, "--at-step", "3")
    check(f"{name}: exit status", done.returncode, 0)
    check(f"{name}: snapshots", len(found), processes)
    for tables in found:
        facts = framework(tables)
        check(f"{name}: helper", facts.get("interpreter"), "runs")
        check(f"{name}: counter", facts.get("step counter"), "optimizer")
        check(f"{name}: list of segments", facts.get("segments"), "listed")
        check(f"{name}: step", tables["process"][0]["step"], 3)
        check(f"{name}: moment", tables["process"][0]["moment"], "before-backward")
        judge(name, tables, facts)
        check(f"{name}: tensors", len(tables["tensors"]) > 0, True)
        check(f"{name}: modules", "Sequential.2" in [row["path"] for row in tables["model_modules"]],
              True)


def judge(name, tables, facts):
    """PyTorch's own totals and list are the judge of what was recorded."""
    live = blocks(tables)
    by_device = {}
    for row in live:
        by_device[row["device_plus_one"] - 1] = by_device.get(row["device_plus_one"] - 1, 0) + row["size"]
    for device, held in by_device.items():
        check(f"{name}: memory_allocated of {device}", str(held),
              facts.get(f"memory_allocated.{device}"))
    listed = {(row["address"], row["size"], row["requested"]) for row in tables["blocks"]
              if row["state"] == "active_allocated"}
    check(f"{name}: blocks", {(row["address"], row["size"], row["requested"]) for row in live}, listed)
    check(f"{name}: blocks without segment", [row for row in live if not row["segment"]], [])
    check(f"{name}: states", {row["block_state"] for row in live}, {"active_allocated"})
    models = {row["module"] for row in live}
    check(f"{name}: modules of blocks", models <= {"", "Sequential", "Sequential.0", "Sequential.1",
                                                   "Sequential.2"}, True)


def visible():
    bare = run([PROGRAM])
    _, recorded = record([PROGRAM], "--at-step", "1,2,3", "--quiet")
    check("visible: output", recorded.stdout, bare.stdout)
    check("visible: errors", recorded.stderr, bare.stderr)
    check("visible: what it sees", json.loads(recorded.stdout),
          {"modules": [], "path": True, "globals": [], "threads": ["MainThread"], "warnings": [],
           "error": True})


def steps(name):
    expected, counter = STEPS[name]
    found, done = record([PROGRAM, name], "--at-exit")
    check(f"{name}: exit status", done.returncode, 0)
    check(f"{name}: snapshots", len(found), 1)
    for tables in found:
        check(f"{name}: steps", tables["process"][0]["step"], expected)
        check(f"{name}: counter", framework(tables).get("step counter"), counter)


def busy():
    found, done = record([PROGRAM, "busy"], "--every", "1s")
    check("busy: exit status", done.returncode, 0)
    check("busy: snapshots", len(found) >= 2, True)
    check("busy: with the interpreter",
          [framework(tables).get("segments") for tables in found if blocks(tables)],
          ["listed"] * sum(1 for tables in found if blocks(tables)))


def held():
    """The moment comes all the same, and says what it lacks."""
    found, done = record([PROGRAM, "held"], "--every", "1s")
    check("held: exit status", done.returncode, 0)
    missed = [evidence(tables).get("interpreter_missed") for tables in found]
    check("held: said", any(missed), True)
    # totals of counters are those of the time of reading: a later moment says it too
    check("held: its blocks", any(len(blocks(tables)) == 4 and not tables["walks"] for tables in found
                                  if evidence(tables).get("interpreter_missed")), True)


def daemon():
    found, done = record([PROGRAM, "daemon"], "--at-step", "2", "--every", "1s", "--at-exit")
    # an operation that the end of the interpreter cuts off aborts the program, recorded or not: by chance
    check("daemon: exit status", done.returncode in (0, -6) and
          run([PROGRAM, "daemon"]).returncode in (0, -6), True)
    check("daemon: snapshots", len(found) > 0, True)


def main():
    cases = [(name, start) for name in STARTS] + [(name, steps) for name in STEPS]
    cases += [(name, None) for name in ("visible", "busy", "held", "daemon")]
    for name, case in cases:
        if names and name not in names:
            continue
        if case:
            case(name)
        else:
            globals()[name]()
    print(f"{failures} differences")
    return 1 if failures else 0


sys.exit(main())
