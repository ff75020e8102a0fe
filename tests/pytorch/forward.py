# SPDX-License-Identifier: Apache-2.0
"""Backward passes of many kinds, with PyTorch's own word for where each node that runs was made.

usage: forward.py FILE CASE ...
In anomaly mode PyTorch keeps the Python stack of every node, and its history shows it beside each block that the node
allocates. Written to FILE as JSON: `events`, the blocks in the order in which they were made, with their address and
that stack, innermost frame first. The recorder knows nothing of anomaly mode.
"""
import json
import re
import sys
import threading
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

FRAME = re.compile(r'\s*File "(.*)", line (\d+), in (.*)')


class Layers(nn.Module):
    """Each operation at a line of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 32)
        self.norm, self.convolution = nn.LayerNorm(32), nn.Conv1d(4, 4, 3, padding=1)

    def forward(self, x):
        y = self.first(x)
        y = functional.gelu(y)
        y = self.second(y)
        y = y.view(-1, 4, 32)
        y = self.convolution(y)
        y = y[:, 1:, :4].expand(-1, 3, 4)
        z = self.norm(x)
        z = z.abs() + 1
        z.mul_(2)
        z[1:] = z[:-1].clone() * 3
        return y.sum() + z.softmax(1).pow(2).mean()


class Cube(torch.autograd.Function):
    """Has a line of its own in the backward pass too."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, given):
        x, = ctx.saved_tensors
        return 3 * given * x * x


def data(*shape):
    return torch.zeros(*shape, device="cuda", requires_grad=True)


def plain():
    model, other = Layers().cuda(), Layers().cuda()
    for _ in range(3):
        (model(data(16, 32)) + other(data(16, 32))).backward()


def unrolled():
    cell, state = nn.GRUCell(16, 16).cuda(), data(8, 16)
    for _ in range(6):
        state = torch.tanh(cell(data(8, 16), state))
    state.sum().backward()


def checkpoints():
    model = Layers().cuda()
    for reentrant in (False, True):
        y = checkpoint(model, data(16, 32), use_reentrant=reentrant)
        (y * 2).backward()


def twice():
    x, weight = data(8, 16), data(16, 16)
    y = (x @ weight).tanh()
    z = y.sigmoid().sum()
    slope, = torch.autograd.grad(z, x, create_graph=True)
    slope.pow(2).sum().backward()


def function():
    y = Cube.apply(data(16, 16))
    y = Cube.apply(y)
    y.register_hook(lambda given: given * 2)
    y.sum().backward()


def retained():
    y = data(16, 16).exp().cos()
    y.sum().backward(retain_graph=True)
    y.sum().backward()


def failing():
    """A backward pass that ends in an error; then another one."""
    def fail(_given):
        raise KeyError

    y = data(16, 16).exp()
    y.register_hook(fail)
    y = y.sin()
    try:
        y.sum().backward()
    except KeyError:
        pass
    z = data(16, 16).cos()
    z.sum().backward()


def threads():
    def train(model):
        for _ in range(8):
            model(data(16, 32)).backward()

    running = [threading.Thread(target=train, args=(Layers().cuda(),)) for _ in range(3)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def on_this_thread():
    """The backward pass of what lies in host memory too runs on the thread that asks for it."""
    x = torch.zeros(64, requires_grad=True)
    x.exp().cuda().cos().cpu().sin().sum().backward()
    functional.relu(data(64)).sum().backward()


def stack_of(lines):
    frames = [FRAME.match(line) for line in reversed(lines or [])]
    return [[frame[1], int(frame[2]), frame[3]] for frame in frames if frame]


def main():
    torch.manual_seed(0)
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    torch.cuda.memory._record_memory_history("all", stacks="python")
    for name in sys.argv[2:]:
        globals()[name]()
    torch.cuda.synchronize()
    events = [{"address": event["addr"], "forward": stack_of(event.get("forward_frames"))}
              for event in torch.cuda.memory._snapshot()["device_traces"][0] if event["action"] == "alloc"]
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"events": events}, file)
    time.sleep(0.15)


if __name__ == "__main__":
    main()
