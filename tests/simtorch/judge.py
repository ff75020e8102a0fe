#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds vramcore's snapshots against what PyTorch says of itself at the same moments.

In the program:     import judge; judge.moment("mid forward")
    takes torch's own snapshot and totals and asks the recorder for one of the same moment. The
    environment's JUDGE_FOLDER says where torch's side is kept; without it nothing is done. With
    JUDGE_FRAMES torch records the Python stack of every block too, from when this module is imported on.
    With SIMTORCH_AT naming this file the scenarios do so at their moments.
From outside:       judge.py VRAMCORE JUDGE_FOLDER SNAPSHOT_FOLDER
    compares each pair, of each process: every block (address, size, device) both ways, the totals with
    memory_allocated() and memory_reserved(), and the Python frames of blocks that torch has them of. Exit status 0: all agree, and there was something
    to compare.
"""
import ctypes
import glob
import json
import os
import subprocess
import sys

taken = 0
recording = False


def record_frames():
    """PyTorch's own history of the blocks that live; it costs nothing to ask again."""
    global recording
    if recording or not os.environ.get("JUDGE_FRAMES"):
        return
    import torch

    try:
        torch.cuda.memory._record_memory_history("state", context="alloc", stacks="python")
        recording = True
    except RuntimeError:
        pass


def segments_of(torch):
    """What is the same in two snapshots of one state; None where the back end has none."""
    try:
        segments = torch.cuda.memory._snapshot()["segments"]
    except RuntimeError:
        return None
    return [{key: segment[key] for key in ("device", "address", "total_size", "stream")}
            | {"blocks": [{key: block.get(key) for key in ("address", "size", "state",
                                                           "requested_size")}
                          for block in segment["blocks"]]}
            for segment in segments]


def frames_of(torch):
    """By address: file, line and function of each frame, innermost first."""
    if not recording:
        return {}
    return {str(block["address"]): [[frame["filename"], frame["line"], frame["name"]] for frame in block["frames"]]
            for segment in torch.cuda.memory._snapshot()["segments"] for block in segment["blocks"]
            if block["state"] == "active_allocated" and block.get("frames")}


def asked(function, device):
    """A pluggable allocator need not know."""
    try:
        return function(device)
    except RuntimeError:
        return 0


def moment(tag):
    """Keeps torch's side of this moment and asks for a snapshot of it. Call with no other work running."""
    global taken
    folder = os.environ.get("JUDGE_FOLDER")
    if not folder:
        return
    import torch

    try:
        snapshot = ctypes.CDLL(None).vramcore_snapshot
    except AttributeError:
        return
    if not torch.cuda.is_initialized():
        return
    torch.cuda.synchronize()
    before = segments_of(torch)
    snapshot()
    after = segments_of(torch)
    devices = range(torch.cuda.device_count())
    state = {
        "tag": tag,
        # cudaMallocAsync refuses a snapshot
        "reports": after is not None and not os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING")
                   and torch.cuda.get_allocator_backend() == "native",
        "segments": after or [],
        "frames": frames_of(torch),
        # a moment in which another thread allocates is none that two can agree about
        "quiet": before == after,
        "allocated": [asked(torch.cuda.memory_allocated, device) for device in devices],
        "reserved": [asked(torch.cuda.memory_reserved, device) for device in devices],
    }
    with open(os.path.join(folder, f"{os.getpid()}.{taken}.json"), "w", encoding="utf-8") as file:
        json.dump(state, file)
    taken += 1


record_frames()


def at(name, scenario):
    """What tests/simtorch/scenarios.py calls at its moments."""
    moment(f"{scenario}, {name}")


def tables_of(vramcore, path):
    run = subprocess.run([vramcore, "export", path, "--to", "json", "--no-symbols"],
                         stdout=subprocess.PIPE, check=False)
    if run.returncode not in (0, 1):
        raise SystemExit(f"{path}: export failed")
    return json.loads(run.stdout)["tables"]


def info_of(vramcore, path):
    run = subprocess.run([vramcore, "info", path, "--json", "--no-symbols"],
                         stdout=subprocess.PIPE, check=False)
    return run.returncode, json.loads(run.stdout)


def blocks_of_torch(state):
    return {(segment["device"], block["address"], block["size"])
            for segment in state["segments"] for block in segment["blocks"]
            if block["state"] == "active_allocated"}


def number(value):
    return int(value, 16) if isinstance(value, str) else value


def blocks_of_ours(tables):
    ours = [(row["device_plus_one"] - 1, number(row["address"]), row["size"])
            for row in tables["allocations"] if row["kind"] == "block" and row["flags"] & 32]
    return set(ours), len(ours)


