# SPDX-License-Identifier: Apache-2.0
"""oom.py BIN [CHECK...]: what is kept when memory runs out, by injection and for real."""
import common
from common import ACTOR, BIN, COMMAND, blocks, call, environment, expect, files, preloaded, tables

MEBIBYTE = 1 << 20


def both(check):
    """Under `run` (snapshots by the supervisor) and under LD_PRELOAD alone (copies by the agent)."""
    def run_both():
        for way in ("run", "preload"):
            with common.folder():
                check(way)
    run_both.__name__ = check.__name__
    return run_both


def go(way, words, **more):
    if way == "run":
        done = call([COMMAND, "run", "--out", "out", "--at-exit", "--", ACTOR, *words], environment(**more))
    else:
        done = call([ACTOR, *words], preloaded(VRAMCORE_AT_EXIT="1", **more))
    return done[0]


def of(trigger):
    return [path for path in files() if tables(path)["process"][0]["trigger"] == trigger]


def evidence(path, key):
    return sum(row["value"] for row in tables(path)["evidence"] if row["key"] == key)


def outcomes(path):
    return [row["outcome"] for row in tables(path)["failures"]]


@both
def retry(way):
    """Fail, free, succeed: no snapshot, one retry."""
    status = go(way, ["alloc", "a", "100M", "alloc", "b", "200M", "try", "c", "300M", "free", "a", "alloc", "c",
                      "300M", "exit", "0"], SIMCUDA_FAIL="cuMemAlloc_v2:3=2")
    expect(status, 0, way)
    expect((len(of("oom")), len(of("exit"))), (0, 1), f"{way}: OOM snapshots, {files()}")
    if of("exit"):
        expect(evidence(of("exit")[0], "retries"), 1, f"{way}: retries counted")
        expect(outcomes(of("exit")[0]), [1], f"{way}: outcome: retried")


@both
def real_retry(way):
    """The same without injection: the device is full, the program gives back and goes on."""
    status = go(way, ["alloc", "a", "1G", "alloc", "b", "512M", "try", "c", "1G", "free", "a", "alloc", "c", "1G",
                      "exit", "0"])
    expect(status, 0, way)
    expect((len(of("oom")), len(of("exit"))), (0, 1), f"{way}: OOM snapshots, {files()}")
    if of("exit"):
        expect(evidence(of("exit")[0], "retries"), 1, f"{way}: retries counted")


@both
def fatal(way):
    """Fail, give some back while cleaning up, exit(1): one snapshot, of the state before the frees."""
    for number, more in enumerate(({"SIMCUDA_FAIL": "cuMemAlloc_v2:3=2"}, {})):
        with common.folder():
            words = ["alloc", "a", "1G", "alloc", "b", "512M", "try", "c", "1G", "free", "a", "free", "b", "exit",
                     "1"]
            status = go(way, words, **more)
            expect(status, 1, way)
            expect((len(of("oom")), len(of("exit"))), (1, 1), f"{way} {number}: snapshots, {files()}")
            for path in of("oom"):
                expect(blocks(path), [512 * MEBIBYTE, 1024 * MEBIBYTE], f"{way} {number}: live before the frees")
                process = tables(path)["process"][0]
                expect(process["moment"], "oom", f"{way} {number}: moment")
                failures = tables(path)["failures"]
                expect([row["requested"] for row in failures], [1 << 30], f"{way} {number}: asked for")
                total = 2048 * MEBIBYTE
                expect([(row["free"], row["total"]) for row in failures],
                       [(total - (64 + 1536) * MEBIBYTE, total)], f"{way} {number}: free and total then")


@both
def left_by_exit(way):
    """Fail and _exit(1): no handler ran; the supervisor sees it, the agent alone cannot."""
    status = go(way, ["alloc", "a", "1G", "try", "c", "2G", "free", "a", "_exit", "1"])
    expect(status, 1, way)
    if way == "run":
        expect(len(of("oom")), 1, f"{way}: snapshots, {files()}")
        for path in of("oom"):
            expect(blocks(path), [1024 * MEBIBYTE], f"{way}: live before the frees")


