# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder do to programs."""
import os
import pathlib
import signal
import time


def stop(pid):
    """A thread stands still when it was scheduled to take the signal, not when that was sent."""
    os.kill(pid, signal.SIGSTOP)
    for _ in range(600):
        states = {path.read_text().rpartition(")")[2].split()[0]
                  for path in pathlib.Path("/proc/%d/task" % pid).glob("*/stat")}
        if states == {"T"}:
            return
        time.sleep(0.05)
    raise AssertionError("it does not stop")
