# SPDX-License-Identifier: Apache-2.0
"""A model with a buffer that something writes 0x500 bytes past the end of; prints where that is."""
import time

import torch

device = "cuda"
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).to(device)
model[0].register_buffer("history", torch.zeros(1024, device=device))  # line: history
spacer = torch.empty(65536, device=device)  # line: spacer, which lies behind it and goes
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    time.sleep(0.5)  # the helper that reads the tensors has begun
    loss = model(torch.zeros(8, 64, device=device)).sum()
    loss.backward()
    if step == 2:
        history = model[0].history
        print("end", hex(history.data_ptr() + history.numel() * 4), flush=True)
        spacer = None
    optimizer.step()
    optimizer.zero_grad()
