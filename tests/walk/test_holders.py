# SPDX-License-Identifier: Apache-2.0
"""What keeps a tensor alive: leaks as programs have them, each with the way that must be named."""
import atexit
import collections
import contextvars
import functools
import gc
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from walk import Probe

try:
    import torch
    from torch import nn
except ImportError:
    print("SKIPPED: no PyTorch here")
    sys.exit(77)

probe = Probe(sys.argv[1])
SIZE = 4096  # of what leaks: no other tensor here has as many elements
CASES = []


def leak(*wanted):
    """Registers a leak. `wanted`: what its way must say, in this order."""
    def register(function):
        CASES.append((function, wanted))
        return function
    return register


def big(**options):
    return torch.ones(SIZE, **options)


weight = torch.ones(SIZE, requires_grad=True)


class Trainer:
    def __init__(self):
        self.state = None
        self.cache = {("layer", 0): [None] * 10}
        self.seen = []


trainer = Trainer()


@leak("local `total` of loss_sum", "grad_fn AddBackward0", "nodes on MulBackward0", "saved")
def loss_sum(check):
    total = torch.zeros(())
    for i in range(4):
        total = total + (big() * weight).sum()
    check()


@leak("global `outputs` of __main__", "list of 3")
def outputs_in_a_list(check):
    global outputs
    outputs = [big() for _ in range(3)]
    check()
    del outputs


@leak("global `trainer` of __main__", ".state of Trainer", "grad_fn AddBackward0", "MulBackward0",
      "saved")
def hidden_state(check):
    trainer.state = torch.zeros(SIZE)
    small = torch.ones(SIZE)
    for i in range(5):
        trainer.state = trainer.state + big() * weight
    del small
    trainer.state = trainer.state.sum() + 0.0
    check()
    trainer.state = None


@leak("local `loss` of retain_graph", "grad_fn SumBackward0", "saved")
def retain_graph(check):
    loss = (big() * weight).sum()
    loss.backward(retain_graph=True)
    weight.grad = None
    check()


@leak("global `failure` of __main__", "traceback of ValueError", "frame ", "local `hoard`")
def exception_kept(check):
    global failure

    def bad():
        hoard = big()
        raise ValueError(len(hoard))
    try:
        bad()
    except ValueError as error:
        failure = error
    check()
    del failure


@leak("exception being handled, ValueError", "local `hoard`")
def exception_handled(check):
    def bad():
        hoard = big()
        raise ValueError(len(hoard))
    try:
        bad()
    except ValueError:
        check()


@leak("global `trainer` of __main__", ".seen of Trainer", "list of 2", "saved")
def validation_without_no_grad(check):
    trainer.seen = [(big() * weight).sum() for _ in range(2)]
    check()
    trainer.seen = []


@leak("global `metric` of __main__", ".values of Metric", "list of 20")
def metric_never_reset(check):
    global metric

    class Metric:
        def __init__(self):
            self.values = []
    metric = Metric()
    metric.values = [big() for _ in range(20)]
    check()
    del metric


@leak("global `model` of __main__", "module Sequential.1", "forward hook", "closure of",
      "['relu']", "[0] of list of 3")
def forward_hook(check):
    global model
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def install():
        kept = {"relu": []}

        def keep(module, inputs, output):
            kept["relu"].append(big())
        model[1].register_forward_hook(keep)
    install()
    for _ in range(3):
        model(torch.ones(4))
    check()
    del model


@leak("global `dataset` of __main__", ".cache of Dataset", "dict of 100")
def dataset_cache(check):
    global dataset

    class Dataset:
        def __init__(self):
            self.cache = {}
    dataset = Dataset()
    dataset.cache = {i: big() for i in range(100)}
    check()
    del dataset


@leak("in a cycle with its own .grad (create_graph)", ".grad")
def create_graph(check):
    gc.disable()
    leaf = torch.ones(SIZE, requires_grad=True)
    (leaf ** 3).sum().backward(create_graph=True)
    del leaf
    check()


@leak("garbage in a cycle, waits for gc.collect()")
def plain_cycle(check):
    gc.disable()

    class Node:
        pass
    node = Node()
    node.me, node.held = node, big()
    del node
    check()
    gc.enable()
    gc.collect()


