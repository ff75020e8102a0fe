#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packed snapshots, read where none of the programs is: in a root that holds the command alone.

usage: test_pack.py VRAMCORE MAKE_SNAPSHOTS
"""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

VRAMCORE, MAKE = (os.path.abspath(p) for p in sys.argv[1:3])
FOLDER = None


def run(*arguments, prefix=(), command=VRAMCORE, cwd=None):
    env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    done = subprocess.run([*prefix, command, *arguments], capture_output=True, text=True, check=False,
                          cwd=cwd or FOLDER, timeout=120, env=env)
    return done.returncode, done.stdout, done.stderr


def rows_of(text):
    """What a diff shows: without the paths of the files it came from."""
    device, = json.loads(text)["devices"]
    return device["rows"]


def enter_root(root):
    """The command that runs another in this root; None where the system allows neither way."""
    for prefix in (["chroot", root], ["unshare", "--user", "--map-root-user", "chroot", root]):
        done = subprocess.run([*prefix, "/vramcore", "--version"], capture_output=True, check=False)
        if done.returncode == 0:
            return prefix
    return None


def make_root(root):
    """Copies the command and the libraries it names, nothing else."""
    listed = subprocess.run(["ldd", VRAMCORE], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"(/\S+) \(0x", listed):
        target = pathlib.Path(root, library.lstrip("/"))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    shutil.copy(VRAMCORE, os.path.join(root, "vramcore"))
    os.mkdir(os.path.join(root, "files"))


class Pack(unittest.TestCase):
    def pack(self, name, *more, status=0):
        code, out, err = run("pack", name, *more, "--json")
        self.assertEqual(code, status, (out, err))
        return json.loads(out)

    def test_numbers(self):
        d = self.pack("self10.vramcore", "-o", "numbers.vramcore")
        # leaking and steady site, each with its function, make_self and main; inlining may fold some
        self.assertEqual(d["addresses"], d["addresses_named"])
        self.assertEqual(d["addresses_with_lines"], d["addresses_named"])
        self.assertGreaterEqual(d["addresses"], 4)
        self.assertEqual(d["without_lines"], [])
        made = pathlib.Path(FOLDER, "numbers.vramcore")
        self.assertEqual(d["output_bytes"], made.stat().st_size)
        self.assertEqual(stat.S_IMODE(made.stat().st_mode), 0o600)
        self.assertEqual(run("check", "numbers.vramcore")[0], 0)
        tables = json.loads(run("export", "numbers.vramcore", "--to", "json")[1])["tables"]
        names = {row["function"] for row in tables["symbol_frames"]}
        self.assertTrue({"leaking_function", "steady_function", "main"} <= names, names)
        self.assertEqual(len(tables["symbols"]), d["addresses"])
        # all else is as it was
        before = json.loads(run("export", "self10.vramcore", "--to", "json")[1])["tables"]
        for table, rows in before.items():
            if table not in ("strings", "symbols", "symbol_frames", "symbol_modules"):
                self.assertEqual(tables[table], rows, table)

    def test_default_name_and_no_overwriting(self):
        self.assertEqual(self.pack("self100.vramcore")["output"], "self100.packed.vramcore")
        whole = pathlib.Path(FOLDER, "self100.packed.vramcore").read_bytes()
        code, out, err = run("pack", "self100.vramcore")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("exists already", err)
        self.assertEqual(pathlib.Path(FOLDER, "self100.packed.vramcore").read_bytes(), whole)

    def test_text(self):
        code, out, err = run("pack", "self10.vramcore", "-o", "text.vramcore")
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"^text\.vramcore: .* of \d+ addresses named, \d+ with file and line\n")
        self.assertEqual(out.splitlines()[-1], "evidence: complete.")

    def test_what_is_missing_is_said(self):
        d = self.pack("step1000.vramcore", "-o", "missing.vramcore")
        self.assertEqual(d["addresses_named"], 0)
        self.assertEqual([(w["module"], w["why"]) for w in d["without_lines"]],
                         [("/home/me/build/train", "file missing")])
        self.assertIn("/home/me/build/train: file missing", run("diff", "missing.vramcore", "missing.vramcore")[1])

    def test_damage_is_carried_over(self):
        whole = pathlib.Path(FOLDER, "self10.vramcore").read_bytes()
        tables = subprocess.run(["readelf", "-SW", "self10.vramcore"], cwd=FOLDER, capture_output=True,
                                text=True, check=True).stdout
        offset = int(re.search(r"\.vramcore\.threads\s+PROGBITS\s+\S+\s+(\S+)", tables)[1], 16)
        damaged = bytearray(whole)
        damaged[offset + 30] ^= 1
        pathlib.Path(FOLDER, "damaged.vramcore").write_bytes(damaged)
        self.pack("damaged.vramcore", "-o", "after.vramcore", status=1)
        self.assertEqual(run("check", "after.vramcore")[0], 0)
        code, out, _ = run("info", "after.vramcore")
        self.assertEqual(code, 1)
        self.assertRegex(out, r"INCOMPLETE\..*before it was packed was damaged: \.vramcore\.threads")

    def test_usage(self):
        self.assertEqual(run("pack", "self10.vramcore", "--no-symbols", "-o", "x")[0], 64)
        self.assertEqual(run("pack", "missing-file", "-o", "x")[0], 2)
        self.assertEqual(run("pack", "self10.vramcore", "-o", "/no/folder/x")[0], 2)
        self.assertFalse(os.path.exists(os.path.join(FOLDER, "x")))

    def test_without_the_program(self):
        """Packed, the program gone: the same rows as before it went."""
        with tempfile.TemporaryDirectory() as folder:
            make = shutil.copy(MAKE, folder)
            subprocess.run([make, folder], check=True)
            before = rows_of(run("diff", "self10.vramcore", "self100.vramcore", "--json", cwd=folder)[1])
            for name in ("self10", "self100"):
                self.assertEqual(run("pack", name + ".vramcore", cwd=folder)[0], 0)
            os.unlink(make)
            packed = ("diff", "self10.packed.vramcore", "self100.packed.vramcore", "--json")
            self.assertEqual(rows_of(run(*packed, cwd=folder)[1]), before)
            # a packed file names the frames of one that is not
            device, = json.loads(run("diff", "self100.vramcore", "self100.packed.vramcore", "--json",
                                     cwd=folder)[1])["devices"]
            self.assertEqual((device["rows"], device["unchanged_sites"]), ([], 2))
            device, = json.loads(run("diff", "self100.vramcore", "self10.packed.vramcore", "--json",
                                     cwd=folder)[1])["devices"]
            self.assertTrue(all("make_self" in str(row["stack"]) for row in device["rows"]))
            plain = rows_of(run("diff", "self10.vramcore", "self100.vramcore", "--json", "--no-cache",
                                cwd=folder)[1])
            self.assertNotEqual(plain, before)
            # names of an earlier run serve too, unless they are not wanted
            cached = rows_of(run("diff", "self10.vramcore", "self100.vramcore", "--json", cwd=folder)[1])
            self.assertEqual(cached, before)
            left_aside = rows_of(run(*packed, "--no-symbols", cwd=folder)[1])
            self.assertNotEqual(left_aside, before)

    def test_in_an_empty_root(self):
        with tempfile.TemporaryDirectory() as root:
            make_root(root)
            prefix = enter_root(root)
            if not prefix:
                self.skipTest("neither chroot nor a user namespace is allowed here")
            inside = {"command": "/vramcore", "prefix": prefix}
            before = run("diff", "self10.vramcore", "self100.vramcore", "--json")[1]
            for name in ("self10", "self100"):
                shutil.copy(os.path.join(FOLDER, name + ".vramcore"), os.path.join(root, "files"))
                self.pack(name + ".vramcore", "-o", os.path.join(root, "files", name + ".packed"))
            code, out, err = run("diff", "/files/self10.packed", "/files/self100.packed", "--json", **inside)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(rows_of(out), rows_of(before))
            self.assertEqual(json.loads(out)["without_lines"], [])
            # and not because the root has the program after all
            out = run("diff", "/files/self10.vramcore", "/files/self100.vramcore", "--json", **inside)[1]
            self.assertNotIn("leaking_function", out)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as FOLDER:
        os.environ["XDG_CACHE_HOME"] = os.path.join(FOLDER, "cache")
        subprocess.run([MAKE, FOLDER], check=True)
        unittest.main(argv=sys.argv[:1] + sys.argv[3:])
