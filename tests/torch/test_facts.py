#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that strangers made with PyTorch, against what an independent reader found in them.

usage: test_facts.py VRAMCORE SOURCE

Every total, every sum by state, the largest sites, the numbers of events. Skipped without the files.
"""
import collections
import glob
import json
import os
import subprocess
import sys

vramcore, source = sys.argv[1:3]
shared = os.environ.get("VRAMCORE_SHARED", os.path.join(source, "..", "shared"))
files = sorted(glob.glob(os.path.join(shared, "inputs", "torch", "*.pickle")))
wrong = []
checked = 0


def run(*arguments):
    result = subprocess.run([vramcore, *arguments], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        wrong.append(f"{arguments}: exit status {result.returncode}: {result.stderr}")
        return None
    return json.loads(result.stdout)


def same(name, what, ours, theirs):
    global checked
    checked += 1
    if ours != theirs:
        wrong.append(f"{name}: {what}: {ours}, not {theirs}")


def check_totals(name, info, facts):
    torch = [device["torch"] for device in info["devices"]]
    # Of a file that was cut down the facts have what its blocks, we what its segments say.
    pruned = any("mismatch" in anomaly for anomaly in facts["anomalies"])
    for key, theirs in (("segments", "segments"), ("blocks", "blocks"), ("reserved", "reserved"),
                        ("allocated", "allocated"), ("active", "active"),
                        ("requested", "requested"), ("pending_free", "pending_free"),
                        ("rounding_waste", "rounding_waste"),
                        ("expandable_segments", "expandable")):
        if pruned and key in ("requested", "rounding_waste"):
            continue
        same(name, key, sum(device[key] for device in torch), facts[theirs])
    same(name, "largest free block", max((d["largest_free_block"] for d in torch), default=0),
         facts["largest_free_block"])
    same(name, "reserved by device",
         {str(d["device"]["ordinal"]): d["torch"]["reserved"] for d in info["devices"]},
         facts["reserved_by_device"])
    same(name, "ooms", sum(device["ooms"] for device in torch), len(facts["oom_events"]))
    same(name, "annotations", info["counts"]["annotations"], facts["annotations"])
    same(name, "events", [d["torch"]["events"] for d in info["devices"] if d["torch"]["events"]],
         [r["events"] for r in facts["replay"] if r["events"]])


def check_tables(name, tables, facts):
    states = collections.Counter(block["state"] for block in tables["blocks"])
    same(name, "states", dict(states), facts["states"])
    same(name, "requested by blocks",
         sum(b["requested"] for b in tables["blocks"] if b["state"].startswith("active")),
         facts["requested"])
    pools = {(s["pool_first"], s["pool_second"]) for s in tables["segments"]}
    same(name, "pools", len(pools), facts["pools"])
    frames = tables["source_frames"]
    same(name, "frames", len({(f["function"], f["file"], f["line"]) for f in frames}),
         facts["unique_frames"])


def innermost(tables, block):
    """The frame of a block that the facts name: the innermost of Python outside PyTorch, as far
    as paths with / tell, else the innermost."""
    if not block["stack"]:
        return "(no frames)"
    stack = tables["source_stacks"][block["stack"] - 1]
    if not stack["count"]:
        return "(no frames)"
    frames = [tables["source_frames"][item["frame"] - 1] for item in
              tables["source_lists"][stack["first"]:stack["first"] + stack["count"]]]
    frame = next((f for f in frames if f["file"].endswith(".py") and "/torch/" not in f["file"]),
                 frames[0])
    return frame["file"], frame["line"], frame["function"]


def check_sites(name, tables, facts):
    sites = collections.Counter()
    for block in tables["blocks"]:
        if block["state"] == "active_allocated":
            site = innermost(tables, block)
            if site != "(no frames)":
                # the facts name a file by its last component, split at / only
                site = f"{site[0].split('/')[-1]}:{site[1]}:{site[2]}"
            sites[site] += block["size"]
    ours = sorted(sites.values(), reverse=True)[:len(facts["top_live_sites"])]
    same(name, "bytes of sites", ours, [size for _, size in facts["top_live_sites"]])
    for site, size in facts["top_live_sites"]:
        same(name, f"site {site}", sites[site], size)


def check_views(name, path, facts, tables):
    """Rows of every view add up to what is live and reserved."""
    live = sum(block["size"] for block in tables["blocks"] if block["state"] != "inactive")
    for key in ("site", "segment", "stream", "pool", "state", "device", "size", "metadata"):
        top = run("top", "--json", "-n", "0", "--by", key, path)
        if not top:
            return
        same(name, f"top --by {key}",
             sum(row["bytes"] for d in top["devices"] for row in d["rows"]), live)
        same(name, f"cached --by {key}",
             sum(row["bytes"] + row["cached_bytes"] for d in top["devices"] for row in d["rows"]),
             facts["reserved"])


if not files:
    print("SKIPPED: no files in", shared)
    sys.exit(77)
for path in files:
    name = os.path.basename(path)
    with open(path + ".facts.json", encoding="utf-8") as file:
        facts = json.load(file)
    info, export = run("info", "--json", path), run("export", "--to", "json", path)
    if not info or not export:
        continue
    check_totals(name, info, facts)
    check_tables(name, export["tables"], facts)
    check_sites(name, export["tables"], facts)
    check_views(name, path, facts, export["tables"])
for line in wrong:
    print("WRONG", line)
print(f"{len(files)} files, {checked} numbers compared, {len(wrong)} wrong")
sys.exit(1 if wrong or checked < 100 else 0)
