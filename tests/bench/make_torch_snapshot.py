#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a made-up PyTorch snapshot of about the size that is asked for.

usage: make_torch_snapshot.py MEGABYTES FILE

As torch writes them: protocol 4, frames and stacks shared, one dict for each event of the trace,
segments with blocks that the trace has allocated.
"""
import pickle
import random
import sys

BYTES_OF_EVENT = 62
numbers = random.Random(20261130)


def frames():
    return [{"name": f"function_{i % 300}", "filename": f"/home/u/job/part_{i % 40}.py",
             "line": i} for i in range(2000)]


def stacks(of):
    return [[of[numbers.randrange(len(of))] for _ in range(numbers.randrange(12, 50))]
            for _ in range(1500)]


def trace(count, of):
    live, at, events = {}, 0x7f0000000000, []
    actions = {name: name for name in ("alloc", "free_requested", "free_completed")}
    time = 1790000000000000
    while len(events) < count:
        time += numbers.randrange(1, 50)
        stack = of[numbers.randrange(len(of))]
        if len(live) < 20000 and numbers.random() < 0.6:
            size = numbers.randrange(1, 1 << 14) * 512
            live[at] = (size, stack)
            events.append(("alloc", at, size, time, stack))
            at += size
        elif live:
            address, (size, _) = live.popitem()
            for action in ("free_requested", "free_completed"):
                events.append((action, address, size, time, stack))
    made = [{"action": actions[action], "addr": address, "size": size, "stream": 0,
             "time_us": when, "frames": stack} for action, address, size, when, stack in events]
    return made, live


def segments(live):
    made = []
    for address, (size, stack) in sorted(live.items()):
        block = {"address": address, "size": size, "requested_size": size,
                 "state": "active_allocated", "frames": stack}
        made.append({"device": 0, "address": address, "total_size": size, "allocated_size": size,
                     "active_size": size, "requested_size": size, "stream": 0,
                     "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
                     "frames": [], "blocks": [block]})
    return made


events, live = trace(int(float(sys.argv[1]) * 1e6 / BYTES_OF_EVENT), stacks(frames()))
with open(sys.argv[2], "xb") as file:
    pickle.dump({"segments": segments(live), "device_traces": [events], "allocator_settings": {},
                 "external_annotations": []}, file, 4)
