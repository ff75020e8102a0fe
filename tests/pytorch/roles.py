# SPDX-License-Identifier: Apache-2.0
"""Trainings of many kinds, each with the bytes of every role worked out from its shapes.

usage: roles.py NAME ...     in the environment of tests/simtorch/run; each in processes of its own
Where ROLES_FOLDER is set, each process writes PID.json there: for every snapshot that is to come the moment, what
PyTorch says is allocated then and what each role has to be. Three steps are trained; the third is looked at.
"""
import contextlib
import ctypes
import importlib
import json
import os
import pathlib
import socket
import sys
import time

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "simtorch"))

BATCH, INSIDE, WIDE, OUTSIDE = 32, 256, 512, 64
FLOAT, HALF = 4, 2
STEPS = 3
ROOT = 512  # the gradient of a loss that a backward pass begins with
SCENARIOS = {}
expected = []


def scenario(ranks=1, **environment):
    def add(function):
        SCENARIOS[function.__name__] = (function, ranks, environment)
        return function
    return add


# ---- bytes ----

def block(elements, size=FLOAT):
    """What PyTorch's allocator takes for a tensor."""
    return (elements * size + 511) // 512 * 512


def blocks(shapes, size=FLOAT):
    return sum(block(elements, size) for elements in shapes)


MLP = (WIDE * INSIDE, WIDE, OUTSIDE * WIDE, OUTSIDE)  # elements of its parameters
FLAT = sum(MLP)
X, Y = block(BATCH * INSIDE), block(BATCH * OUTSIDE)
LOSS = Y  # mse_loss computes it in a block of its input's shape


def saved(size=FLOAT):
    """What the graph of the MLP keeps beside the batch: before and after the GELU."""
    return 2 * block(BATCH * WIDE, size)


def trained(weights=blocks(MLP), state=None, **before):
    """Both moments of the MLP's training, with what is different before the backward pass."""
    state = 2 * weights if state is None else state
    roles = {"parameter": weights, "optimizer": state, "activation": saved() + Y, "input": X + Y, "other": LOSS + ROOT}
    return roles | before, {"parameter": weights, "optimizer": state, "gradient": weights, "other": X + 2 * Y + LOSS}


def in_half(**before):
    """The same in two bytes: the batch is cast and kept beside; of the output both forms are."""
    return {"activation": block(BATCH * INSIDE, HALF) + saved(HALF) + Y, "input": Y,
            "other": X + LOSS + block(BATCH * OUTSIDE, HALF) + ROOT} | before


# ---- moments ----

def say(moment, roles, more=0):
    """Before a moment of the recorder's own, of which `more` bytes are still to be allocated."""
    expected.append({"moment": moment, "allocated": torch.cuda.memory_allocated() + more, "roles": dict(roles)})


def ask(tag, roles=None, whole=True):
    """A snapshot now, by this thread; without roles only sums are looked at."""
    expected.append({"moment": "now", "tag": tag, "allocated": torch.cuda.memory_allocated(),
                     "roles": None if roles is None else dict(roles),
                     "whole": whole})
    try:
        ctypes.PyDLL(None).vramcore_snapshot()
    except AttributeError:
        pass


def mlp():
    return nn.Sequential(nn.Linear(INSIDE, WIDE), nn.GELU(), nn.Linear(WIDE, OUTSIDE)).to("cuda")


def at_moments(model, out):
    """Snapshots in the middle of things: of what is in flight there only sums are known beforehand."""
    if os.environ.get("ROLES_MOMENTS") != "1":
        return
    if out is not None:
        # of a thread that does not train; while it sleeps the recorder can ask
        out.register_hook(lambda gradient: (ask("mid backward", whole=False), time.sleep(0.5))[1])
        return
    if isinstance(model, nn.Module):
        inner = next(module for module in model.modules() if isinstance(module, nn.GELU))
        handle = inner.register_forward_hook(lambda *_: (ask("mid forward"), handle.remove())[0])


def backward(loss, roles):
    if roles:
        say("before-backward", roles, ROOT)
    loss.backward()


def train(model, roles, around=contextlib.nullcontext, optimizer=None, inside=False, x=None):
    optimizer = optimizer or torch.optim.AdamW(model.parameters())
    before, after = roles
    x = torch.randn(BATCH, INSIDE, device="cuda") if x is None else x
    y = torch.randn(BATCH, OUTSIDE, device="cuda")
    for step in range(STEPS):
        last = step == STEPS - 1
        if last:
            at_moments(model, None)
        with around():
            out = model(x)
            loss = functional.mse_loss(out.float(), y)
            if last:
                at_moments(model, out)
            if inside:
                backward(loss, last and before)
        if not inside:
            backward(loss, last and before)
        if last:
            if os.environ.get("ROLES_MOMENTS") == "1":
                ask("after backward", after)
            say("after-step", after)
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


