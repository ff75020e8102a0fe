# SPDX-License-Identifier: Apache-2.0
"""children.py BIN: programs that only ask for the driver, and children forked before it started."""
import os

import common
from common import ACTOR, COMMAND, FULL, blocks, call, expect, files, left, preloaded


def short():
    """Programs that only call cuInit leave no file and no thread."""
    env = preloaded()
    count = 10000 if FULL else 1000
    statuses = set()
    for _ in range(count):
        pid = os.posix_spawn(ACTOR, [ACTOR, "init"], env)
        statuses.add(os.waitpid(pid, 0)[1])
    expect(statuses, {0}, "statuses")
    expect((left(), files("*")), ([], ["rec"]), f"left of {count} programs")
    status, out, error = call([COMMAND, "run", "--", "sh", "-c", f"for i in 1 2 3 4 5; do {ACTOR} init; done"])
    expect((status, out), (0, ""), "under run")
    expect("nothing recorded" in error, True, error)
    expect((left(), files("*")), ([], ["rec"]), "left under run")


def before():
    """Children forked before the driver started: each has a recording of its own."""
    words = ["fork", "alloc", "a", "1M", "fork", "try", "x", "9M", "end", "end",
             "fork", "alloc", "b", "2M", "_exit", "0", "end", "fork", "out", "nothing", "end",
             "alloc", "c", "4M", "fork", "try", "d", "8M", "end", "alloc", "e", "5M"]
    status, out, error = call([ACTOR, *words], preloaded())
    expect((status, out, error), (0, "nothing\n", ""), "status and output")
    lives = sorted(blocks(path) for path in files("rec/*.vrec"))
    mebibyte = 1 << 20
    expect([live for live in lives if live], [[mebibyte], [2 * mebibyte], [4 * mebibyte, 5 * mebibyte]],
           "what each shows")
    for path in files("rec/*.vrec"):
        os.unlink(path)
    status, out, error = call([COMMAND, "run", "--at-exit", "--out", "out", "--", ACTOR, *words])
    lives = sorted(blocks(path) for path in files())
    expect([live for live in lives if live], [[mebibyte], [4 * mebibyte, 5 * mebibyte]], "at exit, under run")
    expect(left(), [], "left")


def exec_again():
    """A process that becomes another program: the new one's recording counts."""
    words = ["alloc", "a", "1M", "exec", ACTOR, "alloc", "b", "2M", "touch", "r", "wait", "go"]
    program = common.start([ACTOR, *words], preloaded())
    common.wait_for(lambda: os.path.exists("r"), "the program to be ready")
    expect(len(files("rec/*.vrec")), 2, "recordings")
    status, out, error = call([COMMAND, "snapshot", str(program.pid), "-o", "s"])
    expect((status, blocks("s")), (0, [2 << 20]), "the new program: " + error)
    open("go", "w").close()
    program.wait()
    for path in files("rec/*.vrec"):
        os.unlink(path)
    status, out, error = call([COMMAND, "run", "--out", "out", "--", ACTOR, "alloc", "a", "1M", "exec", ACTOR,
                               "alloc", "b", "2M", "raise", "9"])
    expect(status, -9, "death")
    expect([blocks(path) for path in files()], [[2 << 20]], "one snapshot, of the program that died")
    expect(left(), [], "left")


CHECKS = {check.__name__: check for check in (short, before, exec_again)}

if __name__ == "__main__":
    common.main(CHECKS)
