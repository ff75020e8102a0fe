#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training script made by a seed: model, optimizer, precision, wrapper and ending follow from it.

usage: random_training.py SEED [STEPS]
The model is trained twice in each step: on the CPU, where every number is computed, and on the device
where PyTorch has one. Only numbers of the CPU's are printed, to the last bit, so that two runs can be compared
byte by byte; of the device's model what must be found in memory: its parameters, and how many tensors
its optimizer keeps. Nothing here knows of a recorder.
"""
import contextlib
import copy
import hashlib
import json
import os
import random
import sys
import threading
import warnings

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Rows(nn.Module):
    """A model over [batch, 12, 16], made of any part that keeps that shape."""

    def __init__(self, parts, recompute):
        super().__init__()
        self.parts, self.recompute = nn.ModuleList(parts), recompute
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        for part in self.parts:
            if self.recompute is None:
                x = part(x)
            else:
                x = checkpoint(part, x, use_reentrant=self.recompute)
        return self.head(x.mean(dim=1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRU(16, 16, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(16, 16, 3, padding=1), nn.BatchNorm1d(16)

    def forward(self, x):
        return functional.relu(self.norm(self.conv(x.transpose(1, 2)))).transpose(1, 2)


class Scaled(torch.autograd.Function):
    """A function of the user's own, which keeps tensors in both ways."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor + 0 * x, None


class OwnFunction(nn.Module):
    def forward(self, x):
        return Scaled.apply(x, 1.5)


PARTS = {
    "mlp": lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)),
    "transformer": lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True),
    "recurrent": Recurrent,
    "convolution": Convolution,
    "own function": OwnFunction,
    "norm": lambda: nn.LayerNorm(16),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(16, 16)),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.001, amsgrad=True),
    "adamw foreach": lambda p: torch.optim.AdamW(p, lr=0.001, foreach=True),
    "adamw loop": lambda p: torch.optim.AdamW(p, lr=0.001, foreach=False),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.001, centered=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.001),
    "lbfgs": lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3),
}
PRECISIONS = ("float32", "float32", "bfloat16 autocast", "float16 scaled", "float64")
AUTOCAST = {"bfloat16 autocast": torch.bfloat16, "float16 scaled": torch.float16}
WRAPPERS = ("none", "none", "distributed", "compiled", "data parallel")
EXTRAS = ("schedule", "clip", "accumulate", "average", "hook", "offload", "retain", "warn", "collect", "set to none")
ENDINGS = ("return", "return", "return", "exit 3", "raise", "hard exit 5", "caught")


def wrap(wrapper, model, device):
    if wrapper == "distributed":
        return nn.parallel.DistributedDataParallel(model)
    if wrapper == "compiled":
        return torch.compile(model, backend="aot_eager")
    if wrapper == "data parallel" and device == "cuda":
        return nn.DataParallel(model, device_ids=[0])
    return model


