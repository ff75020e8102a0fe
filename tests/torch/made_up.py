# SPDX-License-Identifier: Apache-2.0
"""Made-up PyTorch snapshots, one for each schema from 1.13 to 2.15, and a writer of pickles that
can write what Python's own does not: protocol 2 as PyTorch's C++ does, and opcodes in any order."""
import io
import pickle
import struct

BASE = 0x7f0000000000


def frame(function, file, line, **more):
    return dict({"name": function, "filename": file, "line": line}, **more)


USER = frame("forward", "/home/u/job/model.py", 88)
CALLER = frame("main", "/home/u/job/train.py", 20)
TORCH = frame("forward", "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", 134)
NATIVE = frame("at::native::mm(at::Tensor const&)", "??", 0)
STACK = [NATIVE, TORCH, USER, CALLER]


def block(address, size, state, frames=None, requested=None):
    return {"address": address, "size": size, "requested_size": requested or size, "state": state,
            "frames": STACK if frames is None else frames}


def segment(blocks, address=BASE, device=0, **more):
    active = sum(b["size"] for b in blocks if b["state"].startswith("active"))
    allocated = sum(b["size"] for b in blocks if b["state"] == "active_allocated")
    return dict({"device": device, "address": address,
                 "total_size": sum(b["size"] for b in blocks), "allocated_size": allocated,
                 "active_size": active, "requested_size": active, "stream": 0,
                 "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
                 "frames": [], "blocks": blocks}, **more)


def event(action, address=BASE, size=512, **more):
    return dict({"action": action, "addr": address, "size": size, "stream": 0,
                 "time_us": 1790000000000000, "frames": STACK}, **more)


def plain():
    """A sound snapshot of 2.x: live 3 MiB, pending 1 MiB, free 4 MiB."""
    mib = 1 << 20
    blocks = [block(BASE, 2 * mib, "active_allocated", requested=2 * mib - 100),
              block(BASE + 2 * mib, mib, "active_allocated", frames=[]),
              block(BASE + 3 * mib, mib, "active_pending_free"),
              block(BASE + 4 * mib, 4 * mib, "inactive", frames=[])]
    return {"segments": [segment(blocks)], "device_traces": [[event("alloc", size=2 * mib)]],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
                                   "garbage_collection_threshold": 0.5,
                                   "expandable_segments": True,
                                   "roundup_power2_divisions": {"1": 0, "2": 4}},
            "external_annotations": [{"device": 0, "time_us": 1790000000000001, "name": "step",
                                      "stage": "START"}]}


class Cpp:
    """Protocol 2 as PyTorch's C++ writes it: one MARK for all items, entries of the memo after the
    container is full, numbers of 8 bytes."""

    def __init__(self):
        self.out = io.BytesIO()
        self.out.write(b"\x80\x02")
        self.memo = {}

    def put(self, value):
        number = len(self.memo)
        self.memo[id(value)] = (number, value)
        self.out.write(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))

    def get(self, value):
        if id(value) not in self.memo:
            return False
        number = self.memo[id(value)][0]
        self.out.write(b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number))
        return True

    def write(self, value):
        out = self.out
        if isinstance(value, bool):
            out.write(b"\x88" if value else b"\x89")
        elif value is None:
            out.write(b"N")
        elif isinstance(value, int):
            if 0 <= value < 256:
                out.write(b"K" + bytes([value]))
            elif 0 <= value < 65536:
                out.write(b"M" + struct.pack("<H", value))
            elif -2**31 <= value < 2**31:
                out.write(b"J" + struct.pack("<i", value))
            else:
                out.write(b"\x8a\x08" + struct.pack("<q", value))
        elif isinstance(value, float):
            out.write(b"G" + struct.pack(">d", value))
        elif self.get(value):
            return
        elif isinstance(value, str):
            data = value.encode()
            out.write(b"X" + struct.pack("<I", len(data)) + data)
            self.put(value)
        elif isinstance(value, tuple):
            for item in value:
                self.write(item)
            out.write({0: b")", 1: b"\x85", 2: b"\x86", 3: b"\x87"}[len(value)])
        elif isinstance(value, list):
            out.write(b"](")
            for item in value:
                self.write(item)
            out.write(b"e")
            self.put(value)
        else:
            out.write(b"}(")
            for key, item in value.items():
                self.write(key)
                self.write(item)
            out.write(b"u")
            self.put(value)

    def bytes(self, value):
        self.write(value)
        return self.out.getvalue() + b"."


def dumps(value, protocol=4):
    return Cpp().bytes(value) if protocol == "cpp" else pickle.dumps(value, protocol)
