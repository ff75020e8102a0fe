#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of several processes, interpreters and threads, one a function.

usage: processes.py NAME [ARGUMENT ...], in the environment of tests/simtorch/run
Where JUDGE_FOLDER is set, tests/simtorch/judge.py keeps PyTorch's side of the moments and asks the
recorder for its own.
"""
import atexit
import gc
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "simtorch"))
import judge  # noqa: E402

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def train(device, steps=4, wrap=None, tag="", judged=True):
    """A small model; moments in the middle of the last step and at the end."""
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)).to(device)
    if wrap:
        model = wrap(model)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        output = model(torch.randn(32, 64).to(device))
        if judged and step == steps - 1:
            judge.moment(tag + "forward")
        output.square().mean().backward()
        if judged and step == steps - 1:
            judge.moment(tag + "backward")
        optimizer.step()
        optimizer.zero_grad()
    if judged:
        judge.moment(tag + "end")
    return model, optimizer


# ---- two ranks under torchrun ----

def rank_main(backend):
    """One rank. A third process of the launcher's never touches a device."""
    import torch
    from torch import distributed

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    distributed.init_process_group(backend)
    wrap = lambda model: torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    kept = train(rank, wrap=wrap)
    distributed.barrier()
    distributed.destroy_process_group()
    return kept


def torchrun(backend):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
               "--rdzv-endpoint", "localhost:0", __file__, "rank", backend]
    subprocess.run(command, check=True)


@program
def rank(backend):
    rank_main(backend)


@program
def torchrun_gloo():
    torchrun("gloo")


@program
def torchrun_nccl():
    torchrun("nccl")


# ---- workers and engines ----

class Rows:
    def __len__(self):
        return 64

    def __getitem__(self, index):
        import torch
        return torch.full((64,), float(index))


def load(context):
    import torch

    loader = torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=2, pin_memory=True,
                                         multiprocessing_context=context)
    kept = train("cuda", tag="before, ")
    rows = [batch.to("cuda", non_blocking=True) for batch in loader]
    judge.moment("loaded")
    print(len(rows), sum(batch.sum().item() for batch in loader))
    return kept, rows


@program
def loader_fork():
    return load("fork")


@program
def loader_spawn():
    return load("spawn")


@program
def loader_forkserver():
    return load("forkserver")


def engine(pipe):
    """What serves requests on the device, in a process of its own."""
    kept = train("cuda", steps=pipe.recv())
    pipe.send(sum(p.numel() for p in kept[0].parameters()))
    pipe.recv()


def serve(context):
    ours, theirs = multiprocessing.get_context(context).Pipe()
    process = multiprocessing.get_context(context).Process(target=engine, args=(theirs,))
    process.start()
    ours.send(3)
    print("parameters", ours.recv())
    ours.send("end")
    process.join()
    print("engine", process.exitcode)


@program
def engine_spawn():
    serve("spawn")


@program
def engine_forkserver():
    serve("forkserver")


@program
def engine_after_import():
    """The parent has PyTorch, and never touches the device; the child is forked."""
    import torch

    print(torch.ones(2).sum().item())
    serve("fork")


# ---- the interpreter's own corners ----

@program
def freeze():
    """Servers that fork move all objects out of the collector's sight, before and after a model is made."""
    gc.freeze()
    first = train("cuda", tag="frozen before, ")
    gc.collect()
    gc.freeze()
    second = train("cuda", tag="frozen after, ")
    print("frozen", gc.get_freeze_count() > 1000)
    gc.unfreeze()  # or libraries complain, in an order of chance, of what is not freed at the end
    return first, second


DRIVER_CALLS = """if True:
    import ctypes
    driver = ctypes.CDLL("libcuda.so.1")
    def take(times):
        made = ctypes.c_uint64()
        while times: # below 0 it goes on for ever, and may outlive the driver
            assert driver.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(4096)) == 0 or times < 0
            assert driver.cuMemFree_v2(made) == 0 or times < 0
            times -= 1
"""


@program
def subinterpreters():
    """Others beside the main one, which run Python and call the driver while it works. There is no
    backward pass beside them: PyTorch then takes the interpreter's lock for held, and refuses."""
    import _xxsubinterpreters as interpreters
    import torch

    model, optimizer = kept = train("cuda", tag="before, ")
    numbers = []  # an interpreter ends with the last object that names it
    for i in range(3):
        number = interpreters.create()
        numbers.append(number)
        interpreters.run_string(number, DRIVER_CALLS + "    take(50)\n")
        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        judge.moment(f"beside {i}")
        if i != 1:
            interpreters.destroy(number)
    print("interpreters", len(interpreters.list_all()))
    return kept


@program
def daemons():
    """Threads in the middle of calls of the driver, or asleep with blocks, when the interpreter ends. Of
    PyTorch's own operations in such threads the program dies by itself, recorded or not."""
    import torch

    torch.cuda.init()
    torch.empty(1, device="cuda")
    ready, space = threading.Barrier(5), {}
    exec(DRIVER_CALLS, space)

    def take():
        with torch.cuda.device(0):
            kept = torch.empty(1 << 14, device="cuda")
        ready.wait()
        space["take"](-1 * kept.shape[0])

    def sleep():
        kept = [torch.empty(1 << 14, device="cuda") for _ in range(20)]
        ready.wait()
        time.sleep(1000 * len(kept))

    for work in (take, take, sleep, sleep):
        threading.Thread(target=work, daemon=True).start()
    ready.wait()
    kept = train("cuda")
    atexit.register(lambda: print("at exit", torch.empty(10, device="cuda").numel()))
    return kept


@program
def late():
    """A thread that trains when the main one has come to its end, and an object of the main module that
    takes blocks while the interpreter takes that down."""
    import torch

    class Late:
        def __init__(self):
            self.kept = torch.empty(100, device="cuda")

        def __del__(self):
            print("ended", self.kept.numel(), self.kept.new_empty(10).numel())

    sys.modules["__main__"].late_object = Late()
    kept = train("cuda")
    # the interpreter waits for it before it ends
    threading.Thread(target=lambda: (time.sleep(0.2), train("cuda", judged=False))).start()
    return kept


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
