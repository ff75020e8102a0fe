#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole way: a program under `vramcore run`, snapshots at two steps, and the line that grew.

usage: test_leak.py BINARY_FOLDER SOURCE_FOLDER [unittest options]
The bytes expected are worked out from the programs' own constants, the lines are found by their
marks in the sources.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN, SOURCE = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
VRAMCORE = BIN / "vramcore"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}
ENVIRONMENT["LD_LIBRARY_PATH"] = str(BIN / "simcuda")
CACHED_BYTES = 51200  # samples/train.c
LOSS_BYTES = 1024


def line_of(path, mark):
    lines = [n for n, text in enumerate((SOURCE / path).read_text().splitlines(), 1) if mark in text]
    assert len(lines) == 1, (path, mark, lines)
    return lines[0]


class Leak(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="vramcore-end-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def record(self, name, steps, *command, options=()):
        out = self.folder / name
        done = subprocess.run(
            [VRAMCORE, "run", "--out", out, "--at-step", ",".join(map(str, steps)), *options, "--", *command],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("vramcore: %d snapshot%s in" % (len(steps), "s"[:len(steps) > 1]), done.stderr)
        self.assertIn("1 of 1 process used the device and was recorded", done.stderr)
        found = [next(out.glob("*.step%d.step.vramcore" % step)) for step in steps]
        self.assertEqual(len(list(out.iterdir())), len(steps))
        return found

    def diff(self, old, new, *options, status=0):
        done = subprocess.run([VRAMCORE, "diff", "--json", *options, old, new], env=ENVIRONMENT,
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["schema"], "vramcore.diff/1")
        self.assertEqual(len(report["devices"]), 1)
        return report

    def named(self, row, path, function, mark):
        """The frame of that function in the stack of a row is at the marked line."""
        frames = [f for f in row["stack"] if f["file"] and f["file"].endswith(path) and
                  f["function"] and function in f["function"]]
        self.assertTrue(frames, row)
        self.assertIn(line_of(path, mark), [f["line"] for f in frames])

    def train(self, leak, per_step, function, *options):
        old, new = self.record("train", (100, 600), BIN / "train", "--steps", "600", "--leak", leak, *options)
        report = self.diff(old, new)
        device = report["devices"][0]
        self.assertEqual(device["growth"], 500 * per_step)
        grown = [row for row in device["rows"] if row["growth"] > 0]
        self.assertEqual(len(grown), 1)
        self.assertEqual(grown[0]["growth"], 500 * per_step)
        self.assertEqual(grown[0]["count_growth"], 500)
        self.assertEqual(grown[0]["shape"], "linear")
        self.assertTrue(grown[0]["site"].startswith(
            "samples/train.c:%d  %s" % (line_of("samples/train.c", "LEAK: " + function), function)), grown[0]["site"])
        self.assertTrue(report["evidence"]["complete"])

    def test_cache(self):
        self.train("cache", CACHED_BYTES, "cache_put")

    def test_losses(self):
        self.train("losses", LOSS_BYTES, "keep_loss")

    def test_steps_by_nvtx(self):
        if b"NVTX_INJECTION64_PATH" not in (BIN / "train").read_bytes():
            self.skipTest("the sample was built without NVTX's header")
        old, new = self.record("nvtx", (100, 600), BIN / "train", "--steps", "600", "--nvtx",
                               options=("--step-mark", "step *"))
        self.assertEqual(self.diff(old, new)["devices"][0]["growth"], 500 * CACHED_BYTES)

    def test_healthy(self):
        old, new = self.record("healthy", (100, 600), BIN / "train", "--steps", "600", "--leak", "none")
        device = self.diff(old, new)["devices"][0]
        self.assertEqual(device["growth"], 0)
        self.assertEqual(device["rows"], [])

    def test_peak(self):
        """The highest moment of step 40: all that forward saved and the first scratch of backward."""
        path, = self.record("peak", (40,), BIN / "train", "--steps", "45", options=("--when", "peak"))
        done = subprocess.run([VRAMCORE, "top", "--json", path], env=ENVIRONMENT, capture_output=True, text=True, check=True)
        report = json.loads(done.stdout)
        device, = report["devices"]
        self.assertEqual((report["file"]["moment"], report["file"]["step"], report["file"]["phase"]), ("peak", 40, "backward"))
        weights, activations, scratch = 12 * 4 * (40 << 20), 12 * 2 * (640 << 10), 320 << 10
        live = weights + activations + scratch + 40 * CACHED_BYTES
        self.assertEqual((device["live_bytes"], device["live_count"]), (live, 48 + 24 + 1 + 40))
        self.assertEqual(device["device"]["step_peak"], live)
        self.assertTrue(report["evidence"]["complete"])

    def test_without_reports(self):
        """The line that missed the cache is named, and it is said that it need not be the one that leaks."""
        old, new = self.record("bare", (100, 600), BIN / "train", "--steps", "600", "--no-reports")
        report = self.diff(old, new)
        # 500 copies need whole segments of 2 MiB: growth is a multiple, at least what was leaked
        growth = report["devices"][0]["growth"]
        self.assertEqual(growth % (2 << 20), 0)
        self.assertGreaterEqual(growth + (2 << 20), 500 * CACHED_BYTES)
        frames = [f["function"] for row in report["devices"][0]["rows"] for f in row["stack"]]
        self.assertIn("new_segment", frames)
        self.assertTrue(any("need not be the line that leaks" in note for note in report["notes"]), report["notes"])

    def cxx(self, program, name="leak"):
        return self.record(name, (10, 60), program, "60")

    def check_cxx(self, report, lines=True):
        device = report["devices"][0]
        self.assertEqual(device["growth"], 50 * 4096)
        grown = [row for row in device["rows"] if row["growth"]]
        self.assertEqual([(r["growth"], r["count_growth"]) for r in grown], [(50 * 4096, 50)])
        if lines:
            self.named(grown[0], "tests/end/leak.cc", "Cache<unsigned long>::insert", "/* LEAK */")

    def test_inlined_templates(self):
        old, new = self.cxx(BIN / "end-leak")
        report = self.diff(old, new)
        self.check_cxx(report)
        inlined = [f["function"] for row in report["devices"][0]["rows"] for f in row["stack"] if f["inlined"]]
        self.assertTrue(any("DeviceAllocator<char>::allocate" in f for f in inlined if f), inlined)

    def test_stripped_with_separate_debug_file(self):
        program, debug = self.folder / "stripped", self.folder / "debug" / "stripped.debug"
        debug.parent.mkdir()
        shutil.copy(BIN / "end-leak", program)
        subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
        subprocess.run(["strip", "--strip-all", program], check=True)
        old, new = self.cxx(program)
        self.check_cxx(self.diff(old, new, "--debug-dir", debug.parent))
        self.check_cxx(self.diff(old, new), lines=False)  # nothing to read names from, the bytes stay

    def test_two_runs_and_a_rebuild_line_up(self):
        old, _ = self.cxx(BIN / "end-leak", "one")
        _, new = self.cxx(BIN / "end-leak", "two")
        self.check_cxx(self.diff(old, new))
        _, rebuilt = self.cxx(BIN / "end-leak-rebuilt", "three")
        report = self.diff(old, rebuilt)
        self.check_cxx(report)
        self.assertNotEqual(*(  # or this test shows nothing
            {f["build_id"] for f in json.loads(subprocess.run(
                [VRAMCORE, "top", "--json", path], env=ENVIRONMENT, capture_output=True, text=True,
                check=True).stdout)["devices"][0]["rows"][0]["stack"] if "leak" in f["module"]}
            for path in (old, rebuilt)))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
