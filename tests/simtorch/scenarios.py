# SPDX-License-Identifier: Apache-2.0
"""What PyTorch does with device memory, one function a scenario; each runs in a process of its own.

A function returns what has to stay alive to its end; it raises where something is not as it must be.
At certain points it calls moment(name): "forward", "backward" and "step" in a training's last step,
and whoever runs it adds "end". A file named by SIMTORCH_AT is loaded at the start and its
function at(moment, scenario) called then: that is where a judge looks at both sides.

    python scenarios.py NAME      in the environment of tests/simtorch/run
    run_scenarios.py              all of them; importing this file needs no PyTorch
"""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time

SCENARIOS = {}
GIB = 1 << 30

torch = nn = functional = models = None # load() brings them


class Scenario:
    """devices: how many it needs; quick: one of the short selection; compiled: it needs Triton and a C
    compiler; exact: device memory used is the contexts' and what PyTorch reserved, nothing else."""

    def __init__(self, function, devices, quick, compiled, exact, environment):
        self.name = function.__name__
        self.function = function
        self.devices = devices
        self.quick = quick
        self.compiled = compiled
        self.exact = exact
        self.environment = environment


def scenario(devices=1, quick=False, compiled=False, exact=True, **environment):
    def register(function):
        SCENARIOS[function.__name__] = Scenario(function, devices, quick, compiled, exact,
                                                environment)
        return function
    return register


def moment(name):
    at = globals().get("_at")
    if at:
        at(name, sys.argv[1])


def load():
    """Imports PyTorch, and the judge's file."""
    global torch, nn, functional, models, _at
    import torch as imported
    import models as ours
    torch, models = imported, ours
    nn, functional = torch.nn, torch.nn.functional
    if os.environ.get("SIMTORCH_AT"):
        place = importlib.util.spec_from_file_location("simtorch_at", os.environ["SIMTORCH_AT"])
        module = importlib.util.module_from_spec(place)
        place.loader.exec_module(module)
        _at = module.at


def rounded(size):
    """What the caching allocator takes for a request."""
    return (size + 511) // 512 * 512


def parameter_bytes(model):
    return sum(rounded(p.numel() * p.element_size()) for p in model.parameters())


def expect(condition, *what):
    if not condition:
        raise AssertionError(*what)


# --- optimizers ---

def train_mlp(make, steps=5):
    model = models.mlp()
    expect(torch.cuda.memory_allocated() == parameter_bytes(model), "parameters")
    optimizer = make(model.parameters())
    data = models.regression()
    loss = models.train(model, optimizer, data, steps, moment=moment)
    expect(loss.item() == 0, "a loss that nothing computed", loss.item())
    return model, optimizer, data, loss


@scenario(quick=True)
def mlp_sgd():
    return train_mlp(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))


@scenario()
def adamw_foreach():
    return train_mlp(lambda p: torch.optim.AdamW(p, foreach=True))


@scenario()
def adamw_fused():
    return train_mlp(lambda p: torch.optim.AdamW(p, fused=True))


@scenario()
def adamw_single():
    kept = train_mlp(lambda p: torch.optim.AdamW(p, foreach=False))
    model, optimizer = kept[:2]
    states = sum(rounded(s.numel() * s.element_size()) for state in optimizer.state.values()
                 for s in state.values() if s.is_cuda)
    expect(states == 2 * parameter_bytes(model), "two moments a parameter", states)
    return kept


@scenario()
def other_optimizers():
    kept = []
    for make in (lambda p: torch.optim.Adam(p, capturable=True), torch.optim.RMSprop,
                 torch.optim.Adagrad, torch.optim.NAdam):
        model = models.mlp()
        optimizer = make(model.parameters())
        models.train(model, optimizer, models.regression(), 2)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        kept.append((model, optimizer))
    return kept


# --- transformers ---

def train_transformer(precision=None, scaler=None, **options):
    model = models.Transformer(**options).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    data = models.text()
    loss = models.train(model, optimizer, data, 3, precision, scaler, moment)
    return model, optimizer, data, loss


@scenario(quick=True)
def transformer():
    return train_transformer()


@scenario()
def transformer_multihead():
    return train_transformer(multihead=True)


@scenario()
def transformer_bf16():
    return train_transformer(torch.bfloat16)


@scenario()
def transformer_fp16_scaled():
    return train_transformer(torch.float16, torch.amp.GradScaler("cuda"))


@scenario()
def transformer_checkpointed():
    torch.cuda.reset_peak_memory_stats()
    kept = train_transformer(checkpointed=True)
    checkpointed = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    other = train_transformer()
    expect(torch.cuda.max_memory_allocated() - before > checkpointed, "checkpoints save memory")
    return kept, other


