#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every state that a recorded process can be in, by every command: each answers in time, and right.

The table is made below: a row for each state, which says how a process comes to it, and a column for each
command. Nothing of it is seen by a process that lives: its calls and its switches are counted.

usage: test_states.py BINARY_FOLDER SOURCE_FOLDER [unittest options]
"""
import contextlib
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

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from common import Case, Target, process_state, wait_for  # noqa: E402

Case.bin = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(sys.argv[2]).resolve()
IN_CORE = {"VRAMCORE_IN_CORE": "1"}
ROOT = os.geteuid() == 0
NOBODY = 65534


@contextlib.contextmanager
def memory_group():
    """A memory cgroup with room for little; None where none can be made."""
    made = None
    for parent, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = pathlib.Path(parent) / f"vramcore-test-{os.getpid()}"
        try:
            folder.mkdir()
            (folder / limit).write_text(str(48 << 20))
            made = folder
            break
        except OSError:
            with contextlib.suppress(OSError):
                folder.rmdir()
    try:
        yield made
    finally:
        if made:
            with contextlib.suppress(OSError, AssertionError):
                wait_for(lambda: not (made / "cgroup.procs").read_text(), 5)
                made.rmdir()


class States(Case):
    deadline = 20

    # ---- commands ----

    def snapshot(self, target, operand=None, status=0, state=None, **more):
        made = self.folder / "made.vramcore"
        made.unlink(missing_ok=True)
        _, error = self.vramcore("snapshot", operand or target.pid, "-o", made, status=status, **more)
        if status:
            self.assertNotEqual(error, "")
            return
        self.check(made, target)
        if state:
            report = json.loads(self.vramcore("info", "--json", made)[0])
            self.assertEqual(report["file"]["state"], state)

    def listed(self, target, state):
        report = json.loads(self.vramcore("ps", "--json")[0])
        mine = [p for p in report["processes"] if p["pid"] == target.pid]
        self.assertEqual([p["state"] for p in mine], [state], report)

    def where(self, recording, target):
        """Straight from the recording, without a snapshot."""
        out, _ = self.vramcore("where", recording, hex(target.value["logits"] + 0x4500), "--json")
        report = json.loads(out)
        self.assertTrue(report["hole"])
        self.assertEqual((report["before"]["gap"], report["before"]["allocation"]["label"]), (0x500, "logits"))

    def debugger(self, target, *arguments):
        if not shutil.which("gdb"):
            print("SKIPPED: no gdb", flush=True)
            return
        done = subprocess.run(
            ["timeout", "-s", "KILL", "60", "gdb", "-nx", "-q", "-batch", *map(str, arguments), "-ex",
             f"source {SOURCE}/capture/gdb/vramcore-gdb.py", "-ex", f"set vram command {self.bin}/vramcore", "-ex",
             "vram info", "-ex", "vram top --allocations", "-ex", f"vram where {target.value['cache']:#x}"],
            env=self.environment, cwd=self.folder, text=True, capture_output=True, timeout=70, check=False,
            stdin=subprocess.DEVNULL)
        self.assertIn("Simulated GPU", done.stdout, done.stderr)
        self.assertIn("make_weights", done.stdout)
        self.assertIn("drop_cache", done.stdout)

    def alive(self, target, state):
        self.snapshot(target, state=state)
        self.listed(target, state)
        recording = target.recording()
        self.snapshot(target, recording)
        self.where(recording, target)
        self.debugger(target, "-p", target.pid)

    # ---- states: alive ----

    def test_waiting(self):
        self.alive(Target(self, "wait"), "running")

    def test_running(self):
        target = Target(self, "run")
        for _ in range(3):
            made = self.folder / "made.vramcore"
            self.vramcore("snapshot", target.pid, "-o", made)
            device, = json.loads(self.vramcore("top", "--allocations", "--json", made)[0])["devices"]
            self.assertIn(device["live_bytes"], (11 << 20, 12 << 20))
            made.unlink()
        self.listed(target, "running")

    def test_stopped(self):
        target = Target(self, "wait")
        os.kill(target.pid, signal.SIGSTOP)
        wait_for(lambda: process_state(target.pid) == "T")
        self.alive(target, "stopped")
        self.assertEqual(process_state(target.pid), "T")

    def test_stuck_in_the_driver(self):
        self.alive(Target(self, "stuck"), "running")

    def test_in_memory_only(self):
        target = Target(self, "wait", environment=IN_CORE)
        self.snapshot(target, state="running")
        self.debugger(target, "-p", target.pid)

    def test_lock_of_the_interpreter_held(self):
        target = Target(self, program=sys.executable, prefix=[], *[SOURCE / "tests/states/gil.py"])
        os.kill(target.pid, 0)
        made = self.folder / "made.vramcore"
        self.vramcore("snapshot", target.pid, "-o", made)
        device, = json.loads(self.vramcore("top", "--allocations", "--json", made)[0])["devices"]
        self.assertEqual(device["live_bytes"], 8 << 20)

    @unittest.skipUnless(ROOT, "SKIPPED: only root can start a process of another user")
    def test_other_user(self):
        os.chown(self.recordings, NOBODY, NOBODY)
        self.folder.chmod(0o755)
        target = Target(self, "wait", prefix=["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"])
        self.alive(target, "running")  # root may read all
        # and the other way round: not to be read, which is said
        self.recordings.chmod(0o755)
        other = Target(self, "wait", environment={"VRAMCORE_DIR": str(self.recordings)})
        (self.folder / "out").mkdir()
        os.chown(self.folder / "out", NOBODY, NOBODY)
        began = time.monotonic()
        done = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                               self.bin / "vramcore", "snapshot", str(other.pid), "-o", self.folder / "out/a"],
                              env=self.environment, cwd=self.folder / "out", text=True, capture_output=True,
                              timeout=self.deadline, check=False)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(str(other.pid), done.stderr)
        self.assertLess(time.monotonic() - began, self.deadline)

    # ---- states: dead ----

    def dead(self, target, state="dead"):
        self.snapshot(target, state=state)
        recording = target.recording()
        self.snapshot(target, recording)
        self.where(recording, target)

    def test_zombie(self):
        """Dead, and nobody has waited for it."""
        target = Target(self, "wait")
        os.kill(target.pid, signal.SIGKILL)
        wait_for(lambda: process_state(target.pid) == "Z")
        self.dead(target)
        self.listed(target, "dead")

    def test_killed(self):
        target = Target(self, "wait")
        target.end()
        self.dead(target)
        self.listed(target, "dead")

    def test_killed_while_it_allocates(self):
        """The call it was in is in doubt, or was whole; never anything else."""
        for _ in range(5):
            target = Target(self, "run")
            time.sleep(0.05)
            target.end()
            out, _ = self.vramcore("top", "--allocations", "--json", target.recording())
            device, = json.loads(out)["devices"]
            self.assertIn(device["live_bytes"] + device["in_doubt_bytes"], (11 << 20, 12 << 20))

    def test_ended(self):
        target = Target(self, "exit")
        target.process.stdin.close()
        self.assertEqual(target.process.wait(20), 3)
        self.dead(target)

    def test_killed_for_want_of_memory(self):
        """By the kernel, in a memory group of its own; where none can be made, by the same signal."""
        with memory_group() as group:
            prefix = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group] if group else []
            target = Target(self, "hungry", prefix=prefix)
            if not group:
                print("SKIPPED: no memory group can be made here: killed by hand", flush=True)
                target.process.kill()
            else:
                target.process.stdin.close()
            self.assertEqual(target.process.wait(60), -signal.SIGKILL)
            if group:
                self.assertIn("oom_kill 1", (group / "memory.oom_control").read_text()
                              if (group / "memory.oom_control").exists() else (group / "memory.events").read_text())
            self.dead(target)

    def supervised(self, *arguments):
        """The program under a supervisor, in a session of its own."""
        environment = self.environment | {"TMPDIR": str(self.folder)}
        process = subprocess.Popen([self.bin / "vramcore", "run", "--out", self.folder / "out", *arguments, "--",
                                    self.bin / "states_target", "wait"], env=environment, cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(lambda: process.poll() is None and os.killpg(process.pid, signal.SIGKILL))
        target = Target.__new__(Target)
        target.case, target.process, target.value = self, process, {}
        for line in process.stdout:
            name, value = line.split()
            target.value[name] = int(value, 16)
            if name == "ready":
                break
        target.pid = target.value["ready"]
        return target

    def finish(self, process):
        process.stdout.close()
        process.stderr.close()
        process.wait(20)

    def test_supervisor_killed_with_its_program(self):
        """Nobody writes the snapshot; the recording is there, and makes one."""
        target = self.supervised()
        for pid in (target.process.pid, target.pid):
            os.kill(pid, signal.SIGKILL)
        self.finish(target.process)
        report = json.loads(self.vramcore("ps", "--json")[0])
        mine, = [p for p in report["processes"] if p["pid"] == target.pid]
        self.assertEqual(mine["state"], "dead")
        self.snapshot(target, state="dead")
        self.snapshot(target, mine["recording"])
        self.vramcore("clean", "--dir", self.recordings)
        self.assertEqual([p for p in json.loads(self.vramcore("ps", "--json")[0])["processes"]
                          if p["pid"] == target.pid], [])

    def test_program_killed_under_a_supervisor(self):
        target = self.supervised()
        os.kill(target.pid, signal.SIGKILL)
        error = target.process.stderr.read()
        self.assertIn("1 snapshot in", error)
        self.finish(target.process)
        self.assertEqual(target.process.returncode, -signal.SIGKILL)
        made, = (self.folder / "out").glob("*.vramcore")
        self.check(made, target)

    @unittest.skipUnless(ROOT, "SKIPPED: only root can make a PID namespace")
    def test_container(self):
        """In a PID namespace: alive, it is found by its number here; when the namespace ends, by its file."""
        target = Target(self, "wait", prefix=["unshare", "--pid", "--fork", "--kill-child"])
        inside = target.pid
        outside, = [int(p) for p in subprocess.run(["pgrep", "-P", str(target.process.pid)], text=True,
                                                   capture_output=True, check=True).stdout.split()]
        self.assertNotEqual(inside, outside)
        self.snapshot(target, outside)
        recording = target.recording()
        self.where(recording, target)
        self.debugger(target, "-p", outside)
        os.kill(outside, signal.SIGKILL)  # the first process of the namespace: it ends with it
        target.process.wait(20)
        self.snapshot(target, recording)
        self.where(recording, target)
        report = json.loads(self.vramcore("ps", "--json")[0])
        self.assertIn([p["state"] for p in report["processes"] if p["pid"] == inside], (["dead"], ["unknown"]))

    # ---- states: cores ----

    def cores(self, target, core):
        """Of one core, all forms of it."""
        yield "plain", core
        packed = self.folder / "packed.zst"
        packed.unlink(missing_ok=True)
        subprocess.run(["zstd", "-q", "-1", core, "-o", packed], check=True)
        yield "zstd", packed

    def test_cores(self):
        for environment in ({}, IN_CORE):
            for how in ("kernel", "gcore"):
                target = Target(self, "crash", environment=environment)
                core = target.gcore() if how == "gcore" else None
                if core:
                    target.end()
                else:
                    core = target.crash()
                for name, form in self.cores(target, core):
                    with self.subTest(how=how, form=name, in_core=bool(environment)):
                        made, _ = self.extract(form)
                        self.check(made, target)
                        self.where(made, target)
                self.debugger(target, self.bin / "states_target", core)
                self.debugger(target, "-c", core)

    # ---- nothing is seen ----

    def threads(self, pid, agent):
        """The program's own threads, or the recorder's, which looks at the clock now and then by itself."""
        return [thread for thread in pathlib.Path(f"/proc/{pid}/task").iterdir()
                if ((thread / "comm").read_text() == "vramcore\n") == agent]

    def switches(self, pid):
        return {thread.name: [line for line in (thread / "status").read_text().splitlines() if "ctxt" in line]
                for thread in self.threads(pid, False)}

    def calls(self, log, agents):
        """Lines of a trace by the program's threads; those of the recorder's may only wait."""
        lines = []
        for line in log.read_text().splitlines():
            if line.split()[0] in agents:
                self.assertRegex(line, "futex|restart_syscall")
            else:
                lines.append(line)
        return lines

    def ask_everything(self, target):
        made = self.folder / "made.vramcore"
        for _ in range(3):
            made.unlink(missing_ok=True)
            self.vramcore("snapshot", target.pid, "-o", made)
            self.vramcore("ps")
            self.vramcore("info", target.recording())
            self.where(target.recording(), target)

    def test_nothing_is_seen(self):
        """Waiting threads are not woken, stopped or switched to by any reader."""
        target = Target(self, "wait")
        time.sleep(0.3)
        before = self.switches(target.pid)
        self.ask_everything(target)
        self.assertEqual(self.switches(target.pid), before)

    def test_no_call_is_seen(self):
        """A tracer of all threads sees no call and no stop."""
        if not shutil.which("strace"):
            self.skipTest("SKIPPED: no strace")
        target = Target(self, "wait")
        log = self.folder / "strace"
        tracer = subprocess.Popen(["strace", "-f", "-q", "-o", log, "-p", str(target.pid)], stderr=subprocess.PIPE)
        self.addCleanup(lambda: tracer.poll() is None and tracer.kill())
        try:
            wait_for(lambda: log.exists() and log.read_text().count("\n") >= 1 or tracer.poll() is not None, 10)
        except AssertionError:
            pass
        if tracer.poll() is not None:
            self.skipTest("SKIPPED: strace may not attach here")
        time.sleep(0.5)
        agents = {thread.name for thread in self.threads(target.pid, True)}
        self.assertEqual(len(agents), 1)
        before = self.calls(log, agents)
        self.ask_everything(target)
        self.assertEqual(self.calls(log, agents), before)
        tracer.terminate()
        tracer.stderr.close()
        tracer.wait(20)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
