#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Made-up snapshots of every schema that PyTorch has had, through the command.

usage: test_schemas.py VRAMCORE SOURCE
"""
import base64
import gzip
import json
import os
import pickle
import pickletools
import shutil
import subprocess
import sys
import tempfile
import unittest

import made_up
from made_up import BASE, STACK, block, event, frame, segment

vramcore = sys.argv[1]
MIB = 1 << 20


class Schemas(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, data, name="snapshot.pickle"):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def run_verb(self, verb, path, *arguments, status=0):
        result = subprocess.run([vramcore, verb, path, *arguments], capture_output=True, text=True)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result.stdout

    def tables(self, value, protocol=4, status=0):
        path = self.path(made_up.dumps(value, protocol))
        return json.loads(self.run_verb("export", path, "--to", "json", status=status))["tables"]

    def info(self, path, status=0):
        return json.loads(self.run_verb("info", path, "--json", status=status))

    def test_every_protocol_gives_the_same(self):
        expected = None
        for protocol in (2, 3, 4, 5, "cpp"):
            tables = self.tables(made_up.plain(), protocol)
            self.assertEqual(len(tables["origin"]), 1)
            self.assertEqual(tables["origin"][0]["protocol"], 2 if protocol == "cpp" else protocol)
            del tables["origin"], tables["strings"]
            expected = expected or tables
            self.assertEqual(tables, expected, protocol)

    def test_numbers(self):
        info = self.info(self.path(made_up.dumps(made_up.plain())))
        torch = info["devices"][0]["torch"]
        self.assertEqual(torch["allocated"], 3 * MIB)
        self.assertEqual(torch["active"], 4 * MIB)
        self.assertEqual(torch["reserved"], 8 * MIB)
        self.assertEqual(torch["inactive_split"], 4 * MIB)
        self.assertEqual(torch["largest_free_block"], 4 * MIB)
        self.assertEqual(torch["pending_free"], MIB)
        self.assertEqual(info["allocator_settings"]["roundup_power2_divisions.2"], "4")
        self.assertEqual(info["allocator_settings"]["garbage_collection_threshold"], "0.5")
        self.assertEqual(info["allocator_settings"]["expandable_segments"], "True")
        ledger = {row["key"]: row["bytes"] for row in info["devices"][0]["ledger"]}
        self.assertEqual(ledger, {"block": 4 * MIB, "cached": 4 * MIB})

    def test_a_wholly_free_segment_is_no_split(self):
        value = made_up.plain()
        value["segments"].append(segment([block(BASE + (64 << 20), 2 * MIB, "inactive")],
                                         BASE + (64 << 20)))
        torch = self.info(self.path(made_up.dumps(value)))["devices"][0]["torch"]
        self.assertEqual(torch["inactive"], 6 * MIB)
        self.assertEqual(torch["inactive_split"], 4 * MIB)

    def test_torch_1_13(self):
        """A list of segments; blocks without addresses, with a history."""
        blocks = [{"size": MIB, "state": "active_allocated",
                   "history": [{"addr": BASE, "real_size": 1000, "frames": STACK},
                               {"addr": BASE, "real_size": 900, "frames": STACK[1:]}]},
                  {"size": MIB, "state": "active_awaiting_free"},
                  {"size": 2 * MIB, "state": "inactive"}]
        value = [{"device": 1, "address": BASE, "total_size": 4 * MIB, "allocated_size": MIB,
                  "active_size": 2 * MIB, "stream": 7, "segment_type": "large", "blocks": blocks}]
        for protocol in (2, 4, "cpp"):
            tables = self.tables(value, protocol)
            self.assertEqual([b["address"] for b in tables["blocks"]],
                             [hex(BASE), hex(BASE + MIB), hex(BASE + 2 * MIB)])
            self.assertEqual(len(tables["block_history"]), 2)
            self.assertEqual(tables["blocks"][0]["stack"], tables["block_history"][0]["stack"])
        torch = self.info(self.path(made_up.dumps(value)))["devices"][0]
        self.assertEqual(torch["device"]["ordinal"], 1)
        self.assertIsNone(torch["torch"]["requested"])
        self.assertEqual(torch["torch"]["pending_free"], MIB)

    def test_an_empty_snapshot(self):
        for value in ([], {"segments": [], "device_traces": []},
                      {"segments": [], "device_traces": [[], []]}):
            self.assertEqual(self.tables(value)["segments"], [])

    def test_events(self):
        """Every action, the keys of newer versions, an unknown action."""
        actions = ["alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
                   "segment_map", "segment_unmap", "snapshot", "annotate", "surprise"]
        events = [event(action, user_metadata=f"m{i}", compile_context="[0/1]", pool_id=(0, i))
                  for i, action in enumerate(actions)]
        events.append({"action": "oom", "device_free": 12345, "size": 99, "stream": 3})
        value = dict(made_up.plain(), device_traces=[[], events])
        tables = self.tables(value)
        self.assertEqual([row["action"] for row in tables["trace"]],
                         [1, 2, 3, 4, 5, 6, 7, 8, 10, 0, 9])
        self.assertTrue(all(row["device"] == 1 for row in tables["trace"]))
        details = [tables["trace_details"][row["detail"] - 1] for row in tables["trace"]]
        self.assertEqual([d["metadata"] for d in details[:3]], ["m0", "m1", "m2"])
        self.assertEqual([d["pool_second"] for d in details[:3]], [0, 1, 2])
        self.assertEqual(details[9]["action"], "surprise")
        self.assertEqual(details[10]["device_free"], 12345)
        self.assertEqual(len(tables["failures"]), 1)
        self.assertEqual(tables["failures"][0]["requested"], 99)
        self.assertEqual(tables["failures"][0]["device"], 1)
        self.assertEqual(tables["trace"][0]["time_us"], 1790000000000000)

    def test_events_that_are_alike(self):
        """Most events have the keys of the one before: whatever their values, and however they are
        written, all of them are read, and so are those in between that differ."""
        actions = {"alloc": 1, "free_requested": 2, "free_completed": 3, "surprise": 0}
        stacks = [STACK, STACK[1:], STACK[2:], []]
        numbers = [0, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**40 + 3, 2**47, 2**55 - 1, 2**55,
                   2**62, 2**63 - 1]
        events = []
        for i in range(300):
            made = event(list(actions)[i % 4], numbers[i % 13], numbers[i % 11],
                         time_us=1790000000000000 + i * 97, stream=numbers[i % 7],
                         frames=stacks[i // 2 % 4] if i % 5 else [STACK[j % 4] for j in range(i % 9)])
            if 100 <= i < 200:
                made = dict(made, user_metadata=f"m{i % 3}" if i % 9 else None,
                            compile_context="".join(["N/", "A"]), pool_id=(0, i % 2 * (i + 150)))
            if i % 50 == 49:
                made = dict(reversed(made.items()), later=i)
            events.append(made)
        value = dict(made_up.plain(), device_traces=[events[:120], events[120:]])
        for data in [made_up.dumps(value, protocol) for protocol in (2, 3, 4, 5, "cpp")] + \
                [pickletools.optimize(pickle.dumps(value, 4))]:
            tables = json.loads(self.run_verb("export", self.path(data), "--to", "json",
                                              status=0))["tables"]
            self.assertEqual(len(tables["trace"]), len(events))
            for i, (row, made) in enumerate(zip(tables["trace"], events)):
                detail = tables["trace_details"][row["detail"] - 1]
                self.assertEqual(
                    [row["device"], row["action"], int(str(row["address"]), 0), row["size"],
                     int(str(row["stream"]), 0), row["time_us"], detail["action"],
                     detail["metadata"], detail["pool_second"], self.frames(tables, row["stack"])],
                    [int(i >= 120), actions[made["action"]], made["addr"], made["size"],
                     made["stream"], made["time_us"],
                     made["action"] if made["action"] == "surprise" else "",
                     made.get("user_metadata") or "", made.get("pool_id", (0, 0))[1],
                     [(frame["name"], frame["line"]) for frame in made["frames"]]], i)
                self.assertEqual("later" in detail["more"], "later" in made)

    def frames(self, tables, stack):
        """Name and line of each frame of a stack (a row plus 1)."""
        if not stack:
            return []
        made = tables["source_stacks"][stack - 1]
        rows = tables["source_lists"][made["first"]:made["first"] + made["count"]]
        frames = [tables["source_frames"][row["frame"] - 1] for row in rows]
        return [(frame["function"], frame["line"]) for frame in frames]

    def test_metadata_and_owners_before(self):
        """A live block has the metadata of its allocation; `where` says who had it before."""
        events = [event("alloc", size=700, user_metadata="old"),
                  event("free_requested", size=700), event("free_completed", size=700),
                  event("alloc", size=2 * MIB - 100, user_metadata="new")]
        path = self.path(made_up.dumps(dict(made_up.plain(), device_traces=[events])))
        top = json.loads(self.run_verb("top", path, "--json", "--by", "metadata"))
        rows = {row["metadata"]: row["bytes"] for row in top["devices"][0]["rows"]}
        self.assertEqual(rows["new"], 2 * MIB)
        where = json.loads(self.run_verb("where", path, hex(BASE + 5), "--json"))
        self.assertEqual([row["size"] for row in where["freed"]], [700])
        self.assertEqual(where["holders"][0]["size"], 2 * MIB)

    def test_host_memory(self):
        host = segment([block(0x5000, 4096, "active_allocated")], 0x5000)
        value = dict(made_up.plain(), host_segments=[host],
                     host_traces=[[event("alloc", 0x5000, 4096)]])
        tables = self.tables(value)
        self.assertEqual([s["host"] for s in tables["segments"]], [0, 1])
        self.assertEqual([a["kind"] for a in tables["allocations"]].count("pinned host"), 1)
        self.assertEqual(tables["trace"][1]["device"], 1 << 63)
        info = self.info(self.path(made_up.dumps(value)))
        self.assertEqual(info["devices"][0]["torch"]["reserved"], 8 * MIB)

    def test_expandable_segments_and_pools(self):
        first = segment([block(BASE, MIB, "active_allocated")], segment_pool_id=(0, 3),
                        is_expandable=True)
        second = segment([block(BASE + 4 * MIB, MIB, "inactive")], BASE + 4 * MIB,
                         segment_pool_id=(2**40, 2**50), is_expandable=True)
        value = {"segments": [first, second], "device_traces": []}
        tables = self.tables(value)
        self.assertEqual([(s["pool_first"], s["pool_second"]) for s in tables["segments"]],
                         [(0, 3), (2**40, 2**50)])
        self.assertEqual(self.info(self.path(made_up.dumps(value)))["devices"][0]["torch"]
                         ["expandable_segments"], 2)

    def test_numbers_of_all_sizes(self):
        """Addresses above 2^63, as signed or unsigned numbers; negative streams."""
        high = 0xffff_8000_0000_0000
        for address in (high, high - 2**64):
            value = {"segments": [segment([block(address, MIB, "active_allocated")], address,
                                          stream=-1)], "device_traces": []}
            tables = self.tables(value)
            self.assertEqual(tables["segments"][0]["address"], hex(high))
            self.assertEqual(tables["blocks"][0]["address"], hex(high))
            self.assertEqual(tables["segments"][0]["stream"], hex(2**64 - 1))

    def top_site(self, frames, **more):
        value = {"segments": [segment([dict(block(BASE, MIB, "active_allocated", frames),
                                            **more)])], "device_traces": []}
        path = self.path(made_up.dumps(value))
        return self.run_verb("top", path, "--width", "0").splitlines()[3].split(None, 4)[-1]

    def test_sites(self):
        """The user's line first, library frames folded, Windows paths, compiled code."""
        self.assertIn("model.py:88  forward  <- train.py:20 main", self.top_site(STACK))
        self.assertNotIn("linear.py", self.top_site(STACK))
        windows = [frame("step", "C:\\v\\Lib\\site-packages\\torch\\optim\\adam.py", 5),
                   frame("fit", "C:\\home\\job\\train.py", 7)]
        self.assertIn("train.py:7  fit", self.top_site(windows))
        self.assertNotIn("adam", self.top_site(windows))
        library = [frame("f", "/x/site-packages/einops/_backends.py", 3),
                   frame("g", "/home/u/a.py", 4)]
        self.assertIn("a.py:4  g (in einops)", self.top_site(library))
        only = [frame("forward", "/x/site-packages/torch/nn/functional.py", 10)]
        self.assertIn("functional.py:10  forward (PyTorch)", self.top_site(only))
        compiled = [frame("forward", "<eval_with_key>.0", 9, fx_node_op="call_function",
                          fx_node_name="mm", fx_node_target="aten.mm",
                          fx_original_trace='File "/home/u/t.py", line 1, in main\n  x\n'
                                            '  File "/home/u/model.py", line 42, in attend\n y')]
        self.assertIn("model.py:42  attend [compiled: mm]", self.top_site(compiled))

    def test_forward_beside_backward(self):
        backward = [frame("backward", "/home/u/train.py", 30)]
        forward = [TORCH_FRAME, frame("attend", "/home/u/model.py", 55)]
        site = self.top_site(backward, forward_frames=forward)
        self.assertIn("train.py:30  backward", site)
        self.assertIn("of forward", site)
        self.assertIn("model.py:55  attend", site)

    def test_packed(self):
        data = made_up.dumps(made_up.plain())
        plain = self.info(self.path(data))
        packed = [("gzip", gzip.compress(data)),
                  ("gzip", gzip.compress(data[:100]) + gzip.compress(data[100:]))]
        if shutil.which("zstd"):
            packed.append(("zstd", subprocess.run(["zstd", "-qc"], input=data, check=True,
                                                  capture_output=True).stdout))
        for wrapping, packed_data in packed:
            path = self.path(packed_data, "x." + wrapping)
            info = self.info(path)
            self.assertEqual(info["devices"], plain["devices"])
            tables = json.loads(self.run_verb("export", path, "--to", "json"))["tables"]
            self.assertEqual(tables["origin"][0]["wrapping"], wrapping)
            self.run_verb("info", self.path(packed_data[:-20], "cut"), status=2)

    def test_json(self):
        """The same as JSON, where nothing is shared and tuples are lists."""
        value = made_up.plain()
        value["segments"][0]["address"] = value["segments"][0]["blocks"][0]["address"]
        value["external_annotations"][0]["name"] = 'a "b" \\ \n \u00e9 \U0001f600'
        expected = self.tables(value)
        for indent in (None, 1):
            for escape in (True, False):
                data = json.dumps(value, indent=indent, ensure_ascii=escape).encode()
                path = self.path(data, "x.json")
                tables = json.loads(self.run_verb("export", path, "--to", "json"))["tables"]
                self.assertEqual(tables["origin"][0]["format"], "torch json")
                for table in expected:
                    if table not in ("origin", "strings"):
                        self.assertEqual(tables[table], expected[table], table)
        for length in range(1, len(data) - 1, 37):
            self.run_verb("info", self.path(data[:length]), status=2)
        for broken in (b"{", b"[", b"[1,", b'{"a"', b'{"a":', b'{"a":1', b"[}", b'["\\u12"]',
                       b"[tru]", b"[1.2.3]", b"{1:2}", b"[" * 100000, b"[" + b"9" * 30 + b"]"):
            self.run_verb("info", self.path(broken), status=2)

    def test_page_of_memory_viz(self):
        """The page has base64 of the pickle inside, padded with zeroes."""
        data = made_up.dumps(made_up.plain())
        for extra in range(3):
            padded = data + b"\0" * (extra + 3 - len(data) % 3)
            page = ('<!DOCTYPE html>\n<html><body><script type="module">\nconst local_files = \''
                    '[{"name": "snapshot.pickle", "base64": "' +
                    base64.b64encode(padded).decode() + '"}]\'\n</script></body></html>')
            info = self.info(self.path(page.encode(), "x.html"))
            self.assertEqual(info["devices"],
                             self.info(self.path(data))["devices"])
        self.run_verb("info", self.path(page[:600].encode()), status=2)
        self.run_verb("info", self.path(b"<!DOCTYPE html><html></html>"), status=2)

    def test_unknown_keys(self):
        """Plain values are kept (test_export has them written back), others counted."""
        value = dict(made_up.plain(), future=[1, 2, {"a": (1, 2, 3)}])
        value["segments"][0]["colour"] = "blue"
        evidence = self.info(self.path(made_up.dumps(value)))["evidence"]
        self.assertTrue(evidence["complete"])
        self.assertEqual(evidence["items"], [])
        value["future"] = [made_up.USER]            # a frame: it went to its table
        value["segments"][0]["colour"] = "b" * 70000  # too long
        value["segments"][0]["blocks"][0]["deep"] = json.loads("[" * 50 + "]" * 50)
        value["device_traces"][0][0]["user_metadata"] = [made_up.event("alloc")]
        evidence = self.info(self.path(made_up.dumps(value)))["evidence"]
        self.assertEqual([(i["key"], i["value"]) for i in evidence["items"]],
                         [("torch_unknown_keys", 4)])

    def test_metadata_of_any_type(self):
        for metadata, text in (({"step": 3, "who": "a\"b\n\u00e9"},
                                '{"step":3,"who":"a\\"b\\u000a\u00e9"}'), ([1, None], "[1,null]"), (7, "7"),
                               (True, "true"), (0.5, "0.5"), ((1, "x"), '{"(":[1,"x"]}')):
            value = made_up.plain()
            value["device_traces"][0][0]["user_metadata"] = metadata
            out = self.run_verb("top", self.path(made_up.dumps(value)), "--by", "metadata", "--json")
            rows = json.loads(out)["devices"][0]["rows"]
            self.assertIn(text, [row["metadata"] for row in rows])

    def test_a_file_that_was_cut_down(self):
        value = made_up.plain()
        value["segments"][0]["blocks"].pop()
        evidence = self.info(self.path(made_up.dumps(value)), status=1)["evidence"]
        self.assertIn("torch_blocks_missing", [i["key"] for i in evidence["items"]])

    def test_diff(self):
        grown = made_up.plain()
        grown["segments"].append(segment([block(BASE + (64 << 20), 5 * MIB, "active_allocated")],
                                         BASE + (64 << 20)))
        old = self.path(made_up.dumps(made_up.plain()), "old")
        new = self.path(made_up.dumps(grown), "new")
        diff = json.loads(self.run_verb("diff", old, new, "--json"))
        self.assertEqual(diff["devices"][0]["growth"], 5 * MIB)
        self.assertEqual(diff["devices"][0]["rows"][0]["growth"], 5 * MIB)


TORCH_FRAME = made_up.TORCH
if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