# ---- one process ----

@scenario()
def plain():
    return train(mlp(), trained())


@scenario()
def autocast():
    """Of the first layer's cast weight nothing is kept: its input needs no gradient."""
    before, after = trained(**in_half(autocast=block(OUTSIDE * WIDE, HALF)))
    return train(mlp(), (before, after | {"other": X + Y + LOSS + block(BATCH * OUTSIDE, HALF)}),
                 lambda: torch.autocast("cuda", torch.bfloat16))


@scenario()
def autocast_inside():
    """The backward pass within the context: its cache holds a copy of every weight, most in C++ alone."""
    before, after = trained(**in_half(autocast=blocks(MLP, HALF)))
    return train(mlp(), (before, after | {"other": X + Y + LOSS + block(BATCH * OUTSIDE, HALF)}),
                 lambda: torch.autocast("cuda", torch.bfloat16), inside=True)


@scenario()
def save_on_cpu():
    before, after = trained(activation=0, input=0, other=X + 2 * Y + LOSS + ROOT)
    return train(mlp(), (before, after), torch.autograd.graph.save_on_cpu)


class Checkpointed(nn.Module):
    LAYERS = 3
    ELEMENTS = (WIDE * INSIDE, WIDE, INSIDE * WIDE, INSIDE) * LAYERS + (OUTSIDE * INSIDE, OUTSIDE)

    def __init__(self, reentrant):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(INSIDE, WIDE), nn.GELU(), nn.Linear(WIDE, INSIDE))
                                    for _ in range(self.LAYERS))
        self.head, self.reentrant = nn.Linear(INSIDE, OUTSIDE), reentrant

    def forward(self, x):
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.head(x)


@scenario()
def checkpoint():
    """Kept are the inputs of the layers, and of the head."""
    return train(Checkpointed(False).cuda(), trained(blocks(Checkpointed.ELEMENTS), activation=3 * X + Y))


@scenario()
def checkpoint_reentrant():
    """Its input has to need a gradient, and so gets one: it is a leaf of the program's own."""
    before, after = trained(blocks(Checkpointed.ELEMENTS), activation=3 * X + Y, input=Y, other=X + LOSS + ROOT,
                            gradient=X)  # of the steps before
    after["gradient"] += X
    x = torch.randn(BATCH, INSIDE, device="cuda", requires_grad=True)
    return train(Checkpointed(True).cuda(), (before, after), x=x)


@scenario()
def functional_weights():
    """Weights outside of all modules, a mask of dropout's, and a batch that no variable holds."""
    first = torch.randn(INSIDE, WIDE, device="cuda", requires_grad=True)
    second = torch.randn(WIDE, OUTSIDE, device="cuda", requires_grad=True)
    head = nn.Linear(OUTSIDE, OUTSIDE).cuda()
    optimizer = torch.optim.SGD([*head.parameters()], 0.1)
    weights = blocks((INSIDE * WIDE, WIDE * OUTSIDE))
    before, after = trained(
        blocks((OUTSIDE * OUTSIDE, OUTSIDE)), 0, gradient=weights,  # nobody clears them
        activation=saved() + block(BATCH * WIDE, 1) + 2 * Y,  # the mask is of bools; the head's input and output
        other=weights + LOSS + ROOT)
    after["gradient"] += weights
    after["other"] += weights

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = head

        def forward(self, x):
            return self.head(x)
    model = Model()
    return train(lambda x: model(functional.dropout(functional.gelu(x @ first), 0.5) @ second), (before, after),
                 optimizer=optimizer), first, second, head


@scenario(TORCH_CUBLAS_WORKSPACE_CACHE="1", CUBLAS_WORKSPACE_CONFIG=":4096:2:16:8")
def workspace():
    """(4096 * 2 + 16 * 8) KiB for each thread that multiplies: this one, and the backward pass's."""
    size = 2 * ((4096 * 2 + 16 * 8) << 10)
    before, after = trained(workspace=size)
    return train(mlp(), (before, after | {"workspace": size}))


