# SPDX-License-Identifier: Apache-2.0
"""Scenarios with several devices or processes, of compilers and profilers, and of single
operations; see scenarios.py."""
import os

from registry import expect, load, moment, parameter_bytes, scenario

torch = nn = functional = models = None # registry.load() brings them


# --- several devices, several processes ---

@scenario(devices=2)
def two_devices():
    expect(torch.cuda.can_device_access_peer(0, 1))
    there = torch.ones(5, device="cuda:1")
    uploaded = torch.arange(5.0).to("cuda:1").to("cuda:0")
    expect(uploaded.cpu().tolist() == [0, 1, 2, 3, 4], "peer copies are real")
    model = nn.DataParallel(models.mlp(), [0, 1])
    output = model(torch.randn(32, 256, device="cuda:0"))
    output.sum().backward()
    expect(torch.cuda.memory_allocated(1) >= 512)
    return there, uploaded, model, output


@scenario(devices=4)
def four_devices():
    """A pipeline over four devices, trained."""
    stages = [models.mlp(f"cuda:{i}") for i in range(4)]
    back = [nn.Linear(64, 256).to(f"cuda:{i}") for i in range(4)]
    optimizer = torch.optim.AdamW(p for part in stages + back for p in part.parameters())
    x = torch.randn(32, 256, device="cuda:0")
    for _ in range(2):
        optimizer.zero_grad()
        y = x
        for i, (stage, widen) in enumerate(zip(stages, back)):
            y = widen(stage(y.to(f"cuda:{i}")))
        y.sum().backward()
        optimizer.step()
    expect(len({torch.cuda.memory_allocated(i) for i in range(4)}) >= 1)
    expect(all(torch.cuda.memory_allocated(i) > parameter_bytes(stages[i]) for i in range(4)))
    return stages, back, optimizer, x, y


@scenario()
def data_loader():
    data = torch.utils.data.TensorDataset(torch.randn(256, 256), torch.randn(256, 64))
    model = models.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batches = 0
    for inputs, targets in torch.utils.data.DataLoader(data, batch_size=32, num_workers=2,
                                                       pin_memory=True):
        batch = inputs.to("cuda", non_blocking=True), targets.to("cuda", non_blocking=True)
        models.train(model, optimizer, (*batch, functional.mse_loss), 1)
        batches += 1
    expect(batches == 8, batches)
    return model, optimizer, batch


def free_port():
    import socket
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def join_group(backend, rank=0, ranks=1, port=None):
    import torch.distributed
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port or free_port()), RANK=str(rank),
                      WORLD_SIZE=str(ranks))
    torch.distributed.init_process_group(backend)
    return torch.distributed


