# SPDX-License-Identifier: Apache-2.0
"""The list of scenarios, and how one is run in a process: what their files share.

Importing this needs no PyTorch; load() brings it.
"""
import importlib.util
import os
import re
import sys
import time

SCENARIOS = {}
GIB = 1 << 30


class Scenario:
    """devices: how many it needs; quick: one of the short selection; compiled: it needs Triton and
    a C compiler; since: the release of PyTorch that has it; exact: device memory in use is what the
    contexts take and PyTorch reserved, nothing else."""

    def __init__(self, function, devices, quick, compiled, exact, since, environment):
        self.name = function.__name__
        self.function = function
        self.devices = devices
        self.quick = quick
        self.compiled = compiled
        self.exact = exact
        self.since = since
        self.environment = environment


def scenario(devices=1, quick=False, compiled=False, exact=True, since=(2, 2), **environment):
    def register(function):
        SCENARIOS[function.__name__] = Scenario(function, devices, quick, compiled, exact, since,
                                                environment)
        return function
    return register


_judge = None


def moment(name):
    if _judge:
        _judge(name, sys.argv[1])


def load():
    """Imports PyTorch for every file of scenarios, and the judge's file."""
    global _judge
    import torch
    import models
    for name in {scenario.function.__module__ for scenario in SCENARIOS.values()}:
        module = sys.modules[name]
        module.torch, module.models = torch, models
        module.nn, module.functional = torch.nn, torch.nn.functional
    if os.environ.get("SIMTORCH_AT"):
        place = importlib.util.spec_from_file_location("simtorch_at", os.environ["SIMTORCH_AT"])
        judge = importlib.util.module_from_spec(place)
        place.loader.exec_module(judge)
        _judge = judge.at


def rounded(size):
    """What the caching allocator takes for a request."""
    return (size + 511) // 512 * 512


def parameter_bytes(model):
    return sum(rounded(p.numel() * p.element_size()) for p in model.parameters())


def expect(condition, *what):
    if not condition:
        raise AssertionError(*what)


def foreign_files():
    """Files in the process that look like NVIDIA's and are not the simulation's."""
    ours = [os.path.realpath(p) + "/" for p in os.environ["LD_LIBRARY_PATH"].split(":") if p]
    found = set()
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(None, 5)[5].strip() if line.count("/") else ""
            name = os.path.basename(path)
            if re.match(r"lib(cu|nv|nccl)", name) and \
                    not any(os.path.realpath(path).startswith(place) for place in ours):
                found.add(path)
            if "/nvidia/" in path:
                found.add(path)
    return sorted(found)


def check_driver_memory(torch):
    """The driver gave out what PyTorch says that it reserved, and a context's overhead."""
    for device in range(torch.cuda.device_count()):
        unused, total = torch.cuda.mem_get_info(device)
        reserved = torch.cuda.memory_reserved(device)
        expect(total - unused == GIB // 2 + reserved, device, total - unused, reserved)


def main(name):
    """One scenario, in this process."""
    load()
    import torch
    wanted = SCENARIOS[name]
    if tuple(int(x) for x in torch.__version__.split(".")[:2]) < wanted.since:
        print(f"SKIPPED: {name} needs PyTorch {'.'.join(map(str, wanted.since))}")
        sys.exit(77)
    expect(torch.cuda.device_count() >= wanted.devices, "devices")
    kept = wanted.function()
    moment("end")
    if wanted.exact:
        check_driver_memory(torch)
    foreign = foreign_files()
    expect(not foreign, "NVIDIA's files in the process", foreign)
    print(f"{name}: done", flush=True)
    del kept
    time.sleep(0.15) # Python's end and autograd's threads, which nothing here keeps busy