@scenario()
def graph():
    """A captured step: gradients and the loss lie in the graph's pool; steps are counted on the device."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
    x, y = torch.randn(BATCH, INSIDE, device="cuda"), torch.randn(BATCH, OUTSIDE, device="cuda")
    before, after = trained(state=2 * blocks(MLP) + len(MLP) * block(1))
    after["other"] = X + Y + LOSS

    def step(last=False):
        optimizer.zero_grad(set_to_none=True)
        loss = functional.mse_loss(model(x), y)
        backward(loss, last and before)
        if last:
            say("after-step", after)
        optimizer.step()
        return loss
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(STEPS - 1):
            step()
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        loss = step(last=True)
    for _ in range(2):
        recorded.replay()
    torch.cuda.synchronize()
    ask("replayed", after)
    return model, optimizer, recorded, loss, x, y


@scenario()
def graphed_callables():
    """What the graphs read and write has fixed places: the batch's, the output's, and gradients of all."""
    model = torch.cuda.make_graphed_callables(mlp(), (torch.randn(BATCH, INSIDE, device="cuda"),))
    before, after = trained(activation=Y, input=Y, other=blocks(MLP) + 2 * X + Y + LOSS + ROOT)
    return train(model, (before, after | {"other": 2 * X + 3 * Y + LOSS}))


class Cache:
    def __init__(self):
        self.key_cache, self.value_cache = [], []


@scenario()
def kv_cache():
    """Told by the names of what holds them; the mask's name ends like one."""
    model, cache = nn.Linear(INSIDE, OUTSIDE).cuda(), Cache()
    cache.mask_cache = torch.zeros(128, 128, device="cuda")
    with torch.no_grad():
        for _ in range(4):
            for kept in (cache.key_cache, cache.value_cache):
                kept.append(torch.zeros(1, 8, 128, 64, device="cuda"))
        del kept  # a shorter way to one of them, whose name says nothing
        for _ in range(100):  # the recorder comes in while the program runs
            out = model(torch.ones(1, INSIDE, device="cuda"))
            time.sleep(0.005)
        ask("decoded", {"parameter": blocks((INSIDE * OUTSIDE, OUTSIDE)), "kv-cache": 8 * block(8 * 128 * 64),
                        "other": block(128 * 128) + block(OUTSIDE)})
    return model, cache, out


# ---- several ranks ----

def group(backend):
    torch.cuda.set_device(int(os.environ["RANK"]))
    torch.distributed.init_process_group(backend)
    return int(os.environ["RANK"])


def buckets(view, backend):
    device = group(backend)
    model = nn.parallel.DistributedDataParallel(mlp(), device_ids=[device], gradient_as_bucket_view=view)
    before, after = trained(communication=block(FLAT))
    after |= {"gradient": block(FLAT)} if view else {"communication": block(FLAT)}
    return train(model, (before, after))


@scenario(ranks=2)
def ddp():
    return buckets(False, "gloo")


@scenario()
def ddp_view():
    """Gradients are views of the buckets, from the backward pass until they are set to None."""
    return buckets(True, "nccl")


