# SPDX-License-Identifier: Apache-2.0
"""What a walk over tensors takes of the thread that makes it, and with holders, by storages and by
objects of the heap, beside the same in Python: in one run, in turns.

usage: tests/simtorch/run python tests/bench/bench_walk.py LIBWALK_PROBE.so [ROUNDS]
Milliseconds of the calling thread's processor time, the best of the rounds: the GIL is held for
that long. The peers: a walker and a search for holders in Python (the same roles and ways from
roots, without words and rows), and the two calls of `gc` that a person would begin with."""
import gc
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "walk"))
import torch
from walk import Probe

BASE = torch._C.TensorBase
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 3
FOLDER = "/dev/shm" if os.path.isdir("/dev/shm") else None
probe = Probe(sys.argv[1], FOLDER)


class Walker:
    """Tensors, their storages, the graph and what it saved: what a program would write."""

    def __init__(self):
        self.data_ptr, self.offset, self.size = BASE.data_ptr, BASE.storage_offset, BASE.element_size
        self.grad_fn, self.grad, self.leaf = (BASE.grad_fn.__get__, BASE.grad.__get__, BASE.is_leaf.__get__)
        self.is_view, self.base = BASE._is_view, BASE._base.__get__
        self.rows, self.storages, self.kept, self.kinds, self.names = {}, {}, [], {}, {}

    def kind(self, cls):
        kind = self.kinds.get(cls)
        if kind is None:
            mro = type.mro(cls) if cls is not type else (type, object)
            kind = 1 if BASE in mro else 2 if any("next_functions" in vars(c) for c in mro) else 0
            self.kinds[cls] = kind
            self.names[cls] = [n for c in mro for n in vars(c) if n.startswith("_raw_saved_")]
        return kind

    def put(self, tensor, found):
        number = id(tensor)
        if number in self.rows:
            return
        address = self.data_ptr(tensor)
        if address:
            address -= self.offset(tensor) * self.size(tensor)
        self.rows[number] = (tensor, address, BASE.dtype.__get__(tensor), tuple(BASE.shape.__get__(tensor)),
                             BASE.stride(tensor), BASE.requires_grad.__get__(tensor), found)
        self.storages.setdefault(address, []).append(number)

    def saved(self, node):
        for name in self.names[type(node)]:
            value = getattr(node, name, None)
            for one in value if isinstance(value, tuple) else (value,):
                if one is None:
                    continue
                data = one.data
                if data is not None and one.unpack_hook is None:
                    self.kept.append(data)
                    self.put(data, "saved")

    def walk(self):
        objects = gc.get_objects()
        tensors = [o for o in objects if self.kind(type(o)) == 1]
        nodes = [o for o in objects if self.kind(type(o)) == 2]
        for tensor in tensors:
            if self.leaf(tensor):
                gradient = self.grad(tensor)
                if gradient is not None:
                    self.kept.append(gradient)
                    self.put(gradient, "gradient")
            of = self.base(tensor) if self.is_view(tensor) else tensor
            nodes.append(self.grad_fn(of))
        seen = set()
        while nodes:
            node = nodes.pop()
            if node is None or id(node) in seen or self.kind(type(node)) != 2:
                continue
            seen.add(id(node))
            self.kept.append(node)
            self.saved(node)
            nodes.extend(pair[0] for pair in node.next_functions)
        for tensor in tensors:
            self.put(tensor, "object")
        return len(self.storages), len(seen)


def python_walk():
    collecting = gc.isenabled()
    gc.disable()
    try:
        with torch._C.DisableTorchFunction():
            return Walker().walk()
    finally:
        if collecting:
            gc.enable()


def python_holders():
    """Parents of everything that the globals of modules and the frames reach; edges of the heap only."""
    parent, queue = {}, []
    gc.disable()
    roots = [frame.f_locals for frame in sys._current_frames().values()]
    roots += [vars(module) for module in list(sys.modules.values()) if type(module) is type(sys)]
    for root in roots:
        parent[id(root)] = None
        queue.append(root)
    get, tracked = gc.get_referents, gc.is_tracked
    for holder in queue:
        for held in get(holder):
            if id(held) not in parent and tracked(held):
                parent[id(held)] = holder
                queue.append(held)
    gc.enable()
    return len(parent)


def spent(function):
    began = time.thread_time()
    function()
    return (time.thread_time() - began) * 1e3


def walk(holders):
    def run():
        run.path = probe.ask(holders=holders)[0]
    took = spent(run)
    run.size = os.path.getsize(run.path)
    run.summary = probe.read(run.path, summary_only=True).walk
    return took, run.summary, run.size


def measure(target):
    ways = {"walk": lambda: walk(False)[0], "python": lambda: spent(python_walk),
            "get_objects": lambda: spent(gc.get_objects), "referrers": lambda: spent(lambda: gc.get_referrers(target)),
            "holders": lambda: walk(True)[0], "python holders": lambda: spent(python_holders)}
    rows = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            rows[name].append(way())
    best = {name: min(values) for name, values in rows.items()}
    best["only holders"] = max(best["holders"] - best["walk"], 0)
    return best


def nodes_of(storages):
    return storages * 3 // 8


def fill(storages, objects, kept):
    """Three of eight storages are saved by a graph, each by a node of its own, the others are objects; lists
    until the heap has so many objects."""
    weight = torch.ones(8, requires_grad=True)
    nodes = nodes_of(storages)
    for i in range(nodes):
        if i % 100 == 0:
            x = weight
        x = x * torch.ones(8)
        if i % 100 == 99 or i == nodes - 1:
            kept.append(x)
    kept.extend(torch.ones(8) for _ in range(storages - nodes))
    kept.extend([[i] for i in range(max(objects - len(gc.get_objects()), 0))])


def main():
    print("| storages | nodes | objects | walk | Python | of it | holders | get_objects + get_referrers | times it | "
          "BFS in Python | of it | memory | file |")
    print("|--:" * 13 + "|")
    for storages, objects in ((1000, 0), (10000, 0), (100000, 0), (1000, 1000000)):
        kept = []
        fill(storages, objects, kept)
        best = measure(kept[-1])
        _, summary, size = walk(True)
        found = len(probe.read(probe.ask(holders=False)[0]).storages)
        calls = best["get_objects"] + best["referrers"]
        print("| %d | %d | %d | %.0f | %.0f | %.2f | %.0f | %.0f | %.2f | %.0f | %.2f | %.1f MB | %.1f MB |" % (
            found, nodes_of(storages), summary.objects, best["walk"], best["python"], best["walk"] / best["python"],
            best["only holders"], calls, best["only holders"] / calls, best["python holders"],
            best["only holders"] / best["python holders"], summary.memory / 1e6, size / 1e6), flush=True)


main()
