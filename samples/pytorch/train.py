#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer on made-up text, and leaks GPU memory in a way of your choice.

usage: train.py [--steps N] [--leak none|metric|loss|validation|hook] [--device cuda]
Nothing here knows of vramcore: run it as it is, or as `vramcore run ... -- python train.py`.
"""
import argparse

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 1000, 256, 4, 4, 64, 8


class Block(nn.Module):
    """Attention and a feed-forward part, each after a norm and around a residual."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.act, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        batch, length, _ = x.shape
        parts = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Model(nn.Module):
    """Token and position embeddings, the blocks, and a head."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.places(places)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Accuracy:
    """A metric as many write it: it keeps what it is given until it is asked."""

    def __init__(self):
        self.seen = []

    def update(self, logits):
        self.seen.append(logits.detach()[:, -1].clone())  # leak: metric


class Trainer:
    """The training loop. `leak` names the mistake it makes."""

    def __init__(self, device, leak):
        torch.manual_seed(0)
        self.device, self.leak = device, leak
        self.model = Model().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.metric, self.total, self.kept = Accuracy(), 0, []
        if leak == "hook":
            self.model.norm.register_forward_hook(self.keep)

    def keep(self, _module, _inputs, output):
        self.kept.append(output.mean(dim=1))  # leak: hook

    def batch(self):
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
        return tokens[:, :-1].to(self.device), tokens[:, 1:].to(self.device)

    def step(self):
        tokens, targets = self.batch()
        logits = self.model(tokens)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.leak == "metric":
            self.metric.update(logits)
        elif self.leak == "loss":
            self.total = self.total + loss  # leak: loss
        elif self.leak == "validation":
            self.validate()

    def validate(self):
        logits = self.model(self.batch()[0])  # no torch.no_grad()
        self.kept.append(logits.mean())  # leak: validation


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--leak", choices=("none", "metric", "loss", "validation", "hook"), default="metric")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    trainer = Trainer(options.device, options.leak)
    for _ in range(options.steps):
        trainer.step()
    print("trained", options.steps, "steps")


if __name__ == "__main__":
    main()
