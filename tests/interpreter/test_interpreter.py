#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The helper in the interpreter: every way a program starts, the steps it counts, its deadlines, and
that the program sees nothing of it.

usage: test_interpreter.py BIN [NAME ...]
VRAMCORE_FULL=1, or the name of one: the starts and counters that take longer, too.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.path.join(HERE, "..", "simtorch", "run")
ENVIRONMENT = os.path.join(HERE, "..", "clients", "make_environment")
PROGRAM = os.path.join(HERE, "program.py")
NOTEBOOK = os.path.join(HERE, "notebook.py")
binaries = os.path.abspath(sys.argv[1])
vramcore = os.path.join(binaries, "vramcore")
names = sys.argv[2:]
# PyTorch 2.2 has no function that every backward pass goes through, and a library of its own for NVTX
OLD = re.match(r"2\.[0-2]\.", os.environ.get("SIMTORCH_VERSION", ""))
failures = 0


def check(what, found, expected):
    global failures
    if found != expected:
        print(f"{what}: {found!r}, not {expected!r}", flush=True)
        failures += 1


def run(arguments, under=(), command=("python",), path=(), text=None):
    """`path`: of Python modules; `text`: what is read from standard input."""
    variables = dict(os.environ, SIMCUDA_DEVICES="2", PYTHONDONTWRITEBYTECODE="1",
                     PYTHONPATH=os.pathsep.join([HERE, *path]), OMP_NUM_THREADS="1")
    done = subprocess.run([RUN, "--bin", binaries, "--", *under, *command, *arguments], env=variables, input=text,
                          stdin=None if text else subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, cwd=HERE, timeout=600)
    if done.returncode == 77:
        print(done.stdout + done.stderr)
        sys.exit(77)
    return done


def tables_of(path):
    exported = subprocess.run([vramcore, "export", path, "--to", "json"], stdout=subprocess.PIPE, check=False)
    return json.loads(exported.stdout)["tables"]


def record(arguments, *options, **more):
    """Snapshots as tables by name, and the finished program."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(arguments, [vramcore, "run", "--out", folder, *options, "--"], **more)
        found = [tables_of(path) for path in sorted(glob.glob(os.path.join(folder, "*.vramcore")))]
    return found, done


def interpreter(expression):
    """What the environment's interpreter says, a line for each."""
    return run(["-c", f"import site, sys, sysconfig; print(*({expression}), sep='\\n')"]).stdout.splitlines()


def embedding(way):
    """A program that embeds the interpreter of the environment, as a command; None: it cannot be made."""
    get = "sysconfig.get_config_var"
    include, library, file, more, executable = interpreter(
        f"sysconfig.get_path('include'), {get}('LIBDIR'), {get}('LDLIBRARY'), {get}('LIBS'), sys.executable")
    program = os.path.join(scratch.name, "embedding")
    if not os.path.exists(os.path.join(include, "Python.h")):
        print(f"SKIPPED embedding_{way}: no {include}/Python.h (of Debian: python3-dev)")
        return None
    name = re.sub(r"^lib(.*)\.(so|a)$", r"-l\1", file)
    made = subprocess.run(
        [*os.environ.get("CC", "cc").split(), "-o", program, os.path.join(HERE, "embedding.c"), "-I" + include,
         "-L" + library, name, "-Wl,-rpath," + library, "-rdynamic", *more.split(), "-ldl", "-lpthread", "-lm"],
        capture_output=True, text=True, check=False)
    if made.returncode:
        print(f"SKIPPED embedding_{way}: {made.stderr}")
        return None
    return [program, way, executable]


def framework(tables):
    return {row["key"]: row["value"] for row in tables["framework"]}


def evidence(tables):
    return {row["key"]: row["value"] for row in tables["evidence"]}


def blocks(tables):
    return [row for row in tables["allocations"] if row["kind"] == "block"]


# name: arguments of python, processes that use the device
STARTS = {
    "script": ([PROGRAM], 1),
    "module": (["-m", "program"], 1),
    "command": (["-c", "import program; program.train()"], 1),
    "isolated": (["-I", PROGRAM], 1),
    "environment": (["-E", PROGRAM], 1),
    "input": (["-"], 1),
    "no_site": (["-S", PROGRAM], 1),
    "embedding_main": ([PROGRAM], 1),
    "embedding_thread": ([PROGRAM], 1),
    "thread": ([PROGRAM, "thread"], 1),
    "spawn": ([PROGRAM, "spawn"], 1),
    "fork": ([PROGRAM, "fork"], 1),
    "forkserver": ([PROGRAM, "forkserver"], 1),
    "loader": ([PROGRAM, "loader"], 1),
    "ranks": (["-m", "torch.distributed.run", "--nproc-per-node", "2", PROGRAM], 2),
}
# name: steps that are counted, and by whom
STEPS = {"accumulate": (4, "optimizer"), "closure": (3, "optimizer"), "two": (6, "optimizer"),
         "scheduler": (4, "optimizer"), "raises": (3, "optimizer"), "program": (102, "program"),
         "scaler": (5, "optimizer"), "scaler_fused": (8, "optimizer"), "scaler_host": (3, "optimizer"),
         "marks": (4, "nvtx"), "inference": (0, "none")}
