#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_scenarios.py [OPTIONS] [NAME ...]: each scenario in a process of its own, one line each.

Other tests import run(). Exit status: 0 all well, 1 one or more failed, 77 (said loudly) when the
environment cannot be had.
"""
import argparse
import collections
import concurrent.futures
import os
import shlex
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import scenarios  # noqa: E402,F401: fills the list
from registry import SCENARIOS  # noqa: E402

Result = collections.namedtuple("Result", "name status seconds output error")


def run(name, binaries=None, torch=None, under=(), environment=None, timeout=600):
    """Runs one scenario; under: a command to put in front, as ["vramcore", "run", "--"]."""
    scenario = SCENARIOS[name]
    variables = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", SIMCUDA_DEVICES=str(scenario.devices),
                     **scenario.environment)
    variables.update(environment or {})
    command = [os.path.join(HERE, "run")]
    command += ["--bin", binaries] if binaries else []
    command += ["--torch", torch] if torch else []
    command += ["--compile"] if scenario.compiled else []
    command += ["--", *under, "python", os.path.join(HERE, "scenarios.py"), name]
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True,
                              timeout=timeout, check=False)
        status, output, error = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as late:
        status, output = 124, (late.stdout or b"").decode(errors="replace")
        error = (late.stderr or b"").decode(errors="replace")
    return Result(name, status, time.monotonic() - start, output, error)


def report(result):
    verdict = {0: "ok", 77: "SKIPPED"}.get(result.status, f"FAILED ({result.status})")
    print(f"{result.name:26s} {result.seconds:7.1f} s  {verdict}", flush=True)
    if result.status:
        for line in (result.output + result.error).strip().splitlines()[-8:]:
            print(f"    {line}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", help="the build's bin folder")
    parser.add_argument("--torch", help="version of PyTorch")
    parser.add_argument("--under", default="", help="a command to run each under")
    parser.add_argument("--quick", action="store_true", help="a selection for every day")
    parser.add_argument("--no-compile", action="store_true", help="without those that need Triton")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--list", action="store_true", help="names only")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    names = options.names or [name for name, scenario in SCENARIOS.items()
                              if (scenario.quick or not options.quick) and
                              not (scenario.compiled and options.no_compile)]
    if options.list:
        print("\n".join(names))
        return 0
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        parser.error(f"no scenario {unknown[0]}")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = []
        for result in pool.map(lambda name: run(name, options.bin, options.torch,
                                                shlex.split(options.under)), names):
            report(result)
            results.append(result)
    statuses = [result.status for result in results]
    failed = sum(status not in (0, 77) for status in statuses)
    print(f"{len(names)} scenarios, {failed} failed, {statuses.count(77)} skipped")
    if failed:
        return 1
    return 77 if 77 in statuses else 0


if __name__ == "__main__":
    sys.exit(main())
