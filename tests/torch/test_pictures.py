#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""timeline, map and --at on made-up snapshots: to the character, against numbers worked out here,
and on files made to do harm.

usage: test_pictures.py VRAMCORE SOURCE [unittest options]
VRAMCORE_SET_GOLDEN=1 rewrites the golden texts.
"""
import copy
import json
import os
import pathlib
import pickle
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

import made_up
from made_up import BASE, STACK, block, frame, segment

vramcore, source = os.path.abspath(sys.argv[1]), sys.argv[2]
golden = pathlib.Path(source) / "tests/torch/golden"
MIB = 1 << 20
START = 1790000000000000


def site(function, line):
    return [frame(function, "/home/u/job/model.py", line)]


def job():
    """Device 0: 24 MiB of 32 live from before the first event (8 of them freed later), five steps of
    +4 MiB, +8 MiB (freed at the step's end), +1 MiB (kept), at the third an OOM, a mark at the fourth.
    Device 1: a segment mapped and a part of it unmapped."""
    events, blocks, clock = [], [], [0]

    def add(action, address, mib, stack, **more):
        clock[0] += 10
        events.append(dict({"action": action, "addr": address, "size": mib * MIB, "stream": 0,
                            "time_us": START + clock[0], "frames": stack}, **more))

    large, small = BASE + 64 * MIB, BASE + 128 * MIB
    add("segment_alloc", large, 16, site("grow", 5))
    for step in range(5):
        add("alloc", large, 4, site("forward", 10))
        add("alloc", large + 4 * MIB, 8, site("attention", 20))
        add("alloc", small + step * MIB, 1, site("remember", 30))
        if step == 2:
            events.append({"action": "oom", "device_free": 3 * MIB, "size": 100 * MIB, "stream": 0,
                           "time_us": START + clock[0], "frames": site("big", 99)})
        if step == 3:
            events.append({"action": "snapshot", "addr": 0, "size": 0, "stream": 0,
                           "time_us": START + clock[0], "frames": []})
        add("free_requested", large, 4, [])
        add("free_completed", large, 4, [])
        add("free_requested", large + 4 * MIB, 8, [])
        add("free_completed", large + 4 * MIB, 8, [])
    add("segment_free", large, 16, [])
    add("free_requested", BASE, 8, [])
    add("free_completed", BASE, 8, [])
    old = segment([block(BASE, 8 * MIB, "inactive", frames=[]),
                   block(BASE + 8 * MIB, 16 * MIB, "active_allocated", frames=site("load", 3)),
                   block(BASE + 24 * MIB, 8 * MIB, "inactive", frames=[])])
    kept = [block(small + i * MIB, MIB, "active_allocated", frames=site("remember", 30)) for i in range(5)]
    pool = segment([*kept, block(small + 5 * MIB, 59 * MIB, "inactive", frames=[])], address=small)
    there = BASE + 1024 * MIB
    other = segment([block(there, MIB, "active_allocated", frames=site("load", 4))], address=there, device=1,
                    is_expandable=True)
    second = [{"action": "segment_map", "addr": there, "size": 2 * MIB, "stream": 0, "time_us": START + 5,
               "frames": site("grow", 5)},
              {"action": "alloc", "addr": there, "size": MIB, "stream": 0, "time_us": START + 6,
               "frames": site("load", 4)},
              {"action": "segment_unmap", "addr": there + MIB, "size": MIB, "stream": 0,
               "time_us": START + 500, "frames": []}]
    return {"segments": [old, pool, other], "device_traces": [events, second],
            "allocator_settings": {},
            "external_annotations": [{"device": 0, "time_us": START + 40, "name": "warm", "stage": "START"}]}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write(job())

    def write(self, value):
        with open(os.path.join(self.folder.name, "job.pickle"), "wb") as file:
            file.write(pickle.dumps(value, 4))

    def run_verb(self, *arguments, locale="C"):
        env = {k: v for k, v in os.environ.items() if not k.startswith("LC_") and k != "LANG"}
        done = subprocess.run([vramcore, *arguments], cwd=self.folder.name, capture_output=True,
                              env=env | {"LANG": locale, "TZ": "Asia/Tokyo"}, timeout=120, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def report(self, *arguments, status=0):
        code, out, err = self.run_verb(*arguments, "--json")
        self.assertEqual(code, status, (arguments, out[-600:], err))
        return json.loads(out)


class Golden(Case):
    CASES = {
        "timeline": ("C", "timeline", "job.pickle"),
        "timeline-utf8": ("C.UTF-8", "timeline", "job.pickle"),
        "timeline-narrow": ("C", "timeline", "job.pickle", "--width", "40", "--device", "0", "-n", "1"),
        "map": ("C", "map", "job.pickle"),
        "map-utf8": ("de_DE.utf8", "map", "job.pickle", "-n", "1", "--device", "0"),
        "map-segment": ("C", "map", "job.pickle", "--segment", "0", "--width", "60"),
        "map-address": ("C", "map", "job.pickle", hex(BASE + 130 * MIB), "-n", "3", "--width", "60"),
        "map-peak": ("C", "map", "job.pickle", "--at", "peak", "--device", "0"),
        "top-oom": ("C", "top", "job.pickle", "--at", "oom"),
        "oom": ("C", "oom", "job.pickle"),
    }

    def test_golden(self):
        for name, (locale, *arguments) in self.CASES.items():
            with self.subTest(name):
                code, out, err = self.run_verb(*arguments, locale=locale)
                path = golden / (name + ".txt")
                if os.environ.get("VRAMCORE_SET_GOLDEN"):
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(out)
                self.assertEqual((code, err), (0, ""))
                self.assertEqual(out, path.read_text())

    def test_width(self):
        for width in (1, 7, 12, 30, 79, 80, 100, 200, 9999):
            for arguments in (("timeline",), ("map",), ("map", "--segment", "0")):
                verb, *more = arguments
                code, out, err = self.run_verb(verb, "job.pickle", *more, "--width", str(width), locale="C.UTF-8")
                self.assertEqual((code, err), (0, ""))
                for line in out.splitlines():  # drawn lines fit, as far as the least there must be
                    if re.search("[│█·]", line) and " used " not in line and " allocated " not in line:
                        self.assertLessEqual(len(line), max(width, 30 if verb == "map" else 20), (width, line))
        self.assertEqual(self.run_verb("timeline", "job.pickle", "--width", "0")[0], 0)
        self.assertEqual(self.run_verb("timeline", "job.pickle", "--width", "10001")[0], 64)
        self.assertEqual(self.run_verb("timeline", "job.pickle", "--width", "-1")[0], 64)


class Numbers(Case):
    def test_timeline(self):
        first, second = self.report("timeline", "job.pickle")["devices"]
        # before: 8 + 16; the last step has +4 +8 and 5 that are kept
        self.assertEqual((first["start_bytes"], first["start_blocks"], first["start_blocks_freed"]), (24 * MIB, 2, 1))
        self.assertEqual(first["peak_bytes"], (24 + 4 + 8 + 5) * MIB)
        # 1 event, 4 steps of 7 with one mark in each of the third and fourth, then 3
        self.assertEqual(first["peak_moment"], 1 + 4 * 7 + 2 + 3)
        self.assertEqual(first["end_bytes"], 21 * MIB)
        self.assertEqual(first["start_reserved_bytes"], (32 + 64) * MIB)
        self.assertEqual(first["reserved_peak_bytes"], (32 + 64 + 16) * MIB)
        self.assertEqual(first["from_nothing"]["reserved_bytes"], 0)
        self.assertEqual(sum(first["contradictions"].values()), 0)
        self.assertEqual(first["steps"]["rule"], "period")
        self.assertTrue(first["steps"]["inferred"])
        self.assertEqual(first["steps"]["boundaries"], [1, 8, 15, 23, 31])
        lives = first["lifetimes"]
        self.assertEqual((lives["within_step"], lives["within_step_bytes"]), (10, 60 * MIB))
        self.assertEqual((lives["longer"], lives["never_freed"]), (0, 5))
        self.assertEqual((lives["start_kept_bytes"], lives["start_freed_bytes"]), (16 * MIB, 8 * MIB))
        self.assertEqual([(m["kind"], m["number"], m["moment"]) for m in first["marks"]],
                         [("mark", 1, 4), ("oom", 1, 19), ("snapshot", 1, 27)])
        self.assertEqual(first["marks"][1]["allocated_bytes"], (24 + 4 + 8 + 3) * MIB)
        self.assertEqual([(r["bytes"], r["count"]) for r in first["peak_sites"]],
                         [(16 * MIB, 1), (8 * MIB, 1), (8 * MIB, 1), (5 * MIB, 5), (4 * MIB, 1)])
        self.assertEqual((second["peak_bytes"], second["reserved_peak_bytes"], second["end_reserved_bytes"]),
                         (MIB, 2 * MIB, MIB))

    def test_at(self):
        def live(at, *more):
            return [(d["live_bytes"] // MIB, d["reserved_bytes"] // MIB)
                    for d in self.report("top", "job.pickle", "--at", at, *more)["devices"]]

        self.assertEqual(live("peak"), [(41, 112), (1, 2)])
        self.assertEqual(live("oom"), [(39, 112), (1, 2)])
        self.assertEqual(live("snapshot:1"), [(40, 112), (1, 2)])
        self.assertEqual(live("mark:warm"), [(37, 112), (1, 2)])
        self.assertEqual(live("mark:1"), [(37, 112), (1, 2)])
        self.assertEqual(live("event:0", "--device", "0"), [(24, 112)])
        self.assertEqual(live("time:0"), [(24, 96), (0, 2)])
        self.assertEqual(live("time:1000"), [(21, 96), (1, 1)])
        peak = self.report("map", "job.pickle", "--at", "peak")["devices"][0]
        self.assertEqual((peak["segments_count"], peak["used_bytes"]), (3, 41 * MIB))
        info = self.report("info", "job.pickle", "--at", "oom")["devices"][0]
        self.assertEqual({row["key"]: row["bytes"] // MIB for row in info["ledger"] if row["bytes"]},
                         {"block": 39, "cached": 112 - 39})
        self.assertNotIn("torch", info)
        growth = self.report("diff", "job.pickle", "job.pickle", "--at", "peak")["devices"][0]
        self.assertEqual((growth["growth"], growth["live_bytes"]), (0, [41 * MIB] * 2))

    def test_oom(self):
        """What was live at the last error, from the trace; the same as top --at shows."""
        found = self.report("oom", "job.pickle")
        self.assertEqual((found["replayed"], found["failure"]["live"], found["reserved_bytes"]),
                         (True, 39 * MIB, 112 * MIB))
        # forward and attention fill 12 of 16; 24 of 32; 3 of 64
        self.assertEqual((found["cached_bytes"], found["largest_hole"]), (73 * MIB, 61 * MIB))
        self.assertFalse(found["fragmented"])  # 73 of 100 MiB
        top = self.report("top", "job.pickle", "--at", "oom", "--device", "0")["devices"][0]["rows"]
        self.assertEqual([(r["bytes"], r["count"], r["stack"]) for r in found["rows"]],
                         [(r["bytes"], r["count"], r["stack"]) for r in top if r["count"]])
        value = job()
        for event in value["device_traces"][0]:
            event["size"] = 65 * MIB if event["action"] == "oom" else event["size"]
        value["device_traces"][0].append(dict(value["device_traces"][0][-1], action="oom", size=70 * MIB))
        self.write(value)
        found = self.report("oom", "job.pickle")
        self.assertEqual((found["failures"], found["failure"]["requested"]), (2, 70 * MIB))
        self.assertEqual((found["failure"]["live"], found["cached_bytes"], found["fragmented"]),
                         (21 * MIB, 75 * MIB, True))
        self.assertIn("the memory is fragmented", self.run_verb("oom", "job.pickle")[1])

    def test_no_such_moment(self):
        for at, status, words in (("oom:2", 2, "has 1 of them"), ("mark:cold", 2, "of them"), ("event:0", 2, "several"),
                                  ("peak:2", 64, "no such moment"), ("", 64, "no such moment"),
                                  ("time:1e9", 64, "no such moment"), ("oom:0", 64, "no such moment")):
            code, out, err = self.run_verb("top", "job.pickle", "--at", at)
            self.assertEqual((code, out), (status, ""), at)
            self.assertIn(words, err)
        self.assertEqual(self.run_verb("top", "job.pickle", "--at", "event:41", "--device", "0")[0], 2)
        self.assertEqual(self.run_verb("top", "job.pickle", "--at", "event:40", "--device", "0")[0], 0)

    def test_map(self):
        first, second = self.report("map", "job.pickle")["devices"]
        # holes: 8, 8, 59 MiB
        self.assertEqual((first["free_bytes"], first["holes"], first["largest_hole"]), (75 * MIB, 3, 59 * MIB))
        self.assertEqual(first["fragmentation_permille"], round(1000 * (1 - 59 / 75)))
        # 5 of 64 MiB is less than an eighth; 16 of 32 is not
        self.assertEqual((first["pinned_segments"], first["pinned_free_bytes"]), (1, 59 * MIB))
        self.assertEqual([(p["bytes"], p["kept_bytes"], p["segments"]) for p in first["pinned_by"]],
                         [(5 * MIB, 59 * MIB, 1)])
        self.assertEqual((second["free_bytes"], second["holes"], second["fragmentation_permille"]), (0, 0, 0))
        parts = self.report("map", "job.pickle", hex(BASE + 130 * MIB))
        self.assertEqual(parts["schema"], "vramcore.map.segment/1")
        self.assertEqual([p["what"] for p in parts["parts"]], ["block"] * 5 + ["hole"])
        self.assertEqual([p["here"] for p in parts["parts"]], [False, False, True, False, False, False])

    def test_own_format(self):
        """The same file as .vramcore says the same."""
        self.assertEqual(self.run_verb("pack", "job.pickle", "-o", "job.vramcore")[0], 0)
        for verb, *more in (("timeline",), ("map",), ("map", "--at", "oom"), ("top", "--at", "event:9", "--device", "0")):
            first, second = (self.report(verb, name, *more) for name in ("job.pickle", "job.vramcore"))
            self.assertEqual(first["devices"], second["devices"])
            self.assertEqual([i["key"] for i in first["evidence"]["items"]],
                             [i["key"] for i in second["evidence"]["items"]])

    def test_contradictions_are_evidence(self):
        bad = job()
        bad["device_traces"][0].insert(4, copy.deepcopy(bad["device_traces"][0][3]))
        self.write(bad)
        found = self.report("timeline", "job.pickle", status=1)
        self.assertEqual(found["devices"][0]["contradictions"]["double_allocations"], 1)
        self.assertIn("trace_double_allocations", [i["key"] for i in found["evidence"]["items"]])
        self.assertEqual(self.run_verb("top", "job.pickle", "--at", "peak")[0], 1)

    def test_no_trace(self):
        for traces in ([], [[]], None):
            value = job()
            value["device_traces"] = traces
            if traces is None:
                del value["device_traces"]
            self.write(value)
            code, out, err = self.run_verb("timeline", "job.pickle")
            self.assertEqual((code, out), (2, ""))
            self.assertIn("_record_memory_history", err)
            self.assertEqual(self.run_verb("map", "job.pickle")[0], 0)

    def test_fields_are_documented(self):
        text = (pathlib.Path(source) / "docs/JSON.md").read_text()

        def walk(value):
            if isinstance(value, dict):
                for key, inner in value.items():
                    if key not in ("schema", "site"):
                        self.assertIn(f"`{key}`", text)
                    walk(inner)
            elif isinstance(value, list):
                for inner in value:
                    walk(inner)

        for arguments in (("timeline",), ("map",), ("map", "--segment", "0")):
            walk(self.report(arguments[0], "job.pickle", *arguments[1:]))


class Hostile(Case):
    RUNS = (("timeline",), ("map",), ("map", "--segment", "0"), ("map", "--at", "peak"),
            ("top", "--at", "event:7", "--device", "0"), ("top", "--at", "time:0.0001"))

    def all_verbs(self, value, what):
        self.write(value)
        for verb, *more in self.RUNS:
            start = time.monotonic()
            code, out, err = self.run_verb(verb, "job.pickle", *more)
            self.assertIn(code, (0, 1, 2), (what, verb, err))
            self.assertEqual(code == 2, out == "", (what, verb))
            self.assertLess(time.monotonic() - start, 30, (what, verb))

    def test_numbers(self):
        """Every number of events, segments and blocks replaced by one that no program has."""
        generator = random.Random(1)
        for turn in range(40):
            value = job()
            for events in value["device_traces"]:
                for event in events:
                    for key in ("addr", "size", "time_us"):
                        if key in event and generator.random() < 0.1:
                            event[key] = generator.choice((0, 1, 2**50, 2**63, 2**64 - 1, BASE + 5 * MIB))
                generator.random() < 0.3 and generator.shuffle(events)
            for part in value["segments"]:
                for item in (part, *part["blocks"]):
                    for key in ("address", "size", "total_size", "requested_size"):
                        if key in item and generator.random() < 0.1:
                            item[key] = generator.choice((0, 1, 2**50, 2**63, 2**64 - 1, BASE + 5 * MIB))
            self.all_verbs(value, turn)

    def test_many_segments(self):
        """Segments that split and join all the time: bounded."""
        value = job()
        value["device_traces"][0] = [
            {"action": "segment_unmap" if i % 2 else "segment_map", "addr": BASE + (i * 7919 % 30011) * 4096,
             "size": 4096 * (1 + i % 5), "stream": 0, "time_us": START + i, "frames": []} for i in range(60000)]
        self.all_verbs(value, "many segments")

    def test_names(self):
        value = job()
        value["external_annotations"][0]["name"] = "\x1b[31mred\n"
        self.write(value)
        code, out, _ = self.run_verb("timeline", "job.pickle")
        self.assertEqual(code, 0)
        self.assertNotIn("\x1b", out)
        self.assertIn("\\x1bred", out.replace("[31m", ""))

    def test_nothing(self):
        value = job()
        value["segments"] = []
        self.all_verbs(value, "no segments")
        value["device_traces"] = [[], value["device_traces"][1][:1]]
        self.all_verbs(value, "one event")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
