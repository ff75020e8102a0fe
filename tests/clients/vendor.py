#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The vendor's own libraries on the simulated driver, up to where they find that it is not the real one.

usage: vendor.py SOURCE BINARY_FOLDER ENVIRONMENT [unittest options]

They ask for every function of the driver by cuGetProcAddress or dlsym and then check the driver, which is
not answered: their own error is what they give, the same with the recorder and without. Seen must be that
they asked through the recorder.
"""
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE, BIN, ENVIRONMENT = (pathlib.Path(a).resolve() for a in sys.argv[1:4])
TOOLKITS = ["/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/local/lib",
            str(ENVIRONMENT / "lib/python3*/site-packages/nvidia/*/lib")]


def find(name):
    return next((path for folder in TOOLKITS for path in sorted(glob.glob(f"{folder}/{name}"))), None)


def run(command, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}
    environment |= {"LD_LIBRARY_PATH": f"{BIN}/simcuda", "SIMCUDA_DEVICES": "2"} | more
    return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=120, check=False)


class Vendor(unittest.TestCase):
    def asked(self, name, program, *functions, by_name=0, by_version=0):
        """Calls the functions with and without the recorder; how many of its wrappers were handed out."""
        path = name if name == "static" else find(name)
        if not path:
            self.skipTest(f"SKIPPED: {name} is not on this machine")
        command = [str(BIN / program), path, *functions]
        more = {"LD_LIBRARY_PATH": f"{BIN}/simcuda:{os.path.dirname(path)}"}
        alone, done = run(command, **more), run([BIN / "vramcore", "doctor", "--run", "--json", "--", *command], **more)
        if alone.returncode == 77:
            self.skipTest(f"SKIPPED: {path}: {alone.stdout}")
        self.assertEqual(alone.returncode, 0, (alone.stdout, alone.stderr))
        self.assertIn(alone.stdout, done.stderr)
        findings = {f["what"]: f["detail"] for f in json.loads(done.stdout)["findings"]}
        self.assertEqual(findings["the program ran"], "exit status 0")
        counts = re.match(r"(\d+) by dlsym, (\d+) of (\d+) by cuGetProcAddress",
                          findings.get("functions handed out recorded", ""))
        self.assertTrue(counts, findings)
        print(f"{name}: {counts[0]}: {alone.stdout.strip()}")
        self.assertGreaterEqual(int(counts[1]), by_name, counts[0])
        self.assertGreaterEqual(int(counts[2]), by_version, counts[0])
        return alone.stdout

    def test_runtime_13(self):
        out = self.asked("libcudart.so.13", "start_library", "cudaGetDeviceCount", "cudaMalloc", by_name=1,
                         by_version=100)
        self.assertRegex(out, r"cudaMalloc gives [1-9]")

    def test_runtime_12(self):
        out = self.asked("libcudart.so.12", "start_library", "cudaGetDeviceCount", "cudaMalloc", by_name=1,
                         by_version=100)
        self.assertRegex(out, r"cudaMalloc gives [1-9]")

    def test_static_runtime(self):
        if not (BIN / "start_static_runtime").exists():
            self.skipTest("SKIPPED: libcudart_static.a is not on this machine")
        out = self.asked("static", "start_static_runtime", "cudaGetDeviceCount", "cudaMalloc", by_name=1,
                         by_version=100)
        self.assertRegex(out, r"cudaMalloc gives [1-9]")

    def test_nccl(self):
        self.asked("libnccl.so.2", "start_library", "ncclGetVersion", "ncclGetUniqueId", "ncclMemAlloc", by_version=100)

    def test_cublas(self):
        out = self.asked("libcublas.so.1[23]", "start_library", "cublasCreate_v2", by_version=100)
        self.assertRegex(out, r"cublasCreate_v2 gives [1-9]")

    def test_cublaslt(self):
        self.asked("libcublasLt.so.1[23]", "start_library", "cublasLtCreate", by_name=1)

    def test_cudnn(self):
        self.asked("libcudnn.so.9", "start_library", "cudnnCreate", by_version=100)


unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
