#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the command on snapshots that make_snapshots wrote, and compares with numbers worked out here.

usage: test_command.py VRAMCORE MAKE_SNAPSHOTS SOURCE_FOLDER [unittest options]
VRAMCORE_SET_GOLDEN=1 rewrites the golden texts.
"""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import unittest

VRAMCORE, MAKE, SOURCE = (os.path.abspath(p) for p in sys.argv[1:4])
GOLDEN = pathlib.Path(SOURCE) / "tests/cli/golden"
FOLDER = None
MIB = 1 << 20


def run(*arguments, env=None, cwd=None):
    """Exit status, standard output and standard error as bytes decoded with surrogates."""
    full = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TZ": "Asia/Tokyo", "LC_ALL": "C"}
    full.update(env or {})
    done = subprocess.run([VRAMCORE, *arguments], capture_output=True, env=full, cwd=cwd or FOLDER,
                          timeout=300, check=False)
    decode = lambda b: b.decode("utf-8", "surrogateescape")
    return done.returncode, decode(done.stdout), decode(done.stderr)


def once(pairs):
    """An object of JSON whose keys come once each."""
    found = dict(pairs)
    assert len(found) == len(pairs), [key for key, _ in pairs]
    return found


def report(*arguments, status=0):
    code, out, err = run(*arguments, "--json")
    assert code == status, (arguments, code, out, err)
    return json.loads(out, object_pairs_hook=once)


class Golden(unittest.TestCase):
    """What a person sees, to the character."""

    CASES = {
        "diff": (0, "diff", "step1000.vramcore", "step50000.vramcore"),
        "diff-exact": (0, "diff", "step1000.vramcore", "step50000.vramcore", "--exact"),
        "diff-moments": (0, "diff", "step1000.vramcore", "backward50000.vramcore"),
        "diff-allocations": (0, "diff", "--allocations", "step1000.vramcore", "step50000.vramcore"),
        "diff-hours": (0, "diff", "hour1.vramcore", "hour5.vramcore"),
        "diff-hours-few": (0, "diff", "hour1.vramcore", "hour5.vramcore", "-n", "1", "--device", "1"),
        "trend": (0, "diff", "step1000.vramcore", "step25000.vramcore", "step50000.vramcore"),
        "top": (0, "top", "step50000.vramcore"),
        "top-narrow": (0, "top", "step50000.vramcore", "--width", "50"),
        "top-mixed": (1, "top", "mixed.vramcore"),
        "info": (0, "info", "step50000.vramcore"),
        "info-mixed": (1, "info", "mixed.vramcore"),
        "oom": (1, "oom", "mixed.vramcore"),
        "map": (0, "map", "step50000.vramcore", "-n", "3"),
        "map-mixed": (1, "map", "mixed.vramcore"),
        "where": (0, "where", "step50000.vramcore", "0x7f0000000400"),
        "where-freed": (1, "where", "mixed.vramcore", hex(0x20000000 + 395 * MIB)),
        "check": (0, "check", "step1000.vramcore", "mixed.vramcore"),
    }

    def test_golden(self):
        for name, (status, *arguments) in self.CASES.items():
            with self.subTest(name):
                code, out, err = run(*arguments, "--no-symbols")
                path = GOLDEN / (name + ".txt")
                if os.environ.get("VRAMCORE_SET_GOLDEN"):
                    path.write_text(out)
                self.assertEqual((code, err), (status, ""))
                self.assertEqual(out, path.read_text())

    def test_last_line_is_evidence(self):
        for name, (status, *arguments) in self.CASES.items():
            last = run(*arguments)[1].splitlines()[-1]
            start = "evidence: complete." if status == 0 else "evidence: INCOMPLETE. "
            self.assertTrue(last.startswith(start), (name, last))


class Numbers(unittest.TestCase):
    """JSON against arithmetic that is done here."""

    def test_no_trace(self):
        """A snapshot of our own has no events: one line that says what to try instead."""
        for arguments, words in ((("timeline", "mixed.vramcore"), "vramcore diff"),
                                 (("top", "mixed.vramcore", "--at", "peak"), "--when peak")):
            code, out, err = run(*arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(words, err)
            self.assertEqual(err.count("\n"), 2)

    def test_map_agrees_with_info(self):
        for name in ("step50000.vramcore", "mixed.vramcore"):
            shown = json.loads(run("map", name, "--json", "-n", "0")[1])
            ledger = json.loads(run("info", name, "--json")[1])
            for ours, theirs in zip(shown["devices"], ledger["devices"]):
                rows = {row["key"]: row["bytes"] for row in theirs["ledger"]}
                self.assertEqual(ours["device"]["ordinal"], theirs["device"]["ordinal"])
                self.assertEqual(ours["used_bytes"], rows.get("block", 0))
                self.assertEqual(ours["free_bytes"], rows.get("cached", 0))
                self.assertEqual(sum(s["size"] for s in ours["segments"]), ours["used_bytes"] + ours["free_bytes"])

    def test_diff(self):
        d = report("diff", "step1000.vramcore", "step50000.vramcore")
        self.assertEqual(d["schema"], "vramcore.diff/1")
        self.assertEqual(d["axis"], "steps")
        device, = d["devices"]
        growth = 49000 * 51200
        live = [8 * MIB + n * 51200 for n in (1000, 50000)]
        reserved = [-(-b // (64 * MIB)) * 64 * MIB for b in live]
        self.assertEqual(device["live_bytes"], live)
        self.assertEqual(device["reserved_bytes"], reserved)
        self.assertEqual(device["cached_bytes"], [r - l for r, l in zip(reserved, live)])
        self.assertEqual(device["growth"], growth)
        self.assertEqual(device["rate"], 51200)
        free = (80 << 30) - reserved[1] - 512 * MIB
        self.assertEqual(device["room"], free + reserved[1] - live[1])
        self.assertAlmostEqual(device["full_in_steps"], device["room"] / 51200)
        row, = device["rows"]
        self.assertEqual((row["growth"], row["count_growth"], row["per_step"], row["shape"]),
                         (growth, 49000, 51200, "linear"))
        self.assertEqual(row["bytes"], [51200 * 1000, 51200 * 50000])
        self.assertEqual(device["unchanged_sites"], 1)
        self.assertTrue(d["evidence"]["complete"])

    def test_hours(self):
        d = report("diff", "hour1.vramcore", "hour5.vramcore")
        self.assertEqual(d["axis"], "seconds")
        zero, one = d["devices"]  # 32 MiB and 30 MiB: the worst first
        self.assertEqual(zero["rows"][0]["per_hour"], 8 * MIB)
        self.assertEqual([r["growth"] for r in one["rows"]], [40 * MIB, -3 * MIB, -7 * MIB])
        self.assertNotIn("full_in_seconds", one)
        self.assertEqual((one["device"]["ordinal"], one["growth"]), (1, 30 * MIB))
        self.assertEqual((zero["device"]["ordinal"], zero["growth"]), (0, 32 * MIB))

    def test_trend(self):
        d = report("diff", "step1000.vramcore", "step25000.vramcore", "step50000.vramcore")
        row, = d["devices"][0]["rows"]
        self.assertAlmostEqual(row["per_step"], 51200)
        self.assertAlmostEqual(row["r_squared"], 1.0)
        self.assertEqual(row["counts"], [1000, 25000, 50000])

    def test_top_adds_up(self):
        for by in "site kind device stream thread library phase size".split():
            for file, status in (("step50000.vramcore", 0), ("mixed.vramcore", 1)):
                for device in report("top", file, "--by", by, "-n", "2", status=status)["devices"]:
                    total = sum(r["bytes"] for r in device["rows"]) + device["more_bytes"]
                    self.assertEqual(total, device["live_bytes"], (by, file))
                    self.assertEqual(device["live_bytes"] + device["cached_bytes"],
                                     device["reserved_bytes"])

    def test_top_modes(self):
        blocks = report("top", "--blocks", "step1000.vramcore")["devices"][0]
        self.assertEqual(blocks["live_bytes"], 8 * MIB + 1000 * 51200)
        self.assertEqual(blocks["live_count"], 1001)
        allocations = report("top", "--allocations", "step1000.vramcore")["devices"][0]
        self.assertEqual(allocations["live_bytes"], 64 * MIB)
        self.assertEqual(allocations["live_count"], 1)
        one = report("top", "mixed.vramcore", "--device", "0", status=1)["devices"]
        self.assertEqual([d["device"]["ordinal"] for d in one], [0])

    def test_ledger_adds_up(self):
        for file, status in (("step50000.vramcore", 0), ("mixed.vramcore", 1)):
            for device in report("info", file, status=status)["devices"]:
                self.assertEqual(sum(r["bytes"] for r in device["ledger"]), device["total"])
                self.assertAlmostEqual(sum(r["share"] for r in device["ledger"]), 1.0)
        large = report("info", "mixed.vramcore", status=1)["devices"][0]
        rows = {r["key"]: r["bytes"] for r in large["ledger"]}
        self.assertEqual(rows, {"linear": 400 * MIB, "stream-ordered": 100 * MIB, "in_doubt": MIB,
                                "other": 199 * MIB, "free": 300 * MIB})
        self.assertEqual(large["beside"], [{"kind": "pinned host", "count": 1, "bytes": 3 * MIB}])

    def test_evidence(self):
        evidence = report("top", "mixed.vramcore", status=1)["evidence"]
        self.assertFalse(evidence["complete"])
        self.assertEqual(evidence["allocations_lost"], 3)
        self.assertEqual({i["key"]: i["effect"] for i in evidence["items"]},
                         {"allocations_seen": "plain", "records_lost": "bytes", "stacks_cut": "note"})

    def test_oom(self):
        d = report("oom", "mixed.vramcore", status=1)
        self.assertEqual(d["failure"]["requested"], 700 * MIB)
        self.assertEqual(d["failure"]["free"], 300 * MIB)
        self.assertEqual(d["failure"]["outcome"], "out of memory")
        self.assertEqual(d["rows"][0]["bytes"], 400 * MIB)
        self.assertEqual(d["unlisted_bytes"], 100 * MIB)

    def test_where(self):
        d = report("where", "step50000.vramcore", "0x7f0000000400")
        block, segment = d["holders"]
        self.assertEqual((block["kind"], block["size"], block["label"]), ("block", 8 * MIB, "weights"))
        self.assertEqual((segment["kind"], segment["size"]), ("linear", 64 * MIB))
        self.assertIsNone(d["before"])
        self.assertEqual(d["after"]["gap"], 0)
        d = report("where", "mixed.vramcore", hex(0x20000000 + 405 * MIB), status=1)
        self.assertEqual(d["holders"], [])
        self.assertEqual(d["freed_total"], 1)
        self.assertEqual(d["before"]["gap"], 5 * MIB)

    def test_export(self):
        d = report("export", "mixed.vramcore", "--to", "json", status=1)
        self.assertEqual([a["size"] for a in d["tables"]["allocations"]],
                         [10 * MIB, 400 * MIB, 100 * MIB, MIB, 3 * MIB])
        self.assertEqual(d["tables"]["allocations"][3]["state"], "in doubt")
        self.assertEqual(d["tables"]["modules"][0]["path"], "/opt/pro\x1bgram")
        defined = re.findall(r"^VC_COLUMN\((\w+), (\w+),", (pathlib.Path(SOURCE) /
                             "formats/tables.def").read_text(), re.M)
        for table, column in defined:
            for row in d["tables"][table]:
                self.assertIn(column, row)

    def test_export_csv(self):
        import csv
        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "new")
            self.assertEqual(run("export", "mixed.vramcore", "--to", "csv", "-o", target)[0], 1)
            with open(os.path.join(target, "allocations.csv"), newline="", encoding="utf-8") as f:
                rows = list(csv.DictReader(f))
            self.assertEqual([int(r["size"]) for r in rows],
                             [10 * MIB, 400 * MIB, 100 * MIB, MIB, 3 * MIB])
            code, _, err = run("export", "mixed.vramcore", "--to", "csv", "-o", target)
            self.assertEqual(code, 2)
            self.assertIn("File exists", err)


class Names(unittest.TestCase):
    """Stacks of make_snapshots itself: the line that leaks is the line marked LEAK."""

    def test_line(self):
        source = (pathlib.Path(SOURCE) / "tests/cli/make_snapshots.c").read_text().splitlines()
        line = next(i for i, text in enumerate(source, 1) if "/* LEAK */" in text)
        device, = report("diff", "self10.vramcore", "self100.vramcore")["devices"]
        row, = device["rows"]
        self.assertEqual(row["growth"], 90 * MIB)
        self.assertTrue(row["site"].startswith(f"cli/make_snapshots.c:{line}  leaking_function"), row["site"])
        self.assertEqual([f["function"] for f in row["stack"]], ["leaking_function", "make_self", "main"])
        text = run("diff", "self10.vramcore", "self100.vramcore")[1]
        self.assertIn(f"cli/make_snapshots.c:{line}  leaking_function", text)
        self.assertIn("need not be the line that leaks", text)


class Harmless(unittest.TestCase):
    """Strings from a file never reach the terminal as anything it obeys."""

    def test_no_control_characters(self):
        for arguments in (("info", "mixed.vramcore"), ("map", "mixed.vramcore"), ("top", "mixed.vramcore"), ("oom", "mixed.vramcore"),
                          ("where", "mixed.vramcore", "0x20000000"), ("diff", "mixed.vramcore", "mixed.vramcore"),
                          ("diff", "mixed.vramcore", "step1000.vramcore"),
                          ("export", "mixed.vramcore", "--to", "csv")):
            for more in ((), ("--json",)):
                _, out, _ = run(*arguments, *more)
                self.assertNotRegex(out, r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", arguments)
        self.assertIn("\\x1b", run("info", "mixed.vramcore")[1])

    def test_hostile_arguments(self):
        code, out, err = run("top", "/no/\x1b[31m\nfile")
        self.assertEqual((code, out), (2, ""))
        self.assertNotIn("\x1b", err)


class Bounded(unittest.TestCase):
    """A file made to cost time costs little."""

    def test_hostile(self):
        for arguments in (("info",), ("top",), ("diff", "hostile.vramcore")):
            used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            code, _, _ = run(*arguments, "hostile.vramcore", "--json")
            self.assertIn(code, (0, 1, 2))
            # of the processor, not by the clock: the machine may have other things to do
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used, 30, arguments)


class Usage(unittest.TestCase):
    def test_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            garbage = os.path.join(folder, "garbage")
            pathlib.Path(garbage).write_bytes(b"x" * 5000)
            whole = pathlib.Path(FOLDER, "step1000.vramcore").read_bytes()
            cut = os.path.join(folder, "cut")
            pathlib.Path(cut).write_bytes(whole[:len(whole) - 40])
            for expected, arguments in (
                    (64, ()), (64, ("nonsense",)), (64, ("top",)), (64, ("top", "--bad", "x")),
                    (64, ("top", "a", "b")), (64, ("where", "step1000.vramcore", "here")),
                    (64, ("top", "step1000.vramcore", "--by", "color")), (64, ("top", "x", "-n", "-3")),
                    (64, ("top", "x", "--fail-on", "growth>1MiB")), (64, ("diff", "step1000.vramcore")),
                    (64, ("export", "step1000.vramcore")), (64, ("info", "x", "--json=1")),
                    (2, ("info", "missing")), (2, ("info", "/")), (2, ("info", garbage)),
                    (2, ("oom", "step1000.vramcore")), (2, ("info", "/dev/zero")),
                    (1, ("info", cut)), (1, ("check", cut)), (2, ("check", garbage)),
                    (0, ("top", "step1000.vramcore")), (1, ("top", "mixed.vramcore"))):
                code, out, err = run(*arguments)
                self.assertEqual(code, expected, (arguments, out, err))
                if expected in (2, 64) and arguments[:1] != ("check",):
                    self.assertEqual(out, "")
                    self.assertTrue(err.startswith("vramcore: "), err)
                    self.assertLessEqual(len(err.splitlines()), 2)
                if expected == 1 and cut in arguments:
                    self.assertRegex(out, r"(?s)INCOMPLETE.*")

    def test_fail_on(self):
        files = ("diff", "step1000.vramcore", "step50000.vramcore")
        growth = 49000 * 51200
        self.assertEqual(run(*files, "--fail-on", "growth>1MiB")[0], 3)
        self.assertEqual(run(*files, "--fail-on", f"growth>{growth}")[0], 0)
        self.assertEqual(run(*files, "--fail-on", f"growth>{growth - 1}")[0], 3)
        self.assertEqual(run("diff", "step50000.vramcore", "step1000.vramcore", "--fail-on",
                             "growth>0")[0], 0)
        self.assertEqual(run("top", "step1000.vramcore", "--fail-on", "live>1GiB")[0], 0)
        self.assertEqual(run("info", "step1000.vramcore", "--fail-on", "reserved>63MiB")[0], 3)

    def test_errors_are_json(self):
        code, out, err = run("info", "missing", "--json")
        self.assertEqual((code, err), (2, ""))
        d = json.loads(out)
        self.assertEqual(d["schema"], "vramcore.error/1")
        self.assertEqual(d["error"]["path"], "missing")
        self.assertEqual(d["error"]["exit_status"], 2)
        d = json.loads(run("top", "--json", "--wrong")[1])
        self.assertEqual(d["error"]["exit_status"], 64)

    def test_color(self):
        plain = run("diff", "step1000.vramcore", "step50000.vramcore")[1]
        self.assertNotIn("\x1b", plain)
        always = ("diff", "step1000.vramcore", "step50000.vramcore", "--color", "always")
        colored = run(*always)[1]
        self.assertIn("\x1b[1m", colored)
        self.assertEqual(re.sub(r"\x1b\[[0-9;]*m", "", colored), plain)
        self.assertIn("\x1b", run(*always, env={"NO_COLOR": "1"})[1])  # said outright

    def test_color_on_terminal(self):
        import pty
        for environment, expected in (({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)):
            leader, follower = pty.openpty()
            env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | environment
            subprocess.run([VRAMCORE, "top", "step1000.vramcore"], stdout=follower, env=env, cwd=FOLDER,
                           check=True, timeout=60)
            os.close(follower)
            out = b""
            try:
                while chunk := os.read(leader, 65536):
                    out += chunk
            except OSError:
                pass
            os.close(leader)
            self.assertEqual(b"\x1b[" in out, expected, environment)

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([VRAMCORE, "top", "step1000.vramcore", "--json"], stdout=full,
                                  stderr=subprocess.PIPE, cwd=FOLDER, check=False)
        self.assertEqual(done.returncode, 2)

    def test_width(self):
        for width in (40, 60, 80, 100, 120):
            for arguments in (("top", "step50000.vramcore"), ("diff", "step1000.vramcore", "step50000.vramcore")):
                for line in run(*arguments, "--width", str(width))[1].splitlines():
                    if line.startswith("  "):
                        self.assertLessEqual(len(line), width)


class Damage(unittest.TestCase):
    """A damaged file gives the same report, or says that it is damaged and where; never other numbers."""

    def check(self, path, whole, what):
        for arguments, expected in whole.items():
            code, out, err = run(*arguments, path, "--json", "--no-symbols")
            self.assertIn(code, (0, 1, 2), (what, err))
            self.assertEqual(err, "")
            d = json.loads(out)
            if code == 0:
                self.strip(d)
                self.assertEqual(d, expected, what)
            elif code == 1:
                keys = {i["key"]: i["text"] for i in d["evidence"]["items"] if i["effect"] == "bytes"}
                self.assertIn("damaged", keys, what)
                self.assertRegex(keys["damaged"], r"^\S.* damaged at byte [\d,]+ \(")
            else:
                self.assertEqual(d["schema"], "vramcore.error/1")

    @staticmethod
    def strip(d):
        d["file"].pop("path")
        for item in d["evidence"]["items"]:
            item.pop("path")

    def test_cut_and_flipped(self):
        whole = {}
        for arguments in (("info",), ("top", "--by", "phase")):
            whole[arguments] = json.loads(run(*arguments, "step1000.vramcore", "--json", "--no-symbols")[1])
            self.strip(whole[arguments])
        data = pathlib.Path(FOLDER, "step1000.vramcore").read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "damaged.vramcore")
            for length in range(0, len(data), len(data) // 40):
                pathlib.Path(path).write_bytes(data[:length])
                self.check(path, whole, f"cut at {length}")
            for bit in range(3, len(data) * 8, len(data) * 8 // 80):
                flipped = bytearray(data)
                flipped[bit // 8] ^= 1 << bit % 8
                pathlib.Path(path).write_bytes(flipped)
                self.check(path, whole, f"bit {bit} flipped")


class Documents(unittest.TestCase):
    """Help and man page know every verb and option of the tables."""

    def test_help_and_man_page(self):
        source = pathlib.Path(SOURCE)
        page = (source / "docs/vramcore.1").read_text().replace("\\-", "-")
        verbs = re.findall(r"^VC(?:_OUTSIDE)?_VERB\((\w+),", (source / "analyze/verbs.def").read_text(), re.M)
        self.assertGreaterEqual(len(verbs), 12)
        code, general, _ = run("--help")
        self.assertEqual(code, 0)
        for verb in verbs:
            self.assertRegex(general, rf"(?m)^  {verb} ")
            self.assertRegex(page, rf"\b{verb}\b")
        options = re.findall(r'^VC_OPTION\(\w+, "([\w-]+)", (0|\'.\'), ("[^"]*"|NULL), (.*?), "',
                             (source / "analyze/options.def").read_text(), re.M)
        self.assertGreaterEqual(len(options), 17)
        for name, short, _, on in options:
            self.assertIn("--" + name, page)
            for verb in re.findall(r"^VC_VERB\((\w+),", (source / "analyze/verbs.def").read_text(), re.M):
                text = run(verb, "--help")[1]
                belongs = "VC_ON_ALL" in on or f"VC_ON({verb})" in on
                self.assertEqual(f"--{name}" in text.split("\n\n", 1)[1].split("\n\nExit")[0].replace(
                    "--fail-on is", ""), belongs, (verb, name))
        for name in re.findall(r'^VC_SETTING\(\w+, "\w+", "([\w-]+)"', (source / "formats/settings.def").read_text(),
                               re.M):
            self.assertIn("--" + name, page)

    def test_schemas_are_documented(self):
        source = pathlib.Path(SOURCE)
        text = (source / "docs/JSON.md").read_text()
        for path in (source / "analyze").glob("*.c"):
            for schema in re.findall(r'"(vramcore\.\w+/\d+)"', path.read_text()):
                self.assertIn(f"## {schema}\n", text)

    def test_fields_are_documented(self):
        text = (pathlib.Path(SOURCE) / "docs/JSON.md").read_text()
        missing = set()

        def walk(value):
            if isinstance(value, dict):
                for key, inner in value.items():
                    if f"`{key}`" not in text and key not in ("schema", "site"):
                        missing.add(key)
                    walk(inner)
            elif isinstance(value, list):
                for inner in value:
                    walk(inner)

        for arguments in (("info", "mixed.vramcore"), ("map", "mixed.vramcore"), ("top", "mixed.vramcore"), ("oom", "mixed.vramcore"),
                          ("where", "mixed.vramcore", hex(0x20000000 + 395 * MIB)), ("check", "mixed.vramcore"),
                          ("diff", "mixed.vramcore", "mixed.vramcore"),
                          ("diff", "step1000.vramcore", "step25000.vramcore", "step50000.vramcore")):
            d = json.loads(run(*arguments, "--json")[1], object_pairs_hook=once)
            d.pop("counts", None)
            walk(d)
        self.assertEqual(missing, set())

    def test_version(self):
        code, out, _ = run("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^vramcore \d+\.\d+\.\d+\n$")
        self.assertIn(out.strip(), (pathlib.Path(SOURCE) / "docs/vramcore.1").read_text())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        FOLDER = made
        subprocess.run([MAKE, made], check=True)
        unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
