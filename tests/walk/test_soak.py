# SPDX-License-Identifier: Apache-2.0
"""Walks against a thread that trains, from everything that can ask for one: the program must end by itself.

usage: test_soak.py VRAMCORE SECONDS [NAME ...]
Without names: all ways at once. Names are those of WAYS below, or "each": one after the other, each for so
many seconds. The target walk_soak runs that with 60."""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "soak.py")
USED = ["--at-used", "150MiB"]
# way: options of run, arguments of the program, what is done from outside
WAYS = {
    "all": (["--every", "7steps", "--on-signal", "USR1", *USED], ["oom", "mark", "rise"], ["signal", "ask"]),
    "signal": (["--on-signal", "USR1"], [], ["signal"]),
    "asked": ([], [], ["ask"]),
    "every": (["--every", "1s"], [], []),
    "before-backward": (["--every", "5steps", "--when", "before-backward"], [], []),
    "after-step": (["--every", "5steps", "--when", "after-step"], [], []),
    "peak": (["--every", "5steps", "--when", "peak"], [], []),
    "at-used": (USED, ["rise"], []),
    "oom": ([], ["oom"], []),
    "mark": ([], ["mark"], []),
}


class Outside(threading.Thread):
    """Signals, requests, and room for further snapshots while the program runs."""

    def __init__(self, vramcore, process, folder, what):
        super().__init__()
        self.vramcore, self.process, self.folder, self.what = vramcore, process, folder, what
        self.files = self.walked = self.asked = 0
        self.program = None  # its process id, once it trains

    def look(self, keep):
        files = sorted(glob.glob(os.path.join(self.folder, "*.vramcore")), key=os.path.getmtime)
        for path in files[:-keep] if keep else files:
            exported = subprocess.run([self.vramcore, "export", "--to", "json", path], check=False,
                                      stdout=subprocess.PIPE).stdout if self.files % 10 == 0 else b""
            self.files += 1
            self.walked += bool(exported) and bool(json.loads(exported)["tables"]["walks"])
            os.unlink(path)

    def run(self):
        while self.process.poll() is None:
            time.sleep(0.2)
            try:
                if "signal" in self.what and self.program:
                    os.kill(self.program, signal.SIGUSR1)
                if "ask" in self.what and self.program:
                    self.asked += 1
                    subprocess.run([self.vramcore, "snapshot", "--tensors", str(self.program)], cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            except ProcessLookupError:
                pass
            self.look(2)


def soak(vramcore, seconds, name):
    options, arguments, outside = WAYS[name]
    folder = tempfile.mkdtemp(prefix="vramcore-soak-")
    try:
        process = subprocess.Popen(
            [vramcore, "run", "--quiet", "--max-files", "1000000", "--max-bytes", "1TiB", "--out", folder, *options,
             "--", sys.executable, "-W", "ignore", PROGRAM, str(seconds), *arguments],
            stdout=subprocess.PIPE, text=True, env=dict(os.environ, OMP_NUM_THREADS="1", SIMCUDA_MEMORY="1GiB"))
        thread = Outside(vramcore, process, folder, outside)
        thread.start()
        thread.program = int(process.stdout.readline() or 0)
        counts = process.stdout.read().split()
        status = process.wait()
        thread.join()
        thread.look(0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    good = status == 0 and len(counts) == 4 and int(counts[0]) > 3 and thread.walked > 0 and (
        "ask" not in outside or thread.asked > 0)
    print("%-16s %s status %d; steps, backward passes beside, failures, marks: %s; %d snapshots (%d of every tenth with "
          "a walk), asked %d times" % (name, "ok  " if good else "FAIL", status, " ".join(counts), thread.files,
                                       thread.walked, thread.asked), flush=True)
    return not good


def main():
    names = sys.argv[3:] or ["all"]
    if names == ["each"]:
        names = list(WAYS)
    return sum(soak(os.path.abspath(sys.argv[1]), float(sys.argv[2]), name) for name in names) != 0


sys.exit(main())
