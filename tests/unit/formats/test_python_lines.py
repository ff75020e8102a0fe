#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lines of Python's instructions, for every code object of some modules of each CPython there is.

usage: test_python_lines.py PRINT_PYTHON_LINES
The judge is the interpreter itself: co_lines, or before 3.10 dis.findlinestarts. Exit 77 where no CPython of
3.9 or later is found.
"""
import glob
import os
import subprocess
import sys

DUMP = r"""
import dis, sys, types, ast, argparse, asyncio.base_events, collections, dataclasses, email.message, typing
def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)
def truth(code):
    lines = [0] * len(code.co_code)
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            lines[start:end] = [line or 0] * (end - start)
    else:
        starts = list(dis.findlinestarts(code)) + [(len(lines), 0)]
        for (start, line), (end, _) in zip(starts, starts[1:]):
            lines[start:end] = [line] * (end - start)
    return lines[::2]
count = 0
for name in ("ast", "argparse", "asyncio.base_events", "collections", "dataclasses", "email.message", "typing"):
    path = sys.modules[name].__file__
    for code in codes(compile(open(path, encoding="utf-8").read(), path, "exec")):
        table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
        print("%x %d %d %s" % (sys.version_info[0] << 8 | sys.version_info[1], code.co_firstlineno, len(code.co_code), table.hex()))
        print(*truth(code))
"""


def interpreters():
    found = {}
    for path in [*glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")), "/usr/bin/python3", sys.executable]:
        done = subprocess.run([path, "-c", "import sys; print(sys.version_info[:2] >= (3, 9), sys.version_info[:2])"],
                              text=True, capture_output=True, check=False)
        if done.stdout.startswith("True"):
            found.setdefault(done.stdout, path)
    return list(found.values())


def check(path, program):
    dumped = subprocess.run([path, "-c", DUMP], text=True, capture_output=True, check=True).stdout.splitlines()
    questions, answers = dumped[::2], dumped[1::2]
    printed = subprocess.run([program], input="\n".join(questions) + "\n", text=True, capture_output=True,
                             check=True).stdout.splitlines()
    assert len(questions) > 500 and len(printed) == len(questions), (path, len(questions), len(printed))
    wrong = [i for i, (line, answer) in enumerate(zip(printed, answers)) if line.split() != answer.split()]
    instructions = sum(len(answer.split()) for answer in answers)
    print("%s: %d code objects, %d instructions, %d objects wrong" % (path, len(questions), instructions, len(wrong)))
    for i in wrong[:3]:
        print(questions[i], printed[i], answers[i], sep="\n")
    return not wrong


def main():
    paths = interpreters()
    if not paths:
        print("SKIPPED: no CPython of 3.9 or later")
        return 77
    return 0 if all([check(path, sys.argv[1]) for path in paths]) else 1


if __name__ == "__main__":
    sys.exit(main())
