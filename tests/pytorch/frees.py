# SPDX-License-Identifier: Apache-2.0
"""Allocates in one function, lets go in another, and prints the address."""
import torch


def take():
    return torch.empty(12345678, dtype=torch.uint8, device="cuda")  # frees: taken


def let_go(kept):
    kept.clear()  # frees: let go


if __name__ == "__main__":
    tensors = [take()]
    print(hex(tensors[0].data_ptr()))
    let_go(tensors)
