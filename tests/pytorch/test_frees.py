#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who allocated and who freed a block of PyTorch that is used after its end: `where`, with --free-stacks.

usage: test_frees.py BIN     77: no PyTorch to be had
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE / "frees.py"


def line_of(mark):
    line, = [n for n, text in enumerate(SCRIPT.read_text().splitlines(), 1) if text.endswith("# frees: " + mark)]
    return line


def freed(binaries, *options):
    """The freed block at the address: lines of the script in its stack and in that of its free."""
    with tempfile.TemporaryDirectory(prefix="vramcore-frees-") as folder:
        done = subprocess.run([HERE.parent / "simtorch" / "run", "--bin", binaries, binaries / "vramcore", "run", "--quiet",
                               "--out", folder + "/out", "--at-exit", *options, "--", "python", SCRIPT],
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == 77:
            sys.exit(77)
        assert done.returncode == 0, done.returncode
        path, = pathlib.Path(folder, "out").glob("*.exit.vramcore")
        said = subprocess.run([binaries / "vramcore", "where", "--json", path, hex(int(done.stdout, 16) + 1000)],
                              stdout=subprocess.PIPE, text=True, check=True)
    block, = [row for row in json.loads(said.stdout)["freed"] if row["kind"] == "block"]
    return [[(frame["function"], frame["line"]) for frame in block[key] if frame["file"] == str(SCRIPT)]
            for key in ("stack", "death_stack")]


def main():
    binaries = pathlib.Path(sys.argv[1]).resolve()
    taken, let_go = freed(binaries, "--free-stacks")
    assert taken[0] == ("take", line_of("taken")), taken
    assert let_go[0] == ("let_go", line_of("let go")), let_go
    taken, let_go = freed(binaries)
    assert taken[0] == ("take", line_of("taken")) and not let_go, (taken, let_go)
    print("who took it and who let it go, as they are")


if __name__ == "__main__":
    sys.exit(main())
