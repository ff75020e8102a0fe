# SPDX-License-Identifier: Apache-2.0
"""Trains on "cuda" and does what makes memory grow without a leak, each in a function of its own: once,
or anew in each step. usage: no_leak.py STEPS CASE ...; test_no_leak.py has the cases."""
import sys

import torch
from torch import nn
from torch.nn import functional

CASES = {}
kept = {}


def case(function):
    CASES[function.__name__] = function
    return function


def small():
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)).cuda()


def train(model, optimizer, batch):
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


@case
def workspace(step):
    """A stream's first product of matrices: cuBLAS gets its workspace, for good."""
    if step == 8:
        kept["stream"] = torch.cuda.Stream()
    if step >= 8:
        with torch.cuda.stream(kept["stream"]):
            torch.mm(torch.ones(64, 64, device="cuda"), torch.ones(64, 64, device="cuda"))


@case
def cache(step):
    """More at once than before: what is freed stays with the allocator."""
    pieces = [torch.empty(1 << 20, device="cuda") for _ in range(step)]
    del pieces


@case
def lazy_state(step):
    """An optimizer makes its state at its first step."""
    if step == 0:
        kept["late"] = small()
        kept["late optimizer"] = torch.optim.AdamW(kept["late"].parameters())
    if step >= 8:
        train(kept["late"], kept["late optimizer"], torch.ones(8, 64, device="cuda"))


@case
def autotune(step):
    """Candidates are tried once, with a buffer to flush caches; the best one's buffer stays."""
    if step != 7:
        return
    flush = torch.empty(4 << 20, device="cuda")
    tried = [torch.empty(300000 * (i + 1), device="cuda") for i in range(4)]
    flush.zero_()
    kept["best"] = tried[1]


@case
def convolution(step):
    """cuDNN tries its algorithms for a new shape, each with a workspace."""
    if step >= 6:
        torch.backends.cudnn.benchmark = True
        with torch.no_grad():
            functional.conv2d(torch.ones(4, 3, 32, 32, device="cuda"), torch.ones(8, 3, 3, 3, device="cuda"))


@case
def first_backward(step):
    """Gradients come with the first backward pass and stay where they are set to zero."""
    if step == 0:
        kept["frozen"] = small()
    if step >= 8:
        kept["frozen"](torch.ones(8, 64, device="cuda")).sum().backward()
        for parameter in kept["frozen"].parameters():
            parameter.grad.zero_()


@case
def epochs(step):
    """Each batch has another length; the last one and what came of it are still held."""
    if step == 0:
        kept["model"] = small()
        kept["optimizer"] = torch.optim.AdamW(kept["model"].parameters())
    kept["batch"] = torch.ones(256 * (1 + (4 * step) % 15), 64, device="cuda")
    kept["out"] = kept["model"](kept["batch"])
    train(kept["model"], kept["optimizer"], kept["batch"])


def main():
    steps, names = int(sys.argv[1]), sys.argv[2:] or list(CASES)
    main_model = small()
    optimizer = torch.optim.AdamW(main_model.parameters())
    for step in range(steps):
        for name in names:
            CASES[name](step)
        train(main_model, optimizer, torch.ones(32, 64, device="cuda"))


main()
