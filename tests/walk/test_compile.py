# SPDX-License-Identifier: Apache-2.0
"""torch.compile under the recorder: frames, graphs, graph breaks and fullgraph as without it, while a
moment before the backward pass is taken.

usage: test_compile.py VRAMCORE"""
import glob
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = """
import torch, torch._dynamo as dynamo
model = torch.nn.Linear(4, 4)
x = torch.randn(2, 4)
held = torch.empty(1 << 20, device="cuda")  # the recorder begins at the first block
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def report(name, step):
    dynamo.reset()
    dynamo.utils.counters.clear()
    try:
        for _ in range(4):
            step()
            optimizer.step()
        counters = dynamo.utils.counters
        print(name, dict(counters["frames"]), sum(counters["graph_break"].values()),
              counters["stats"].get("unique_graphs"), flush=True)
    except Exception as error:
        print(name, type(error).__name__, flush=True)

def whole(): model(x).sum().backward()
def grad(): return torch.autograd.grad((model(x) ** 2).sum(), list(model.parameters()))
import time; time.sleep(1)  # so that the helper has begun
for traced in (False, True):
    dynamo.config.trace_autograd_ops = traced
    for full in (False, True):
        compiled = torch.compile(model, backend="eager", fullgraph=full)
        report("model %s %s" % (traced, full), lambda: compiled(x).sum().backward())
        report("step %s %s" % (traced, full), torch.compile(whole, backend="eager", fullgraph=full))
        report("grad %s %s" % (traced, full), torch.compile(grad, backend="eager", fullgraph=full))
"""


def main():
    vramcore = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="vramcore-compile-") as folder:
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
        bare = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True).stdout
        recorded = subprocess.run([vramcore, "run", "--quiet", "--at-step", "2,20", "--", *command],
                                  cwd=folder, stdout=subprocess.PIPE, check=True).stdout
        print(bare.decode(), end="")
        if bare != recorded:
            print("FAIL: under the recorder:\n" + recorded.decode())
            return 1
        moments = set()
        for path in glob.glob(os.path.join(folder, "*", "*.vramcore")):
            report = json.loads(subprocess.run([vramcore, "info", "--json", path], check=False,
                                               stdout=subprocess.PIPE).stdout)
            moments.add(report["file"]["moment"])
        if moments != {"before-backward"}:
            print("FAIL: moments", moments)
            return 1
    return 0


sys.exit(main())