@both
def killed_after(way):
    """Fail, then abort: the snapshot is of the failure, not of the end."""
    if way == "preload":
        return
    status = go(way, ["alloc", "a", "1G", "try", "c", "2G", "free", "a", "raise", "6"])
    expect(status, -6, way)
    expect([tables(path)["process"][0]["trigger"] for path in files()], ["oom"], f"{way}: snapshots")
    for path in of("oom"):
        expect(blocks(path), [1024 * MEBIBYTE], f"{way}: live before the frees")


@both
def ends_well(way):
    """Fail, give up the plan, exit(0): nobody is told of an OOM."""
    status = go(way, ["alloc", "a", "1G", "try", "c", "2G", "exit", "0"])
    expect((status, len(of("oom"))), (0, 0), f"{way}: snapshots, {files()}")


@both
def thousand(way):
    """A thousand failures caught one after the other: three snapshots."""
    status = go(way, ["alloc", "a", "1G", "fail", "1000", "2G", "exit", "0"])
    expect((status, len(of("oom"))), (0, 3), f"{way}: snapshots, {files()}")
    for path in of("oom"):
        expect(blocks(path), [1024 * MEBIBYTE], f"{way}: live then")
    with common.folder():
        words = ["alloc", "a", "1G"]
        for i in range(100):  # each pair of failures is one OOM, each success ends it
            words += ["fail", "2", "2G", "alloc", "b", "1M", "free", "b"]
        status = go(way, words + ["exit", "1"])
        expect((status, len(of("oom"))), (1, 3), f"{way}: snapshots of pairs, {files()}")
        if of("exit"):
            expect(evidence(of("exit")[0], "retries"), 0, f"{way}: retries")


@both
def twice(way):
    """Two failures without a success between: one snapshot, at once, of the first."""
    status = go(way, ["alloc", "a", "1G", "try", "c", "2G", "free", "a", "try", "c", "3G", "step", "1", "alloc", "d",
                      "1M", "exit", "0"])
    expect((status, len(of("oom"))), (0, 1), f"{way}: snapshots, {files()}")
    for path in of("oom"):
        expect(blocks(path), [1024 * MEBIBYTE], f"{way}: live before the frees")
    status, text, error = call([COMMAND, "oom", *of("oom")])
    expect(status in (0, 1) and "2.00 GiB" in text, True, f"{way}: the verb: {text}{error}")


@both
def errors(way):
    """An error of earlier work: a snapshot of that instant, once, however often it is given."""
    words = ["alloc", "a", "100M", "alloc", "b", "200M", "try", "c", "300M", "free", "a", "try", "c", "300M", "try", "c",
             "300M", "exit", "0"]
    status = go(way, words, SIMCUDA_FAIL="cuMemAlloc_v2:3-4=700,cuMemAlloc_v2:5-=719")
    expect((status, len(of("oom")), len(of("error"))), (0, 0, 2), f"{way}: snapshots, {files()}")
    for number, path in enumerate(sorted(of("error"), key=lambda path: tables(path)["process"][0]["number"])):
        expect(blocks(path), [100 * MEBIBYTE, 200 * MEBIBYTE][number:], f"{way} {number}: live then")
        expect(tables(path)["process"][0]["moment"], "error", f"{way} {number}: moment")
        status, text, error = call([COMMAND, "info", path])
        expect("error 700 (illegal address) from cuMemAlloc_v2" in text and "act  <- " in text, True,
               f"{way} {number}: the verb: {text}{error}")
    # five different ones
    with common.folder():
        words = ["alloc", "a", "1M", *["try", "c", "300M"] * 5, "exit", "0"]
        status = go(way, words, SIMCUDA_FAIL=",".join(f"cuMemAlloc_v2:{call}={result}" for call, result in
                                                      zip(range(2, 7), (700, 710, 714, 715, 719))))
        expect((status, len(of("error"))), (0, 3), f"{way}: three at most, {files()}")


@both
def limits(way):
    """--max-files counts OOM snapshots too."""
    words = ["alloc", "a", "1G", "fail", "10", "2G", "exit", "0"]
    if way == "run":
        call([COMMAND, "run", "--out", "out", "--max-files", "2", "--", ACTOR, *words])
    else:
        call([ACTOR, *words], preloaded(VRAMCORE_MAX_FILES="2"))
    expect(len(files()), 2, f"{way}: two files at most")


CHECKS = {check.__name__: check for check in (retry, real_retry, fatal, left_by_exit, killed_after, ends_well,
                                              thousand, twice, errors, limits)}

if __name__ == "__main__":
    common.main(CHECKS)
