#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks that hang: after three steps rank 1 sleeps in a module, rank 0 waits for it in a collective."""
import os
import time

import torch
from torch import distributed, nn


class Slow(nn.Module):
    asleep = False

    def forward(self, x):
        if self.asleep:
            time.sleep(1000)  # stuck: module
        return x * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(64, 64), Slow()])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def main():
    rank = int(os.environ["RANK"])
    distributed.init_process_group("gloo")
    model = Model().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(5):
        model.layers[1].asleep = step == 3 and rank == 1
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        total = torch.zeros(1)
        distributed.all_reduce(total)  # stuck: collective
        optimizer.step()
        print(step, flush=True)


if __name__ == "__main__":
    main()
