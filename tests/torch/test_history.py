#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces replayed: files that strangers made against what an independent reader found in them.

usage: test_history.py VRAMCORE SOURCE

Every replay figure of the facts; the state at every moment of --at against a replay that is done
here from the exported tables. Skipped without the files.
"""
import glob
import json
import os
import random
import subprocess
import sys

vramcore, source = sys.argv[1:3]
shared = os.environ.get("VRAMCORE_SHARED", os.path.join(source, "..", "shared"))
files = sorted(glob.glob(os.path.join(shared, "inputs", "torch", "*.pickle")))
wrong = []
checked = 0


def run(*arguments):
    result = subprocess.run([vramcore, *arguments, "--json"], capture_output=True, text=True, check=False)
    if result.returncode not in (0, 1):
        wrong.append(f"{arguments}: exit status {result.returncode}: {result.stdout} {result.stderr}")
        return None
    return json.loads(result.stdout)


def same(name, what, ours, theirs):
    global checked
    checked += 1
    if ours != theirs:
        wrong.append(f"{name}: {what}: {ours}, not {theirs}")


def check_facts(name, device, facts):
    nothing = device["from_nothing"]
    for what, ours in (("device", device["device"]), ("events", device["events"]),
                       ("peak_live_from_window_start", nothing["peak_bytes"]),
                       ("peak_index", max(nothing["peak_moment"] - 1, 0)),
                       ("end_live", nothing["end_bytes"]),
                       ("end_live_blocks", nothing["end_blocks"]),
                       ("frees_of_prewindow", device["start_blocks_freed"] +
                        device["contradictions"]["double_frees"]),
                       ("double_alloc", device["contradictions"]["double_allocations"]),
                       ("seg_net", nothing["reserved_bytes"]),
                       ("time_monotonic", device["time_monotonic"]),
                       ("span_us", device["span_us"])):
        same(name, what, ours, facts[what])


class Replay:
    """All states of one device, by the plainest means: what is there before the first event is what
    is left when everything is undone from the end."""

    def __init__(self, tables, device):
        words = {1: "alloc", 3: "free", 4: "reserve", 6: "reserve", 5: "release", 7: "release"}
        self.events = [(words.get(e["action"]), int(e["address"], 16), e["size"])
                       for e in tables["trace"] if e["device"] == device]
        live, reserved = {}, 0
        for block in tables["blocks"]:
            segment = tables["segments"][block["segment"] - 1]
            if segment["device"] == device and block["state"].startswith("active"):
                live[int(block["address"], 16)] = block["requested"]
        reserved = sum(s["total_size"] for s in tables["segments"] if s["device"] == device)
        self.states = [None] * (len(self.events) + 1)
        self.states[-1] = (sum(live.values()), len(live), reserved)
        for i in range(len(self.events) - 1, -1, -1):
            what, address, size = self.events[i]
            if what == "alloc":
                live.pop(address, None)
            elif what == "free":
                live[address] = size
            elif what == "reserve":
                reserved -= size
            elif what == "release":
                reserved += size
            # sums are kept by hand: dicts are too slow to sum each time
            before = self.states[i + 1]
            bytes_, blocks = before[0], before[1]
            if what == "alloc":
                bytes_, blocks = bytes_ - size, blocks - 1
            elif what == "free":
                bytes_, blocks = bytes_ + size, blocks + 1
            self.states[i] = (bytes_, blocks, reserved)


def check_states(name, path, device, replay, pruned):
    states = replay.states
    peak = max(state[0] for state in states)
    same(name, "peak", (device["peak_bytes"], device["peak_moment"]),
         (peak, next(i for i, s in enumerate(states) if s[0] == peak)))
    same(name, "start", (device["start_bytes"], device["start_blocks"], device["start_reserved_bytes"]),
         states[0])
    for run_ in device["curve"]:
        part = states[run_["first_moment"]:run_["last_moment"] + 1]
        same(name, "curve", (run_["allocated_bytes"], run_["reserved_bytes"]),
             (max(s[0] for s in part), max(s[2] for s in part)))
    same(name, "curve ends", (device["curve"][0]["first_moment"], device["curve"][-1]["last_moment"]),
         (0, len(states) - 1))
    generator = random.Random(name)
    moments = [generator.randrange(len(states) - 1) for _ in range(3)]
    for event in [0, len(states) - 2, *moments]:
        top = run("top", "--at", f"event:{event}", "-n", "0", path)
        if not top:
            continue
        shown = next(d for d in top["devices"] if d["device"]["ordinal"] == device["device"])
        want = states[event + 1]
        same(name, f"top --at event:{event}",
             (shown["live_bytes"] if not pruned else None, shown["live_count"], shown["reserved_bytes"]),
             (want[0] if not pruned else None, want[1], want[2]))
        same(name, "rows", sum(row["bytes"] for row in shown["rows"]), shown["live_bytes"])
    top = run("top", "--at", "peak", "-n", "0", path)
    if top and not pruned:
        same(name, "top --at peak", max(d["live_bytes"] for d in top["devices"]), peak)
        same(name, "sites of the peak", sum(r["bytes"] for r in device["peak_sites"]), peak)


def check_map(name, path, tables):
    """Holes and blocks of every segment, from the blocks' table."""
    shown = run("map", "-n", "0", path)
    used, free, holes, largest = 0, 0, 0, 0
    for number, segment in enumerate(tables["segments"], 1):
        at = int(segment["address"], 16)
        end = at + segment["total_size"]
        taken = sorted((int(b["address"], 16), b["size"]) for b in tables["blocks"]
                       if b["segment"] == number and b["state"] != "inactive")
        for address, size in [*taken, (end, 0)]:
            if address > at:
                holes += 1
                free += address - at
                largest = max(largest, address - at)
            used += size
            at = address + size
    for what, ours in (("used_bytes", used), ("free_bytes", free), ("holes", holes),
                       ("segments_count", len(tables["segments"]))):
        same(name, f"map {what}", sum(d[what] for d in shown["devices"]), ours)
    same(name, "map largest hole", max(d["largest_hole"] for d in shown["devices"]), largest)


if not files:
    print("SKIPPED: no files in", shared)
    sys.exit(77)
for path in files:
    name = os.path.basename(path)
    with open(path + ".facts.json", encoding="utf-8") as file:
        facts = json.load(file)
    tables = run("export", "--to", "json", path)["tables"]
    check_map(name, path, tables)
    if not any(r["events"] for r in facts["replay"]):
        result = subprocess.run([vramcore, "timeline", path], capture_output=True, text=True, check=False)
        same(name, "no trace", (result.returncode, "no curve" in result.stderr), (2, True))
        continue
    timeline = run("timeline", "-n", "0", path)
    same(name, "lists", len(timeline["devices"]), sum(1 for r in facts["replay"] if r["events"]))
    pruned = bool(facts["anomalies"])
    for theirs in (r for r in facts["replay"] if r["events"]):
        device = next(d for d in timeline["devices"] if d["device"] == theirs["device"])
        check_facts(name, device, theirs)
        check_states(name, path, device, Replay(tables, device["device"]), pruned)
for line in wrong:
    print("WRONG", line)
print(f"{len(files)} files, {checked} numbers compared, {len(wrong)} wrong")
sys.exit(1 if wrong or checked < 100 else 0)
