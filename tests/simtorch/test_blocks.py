#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scenarios under the recorder, held against PyTorch's own snapshots at their moments (judge.py).

usage: test_blocks.py BIN [--all | NAME ...]      without either: a selection for every day
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import run_scenarios  # noqa: E402

QUICK = ["transformer", "expandable_segments", "graph", "memory_pool", "two_devices", "out_of_memory",
         "without_cache"]

# PyTorch records no history there, or the scenario records one of its own.
NO_FRAMES = ["without_cache", "memory_history", "pluggable_allocator"]

# Their ranks are processes of their own, which come to no moment: only that they end well is seen.
# One has freed everything by the time of its moment.
NO_MOMENT = ["ddp_gloo_two_ranks", "ddp_nccl_two_ranks", "reused_memory"]


def main():
    binaries, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or QUICK
    vramcore = os.path.join(binaries, "vramcore")
    names = list(run_scenarios.SCENARIOS) if names == ["--all"] else names
    failed = skipped = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/judged")
            result = run_scenarios.run(
                name, binaries=binaries,
                under=[vramcore, "run", "--max-files", "1000", "--out", f"{folder}/out", "--"],
                environment={"SIMTORCH_AT": os.path.join(HERE, "judge.py"),
                             "JUDGE_FOLDER": f"{folder}/judged",
                             **({"JUDGE_FRAMES": "1"} if name not in NO_FRAMES else {})})
            if result.status == 77:
                print(result.output, flush=True)
                skipped += 1
                continue
            judged = subprocess.run([sys.executable, os.path.join(HERE, "judge.py"), vramcore,
                                     f"{folder}/judged", f"{folder}/out"],
                                    capture_output=True, text=True, check=False)
        wrong = result.status != 0 or (judged.returncode != 0 and name not in NO_MOMENT)
        failed += wrong
        print(f"{name}: {'FAILED' if wrong else 'ok'}, ended with {result.status}, "
              f"{(judged.stdout + judged.stderr).strip()}", flush=True)
        if result.status:
            print(result.error[-2000:], flush=True)
    return 77 if skipped == len(names) else failed != 0


if __name__ == "__main__":
    sys.exit(main())
