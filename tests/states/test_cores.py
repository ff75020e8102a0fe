#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Core files: of the kernel and of gcore, packed, cut, sparse, damaged; with and without their files.

usage: test_cores.py BINARY_FOLDER [unittest options]
"""
import json
import os
import pathlib
import random
import re
import resource
import shutil
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from common import Case, Target  # noqa: E402

Case.bin = pathlib.Path(sys.argv[1]).resolve()
IN_CORE = {"VRAMCORE_IN_CORE": "1"}


class Elf:
    """Program headers of a core, read independently of the command."""

    def __init__(self, data):
        self.offset, self.count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
        self.headers = [struct.unpack_from("<IIQQQQQQ", data, self.offset + 56 * i) for i in range(self.count)]

    def loads(self):
        return [h for h in self.headers if h[0] == 1]


class Cores(Case):
    def crashed(self, environment=None, **more):
        target = Target(self, "crash", environment=environment, **more)
        return target, target.crash()

    def test_kernel_recording_beside(self):
        """The default: the core does not hold the recording, and names it."""
        target, core = self.crashed()
        made, error = self.extract(core)
        self.assertEqual(error, "")
        self.check(made, target)
        shutil.move(target.recording(), self.folder / target.recording().name)
        made, _ = self.extract(core)  # in the core's own folder
        self.check(made, target)
        kept = self.folder / "elsewhere.vrec"
        shutil.move(next(self.folder.glob("vramcore-*.vrec")), kept)
        _, error = self.extract(core, status=2)
        self.assertIn("is not in the core, and", error)
        self.assertIn("--in-core", error)
        made, _ = self.extract(core, "--recording", kept)
        self.check(made, target)
        other = Target(self, "wait")  # a recording of another process is not taken for it
        _, error = self.extract(core, "--recording", other.recording(), status=2)

    def test_kernel_in_core(self):
        target, core = self.crashed(IN_CORE)
        self.assertEqual(list(self.recordings.iterdir()), [])
        out, _ = self.vramcore("extract", core, "--json", "-o", "a.vramcore")
        report = json.loads(out)
        self.assertEqual((report["schema"], report["pid"], report["signal"], report["threads"],
                          report["recording"], report["missing_pieces"]),
                         ("vramcore.extract/1", target.pid, 11, 3, "", 0))
        self.check("a.vramcore", target)
        info = json.loads(self.vramcore("info", "--json", "a.vramcore")[0])
        self.assertEqual((info["file"]["trigger"], info["file"]["state"]), ("core", "dead"))
        _, error = self.extract(core, name="a.vramcore", status=0)

    def test_cost_in_core(self):
        """The core grows by the recording, no more."""
        sizes = []
        for environment in ({}, IN_CORE):
            _, core = self.crashed(environment)
            sizes.append(core.stat().st_size)
        self.assertLess(sizes[1] - sizes[0], 1 << 20)
        self.assertGreater(sizes[1] - sizes[0], 256 << 10)

    def test_filter_with_files(self):
        """A filter that writes shared files makes the file unnecessary."""
        target = Target(self, "crash")
        pathlib.Path(f"/proc/{target.pid}/coredump_filter").write_text("0x3f\n")
        core = target.crash()
        target.recording().unlink()
        self.check(self.extract(core)[0], target)

    def test_gcore(self):
        for environment in ({}, IN_CORE):
            target = Target(self, "wait", environment=environment)
            core = target.gcore()
            made, error = self.extract(core)
            self.assertEqual("may still run" in error, not environment)
            self.check(made, target)
            target.end()
            self.check(self.extract(core)[0], target)

    def test_packed(self):
        target, core = self.crashed(IN_CORE)
        for command, suffix in (("gzip", ".gz"), ("zstd", ".zst"), ("lz4", ".lz4"), ("xz", ".xz")):
            if not shutil.which(command):
                print("SKIPPED: no", command, flush=True)
                continue
            packed = core.with_name("packed")  # by content, never by name
            with packed.open("wb") as out:
                subprocess.run([command, "-c", "-1", core], stdout=out, stderr=subprocess.DEVNULL, check=True)
            made, error = self.extract(packed)
            self.assertEqual(error, "")
            self.check(made, target)
            data = packed.read_bytes()
            packed.write_bytes(data[:len(data) * 2 // 3])
            made, error = self.extract(packed, status=(0, 1, 2))
            self.assertTrue("ends too early" in error or "damaged" in error, (command, error))
            packed.write_bytes(data[:len(data) // 2] + b"\x55" * 999 + data[len(data) // 2 + 999:])
            made, error = self.extract(packed, status=(0, 1, 2))
        packed.write_bytes(data)
        if shutil.which("xz"):
            _, error = self.extract(packed, status=2, environment={"PATH": "/nowhere"})
            self.assertIn("packed with xz, and there is no command xz", error)

    def test_unpacking_room(self):
        """What cannot be unpacked for want of room is said, with the way out."""
        _, core = self.crashed(IN_CORE)
        subprocess.run(["zstd", "-q", core], check=True)
        made = self.folder / "made.vramcore"
        _, error = self.vramcore("extract", f"{core}.zst", "-o", made, status=2, preexec_fn=lambda: (
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
            __import__("signal").signal(__import__("signal").SIGXFSZ, __import__("signal").SIG_IGN)))
        self.assertIn("TMPDIR", error)

    def test_stored_by_systemd(self):
        """Named and packed as systemd-coredump does."""
        target, core = self.crashed(IN_CORE)
        stored = self.folder / f"core.states_target.0.0123456789abcdef0123456789abcdef.{target.pid}.1700000000000000.zst"
        subprocess.run(["zstd", "-q", core, "-o", stored], check=True)
        self.check(self.extract(stored)[0], target)
        _, error = self.extract("4111222", status=2)
        self.assertIn("no core of that process in /var/lib/systemd/coredump", error)

    def test_cut(self):
        """At ten places, and at every piece's edge: said, and never more than there is."""
        target, core = self.crashed(IN_CORE)
        data = core.read_bytes()
        loads = Elf(data).loads()
        cut = core.with_name("cut")
        told = 0
        places = [len(data) * i // 10 for i in range(10)] + [h[2] for h in loads[::7]] + [h[2] + 1 for h in loads[::7]]
        for place in places:
            cut.write_bytes(data[:place])
            missing = sum(h[5] and h[2] + h[5] > place for h in loads)
            made, error = self.extract(cut, status=(0, 1, 2))
            self.assertNotEqual(error, "")
            if "pieces of memory" in error:
                count = re.search(r"(\d+) of (\d+) pieces of memory", error)
                self.assertEqual((int(count[1]), int(count[2])), (missing, len(loads)), place)
                told += 1
            if made.exists() and "damaged" not in error:
                self.check(made, target)
        self.assertGreater(told, 10)

    def test_cut_behind_the_recording(self):
        """What is missing is not what is asked for: shown, complete."""
        target, core = self.crashed(IN_CORE)
        data = core.read_bytes()
        cut = core.with_name("cut")
        cut.write_bytes(data[:-4096])
        made, error = self.extract(cut)
        self.assertIn("ends too early: 1 of", error)
        self.check(made, target)

    def test_library(self):
        """Stripped, gone, replaced; the program gone: the core is enough."""
        program, library = self.folder / "program", self.folder / "libvramcore.so"
        shutil.copy(self.bin / "states_target", program)
        subprocess.run(["strip", "-o", library, self.bin / "libvramcore.so"], check=True)
        target, core = self.crashed(IN_CORE, program=program, library=library)
        self.check(self.extract(core)[0], target)
        library.unlink()
        self.check(self.extract(core)[0], target)
        shutil.copy(self.bin / "libvramcore-audit.so", library)
        self.check(self.extract(core)[0], target)
        moved = self.folder / "moved"
        program.rename(moved)
        made, error = self.extract(core)
        self.assertEqual(error, "")
        out, _ = self.vramcore("top", "--allocations", "--json", made)
        self.assertEqual(json.loads(out)["devices"][0]["live_bytes"], 11 << 20)

    def test_library_renamed(self):
        """Under another name only the search of all pages finds it."""
        library = self.folder / "recorder.so"
        shutil.copy(self.bin / "libvramcore.so", library)
        target, core = self.crashed(IN_CORE, library=library)
        self.check(self.extract(core)[0], target)

    def test_no_notes(self):
        """Without notes: the search of all pages, and a process without a number."""
        target, core = self.crashed(IN_CORE)
        data = bytearray(core.read_bytes())
        elf = Elf(data)
        for i, header in enumerate(elf.headers):
            if header[0] == 4:
                struct.pack_into("<I", data, elf.offset + 56 * i, 0)
        core.write_bytes(data)
        self.check(self.extract(core)[0], target)

    def test_many_headers(self):
        """More program headers than 16 bits count: the count is in a section header."""
        target, core = self.crashed(IN_CORE)
        data = bytearray(core.read_bytes())
        elf = Elf(data)
        table = b"".join(struct.pack("<IIQQQQQQ", *h) for h in elf.headers)
        table += struct.pack("<IIQQQQQQ", 1, 4, 0, 1 << 46, 0, 0, 0, 4096) * 70000
        data += bytes(-len(data) % 8)
        struct.pack_into("<Q", data, 32, len(data))
        struct.pack_into("<Q", data, 40, len(data) + len(table))
        struct.pack_into("<HHHH", data, 56, 0xffff, 64, 0, 0)
        data += table + struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 0, 0, len(elf.headers) + 70000, 0, 0)
        core.write_bytes(data)
        self.check(self.extract(core)[0], target)
        struct.pack_into("<I", data, len(data) - 64 + 44, 0xffffffff)
        core.write_bytes(data)
        self.assertIn("limit", self.extract(core, status=2)[1])

    def test_large_and_sparse(self):
        """64 GiB of apparent size, of which almost all is a hole: little memory, little time."""
        target = Target(self, "large", str(64 << 30), str(64 << 20), environment=IN_CORE)
        target.process.send_signal(11)
        core = target.crash()
        self.assertGreater(core.stat().st_size, 64 << 30)
        if core.stat().st_blocks * 512 > 2 << 30:
            self.skipTest("the file system makes no holes")
        usage = self.folder / "usage"
        made = self.folder / "made.vramcore"
        subprocess.run([sys.executable, "-c", "import os, sys\npid = os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:])\n"
                        "_, status, usage = os.wait4(pid, 0)\nopen(sys.argv[1], 'w').write(str(usage.ru_maxrss))\n"
                        "sys.exit(os.waitstatus_to_exitcode(status))", usage, self.bin / "vramcore", "extract",
                        core, "-o", made], env=self.environment, check=True,
                       stdout=subprocess.DEVNULL, timeout=self.deadline)
        if "asan" not in str(self.bin):
            self.assertLess(int(usage.read_text()), 64 << 10)  # KiB
        self.check(made, target)

    def threads(self, snapshot):
        """Functions and lines of every thread, as the snapshot's tables have them, by its number."""
        out, _ = self.vramcore("hang", "--threads", "--all-frames", snapshot, "--width", "0")
        found = {}
        for part in re.split(r"^    thread ", out, flags=re.M)[1:]:
            head, *frames = part.splitlines()
            found[int(head.split()[0])] = head, "\n".join(frames)
        return found

    def test_stacks(self):
        """Of all threads: the one that crashed, one that waits, the recorder's."""
        target = Target(self, "crash")
        numbers = sorted(int(p.name) for p in pathlib.Path(f"/proc/{target.pid}/task").iterdir())
        core = target.crash()
        out, error = self.vramcore("extract", core, "-o", "made.vramcore", "--with-stacks")
        self.assertEqual(error, "")
        self.assertIn("second_thread", out)  # shown right away
        made = self.folder / "made.vramcore"
        self.check(made, target)
        threads = self.threads(made)
        self.assertEqual(sorted(threads), numbers)
        head, stack = threads[target.pid]
        self.assertIn("states_target, died: Segmentation fault", head)
        self.assertRegex(stack, r"target\.c:%d +crash\n.*target\.c:\d+ +main\n" % self.lines["crash"])
        waiting = [stack for _, stack in threads.values() if "second_thread" in stack]
        self.assertEqual(len(waiting), 1)
        self.assertRegex(waiting[0], r"pause.*\n.*target\.c:%d +wait_for_ever\n" % self.lines["wait"])

    def test_stacks_without_the_program(self):
        """What was called from a file that is gone has no unwind table; the rest is there."""
        program = self.folder / "program"
        shutil.copy(self.bin / "states_target", program)
        target, core = self.crashed(IN_CORE, program=program)
        program.unlink()
        made, _ = self.extract(core, "--with-stacks")
        self.assertEqual(len(self.threads(made)), 3)
        self.check_live(made)

    def check_live(self, made):
        out, _ = self.vramcore("top", "--allocations", "--json", made)
        self.assertEqual(json.loads(out)["devices"][0]["live_bytes"], 11 << 20)

    def test_stacks_of_gcore_and_packed(self):
        target = Target(self, "stuck", environment=IN_CORE)
        core = target.gcore()
        subprocess.run(["zstd", "-q", "-1", core, "-o", f"{core}.zst"], check=True)
        made, _ = self.extract(f"{core}.zst", "--with-stacks")
        self.assertTrue(any("copy_for_ever" in stack for _, stack in self.threads(made).values()))

    def test_stacks_of_python(self):
        """Native and Python stacks of one thread."""
        gil = pathlib.Path(__file__).parent / "gil.py"
        target = Target(self, gil, "crash", program=sys.executable)
        core = target.crash()
        made, _ = self.extract(core, "--with-stacks")
        _, stack = self.threads(made)[target.pid]
        line = gil.read_text().splitlines().index("    ctypes.PyDLL(None).abort()") + 1
        self.assertRegex(stack, r"Python .*gil\.py:%d  <module>" % line)
        self.assertIn("abort", stack)

    def test_stacks_damaged(self):
        """libdw is given anything; the snapshot is as good as without it."""
        target, core = self.crashed(IN_CORE)
        data = core.read_bytes()
        front = Elf(data).loads()[0][2]
        random.seed(9)
        for _ in range(15):
            damaged = bytearray(data)
            for _ in range(8):
                damaged[random.randrange(64, front)] = random.randrange(256)
            core.write_bytes(damaged)
            made, _ = self.extract(core, "--with-stacks", status=(0, 1, 2))
            if made.exists():
                self.vramcore("info", made, status=(0, 1))

    def test_not_recorded(self):
        target = Target(self, "crash", library="")
        core = target.crash()
        _, error = self.extract(core, status=2)
        self.assertIn(f"process {target.pid} (states_target) was not recorded", error)

    def test_child(self):
        """A child that never used the device has its parent's pages, and no recording."""
        target = Target(self, "child")
        core = target.crash()
        _, error = self.extract(core, status=2)
        self.assertIn("was not recorded: it never used the device; its parent", error)

    def test_no_core(self):
        for content in (b"", b"\x7fELF", b"text\n" * 999, (self.bin / "states_target").read_bytes()):
            path = self.folder / "file"
            path.write_bytes(content)
            self.extract(path, status=2)
        self.extract(self.folder, status=2)
        self.extract(self.folder / "none", status=2)
        os.mkfifo(self.folder / "pipe")
        self.extract(self.folder / "pipe", status=2)
        self.vramcore("extract", status=64)

    def test_damaged(self):
        """Any byte may be anything: an answer or an error, in time."""
        target, core = self.crashed(IN_CORE)
        data = core.read_bytes()
        random.seed(7)
        front = Elf(data).loads()[0][2]
        outcomes = set()
        for round_number in range(60):
            damaged = bytearray(data)
            for _ in range(1 << round_number % 6):
                at = random.randrange(front) if round_number % 2 else random.randrange(len(data))
                damaged[at] = random.choice((0, 0xff, damaged[at] ^ 1 << random.randrange(8)))
            core.write_bytes(damaged)
            made, _ = self.extract(core, status=(0, 1, 2))
            if made.exists():
                self.vramcore("info", made, status=(0, 1))
            outcomes.add(made.exists())
        self.assertEqual(outcomes, {True, False})


if __name__ == "__main__":
    if not shutil.which("gcore"):
        print("SKIPPED: no gdb", flush=True)
        raise SystemExit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
