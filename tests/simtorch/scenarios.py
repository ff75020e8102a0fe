# SPDX-License-Identifier: Apache-2.0
"""What PyTorch does with device memory, one function a scenario; each runs in a process of its own.

A function returns what has to stay alive to its end; it raises where something is wrong.
At certain points it calls moment(name): "forward", "backward" and "step" in a training's last step,
and whoever runs it adds "end". A file named by SIMTORCH_AT is loaded at the start and its
function at(moment, scenario) called then: that is where a judge looks at both sides.

    python scenarios.py NAME      in the environment of tests/simtorch/run
    run_scenarios.py              all of them; importing this file needs no PyTorch
"""
import os
import subprocess
import sys
import tempfile

from registry import GIB, expect, main, moment, parameter_bytes, rounded, scenario

torch = nn = functional = models = None # registry.load() brings them


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
    make = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)
    return train_transformer(torch.float16, make())


@scenario()
def transformer_checkpointed():
    train_mlp(torch.optim.SGD) # what the libraries take once is there already
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = train_transformer(checkpointed=True)
    checkpointed = torch.cuda.max_memory_allocated() - before
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    other = train_transformer()
    expect(torch.cuda.max_memory_allocated() - before > checkpointed, "checkpoints save memory")
    return kept, other


@scenario(since=(2, 5))
def attention_backends():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    kept = []
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION,
                    SDPBackend.CUDNN_ATTENTION):
        parts = [torch.randn(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
                 for _ in range(3)]
        with sdpa_kernel(backend):
            output = functional.scaled_dot_product_attention(*parts, is_causal=True,
                                                             dropout_p=0.125)
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
        # The weights became one block, laid out as the library says: they are still apart.
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
    except torch.cuda.OutOfMemoryError as error:
        message = str(error)
    expect(len(kept) == 7, len(kept)) # 8 GiB less half of one for the context
    expect("Tried to allocate 1024.00 MiB" in message, message)
    expect("total capacity of 8.00 GiB of which 512.00 MiB is free" in message, message)
    moment("failed")
    del kept[3]
    kept.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
    return kept


SETTINGS = "max_split_size_mb:64,roundup_power2_divisions:4,garbage_collection_threshold:0.8"


@scenario(PYTORCH_CUDA_ALLOC_CONF=SETTINGS, PYTORCH_ALLOC_CONF=SETTINGS)
def allocator_settings():
    torch.cuda.set_per_process_memory_fraction(0.5)
    kept = [torch.empty(size, dtype=torch.uint8, device="cuda")
            for size in (1000, 3 << 20, (5 << 20) + 1, 100 << 20)]
    expect(torch.cuda.memory_allocated() > sum(x.numel() for x in kept))
    try:
        torch.empty(41 * GIB, dtype=torch.uint8, device="cuda")
        raise AssertionError("more than the fraction")
    except torch.cuda.OutOfMemoryError:
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
    recorded, loss, _ = capture_training(model, optimizer, data)
    optimizer.zero_grad(set_to_none=True) # on the simulation a graph's memory ends with it
    del loss
    del recorded
    return model, optimizer, data


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
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library],
                   input=PLUGGED.encode(), check=True)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "plugged_allocate",
                                                         "plugged_free")
    torch.cuda.memory.change_current_allocator(allocator)
    model = models.mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    models.train(model, optimizer, models.regression())
    os.unlink(library)
    os.rmdir(folder)
    return allocator, model, optimizer


@scenario(since=(2, 5))
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
    there = moved.to("cuda", non_blocking=True)
    expect(ours.is_pinned() and moved.is_pinned() and not torch.ones(3).is_pinned())
    if hasattr(torch.cuda, "host_memory_stats"):
        expect(torch.cuda.host_memory_stats()["allocated_bytes.current"] > 0)
    return ours, moved, there


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


@scenario(since=(2, 3))
def graph_with_side_stream():
    """A stream that joins a capture allocates from its pool; before 2.3 only the first did."""
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


import scenarios_wide # noqa: E402,F401: the other half of the list

if __name__ == "__main__":
    import scenarios # the same file by its own name, whose functions other processes can find
    main(sys.argv[1])
