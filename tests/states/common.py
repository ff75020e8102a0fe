# SPDX-License-Identifier: Apache-2.0
"""What the tests of states share: a program in a state, its core files, the command with a deadline."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest


def skip(why):
    """Ends the whole script: nothing of it can run here."""
    print("SKIPPED:", why, flush=True)
    raise SystemExit(77)


def lines_of(source):
    """Line numbers by the name in the comment `line: NAME`."""
    found = {}
    for number, line in enumerate(pathlib.Path(source).read_text().splitlines(), 1):
        if "/* line: " in line:
            found[line.split("/* line: ")[1].split(" ")[0]] = number
    return found


def process_state(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come to that state")
        time.sleep(0.02)


class Target:
    """The program in one state; `value` has what it said."""

    def __init__(self, case, *arguments, environment=None, program=None, library=None, prefix=()):
        self.case = case
        program = program or case.bin / "states_target"
        environment = case.environment | {"LD_PRELOAD": str(library or case.bin / "libvramcore.so")} | (
            environment or {})
        if library == "":
            del environment["LD_PRELOAD"]
        self.process = subprocess.Popen(
            [*prefix, program, *arguments], env=environment, cwd=case.folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE,
                                                  (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2))
        case.addCleanup(self.end)
        self.value = {}
        for line in self.process.stdout:
            name, value = line.split()
            self.value[name] = int(value, 16)
            if name == "ready":
                break
        if "ready" not in self.value:
            if self.process.wait(10) == 77:
                raise unittest.SkipTest("userfaultfd is not to be had here")
            raise AssertionError("the program did not get ready")
        self.pid = self.value["ready"]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)

    def crash(self):
        """Lets it die of its own signal; the kernel's core file."""
        self.process.stdin.close()
        self.process.wait(60)
        found = [path for path in self.case.folder.iterdir() if path.name.split(".")[0] == "core"]
        if not found:
            raise unittest.SkipTest("the kernel writes no core files here (core_pattern, limits)")
        assert len(found) == 1, found
        return found[0].rename(self.case.folder / f"kernel-{self.pid}")

    def gcore(self):
        """The debugger's core file of it as it is."""
        done = subprocess.run(["gcore", "-o", self.case.folder / "gcore", str(self.pid)], text=True,
                              capture_output=True, timeout=120, check=False)
        path = self.case.folder / f"gcore.{self.pid}"
        assert path.exists(), done.stdout + done.stderr
        return path

    def recording(self):
        found = list(self.case.recordings.glob(f"vramcore-*-{self.pid}-*.vrec"))
        assert len(found) == 1, found
        return found[0]


class Case(unittest.TestCase):
    """A folder for each test; everything that is started ends with it. `bin` is set by the script."""
    bin = None
    lines = lines_of(pathlib.Path(__file__).parent / "target.c")
    deadline = 30

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="vramcore-states-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.recordings = self.folder / "recordings"
        self.recordings.mkdir()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}
        self.environment |= {"VRAMCORE_DIR": str(self.recordings), "LD_LIBRARY_PATH": str(self.bin / "simcuda"),
                             "XDG_CACHE_HOME": str(self.folder / "cache")}

    def vramcore(self, *arguments, status=0, environment=None, **more):
        began = time.monotonic()
        done = subprocess.run([self.bin / "vramcore", *map(str, arguments)], cwd=self.folder, text=True,
                              env=self.environment | (environment or {}), capture_output=True,
                              timeout=self.deadline, check=False, **more)
        self.took = time.monotonic() - began
        statuses = status if isinstance(status, tuple) else (status,)
        self.assertIn(done.returncode, statuses, (arguments, done.stdout, done.stderr))
        return done.stdout, done.stderr

    def extract(self, core, *more, status=0, name="made.vramcore", **other):
        made = self.folder / name
        made.unlink(missing_ok=True)
        out, error = self.vramcore("extract", core, "-o", made, *more, status=status, **other)
        return made, error

    def check(self, snapshot, target, status=0, extra=0):
        """The snapshot shows what the program has and had: worked out from what it printed."""
        out, _ = self.vramcore("top", "--allocations", "--json", snapshot, status=status)
        device, = json.loads(out)["devices"]
        self.assertEqual(device["live_bytes"], (11 << 20) + extra)
        weights, = [row for row in device["rows"] if any(f["function"] == "make_weights" for f in row["stack"])]
        self.assertEqual((weights["bytes"], weights["count"]), (8 << 20, 1))
        out, _ = self.vramcore("where", "--json", snapshot, hex(target.value["cache"] + 5), status=status)
        was, = json.loads(out)["freed"]
        self.assertEqual((int(was["address"], 16), was["size"]), (target.value["cache"], 3 << 20))
        self.assertEqual((was["step"], was["death_step"]), (1, 2))
        for stack, function, name in (("stack", "make_cache", "cache"), ("death_stack", "drop_cache", "drop")):
            frame, = [f for f in was[stack] if f["function"] == function]
            self.assertEqual(frame["line"], self.lines[name])
