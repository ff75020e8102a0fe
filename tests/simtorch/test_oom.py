#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Out of memory in PyTorch: the programs of oom_cases.py, bare and recorded.

usage: test_oom.py BIN [NAME ...]
"""
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MIB, GIB = 1 << 20, 1 << 30
binaries = os.path.abspath(sys.argv[1])
vramcore = os.path.join(binaries, "vramcore")
failures = 0


def check(what, found, expected):
    global failures
    if found != expected:
        print(f"{what}: {found!r}, not {expected!r}")
        failures += 1


def run(name, under=(), **more):
    variables = dict(os.environ, SIMCUDA_MEMORY="8GiB", SIMCUDA_DEVICES="1",
                     PYTHONDONTWRITEBYTECODE="1", **more)
    return subprocess.run([os.path.join(HERE, "run"), "--bin", binaries, "--", *under, "python",
                           os.path.join(HERE, "oom_cases.py"), name],
                          env=variables, capture_output=True, text=True, check=False)


def ask(verb, path):
    done = subprocess.run([vramcore, verb, "--json", path], stdout=subprocess.PIPE, check=False)
    check(f"{verb} {path}", done.returncode, 0)
    return json.loads(done.stdout)


def traceback_of(text):
    """Without the recorder's own last line, and numbers that differ from run to run."""
    return [line for line in text.splitlines()
            if not line.startswith("vramcore: ") and "process" not in line]


def snapshots(folder):
    """(number, path) of each, oldest first."""
    found = []
    for path in glob.glob(os.path.join(folder, "*.oom*.vramcore")):
        found.append((ask("info", path)["file"]["number"], path))
    return [path for _, path in sorted(found)]


# name: snapshots, and of the last one: why, asked for, outcome; expected ledger of torch's blocks
CASES = {
    "fragmented": (1, "fragmented", 4 * GIB, 80 * 2 * MIB),
    "uncaught": (1, "fragmented", 4 * GIB, 80 * 2 * MIB),
    "full": (1, "full", 4 * GIB, 6 * GIB),
    "beyond": (1, None, 9 * GIB, 0),
    "limit": (1, "limit", 2 * GIB, GIB),
    "repeated": (3, "beyond", 9 * GIB, GIB),
    "released": (0, None, None, None),
}


def look(name, paths):
    count, why, requested, allocated = CASES[name]
    check(f"{name}: snapshots", len(paths), count)
    if not paths:
        return
    oom = ask("oom", paths[0])
    check(f"{name}: device", oom["failure"]["device"], 0)
    if why:
        check(f"{name}: why", oom.get("why"), why)
        check(f"{name}: asked for", oom["failure"]["requested"], requested)
        check(f"{name}: outcome", oom["failure"]["outcome"], "out of memory")
        check(f"{name}: allocated", ask("info", paths[0])["devices"][0]["torch"]["allocated"],
              allocated)
    if why == "fragmented":
        check(f"{name}: hole", oom["largest_hole"], 62 * MIB)
        check(f"{name}: free", oom["free_in_segments"], 80 * 62 * MIB)
        check(f"{name}: pins", [(pin["bytes"], pin["kept_bytes"], pin["segments"])
                                for pin in oom["pinned_by"]], [(160 * MIB, 80 * 62 * MIB, 80)])
        check(f"{name}: advice", [(row["key"], row["bytes"], row["enough"])
                                  for row in oom["would_help"]],
              [("free_blocks", 80 * 64 * MIB, True),
               ("expandable_segments", 80 * 62 * MIB, True)])


def main():
    for name in sys.argv[2:] or [*CASES, "finder"]:
        bare = run(name)
        if bare.returncode == 77:
            print(bare.stdout)
            return 77
        with tempfile.TemporaryDirectory() as folder:
            recorded = run(name, [vramcore, "run", "--at-exit", "--out", f"{folder}/out", "--"])
            check(f"{name}: exit status", recorded.returncode, bare.returncode)
            check(f"{name}: output", recorded.stdout, bare.stdout)
            check(f"{name}: errors", traceback_of(recorded.stderr), traceback_of(bare.stderr))
            paths = snapshots(f"{folder}/out")
            if name != "finder":
                look(name, paths)
                continue
            # a retry of the program's own; known when it succeeds, not at its first failure
            check("finder: snapshots", len(paths) <= 1, True)
            oom = ask("oom", glob.glob(f"{folder}/out/*.exit.vramcore")[0])
            check("finder: outcome", oom["failure"]["outcome"], "retried")
            check("finder: retried", (oom["failures"], oom["retried"]), (1, 1))
    print("differences:", failures)
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
