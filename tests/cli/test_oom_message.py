#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs `vramcore oom --message` on logs that are written here.

usage: test_oom_message.py VRAMCORE SOURCE_FOLDER [unittest options]
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

VRAMCORE, SOURCE = (os.path.abspath(p) for p in sys.argv[1:3])
WORDINGS = pathlib.Path(SOURCE) / "tests/cli/messages/wordings.log"
SANITIZED = b"__asan_init" in pathlib.Path(VRAMCORE).read_bytes()
MIB, GIB = 1 << 20, 1 << 30

FULL = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 1 has a total capacity "
        "of 80.00 GiB of which 32.00 MiB is free. Including non-PyTorch memory, this process has 79.50 GiB "
        "memory in use. Of the allocated memory 78.00 GiB is allocated by PyTorch, and 48.00 MiB is reserved "
        "by PyTorch but unallocated.\n")
TRACE = ("Traceback (most recent call last):\n"
         '  File "/u/train.py", line 84, in step\n    loss = model(x)\n'
         '  File "/opt/lib/python3.10/site-packages/torch/nn/modules/linear.py", line 114, in forward\n'
         "    return F.linear(input)\n")


def run(text, *options):
    """Exit status, output, errors for a text on standard input."""
    text = text.encode() if isinstance(text, str) else text
    done = subprocess.run([VRAMCORE, "oom", "--message", "-", *options], input=text, capture_output=True,
                          timeout=120, check=False, env={k: v for k, v in os.environ.items() if k != "NO_COLOR"})
    return done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode()


def report(text, status=0):
    code, out, err = run(text, "--json", "-n", "0")
    assert code == status, (code, out, err)
    return json.loads(out)


