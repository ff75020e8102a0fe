#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export --to torch-pickle and --to vramcore: Python reads back what it was, PyTorch's own
_memory_viz.py prints the same.

usage: test_export.py VRAMCORE SOURCE FOLDER MAKE_SNAPSHOTS
FOLDER keeps what is fetched. Skipped in part, with a word, where that cannot be reached.
"""
import glob
import json
import os
import pickle
import pickletools
import subprocess
import sys
import tempfile
import unittest

import made_up
import memory_viz
from made_up import BASE, STACK, block, event, frame, segment
from made_up_rich import rich

vramcore, source, folder, make_snapshots = (os.path.abspath(path) for path in sys.argv[1:5])
shared = os.environ.get("VRAMCORE_SHARED", os.path.join(source, "..", "shared"))
strangers = sorted(glob.glob(os.path.join(shared, "inputs", "torch", "*.pickle")))
MIB = 1 << 20


def tuples(value):
    """Files that went through JSON have lists where PyTorch has tuples: pools."""
    if isinstance(value, dict):
        return {key: tuple(item) if key in ("pool_id", "segment_pool_id") else tuples(item)
                for key, item in value.items()}
    return [tuples(item) for item in value] if isinstance(value, list) else value


class Export(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.files = self.complete = 0

    def new(self, ending=""):
        self.files += 1
        return os.path.join(self.folder.name, f"{self.files}{ending}")

    def write(self, data):
        path = self.new()
        with open(path, "wb") as file:
            file.write(data)
        return path

    def run_verb(self, *arguments, status=(0, 1)):
        result = subprocess.run([vramcore, *arguments], capture_output=True)
        self.assertIn(result.returncode, status, result.stderr)
        return result

    def export(self, path, form):
        out = self.new("." + form)
        self.run_verb("export", path, "--to", form, "-o", out)
        return out

    def again(self, path):
        with open(self.export(path, "torch-pickle"), "rb") as file:
            data = file.read()
        self.assertEqual(data[:2], b"\x80\x04")
        for opcode, _, _ in pickletools.genops(data):
            self.assertNotIn(opcode.name, ("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST"))
        return pickle.loads(data)

    def tables(self, path):
        tables = json.loads(self.run_verb("export", path, "--to", "json").stdout)["tables"]
        return tables

    def same(self, value):
        for protocol in (2, 4, 5, "cpp") if value == made_up.plain() else (4,):
            self.assertEqual(self.again(self.write(made_up.dumps(value, protocol))), value)
        self.assertEqual(self.again(self.write(json.dumps(value).encode())), value)
        original = self.write(pickle.dumps(value))
        snapshot = self.export(original, "vramcore")
        self.assertEqual(self.again(snapshot), value)
        self.assertEqual(self.tables(snapshot), self.tables(original))

    def test_made_up(self):
        self.same(made_up.plain())
        self.same(rich())
        self.same({"segments": [], "device_traces": []})
        self.same({"segments": [], "device_traces": [[], []], "allocator_settings": {},
                   "external_annotations": []})

    def test_torch_1_13_and_2_0(self):
        blocks = [{"size": MIB, "state": "active_allocated",
                   "history": [{"addr": BASE, "real_size": 1000, "frames": STACK},
                               {"addr": BASE, "real_size": 900, "frames": STACK[1:]},
                               {"addr": BASE, "real_size": 800}]},
                  {"size": MIB, "state": "active_awaiting_free"},
                  {"size": 2 * MIB, "state": "inactive", "history": []}]
        old = [{"device": 1, "address": BASE, "total_size": 4 * MIB, "allocated_size": MIB,
                "active_size": 2 * MIB, "stream": 7, "segment_type": "large", "blocks": blocks}]
        self.same(old)
        self.same([])
        self.same({"segments": old, "device_traces": [[], [event("alloc")]]})

    def test_every_key(self):
        compiled = frame("forward", "<eval_with_key>.0", 9, fx_node_op="call_function",
                         fx_node_name="mm", fx_node_target="aten.mm", fx_original_trace="a\n b")
        value = made_up.plain()
        value["segments"][0]["frames"] = [compiled]
        value["segments"][0]["registration_counter"] = -1
        value["segments"][0]["blocks"][0]["forward_frames"] = STACK[1:]
        value["device_traces"] = [[], [
            event("alloc", compile_context="[0/1]", user_metadata="m", internal_metadata="i",
                  pool_id=(0, 3), forward_frames=STACK[2:]),
            event("surprise", forward_frames=[]),
            {"action": "oom", "device_free": 1 << 40, "size": 99, "stream": 3},
            {"action": "alloc", "addr": 0xffff_8000_0000_0000, "size": 1, "stream": -5},
            {"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "frames": []}]]
        self.same(value)

    def test_other_keys(self):
        """Keys of a later PyTorch, metadata of any type: kept where they are plain values."""
        plain = [None, True, False, 0, -1, 255, -2**63, 2**64 - 1, 1.0, -0.5, 1e300, float("inf"),
                 "", "a\"b\\c\x01\n\u20ac", [], {}, (), (1, 2), (1, 2, "x"), [[1], [2, [3]]],
                 {"a": {"b": [1, (2,)]}}, {1: 2, None: "x", (1, 2): []}, {"(": 1}, {"{": 1, "b": 2}]
        value = made_up.plain()
        value["later"] = plain
        value["segments"][0].update(colour="blue", more=plain)
        value["segments"][0]["blocks"][0]["owner"] = {"name": "x"}
        value["device_traces"] = [[event("alloc", user_metadata=metadata) for metadata in plain] +
                                  [event("alloc", color=3, user_metadata="text")]]
        original = self.write(pickle.dumps(value))
        self.assertEqual(self.again(original), value)
        got = self.again(self.export(original, "vramcore"))
        self.assertEqual(got, value)
        self.assertEqual(repr(got["later"]), repr(plain))  # 1 is not 1.0 nor True

    def test_sharing(self):
        """Events of one stack share it: the file stays small."""
        value = dict(made_up.plain(), device_traces=[[event("alloc") for _ in range(20000)]])
        out = self.export(self.write(pickle.dumps(value)), "torch-pickle")
        self.assertLess(os.path.getsize(out), 20000 * 60)
        with open(out, "rb") as file:
            events = pickle.load(file)["device_traces"][0]
        self.assertIs(events[0]["frames"], events[-1]["frames"])

    def test_pack(self):
        original, packed = self.write(pickle.dumps(rich())), self.new(".vramcore")
        self.run_verb("pack", original, "-o", packed)
        self.assertEqual(self.tables(packed), self.tables(original))
        self.assertEqual(self.again(packed), rich())

    def test_nothing_is_overwritten(self):
        original = self.write(pickle.dumps(made_up.plain()))
        for form in ("torch-pickle", "vramcore"):
            before = self.write(b"mine")
            self.run_verb("export", original, "--to", form, "-o", before, status=(2,))
            with open(before, "rb") as file:
                self.assertEqual(file.read(), b"mine")
        self.run_verb("export", original, "--to", "vramcore", status=(64,))
        result = self.run_verb("export", original, "--to", "torch-pickle", "--limit", "records=1",
                               "-o", self.new(), status=(2,))
        self.assertIn(b"--limit records=N", result.stderr)

    def test_standard_output(self):
        result = self.run_verb("export", self.write(pickle.dumps(rich())), "--to", "torch-pickle")
        self.assertEqual(pickle.loads(result.stdout), rich())

    def test_files_of_strangers(self):
        if not strangers:
            self.skipTest("no files in " + shared)
        for path in strangers:
            with open(path, "rb") as file:
                value = pickle.load(file)
            self.assertEqual(self.again(path), tuples(value), path)
            self.assertEqual(self.tables(self.export(path, "vramcore")), self.tables(path), path)

    def printed(self, viz, path):
        """What every command of _memory_viz.py prints or draws, but pages."""
        with open(path, "rb") as file:
            value = pickle.load(file)
        if isinstance(value, list):
            value = {"segments": value, "device_traces": []}
        texts = []
        for verb in ("stats", "trace"): # of a file that was cut down the first fails
            result = subprocess.run([sys.executable, viz, verb, path], capture_output=True,
                                    cwd=self.folder.name)
            texts.append((result.returncode, result.stdout))
            self.complete += result.returncode == 0 and len(result.stdout) > 100
        module = memory_viz.load(viz)
        for draw in (module.segments, module.memory):
            texts.append(draw(value, format_flamegraph=str))
        return texts

    def test_memory_viz_of_the_wheel(self):
        viz = memory_viz.of_wheel(folder)
        if not viz:
            self.skipTest("the torch wheel cannot be fetched")
        for path in strangers or [self.write(pickle.dumps(made_up.plain()))]:
            ours = self.export(path, "torch-pickle")
            self.assertEqual(self.printed(viz, ours), self.printed(viz, path), path)
        self.assertGreaterEqual(self.complete, 2)

    def test_memory_viz_of_debian(self):
        """PyTorch 1.13: a list of segments."""
        viz = memory_viz.of_debian(folder)
        if not viz:
            self.skipTest("Debian's python3-torch cannot be fetched")
        module = memory_viz.load(viz)
        blocks = [{"size": MIB, "state": "active_allocated",
                   "history": [{"addr": BASE, "real_size": 1000, "frames": STACK}]},
                  {"size": MIB, "state": "inactive"}]
        value = [{"device": 0, "address": BASE, "total_size": 2 * MIB, "allocated_size": MIB,
                  "active_size": MIB, "stream": 0, "segment_type": "large", "blocks": blocks}]
        ours = self.again(self.write(pickle.dumps(value)))
        for draw in (module.segments, module.memory):
            self.assertEqual(draw(ours, format_flamegraph=str), draw(value, format_flamegraph=str))
        self.assertEqual(repr(module.stats(ours)), repr(module.stats(value)))

    def page_of_the_wheel(self, path):
        viz = memory_viz.of_wheel(folder)
        page = self.new(".html")
        subprocess.run([sys.executable, viz, "trace_plot", path, "-o", page], check=True)
        return page

    def test_page_of_the_wheel(self):
        if not memory_viz.of_wheel(folder):
            self.skipTest("the torch wheel cannot be fetched")
        original = self.write(pickle.dumps(rich()))
        self.assertEqual(self.again(self.page_of_the_wheel(original)), rich())

    def test_recordings(self):
        """Snapshots of our own: sums worked out by hand where they are made."""
        subprocess.run([make_snapshots, self.folder.name], check=True)
        value = self.again(os.path.join(self.folder.name, "self100.vramcore"))
        segments = value["segments"]
        self.assertEqual(sum(s["total_size"] for s in segments), 164 * MIB)
        self.assertEqual(len(segments), 101)
        names = {f["name"] for s in segments for f in s["frames"]}
        self.assertIn("leaking_function", names)
        # blocks of 51,200 bytes one after the other: some reach out of their segment of 64 MiB
        path, out = os.path.join(self.folder.name, "step50000.vramcore"), self.new()
        said = self.run_verb("export", path, "--to", "torch-pickle", "-o", out).stderr.decode()
        left_out = int(said.split("left out: ")[1].split()[0])
        with open(out, "rb") as file:
            value = pickle.load(file)
        for s in value["segments"]:
            at = s["address"]
            for b in s["blocks"]:
                self.assertEqual(b["address"], at)
                at += b["size"]
            self.assertEqual(at, s["address"] + s["total_size"])
            self.assertEqual(s["allocated_size"],
                             sum(b["size"] for b in s["blocks"] if b["state"] != "inactive"))
        info = json.loads(self.run_verb("info", "--json", path).stdout)
        ledger = {row["key"]: row["bytes"] for row in info["devices"][0]["ledger"]}
        self.assertEqual(sum(s["allocated_size"] for s in value["segments"]) + 51200 * left_out,
                         ledger["block"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
