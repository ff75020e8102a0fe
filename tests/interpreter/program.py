#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a little in one of many ways, and says what of the recorder it can see.

usage: program.py HOW      the functions below named how_HOW
"""
import ctypes
import json
import multiprocessing
import os
import sys
import threading
import time
import warnings

import torch

PATH = list(sys.path)
STEPS = 5


def hooks():
    return sys.modules["torch.optim.optimizer"]._global_optimizer_post_hooks


def wait_for_hooks():
    """A program with a real model has them long before its first step."""
    end = time.monotonic() + (30 if "vramcore" in os.environ.get("LD_PRELOAD", "") else 0)
    while not hooks() and time.monotonic() < end:
        time.sleep(0.01)


def model():
    made = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    made = made.to(f"cuda:{os.environ.get('LOCAL_RANK', 0)}")
    wait_for_hooks()
    return made


def step(net, optimizer, **more):
    where = next(net.parameters()).device
    net(torch.ones(16, 64, device=where)).sum().backward()
    optimizer.step(**more)
    optimizer.zero_grad()


def train():
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(STEPS):
        step(net, optimizer)
    return net


def how_script():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train()
    print(json.dumps({
        "modules": sorted(name for name in sys.modules if "vram" in name),
        "path": sys.path == PATH,
        "device": torch.cuda.current_device(),
        "contexts": [torch._C._cuda_hasPrimaryContext(device) for device in range(torch.cuda.device_count())],
        "globals": sorted(name for name in vars(sys.modules["__main__"]) if "vram" in name),
        "threads": [thread.name for thread in threading.enumerate()],
        "warnings": [str(one.message) for one in caught],
        "error": sys.exc_info()[0] is None,
    }))


def how_thread():
    """Main waits in C all the time."""
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()


def how_daemon():
    """The interpreter ends while another thread trains."""
    def run():
        while True:
            train()
    threading.Thread(target=run, daemon=True).start()
    time.sleep(2)


def start_child(way):
    child = multiprocessing.get_context(way).Process(target=train)
    child.start()
    child.join()
    sys.exit(child.exitcode)


def how_spawn():
    start_child("spawn")


def how_fork():
    start_child("fork")


def how_forkserver():
    start_child("forkserver")


def how_loader():
    """Workers that never touch the device."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.ones(64, 64))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=16, num_workers=2):
        net(batch.to("cuda")).sum().backward()
        optimizer.step()


def how_accumulate():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for index in range(12):
        net(torch.ones(4, 64, device="cuda")).sum().backward()
        if index % 3 == 2:
            optimizer.step()


def how_closure():
    """One step of L-BFGS asks for the loss many times."""
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)

    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(4, 64, device="cuda")).sum()
        loss.backward()
        return loss
    for _ in range(3):
        optimizer.step(closure)


def how_two():
    """Two optimizers, of which one steps more often."""
    one, two = model(), model()
    first = torch.optim.SGD(one.parameters(), lr=0.1)
    second = torch.optim.SGD(two.parameters(), lr=0.1)
    for index in range(6):
        step(one, first)
        if index % 2:
            step(two, second)


def how_scheduler():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(4):
        step(net, optimizer)
        scheduler.step()


def how_raises():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    class Refused(Exception):
        pass

    def closure():
        raise Refused
    for index in range(4):
        try:
            optimizer.step(closure if index == 1 else None)
        except Refused:
            pass


def how_program():
    """What the program counts itself goes before the optimizer's count."""
    library = ctypes.CDLL(None)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for index in range(3):
        step(net, optimizer)
        if hasattr(library, "vramcore_step"):
            library.vramcore_step(ctypes.c_uint64(100 + index))


def scaled(**more):
    """A GradScaler that finds infinite gradients in steps 2, 5 and 6 of 8: it reads its finding from the device,
    where nothing is computed, so it is uploaded."""
    net, overflows = model(), False
    optimizer = torch.optim.AdamW(net.parameters(), **more)
    scaler = torch.amp.GradScaler("cuda") if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler()
    check = torch._amp_foreach_non_finite_check_and_unscale_

    def unscale(gradients, found, inverse):
        check(gradients, found, inverse)
        if overflows:
            found.copy_(torch.ones(1)[0])
    torch._amp_foreach_non_finite_check_and_unscale_ = unscale
    for index in range(1, 9):
        overflows = index in (2, 5, 6)
        scaler.scale(net(torch.ones(16, 64, device="cuda")).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return optimizer, next(net.parameters())


def how_scaler():
    optimizer, parameter = scaled()
    print(int(optimizer.state[parameter]["step"]))


def how_scaler_fused():
    """The device alone knows that it has to skip: the optimizer steps each time."""
    scaled(fused=True)
    print(8)


def how_scaler_host():
    """Numbers are computed: 2 ** 127 overflows until the scale is small enough, which takes many steps."""
    model()
    torch.manual_seed(0)
    net = torch.nn.Linear(64, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** 127)
    for _ in range(8):
        scaler.scale(net(torch.ones(16, 64)).square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    print(int(optimizer.state[net.weight]["step"]))


def how_marks():
    """No optimizer: marks say where a step ends."""
    net = model()
    with torch.no_grad():
        for index in range(1, 5):
            net(torch.ones(16, 64, device="cuda"))
            torch.cuda.nvtx.mark("request %d" % index)


def how_inference():
    net = model()
    with torch.no_grad():
        for _ in range(3):
            net(torch.ones(16, 64, device="cuda"))


def how_busy():
    """Time goes by in plain Python."""
    kept = model()
    end = time.monotonic() + 3
    while time.monotonic() < end:
        pass
    del kept


def how_held():
    """A library sleeps with the interpreter's lock in its hands."""
    kept = model()
    ctypes.PyDLL(None).usleep(3000000)
    del kept


if __name__ == "__main__":
    globals()["how_" + (sys.argv[1] if len(sys.argv) > 1 else "script")]()
    # an end right after a backward pass trips over PyTorch's own threads now and then, recorded or not
    time.sleep(0.15)
