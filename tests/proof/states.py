# SPDX-License-Identifier: Apache-2.0
"""states.py BIN: `vramcore snapshot PID` of a running, a stopped and a dead process is the same."""
import os
import re
import signal
import subprocess

import common
from common import ACTOR, COMMAND, call, environment, expect, files, preloaded, start, tables, wait_for

# What may differ: when it was read, and in what state the process was.
TIMES = {("process", "snapshot_time"), ("process", "state")}


def content(path):
    """All tables with strings and rows resolved where they could be numbered otherwise."""
    result = tables(path)
    for table, rows in result.items():
        for row in rows:
            for name in list(row):
                if (table, name) in TIMES:
                    del row[name]
    result["strings"] = sorted(row["text"] for row in result["strings"]
                               if row["text"] not in ("running", "stopped", "dead"))
    return result


def state_of(path):
    return tables(path)["process"][0]["state"]


def snapshot(of, name):
    status, out, error = call([COMMAND, "snapshot", str(of), "-o", name])
    expect((status, out, error), (0, name + "\n", ""), f"snapshot {name}")


def stop(pid):
    """It stands still when it was scheduled to take the signal, not when that was sent."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: re.search(r"\) [Tt] ", open(f"/proc/{pid}/stat").read()), "the stop")


def one(prefix, arguments, env):
    program = start([*arguments, "touch", prefix + "-ready", "wait", "never"], env)
    wait_for(lambda: os.path.exists(prefix + "-ready"), "the program to be ready")
    pid = program.pid
    if program.args[0] == COMMAND:
        pid = int(subprocess.check_output(["pgrep", "-P", str(program.pid)]).split()[0])
    snapshot(pid, prefix + "-running")
    stop(pid)
    snapshot(pid, prefix + "-stopped")
    recording = files("rec/*.vrec") + files("rec/*/*.vrec")
    os.kill(pid, signal.SIGKILL)
    program.wait()
    if os.path.exists(recording[0]):
        snapshot(pid, prefix + "-dead")
        snapshot(recording[0], prefix + "-file")
    states = [state_of(path) for path in files(prefix + "-[rsdf]*") if "ready" not in path]
    contents = {path: content(path) for path in files(prefix + "-[rsdf]*") if "ready" not in path}
    first = contents[prefix + "-running"]
    for path, found in contents.items():
        for table in first:
            expect(found[table], first[table], f"{path}: {table}")
    expect(len(first["allocations"]) > 10, True, "there is something to see")
    for path in recording:
        if os.path.exists(path):
            os.unlink(path)
    return states


def alike():
    words = []
    for i in range(30):
        words += ["alloc", f"n{i}", f"{100 + i}K", "step", str(i)]
    words += [word for i in range(0, 30, 3) for word in ("free", f"n{i}")]
    states = one("plain", [ACTOR, *words], preloaded())
    expect(states, ["dead", "dead", "running", "stopped"], "states")
    env = preloaded(VRAMCORE_IN_CORE="1")
    program = start([ACTOR, *words, "touch", "memfd-ready", "wait", "never"], env)
    wait_for(lambda: os.path.exists("memfd-ready"), "the program to be ready")
    snapshot(program.pid, "memfd-running")
    stop(program.pid)
    snapshot(program.pid, "memfd-stopped")
    program.kill()
    program.wait()
    for table, rows in content("memfd-running").items():
        expect(content("memfd-stopped")[table], rows, f"memfd: {table}")
    status, out, error = call([COMMAND, "snapshot", str(program.pid)])
    expect(status, 2, "a memfd goes with its process: " + error)
    states = one("run", [COMMAND, "run", "--quiet", "--keep", "--", ACTOR, *words], environment())
    expect(states, ["dead", "dead", "running", "stopped"], "states under run")


def nothing():
    """What cannot be shown is said, with status 2."""
    program = start(["sleep", "100"])
    status, out, error = call([COMMAND, "snapshot", str(program.pid)])
    expect((status, out), (2, ""), "a process that is not recorded")
    expect("is not recorded" in error, True, error)
    program.kill()
    program.wait()
    status, out, error = call([COMMAND, "snapshot", str(program.pid)])
    expect((status, out), (2, ""), "a process that is not there")
    expect("no such process" in error, True, error)
    with open("empty.vrec", "w"):
        pass
    status, out, error = call([COMMAND, "snapshot", "empty.vrec"])
    expect((status, out), (2, ""), "an empty file: " + error)
    expect(call([COMMAND, "snapshot"])[0], 64, "usage")


CHECKS = {check.__name__: check for check in (alike, nothing)}

if __name__ == "__main__":
    common.main(CHECKS)