class Screen(unittest.TestCase):
    maxDiff = None

    def test_full(self):
        code, out, err = run("[rank5]: " + "[rank5]: ".join((TRACE + FULL).splitlines(True)))
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(out, """\
GPU 1 could not give 64.0 MiB: the memory is full
  asked for at /u/train.py:84 (step)  loss = model(x)
  said by PyTorch, CUDA, rank 5, after "[rank5]", line 6

  where the memory is                   bytes    share  how known
  allocated by PyTorch               78.0 GiB   97.5 %  told
  reserved by PyTorch, unallocated   48.0 MiB    0.1 %  told
  this process, outside of PyTorch   1.45 GiB    1.8 %  difference
  free                               32.0 MiB    0.0 %  told
  driver, processes not listed      480.0 MiB    0.6 %  residual
  total                              80.0 GiB  100.0 %  told
  full: of 80.0 GiB in use the allocator itself holds 78.0 GiB; 32.0 MiB is free, 64.0 MiB was asked
    for
not told: which tensors or buffers were live, and which code holds them; the largest free piece;
    what lies in pools of CUDA graphs
evidence: complete. The text is all there is: sizes are as it rounds them.
""")

    def test_statuses(self):
        self.assertEqual(run(FULL)[0], 0)
        self.assertEqual(run(FULL[:200])[0], 1)
        self.assertEqual(run(FULL.replace("79.50", "90.00"))[0], 1)
        code, out, err = run("nothing of the kind\n")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("no out-of-memory message is in this text", err)
        self.assertEqual(run("")[0], 2)
        done = subprocess.run([VRAMCORE, "oom", "--message", "/nonexistent"], capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        done = subprocess.run([VRAMCORE, "oom", "--message"], capture_output=True, check=False)
        self.assertEqual(done.returncode, 64)
        done = subprocess.run([VRAMCORE, "oom", "--message", "/"], capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)

    def test_harmless(self):
        """What a terminal obeys does not reach it, wherever it stood."""
        evil = FULL.replace("GPU 1", "\x1b[2JGPU 1").replace("torch.", "\x1b]0;title\x07torch.")
        trace = TRACE.replace("train.py", "tr\x1b[31main\u202e.py").replace("model(x)", "model\x9b31m(x)")
        for options in ((), ("--json",), ("--color", "never")):
            code, out, err = run(trace + evil, *options)
            self.assertEqual((code, err), (0, ""))
            for character in "\x1b\x07\x9b\u202e":
                self.assertNotIn(character, out)


class Wordings(unittest.TestCase):
    """Every wording of the file of wordings is found once, with the kind that its sizes show."""

    KINDS = {
        "torch-1.0": "fragmented", "torch-1.4": "fragmented", "torch-1.13": "fragmented", "torch-1.x-allowed": "limit",
        "torch-2.1": "full", "torch-2.3-no-device": "fragmented", "torch-2.5-others": "other-processes",
        "torch-2.6-pools": "fragmented", "torch-2.9-allowed": "limit", "torch-hip": "unexplained",
        "torch-mps": "limit", "torch-async": "full", "torch-1eb": "nonsense", "torch-underflow": "limit",
        "torch-over": "too-large", "jax": "not-told", "tpu": "too-large", "tf": "full", "tf-alone": "host",
        "executor": "not-told", "ggml": "not-told", "ggml-pinned": "host", "ggml-error": "not-told",
        "nccl": "not-told", "nccl-2": "not-told", "cupy": "not-told", "cupy-old": "not-told", "numba": "not-told",
        "numba-host": "host", "rmm": "not-told", "cublas": "not-told", "cuda": "not-told", "hip": "not-told",
    }

    def test_kinds(self):
        d = report(WORDINGS.read_bytes(), status=1)
        self.assertEqual(d["schema"], "vramcore.oom-message/1")
        kinds = {m["label"].split("case=")[1].split()[0]: m["kind"] for m in d["messages"]}
        self.assertEqual(kinds, self.KINDS)
        self.assertEqual((d["found"], d["sources"]), (len(self.KINDS), len(self.KINDS)))
        wrong = {m["label"].split("case=")[1].split()[0] for m in d["messages"] if m["contradictions"]}
        self.assertEqual(wrong, {"torch-underflow", "torch-over"})
        self.assertEqual(d["evidence"]["contradictory"], 2)

    def test_ledger_adds_up(self):
        d = report(FULL)
        message, = d["messages"]
        self.assertEqual(sum(r["bytes"] for r in d["ledger"]), message["told"]["total"]["bytes"])
        self.assertAlmostEqual(sum(r["share"] for r in d["ledger"]), 1.0)
        self.assertEqual({k: v["bytes"] for k, v in message["told"].items()},
                         {"requested": 64 * MIB, "total": 80 * GIB, "free": 32 * MIB, "allocated": 78 * GIB,
                          "unallocated": 48 * MIB, "in_use": 79 * GIB + GIB // 2})
        self.assertTrue(d["evidence"]["complete"])

    def test_counts(self):
        ranks = "".join(f"[rank{r}]: {FULL.replace('GPU 1', f'GPU {r}')}" * 3 for r in range(8))
        d = report(ranks)
        self.assertEqual((d["found"], d["sources"]), (24, 8))
        self.assertEqual([(m["rank"], m["device"], m["times"]) for m in d["messages"]],
                         [(r, r, 3) for r in range(8)])


class Large(unittest.TestCase):
    def test_memory(self):
        """50 MB, with messages at both ends and lines without an end: memory does not follow."""
        block = ("".join(f"[rank{i % 64}]: step {i} loss 1.{i:05d} 12.00 GiB free; 1.00 GiB is free\n"
                         for i in range(8192)) + "x" * 500000 + "\n").encode()
        with tempfile.NamedTemporaryFile() as log:
            log.write(("[rank1]: " + FULL).encode())
            for _ in range(50_000_000 // len(block) + 1):
                log.write(block)
            log.write(FULL.encode())
            log.flush()
            limit = None if SANITIZED else lambda: resource.setrlimit(resource.RLIMIT_DATA, (16 * MIB, 16 * MIB))
            done = subprocess.run([VRAMCORE, "oom", "--message", log.name, "--json"], capture_output=True,
                                  timeout=240, check=False, preexec_fn=limit)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        d = json.loads(done.stdout)
        self.assertEqual((d["found"], d["messages"][0]["line"]), (2, 1))
        self.assertGreater(d["bytes"], 50_000_000)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=1)
