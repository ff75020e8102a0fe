#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the golden snapshot, and one made now, with read_snapshot.py: both must be as dumped.

usage: check_second_reader.py SOURCE MAKE_SNAPSHOT
"""
import os
import shutil
import subprocess
import sys
import tempfile

source, make_snapshot = sys.argv[1:]
if not shutil.which("zstd"):
    print("SKIPPED: no program zstd")
    sys.exit(77)


def check(snapshot, dump):
    found = subprocess.run([sys.executable, f"{source}/tests/checks/read_snapshot.py",
                            f"{source}/formats/FORMAT.md", snapshot],
                           capture_output=True, check=True).stdout
    with open(dump, "rb") as file:
        expected = file.read()
    if found != expected or not expected:
        print(f"{snapshot}: the second reader finds something else than {dump}")
        sys.exit(1)
    print(f"{snapshot}: {len(found.splitlines())} lines agree")


check(f"{source}/tests/golden/snapshot-1.vramcore", f"{source}/tests/golden/snapshot-1.txt")
with tempfile.TemporaryDirectory() as folder:
    made = os.path.join(folder, "made.vramcore"), os.path.join(folder, "made.txt")
    subprocess.run([make_snapshot, *made], check=True)
    check(*made)
