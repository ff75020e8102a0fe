#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains one model and prints how fast: run by bench_pytorch.py with and without a recorder.

usage: pytorch_steps.py --model transformer|resnet [--steps N] [--history none|python|all] [--dump FILE]
Prints one line of JSON: steps, seconds by the clock and of the processor, blocks of PyTorch's allocator, and the
training thread's processor time of each step, longest first. Warm-up steps, in which PyTorch imports parts of itself,
are not counted.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import time

import torch
from torch import nn
from torch.nn import functional

WARM_UP = 5
SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "samples" / "pytorch" / "train.py"


class Residual(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.short = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.short(x))


class ResNet(nn.Module):
    """The shape of a ResNet-18, four stages of two blocks."""

    def __init__(self):
        super().__init__()
        widths, blocks = (16, 32, 64, 128), []
        inside = 3
        for stage, width in enumerate(widths):
            for block in range(2):
                blocks.append(Residual(inside, width, 2 if stage and not block else 1))
                inside = width
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(inside, 10)

    def forward(self, x):
        return self.head(self.blocks(x).mean((2, 3)))


def resnet_step():
    model = ResNet().cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        loss = functional.cross_entropy(model(torch.zeros(4, 3, 32, 32, device="cuda")),
                                        torch.zeros(4, dtype=torch.long, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def transformer_step():
    spec = importlib.util.spec_from_file_location("sample", SAMPLE)
    sample = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sample)
    return sample.Trainer("cuda", "none").step


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=("transformer", "resnet"), default="transformer")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--history", choices=("none", "python", "all"), default="none")
    parser.add_argument("--dump")
    options = parser.parse_args()
    if options.history != "none":
        torch.cuda.memory._record_memory_history(stacks=options.history)
    step = transformer_step() if options.model == "transformer" else resnet_step()
    for _ in range(WARM_UP):
        step()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    clock, processor = time.perf_counter(), time.process_time()
    each = []
    for _ in range(options.steps):
        began = time.thread_time()
        step()
        each.append(time.thread_time() - began)
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    blocks = torch.cuda.memory_stats()["allocation.all.allocated"] - before
    if options.dump:
        torch.cuda.memory._dump_snapshot(options.dump)
    print(json.dumps({"steps": options.steps, "seconds": clock, "processor": processor, "blocks": blocks,
                      "each": sorted(each, reverse=True)}), flush=True)
    time.sleep(0.15)
    os._exit(0)  # an interpreter that ends right after a backward may trip over PyTorch's own threads


if __name__ == "__main__":
    main()