def sharded(whole, **options):
    from torch.distributed.fsdp import FullyShardedDataParallel
    device = group("nccl")
    model = FullyShardedDataParallel(mlp(), device_id=device, **options)
    shard = block(FLAT // 2)
    return model, *trained(shard, parameter=shard + whole)


@scenario(ranks=2)
def fsdp1():
    """The root's parameters stay gathered until its backward pass."""
    model, before, after = sharded(block(FLAT))
    return train(model, (before, after))


@scenario(ranks=2)
def fsdp1_original():
    """Parameters as they were, views of the shard; each has its state for the part that lies in it."""
    model, before, after = sharded(block(FLAT), use_orig_params=True)
    first, start, parts = int(os.environ["RANK"]) * (FLAT // 2), 0, []
    for elements in MLP:
        parts.append(max(0, min(start + elements, first + FLAT // 2) - max(start, first)))
        start += elements
    state = {"optimizer": 2 * blocks(parts)}
    return train(model, (before | state, after | state))


def half_after(after):
    return after | {"other": X + Y + LOSS + block(BATCH * OUTSIDE, HALF)}


@scenario(ranks=2)
def fsdp1_mixed():
    from torch.distributed.fsdp import MixedPrecision
    precision = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    model, before, after = sharded(block(FLAT, HALF), mixed_precision=precision)
    return train(model, (before | in_half(), half_after(after)))


def fully_sharded(**options):
    """Each layer by itself: rows of every parameter, the other rank has the rest."""
    from torch.distributed.fsdp import fully_shard
    group("nccl")
    model = mlp()
    for part in (model[0], model[2], model):
        fully_shard(part, **options)
    shard = blocks(elements // 2 for elements in MLP)
    before, after = trained(shard)
    # of a layer's gradients one block is made
    after["gradient"] = block((MLP[0] + MLP[1]) // 2) + block((MLP[2] + MLP[3]) // 2)
    return model, before, after


@scenario(ranks=2)
def fsdp2():
    model, before, after = fully_sharded()
    return train(model, (before, after))


@scenario(ranks=2)
def fsdp2_kept():
    """Gathered parameters stay until the backward pass."""
    model, before, after = fully_sharded(reshard_after_forward=False)
    before["parameter"] += blocks(MLP)
    return train(model, (before, after))


@scenario(ranks=2)
def fsdp2_mixed():
    from torch.distributed.fsdp import MixedPrecisionPolicy
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model, before, after = fully_sharded(mp_policy=policy)
    return train(model, (before | in_half(), half_after(after)))


# ---- a transformer at every moment ----

def transformer_shapes(vocabulary=1000, width=256, layers=4):
    linear = lambda a, b: (a * b, b)
    norm = (width, width)
    layer = (*linear(width, 3 * width), *linear(width, width), *norm, *norm, *linear(width, 4 * width),
             *linear(4 * width, width))
    return (vocabulary * width, 128 * width, *layer * layers, *norm, *linear(width, vocabulary))


def train_transformer(dtype, size, masters=False):
    """Before and after each part of a step: what parameters, gradients and state take, and the sum of all."""
    import models

    shapes, made = transformer_shapes(), models.Transformer().to("cuda", dtype)
    weights, state = blocks(shapes, size), 2 * blocks(shapes, size)
    kept = list(made.parameters())
    if masters:
        kept = [parameter.detach().float() for parameter in made.parameters()]
        weights, state = blocks(shapes, HALF) + blocks(shapes), 2 * blocks(shapes)
    optimizer = torch.optim.AdamW(kept)
    words = torch.zeros(4, 32, dtype=torch.int64, device="cuda")
    for step in range(STEPS):
        roles = {"parameter": weights, "optimizer": state if step else 0, "gradient": 0}
        ask("before forward", roles)
        loss = functional.cross_entropy(made(words).flatten(0, 1).float(), words.flatten())
        ask("before backward", roles)
        if step == STEPS - 1:
            say("before-backward", roles | {"optimizer": state}, ROOT)
        loss.backward()
        roles["gradient"] = blocks(shapes, size)
        ask("after backward", roles)
        if masters:
            for master, parameter in zip(kept, made.parameters()):
                master.grad = parameter.grad.float()
                parameter.grad = None
            roles["gradient"] = blocks(shapes)
            ask("with masters' gradients", roles)
        if step == STEPS - 1:
            say("after-step", roles)
        optimizer.step()
        roles["optimizer"] = state
        ask("after step", roles)
        optimizer.zero_grad()
    return made, optimizer


@scenario()
def transformer():
    return train_transformer(torch.float32, FLOAT)


@scenario()
def transformer_bf16():
    return train_transformer(torch.bfloat16, HALF)


@scenario()
def transformer_masters():
    return train_transformer(torch.bfloat16, HALF, masters=True)


PARTIAL = ("transformer", "transformer_bf16", "transformer_masters")  # of other roles only the sum is known


# ---- processes ----

def child(name, rank, port):
    function, ranks, environment = SCENARIOS[name]
    os.environ.update(environment, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))
    kept = function()
    folder = os.environ.get("ROLES_FOLDER")
    if folder:
        with open(os.path.join(folder, f"{os.getpid()}.json"), "w", encoding="utf-8") as file:
            json.dump({"scenario": name, "rank": rank, "partial": name in PARTIAL, "moments": expected}, file)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    time.sleep(0.15)  # threads of the backward pass end
    return kept


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def fork(name):
    """One process a rank; whether all ended well."""
    port, pids = free_port(), []
    for rank in range(SCENARIOS[name][1]):
        pids.append(os.fork())
        if not pids[-1]:
            child(name, rank, port)
            sys.exit(0)
    return [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)


def main():
    # once for all: what PyTorch imports with a first step takes longer than the step
    for module in ("torch._dynamo", "torch._inductor.config", "torch.distributed.fsdp", "torch.utils.checkpoint",
                   "torch.cuda.graphs"):
        importlib.import_module(module)
    torch.set_num_threads(1)
    failed = [name for name in sys.argv[1:] if not fork(name)]
    print("failed", *failed) if failed else print("ended", len(sys.argv) - 1)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
