#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A recording on a disk after a power cut: any page may be an older one, or zero.

A program has blocks that come and go; its recording is copied while it runs, and once it is dead. Of the
last copy random pages of 4 KiB become those of an older one, or zero, as when a system loses power before it
has written them all. Whatever is still shown must have been there: every address with its size and step is in the
list that the program wrote. What fails its check is dropped by itself, and counted.

usage: test_power_cut.py BINARY_FOLDER [unittest options]
"""
import json
import os
import pathlib
import random
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from common import Case, Target  # noqa: E402

Case.bin = pathlib.Path(sys.argv[1]).resolve()
PAGE = 4096


class PowerCut(Case):
    def setUp(self):
        super().setUp()
        log = self.folder / "log"
        target = Target(self, "churn", log)
        self.versions = []
        for _ in range(5):
            time.sleep(0.12)
            self.versions.append(target.recording().read_bytes())
        path = target.recording()
        target.end()
        self.last = path.read_bytes()
        self.true = {tuple(int(word, 16) for word in line.split()) for line in log.read_text().splitlines()
                     if len(line.split()) == 3}
        # what it said, and what it has besides
        self.true |= {(target.value["weights"], 8 << 20, 0), (target.value["cache"], 3 << 20, 1),
                      (target.value["again"], 3 << 20, 3), (target.value["logits"], 0x4000, 3)}
        self.file = self.folder / "cut.vrec"

    def read(self, data):
        """Rows shown, and faults counted; None: nothing could be shown, which was said."""
        self.file.write_bytes(data)
        made = self.folder / "made.vramcore"
        made.unlink(missing_ok=True)
        out, error = self.vramcore("snapshot", self.file, "-o", made, "--json", status=(0, 1, 2))
        if not made.exists():
            self.assertNotEqual(error, "")
            return None
        faults = json.loads(out)["faults"]
        whole = json.loads(self.vramcore("export", made, "--to", "json", status=(0, 1))[0])
        tables = whole["tables"] if "tables" in whole else whole
        rows = 0
        for name in ("allocations", "freed"):
            table = tables[name]
            rows += len(table)
            for row in table:
                if row["kind"] not in ("linear", "block"):
                    continue
                was = int(row["address"], 16), row["size"], row["step"]
                self.assertTrue(was in self.true, was)
        return rows, faults

    def test_pages(self):
        whole, faults = self.read(self.last)
        self.assertEqual(faults, 0)
        self.assertGreater(whole, 2000)
        random.seed(20)
        shown = dropped = nothing = 0
        for round_number in range(24):
            data = bytearray(self.last)
            pages = len(data) // PAGE
            lost = random.sample(range(pages), max(1, pages * (1 + round_number % 20) // 100))
            for page in lost:
                at = page * PAGE
                old = random.choice(self.versions + [b""])[at:at + PAGE]
                data[at:at + PAGE] = old.ljust(PAGE, b"\0")
            found = self.read(data)
            if not found:
                nothing += 1
                continue
            shown += 1
            dropped += found[1]
            if min(lost) >= 8:  # the root is as it was: one by one, not all for one
                self.assertGreaterEqual(found[0], whole - len(lost) * (PAGE // 160 + 2))
        self.assertGreater(shown, 15)
        self.assertGreater(dropped, 0)
        print(f"{shown} shown, {dropped} faults counted, {nothing} without a root", flush=True)

    def test_old_root(self):
        """An older root with newer records: the older moment is shown, and that it is one is said."""
        data = self.versions[1][:8 * PAGE] + self.last[8 * PAGE:]
        rows, faults = self.read(data)
        self.assertGreater(rows, 100)
        self.assertEqual(faults, 1)
        info, _ = self.vramcore("info", self.folder / "made.vramcore", status=1)
        self.assertIn("INCOMPLETE", info)

    def test_one_page(self):
        """A page of zeroes costs what was in it, and what was torn at its edges."""
        random.seed(21)
        whole, _ = self.read(self.last)
        for page in random.sample(range(8, len(self.last) // PAGE), 8):
            data = bytearray(self.last)
            data[page * PAGE:(page + 1) * PAGE] = bytes(PAGE)
            rows, _ = self.read(data)
            self.assertGreaterEqual(rows, whole - PAGE // 160 - 2)

    def test_cut(self):
        """The file is shorter than it was."""
        for part in (1, 4, 7, 9):
            self.read(self.last[:len(self.last) * part // 10])


unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