@scenario()
def attention_backends():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    kept = []
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
                    SDPBackend.CUDNN_ATTENTION):
        parts = [torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                 for _ in range(3)]
        with sdpa_kernel(backend):
            output = functional.scaled_dot_product_attention(*parts, is_causal=True, dropout_p=0.125)
            output.sum().backward()
        kept.append((parts, output))
    torch.cuda.synchronize()
    return kept


# --- convolutions, recurrent networks, embeddings ---

def train_resnet(model, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = models.images()
    return model, optimizer, data, models.train(model, optimizer, data, moment=moment, **options)


@scenario(quick=True)
def resnet():
    return train_resnet(models.resnet())


@scenario()
def resnet_channels_last():
    model = models.resnet().to(memory_format=torch.channels_last)
    return train_resnet(model, precision=torch.bfloat16)


@scenario()
def resnet_benchmark():
    torch.backends.cudnn.benchmark = True
    return train_resnet(models.resnet())


@scenario()
def resnet_without_cudnn():
    torch.backends.cudnn.enabled = False
    return train_resnet(models.resnet())


@scenario()
def convolutions():
    return [nn.ConvTranspose2d(4, 4, 3).cuda()(torch.randn(1, 4, 8, 8, device="cuda")),
            nn.Conv3d(2, 2, 3).cuda()(torch.randn(1, 2, 8, 8, 8, device="cuda")),
            nn.Conv2d(4, 4, 3, groups=4).cuda()(torch.randn(1, 4, 8, 8, device="cuda")),
            nn.GroupNorm(2, 4).cuda()(torch.randn(1, 4, 8, 8, device="cuda"))]


@scenario(quick=True)
def recurrent():
    kept = []
    for make in (lambda: nn.LSTM(32, 64, 2, batch_first=True),
                 lambda: nn.GRU(32, 64, 2, batch_first=True, bidirectional=True),
                 lambda: nn.LSTM(32, 64, 1, batch_first=True, proj_size=16),
                 lambda: nn.RNN(32, 64, 2, batch_first=True, bias=False)):
        network = make().to("cuda")
        # The weights became one block, laid out as the library says: the parameters are still apart.
        places = sorted((p.data_ptr(), p.numel() * 4) for p in network.parameters())
        expect(all(a + size <= b for (a, size), (b, _) in zip(places, places[1:])), "overlap")
        output, _ = network(torch.randn(4, 10, 32, device="cuda"))
        output.sum().backward()
        kept.append((network, output))
    return kept


@scenario()
def embedding_sparse():
    table = nn.Embedding(100, 16, sparse=True).to("cuda")
    table(torch.randint(0, 100, (64,), device="cuda")).sum().backward()
    expect(table.weight.grad.is_sparse)
    return table


@scenario()
def embedding_bag():
    table = nn.EmbeddingBag(100, 16).to("cuda")
    table(torch.randint(0, 100, (64,), device="cuda"),
          torch.arange(0, 64, 8, device="cuda")).sum().backward()
    return table


@scenario()
def embedding_large():
    table = nn.Embedding(100000, 16).to("cuda")
    table(torch.randint(0, 100000, (5000,), device="cuda")).sum().backward()
    return table


# --- the allocator ---

@scenario()
def memory_functions():
    block = torch.empty(1 << 20, device="cuda")
    expect(torch.cuda.memory_allocated() == 4 << 20)
    del block
    expect(torch.cuda.memory_reserved() == 20 << 20, "one segment of the cache")
    torch.cuda.empty_cache()
    unused, total = torch.cuda.mem_get_info()
    expect(torch.cuda.memory_reserved() == 0 and total - unused == GIB // 2, unused, total)
    expect(torch.cuda.memory_stats()["allocated_bytes.all.peak"] == 4 << 20)
    expect("Allocated memory" in torch.cuda.memory_summary())
    return torch.empty(1 << 20, device="cuda")


@scenario()
def memory_history():
    torch.cuda.memory._record_memory_history(max_entries=10000)
    kept = train_mlp(torch.optim.AdamW)
    snapshot = torch.cuda.memory._snapshot()
    expect(snapshot["device_traces"][0] and snapshot["device_traces"][0][-1]["frames"])
    expect(sum(segment["total_size"] for segment in snapshot["segments"]) ==
           torch.cuda.memory_reserved())
    with tempfile.TemporaryDirectory() as folder:
        torch.cuda.memory._dump_snapshot(os.path.join(folder, "snapshot.pickle"))
    return kept


@scenario(quick=True, SIMCUDA_MEMORY="8GiB")
def out_of_memory():
    kept, message = [], ""
    try:
        while True:
            kept.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        message = str(error)
    expect(len(kept) == 7, len(kept)) # 8 GiB less half of one for the context
    expect("Tried to allocate 1024.00 MiB" in message, message)
    expect("total capacity of 8.00 GiB of which 512.00 MiB is free" in message, message)
    moment("failed")
    del kept[3]
    kept.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
    return kept


@scenario()
def allocator_settings():
    torch._C._cuda_cudaCachingAllocator_set_allocator_settings(
        "max_split_size_mb:64,roundup_power2_divisions:4,garbage_collection_threshold:0.8")
    torch.cuda.set_per_process_memory_fraction(0.5)
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda")
            for size in (1000, 3 << 20, (5 << 20) + 1, 100 << 20)]
    expect(torch.cuda.memory_allocated() > sum(x.numel() for x in kept))
    try:
        torch.empty(41 * GIB, dtype=torch.uint8, device="cuda")
        raise AssertionError("more than the fraction")
    except torch.OutOfMemoryError:
        return kept


@scenario()
def reused_memory():
    """Blocks that held uploaded values are handed out for results; the host must not see those."""
    values = torch.full((100000,), 7, dtype=torch.int64)
    for _ in range(50):
        uploaded = [values[:n].cuda() for n in (1, 8, 64, 100, 1000, 100000)]
        expect(int(uploaded[3].cpu().sum()) == 700, "uploads are real")
        del uploaded
        counted = torch.arange(1000, device="cuda")
        expect(torch.nonzero(counted).shape[0] == 0)
        expect(counted[counted > 3].shape[0] == 0)
        expect(counted.sum().item() == 0 and counted.median().item() == 0)
        expect(not bool(torch.isnan(counted.float()).any()))
        torch.bincount(counted)
        torch.repeat_interleave(counted)
        functional.one_hot(counted)
    return values


@scenario(quick=True, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
          PYTORCH_ALLOC_CONF="expandable_segments:True")
def expandable_segments():
    kept = train_mlp(torch.optim.AdamW), torch.empty(1 << 28, device="cuda")
    segments = torch.cuda.memory_snapshot()
    expect(all(segment["is_expandable"] for segment in segments))
    return kept


@scenario(PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
          PYTORCH_ALLOC_CONF="backend:cudaMallocAsync", exact=False)
def malloc_async():
    model = models.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = models.regression()
    models.train(model, optimizer, data, moment=moment)
    expect(torch.cuda.get_allocator_backend() == "cudaMallocAsync")
    return model, optimizer, data, capture_training(model, optimizer, data)


@scenario(PYTORCH_NO_CUDA_MEMORY_CACHING="1", exact=False)
def without_cache():
    model = models.mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    data = models.regression()
    return model, optimizer, data, models.train(model, optimizer, data, moment=moment)


PLUGGED = """
#include <stddef.h>
extern int cudaMalloc(void **, size_t);
extern int cudaFree(void *);
void *plugged_allocate(size_t size, int device, void *stream)
{ void *p = NULL; return cudaMalloc(&p, size) ? NULL : p; }
void plugged_free(void *p, size_t size, int device, void *stream) { cudaFree(p); }
"""


@scenario(exact=False)
def pluggable_allocator():
    folder = tempfile.mkdtemp()
    library = os.path.join(folder, "plugged.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=PLUGGED.encode(),
                   check=True)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "plugged_allocate", "plugged_free")
    torch.cuda.memory.change_current_allocator(allocator)
    model = models.mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    models.train(model, optimizer, models.regression())
    os.unlink(library)
    os.rmdir(folder)
    return allocator, model, optimizer


