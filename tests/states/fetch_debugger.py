#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches packages of Debian into a folder of their own and unpacks them there; nothing is installed.

usage: fetch_debugger.py FOLDER PACKAGE...

Prints where they are. Status 77, with the reason, where they cannot be had. The lists of packages come
from where this system's own come from, with the component non-free.
"""
import fcntl
import os
import pathlib
import re
import subprocess
import sys


def give_up(why):
    print("SKIPPED:", why)
    raise SystemExit(77)


def source():
    """URI, suite and keyring of this system's Debian archive."""
    for path in [pathlib.Path("/etc/apt/sources.list"), *sorted(pathlib.Path("/etc/apt/sources.list.d").glob("*"))]:
        if not path.is_file():
            continue
        text = path.read_text(errors="replace")
        for line in text.splitlines():  # one line a source
            found = re.match(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+/debian/?)\s+(\w+)\s+main", line)
            if found:
                return found[1], found[2]
        for part in text.split("\n\n"):  # a paragraph each
            uri = re.search(r"^URIs:\s*(\S+/debian/?)\s*$", part, re.M)
            suite = re.search(r"^Suites:\s*(\w+)", part, re.M)
            if uri and suite:
                return uri[1], suite[1]
    give_up("no Debian archive among the sources of packages")
    return None


def main():
    folder, packages = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    root = folder / "root"
    (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
    (folder / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / ("unpacked-" + "-".join(packages))
        if done.exists():
            print(root)
            return
        uri, suite = source()
        (folder / "sources.list").write_text(f"deb {uri} {suite} main non-free\n")
        options = ["-o", f"Dir::Etc::SourceList={folder}/sources.list", "-o", "Dir::Etc::SourceParts=-",
                   "-o", f"Dir::State::Lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache",
                   "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=0", "-o", "APT::Sandbox::User="]
        for command in (["update", "-qq"], ["download", "-qq", *packages]):
            try:
                ran = subprocess.run(["apt-get", *options, *command], cwd=folder / "cache", text=True,
                                     capture_output=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
            except (OSError, subprocess.TimeoutExpired) as error:
                give_up(error)
            if ran.returncode:
                give_up(f"{' '.join(packages)} cannot be fetched: {(ran.stderr.strip().splitlines() or [''])[0]}")
        for package in packages:
            for path in (folder / "cache").glob(f"{package}_*.deb"):
                subprocess.run(["dpkg", "-x", path, root], check=True)
        done.touch()
        print(root)


if __name__ == "__main__":
    os.umask(0o077)
    main()
