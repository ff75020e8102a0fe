# SPDX-License-Identifier: Apache-2.0
"""Trains on "cuda" and leaks in every way that programs leak, each on a line of its own. The comment
on such a line says what must keep its memory alive: test_growth.py reads it."""
import collections
import contextvars
import functools
import sys

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 16


def ones(size):
    return torch.empty(size, device="cuda")


model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
weight = torch.ones(700, device="cuda", requires_grad=True)
outputs, by_step, failures, finished = [], {}, [], []
variable = contextvars.ContextVar("kept", default=None)
VALUES = []


class Metric:
    def __init__(self):
        self.values = []

    def update(self):
        self.values.append(ones(1200))  # LEAK metric never reset: global `metric` -> Metric.values


class Recurrent:
    state = None

    def forward(self):
        if self.state is None:
            self.state = ones(1)
        self.state = self.state + ones(1400)[:1] * weight[:1]  # LEAK hidden state: global `recurrent` -> Recurrent.state


class Dataset:
    def __init__(self):
        self.cache = {}

    def __getitem__(self, index):
        self.cache[index] = ones(1600)  # LEAK dataset cache: global `dataset` -> Dataset.cache
        return self.cache[index]


class Logger:
    def __init__(self):
        self.records = collections.deque()

    def log(self, **values):
        self.records.append(values)


class Keys:
    def __init__(self):
        self.key_cache = None

    def grow(self, step):
        self.key_cache = ones(2000 * (step + 1))  # LEAK growing KV cache: global `keys` -> Keys.key_cache


metric, recurrent, dataset, logger, keys = Metric(), Recurrent(), Dataset(), Logger(), Keys()


@functools.lru_cache(maxsize=None)
def cached(step):
    return ones(2200)  # LEAK LRU cache: global `cached`


def install():
    kept = []

    def hook(module, inputs, output):
        kept.append(ones(2400))  # LEAK forward hook: global `model` -> module Sequential.1 -> forward hook
    model[1].register_forward_hook(hook)


install()


def retain():
    values = ones(4000)  # LEAK retain_graph: global `retained` -> grad_fn
    loss = (weight[:1] * values).sum()
    loss.backward(retain_graph=True)
    retained.append(loss)


retained = []


def generate():
    kept = []
    while True:
        kept.append(ones(2600))  # LEAK generator: global `running`
        yield


running = generate()


def closure():
    kept = []

    def add():
        kept.append(ones(2800))  # LEAK closure: global `add_to_closure` -> closure of
    return add


add_to_closure = closure()


def fail():
    hoard = ones(3000)  # LEAK exception that holds frames: global `failures`
    raise ValueError(len(hoard))


def validate():
    values = ones(3200)  # LEAK validation without no_grad: global `losses`
    return (weight[:1] * values).sum()


losses = []


def summed(total):
    return total + (weight[:600] * ones(3400)[:600]).sum()  # LEAK loss summed with its graph: global `total`


def in_context():
    kept = variable.get() or []
    kept.append(ones(3600))  # LEAK contextvar: held from C
    variable.set(kept)


def second_order():
    leaf = torch.ones(3800, device="cuda", requires_grad=True)  # LEAK create_graph cycle: create_graph
    (leaf ** 3).sum().backward(create_graph=True)


total = torch.zeros((), device="cuda")
for step in range(STEPS):
    batch = ones((32 + step % 5, 64))
    loss = model(batch).sum()
    metric.update()
    recurrent.forward()
    dataset[step]
    keys.grow(step)
    cached(step)
    next(running)
    add_to_closure()
    try:
        fail()
    except ValueError as error:
        failures.append(error)
    losses.append(validate())
    total = summed(total)
    in_context()
    second_order()
    retain()
    outputs.append(ones(1000))  # LEAK outputs in a list: global `outputs`
    logger.log(loss=ones(1800))  # LEAK tensors in a logger: global `logger` -> Logger.records
    by_step[step] = ones(1100)  # LEAK global dict keyed by step: global `by_step`
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
