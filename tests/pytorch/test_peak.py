#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Snapshots with --when peak against PyTorch's statistics and a replay of its own history of events.

usage: test_peak.py BIN [forward|backward|devices|accumulate ...]     77: no PyTorch to be had
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = 512  # the gradient that a backward pass begins with, made before it: a variable holds it
# All of them where VRAMCORE_FULL=1.
KINDS = ("devices", "accumulate", "forward", "backward")


def run(binaries, *arguments, status=0):
    done = subprocess.run([binaries / "vramcore", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stdout[-500:], done.stderr)
    return done.stdout


def tables(binaries, path):
    return json.loads(run(binaries, "export", "--to", "json", path))["tables"]


def check_step(binaries, kind, path, truth):
    device = truth["device"]
    rows = [row for row in tables(binaries, path)["allocations"]
            if row["kind"] == "block" and row["device_plus_one"] == device + 1]
    blocks = sorted((int(row["address"], 16), row["size"]) for row in rows)
    assert sum(size for _, size in blocks) == truth["highest"], (path, sum(s for _, s in blocks), truth["highest"])
    # its trace has sizes as they were asked for
    assert [address for address, _ in blocks] == [address for address, _ in truth["blocks"]], path
    assert all(size >= asked for (_, size), (_, asked) in zip(blocks, truth["blocks"]))
    assert truth["before"] == (kind == "forward"), truth["before"]

    info = json.loads(run(binaries, "info", "--json", path))
    assert info["file"]["moment"] == "peak" and info["file"]["peak_device"] == device, info["file"]
    for entry in info["devices"]:
        ordinal = entry["device"]["ordinal"]
        assert entry["device"]["step_peak"] == truth["others"][str(ordinal)], entry["device"]
    heading = run(binaries, "top", "-n", "1", path).splitlines()[0]
    assert heading.startswith(f"step {truth['step']}, peak" + (" of GPU 1   GPU 1" if kind == "devices" else "   GPU 0")), heading
    assert run(binaries, "top", "--at", "peak", path) == run(binaries, "top", path)


def roles(binaries, path, device):
    """Bytes by role, of those that are exact and of the others."""
    top = json.loads(run(binaries, "top", "--json", "--by", "role", "-n", "0", path))
    rows = next(d["rows"] for d in top["devices"] if d["device"]["ordinal"] == device)
    return ({row["role"]: row["bytes"] - row["inferred_bytes"] for row in rows if row["role"] != "unknown"},
            {row["role"]: row["bytes"] if row["role"] == "unknown" else row["inferred_bytes"] for row in rows})


def check_roles(binaries, path, truth):
    """What lived both at the peak and before the backward pass is known exactly, all else is not."""
    size_of = {int(row["address"], 16): row["size"] for row in tables(binaries, path)["allocations"] if row["kind"] == "block"}
    exact, other = roles(binaries, path, truth["device"])
    both = set(truth["both"])
    for role, name in (("parameter", "parameters"), ("optimizer", "state"), ("gradient", "gradients")):
        expected = sum(size_of[address] for address in truth[name] if address in both & set(truth["to_end"]))
        assert exact.get(role, 0) == expected, (role, exact, expected)
    known = sum(size_of[address] for address in both)
    # a workspace of a library has no tensor, an input is inferred: both may have lived at both
    assert known - other.get("workspace", 0) - other.get("input", 0) <= sum(exact.values()) <= known, (known, exact, other)
    # the helper starts with the first block: its first look may come after the first backward pass
    if truth["step"] == 1 and "activation" not in exact:
        return
    assert exact["activation"] > 0, exact
    # the rest was made in the backward pass, or is the temporary of the forward pass, of which nothing is known
    rest = sum(size for address, size in size_of.items() if address not in both and address in dict(truth["blocks"]))
    if truth["before"]:
        assert other["unknown"] == rest and not other.get("gradient"), (rest, other)
    else:
        rest -= ROOT
        assert other["gradient"] in (rest, rest - other.get("workspace", 0)), (rest, other)
        assert not other.get("unknown"), other


def check(binaries, kind):
    with tempfile.TemporaryDirectory(prefix="vramcore-peak-") as folder:
        folder = pathlib.Path(folder)
        done = subprocess.run([HERE.parent / "simtorch" / "run", "--bin", binaries, "env", "SIMCUDA_DEVICES=2",
                               binaries / "vramcore", "run", "--quiet", "--out", folder / "out", "--every", "1steps",
                               "--when", "peak", "--", "python", HERE / "peak.py", kind, folder / "truth"], check=False)
        if done.returncode == 77:
            return 77
        assert done.returncode == 0, done.returncode
        truths = [json.loads(line) for line in (folder / "truth").read_text().splitlines()]
        assert len(list((folder / "out").iterdir())) == len(truths) == 5, list((folder / "out").iterdir())
        for truth in truths:
            path, = (folder / "out").glob(f"*.step{truth['step']}.every.vramcore")
            check_step(binaries, kind, path, truth)
            if truth["watched"]:  # older PyTorch: tensors are looked at after the step
                check_roles(binaries, path, truth)
            print(f"{kind}: step {truth['step']}: {truth['highest']} bytes in {len(truth['blocks'])} blocks, "
                  f"{len(truth['both'])} known before the backward pass")
    return 0


def main():
    binaries = pathlib.Path(sys.argv[1]).resolve()
    for kind in sys.argv[2:] or KINDS[:None if os.environ.get("VRAMCORE_FULL") else 1]:
        if check(binaries, kind) == 77:
            return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
