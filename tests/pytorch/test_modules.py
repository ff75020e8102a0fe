#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""At least 99 % of what a transformer and a ResNet-50 save for backward has the path of its module.

usage: test_modules.py BIN     77: no PyTorch to be had
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LEAST = 0.99
# Some that must be there, of the first layer and of the last.
EXPECTED = {"transformer": ["model.layers.0.act", "model.layers.3.up"],
            "resnet50": ["stem.0", "blocks.0.conv1", "blocks.15.conv3"]}


def activations(binaries, folder):
    path, = folder.glob("*.step3.step.vramcore")
    done = subprocess.run([binaries / "vramcore", "top", "--json", "--no-symbols", "--no-fold", "-n", "0", "--role", "activation",
                           "--by", "module", path], stdout=subprocess.PIPE, text=True, check=True)
    return {row["module"]: row["bytes"] for device in json.loads(done.stdout)["devices"] for row in device["rows"]}


def check(binaries, model):
    with tempfile.TemporaryDirectory(prefix="vramcore-modules-") as folder:
        out = pathlib.Path(folder) / "out"
        done = subprocess.run([HERE.parent / "simtorch" / "run", "--bin", binaries, binaries / "vramcore", "run", "--quiet",
                               "--out", out, "--at-step", "3", "--when", "before-backward", "--", "python",
                               HERE / "modules.py", model], check=False)
        if done.returncode == 77:
            return None
        assert done.returncode == 0, done.returncode
        found = activations(binaries, out)
    total, named = sum(found.values()), sum(size for module, size in found.items() if module and module != "(no module)")
    print("%s: %d bytes saved, %.2f %% with a path, %d modules" % (model, total, 100 * named / total, len(found)))
    missing = [name for name in EXPECTED[model] if not any(module and module.endswith(name) for module in found)]
    if missing:
        print("not there:", missing, "of", sorted(found, key=str)[:10])
    return named >= LEAST * total and not missing


def main():
    if re.match(r"2\.[0-2]\.", os.environ.get("SIMTORCH_VERSION", "")):
        print("SKIPPED: PyTorch 2.2 has no function that every backward pass goes through")
        return 77
    results = [check(pathlib.Path(sys.argv[1]).resolve(), model) for model in EXPECTED]
    if None in results:
        return 77
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
