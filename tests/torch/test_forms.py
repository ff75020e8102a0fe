#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch snapshots as JSON and as the page of _memory_viz: the tables of the pickle, and files
made or damaged to do harm.

usage: test_forms.py VRAMCORE SOURCE
VRAMCORE_FULL=1: 300 mutations of each input, the files of strangers too, else fewer.
"""
import base64
import glob
import gzip
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import time
import unittest

import made_up
from made_up import BASE
from made_up_rich import rich

vramcore, source = sys.argv[1:3]
full = os.environ.get("VRAMCORE_FULL")
shared = os.environ.get("VRAMCORE_SHARED", os.path.join(source, "..", "shared"))
MIB = 1 << 20


def page(data, spaced=": "):
    """What torch.cuda._memory_viz writes."""
    data += b"\0" * (3 - len(data) % 3)
    return ('\n<!DOCTYPE html>\n<html>\n<head>\n</head>\n<body>\n<script type="module">\n'
            'import {add_local_files} from "https://example.invalid/MemoryViz.js"\n'
            'const local_files = [{"name": "snapshot.pickle", "base64"' + spaced + '"' +
            base64.b64encode(data).decode() + '"}]\nadd_local_files(local_files, "Active")\n'
            '</script>\n</body>\n').encode()


class Forms(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_data(self, data, verb, *arguments):
        path = os.path.join(self.folder.name, "x")
        with open(path, "wb") as file:
            file.write(data)
        start = time.monotonic()
        result = subprocess.run([vramcore, verb, path, *arguments], capture_output=True,
                                timeout=120)
        self.assertLess(time.monotonic() - start, 30)
        self.assertIn(result.returncode, (0, 1, 2), result.stderr)
        return result

    def tables(self, data):
        result = self.run_data(data, "export", "--to", "json")
        self.assertIn(result.returncode, (0, 1), result.stderr)
        tables = json.loads(result.stdout)["tables"]
        del tables["strings"]
        return tables.pop("origin")[0], tables

    def refused(self, data, *words, arguments=()):
        result = self.run_data(data, "info", *arguments)
        text = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, 2, text)
        self.assertTrue(text.startswith("vramcore: "), text)
        self.assertLessEqual(len(text.splitlines()), 2, text)
        for word in words:
            self.assertIn(word, text)

    def same_in_every_form(self, value):
        origin, expected = self.tables(pickle.dumps(value, 4))
        self.assertEqual((origin["format"], origin["wrapping"]), ("torch pickle", ""))
        written = json.dumps(value).encode()
        for data, form, wrapping in (
                (written, "torch json", ""),
                (b"\xef\xbb\xbf \n\t" + json.dumps(value, indent=1).encode(), "torch json", ""),
                (json.dumps(value, ensure_ascii=False, separators=(",", ":"))
                 .encode("utf-8", "surrogatepass"), "torch json", ""),
                (gzip.compress(written), "torch json", "gzip"),
                (page(pickle.dumps(value, 4)), "torch pickle", "html"),
                (page(pickle.dumps(value, 2), " :\n "), "torch pickle", "html"),
                (b"<html>" + b'x"base64" ' * 100000 + page(pickle.dumps(value)), "torch pickle",
                 "html"),
                (gzip.compress(page(pickle.dumps(value, 4))), "torch pickle", "html")):
            origin, tables = self.tables(data)
            self.assertEqual((origin["format"], origin["wrapping"]), (form, wrapping))
            self.assertEqual(tables, expected)

    def test_every_form_gives_the_same(self):
        self.same_in_every_form(made_up.plain())
        self.same_in_every_form(rich())

    def test_torch_1_13(self):
        blocks = [{"size": MIB, "state": "active_allocated",
                   "history": [{"addr": BASE, "real_size": 1000, "frames": made_up.STACK}]}]
        self.same_in_every_form([{"device": 1, "address": BASE, "total_size": MIB, "stream": 0,
                                  "allocated_size": MIB, "active_size": MIB,
                                  "segment_type": "large", "blocks": blocks}])
        self.same_in_every_form([])

    def test_files_of_strangers(self):
        paths = sorted(glob.glob(os.path.join(shared, "inputs", "torch", "*.pickle")))
        if not paths:
            self.skipTest("no files in " + shared)
        for path in paths:
            with open(path, "rb") as file:
                data = file.read()
            expected = self.tables(data)[1]
            self.assertEqual(self.tables(json.dumps(pickle.loads(data)).encode())[1], expected)
            self.assertEqual(self.tables(page(data))[1], expected)

    def test_what_is_no_json(self):
        for data, words in (
                (b"{", ["ends too early"]), (b"[", ["ends too early"]),
                (b'{"segments"', ["ends too early"]), (b'{"segments', ["ends too early"]),
                (b'{"segments": [', ["ends too early"]), (b'{"segments": 12', ["ends too early"]),
                (b"{]", ["a key should be", "at byte 1"]), (b"[}", ["value"]),
                (b"[1,]", ["value"]), (b'{"a":1,}', ["key"]), (b'{"a" 1}', ["colon"]),
                (b"[1 2]", ["comma"]), (b"[] []", ["should end"]), (b"[01]", ["'01'"]),
                (b"[1.]", ["'1.'"]), (b"[-]", ["'-'"]), (b"[1e]", ["'1e'"]), (b"[nul]", ["nul"]),
                (b"[0x10]", ["0x10"]), (b"[" + b"9" * 401 + b"]", []),
                (b"[18446744073709551616]", ["over 64 bits"]),
                (b"[-9223372036854775809]", ["over 64 bits"]),
                (b'["\\x41"]', ["escape"]), (b'["\\u12g4"]', ["escape"]), (b'["\\u123"]', []),
                (b'["a\nb"]', ["inside a string"]), (b'["\\', ["ends too early"]),
                (b'{"a": 1}', ["no segments"]), (b"[1]", []), (b'["a"]', []), (b"{}", []),
                (b'{"segments": 3}', []), (b'{"segments": {"a": 1}}', [])):
            self.refused(data, *words)
        written = json.dumps(made_up.plain()).encode()
        for length in range(1, len(written) - 1, 37):
            self.refused(written[:length])

    def test_json_limits(self):
        self.refused(b"[" * 5_000_000, "--limit depth=N")
        self.refused(b'{"a":' * 5_000_000, "--limit depth=N")
        self.refused(b"[" * 900 + b"1" + b"]" * 900, "not a plain torch snapshot")
        self.refused(b"[" * 20 + b"]" * 20, "depth", arguments=("--limit", "depth=10"))
        self.refused(b'["' + b"a" * (65 << 20) + b'"]', "--limit string=N")
        self.refused(b'["' + b"a" * 5000 + b'"]', "string", arguments=("--limit", "string=4000"))
        self.refused(gzip.compress(b"[" + b"[[]]," * 5_000_000, 9), "--limit objects=N")
        self.refused(b"{" + b'"a":1,' * 600, "stack", arguments=("--limit", "stack=100"))
        self.refused(gzip.compress(json.dumps(made_up.plain()).encode()), "bytes",
                     arguments=("--limit", "bytes=100"))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(peak, 2 << 20, "KiB")

    def test_pages(self):
        whole = page(pickle.dumps(made_up.plain(), 4))
        start = whole.index(b'"base64": "') + 11
        end = whole.index(b'"', start)
        self.refused(b"<html></html>", "without the base64")
        self.refused(b"<!DOCTYPE html>" + b"x" * 5_000_000, "without the base64")
        self.refused(b"<html>" + b'"base64"' * 1_000_000, "without the base64")
        self.refused(b'<html> "base64": "', "ends too early")
        self.refused(b'<html> "base64": ""', "ends too early")
        for bad in (b"!", b"\n", b"=", b"\0", b"\xff", b"<"):
            self.refused(whole[:start + 41] + bad + whole[start + 42:])
        for length in range(0, end - start - 8, 61):
            self.refused(whole[:start + length])
            self.refused(whole[:start + length] + b'"}]')
        bad = pickle.dumps(made_up.plain(), 4)[:-1] + b"cos\nsystem\n."
        self.refused(page(bad), "GLOBAL 'os system'", "nothing was executed")
        self.refused(page(b"\x80\x04" + b"(" * 5_000_000), "--limit depth=N")
        self.refused(page(page(pickle.dumps([]))))

    def mutate(self, data, numbers):
        data = bytearray(data)
        for _ in range(numbers.choice((1, 1, 2, 8))):
            at = numbers.randrange(len(data))
            kind = numbers.randrange(4)
            if kind == 0:
                data[at] = numbers.randrange(256)
            elif kind == 1:
                data[at] = numbers.choice(b'{}[]",:\\0-e="')
            elif kind == 2:
                del data[at:at + numbers.randrange(1, 20)]
            else:
                other = numbers.randrange(len(data))
                data[at:at] = data[other:other + numbers.randrange(1, 40)]
        return bytes(data)

    def test_mutations(self):
        """Of every verb and, where it is read, of what is written again."""
        values = [made_up.plain()]
        if full:
            for path in sorted(glob.glob(os.path.join(shared, "inputs", "torch", "*.pickle"))):
                with open(path, "rb") as file:
                    values.append(pickle.load(file))
        numbers = random.Random(20261130)
        read = 0
        for value in values:
            for data in (json.dumps(value).encode(), page(pickle.dumps(value, 4))):
                for i in range(300 if full else 60):
                    verb, *arguments = (("info",), ("top",), ("export", "--to", "json"),
                                        ("export", "--to", "torch-pickle"))[i % 4]
                    mutated = self.mutate(data, numbers)
                    result = self.run_data(mutated, verb, *arguments)
                    if "torch-pickle" in arguments and result.returncode < 2:
                        self.assertIsInstance(pickle.loads(result.stdout), (dict, list))
                        read += 1
        self.assertGreater(read, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
