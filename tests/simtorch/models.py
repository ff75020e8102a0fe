# SPDX-License-Identifier: Apache-2.0
"""Small models of the usual kinds, and one way to train them, for scripts on the simulation."""
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def mlp(device="cuda"):
    return nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 64)).to(device)


class Block(nn.Module):
    """A transformer's layer; attention by nn.MultiheadAttention or by the functional form."""

    def __init__(self, width, heads, multihead):
        super().__init__()
        self.heads = heads
        self.multihead = self.projection = None
        if multihead:
            self.multihead = nn.MultiheadAttention(width, heads, batch_first=True)
        else:
            self.projection = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                  nn.Linear(4 * width, width), nn.Dropout(0.1))

    def attend(self, x):
        if self.multihead:
            return self.multihead(x, x, x, need_weights=False)[0]
        batch, length, width = x.shape
        parts = self.projection(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, length, width)

    def forward(self, x):
        x = x + self.output(self.attend(self.first(x)))
        return x + self.feed(self.second(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary=1000, width=256, heads=4, layers=4, multihead=False,
                 checkpointed=False):
        super().__init__()
        self.checkpointed = checkpointed
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(128, width)
        self.blocks = nn.ModuleList(Block(width, heads, multihead) for _ in range(layers))
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.last(x))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(x + self.second_norm(self.second(inner)))


def resnet(device="cuda"):
    return nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.BatchNorm2d(32), nn.ReLU(),
                         nn.MaxPool2d(3, 2, 1), Residual(32), Residual(32),
                         nn.Conv2d(32, 64, 3, 2, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, 10)).to(device)


def regression(device="cuda"):
    return torch.randn(32, 256, device=device), torch.randn(32, 64, device=device), \
        functional.mse_loss


def images(device="cuda"):
    return torch.randn(8, 3, 64, 64, device=device), torch.randint(0, 10, (8,), device=device), \
        functional.cross_entropy


def text(device="cuda", batch=8, length=128, vocabulary=1000):
    def loss(output, target):
        return functional.cross_entropy(output.view(-1, vocabulary), target)
    return torch.randint(0, vocabulary, (batch, length), device=device), \
        torch.randint(0, vocabulary, (batch * length,), device=device), loss


def train(model, optimizer, data, steps=3, precision=None, scaler=None, moment=None):
    """Trains; in the last step moment(name) is called in "forward", "backward" and after "step"."""
    inputs, targets, loss_of = data
    loss = None
    for step in range(steps):
        last = moment if moment and step == steps - 1 else None
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=precision, enabled=precision is not None):
            output = model(inputs)
            if last:
                last("forward")
                output.register_hook(lambda gradient: last("backward"))
            loss = loss_of(output, targets)
        if scaler:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            optimizer.step()
        if last:
            last("step")
    torch.cuda.synchronize()
    return loss