@scenario()
def memory_pool():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(1 << 22, device="cuda")
    outside = torch.empty(1 << 22, device="cuda")
    pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
    expect(pools == {tuple(pool.id), (0, 0)}, pools)
    return pool, inside, outside


@scenario()
def pinned_memory():
    ours = torch.empty(1000, pin_memory=True)
    moved = torch.empty(5000).pin_memory()
    expect(ours.is_pinned() and moved.is_pinned() and not torch.ones(3).is_pinned())
    if hasattr(torch.cuda, "host_memory_stats"):
        expect(torch.cuda.host_memory_stats()["allocated_bytes.current"] > 0)
    return ours, moved, moved.to("cuda", non_blocking=True)


# --- streams, graphs ---

@scenario()
def streams():
    side = torch.cuda.Stream()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    block = torch.ones(1000, device="cuda")
    begin.record()
    with torch.cuda.stream(side):
        doubled = block * 2
        block.record_stream(side)
        end.record(side)
    torch.cuda.current_stream().wait_stream(side)
    side.synchronize()
    end.synchronize()
    expect(begin.elapsed_time(end) >= 0 and begin.query() and side.query())
    del block
    pending = [b for s in torch.cuda.memory_snapshot() for b in s["blocks"]
               if b["state"] == "active_pending_free"]
    expect(len(pending) == 1, "freed, and still another stream's")
    return doubled, side


