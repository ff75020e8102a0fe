# SPDX-License-Identifier: Apache-2.0
"""Leaks of a training program under `vramcore run`: `diff` of two steps names the line and the holder
of each, and nothing else as a leak.

usage: test_growth.py VRAMCORE"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "growth.py")


def wanted():
    """(line, name, words that the way must have in this order)"""
    with open(PROGRAM, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            found = re.search(r"# LEAK ([^:]+): (.*)", line)
            if found:
                yield number, found.group(1), found.group(2).split(" -> ")


def passes(row, line):
    """Whether a site's stack goes through this line of the program."""
    return any((frame.get("file") or "").endswith("growth.py") and frame.get("line") == line
               for frame in row["stack"])


def compare(vramcore):
    """The report of `diff`; None: a busy machine left too little time for the walk."""
    with tempfile.TemporaryDirectory(prefix="vramcore-growth-") as folder:
        subprocess.run([vramcore, "run", "--quiet", "--at-step", "5,14", "--", sys.executable, "-W",
                        "ignore", PROGRAM], cwd=folder, check=True)
        files = sorted(glob.glob(os.path.join(folder, "*", "*.vramcore")), key=os.path.getmtime)
        if len(files) != 2:
            sys.exit("FAIL: %d snapshots" % len(files))
        report = json.loads(subprocess.run([vramcore, "diff", "--json", "-n", "0", *files],
                                           check=False, stdout=subprocess.PIPE).stdout)
    if any("the time for" in note for note in report["notes"]):
        return None
    return report


def main():
    report = None
    for _ in range(4):
        report = report or compare(sys.argv[1])
    if report is None:
        print("SKIPPED: this machine is too busy for a walk in its time")
        return 77
    rows = [row for device in report["devices"] for row in device["rows"] if row["growth"] > 0]
    failed, lines = 0, set()
    for number, name, words in wanted():
        at = [row for row in rows if passes(row, number)]
        lines.add(number)
        held = at[0].get("held_by") if at else None
        place = 0
        for word in words:
            place = (held or "").find(word, place) if place >= 0 else place
        good = held is not None and place >= 0
        failed += not good
        print("ok  " if good else "FAIL", name, "| line %d |" % number, held if at else
              "no growth at this line")
    for row in rows:
        if not any(passes(row, number) for number in lines):
            print("also grew:", row["growth"], row["shape"], row["site"], "|", row.get("held_by"))
    print("%d of %d leaks named" % (len(lines) - failed, len(lines)))
    return failed != 0


sys.exit(main())
