#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A write past the end of a tensor's memory: `where` names the tensor, and whose the memory behind it was.

usage: test_tensor.py BINARY_FOLDER, in an environment with PyTorch (tests/simtorch/run)
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

VRAMCORE = pathlib.Path(sys.argv[1]).resolve() / "vramcore"
PROGRAM = pathlib.Path(__file__).resolve().parent / "overrun.py"


def line_of(name):
    return next(number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
                if f"# line: {name}" in line)


def main():
    """The walk over tensors may come too late for one moment of one run: not for all of them."""
    for _ in range(6):
        if run_once():
            return
    raise AssertionError("no run knew its tensors")


def run_once():
    with tempfile.TemporaryDirectory(prefix="vramcore-tensor-") as folder:
        environment = os.environ | {"XDG_CACHE_HOME": folder, "VRAMCORE_DIR": folder}
        done = subprocess.run([VRAMCORE, "run", "--at-step", "3", "--when", "after-step", "--out", f"{folder}/out", "--", sys.executable,
                               PROGRAM], env=environment, text=True, capture_output=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        snapshot, = pathlib.Path(folder, "out").glob("*.step3.*")
        end = int(done.stdout.split()[1], 16)
        out = subprocess.run([VRAMCORE, "where", "--json", snapshot, hex(end + 0x500)], env=environment, text=True,
                             capture_output=True, timeout=60, check=False)
        assert out.returncode == 0, out.stderr
        report = json.loads(out.stdout)
        assert report["hole"], [(h["address"], h["size"]) for h in report["holders"]]
        before = report["before"]
        assert before["gap"] == 0x500, before["gap"]
        tensor = before["allocation"]["tensor"]
        if not tensor:
            return False
        assert (tensor["name"], tensor["shape"], tensor["role"]) == ("Sequential.0.history", "[1024]", "buffer"), tensor
        assert any(frame["file"] and frame["file"].endswith("overrun.py") and frame["line"] == line_of("history")
                   for frame in before["allocation"]["stack"]), "the line of the buffer"
        was = report["freed"][0]
        assert was["size"] == 65536 * 4, was["size"]
        assert (was["step"], was["death_step"]) == (0, 2), was["death_step"]
        assert any(frame["file"] and frame["file"].endswith("overrun.py") and frame["line"] == line_of("spacer")
                   for frame in was["stack"]), "the line of what was behind it"
        text = subprocess.run([VRAMCORE, "where", snapshot, hex(end + 0x500)], env=environment, text=True,
                              capture_output=True, timeout=60, check=True).stdout
        assert "is 1,280 bytes past the end of block" in text and "0.history (buffer" in text, text
        print(text)
        return True


main()
