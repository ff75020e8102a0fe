# SPDX-License-Identifier: Apache-2.0
"""Trains on "cuda" for so many seconds, as hard on walks as a program may be: a second thread runs
backward passes of its own, gradients are set and taken away, graphs live on, a hook packs what is saved.
usage: soak.py SECONDS [oom] [mark] [rise]; run by test_soak.py. Prints its process id once it trains, and at
the end steps, backward passes of the second thread, failures, marks."""
import ctypes
import os
import sys
import threading
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WARM_UP = 3  # steps, in which PyTorch imports parts of itself
end = None
WHAT = set(sys.argv[2:])
counts = {"steps": 0, "beside": 0, "oom": 0, "marks": 0}


class Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.extra = [x * 2]
        return x + 1

    @staticmethod
    def backward(ctx, grad):
        return grad + ctx.saved_tensors[0]


def model():
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 32)).cuda()


def beside():
    """A second thread with backward passes of its own."""
    other = model()
    while time.monotonic() < end:
        loss = other(torch.ones(4, 32, device="cuda", requires_grad=True)).sum()
        loss.backward()
        for parameter in other.parameters():
            parameter.grad = None
        counts["beside"] += 1


def out_of_memory():
    try:
        torch.empty(1 << 40, device="cuda")
    except torch.cuda.OutOfMemoryError:
        counts["oom"] += 1


def step(number, layers, optimizer, kept):
    x = torch.ones(4 + number % 7, 32, device="cuda", requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (t, number), lambda packed: packed[0]):
        y = layers[0](x)
    y = checkpoint(layers[1], y, use_reentrant=False)
    y = Keep.apply(y)
    loss = layers[2](y).sum()
    kept.append(loss if number % 5 == 0 else loss.detach())
    loss.backward(retain_graph=number % 5 == 0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=bool(number % 2))
    del kept[:-40]


def main():
    global end
    library = ctypes.CDLL(None)
    snapshot = getattr(library, "vramcore_v1_snapshot", None)
    layers = [model() for _ in range(3)]
    optimizer = torch.optim.AdamW([p for layer in layers for p in layer.parameters()])
    kept, risen = [], None
    for number in range(WARM_UP):
        step(number, layers, optimizer, kept)
    print(os.getpid(), flush=True)
    end = time.monotonic() + float(sys.argv[1])
    thread = threading.Thread(target=beside)
    thread.start()
    while time.monotonic() < end:
        number = counts["steps"]
        step(number, layers, optimizer, kept)
        counts["steps"] += 1
        if "oom" in WHAT and number % 10 == 3:
            out_of_memory()
        if "mark" in WHAT and number % 20 == 4:
            snapshot()
            counts["marks"] += 1
        if "rise" in WHAT and number % 30 == 5:
            risen = None if risen is not None else torch.empty(40 << 20, device="cuda")
    thread.join()
    print(*counts.values(), flush=True)
    # an interpreter that ends right after a backward pass trips over PyTorch's own threads, recorded or not
    time.sleep(0.15)
    os._exit(0)


main()