class Run:
    """One model with its optimizer on one device."""

    def __init__(self, choice, model, device):
        self.choice, self.device = choice, device
        self.model = model.to(device)
        if choice["precision"] == "float64":
            self.model = self.model.double()
        self.wrapped = wrap(choice["wrapper"], self.model, device)
        # so large a scale that the first steps overflow where numbers are computed
        scaled = choice["precision"] == "float16 scaled"
        self.scaler = (torch.amp.GradScaler(device, init_scale=2.0 ** 24, enabled=scaled)
                       if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler(enabled=False))
        self.optimizer = OPTIMIZERS[choice["optimizer"]](self.model.parameters())
        self.seen = []
        if "schedule" in choice["extras"]:
            self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        if "average" in choice["extras"]:
            self.average = torch.optim.swa_utils.AveragedModel(self.model)
        if "hook" in choice["extras"]:
            self.model.head.register_forward_hook(lambda m, i, output: self.seen.append(output.detach()))

    def contexts(self):
        stack = contextlib.ExitStack()
        if self.choice["precision"] in AUTOCAST:
            stack.enter_context(torch.autocast(self.device, dtype=AUTOCAST[self.choice["precision"]]))
        if "offload" in self.choice["extras"]:
            stack.enter_context(torch.autograd.graph.save_on_cpu())
        return stack

    def loss(self, x, target):
        with self.contexts():
            return functional.cross_entropy(self.wrapped(x), target)

    def backward(self, batch):
        self.optimizer.zero_grad(set_to_none="set to none" in self.choice["extras"])
        total = 0.0
        for _ in range(2 if "accumulate" in self.choice["extras"] else 1):
            loss = self.loss(*batch)
            self.scaler.scale(loss).backward(retain_graph="retain" in self.choice["extras"])
            total = total + loss.detach()
        if "clip" in self.choice["extras"]:
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        return total

    def step(self, x, target):
        x, target = x.to(self.device), target.to(self.device)
        if self.choice["precision"] == "float64":
            x = x.double()
        if self.choice["optimizer"] == "lbfgs":
            loss = self.optimizer.step(lambda: self.backward((x, target)))
        else:
            loss = self.backward((x, target))
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if "schedule" in self.choice["extras"]:
            self.schedule.step()
        if "average" in self.choice["extras"]:
            self.average.update_parameters(self.model)
        return loss

    def digest(self):
        """Of every parameter, buffer, gradient and piece of optimizer state, to the last bit."""
        total = hashlib.sha256()
        tensors = [*self.model.parameters(), *self.model.buffers(), *self.seen[-2:]]
        tensors += [p.grad for p in self.model.parameters() if p.grad is not None]
        for state in self.optimizer.state.values():
            tensors += [value for value in state.values() if isinstance(value, torch.Tensor)]
        for tensor in tensors:
            total.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        return total.hexdigest()[:24]


    def in_memory(self):
        """Parameters by name, and how many tensors of the optimizer's are on the device."""
        state = [value for one in self.optimizer.state.values() for value in one.values()
                 if isinstance(value, torch.Tensor)]
        return {"parameters": {name: p.nbytes for name, p in self.model.named_parameters()},
                "state": sum(value.device.type == self.device for value in state)}


def choose(seed):
    draw = random.Random(seed)
    choice = {
        "parts": [draw.choice(sorted(PARTS)) for _ in range(draw.randint(1, 4))],
        "recompute": draw.choice((None, None, None, False, True)),
        "optimizer": draw.choice(sorted(OPTIMIZERS)),
        "precision": draw.choice(PRECISIONS),
        "extras": sorted(draw.sample(EXTRAS, draw.randint(0, 3))),
        "ending": draw.choice(ENDINGS),
        "batch": draw.randint(2, 6),
        "wrapper": draw.choice(WRAPPERS),
    }
    # what PyTorch itself does not put together, the last one in 2.2
    if choice["recompute"] is True:
        choice["wrapper"] = "none"
    if choice["precision"] == "float16 scaled" and (
            choice["optimizer"] == "lbfgs" or not hasattr(torch.amp, "GradScaler")):
        choice["precision"] = "float32"
    if choice["wrapper"] == "compiled" and not hasattr(torch.amp, "GradScaler"):
        choice["wrapper"] = "none"
    return choice


def end(choice):
    sys.stdout.flush()
    if choice["ending"] == "exit 3":
        sys.exit(3)
    if choice["ending"] == "raise":
        raise ValueError("the script of this seed ends so")
    if choice["ending"] == "hard exit 5":
        os._exit(5)
    if choice["ending"] == "caught":
        try:
            torch.ones(2, 3) @ torch.ones(2, 3)
        except RuntimeError as error:
            print("caught", str(error).splitlines()[0])


def main():
    seed, steps = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 9
    choice = choose(seed)
    print(choice)
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    if choice["wrapper"] == "distributed":
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    model = Rows([PARTS[part]() for part in choice["parts"]], choice["recompute"])
    runs = [Run(choice, copy.deepcopy(model), "cpu")]
    if torch.cuda.is_available():
        runs.append(Run(choice, model, "cuda"))
    print("devices", *[run.device for run in runs])
    for step in range(steps):
        x, target = torch.randn(choice["batch"], 12, 16), torch.randint(4, (choice["batch"],))
        if "warn" in choice["extras"]:
            warnings.warn("step %d" % step)
        for run in runs[::-1]:
            loss = run.step(x, target)
        if "collect" in choice["extras"]:
            print("collected", sys.getrefcount(loss))
        print(step, float(loss).hex(), runs[0].digest())
    if torch.cuda.is_available():
        print("in memory", json.dumps(runs[-1].in_memory()))
    print("random", torch.randn(1).item().hex(), threading.active_count())
    end(choice)


if __name__ == "__main__":
    main()
