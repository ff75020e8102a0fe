#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blocks of backward passes have the line of the forward pass that PyTorch itself, in anomaly mode, says.

usage: test_forward.py BIN [CASE ...]     77: no PyTorch to be had

All of them, and no others; but for nodes that a backward pass makes (create_graph), of which PyTorch knows no line:
theirs is the line of the node that ran, which is one of the script's function `twice` before its torch.autograd.grad.
"""
import collections
import json
import linecache
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = ["plain", "unrolled", "checkpoints", "twice", "function", "retained", "failing", "threads", "on_this_thread"]
MANY = 1000  # blocks of the backward passes of all cases, at least
GRADIENT, PARAMETERS = 3, 54  # as the walk says; of the transformer


def prefix(binaries, out):
    return [HERE.parent / "simtorch" / "run", "--bin", binaries, binaries / "vramcore", "run", "--quiet", "--out", out]


def tables_of(binaries, out):
    """Of the one snapshot there."""
    path, = out.glob("*.vramcore")
    done = subprocess.run([binaries / "vramcore", "export", "--to", "json", path], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["tables"]


def recorded_blocks(tables):
    """Blocks in the order of their births: address, frames of the forward pass (none: not of a backward pass)."""
    frames = [(row["file"], row["line"], row["function"]) for row in tables["source_frames"]]

    def stack_of(row):
        if not row:
            return []
        stack = tables["source_stacks"][row - 1]
        return [frames[tables["source_lists"][at]["frame"] - 1]
                for at in range(stack["first"], stack["first"] + stack["count"])]

    rows = [row for table in ("allocations", "freed") for row in tables[table] if row["kind"] == "block"]
    rows.sort(key=lambda row: row["birth"])
    result = []
    for row in rows:
        forward = tables["source_stacks"][row["python"] - 1]["forward"] if row["python"] else 0
        result.append((int(row["address"], 0), stack_of(forward)))
    return result


def compare(events, blocks):
    """How often the two agree, and what is wrong."""
    wrong, counts = [], collections.Counter()
    if [event["address"] for event in events] != [block[0] for block in blocks]:
        return counts, ["%d events of PyTorch's are not the %d blocks recorded" % (len(events), len(blocks))]
    for event, (_, forward) in zip(events, blocks):
        said = [tuple(frame) for frame in event["forward"]]
        known = [(file, line, function.split(".")[-1]) for file, line, function in forward]
        if said and known:
            counts["both"] += 1
            if said != known:
                wrong.append("PyTorch %s\n    recorded %s" % (said[:3], known[:3]))
        elif said:
            counts["only PyTorch's"] += 1
            wrong.append("not recorded: %s" % said[:3])
        elif known:
            counts["only recorded"] += 1
            if known[0][2] != "twice" or not re.search(r"tanh|sigmoid", linecache.getline(known[0][0], known[0][1])):
                wrong.append("only recorded: %s" % known[:3])
        else:
            counts["neither"] += 1
    return counts, wrong


def check_lines(binaries, cases, least):
    """None: skipped. Else whether all is right."""
    with tempfile.TemporaryDirectory(prefix="vramcore-forward-") as folder:
        out, said = pathlib.Path(folder) / "out", pathlib.Path(folder) / "said.json"
        done = subprocess.run([*prefix(binaries, out), "--at-exit", "--", "python", HERE / "forward.py", said, *cases],
                              stderr=subprocess.DEVNULL, check=False)
        if done.returncode == 77:
            return None
        assert done.returncode == 0, done.returncode
        counts, wrong = compare(json.loads(said.read_text())["events"], recorded_blocks(tables_of(binaries, out)))
    if counts["both"] < least:
        wrong.append("too few to tell")
    print(" ".join(cases), dict(counts), len(wrong), "wrong", *wrong[:5], sep="\n    ")
    return not wrong


def check_modules(binaries):
    """A gradient's block was made in the module that its parameter, found by PyTorch's names, is of."""
    with tempfile.TemporaryDirectory(prefix="vramcore-forward-") as folder:
        out, wrong, right = pathlib.Path(folder) / "out", [], 0
        subprocess.run([*prefix(binaries, out), "--at-step", "3", "--when", "after-step", "--", "python",
                        HERE / "modules.py", "transformer"], check=True)
        tables = tables_of(binaries, out)
    blocks = {row["address"]: row for row in tables["allocations"] if row["kind"] == "block"}
    for storage in tables["storages"]:
        if storage["found"] != GRADIENT:
            continue
        module, name = blocks[storage["address"]]["module"], tables["tensors"][storage["tensor"] - 1]["name"]
        right += module == name.rpartition(".")[0]
        if module != name.rpartition(".")[0]:
            wrong.append("%s of module %s" % (name, module))
    print("%d gradients in the module of their parameter, %d not" % (right, len(wrong)), *wrong[:5], sep="\n    ")
    return right >= PARAMETERS and not wrong


def main():
    binaries = pathlib.Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        return not check_lines(binaries, sys.argv[2:], 1)
    lines = check_lines(binaries, CASES, MANY)
    return 77 if lines is None else not lines & check_modules(binaries)


if __name__ == "__main__":
    sys.exit(main())
