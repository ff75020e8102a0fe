#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks of stuck.py, one in a collective, the other in a module: `vramcore hang` tells which and where.

usage: test_hang.py BINARY_FOLDER
Lines are found by the script's marks. Skipped where the wheel of PyTorch cannot be had.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE / "stuck.py"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}


def line_of(mark):
    line, = [n for n, text in enumerate(SCRIPT.read_text().splitlines(), 1) if text.endswith("# stuck: " + mark)]
    return line


def start(binaries, folder, rank, port):
    variables = ENVIRONMENT | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                               "LD_PRELOAD": str(binaries / "libvramcore.so"), "VRAMCORE_OUT": str(folder),
                               "VRAMCORE_DIR": str(folder)}
    return subprocess.Popen([HERE.parent / "simtorch" / "run", "--bin", binaries, "python", SCRIPT], env=variables,
                            stdout=subprocess.PIPE, text=True, start_new_session=True)


def look(binaries, folder, pids):
    done = subprocess.run([binaries / "vramcore", "hang", "--json", *map(str, pids)], stdout=subprocess.PIPE,
                          env=ENVIRONMENT | {"VRAMCORE_DIR": str(folder)}, check=True, timeout=300)
    return json.loads(done.stdout)


def check(report):
    assert report["in_collective"] == 1, report["in_collective"]
    waits, sleeps = sorted(report["processes"], key=lambda process: process["rank"])
    for process in (waits, sleeps):
        assert process["step"] == 3 and process["live"] > 0, process
    assert waits["waits_for"] == "a collective (torch.distributed)", waits
    assert f"stuck.py:{line_of('collective')}  main" in waits["site"], waits
    assert sleeps["waits_for"].startswith("time ("), sleeps
    assert f"stuck.py:{line_of('module')}  Slow.forward" in sleeps["site"], sleeps
    assert sleeps["module"] == "Model.layers.1", sleeps
    assert waits["module"] == "", waits


def main():
    binaries, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(tempfile.mkdtemp(prefix="vramcore-stuck-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    try:
        if subprocess.run([HERE.parent / "simtorch" / "run", "--bin", binaries, "true"], check=False).returncode == 77:
            return 77
        ranks = [start(binaries, folder, rank, port) for rank in range(2)]
        for rank in ranks:
            assert [rank.stdout.readline() for _ in range(3)] == ["0\n", "1\n", "2\n"]
        time.sleep(5)  # into the fourth step
        check(look(binaries, folder, [rank.pid for rank in ranks]))
    finally:
        for rank in ranks:
            os.killpg(rank.pid, signal.SIGKILL)
            rank.communicate()
        shutil.rmtree(folder)
    print("two ranks, as they are")
    return 0


if __name__ == "__main__":
    sys.exit(main())