def capture_training(model, optimizer, data):
    """A training step in a graph with a pool of its own, replayed."""
    inputs, targets, loss_of = data
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            loss_of(model(inputs), targets).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
    for _ in range(4):
        graph.replay()
    torch.cuda.synchronize()
    return graph, loss, side


@scenario(quick=True)
def graph():
    model = models.mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = models.regression()
    kept = capture_training(model, optimizer, data)
    pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
    expect(len(pools) == 2, pools)
    return model, optimizer, data, kept


@scenario()
def graphs_with_pools():
    """Two graphs that share a pool, and one with its own."""
    kept, shared = [], torch.cuda.graph_pool_handle()
    for pool in (shared, shared, None):
        block = torch.randn(1 << 20, device="cuda")
        recorded = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(recorded, pool=pool):
            result = (block * 2).relu() + torch.zeros(1 << 21, device="cuda")[:1 << 20]
        recorded.replay()
        kept.append((block, recorded, result))
    torch.cuda.synchronize()
    pools = {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}
    expect(len(pools) == 3, pools)
    return kept


@scenario()
def graph_with_side_stream():
    """A stream that joins a capture allocates from the capture's pool."""
    side = torch.cuda.Stream()
    block = torch.randn(1 << 20, device="cuda")
    recorded = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(recorded):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            beside = block + 1
        torch.cuda.current_stream().wait_stream(side)
        result = beside * 2
    recorded.replay()
    address = beside.data_ptr()
    pool = next(s["segment_pool_id"] for s in torch.cuda.memory_snapshot()
                if s["address"] <= address < s["address"] + s["total_size"])
    expect(pool != (0, 0), pool)
    return side, block, recorded, beside, result


@scenario()
def graphed_callables():
    model = models.mlp()
    graphed = torch.cuda.make_graphed_callables(
        model, (torch.randn(32, 256, device="cuda", requires_grad=True),))
    optimizer = torch.optim.SGD(graphed.parameters(), lr=0.1)
    data = models.regression()
    return graphed, optimizer, data, models.train(graphed, optimizer, data, moment=moment)


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


@scenario(exact=False)
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
    model = nn.parallel.DistributedDataParallel(models.mlp(), device_ids=[torch.cuda.current_device()])
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
        "isnan": lambda: bool(torch.isnan(x.float()).any()), "allclose": lambda: torch.allclose(x, x),
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


@scenario()
def sizes_and_results():
    kept, failed = [], []
    for name, operation in operations().items():
        try:
            kept.append(operation())
        except Exception as error: # every one is tried
            failed.append(f"{name}: {type(error).__name__} {str(error).splitlines()[0][:100]}")
    expect(not failed, failed)
    expect(kept[0].shape[0] == 0 and kept[3] == 0, "results are 0")
    return kept


# --- one scenario, in this process ---

def foreign_files():
    """Files in the process that look like NVIDIA's and are not the simulation's."""
    ours = [os.path.realpath(p) + "/" for p in os.environ["LD_LIBRARY_PATH"].split(":") if p]
    found = set()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(None, 5)[5].strip() if line.count("/") else ""
            name = os.path.basename(path)
            if re.match(r"lib(cu|nv|nccl)", name) and "site-packages/torch/lib" not in path and \
                    not any(os.path.realpath(path).startswith(place) for place in ours):
                found.add(path)
            if "/nvidia/" in path:
                found.add(path)
    return sorted(found)


def check_driver_memory():
    """The driver gave out what PyTorch says that it reserved, and a context's overhead."""
    for device in range(torch.cuda.device_count()):
        unused, total = torch.cuda.mem_get_info(device)
        reserved = torch.cuda.memory_reserved(device)
        expect(total - unused == GIB // 2 + reserved, device, total - unused, reserved)


def main(name):
    load()
    wanted = SCENARIOS[name]
    expect(torch.cuda.device_count() >= wanted.devices, "devices")
    kept = wanted.function()
    moment("end")
    if wanted.exact:
        check_driver_memory()
    foreign = foreign_files()
    expect(not foreign, "NVIDIA's files in the process", foreign)
    print(f"{name}: done", flush=True)
    del kept
    time.sleep(0.15) # Python's end and autograd's threads, which nothing here keeps busy


if __name__ == "__main__":
    main(sys.argv[1])