def compare_totals(vramcore, path, state):
    """What `info` says of each device against memory_allocated and memory_reserved."""
    wrong = []
    status, info = info_of(vramcore, path)
    if status != 0:
        wrong.append(f"info ends with {status}: " +
                     "; ".join(item["text"] for item in info["evidence"]["items"]))
    shown = {device["device"]["ordinal"]: device.get("torch") for device in info["devices"]}
    for device, (allocated, reserved) in enumerate(zip(state["allocated"], state["reserved"])):
        numbers = shown.get(device)
        if numbers is None:
            if allocated or reserved:
                wrong.append(f"device {device}: nothing of torch's is shown")
            continue
        for key, value in (("allocated", allocated), ("reserved", reserved)):
            if numbers[key] != value:
                wrong.append(f"device {device}: {key} {numbers[key]}, torch says {value}")
        if numbers["said_allocated"] != allocated:
            wrong.append(f"device {device}: {numbers['said_allocated']} said to be allocated, "
                         f"torch says {allocated}")
    return wrong


def compare_silent(vramcore, path, tables, state):
    """A back end that reports nothing: no block is made up, and it is said that there are none."""
    wrong = []
    _, rows = blocks_of_ours(tables)
    _, info = info_of(vramcore, path)
    if rows:
        wrong.append(f"{rows} blocks of an allocator that reports none")
    if any(device.get("torch") for device in info["devices"]):
        wrong.append("totals of an allocator that told none")
    if sum(state["reserved"]) and not any("reported no blocks" in note for note in info["notes"]):
        wrong.append("it is not said that PyTorch's allocator reports nothing")
    return wrong


def frames_of_ours(tables, row):
    """File, line and function of the Python frames of a row of allocations."""
    if not row["python"]:
        return []
    stack = tables["source_stacks"][row["python"] - 1]
    lists = tables["source_lists"][stack["first"]:stack["first"] + stack["count"]]
    frames = [tables["source_frames"][entry["frame"] - 1] for entry in lists]
    return [[frame["file"], frame["line"], frame["function"]] for frame in frames]


def same_frames(ours, torch):
    """
    torch names a function without what it lies in, and puts the lines of the user's that a compiled
    function was made from behind it, as if they were callers.
    """
    at, compiled = 0, False
    for file, line, name in torch:
        if at < len(ours) and ours[at][:2] == [file, line] and ours[at][2].split(".")[-1] == name.split(".")[-1]:
            at, compiled = at + 1, "/torchinductor_" in file
        elif not compiled:
            return False
    return at == len(ours)


def compare_frames(tables, state):
    wrong, count = [], 0
    for row in tables["allocations"]:
        torch = state["frames"].get(str(number(row["address"])))
        if torch is None or row["kind"] != "block" or not row["flags"] & 32:
            continue
        count += 1
        ours = frames_of_ours(tables, row)
        if not same_frames(ours, torch):
            wrong.append(f"frames of {row['address']}: {ours} torch has {torch}")
    global frames_compared
    frames_compared += count
    return wrong[:2] + [f"{len(wrong) - 2} more stacks differ"] * (len(wrong) > 2)


frames_compared = 0


def compare(vramcore, path, state):
    """What differs between a snapshot and torch's side of its moment, in words."""
    tables = tables_of(vramcore, path)
    if not state["reports"]:
        return compare_silent(vramcore, path, tables, state)
    torch, (ours, rows) = blocks_of_torch(state), blocks_of_ours(tables)
    wrong = []
    for name, only in (("not seen", torch - ours), ("not torch's", ours - torch)):
        for device, address, size in sorted(only)[:3]:
            wrong.append(f"{name}: device {device} {address:#x} {size} bytes")
        if len(only) > 3:
            wrong.append(f"{name}: {len(only) - 3} more")
    if rows != len(ours):
        wrong.append(f"{rows - len(ours)} blocks twice")
    return wrong + compare_totals(vramcore, path, state) + compare_frames(tables, state)


def main():
    vramcore, judged, snapshots = sys.argv[1:4]
    states = {}
    for path in glob.glob(os.path.join(judged, "*.json")):
        pid, index, _ = os.path.basename(path).split(".")
        with open(path, encoding="utf-8") as file:
            states.setdefault(int(pid), {})[int(index)] = json.load(file)
    found = {}
    for path in glob.glob(os.path.join(snapshots, "*.vramcore")):
        _, info = info_of(vramcore, path)
        if info["file"]["trigger"] == "request":
            found.setdefault(info["file"]["pid"], []).append((info["file"]["number"], path))
    compared, blocks, silent, failed = 0, 0, 0, 0
    for pid, moments in sorted(states.items()):
        paths = [path for _, path in sorted(found.get(pid, []))]
        if len(paths) != len(moments):
            print(f"process {pid}: {len(moments)} moments, {len(paths)} snapshots")
            failed += 1
        for (_, state), path in zip(sorted(moments.items()), paths):
            if not state["quiet"]:
                continue
            compared += 1
            blocks += len(blocks_of_torch(state))
            silent += not state["reports"]
            wrong = compare(vramcore, path, state)
            failed += bool(wrong)
            for line in wrong:
                print(f"process {pid}, {state['tag']} ({os.path.basename(path)}): {line}")
    print(f"{compared} moments compared, {blocks} blocks, {frames_compared} Python stacks, {failed} differ")
    return 1 if failed or not compared or not blocks + silent else 0


if __name__ == "__main__":
    sys.exit(main())