# what is like others that are run always
LONG = ("module", "command", "environment", "no_site", "input", "embedding_main", "scheduler",
        "scaler_fused", "scaler_host", "kernel")
scratch = tempfile.TemporaryDirectory()


def how_to(name):
    """What the start needs beside its arguments; None: it cannot be had."""
    if name.startswith("embedding_"):
        command = embedding(name.removeprefix("embedding_"))
        return command and {"command": command}
    if name == "input":
        with open(PROGRAM) as file:
            return {"text": file.read()}
    return {"path": interpreter("site.getsitepackages()")} if name == "no_site" else {}


def start(name):
    arguments, processes = STARTS[name]
    more = how_to(name)
    if more is None:
        return
    exits = ["--at-exit"] if name.startswith("embedding_") else []
    found, done = record(arguments, "--at-step", "3", *exits, **more)
    if exits:
        after_the_end(name, [tables for tables in found if tables["process"][0]["trigger"] == "exit"])
        found = [tables for tables in found if tables["process"][0]["trigger"] != "exit"]
    check(f"{name}: exit status", done.returncode, 0)
    check(f"{name}: snapshots", len(found), processes)
    for tables in found:
        facts = framework(tables)
        check(f"{name}: helper", facts.get("interpreter"), "runs")
        check(f"{name}: counter", facts.get("step counter"), "optimizer")
        check(f"{name}: list of segments", facts.get("segments"), "listed")
        check(f"{name}: step", tables["process"][0]["step"], 3)
        check(f"{name}: moment", tables["process"][0]["moment"], "after-step" if OLD else "before-backward")
        judge(name, tables, facts)
        check(f"{name}: tensors", len(tables["tensors"]) > 0, True)
        check(f"{name}: modules", "Sequential.2" in [row["path"] for row in tables["model_modules"]],
              True)


def after_the_end(name, found):
    """The interpreter has ended, its tensors went with it (not the workspaces of older releases of PyTorch);
    the program itself holds 1 MiB."""
    check(f"{name}: at exit", len(found), 1)
    for tables in found:
        check(f"{name}: blocks at exit", [row for row in blocks(tables) if row["size"] < 1 << 20], [])
        check(f"{name}: its own", [row["size"] for row in tables["allocations"]
                                   if row["kind"] == "linear" and row["size"] == 1 << 20], [1 << 20])


def judge(name, tables, facts):
    """PyTorch's own totals and list are the judge of what was recorded."""
    live = blocks(tables)
    by_device = {}
    for row in live:
        by_device[row["device_plus_one"] - 1] = by_device.get(row["device_plus_one"] - 1, 0) + row["size"]
    for device, held in by_device.items():
        check(f"{name}: memory_allocated of {device}", str(held),
              facts.get(f"memory_allocated.{device}"))
    listed = {(row["address"], row["size"], row["requested"]) for row in tables["blocks"]
              if row["state"] == "active_allocated"}
    check(f"{name}: blocks", {(row["address"], row["size"], row["requested"]) for row in live}, listed)
    check(f"{name}: blocks without segment", [row for row in live if not row["segment"]], [])
    check(f"{name}: states", {row["block_state"] for row in live}, {"active_allocated"})
    models = {row["module"] for row in live}
    check(f"{name}: modules of blocks", models <= {"", "Sequential", "Sequential.0", "Sequential.1",
                                                   "Sequential.2"}, True)


def visible():
    bare = run([PROGRAM])
    _, recorded = record([PROGRAM], "--at-step", "1,2,3", "--quiet")
    check("visible: output", recorded.stdout, bare.stdout)
    check("visible: errors", recorded.stderr, bare.stderr)
    check("visible: what it sees", json.loads(recorded.stdout),
          {"modules": [], "path": json.loads(bare.stdout)["path"], "device": 0, "contexts": [True, False],
           "globals": [], "threads": ["MainThread"], "warnings": [], "error": True})


def steps(name):
    expected, counter = STEPS[name]
    found, done = record([PROGRAM, name], "--at-exit", "--step-mark", "request*")
    check(f"{name}: exit status", done.returncode, 0)
    if name.startswith("scaler"):  # what the optimizer itself counts
        check(f"{name}: said", done.stdout, f"{expected}\n")
    check(f"{name}: snapshots", len(found), 1)
    for tables in found:
        check(f"{name}: steps", tables["process"][0]["step"], expected)
        check(f"{name}: counter", framework(tables).get("step counter"), counter)


def busy():
    found, done = record([PROGRAM, "busy"], "--every", "1s")
    check("busy: exit status", done.returncode, 0)
    check("busy: snapshots", len(found) >= 2, True)
    check("busy: with the interpreter",
          [framework(tables).get("segments") for tables in found if blocks(tables)],
          ["listed"] * sum(1 for tables in found if blocks(tables)))


def line_of(words):
    with open(PROGRAM, encoding="utf-8") as program:
        return next(number for number, line in enumerate(program, 1) if words in line)


