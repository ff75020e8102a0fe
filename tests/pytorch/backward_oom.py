# SPDX-License-Identifier: Apache-2.0
"""Runs out of memory in a backward pass, and writes what lived then.

usage: backward_oom.py plain|conv|custom|checkpoint|reentrant|offload FILE

FILE gets JSON: for every block that lived at the failure its address and size, and whether it was
made in the backward pass (`gradient`: on its way), in it by a module or hook that ran again (`again`),
or before it: a parameter, an input (`kept`), or saved for it (`saved`). Judge is PyTorch's own history of events and its
graph, not the recorder.
"""
import json
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

ALLOCATED, FREED = "alloc", "free_requested"
again = []  # intervals of events of the backward pass that make what a forward pass makes
state = {"backward": False}


def events():
    return torch.cuda.memory._snapshot()["device_traces"][0]


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return grad * x * 2


class Again:
    """What is made in it in the backward pass is no gradient."""

    def __enter__(self):
        self.interval = [len(events()), sys.maxsize] if state["backward"] else None
        if self.interval:
            again.append(self.interval)

    def __exit__(self, kind, value, traceback):
        if self.interval:  # a checkpoint ends what it runs again by an error of its own
            self.interval[1] = len(events())


def bring_back(tensor):
    with Again():
        return tensor.to("cuda")


class Part(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.first, self.second = kind, nn.Linear(512, 2048), nn.Linear(2048, 512)
        if kind == "conv":
            self.first, self.second = nn.Conv2d(16, 64, 3, padding=1), nn.Conv2d(64, 16, 3, padding=1)

    def forward(self, x):
        with Again():
            x = torch.relu(self.first(x))
            if self.kind == "custom":
                x = Scale.apply(x)
            return self.second(x)


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.parts = kind, nn.ModuleList(Part(kind) for _ in range(4))

    def forward(self, x):
        for part in self.parts:
            if self.kind in ("checkpoint", "reentrant"):
                x = checkpoint(part, x, use_reentrant=self.kind == "reentrant")
            elif self.kind == "offload":
                with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.to("cpu"), bring_back):
                    x = part(x)
            else:
                x = part(x)
        return x


def saved_addresses(loss):
    """Of every tensor that the graph saved itself, by its nodes."""
    found, seen, nodes = set(), set(), [loss.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        nodes += [next_node for next_node, _ in node.next_functions]
        for name in dir(node):
            if not name.startswith("_raw_saved"):
                continue
            values = getattr(node, name)
            for value in values if isinstance(values, (tuple, list)) else (values,):
                data = getattr(value, "data", None)
                if isinstance(data, torch.Tensor) and data.is_cuda:
                    found.add(data.untyped_storage().data_ptr())
    return found


def replay(live, trace, begin):
    """Blocks that lived when the trace says that memory ran out, and the event that each came from."""
    born = {address: -1 for address in live}
    for index in range(begin, len(trace)):
        event = trace[index]
        if event["action"] == "oom":
            return born
        if event["action"] == ALLOCATED:
            born[event["addr"]] = index
        elif event["action"] == FREED:
            born.pop(event["addr"])
    raise AssertionError("no failure in the trace")


def allocated():
    return {block["address"]: block["size"] for segment in torch.cuda.memory._snapshot()["segments"]
            for block in segment["blocks"] if block["state"] == "active_allocated"}


def main():
    kind, path = sys.argv[1:]
    model = Model(kind).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 16, 96, 96) if kind == "conv" else torch.randn(1024, 512)
    x = x.cuda().requires_grad_(kind == "reentrant")
    for _ in range(2):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.memory._record_memory_history(max_entries=1000000, context=None)
    loss = model(x).square().mean()
    kept = {p.data_ptr() for p in model.parameters()} | {x.data_ptr(), loss.data_ptr()}
    saved, begin, live = saved_addresses(loss) - kept, len(events()), allocated()
    state["backward"] = True
    # a failure when the pass is half done: so much as half of it took at most
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    room = (16 if kind == "conv" else 24) << 20
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + room) / total)
    try:
        loss.backward()
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("it fitted")
    trace = events()
    born = replay(live, trace, begin)
    rows = []
    for address, index in born.items():
        what = "kept" if address in kept else "saved" if address in saved else "other"
        if index >= begin:
            what = "again" if any(first <= index < last for first, last in again) else "gradient"
        size = trace[index]["size"] if index >= begin else live[address]
        rows.append({"address": address, "size": (size + 511) // 512 * 512, "what": what})
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file)


if __name__ == "__main__":
    main()
