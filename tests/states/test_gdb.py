#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of vram in a real debugger: live, stopped, running; on cores with and without the program.

usage: test_gdb.py BINARY_FOLDER SOURCE_FOLDER DEBUGGER [unittest options]
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from common import Case, Target, process_state, skip, wait_for  # noqa: E402

Case.bin = pathlib.Path(sys.argv[1]).resolve()
SCRIPT = pathlib.Path(sys.argv[2]).resolve() / "capture/gdb/vramcore-gdb.py"
DEBUGGER = sys.argv[3]
IN_CORE = {"VRAMCORE_IN_CORE": "1"}


class Debugger(Case):
    def gdb(self, *arguments, commands=(), before=(), script=SCRIPT, debugger=None, environment=None):
        """What each of the commands says, and what came before them."""
        mark = "=== next ==="
        line = ["timeout", "-s", "KILL", "100", debugger or DEBUGGER, "-nx", "-q", "-batch"]
        line += [f"-iex={text}" for text in before] + [str(a) for a in arguments]
        if script:
            line += ["-ex", f"source {script}"]
        line += ["-ex", f"set vram command {self.bin}/vramcore"] if script == SCRIPT else []
        for command in commands:
            line += ["-ex", f"echo {mark}\\n", "-ex", command]
        done = subprocess.run(line, cwd=self.folder, text=True, capture_output=True, timeout=110, check=False,
                              env={**os.environ, **self.gdb_environment(), **(environment or {})},
                              stdin=subprocess.DEVNULL)
        # errors of a command come on the other stream: asked for by name where they matter
        self.errors = done.stderr
        parts = done.stdout.split(mark + "\n")
        self.assertEqual(len(parts), len(commands) + 1, done.stdout + done.stderr)
        return parts[1:]

    def gdb_environment(self):
        return {"VRAMCORE_DIR": str(self.recordings), "XDG_CACHE_HOME": str(self.folder / "cache"),
                "HOME": str(self.folder)}

    def check_said(self, target, info, top, where, freed, past):
        self.assertIn("Simulated GPU", info)
        self.assertIn("11.0 MiB", info)
        self.assertRegex(top, r"8\.00 MiB +72\.7 %% .*target\.c:%d  make_weights" % self.lines["weights"])
        self.assertIn(f"{hex(target.value['weights'] + 5)} is 5 bytes into linear", where)
        self.assertRegex(freed, r"was    linear .* freed step 2 at .*target\.c:%d  drop_cache" % self.lines["drop"])
        self.assertIn("is 1,280 bytes past the end of block", past)
        self.assertRegex(past, r'"logits", allocated at .*target\.c:%d  make_logits' % self.lines["logits"])

    def questions(self, target, weights="weights"):
        return ["vram info", "vram top --allocations", f"vram where {weights} + 5",
                f"vram wh {target.value['cache']:#x}", f"vram where {target.value['logits']:#x} + 0x4000 + 0x500"]

    def test_live(self):
        target = Target(self, "wait")
        said = self.gdb("-p", target.pid, commands=self.questions(target) + [
            "vram where owner", "vram where *&weights", "vram where --exact &weights[2097152]", "vram map",
            "vram threads"])
        self.check_said(target, *said[:5])
        self.assertIn(f"{target.value['weights']:#x} is 0 bytes into linear", said[5])
        self.assertIn("is 1,032,192 bytes past the end of block", said[7])
        self.assertIn(f"thread {target.pid} states_target", said[9])
        self.assertIn("wait_for_ever", said[9])
        self.assertEqual(self.errors.count("Python Exception"), 0, self.errors)

    def test_stopped_by_signal(self):
        """SIGSTOP before the debugger came; it stays stopped."""
        target = Target(self, "wait")
        os.kill(target.pid, signal.SIGSTOP)
        wait_for(lambda: process_state(target.pid) == "T")
        self.check_said(target, *self.gdb("-p", target.pid, commands=self.questions(target)))

    def test_running(self):
        """The program goes on while it is looked at."""
        target = Target(self, "run")
        said = self.gdb("-p", target.pid, before=("set pagination off",),
                        commands=["continue &", "vram info", "vram where %#x" % target.value["weights"],
                                  "interrupt", "python import time; time.sleep(0.5)"])
        self.assertRegex(said[1], r"1[12]\.0 MiB")
        self.assertIn("0 bytes into linear", said[2])
        steps = self.vramcore("ps")[0]
        time.sleep(0.3)
        self.assertNotEqual(self.vramcore("ps")[0], steps)  # it lives, and runs

    def test_stuck_in_the_driver(self):
        target = Target(self, "stuck")
        self.check_said(target, *self.gdb("-p", target.pid, commands=self.questions(target)))

    def test_core(self):
        for environment in ({}, IN_CORE):
            target = Target(self, "crash", environment=environment)
            core = target.crash()
            said = self.gdb(self.bin / "states_target", "-c", core, commands=self.questions(target) + [
                "vram where $rdi", "vram where owner"])
            self.check_said(target, *said[:5])
            for text in said[5:7]:
                self.assertIn(f"{target.value['weights']:#x} is 0 bytes into linear", text)
            said = self.gdb("-c", core, commands=self.questions(target, "$rdi") + ["vram threads"])
            self.check_said(target, *said[:5])
            self.assertRegex(said[5], r"target\.c:%d  crash" % self.lines["crash"])

    def test_core_without_files(self):
        """Neither the program nor the library is there any more."""
        program, library = self.folder / "program", self.folder / "libvramcore.so"
        shutil.copy(self.bin / "states_target", program)
        shutil.copy(self.bin / "libvramcore.so", library)
        target = Target(self, "crash", environment=IN_CORE, program=program, library=library)
        core = target.crash()
        library.unlink()
        program.rename(self.folder / "moved")
        info, where = self.gdb("-c", core, commands=["vram info", "vram where $rdi"])
        self.assertIn("11.0 MiB", info)
        self.assertIn("0 bytes into linear", where)

    def test_gcore(self):
        target = Target(self, "wait", environment=IN_CORE)
        core = target.gcore()
        self.check_said(target, *self.gdb(self.bin / "states_target", core, commands=self.questions(target)))

    def test_snapshot_and_diff(self):
        target = Target(self, "wait")
        said = self.gdb("-p", target.pid, commands=["vram snapshot kept.vramcore", "vram diff kept.vramcore",
                                                    "vram snapshot"])
        self.assertEqual(said[0], "kept.vramcore\n")
        self.check(self.folder / "kept.vramcore", target)
        self.assertIn("16.0 KiB -> 16.0 KiB", said[1])
        self.assertTrue((self.folder / said[2].split("\n")[0]).exists(), said[2])

    def test_help_and_completion(self):
        said = self.gdb(commands=["help vram", "help vram where", "complete vram ", "complete vram top --b",
                                  "complete vram top --by s", "complete vram whe", "show vram timeout", "vram"])
        names = ["diff", "holders", "info", "map", "snapshot", "threads", "top", "where"]
        for name in names:
            self.assertIn(f"vram {name} -- ", said[0])
        self.assertIn("Any expression of the program", said[1])
        self.assertEqual(said[2].split(), [word for name in names for word in ("vram", name)])
        self.assertEqual(said[3].split("\n")[:2], ["vram top --blocks", "vram top --by"])
        self.assertEqual(said[4].split("\n")[:3], ["vram top --by site", "vram top --by size",
                                                   "vram top --by stream"])
        self.assertEqual(said[5], "vram where\n")
        self.assertIn("120 seconds", said[6])

    def error_of(self, command, *arguments, **more):
        said, = self.gdb(*arguments, commands=[command], **more)
        return (said + self.errors).strip()

    def test_errors(self):
        self.assertIn("no process and no core file", self.error_of("vram info"))
        target = Target(self, "wait", library="")
        at = ("-p", target.pid)
        self.assertIn("is not recorded", self.error_of("vram info", *at))
        self.assertIn("main is a int", self.error_of("vram where main", *at))
        self.assertIn("holds no pointer", self.error_of("vram where driver_empty", *at))
        self.assertIn("which address", self.error_of("vram where", *at))
        self.assertIn("No symbol", self.error_of("vram where nothing_of_this_name", *at))
        self.assertIn("/nowhere/vramcore", self.error_of(
            "vram info", *at, "-ex", f"source {SCRIPT}", "-ex", "set vram command /nowhere/vramcore",
            script=None))
        core = target.gcore()
        self.assertIn("was not recorded", self.error_of("vram info", "-c", core))

    def test_deadline(self):
        """A program that does not answer is given up."""
        slow = self.folder / "slow"
        slow.write_text("#!/bin/sh\nexec sleep 60\n")
        slow.chmod(0o755)
        target = Target(self, "wait")
        began = time.monotonic()
        said = self.error_of("vram info", "-p", target.pid, "-ex", f"source {SCRIPT}", "-ex",
                             f"set vram command {slow}", "-ex", "set vram timeout 1", script=None)
        self.assertIn("no answer after 1 s", said)
        self.assertLess(time.monotonic() - began, 30)

    def test_loaded_by_itself(self):
        """By the name of the library, where the folder is trusted."""
        library = self.folder / "libvramcore.so"
        shutil.copy(self.bin / "libvramcore.so", library)
        shutil.copy(SCRIPT, self.folder / "libvramcore.so-gdb.py")
        (self.folder / "vramcore").symlink_to(self.bin / "vramcore")
        target = Target(self, "wait", library=library)
        said = self.gdb("-p", target.pid, commands=["vram info"], script=None,
                        before=(f"add-auto-load-safe-path {self.folder}",))
        self.assertIn("11.0 MiB", said[0])

    def test_without_python(self):
        """A gdb without Python: told, in words."""
        plain = os.environ.get("VRAMCORE_GDB_WITHOUT_PYTHON")
        if not plain:
            self.skipTest("no gdb without Python is named (VRAMCORE_GDB_WITHOUT_PYTHON)")
        done = subprocess.run([plain, "-nx", "-q", "-batch", "-ex", f"source {SCRIPT}"], text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertIn("this gdb has no Python", done.stdout)


def fetched(*packages):
    """Where these packages of Debian are unpacked; skips where they cannot be had."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    done = subprocess.run([sys.executable, pathlib.Path(__file__).parent / "fetch_debugger.py",
                           cache / "vramcore-tests/debuggers", *packages], text=True, stdout=subprocess.PIPE,
                          timeout=700, check=False)
    if done.returncode:
        skip(done.stdout.strip().removeprefix("SKIPPED: ") or "the debugger cannot be fetched")
    return pathlib.Path(done.stdout.strip())


def cuda_gdb():
    """The vendor's debugger, with its libraries: a command that finds them."""
    root = fetched("nvidia-cuda-gdb", "libbabeltrace1", "libipt2", "libpython3.11")
    command = root / "cuda-gdb"
    command.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={root}/usr/lib/x86_64-linux-gnu exec {root}/usr/bin/cuda-gdb "$@"\n')
    command.chmod(0o755)
    return str(command)


if __name__ == "__main__":
    if DEBUGGER == "cuda-gdb":
        DEBUGGER = cuda_gdb()
    if DEBUGGER == "gdb-minimal":
        os.environ["VRAMCORE_GDB_WITHOUT_PYTHON"] = str(fetched("gdb-minimal") / "usr/bin/gdb")
    elif not shutil.which(DEBUGGER):
        skip(f"no {DEBUGGER}")
    elif subprocess.run(["timeout", "-s", "KILL", "60", DEBUGGER, "-nx", "-q", "-batch", "-ex", "python print(1)"],
                        capture_output=True, text=True, check=False).stdout.strip() != "1":
        skip(f"{DEBUGGER} has no Python, or does not start")
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