def held():
    """The moment comes all the same, and says what it lacks."""
    found, done = record([PROGRAM, "held"], "--every", "1s")
    check("held: exit status", done.returncode, 0)
    missed = [evidence(tables).get("interpreter_missed") for tables in found]
    check("held: said", any(missed), True)
    # who holds it up: the line that calls the library
    said = {row["detail"] for tables in found for row in tables["evidence"]
            if row["key"] == "interpreter_missed"}
    wanted = r"thread \d+ \(python\S*\) in how_held of program.py:%d" % line_of("PyDLL(None).usleep")
    check("held: by whom", [text for text in said if not re.search(wanted, text)], [])
    # totals of counters are those of the time of reading: a later moment says it too
    check("held: its blocks", any(len(blocks(tables)) == 4 and not tables["walks"] for tables in found
                                  if evidence(tables).get("interpreter_missed")), True)


def daemon():
    found, done = record([PROGRAM, "daemon"], "--at-step", "2", "--every", "1s", "--at-exit")
    # an operation that the end of the interpreter cuts off aborts the program, recorded or not: by chance
    check("daemon: exit status", done.returncode in (0, -6) and
          run([PROGRAM, "daemon"]).returncode in (0, -6), True)
    check("daemon: snapshots", len(found) > 0, True)


def lines_by(path, verb, *options):
    return subprocess.run([vramcore, verb, *options, path], capture_output=True, text=True, check=False).stdout


def kernel():
    """A notebook: its cells have their numbers in every report, and a moment that a cell asks for."""
    packages = os.path.join(os.environ.get("SIMTORCH_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "vramcore"), "ipykernel")
    made = subprocess.run([ENVIRONMENT, packages, "ipykernel", "jupyter_client"], capture_output=True, text=True,
                          check=False)
    if made.returncode:
        print(f"SKIPPED kernel: {made.stdout}{made.stderr}")
        return
    path = glob.glob(os.path.join(packages, "lib", "python3*", "site-packages"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(IPYTHONDIR=folder, JUPYTER_CONFIG_DIR=folder, JUPYTER_RUNTIME_DIR=folder)
        bare = run([NOTEBOOK, folder], path=path)
        out = os.path.join(folder, "out")
        done = run([NOTEBOOK, folder, vramcore, "run", "--quiet", "--out", out, "--at-step", "3,5", "--"], path=path)
        check("kernel: status and output", (done.returncode, done.stdout, done.stderr),
              (bare.returncode, bare.stdout, bare.stderr))
        check("kernel: bare", (bare.returncode, bare.stdout), (0, "True 3\n"))
        for trigger, step, phase in ("step", 3, ""), ("step", 5, ""), ("request", 5, "after training"):
            look_at_kernel(glob.glob(f"{out}/*.step{step}.{trigger}.vramcore"), step, phase)


def look_at_kernel(paths, step, phase):
    check(f"kernel: snapshots of {step}", len(paths), 1)
    for path in paths:
        tables = tables_of(path)
        process = tables["process"][0]
        check(f"kernel: {step}, step", (process["step"], process["phase"]), (step, phase))
        check(f"kernel: {step}, helper", (framework(tables)["interpreter"], framework(tables)["step counter"]),
              ("runs", "optimizer"))
        cells = sorted(value for key, value in framework(tables).items() if key.startswith("cell "))
        check(f"kernel: {step}, cells", cells, list("12345" if phase else "1234" if step == 5 else "123"))
        sites = lines_by(path, "top")
        for line in ["cell In[1]:2  <module>", "cell In[3]:4  train"] + ["cell In[4]:1  "] * (step == 5):
            check(f"kernel: {step}, {line} in {sites}", line in sites, True)
        parameters = {row["name"]: row["bytes"] for row in tables["tensors"] if row["type"] == "Parameter"}
        check(f"kernel: {step}, parameters", parameters,
              {"Sequential.0.weight": 256 * 64 * 4, "Sequential.0.bias": 256 * 4,
               "Sequential.2.weight": 8 * 256 * 4, "Sequential.2.bias": 8 * 4})
        roles = {row["what"]: row for row in json.loads(lines_by(path, "info", "--json"))["devices"][0]["ledger"]}
        check(f"kernel: {step}, state", roles["optimizer state"]["count"], 8)
        if step == 5:
            held = lines_by(path, "holders")
            check(f"kernel: {step}, {held}", "__main__ global `kept` -> list of 3" in held, True)


def main():
    cases = [(name, start) for name in STARTS] + [(name, steps) for name in STEPS]
    cases += [(name, None) for name in ("visible", "busy", "held", "daemon", "kernel")]
    full = os.environ.get("VRAMCORE_FULL") == "1"
    for name, case in cases:
        if name not in names if names else name in LONG and not full:
            continue
        if OLD and name in ("marks", "scaler_host"):
            print(f"SKIPPED {name}: this release of PyTorch has none")
            continue
        if case:
            case(name)
        else:
            globals()[name]()
    print(f"{failures} differences")
    return 1 if failures else 0


sys.exit(main())
