#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The verbs that find recordings: doctor, ps, clean, snapshot, as a person and as a script sees them.

usage: test_outside.py BINARY_FOLDER [unittest options]
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from common import stop

BIN = pathlib.Path(sys.argv[1]).resolve()
VRAMCORE = BIN / "vramcore"
MIB = 1 << 20


class Outside(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="vramcore-outside-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.recordings = self.folder / "recordings"
        self.recordings.mkdir()
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}
        self.environment |= {"VRAMCORE_DIR": str(self.recordings), "LD_LIBRARY_PATH": str(BIN / "simcuda")}

    def vramcore(self, *arguments, status=0):
        done = subprocess.run([VRAMCORE, *arguments], env=self.environment, cwd=self.folder, text=True,
                              capture_output=True, timeout=60, check=False)
        if status is not None:
            self.assertEqual(done.returncode, status, (arguments, done.stdout[-2000:], done.stderr[-2000:]))
        return done.stdout, done.stderr

    def verdicts(self, *arguments, status):
        out, _ = self.vramcore("doctor", "--json", "--", *arguments, status=status)
        report = json.loads(out)
        self.assertEqual(report["schema"], "vramcore.doctor/1")
        return {finding["what"]: finding["verdict"] for finding in report["findings"]}

    def test_doctor_good_program(self):
        found = self.verdicts(shutil.which("sleep"), status=0)
        self.assertEqual(found["dynamically linked program"], "ok")
        self.assertEqual(found["driver"], "ok")
        self.assertEqual(found["recorder"], "ok")

    def test_doctor_static_program(self):
        source, program = self.folder / "static.c", self.folder / "static"
        source.write_text("int main(void) { return 0; }\n")
        subprocess.run(["gcc", "-static", "-o", program, source], check=True)
        self.assertEqual(self.verdicts(program, status=1)["statically linked"], "PROBLEM")

    def trial(self, *arguments, status=0):
        """Findings of a trial run: verdict and detail by what was found."""
        self.environment["SIMCUDA_MAP"] = str(self.folder / "map")
        self.environment["SIMCUDA_DEVICES"] = "2"
        out, _ = self.vramcore("doctor", "--json", *arguments, status=status)
        report = json.loads(out)
        self.assertEqual(report["problems"], sum(f["verdict"] == "PROBLEM" for f in report["findings"]))
        return {finding["what"]: (finding["verdict"], finding["detail"]) for finding in report["findings"]}

    def test_doctor_probe(self):
        found = self.trial("--run")
        self.assertEqual(found["cuInit"], ("ok", "0 (success)"))
        self.assertEqual(found["driver in use"], ("ok", str(BIN / "simcuda/libcuda.so.1")))
        self.assertEqual(found["recording"][0], "ok")
        self.assertEqual(found["agent"], ("ok", "started"))
        self.assertIn("6 by dlsym, 0 of 0 by cuGetProcAddress", found["functions handed out recorded"][1])
        self.environment["SIMCUDA_FAIL"] = "cuInit:1=100"
        found = self.trial("--run", status=1)
        self.assertEqual(found["cuInit"], ("PROBLEM", "100 (the driver finds no device)"))
        self.assertEqual(found["recording"][0], "note")
        self.environment["LD_LIBRARY_PATH"] = ""
        if "libcuda" not in subprocess.run(["/sbin/ldconfig", "-p"], text=True, capture_output=True,
                                           check=False).stdout:
            found = self.trial("--run")
            self.assertEqual(found["driver"], ("note", "the process never reached for one"))

    def test_doctor_run(self):
        found = self.trial("--run", "--", BIN / "capture_rows", "gpa2")
        handed_out = re.match(r"(\d+) by dlsym, (\d+) of (\d+) by cuGetProcAddress",
                              found["functions handed out recorded"][1])
        self.assertTrue(handed_out, found)
        named, translated, asked = map(int, handed_out.groups())
        self.assertGreater(named, 0)
        self.assertGreater(translated, 70)
        # the rest is listed, each name once
        rest = found["functions handed out that are not recorded"][1]
        self.assertEqual(asked - translated, int(rest.split(":")[0]))
        self.assertIn("cuCtxGetCurrent", rest)
        self.assertNotIn("cuMemAlloc", rest)
        self.assertEqual(found["the program ran"], ("note", "exit status 0"))

    def test_doctor_past_the_recorder(self):
        library = BIN / "libcapture_rows_library.so"
        for how, what in (("deep", "calls the driver past the recorder"),
                          ("namespace", "driver in a namespace of its own")):
            program = ["--", BIN / "capture_host_of_library", how, library, "plt"]
            verdict, detail = self.trial("--run", *program, status=1)[what]
            self.assertEqual(verdict, "PROBLEM")
            self.assertEqual(detail, str(library if how == "deep" else BIN / "simcuda/libcuda.so.1"))
            found = self.trial("--audit", *program)
            self.assertEqual(found["the program ran"], ("note", "exit status 0"))
            self.assertEqual(found.get(what, ("ok",))[0], "ok")
            self.assertEqual(found["recording"][0], "ok")

    def test_run_audit(self):
        """What LD_AUDIT holds is kept; a program that a library runs past the recorder is recorded."""
        program = [BIN / "capture_host_of_library", "deep", BIN / "libcapture_rows_library.so", "plt"]
        self.environment |= {"SIMCUDA_MAP": str(self.folder / "map"), "SIMCUDA_DEVICES": "2"}
        _, error = self.vramcore("run", "--audit", "--at-exit", "--out", self.folder / "out", "--", *program,
                                 status=None)
        self.assertRegex(error, r"\d+ snapshots? in")
        _, error = self.vramcore("run", "--at-exit", "--out", self.folder / "out2", "--", *program, status=None)
        self.assertIn("nothing recorded", error)
        self.environment["LD_AUDIT"] = "/nowhere/audit.so"
        out, _ = self.vramcore("run", "--audit", "--print-env")
        self.assertIn(f"export LD_AUDIT='{BIN}/libvramcore-audit.so:/nowhere/audit.so'", out)
        out, _ = self.vramcore("run", "--print-env", "--", "true")
        self.assertNotIn("LD_AUDIT", out)

    def test_run_sanitizer(self):
        self.environment |= {"SIMCUDA_MAP": str(self.folder / "map"), "SIMCUDA_DEVICES": "2",
                             "ASAN_OPTIONS": "detect_leaks=0"}
        _, error = self.vramcore("run", "--at-exit", "--out", self.folder / "out", "--", BIN / "capture_rows_asan",
                                 "dlsym", status=0)
        self.assertRegex(error, r"\d+ snapshots? in")
        self.assertNotIn("ASan runtime", error)
        out, _ = self.vramcore("run", "--print-env", "--", "true")
        self.assertNotIn("ASAN_OPTIONS", out)

    def test_doctor_script_and_missing(self):
        script = self.folder / "script"
        script.write_text("#!/bin/sh\ntrue\n")
        script.chmod(0o755)
        self.assertEqual(self.verdicts(script, status=0)["script, run by"], "note")
        self.assertEqual(self.verdicts(self.folder / "none", status=1)["program"], "PROBLEM")

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a program of another user")
    def test_doctor_set_user_id(self):
        program = self.folder / "suid"
        shutil.copy(shutil.which("sleep"), program)
        os.chown(program, 65534, -1)
        program.chmod(0o4755)
        self.assertEqual(self.verdicts(program, status=1)["set-user-id or set-group-id program"], "PROBLEM")

    def start(self):
        """A recorded program that goes on until it is told to end, after its step 50."""
        environment = self.environment | {"LD_PRELOAD": str(BIN / "libvramcore.so")}
        # a pipe that nobody reads holds it at its last line
        program = subprocess.Popen([BIN / "train", "--steps", "2000000000", "--leak", "none"],
                                   env=environment, stdout=subprocess.PIPE, cwd=self.folder)
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        for _ in range(600):
            out, _ = self.vramcore("ps", "--json", "--dir", self.recordings)
            found = [p for p in json.loads(out)["processes"] if p["pid"] == program.pid]
            if found and found[0].get("step", 0) > 50:
                return program, found[0]
            time.sleep(0.05)
        self.fail("the program is not listed")

    def test_ps_snapshot_clean(self):
        program, listed = self.start()
        self.assertEqual(listed["state"], "running")
        self.assertIn("train --steps", listed["program"])
        self.assertGreaterEqual(listed["devices"][0]["live"], 4 * 12 * 40 * MIB)
        out, _ = self.vramcore("ps", "--dir", self.recordings)
        self.assertIn("running", out)
        out, _ = self.vramcore("snapshot", "--json", str(program.pid))
        report = json.loads(out)
        self.assertEqual(report["schema"], "vramcore.snapshot/1")
        self.assertEqual(report["faults"], 0)
        self.assertEqual(os.stat(self.folder / report["path"]).st_size, report["bytes"])
        out, _ = self.vramcore("clean", "--json", "--dir", self.recordings)
        self.assertEqual(json.loads(out)["recordings"], [])

        stop(program.pid)
        self.vramcore("snapshot", str(program.pid), "-o", "stopped.vramcore")
        self.vramcore("snapshot", str(program.pid), "-o", "stopped2.vramcore")
        _, err = self.vramcore("snapshot", str(program.pid), "-o", "stopped.vramcore", status=2)
        self.assertIn("stopped.vramcore", err)
        program.kill()
        program.wait()
        self.vramcore("snapshot", str(program.pid), "-o", "dead.vramcore")
        self.vramcore("snapshot", listed["recording"], "-o", "file.vramcore")
        tables = [self.tables(name + ".vramcore") for name in ("stopped", "stopped2", "dead", "file")]
        for other in tables[1:]:
            for table, rows in tables[0].items():
                self.assertTrue(rows == other[table], table)
        self.assertGreater(len(tables[0]["allocations"]), 48)

        out, _ = self.vramcore("ps", "--dir", self.recordings)
        self.assertIn("dead", out)
        out, _ = self.vramcore("clean", "--dry-run", "--dir", self.recordings)
        self.assertIn("1 recording would be removed", out)
        self.assertTrue(pathlib.Path(listed["recording"]).exists())
        out, _ = self.vramcore("clean", "--dir", self.recordings)
        self.assertIn("1 recording removed", out)
        self.assertFalse(pathlib.Path(listed["recording"]).exists())
        _, err = self.vramcore("snapshot", str(program.pid), status=2)
        self.assertIn("no such process", err)

    def tables(self, name, runs_on=False):
        """Everything but what says when and in which state it was read.

        A program that runs on while its snapshot is made may free faster than that is read: the file says
        how many frees it lacks, and so does the exit status."""
        done = subprocess.run([VRAMCORE, "export", "--to", "json", name], env=self.environment, cwd=self.folder,
                              text=True, capture_output=True, timeout=60, check=False)
        report = json.loads(done.stdout)
        lacking = {item["key"] for item in report["evidence"]["items"] if item["effect"] == "bytes"}
        self.assertLessEqual(lacking, {"deaths_missing"} if runs_on else set())
        self.assertEqual(done.returncode, 1 if lacking else 0, done.stderr)
        tables = report["tables"]
        del tables["strings"]  # shown where they are referred to
        for row in tables["process"]:
            for column in ("state", "snapshot_time"):
                del row[column]
        return tables

    def test_snapshot_all(self):
        _, err = self.vramcore("snapshot", "--dir", self.recordings, "--all", status=2)
        self.assertIn("no process of yours is being recorded here", err)
        programs = [self.start()[0] for _ in range(2)]
        stop(programs[1].pid)
        gone, _ = self.start()
        gone.kill()
        gone.wait()
        out, _ = self.vramcore("snapshot", "--dir", self.recordings, "--all")
        pids = sorted(self.tables(name, runs_on=True)["process"][0]["pid"] for name in out.split())
        self.assertEqual(pids, sorted(program.pid for program in programs))
        _, err = self.vramcore("snapshot", "--dir", self.recordings, "--all", "1", status=64)
        self.assertIn("--all goes without a process", err)

    def test_asked(self):
        """A program that is asked answers with a moment, of which nobody else makes a file."""
        self.environment["VRAMCORE_OUT"] = str(self.folder / "out")
        program, _ = self.start()
        for name in ("first.vramcore", "second.vramcore"):
            self.vramcore("snapshot", "--tensors", str(program.pid), "-o", name)
            self.assertEqual(self.tables(name, runs_on=True)["process"][0]["trigger"], "asked")
        moments = self.tables("second.vramcore", runs_on=True)["moments"]
        self.assertEqual([moment["trigger"] for moment in moments], ["asked", "asked"])
        time.sleep(0.5)
        self.assertFalse((self.folder / "out").exists())
        stop(program.pid)
        _, err = self.vramcore("snapshot", "--tensors", str(program.pid), "-o", "third.vramcore", status=1)
        self.assertIn("did not answer", err)
        self.assertEqual(self.tables("third.vramcore")["process"][0]["trigger"], "request")
        _, err = self.vramcore("snapshot", "--tensors", "first.vramcore", status=64)
        self.assertIn("--tensors asks a process", err)

    def test_signals_to_the_whole_job(self):
        """Snapshots that are being written while everybody of the job is sent a signal are written."""
        script = """if True:
            import ctypes, signal, time
            signal.signal(signal.SIGQUIT, signal.SIG_IGN)
            driver, recorder = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
            made, context = ctypes.c_uint64(), ctypes.c_void_p()
            assert driver.cuInit(0) == driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
            assert driver.cuCtxSetCurrent(context) == 0
            for _ in range(5000):
                assert driver.cuMemAlloc_v2(ctypes.byref(made), ctypes.c_size_t(4096)) == 0
            print("ready", flush=True)
            for _ in range(8):
                recorder.vramcore_v1_snapshot()
                time.sleep(0.05)
        """
        out = self.folder / "out"
        job = subprocess.Popen([VRAMCORE, "run", "--out", out, "--", sys.executable, "-c", script],
                               env=self.environment, start_new_session=True, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(job.kill)
        self.assertEqual(job.stdout.readline(), "ready\n")
        while job.poll() is None:
            os.killpg(job.pid, signal.SIGQUIT)
            time.sleep(0.002)
        self.assertEqual((job.returncode, job.communicate()[1].replace(str(out), "OUT")), (
            0, "vramcore: 8 snapshots in OUT/, 1 of 1 process used the device and was recorded\n"))
        self.assertEqual(len(list(out.glob("*.vramcore"))), len(list(out.iterdir())))

    def test_longest_step(self):
        program, _ = self.start()
        stop(program.pid)
        time.sleep(1.5)
        os.kill(program.pid, signal.SIGCONT)
        deadline = time.time() + 30
        longest = 0
        while longest < 1.4e9 and time.time() < deadline:
            time.sleep(0.05)
            out, _ = self.vramcore("ps", "--json", "--dir", self.recordings)
            longest = json.loads(out)["processes"][0].get("longest_step", 0)
        self.assertGreater(longest, 1.4e9)
        self.assertNotIn("hung", json.loads(out)["processes"][0])

    def test_container(self):
        """A process with a root and process numbers of its own is found by its number here."""
        if os.geteuid() != 0:
            self.skipTest("needs root to make a namespace")
        root = "mount -t tmpfs none /dev/shm && exec %s run --quiet --dir /dev/shm -- %s --steps 1000000" % (
            VRAMCORE, BIN / "train")
        self.environment.pop("VRAMCORE_DIR")
        outer = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", root],
                                 env=self.environment, cwd=self.folder)
        self.addCleanup(outer.wait)
        self.addCleanup(outer.kill)
        deadline = time.time() + 30
        while True:
            found = [path.parent.name for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                     if self.command(path)[:3] == [str(BIN / "train"), "--steps", "1000000"]]
            if found and subprocess.run([VRAMCORE, "snapshot", found[0], "-o", "inner.vramcore"], cwd=self.folder,
                                        env=self.environment, capture_output=True, check=False).returncode == 0:
                break
            self.assertLess(time.time(), deadline, "the process in the container was not found")
            time.sleep(0.2)
        process = self.tables("inner.vramcore", runs_on=True)["process"][0]
        self.assertNotEqual(process["pid"], int(found[0]))
        self.assertGreater(len(self.tables("inner.vramcore", runs_on=True)["allocations"]), 0)

    @staticmethod
    def command(path):
        try:
            return path.read_text().split("\0")
        except OSError:
            return []

    def test_settings_are_checked(self):
        good = {"at-step": ["0", "1000,50000"], "every": ["5steps", "90s", "10m", "2h"], "at-used": ["90%", "70GiB"],
                "on-signal": ["USR2", "SIGUSR1", "10"], "when": ["after-step", "before-backward", "peak"], "budget": ["256MiB", "1048576"],
                "max-bytes": ["2GiB"], "max-files": ["3"], "ranks": ["all", "0,3"]}
        bad = {"at-step": ["", "a", "1,", "1;2", "99999999999999999999"], "every": ["5", "steps", "0m", "1day"],
               "at-used": ["0%", "101%", "90 %", "much"], "on-signal": ["KIND", "0", "65"], "when": ["PEAK", "never"],
               "budget": ["big", "1Mib", "-1"], "max-bytes": ["x"], "max-files": ["many"], "ranks": ["some", "0,,1"]}
        for option, values in good.items():
            for value in values:
                self.vramcore("run", "--quiet", "--%s=%s" % (option, value), "--", "true")
        for option, values in bad.items():
            for value in values:
                out, err = self.vramcore("run", "--%s=%s" % (option, value), "--", "echo", "ran", status=64)
                self.assertEqual(out, "")
                self.assertIn("--%s takes " % option, err)

    def test_not_recorded(self):
        program = subprocess.Popen(["sleep", "60"])
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        _, err = self.vramcore("snapshot", str(program.pid), status=2)
        self.assertIn("is not recorded", err)
        self.assertIn("no library of CUDA or of a framework is mapped", err)
        self.assertRegex(err, r"threads: 0 running, 1 waiting, 0 in an uninterruptible wait, 0 stopped")
        if os.geteuid() == 0 and shutil.which("setpriv"):
            done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", VRAMCORE, "snapshot", str(program.pid)],
                                  env=self.environment, text=True, capture_output=True, timeout=60, check=False)
            self.assertIn("its files cannot be reached from here", done.stderr)
            self.assertNotIn("its files cannot be reached from here", err)
        _, err = self.vramcore("snapshot", status=64)
        self.assertIn("no process and no recording given", err)
        (self.folder / "text").write_text("not a recording\n" * 5000)
        _, err = self.vramcore("snapshot", "text", status=2)
        self.assertRegex(err, r"^vramcore: text: .*recording")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
