#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Processes that stand still, seen from outside: their threads' stacks, what each waits for, who is behind.

usage: test_hang.py BINARY_FOLDER [unittest options]
The stacks expected are those that the programs' own text has; nothing may be seen in the processes looked at.
"""
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from common import stop

BIN = pathlib.Path(sys.argv[1]).resolve()
VRAMCORE = BIN / "vramcore"
STUCK = """import threading, time
def inner(depth):
    if depth:
        return inner(depth - 1)
    time.sleep(1000)  # line 5
def held():
    lock.acquire()  # line 7
lock = threading.Lock()
lock.acquire()
threading.Thread(target=held, daemon=True).start()
print("ready", flush=True)
inner(2)  # line 12
"""


def interpreters():
    """One of each version from 3.9 on."""
    found = {}
    for path in [*glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")), "/usr/bin/python3", sys.executable]:
        done = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"], text=True, capture_output=True,
                              check=False)
        if done.returncode == 0 and tuple(map(int, done.stdout.split())) >= (3, 9):
            found.setdefault(tuple(map(int, done.stdout.split())), path)
    return found


class Hang(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="vramcore-hang-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}
        self.environment |= {"LD_LIBRARY_PATH": str(BIN / "simcuda"), "TMPDIR": str(self.folder)}

    def hang(self, *operands, status=1):
        done = subprocess.run([VRAMCORE, "hang", "--json", "--all-frames", *map(str, operands)], env=self.environment,
                              text=True, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        self.assertEqual([p for p in self.folder.iterdir() if p.name.startswith("vramcore-look")], [])
        return json.loads(done.stdout) if status < 2 else done.stderr

    def start(self, *command, **more):
        program = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=self.folder, text=True,
                                   start_new_session=True, **more)
        self.addCleanup(program.communicate)
        self.addCleanup(self.end, program.pid)
        return program

    @staticmethod
    def end(group):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def stuck(self, *before, python=sys.executable, **more):
        script = self.folder / "stuck.py"
        script.write_text(STUCK)
        program = self.start(*before, python, script, **more)
        self.assertEqual(program.stdout.readline(), "ready\n")
        self.stands(program.pid)
        return program

    def stands(self, pid):
        """Waits until every thread waits in the kernel, of the program and of what it started."""
        for _ in range(600):
            places = [path.read_text() for path in pathlib.Path("/proc/%d/task" % pid).glob("*/syscall")]
            if len(places) != 1 and not any(place.startswith("running") for place in places):
                return
            children = pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()
            if children:
                return self.stands(int(children[0]))
            time.sleep(0.05)
        self.fail("it does not come to a standstill")

    def threads(self, report):
        return {thread["thread"]: thread for thread in report["threads"][0]["threads"]}

    def check_stuck(self, report, pid):
        """Both threads of STUCK: the frames that its text has, from the innermost to the module."""
        threads = self.threads(report)
        self.assertEqual(len(threads), 2)
        main = threads.pop(pid)
        held, = threads.values()
        script = str(self.folder / "stuck.py")
        self.assertEqual([(f["function"], f["file"], f["line"]) for f in main["python"]],
                         [("inner", script, 5), ("inner", script, 4), ("inner", script, 4), ("<module>", script, 12)])
        self.assertEqual([(f["function"], f["line"]) for f in held["python"] if f["file"] == script], [("held", 7)])
        self.assertRegex(main["wait"], r"^(time \(clock_nanosleep\)|files or sockets \(p?select\))$")
        self.assertEqual(held["wait"], "a lock, a condition or another thread (futex)")
        return main, held

    def test_pythons(self):
        for version, path in interpreters().items():
            with self.subTest(version=version):
                program = self.stuck(python=path)
                main, held = self.check_stuck(self.hang(program.pid), program.pid)
                names = [frame["function"] or "" for frame in main["native"]]
                self.assertRegex(names[0], "nanosleep|select")
                # the outermost frames of every program and of every thread: nothing is missing between
                self.assertTrue(any("main" in name or "_start" in name for name in names[-3:]), names)
                self.assertEqual(main["certain"], sum(not f["inlined"] for f in main["native"]), names)
                self.assertRegex(" ".join(f["function"] or "" for f in held["native"]), "clone|start_thread")

    def test_nothing_is_seen(self):
        """Not one system call of the program returns, and nobody traces it but who did before."""
        if not shutil.which("strace"):
            self.skipTest("no strace")
        log = self.folder / "strace"
        program = self.stuck("strace", "-f", "-o", log)
        child = int(pathlib.Path("/proc/%d/task/%d/children" % (program.pid, program.pid)).read_text().split()[0])
        before = None
        while before != log.read_text(): # strace writes behind
            before = log.read_text()
            time.sleep(1)
        self.check_stuck(self.hang(child), child)
        time.sleep(0.2)
        self.assertEqual(log.read_text(), before)

    def test_stopped_and_snapshot(self):
        program = self.stuck()
        stop(program.pid)
        report = self.hang(program.pid)
        self.check_stuck(report, program.pid)
        self.assertEqual({thread["state"] for thread in self.threads(report).values()}, {"stopped"})
        self.assertEqual(report["processes"][0]["state"], "stopped")

    def test_who_is_behind(self):
        """Two recorded ranks: the one that was stopped first is behind."""
        out = self.folder / "recordings"
        out.mkdir()
        ranks = []
        self.environment["VRAMCORE_DIR"] = str(out)
        for rank in range(2):
            environment = self.environment | {"LD_PRELOAD": str(BIN / "libvramcore.so"), "RANK": str(rank), "WORLD_SIZE": "2"}
            ranks.append(self.start(BIN / "train", "--steps", "2000000000", "--leak", "none", env=environment))
        self.reach(ranks[1], 60)
        stop(ranks[1].pid)
        self.reach(ranks[0], self.step(ranks[1]) + 100)
        stop(ranks[0].pid)
        report = self.hang(ranks[0].pid, ranks[1].pid, status=0)
        self.assertEqual([p["rank"] for p in report["processes"]], [1, 0])
        self.assertEqual([p["step"] for p in report["processes"]], [self.step(ranks[1]), self.step(ranks[0])])
        self.assertEqual(report["behind"], 1)
        for process in report["processes"]:
            self.assertGreater(process["live"], 4 * 12 * 40 << 20)
            self.assertGreater(process["since_last_step"], 0)
        done = subprocess.run([VRAMCORE, "hang", str(ranks[0].pid), str(ranks[1].pid)], env=self.environment, text=True,
                              capture_output=True, timeout=60, check=True)
        self.assertRegex(done.stdout, r"\nrank 1 is behind: step [0-9,]+, the furthest is at [0-9,]+\n")
        name = self.folder / "with.vramcore"
        subprocess.run([VRAMCORE, "snapshot", "--with-stacks", str(ranks[1].pid), "-o", name], env=self.environment,
                       check=True, capture_output=True, timeout=60)
        subprocess.run([VRAMCORE, "check", name], check=True, capture_output=True, timeout=60)
        self.assertEqual(self.hang(name, status=0)["processes"][0]["pid"], ranks[1].pid)

    def step(self, program):
        out = subprocess.run([VRAMCORE, "ps", "--json"], env=self.environment, text=True, capture_output=True,
                             timeout=60, check=True).stdout
        return {p["pid"]: p.get("step", 0) for p in json.loads(out)["processes"]}.get(program.pid, 0)

    def reach(self, program, step):
        for _ in range(1200):
            if self.step(program) > step:
                return
            time.sleep(0.05)
        self.fail("step %d was not reached" % step)

    def test_gone_and_forbidden(self):
        program = self.start("true")
        program.wait()
        self.assertIn("no such process", self.hang(program.pid, status=2))
        zombie = self.start("sh", "-c", "true & exec sleep 1000")
        time.sleep(0.3)
        children = pathlib.Path("/proc/%d/task/%d/children" % (zombie.pid, zombie.pid)).read_text().split()
        report = self.hang(children[0])
        self.assertEqual([t["state"] for t in report["threads"][0]["threads"]], ["ended"])
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            return
        mine = self.stuck()
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", VRAMCORE, "hang", "--json", str(mine.pid)],
                              env=self.environment | {"TMPDIR": "/tmp"}, text=True, capture_output=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("CAP_SYS_PTRACE", done.stdout)
        self.assertNotIn('"python"', done.stdout)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
