# SPDX-License-Identifier: Apache-2.0
"""Trains a transformer or a ResNet-50 for three steps: whose modules save what.

usage: modules.py transformer|resnet50 [BACKEND]      BACKEND: of torch.compile, which the model then goes through
"""
import pathlib
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "samples" / "pytorch"))
import train  # noqa: E402 pylint: disable=wrong-import-position

# Blocks of each stage and its width inside, as in the paper; a block gives four times its width.
STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu, self.short = nn.ReLU(), None
        if stride != 1 or inside != 4 * width:
            self.short = nn.Sequential(nn.Conv2d(inside, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (self.short(x) if self.short else x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                                  nn.MaxPool2d(3, 2, 1))
        blocks, inside = [], 64
        for stage, (count, width) in enumerate(STAGES):
            for block in range(count):
                blocks.append(Bottleneck(inside, width, 2 if stage and not block else 1))
                inside = 4 * width
        self.blocks, self.pool, self.head = nn.Sequential(*blocks), nn.AdaptiveAvgPool2d(1), nn.Linear(inside, 1000)

    def forward(self, x):
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


class Transformer(nn.Module):
    """The sample's model with flat logits."""

    def __init__(self):
        super().__init__()
        self.model = train.Model()

    def forward(self, tokens):
        return self.model(tokens).flatten(0, 1)


def main():
    if sys.argv[1] == "transformer":
        model, x = Transformer(), torch.randint(1000, (8, 64))
        target = torch.randint(1000, (8 * 64,))
    else:
        model, x, target = ResNet50(), torch.randn(8, 3, 128, 128), torch.randint(1000, (8,))
    model, loss = model.cuda(), nn.CrossEntropyLoss()
    called = torch.compile(model, backend=sys.argv[2]) if len(sys.argv) > 2 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        loss(called(x.cuda()), target.cuda()).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
