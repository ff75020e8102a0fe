# SPDX-License-Identifier: Apache-2.0
"""Asks the probe for walks and reads what they wrote: a reader of its own, from FORMAT.md."""
import collections
import ctypes
import os
import re
import struct
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
KINDS = {8: ("tensors", "QQQQIIIIIIIHHII", "object data offset bytes storage dtype shape strides name "
             "detail type found flags device_plus_one reserved"),
         9: ("storages", "QQIIII", "address bytes tensors tensor found device_plus_one"),
         10: ("nodes", "QII", "object name saved"),
         11: ("saved", "IIII", "node tensor name packed"),
         12: ("holders", "IIII", "storage step ways depth"),
         13: ("steps", "IIIIIIQ", "parent kind text owner file line count"),
         14: ("walks", "QQQQQQQQQII", "flags nanoseconds holder_nanoseconds objects reached tensors "
              "without_memory memory opaque thread why")}
STRINGS = {"dtype", "shape", "strides", "name", "detail", "type", "text", "owner", "file", "why"}


def words(definition, macro):
    """Names and texts of a .def file by number."""
    path = os.path.join(SOURCE, "formats", definition)
    with open(path, encoding="utf-8") as file:
        rows = re.findall(macro + r'\((\w+), (\d+), "([^"]*)"\)', file.read())
    return {int(number): (name, text) for name, number, text in rows}


FOUND = words("tensor_found.def", "VC_TENSOR_FOUND")
STEPS = words("step_kinds.def", "VC_STEP_KIND")


class Walk:
    def __init__(self, path, summary_only=False):
        with open(path, "rb") as file:
            data = file.read()
        assert data[:14] == b"VRAMCORE-WALK\n", path
        pieces = struct.unpack_from("<I", data, 56)[0]
        parts = collections.defaultdict(list)
        for i in range(pieces):
            kind, row, rows, offset = struct.unpack_from("<IIQQ", data, 80 + 40 * i)
            parts[kind].append((data[offset:offset + row * rows], row))
        self.strings = b"".join(part for part, _ in parts[1])
        for kind, (name, layout, fields) in KINDS.items():
            made = collections.namedtuple(name, fields)
            rows = []
            for part, size in parts[kind] if kind == 14 or not summary_only else ():
                assert size == struct.calcsize("<" + layout), (name, size)
                for values in struct.iter_unpack("<" + layout, part):
                    rows.append(made(*[self.text(v) if f in STRINGS else v
                                       for f, v in zip(made._fields, values)]))
            setattr(self, name, rows)
        self.walk = self.walks[0]
        self.by_address = {s.address: s for s in self.storages}

    def text(self, at):
        return self.strings[at:self.strings.index(b"\0", at)].decode() if at else ""

    def found(self, storage):
        return FOUND[storage.found][0]

    def tensor_of(self, storage):
        return self.tensors[storage.tensor - 1]

    def chain(self, storage):
        """The steps that keep a storage alive, in words, from the root; None: not found."""
        number = self.storages.index(storage) + 1
        for holder in self.holders:
            if holder.storage == number:
                break
        else:
            return None
        out, step = [], holder.step
        while step:
            row = self.steps[step - 1]
            text = STEPS[row.kind][1]
            for mark, value in (("%t", row.text), ("%o", row.owner), ("%f", os.path.basename(row.file)),
                                ("%l", row.line), ("%n", row.count)):
                text = text.replace(mark, str(value))
            if STEPS[row.kind][0] == "ELEMENT" and row.line:
                text = "[%d] of %s" % (row.line - 1, text)
            out.append(text)
            step = row.parent
        return " -> ".join(reversed(out))


class Probe:
    def __init__(self, library, folder=None):
        self.folder = tempfile.mkdtemp(prefix="vramcore-walk-", dir=folder)
        self.library = ctypes.PyDLL(library)
        got = self.library.probe_start(self.folder.encode())
        assert got == 0, got

    def ask(self, full=True, holders=True, milliseconds=0, memory=0):
        """Path of what a walk wrote, and whether it could walk at all."""
        path = ctypes.create_string_buffer(4096)
        got = self.library.probe_walk(int(full), int(holders), ctypes.c_uint64(milliseconds),
                                      ctypes.c_uint64(memory), path, ctypes.c_uint64(4096))
        assert got >= 0, got
        return path.value.decode(), got

    @staticmethod
    def read(path, **options):
        made = Walk(path, **options)
        os.unlink(path)
        return made

    def walk(self, **wish):
        return self.read(self.ask(**wish)[0])
