#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stacks of Python in recordings against sys._getframe, for every CPython that is found.

usage: test_stacks.py BINARY_FOLDER [bench]

Interpreters: python3.9 to python3.14 of PATH and of pyenv, and those that VRAMCORE_PYTHONS names
(separated by colons). `bench` prints what a stack costs instead. Versions without one are skipped and said. Exit status 77: none was found.
"""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BIN = pathlib.Path(sys.argv[1]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
WRONG = []
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}
ENVIRONMENT.update(LD_LIBRARY_PATH=str(BIN / "simcuda"), PYTHONDONTWRITEBYTECODE="1")


def wrong(text):
    WRONG.append(text)
    if len(WRONG) <= 20:
        print("WRONG", text[:2000], flush=True)


def interpreters():
    """Version to commands, each asked which it is."""
    names = [p for p in os.environ.get("VRAMCORE_PYTHONS", "").split(":") if p]
    for minor in range(8, 15):
        names += [p for p in [f"/usr/bin/python3.{minor}", shutil.which(f"python3.{minor}")] if p]
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    names += sorted(glob.glob(f"{root}/versions/3.*/bin/python3.[0-9]*"))
    found = {}
    for name in dict.fromkeys(names):
        if not re.search(r"python3\.\d+$|\.sh$", name):
            continue
        try:
            said = subprocess.run([name, "-c", "import sys, ctypes, platform; print('%d.%d' % "
                                   "sys.version_info[:2], platform.python_implementation(), "
                                   "sys.executable)"], capture_output=True, text=True, timeout=20,
                                  check=False, env=ENVIRONMENT).stdout.split()
        except OSError:
            continue
        if len(said) == 3 and said[1] == "CPython":
            found.setdefault(said[0], {}).setdefault(said[2], name)
    return {version: list(names.values()) for version, names in found.items()}


def record(python, script, environment=None, status=0):
    """Runs a script; its lines, and the exported tables by process id."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vramcore-python-"))
    try:
        done = subprocess.run([BIN / "vramcore", "run", "--quiet", "--at-exit", "--out", folder / "out",
                               "--", python, HERE / script], env={**ENVIRONMENT, **(environment or {})},
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != status:
            wrong(f"{python} {script}: status {done.returncode}\n{done.stdout[-500:]}{done.stderr[-1500:]}")
        tables = {}
        for snapshot in (folder / "out").glob("*.vramcore"):
            text = subprocess.run([BIN / "vramcore", "export", "--to", "json", snapshot], env=ENVIRONMENT,
                                  capture_output=True, check=True, timeout=100).stdout
            pid = int(re.search(r"\.(\d+)\.step", snapshot.name)[1])
            tables[pid] = json.loads(text.decode("utf-8", "replace"))["tables"]
            tables[pid]["top"] = json.loads(subprocess.run(
                [BIN / "vramcore", "top", "--json", "-n", "0", snapshot], env=ENVIRONMENT,
                capture_output=True, check=False, timeout=100).stdout.decode("utf-8", "replace"))
        return done.stdout.splitlines(), tables
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def chain_of(tables, stack):
    """Frames of a row of source_stacks plus 1."""
    if not stack:
        return []
    row = tables["source_stacks"][stack - 1]
    frames = []
    for entry in tables["source_lists"][row["first"]:row["first"] + row["count"]]:
        frame = tables["source_frames"][entry["frame"] - 1]
        frames.append([frame["file"], frame["function"], frame["line"]])
    return frames


def python_of(tables, what, size):
    if what == "alloc":
        rows = [r["python"] for r in tables["allocations"] if r["size"] == size]
    elif what == "born":
        rows = [r["python"] for r in tables["freed"] if r["size"] == size]
    elif what == "free":
        rows = [r["death_python"] for r in tables["freed"] if r["size"] == size]
    else:
        rows = [r["python"] for r in tables["failures"] if r["requested"] == size]
    return rows


def compare(python, lines, all_tables, cut_at=10**9):
    compared, frames = 0, 0
    for line in lines:
        pid, what, size, expected = json.loads(line)
        tables = all_tables.get(pid)
        if tables is None:
            wrong(f"{python}: no snapshot of process {pid}")
            return 0, 0
        rows = python_of(tables, what, size)
        if not rows:
            # a child's recording does not know what its parent allocated
            wrong(f"{python}: {what} of {size} is not in the recording")
            continue
        got = [chain_of(tables, row) for row in rows]
        if any(chain != expected[:cut_at] for chain in got):
            wrong(f"{python}: {what} of {size}\n  expected {expected[:cut_at]}\n  recorded {got}")
        compared += 1
        frames += len(got[0])
    return compared, frames


def sites_are_merged(python, tables):
    """The frames of one chain: Python's in order, and qsort between the callback and its caller."""
    found = 0
    for device in tables["top"]["devices"]:
        for row in device["rows"]:
            names = [frame["function"] for frame in row["stack"]]
            short = [name.split(".")[-1] if name else "" for name in names]
            if "compare_numbers" not in short or "with_callbacks" not in short:
                continue
            inner, outer = short.index("compare_numbers"), short.index("with_callbacks")
            between = [frame for frame in row["stack"][inner + 1:outer] if frame["module"]]
            if not any("libc.so" in frame["module"] for frame in between):
                wrong(f"{python}: nothing of libc between {names}")
            if any("libcuda" in frame["module"] or frame["file"] and frame["file"].endswith("scenarios.py")
                   for frame in row["stack"][inner + 1:outer]):
                wrong(f"{python}: order of {names}")
            found += 1
    if not found:
        wrong(f"{python}: no site with qsort")


def evidence(tables, key):
    return [(row["value"], row["detail"]) for row in tables["evidence"] if row["key"] == key]


def check_version(version, python):
    lines, tables = record(python, "scenarios.py", {"TEST_FORK": "1"})
    stacks, frames = compare(python, lines, tables)
    for each in tables.values():
        for key in ("python_unreadable", "python_cut", "python_names"):
            if evidence(each, key):
                wrong(f"{python}: {key} {evidence(each, key)}")
        if not each["python_code"]:
            wrong(f"{python}: code that runs Python was not found")
    if tables:
        sites_are_merged(python, max(tables.values(), key=lambda t: len(t["allocations"])))
    lines, tables = record(python, "scenarios.py", {"TEST_DEEP": "1", "TEST_CHURN": "0"})
    compare(python, lines, tables, cut_at=512)
    for each in tables.values():
        if evidence(each, "python_cut") != [(1, "")]:
            wrong(f"{python}: python_cut {evidence(each, 'python_cut')}")
    for _ in range(4):
        record(python, "finalise.py", {"MALLOC_PERTURB_": "165", "PYTHONMALLOC": "malloc"}, status=3)
    print(f"{version} {python}: {stacks} stacks, {frames} frames compared", flush=True)
    if stacks < 1000:
        wrong(f"{python}: only {stacks} stacks were compared")


def check_embedded(version, python, *arguments):
    """The version's libpython inside a program of ours; many builds of an interpreter have none."""
    said = subprocess.run([python, "-c", "import sys, sysconfig; get = sysconfig.get_config_var; "
                           "print(get('LIBDIR'), get('INSTSONAME'), sys.base_prefix, sep='\\n')"],
                          capture_output=True, text=True, check=False, env=ENVIRONMENT).stdout.split("\n")
    library = f"/usr/lib/{os.uname().machine}-linux-gnu/libpython{version}.so.1.0"
    if len(said) >= 3 and os.path.exists(f"{said[0]}/{said[1]}"):
        library = f"{said[0]}/{said[1]}"
    if ".so" not in library or not os.path.exists(library):
        print(f"SKIPPED: {python} has no libpython{version}.so, not embedded", flush=True)
        return
    done = subprocess.run([BIN / "python_embedded", library, *arguments], env={**ENVIRONMENT, "PYTHONHOME": said[2]},
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        wrong(f"{library} embedded: status {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1500:]}")
    print(done.stdout.strip() if arguments else f"{version} {library}: embedded", flush=True)


def check_locals(version, python):
    """What the walk reads of frames' local variables, inside the interpreter."""
    done = subprocess.run([python, HERE / "locals.py", BIN / "libpython_locals.so"], env=ENVIRONMENT,
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        wrong(f"{python} locals: status {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1500:]}")
    print(f"{version} {python}: {done.stdout.splitlines()[-1] if done.stdout else 'nothing'}", flush=True)


def check_refused(version, python):
    _, tables = record(python, "finalise.py", status=3)
    for each in tables.values():
        if evidence(each, "python_unreadable") != [(1, "CPython before 3.9")]:
            wrong(f"{python}: python_unreadable {evidence(each, 'python_unreadable')}")
        if any(row["python"] for row in each["sites"]):
            wrong(f"{python}: stacks of a version that is not known")
    print(f"{version} {python}: refused, as said", flush=True)


def main():
    found = interpreters()
    for version in ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14"):
        if version not in found:
            print(f"SKIPPED: no CPython {version}", flush=True)
        for python in found.get(version, []):
            if sys.argv[2:]:
                check_embedded(version, python, "bench")
                continue
            check_version(version, python)
            check_locals(version, python)
            if not python.endswith(".sh"):
                check_embedded(version, python)
    for python in found.get("3.8", []) if not sys.argv[2:] else []:
        check_refused("3.8", python)
    print(f"{len(WRONG)} wrong")
    if not any(version in found for version in ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")):
        sys.exit(77)
    sys.exit(1 if WRONG else 0)


main()
