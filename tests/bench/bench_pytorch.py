#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What recording costs a PyTorch program, beside PyTorch's own history, in one run.

usage: bench_pytorch.py BINARY_FOLDER [--steps N] [--rounds N]
Each round runs every way once, in turns, so that a machine that gets slower slows all of them; the table shows
medians, by processor time of the training process. A snapshot comes with its walk over tensors and holders. Needs the real wheel (tests/simtorch/run); exit 77 without it.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RUN = HERE.parent / "simtorch" / "run"
WAYS = ("bare", "history python", "history all", "recorded", "with snapshots", "one each 100 steps")
MODELS = ("transformer", "resnet")


def prefix(way, vramcore, out, steps):
    if way == "recorded":
        return [vramcore, "run", "--quiet", "--out", out, "--"]
    if way in ("with snapshots", "one each 100 steps"):
        every = 100 if way == "one each 100 steps" else max(steps // 3, 1)
        return [vramcore, "run", "--quiet", "--out", out, "--every", "%dsteps" % every, "--"]
    return []


def once(options, model, way, folder):
    out, dump = folder / "out", folder / "torch.pickle"
    shutil.rmtree(out, ignore_errors=True)
    command = [RUN, *prefix(way, options.vramcore, out, options.steps), "python", HERE / "pytorch_steps.py", "--model",
               model, "--steps", str(options.steps)]
    if way.startswith("history"):
        command += ["--history", way.split()[1], "--dump", dump]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode == 77:
        sys.stderr.write(done.stderr)
        sys.exit(77)
    if done.returncode:
        sys.exit("%s: %s\n%s" % (way, done.returncode, done.stderr))
    found = json.loads(done.stdout.splitlines()[-1])
    files = [path.stat().st_size for path in out.glob("*.vramcore")] if out.exists() else []
    found["file"] = dump.stat().st_size if dump.exists() else files[-1] if files else 0
    found["snapshots"] = len(files)
    dump.unlink(missing_ok=True)
    return found


def pause(runs):
    """What a snapshot adds to its step, of the training thread's processor time: the middle of all."""
    added = [(longest - statistics.median(run["each"])) * 1e3 for run in runs
             for longest in run["each"][:run["snapshots"]]]
    return "%.0f" % statistics.median(added) if added else ""


def table(results, model, ways):
    print("\n%s: %d blocks a step" % (model, results[model, "bare"][0]["blocks"] / results[model, "bare"][0]["steps"]))
    print("| way | steps/s | lost | ns a block | file, bytes | pause, ms |\n|---|--:|--:|--:|--:|--:|")
    bare = statistics.median(r["processor"] / r["steps"] for r in results[model, "bare"])
    for way in ways:
        runs = results[model, way]
        step = statistics.median(r["processor"] / r["steps"] for r in runs)
        blocks = runs[0]["blocks"] / runs[0]["steps"]
        print("| %s | %.1f | %.1f %% | %.0f | %s | %s |" % (
            way, 1 / step, 100 * (1 - bare / step), (step - bare) * 1e9 / blocks,
            "{:,}".format(runs[-1]["file"]) if runs[-1]["file"] else "", pause(runs)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", default=",".join(WAYS))
    options = parser.parse_args()
    options.vramcore = options.binaries.resolve() / "vramcore"
    ways = options.ways.split(",")
    results = {}
    with tempfile.TemporaryDirectory(prefix="vramcore-bench-") as folder:
        for _ in range(options.rounds):
            for model in MODELS:
                for way in ways:
                    results.setdefault((model, way), []).append(once(options, model, way, pathlib.Path(folder)))
    for model in MODELS:
        table(results, model, ways)


if __name__ == "__main__":
    main()