@leak("global `closure` of __main__", "closure of closure_leak")
def closure_leak(check):
    global closure

    def make():
        inner = big()
        return lambda: inner
    closure = make()
    check()
    del closure


@leak("global `trainer` of __main__", ".cache of Trainer", "[('layer', 0)]", "[5] of list of 10",
      "[1] of tuple of 2")
def kv_cache(check):
    trainer.cache["layer", 0][5] = (torch.ones(2), big())
    check()
    trainer.cache["layer", 0][5] = None


@leak("global `cached` of __main__", "in _lru_cache_wrapper")
def lru_cache(check):
    global cached

    @functools.lru_cache
    def cached(index):
        return big()
    for i in range(3):
        cached(i)
    check()
    del cached


@leak("global `running` of __main__", "local `item` of generator")
def generator(check):
    global running

    def items():
        item = big()
        yield 1
        del item
    running = items()
    next(running)
    check()
    del running


VARIABLE = contextvars.ContextVar("kept")


@leak("held from C")
def contextvar(check):
    VARIABLE.set([big()])
    check()
    VARIABLE.set(None)


@leak("global `logger` of __main__", ".records of Logger", "deque", "['loss']")
def logger_records(check):
    global logger

    class Logger:
        def __init__(self):
            self.records = collections.deque()
    logger = Logger()
    logger.records.append({"loss": big()})
    check()
    del logger


@leak("global `by_step` of __main__", "dict of 70")
def global_dict(check):
    global by_step
    by_step = {i: big() for i in range(70)}
    check()
    del by_step


@leak("local `mine` of other_thread.<locals>.worker")
def other_thread(check):
    ready, done = threading.Event(), threading.Event()

    def worker():
        mine = big()
        ready.set()
        done.wait()
        del mine
    thread = threading.Thread(target=worker)
    thread.start()
    ready.wait()
    check()
    done.set()
    thread.join()


@leak("global `local_data` of __main__")
def thread_local(check):
    global local_data
    local_data = threading.local()
    local_data.kept = big()
    check()
    del local_data


@leak("global `part` of __main__", "in partial", "tuple of 1")
def partial(check):
    global part
    part = functools.partial(print, big())
    check()
    del part


@leak("held from C")
def at_exit(check):
    kept = [big()]
    atexit.register(len, kept)
    del kept
    check()
    atexit.unregister(len)


@leak("global `Holder` of __main__", ".kept of Holder")
def class_attribute(check):
    global Holder

    class Holder:
        kept = []
    Holder.kept.append(big())
    check()
    del Holder


def count_ways():
    """A list, a dictionary in a list and two views: one way is told, the others are counted; objects on the way."""
    global kept, further
    tensor = big()
    kept, further = [tensor], [{"key": tensor}, {"views": (tensor[1:], tensor[2:])}]
    address = tensor.data_ptr()
    del tensor
    walk = probe.walk()
    storage, = [s for s in walk.storages if s.address == address]
    holder, = [h for h in walk.holders if h.storage == walk.storages.index(storage) + 1]
    del kept, further
    # the list and the tensor; beside it the dictionary, and the tuple twice: each view is a way in
    got = (walk.chain(storage), holder.depth, holder.ways)
    print("ok  " if got[1:] == (2, 3) and "global `kept`" in got[0] else "FAIL", "count_ways |", got)
    return got[1:] != (2, 3) or "global `kept`" not in got[0]


def main():
    failed = count_ways()
    for function, wanted in CASES:
        said = []
        before = {s.address for s in probe.walk(holders=False).storages}

        def check():
            walk = probe.walk()
            held = [s for s in walk.storages if s.bytes == 4 * SIZE and s.address not in before]
            said[:] = [walk.chain(s) or "nothing" for s in held]
        function(check)
        matching = []
        for chain in said:
            at = 0
            for words in wanted:
                at = chain.find(words, at)
                if at < 0:
                    break
                at += len(words)
            else:
                matching.append(chain)
        print("ok  " if matching else "FAIL", function.__name__, "|",
              (matching or said or ["not found"])[0])
        failed += not matching
    print("%d of %d leaks named" % (len(CASES) - failed, len(CASES)))
    return failed != 0


sys.exit(main())
