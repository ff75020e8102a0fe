#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""At least 99 % of what a transformer and a ResNet-50 save for backward has the path of its module.

usage: test_modules.py BIN     77: no PyTorch to be had

VRAMCORE_FULL=1: compiled too, by torch.compile with the backends that need no Triton. There are no modules inside of
compiled code: the path is that of the module that was compiled.
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
BACKENDS = ("eager", "aot_eager") if os.environ.get("VRAMCORE_FULL") else ()
# Some that must be there, of the first layer and of the last.
EXPECTED = {"transformer": ["model.layers.0.act", "model.layers.3.up"],
            "resnet50": ["stem.0", "blocks.0.conv1", "blocks.15.conv3"]}
COMPILED = {"transformer": "Transformer", "resnet50": "ResNet50"}


def activations(binaries, folder):
    path, = folder.glob("*.step3.step.vramcore")
    done = subprocess.run([binaries / "vramcore", "top", "--json", "--no-fold", "-n", "0", "--role", "activation",
                           "--by", "module", path], stdout=subprocess.PIPE, text=True, check=True)
    return {row["module"]: row["bytes"] for device in json.loads(done.stdout)["devices"] for row in device["rows"]}


def check(binaries, model, *backend):
    with tempfile.TemporaryDirectory(prefix="vramcore-modules-") as folder:
        out = pathlib.Path(folder) / "out"
        done = subprocess.run([HERE.parent / "simtorch" / "run", "--bin", binaries, binaries / "vramcore", "run", "--quiet",
                               "--out", out, "--at-step", "3", "--when", "before-backward", "--", "python",
                               HERE / "modules.py", model, *backend], check=False)
        if done.returncode == 77:
            return None
        assert done.returncode == 0, done.returncode
        found = activations(binaries, out)
    total, named = sum(found.values()), sum(size for module, size in found.items() if module and module != "(no module)")
    print("%s: %d bytes saved, %.2f %% with a path, %d modules" % (
        " ".join([model, *backend]), total, 100 * named / total, len(found)))
    if backend:  # a loss that is not compiled has its own
        return found.get(COMPILED[model], 0) + found.get("CrossEntropyLoss", 0) >= LEAST * total
    missing = [name for name in EXPECTED[model] if not any(module and module.endswith(name) for module in found)]
    if missing:
        print("not there:", missing, "of", sorted(found, key=str)[:10])
    return named >= LEAST * total and not missing


def main():
    if re.match(r"2\.[0-2]\.", os.environ.get("SIMTORCH_VERSION", "")):
        print("SKIPPED: PyTorch 2.2 has no function that every backward pass goes through")
        return 77
    binaries = pathlib.Path(sys.argv[1]).resolve()
    results = [check(binaries, model, *backend) for model in EXPECTED for backend in [()] + [(b,) for b in BACKENDS]]
    if None in results:
        return 77
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
