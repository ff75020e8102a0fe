# SPDX-License-Identifier: Apache-2.0
"""What grows without a leak, under `vramcore run`: `diff` of two steps must show it as something that came
once or stopped, and must not say when the device is full.

usage: test_no_leak.py VRAMCORE
All cases of no_leak.py in one run; with VRAMCORE_FULL=1 each by itself as well, and at both moments of a
step."""
import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "no_leak.py")
# case: a function on the stack of what grew, and by how many bytes at least
ADAM = 2 * 4 * (64 * 96 + 96 + 96 * 10 + 10)  # two moments of each element of small()
SEEN = {"workspace": ("workspace", 8519680), "cache": (None, 0), "lazy_state": ("lazy_state", ADAM),
        "autotune": ("autotune", 600000 * 4), "convolution": (None, 0),
        "first_backward": (None, ADAM // 2), "epochs": (None, 0)}
# a release of PyTorch may leave the workspace to cuBLAS but for this; the size is that of most devices
ENVIRONMENT = dict(os.environ, TORCH_CUBLAS_WORKSPACE_CACHE="1", CUBLAS_WORKSPACE_CONFIG=":4096:2:16:8")
failures = 0


def fail(*words):
    global failures
    failures += 1
    print("FAIL", *words, flush=True)


def compare(vramcore, cases, moment):
    with tempfile.TemporaryDirectory(prefix="vramcore-no-leak-") as folder:
        subprocess.run([vramcore, "run", "--quiet", "--at-step", "5,14", "--when", moment, "--", sys.executable,
                        "-W", "ignore", PROGRAM, "16", *cases], cwd=folder, check=True, env=ENVIRONMENT)
        files = sorted(glob.glob(os.path.join(folder, "*", "*.vramcore")), key=os.path.getmtime)
        if len(files) != 2:
            sys.exit("FAIL: %d snapshots" % len(files))
        return json.loads(subprocess.run([vramcore, "diff", "--json", "-n", "0", *files], check=False,
                                         stdout=subprocess.PIPE).stdout)


def check(what, report, cases):
    rows = [row for device in report["devices"] for row in device["rows"] if row["growth"] > 0]
    for row in rows:
        if row["shape"] not in ("once", "stopped"):
            fail(what, "taken for a leak:", row["shape"], row["growth"], row["site"], row.get("held_by"))
    for device in report["devices"]:
        if device.get("full_in_steps") is not None:
            fail(what, "full in", device["full_in_steps"], "steps")
    for case in cases:
        function, least = SEEN[case]
        of_it = [row for row in rows if function is None or
                 any((frame.get("function") or "").startswith(function) for frame in row["stack"])]
        grew = sum(row["growth"] for row in of_it)
        if grew < least or (case == "workspace" and grew != least):
            fail(what, case, "grew by", grew, "not", least)
    print("ok" if not failures else "..", what, "|", len(rows), "sites grew by",
          sum(row["growth"] for row in rows), flush=True)


def main():
    full = os.environ.get("VRAMCORE_FULL")
    runs = [list(SEEN)] + ([[case] for case in SEEN] if full else [])
    for cases in runs:
        for moment in ("after-step", "before-backward") if full else ("after-step",):
            check("%s, %s" % ("all" if len(cases) > 1 else cases[0], moment),
                  compare(sys.argv[1], cases, moment), cases)
    return failures != 0


sys.exit(main())