@scenario(exact=False)
def ddp_one_rank():
    group = join_group("nccl")
    model = nn.parallel.DistributedDataParallel(models.mlp(), device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = models.regression()
    models.train(model, optimizer, data, moment=moment)
    group.barrier()
    group.destroy_process_group()
    return model, optimizer, data


@scenario(exact=False)
def fsdp1():
    from torch.distributed.fsdp import FullyShardedDataParallel
    group = join_group("nccl")
    model = FullyShardedDataParallel(models.mlp(), device_id=0)
    optimizer = torch.optim.AdamW(model.parameters())
    data = models.regression()
    models.train(model, optimizer, data)
    group.destroy_process_group()
    return model, optimizer, data


@scenario(since=(2, 6), exact=False)
def fsdp2():
    from torch.distributed.fsdp import fully_shard
    group = join_group("nccl")
    model = models.mlp()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    data = models.regression()
    models.train(model, optimizer, data)
    group.destroy_process_group()
    return model, optimizer, data


def rank_main(rank, ranks, backend, port, results):
    """One rank of two: what NCCL moves is moved, and the model trains."""
    load()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    group = join_group(backend, rank, ranks, port)
    if backend == "nccl":
        told = torch.tensor([41 + rank], device="cuda")
        group.broadcast(told, 1)
        everyone = [torch.zeros(1, dtype=torch.long, device="cuda") for _ in range(ranks)]
        group.all_gather(everyone, torch.tensor([rank + 5], device="cuda"))
        expect(told.item() == 42 and [int(x) for x in everyone] == [5, 6], told, everyone)
        received = torch.zeros(3, device="cuda")
        both = [group.P2POp(group.isend, torch.tensor([1.0, 2.0, 3.0]).cuda() * 1, 1 - rank),
                group.P2POp(group.irecv, received, 1 - rank)]
        for work in group.batch_isend_irecv(both):
            work.wait()
    model = nn.parallel.DistributedDataParallel(models.mlp(),
                                                device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    models.train(model, optimizer, models.regression())
    group.destroy_process_group()
    results.put(rank)


def two_ranks(backend):
    spawn = torch.multiprocessing.get_context("spawn")
    results, port = spawn.Queue(), free_port()
    ranks = [spawn.Process(target=rank_main, args=(rank, 2, backend, port, results))
             for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(300)
    expect([process.exitcode for process in ranks] == [0, 0], [p.exitcode for p in ranks])
    expect(sorted(results.get() for _ in ranks) == [0, 1])


@scenario(devices=2, exact=False)
def ddp_gloo_two_ranks():
    two_ranks("gloo")


@scenario(devices=2, quick=True, exact=False)
def ddp_nccl_two_ranks():
    two_ranks("nccl")


# --- compiled, profiled ---

@scenario(compiled=True)
def compiled_mlp():
    model = models.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return models.train(torch.compile(model), optimizer, models.regression()), model, optimizer


@scenario(compiled=True)
def compiled_transformer():
    model = models.Transformer(layers=2).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    return models.train(torch.compile(model), optimizer, models.text()), model, optimizer


@scenario(compiled=True)
def compiled_reduce_overhead():
    model = models.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, mode="reduce-overhead")
    return models.train(compiled, optimizer, models.regression(), 8), model, optimizer


@scenario()
def profiler():
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 profile_memory=True) as profiled:
        model = models.mlp()
        models.train(model, torch.optim.SGD(model.parameters(), lr=0.1), models.regression())
    expect(len(profiled.events()) > 100)
    return model


@scenario()
def jiterator():
    function = torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T f(T x) { return x + 1; }")
    return function(torch.ones(4, device="cuda"))


# --- operations that size things on the device, or read results back ---

def operations():
    x = torch.arange(10, device="cuda")
    eye = torch.eye(4, device="cuda")
    ones = torch.ones
    return {
        "nonzero": lambda: torch.nonzero(x), "mask": lambda: x[x > 3],
        "unique": lambda: torch.unique(x, return_inverse=True, return_counts=True),
        "item": lambda: x.sum().item(), "sort": lambda: torch.sort(x),
        "argsort": lambda: torch.argsort(torch.randn(100000, device="cuda")),
        "topk": lambda: torch.topk(x, 3),
        "multinomial": lambda: torch.multinomial(ones(10, device="cuda"), 3),
        "replaced": lambda: torch.multinomial(ones(10, device="cuda"), 3, replacement=True),
        "isnan": lambda: bool(torch.isnan(x.float()).any()),
        "allclose": lambda: torch.allclose(x, x),
        "equal": lambda: torch.equal(x, x), "where": lambda: torch.where(x > 3),
        "repeat": lambda: torch.repeat_interleave(x, torch.full((10,), 2, device="cuda")),
        "bincount": lambda: torch.bincount(x), "select": lambda: torch.masked_select(x, x > 2),
        "cumsum": lambda: torch.cumsum(x, 0), "histc": lambda: torch.histc(x.float()),
        "one_hot": lambda: functional.one_hot(x),
        "randperm": lambda: torch.randperm(100000, device="cuda"),
        "tolist": x.tolist, "print": lambda: str(torch.randn(5, device="cuda")),
        "clip": lambda: nn.utils.clip_grad_norm_([nn.Parameter(ones(4, device="cuda"))], 1.0),
        "coalesce": lambda: torch.sparse_coo_tensor(
            torch.zeros(1, 4, dtype=torch.long, device="cuda"), ones(4, device="cuda"),
            (4,)).coalesce(),
        "sparse_mm": lambda: torch.sparse.mm(eye.to_sparse(), eye),
        "csr": lambda: eye.to_sparse_csr(), "cholesky": lambda: torch.linalg.cholesky(eye),
        "svd": lambda: torch.linalg.svd(eye), "inverse": lambda: torch.linalg.inv(eye),
        "solve": lambda: torch.linalg.solve(eye, ones(4, device="cuda")),
        "qr": lambda: torch.linalg.qr(eye), "eigh": lambda: torch.linalg.eigh(eye),
        "fft": lambda: torch.fft.fft(ones(16, device="cuda")),
        "ctc": lambda: functional.ctc_loss(
            torch.randn(10, 2, 5, device="cuda").log_softmax(2),
            ones(2, 3, dtype=torch.long, device="cuda"), torch.tensor([10, 10]),
            torch.tensor([3, 3])).item(),
        "dot": lambda: torch.dot(x.float(), x.float()).item(),
        "bmm": lambda: torch.bmm(ones(2, 3, 4, device="cuda"), ones(2, 4, 5, device="cuda")),
        "median": lambda: x.median().item(), "max": lambda: x.max().item(),
        "loss": lambda: functional.cross_entropy(torch.randn(4, 5, device="cuda"),
                                                 torch.tensor([0, 1, 2, 3], device="cuda")).item(),
        "int_mm": lambda: torch._int_mm(torch.zeros(32, 32, dtype=torch.int8, device="cuda"),
                                        torch.zeros(32, 32, dtype=torch.int8, device="cuda")),
        "einsum": lambda: torch.einsum("bij,bjk->bik", ones(2, 3, 4, device="cuda"),
                                       ones(2, 4, 5, device="cuda")),
        "packed": lambda: nn.utils.rnn.pack_padded_sequence(torch.randn(5, 3, 8, device="cuda"),
                                                            [5, 3, 2]),
        "encoder": lambda: nn.TransformerEncoderLayer(32, 4, batch_first=True).cuda().eval()(
            torch.randn(2, 8, 32, device="cuda")),
        "generator": lambda: torch.randn(4, device="cuda",
                                         generator=torch.Generator("cuda").manual_seed(1)),
    }


@scenario(since=(2, 6))
def sizes_and_results():
    kept, failed, wanted = [], [], operations()
    if torch.__version__.startswith("2.6."):
        del wanted["repeat"] # it asks the device whether all counts are positive, and gets a 0
    for name, operation in wanted.items():
        try:
            kept.append(operation())
        except Exception as error: # every one is tried
            failed.append(f"{name}: {type(error).__name__} {str(error).splitlines()[0][:100]}")
    expect(not failed, failed)
    expect(kept[0].shape[0] == 0 and kept[3] == 0, "results are 0")
    return kept
