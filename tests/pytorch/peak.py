# SPDX-License-Identifier: Apache-2.0
"""Trains for five steps and writes, for each, what PyTorch itself says of its highest moment.

usage: peak.py forward|backward|devices|accumulate FILE

forward: a large temporary half way makes the peak. backward: gradients do.
devices: the second device is the fuller one. accumulate: a step has three backward passes. FILE gets a line of JSON for each step: the highest
bytes by PyTorch's statistics, and by a replay of its own history of events the bytes, whether the peak
was before the (last) backward pass that it belongs to, and the blocks of that moment with those that lived before the
backward pass too.
"""
import json
import sys

import torch
from torch import nn

ALLOCATED, FREED = "alloc", "free_requested"


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.parts = nn.ModuleList(nn.Linear(256, 256) for _ in range(8))
        self.head = nn.Linear(256, 4000)

    def forward(self, x):
        for number, part in enumerate(self.parts):
            if self.kind == "forward" and number == 4:
                with torch.no_grad():
                    scale = torch.ones(24 << 20, device=x.device).sum()
                x = x * (scale / scale)
            x = torch.relu(part(x))
        if self.kind == "devices":
            x = x.to("cuda:1")
        return self.head(x.to(self.head.weight.device))


def live_blocks():
    """Address and size of every block that is handed out, by device."""
    live = {}
    for segment in torch.cuda.memory._snapshot()["segments"]:
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                live.setdefault(segment["device"], {})[block["address"]] = block["size"]
    return live


def events(device):
    return torch.cuda.memory._snapshot()["device_traces"][device]


def touched(trace, one, other):
    """Addresses of the events after the one and up to the other: a block elsewhere is the same at both."""
    low, high = sorted((one, other))
    return {event["addr"] for event in trace[low + 1:high + 1] if event["action"] in (ALLOCATED, FREED)}


def replay(live, trace, begin, middles, end):
    """The first highest moment of trace[begin:end]: bytes, blocks, and which of these lived at the last of `middles`
    before it, else at the first one."""
    live, at_middles = dict(live), {}
    total = sum(live.values())
    best = (total, begin, dict(live))
    for index in range(begin, end):
        if index in middles:
            at_middles[index] = dict(live)
        event = trace[index]
        if event["action"] == ALLOCATED:
            live[event["addr"]] = event["size"]
            total += event["size"]
        elif event["action"] == FREED:
            total -= live.pop(event["addr"])
        if total > best[0]:
            best = (total, index, dict(live))
    middle = max((m for m in middles if m <= best[1]), default=middles[0])
    both = set(at_middles[middle]) & set(best[2]) - touched(trace, best[1], middle - 1)
    return {"bytes": best[0], "before": best[1] < middle, "blocks": sorted(best[2].items()), "both": sorted(both),
            "to_end": sorted(set(best[2]) - touched(trace, best[1], end - 1))}


def main():
    kind, path = sys.argv[1:]
    fullest = 1 if kind == "devices" else 0
    model = Model(kind).cuda()
    if kind == "devices":
        model.head.to("cuda:1")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.cuda.memory._record_memory_history(max_entries=1000000, context=None)
    lines = []
    for step in range(1, 6):
        for device in range(torch.cuda.device_count()):
            torch.cuda.reset_peak_memory_stats(device)
        begin, live = len(events(fullest)), live_blocks().get(fullest, {})
        x, target = torch.randn(512, 256).cuda(), torch.randint(4000, (512,)).to(f"cuda:{fullest}")
        middles = []
        for _ in range(3 if kind == "accumulate" else 1):
            loss = nn.functional.cross_entropy(model(x), target)
            middles.append(len(events(fullest)))
            loss.backward()
        optimizer.step()
        end, highest = len(events(fullest)), torch.cuda.max_memory_allocated(fullest)
        line = {"watched": hasattr(torch.autograd.graph, "_engine_run_backward"), "step": step, "device": fullest, "highest": highest,
                "others": {d: torch.cuda.max_memory_allocated(d) for d in range(torch.cuda.device_count())},
                "parameters": sorted(p.data_ptr() for p in model.parameters() if p.device.index == fullest),
                "gradients": sorted(p.grad.data_ptr() for p in model.parameters() if p.device.index == fullest),
                "state": sorted(v.data_ptr() for s in optimizer.state.values() for v in s.values()
                                if v.is_cuda and v.device.index == fullest)}
        line.update(replay(live, events(fullest), begin, middles, end))
        lines.append(json.dumps(line))
        optimizer.zero_grad()
        del x, target, loss
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
