# SPDX-License-Identifier: Apache-2.0
"""What the proofs of `run`, `snapshot` and the triggers share.

Every check runs in a folder of its own, on the simulated driver. `expect` notes what differs and
goes on; `main` runs the checks a test names and ends with 1 where anything differed.
"""
import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1])
FULL = os.environ.get("VRAMCORE_FULL", "0") not in ("", "0")
COMMAND = os.path.join(BIN, "vramcore")
ACTOR = os.path.join(BIN, "proof_actor")
PREFIX = "vramcore-run-"
wrong = 0


def expect(found, wanted, what):
    global wrong
    if found != wanted:
        wrong += 1
        print(f"WRONG {what}:\n  wanted {wanted!r}\n  found  {found!r}", flush=True)
    return found == wanted


def environment(**more):
    result = {key: value for key, value in os.environ.items()
              if not key.startswith(("VRAMCORE_", "SIMCUDA_", "LD_PRELOAD", "RANK", "SLURM_"))}
    # a command with AddressSanitizer is to run with LD_PRELOAD as others do
    result.update(ASAN_OPTIONS="verify_asan_link_order=0", LD_LIBRARY_PATH=BIN + "/simcuda", SIMCUDA_DEVICES="1", SIMCUDA_MEMORY="2GiB",
                  SIMCUDA_CONTEXT_OVERHEAD="64MiB", VRAMCORE_DIR=os.getcwd() + "/rec")
    result.update(more)
    return {key: value for key, value in result.items() if value is not None}


def preloaded(**more):
    """The environment of a program that is recorded without `run`."""
    return environment(LD_PRELOAD=BIN + "/libvramcore.so", VRAMCORE_OUT=os.getcwd() + "/out", **more)


def start(arguments, env=None, **more):
    return subprocess.Popen(arguments, env=env or environment(), **more)


def call(arguments, env=None, **more):
    """Runs to the end: status, standard output, standard error."""
    done = subprocess.run(arguments, env=env or environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120, **more)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def run(options, words, env=None, **more):
    return call([COMMAND, "run", "--out", "out", *options, "--", ACTOR, *words], env, **more)


def files(pattern="out/*"):
    return sorted(glob.glob(pattern))


def tables(path):
    status, text, error = call([COMMAND, "export", path, "--to", "json"])
    if status:
        expect((status, error), (0, ""), "export of " + path)
    return json.loads(text)["tables"] if text else None


def process_of(path):
    return tables(path)["process"][0]


def blocks(path, kind="linear"):
    """Sizes of what lives in a file, sorted."""
    return sorted(row["size"] for row in tables(path)["allocations"] if row["kind"] == kind)


def wait_for(condition, what, seconds=30):
    end = time.time() + seconds
    while time.time() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.01)
    expect("nothing", what, "waited in vain")
    return None


def left():
    """What is left in the folder of recordings."""
    return sorted(os.path.relpath(path, "rec") for path in glob.glob("rec/**/*", recursive=True)
                  if os.path.isfile(path) or os.path.islink(path) or path.count(PREFIX))


@contextlib.contextmanager
def folder():
    before = os.getcwd()
    place = tempfile.mkdtemp(prefix="vc-proof-", dir="/dev/shm")
    os.chdir(place)
    os.mkdir("rec")
    try:
        yield place
    finally:
        os.chdir(before)
        if not os.environ.get("PROOF_KEEP"):
            shutil.rmtree(place, ignore_errors=True)


def main(checks):
    names = sys.argv[2:] or list(checks)
    for name in names:
        before, began = wrong, time.time()
        with folder():
            checks[name]()
        print(f"{name}: {'wrong' if wrong > before else 'good'}, {time.time() - began:.1f} s",
              flush=True)
    sys.exit(1 if wrong else 0)
