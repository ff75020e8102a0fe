#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files made or damaged to do harm: one clear line, bounded time and memory, nothing executed.

usage: test_hostile.py VRAMCORE SOURCE
VRAMCORE_FULL=1: 300 mutations of each input, the files of strangers too, else fewer.
"""
import copy
import glob
import gzip
import os
import pickle
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import made_up

vramcore, source = sys.argv[1:3]
full = os.environ.get("VRAMCORE_FULL")
shared = os.environ.get("VRAMCORE_SHARED", os.path.join(source, "..", "shared"))
P = b"\x80\x04"


class Bad:
    def __reduce__(self):
        return os.system, ("touch /tmp/vramcore-was-here",)


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_data(self, data, *arguments, seconds=30, verb="info"):
        path = os.path.join(self.folder.name, "x.pickle")
        with open(path, "wb") as file:
            file.write(data)
        start = time.monotonic()
        result = subprocess.run([vramcore, verb, path, *arguments], capture_output=True,
                                timeout=120)
        self.assertLess(time.monotonic() - start, seconds)
        self.assertIn(result.returncode, (0, 1, 2), result.stderr)
        return result.returncode, result.stderr.decode(errors="replace")

    def refused(self, data, *words, arguments=()):
        status, text = self.run_data(data, *arguments)
        self.assertEqual(status, 2, text)
        lines = text.splitlines()
        self.assertTrue(lines[0].startswith("vramcore: "), text)
        self.assertLessEqual(len(lines), 2, text)
        for word in words:
            self.assertIn(word, text)

    def test_nothing_is_executed(self):
        for protocol in (2, 3, 4, 5):
            self.refused(pickle.dumps(Bad(), protocol), "system'", "nothing was executed")
        self.assertFalse(os.path.exists("/tmp/vramcore-was-here"))
        self.refused(P + b"cos\nsystem\n.", "GLOBAL 'os system' at byte 2; nothing was executed")
        self.refused(b"\x80\x02}q\x00(X\x03\x00\x00\x00abccos\nsystem\n", "at byte 14")

    def test_every_opcode_that_is_not_plain_data(self):
        import pickletools
        taken = {"PROTO", "FRAME", "STOP", "MEMOIZE", "MARK", "BINGET", "LONG_BINGET", "BINPUT",
                 "LONG_BINPUT", "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "APPEND",
                 "APPENDS", "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
                 "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "NONE", "BININT", "BININT1",
                 "BININT2", "LONG1", "LONG4", "BINFLOAT", "NEWTRUE", "NEWFALSE"}
        for opcode in pickletools.opcodes:
            if opcode.name not in taken:
                self.refused(P + b"]" + opcode.code.encode("latin-1") + b"a\nb\n.",
                             opcode.name, "at byte 3")
        self.refused(P + b"\xff.", "0xff is no opcode")

    def test_lengths_and_indexes(self):
        huge = struct.pack("<Q", 1 << 62)
        self.refused(P + b"\x8d" + huge, "string", "--limit")
        self.refused(P + b"X\xff\xff\xff\xff", "string", "--limit")
        self.refused(P + b"X\xff\xff\xff\x00abc", "ends too early")
        self.refused(P + b"]r\x00\x00\x00\x80.", "memo", "--limit memo=N")
        self.refused(P + b"]r\x00\x00\x00\x03.", "memo")
        self.refused(P + b"j\xff\xff\xff\xff.", "memo entry 4294967295 does not exist")
        self.refused(P + b"\x8b\xff\xff\xff\x7f", "a number of 2147483647 bytes")
        self.refused(P + b"\x8a\x09" + b"\xff" * 8 + b"\x01.", "64 bits")

    def test_depth(self):
        self.refused(P + b"(" * 5000000, "depth")
        self.refused(P + b"]" * 5000000 + b"a" * 4999999 + b".", "depth")
        nest = b"]" * 900 + b"a" * 899 + b"."
        self.refused(P + nest, "not a plain torch snapshot")
        self.refused(P + nest, "depth", arguments=("--limit", "depth=10"))

    def test_cycles(self):
        self.refused(P + b"]q\x00h\x00a.", "changed after")
        self.refused(P + b"]q\x00]q\x01h\x00ah\x01a.", )
        self.refused(P + b"}q\x00K\x01h\x00s.", "changed after")
        self.refused(P + b"]q\x00q\x01h\x01ah\x00a.", )

    def test_a_stack_that_grows_slowly(self):
        """One frame, appended half a million times to one list, one at a time."""
        frame = pickle.dumps({"name": "f", "filename": "f.py", "line": 1}, 2)[2:-1]
        self.refused(b"\x80\x02]q\xfa" + frame + b"q\xfba" + b"h\xfba" * 500000 + b".",
                     "at a time")

    def test_stack(self):
        for data in (b".", b"a.", b"s.", b"u.", b"e.", b"t.", b"\x85.", b"\x87.", b"\x94.", b"(e.",
                     b"](K\x01K\x02.", b"]K\x01(a.", b"(K\x01t(e.", b"]K\x01K\x02s.",
                     b"N(K\x01e.", b"K\x01K\x02a.", b"}K\x01a.", b"](K\x01u."):
            self.refused(P + data)
        for length in range(2, 40):
            self.refused(made_up.dumps(made_up.plain())[:length])

    def test_wrong_types(self):
        """Every key of every record with a value of every wrong kind."""
        values = [None, True, 3, -1, 2**70 % 2**64, 1.5, "text", [], [1], (), (1, 2), {}, {"a": 1},
                  [[]], {"segments": []}, [made_up.USER], [made_up.event("alloc")]]

        def paths(value, prefix=()):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                yield prefix + (key,)
                if isinstance(item, (dict, list)):
                    yield from paths(item, prefix + (key,))

        count = 0
        for path in paths(made_up.plain()):
            for wrong in values if full else random.Random(str(path)).sample(values, 3):
                whole = copy.deepcopy(made_up.plain())
                place = whole
                for key in path[:-1]:
                    place = place[key]
                place[path[-1]] = wrong
                self.run_data(made_up.dumps(whole))
                count += 1
        self.assertGreater(count, 100)

    def test_bombs(self):
        """A small packed file that unpacks to much; memory stays below a bound."""
        memoize = gzip.compress(P + b"]" + b"\x94" * 100_000_000, 9)
        self.refused(memoize, "--limit memo=N")
        self.refused(gzip.compress(P + b"]" * 60_000_000, 9), "--limit stack=N")
        self.refused(gzip.compress(P + b"]" + b"]Naa" * 10_000_000, 9), "--limit objects=N")
        self.refused(gzip.compress(P + b"X\x00\x00\x00\x10" + b"a" * (1 << 28), 9), "string")
        self.refused(gzip.compress(made_up.dumps(made_up.plain())), "bytes",
                     arguments=("--limit", "bytes=100"))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(peak, 2 << 20, "KiB")

    def mutate(self, data, numbers):
        data = bytearray(data)
        for _ in range(numbers.choice((1, 1, 2, 8))):
            at = numbers.randrange(len(data))
            kind = numbers.randrange(4)
            if kind == 0:
                data[at] = numbers.randrange(256)
            elif kind == 1:
                data[at] ^= 1 << numbers.randrange(8)
            elif kind == 2:
                del data[at:at + numbers.randrange(1, 20)]
            else:
                other = numbers.randrange(len(data))
                data[at:at] = data[other:other + numbers.randrange(1, 40)]
        return bytes(data)

    def test_mutations(self):
        """Also of every verb: what is read must be sound enough for all of them."""
        inputs = [made_up.dumps(made_up.plain(), protocol) for protocol in (2, 4, "cpp")]
        inputs.append(gzip.compress(inputs[0]))
        events = [made_up.event("alloc", size=512 + i, user_metadata="m", pool_id=(0, i % 2))
                  for i in range(40)]
        inputs.append(made_up.dumps(dict(made_up.plain(), device_traces=[events])))
        if full:
            for path in sorted(glob.glob(os.path.join(shared, "inputs", "torch", "*.pickle"))):
                with open(path, "rb") as file:
                    inputs.append(file.read())
        numbers = random.Random(20261130)
        for data in inputs:
            for i in range(300 if full else 30):
                verb = ("info", "top", "export", "check", "timeline", "map", "oom")[i % 7]
                arguments = ("--to", "json") if verb == "export" else ()
                self.run_data(self.mutate(data, numbers), *arguments, verb=verb)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
