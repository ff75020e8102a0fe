#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A notebook without a browser: a real kernel runs these cells one after the other.

usage: notebook.py FOLDER [COMMAND ...]
The kernel is started as its specification says, under COMMAND. What the cells print is printed; where one
fails its traceback is, and the exit status is 1.
"""
import sys

from jupyter_client import KernelManager

CELLS = ['''import ctypes, time, torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
recorder = ctypes.CDLL(None)
recorded = hasattr(recorder, "vramcore_v1_snapshot")
''', '''# as a program with a real model has them long before its first step
hooks = __import__("sys").modules["torch.optim.optimizer"]._global_optimizer_post_hooks
end = time.monotonic() + 30
while recorded and not hooks and time.monotonic() < end:
    time.sleep(0.01)
''', '''def train(steps):
    for _ in range(steps):
        model(torch.ones(16, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

train(3)
''', '''kept = [torch.empty(1 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]

train(2)
''', '''if recorded:
    recorder.vramcore_v1_phase(b"after training")
    recorder.vramcore_v1_snapshot()
print(model[0].weight.is_cuda, len(kept))
''']


def main():
    folder, *command = sys.argv[1:]
    manager = KernelManager(ip="127.0.0.1", connection_file=folder + "/connection.json")
    specified = manager.kernel_spec.argv
    manager.kernel_spec.argv = [*command, sys.executable, *specified[1:]]
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    failed = 0
    try:
        client.wait_for_ready(timeout=120)
        for cell in CELLS:
            reply = client.execute_interactive(cell, timeout=120)["content"]
            if reply["status"] != "ok":
                print("\\n".join(reply["traceback"]), file=sys.stderr)
                failed = 1
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    return failed


if __name__ == "__main__":
    sys.exit(main())
