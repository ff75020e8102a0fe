# SPDX-License-Identifier: Apache-2.0
"""run.py BIN [CHECK...]: `vramcore run` around programs of all sorts."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import common
from common import (ACTOR, BIN, COMMAND, blocks, call, environment, expect, files, left, process_of,
                    run, start, tables, wait_for)


def names(pattern="out/*"):
    """Names of files without host and process."""
    return sorted(re.sub(r"^[^.]*\.([^.]*)\.\d+\.", r"\1.", os.path.basename(path))
                  for path in files(pattern))


def quiet_line(text):
    """Standard error without the last line of `run`."""
    return "".join(line for line in text.splitlines(True) if not line.startswith("vramcore: "))


def steps():
    status, out, error = run(["--at-step", "2,5"], ["alloc", "a", "1M", "step", "1", "alloc", "b", "2M",
                             "step", "2", "free", "a", "step", "3", "alloc", "c", "3M", "step", "5"])
    expect((status, out), (0, ""), "status and output")
    expect(names(), ["-.step2.step.vramcore", "-.step5.step.vramcore"], "files")
    expect(blocks(files()[0]), [1 << 20, 2 << 20], "live at step 2")
    expect(blocks(files()[1]), [2 << 20, 3 << 20], "live at step 5")
    expect(error, "vramcore: 2 snapshots in out/, 1 of 1 process used the device and was recorded\n",
           "last line")
    expect(left(), [], "left of the recordings")
    expect(oct(os.stat(files()[0]).st_mode & 0o777), "0o600", "mode of a snapshot")


def statuses():
    for words, status in ((["exit", "7"], 7), (["alloc", "a", "1M", "exit", "255"], 255),
                          (["alloc", "a", "1M", "_exit", "3"], 3), (["alloc", "a", "1M"], 0)):
        expect(run([], words)[0], status, f"status of {words}")
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT):
        expect(run([], ["alloc", "a", "1M", "raise", str(int(number))])[0], -number,
               f"death by {number}")
    expect(names(), ["-.step0.killed.vramcore"] * 4, "files")
    status, out, error = call([COMMAND, "run", "--", "./no-such-program"])
    expect((status, out), (127, ""), "no such program")
    expect(error, "vramcore: cannot run ./no-such-program: No such file or directory\n", "and its message")
    with open("not-executable", "w"):
        pass
    expect(call([COMMAND, "run", "--", "./not-executable"])[0], 126, "not executable")
    expect(left(), [], "left of the recordings")
    status, out, error = call([COMMAND, "run", "--no-such-option", "--", ACTOR])
    expect(status, 64, "usage")
    status, out, error = run([], ["out", "hello"])
    expect((status, out), (0, "hello\n"), "a program without the device")
    expect(error.startswith("vramcore: nothing recorded"), True, "said so: " + error)


def same():
    """Nothing of the program changes: output, status, environment, descriptors, signals, children."""
    script = ("import os,signal,sys;"
              "print(sorted(os.listdir('/proc/self/fd')), [signal.getsignal(n) for n in (2,13,15,17)],"
              " signal.pthread_sigmask(signal.SIG_BLOCK, []), os.getcwd(), os.umask(0o22),"
              " os.getpgrp() == os.getppid(), sys.stdin.read());"
              "sys.stderr.write('error\\n'); sys.exit(5)")
    program = [sys.executable, "-c", script]
    env = environment()
    plain = call(program, env, input=b"some input")
    under = call([COMMAND, "run", "--", *program], env, input=b"some input")
    expect(under[:2], plain[:2], "status and output")
    expect(quiet_line(under[2]), plain[2], "standard error")
    words = ["out", "one", "err", "two", "environ", "alloc", "a", "1M", "environ", "out", "three",
             "exit", "4"]
    plain = call([ACTOR, *words], env)
    under = run([], words, env)
    expect(under[:2], plain[:2], "status and output of a recorded program")
    expect(quiet_line(under[2]), plain[2], "standard error of a recorded program")
    under = run(["--quiet"], words, env)
    expect(under, plain, "with --quiet all is the same")
    # streams that are closed stay closed
    for closed in ("<&-", "<&- >&-", "<&- >&- 2>&-"):
        found = []
        for number, before in enumerate(("", f"{COMMAND} run --quiet --at-exit --out out --")):
            status, out, error = call(["sh", "-c", f"{before} {ACTOR} descriptors fd{number} alloc a 1M exit 6 {closed}"])
            found.append((status, out, error, open(f"fd{number}").read()))
        expect(found[1], found[0], f"with {closed}")
        expect(len(files()), 1, "a snapshot")
        shutil.rmtree("out", ignore_errors=True)
    # the supervisor is no parent the program could wait for in vain, nor in its process group's way
    under = call([COMMAND, "run", "--", "sh", "-c", "sleep 0.05 & wait; echo $?"])
    expect(under[:2], (0, "0\n"), "children of a shell")


def end_of_pipe():
    """A reader gets the end of the pipe when the program ends, on any descriptor."""
    for number in (1, 7):
        reader, writer = os.pipe()

        def give():
            os.dup2(writer, number)
            if writer != number:
                os.close(writer)

        # converting takes a while: many moments of a large recording
        program = start([COMMAND, "run", "--quiet", "--every", "1steps", "--max-files", "100", "--out",
                         f"out{number}", "--", ACTOR, "work", "200K",
                         *[word for i in range(20) for word in ("step", str(i + 1))]],
                        preexec_fn=give, close_fds=False)
        os.close(writer)
        while os.read(reader, 4096):
            pass
        os.close(reader)
        running = program.poll() is None
        expect(running, True, f"the supervisor still converts when descriptor {number} ends")
        expect(program.wait(), 0, "status")
        expect(len(files(f"out{number}/*")), 20, "files")


def signals():
    for number, name in ((signal.SIGTERM, "TERM"), (signal.SIGINT, "INT"), (signal.SIGUSR1, "USR1"),
                         (signal.SIGUSR2, "USR2"), (signal.SIGHUP, "HUP")):
        out = "out-" + name
        program = start([COMMAND, "run", "--out", out, "--", ACTOR, "catch", str(int(number)), "alloc",
                         "a", "5M", "touch", "ready" + name, "wait", "go" + name, "exit", "9"],
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_for(lambda: os.path.exists("ready" + name), "the program to be ready")
        os.kill(program.pid, number)
        wait_for(lambda: files(out + "/*.vramcore"), "a snapshot after " + name)
        open("go" + name, "w").close()
        text, error = program.communicate(timeout=30)
        expect(text.decode(), f"got {name}\n", "the program got it, once")
        expect(program.returncode, 9, "status")
        expect(names(out + "/*"), ["-.step0.signal.vramcore"], "files after " + name)
        if files(out + "/*"):
            expect(blocks(files(out + "/*")[0]), [5 << 20], "live then")
    # one that dies of it
    for number in (signal.SIGTERM, signal.SIGUSR1):
        out = f"dead-{int(number)}"
        program = start([COMMAND, "run", "--out", out, "--", ACTOR, "alloc", "a", "6M", "touch", out + "-r",
                         "wait", "never"], stderr=subprocess.PIPE)
        wait_for(lambda: os.path.exists(out + "-r"), "the program to be ready")
        os.kill(program.pid, number)
        program.communicate(timeout=30)
        expect(program.returncode, -number, "death by the signal")
        expect(len(files(out + "/*")), 1, f"one snapshot: {names(out + '/*')}")
        if files(out + "/*"):
            expect(blocks(files(out + "/*")[0]), [6 << 20], "live at death")
    # one that ends well because of it
    program = start([COMMAND, "run", "--out", "well", "--", ACTOR, "obey", "15", "alloc", "a", "7M", "touch",
                     "well-r", "wait", "never"], stderr=subprocess.PIPE)
    wait_for(lambda: os.path.exists("well-r"), "the program to be ready")
    os.kill(program.pid, signal.SIGTERM)
    program.communicate(timeout=30)
    expect(program.returncode, 0, "status")
    expect(names("well/*"), ["-.step0.signal.vramcore"], "a snapshot of one that ends well")
    # the signal goes to the program, the snapshot is of its child
    program = start([COMMAND, "run", "--out", "child", "--", "sh", "-c", f"trap 'exit 0' TERM; {ACTOR} alloc "
                     "a 8M touch child-r wait child-go 2>/dev/null & wait"], stderr=subprocess.PIPE)
    wait_for(lambda: os.path.exists("child-r"), "the program to be ready")
    os.kill(program.pid, signal.SIGTERM)
    program.communicate(timeout=30)
    expect(program.returncode, 0, "status")
    expect(names("child/*"), ["-.step0.signal.vramcore"], "a snapshot of the child")
    open("child-go", "w").close()


def triggers():
    status, out, error = run(["--every", "2steps"], ["alloc", "a", "1M", *[word for i in range(6) for word in
                             ("step", str(i + 1))]])
    expect(names(), [f"-.step{i}.every.vramcore" for i in (2, 4, 6)], "every second step")
    shutil.rmtree("out")
    program = start([COMMAND, "run", "--quiet", "--out", "out", "--at-used", "50%", "--", ACTOR, "alloc", "a", "512M",
                     "sleep", "500", "alloc", "b", "700M", "wait", "go1", "free", "b", "sleep", "1000", "alloc", "c",
                     "900M", "wait", "go2"])
    for number in (1, 2):
        wait_for(lambda: len(files("out/*.vramcore")) == number, "a snapshot at 50 %")
        open(f"go{number}", "w").close()
    program.wait()
    expect(names(), ["-.step0.used.2.vramcore", "-.step0.used.vramcore"], "at 50 % used, twice")
    expect([blocks(path) for path in files()], [[512 << 20, 900 << 20], [512 << 20, 700 << 20]], "and live")
    shutil.rmtree("out", ignore_errors=True)
    run(["--at-exit"], ["alloc", "a", "1M", "step", "8", "alloc", "b", "2M", "exit", "1"])
    expect(names(), ["-.step8.exit.vramcore"], "at exit")
    expect(blocks(files()[0]), [1 << 20, 2 << 20], "and live")
    shutil.rmtree("out", ignore_errors=True)
    run(["--every", "1s"], ["alloc", "a", "1M", "sleep", "2500"])
    expect(len(files()) in (1, 2, 3), True, f"every second: {names()}")
    shutil.rmtree("out", ignore_errors=True)
    program = start([COMMAND, "run", "--out", "out", "--on-signal", "USR2", "--", ACTOR, "alloc", "a", "1M",
                     "touch", "pid", "wait", "go"], stderr=subprocess.PIPE)
    wait_for(lambda: os.path.exists("pid"), "the program to be ready")
    time.sleep(0.3)
    pid = int(subprocess.check_output(["pgrep", "-P", str(program.pid), "proof_actor"]))
    os.kill(pid, signal.SIGUSR2)  # to the program itself, as a batch system does
    wait_for(lambda: files("out/*.vramcore"), "a snapshot")
    open("go", "w").close()
    program.communicate()
    expect((program.returncode, names()), (0, ["-.step0.signal.vramcore"]), "on a signal")
    shutil.rmtree("out", ignore_errors=True)
    run(["--every", "1steps", "--max-files", "3"], ["alloc", "a", "1M", *[word for i in range(9) for word in
                                                   ("step", str(i + 1))]])
    expect(names(), [f"-.step{i}.every.vramcore" for i in (1, 2, 3)], "three files at most")
    shutil.rmtree("out", ignore_errors=True)
    words = ["alloc", "a", "1M", "step", "1", "fail", "2", "9G"]
    run(["--at-step", "1", "--ranks", "0,3"], words, environment(RANK="2", WORLD_SIZE="4"))
    expect(names(), ["2.step1.oom.vramcore"], "a rank that is not chosen: only OOM")
    run(["--at-step", "1", "--ranks", "0,3"], words, environment(SLURM_PROCID="3", RANK="1"))
    expect(names(), ["2.step1.oom.vramcore", "3.step1.oom.vramcore", "3.step1.step.vramcore"],
           "a rank that is chosen")
    # a folder below one that is not there, and the default
    call([COMMAND, "run", "--at-exit", "--out", "a/b/c", "--", ACTOR, "alloc", "a", "1M"])
    expect(names("a/b/c/*"), ["-.step0.exit.vramcore"], "a folder below others that are made")
    status, out, error = call([COMMAND, "run", "--at-exit", "--", ACTOR, "alloc", "a", "1M"])
    expect(len(files("vramcore-[0-9]*/*.vramcore")), 1, "the default folder")
    expect(re.sub(r"\d\d+", "N", error),
           "vramcore: 1 snapshot in vramcore-N/, 1 of 1 process used the device and was recorded\n", "said")


def together():
    """Eight processes, one step, one folder: eight whole files."""
    script = (f"for i in 1 2 3 4 5 6 7 8; do {ACTOR} alloc a ${{i}}M touch r$i wait go step 1 & done; "
              "while [ \"$(ls r? | wc -l)\" != 8 ]; do sleep 0.01; done; touch go; wait")
    status, out, error = call([COMMAND, "run", "--out", "out", "--at-step", "1", "--", "sh", "-c", script])
    expect((status, out), (0, ""), "status and output")
    expect(names(), ["-.step1.step.vramcore"] * 8, "files")
    expect(sorted(blocks(path)[0] >> 20 for path in files()), list(range(1, 9)), "what each shows")
    expect("8 of " in error, True, "last line: " + error)
    expect(left(), [], "left of the recordings")
    # and with one name for all of them: processes of one id, as in containers that share a folder
    for i in range(3):
        run(["--at-step", "1"], ["alloc", "a", "1M", "step", "1"])
    status, out, error = call([COMMAND, "check", *files()])
    expect(status, 0, "all whole: " + out + error)


def preload():
    """What LD_PRELOAD held stays, after the recorder; blanks in the path of the library are no matter."""
    neighbour = BIN + "/libcapture_plain_neighbour.so"
    status, out, error = call([COMMAND, "run", "--quiet", "--", "sh", "-c", "echo $LD_PRELOAD"],
                              environment(LD_PRELOAD=neighbour))
    expect((status, out.split("\n")[0]), (0, BIN + "/libvramcore.so:" + neighbour), "LD_PRELOAD")
    os.mkdir("a folder")
    for name in ("vramcore", "libvramcore.so"):
        shutil.copy(os.path.join(BIN, name), "a folder/" + name)
    own = os.path.abspath("a folder/vramcore")
    status, out, error = call([own, "run", "--out", "my out", "--at-exit", "--", ACTOR, "alloc", "a", "1M",
                               "out", "x"], environment(LD_PRELOAD=neighbour))
    expect((status, out), (0, "neighbour saw it\nx\n"), "from a folder with a blank: " + error)
    expect(names("my out/*"), ["-.step0.exit.vramcore"], "files")
    expect(left(), [], "left of the recordings")
    # the variables that do the same without `run`
    for command in (COMMAND, own, own):
        shutil.rmtree("outp", ignore_errors=True)
        status, text, error = call([command, "run", "--print-env", "--out", os.getcwd() + "/outp", "--at-step",
                                    "3", "--at-exit"], environment(VRAMCORE_DIR=None))
        expect(status, 0, "print-env: " + error)
        with open("env.sh", "w") as file:
            file.write(text)
        status, out, error = call(["sh", "-c", f". ./env.sh; exec {ACTOR} alloc a 1M step 3 out y"])
        expect((status, out, error), (0, "y\n", ""), "with the variables")
        expect(names("outp/*"), ["-.step3.exit.vrec", "-.step3.step.vrec"], "files")
        if len(files("outp/*")) == 2:
            expect(blocks(files("outp/*")[1]), [1 << 20], "live at step 3")
    # nothing but assignments a shell takes
    expect([line for line in text.splitlines() if not re.match(r"export [A-Z0-9_]+='.*'$", line)], [],
           "lines of --print-env")


def environment_table():
    env = environment(NCCL_API_KEY="hidden1", CUDA_AUTH_TOKEN="hidden2", NCCL_DEBUG="INFO",
                      PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True", HOME_PASSWORD="hidden3",
                      SLURM_JOB_ID="77", CUDA_SECRET_PATH="hidden4")
    run(["--at-exit"], ["alloc", "a", "1M"], env)
    stored = {row["name"]: row["value"] for row in tables(files()[0])["environment"]}
    expect({name: stored.get(name) for name in ("NCCL_API_KEY", "CUDA_AUTH_TOKEN", "NCCL_DEBUG",
            "PYTORCH_CUDA_ALLOC_CONF", "HOME_PASSWORD", "SLURM_JOB_ID", "CUDA_SECRET_PATH")},
           {"NCCL_API_KEY": "***", "CUDA_AUTH_TOKEN": "***", "NCCL_DEBUG": "INFO",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "HOME_PASSWORD": None,
            "SLURM_JOB_ID": "77", "CUDA_SECRET_PATH": "***"}, "environment")
    with open(files()[0], "rb") as file:
        content = file.read()
    expect([i for i in range(1, 5) if b"hidden%d" % i in content], [], "secrets in the file")


def keeping():
    run(["--keep", "--at-exit"], ["alloc", "a", "1M"])
    kept = files("rec/*/*.vrec")
    expect(len(kept), 1, f"a recording kept: {left()}")
    if kept:
        expect(blocks(kept[0]), [1 << 20], "what it shows")
    status, out, error = call([COMMAND, "ps", "--dir", "rec"])
    expect(("dead" in out, status), (True, 0), "ps lists it: " + out)
    program = start([COMMAND, "run", "--out", "out2", "--", ACTOR, "alloc", "a", "3M", "touch", "r", "wait",
                     "go"], stderr=subprocess.PIPE)
    wait_for(lambda: os.path.exists("r"), "the program to be ready")
    status, out, error = call([COMMAND, "ps", "--dir", "rec"])
    expect(sorted(re.findall("running|dead|stopped", out)), ["dead", "running"], "ps: " + out)
    status, out, error = call([COMMAND, "ps", "--dir", "rec", "--json"])
    common.json.loads(out)
    status, out, error = call([COMMAND, "clean", "--dir", "rec", "--dry-run"])
    expect((len(files("rec/*/*.vrec")), status), (2, 0), "a dry run removes nothing: " + out)
    status, out, error = call([COMMAND, "clean", "--dir", "rec"])
    expect((len(files("rec/*/*.vrec")), status), (1, 0), "clean leaves the one in use: " + out)
    open("go", "w").close()
    program.communicate()
    expect(left(), [], "left of the recordings")
    # a supervisor that is killed leaves a folder and a program that goes on
    program = start([COMMAND, "run", "--out", "out3", "--", ACTOR, "alloc", "a", "3M", "touch", "r3", "wait",
                     "go3", "alloc", "b", "4M", "touch", "d3"], stderr=subprocess.DEVNULL)
    wait_for(lambda: os.path.exists("r3"), "the program to be ready")
    program.kill()
    program.wait()
    call([COMMAND, "clean", "--dir", "rec"])
    expect(len(files("rec/*/*.vrec")), 1, "clean leaves the recording of the orphan")
    open("go3", "w").close()
    wait_for(lambda: os.path.exists("d3"), "the program to go on")
    wait_for(lambda: not re.search("running", call([COMMAND, "ps", "--dir", "rec"])[1]), "its end")
    call([COMMAND, "clean", "--dir", "rec"])
    expect(left(), [], "left after clean")


def long_folder():
    """A folder whose name is too long for the address of a socket."""
    place = "rec/" + "x" * 90
    os.mkdir(place)
    status, out, error = run(["--dir", place, "--at-step", "1"], ["alloc", "a", "1M", "step", "1"])
    expect((status, names()), (0, ["-.step1.step.vramcore"]), "files: " + error)
    expect(os.listdir(place), [], "left")


def container():
    """A program whose process numbers are of another namespace."""
    inside = ["unshare", "--pid", "--fork", "--kill-child"]
    if call([*inside, "true"])[0]:
        print("container: SKIPPED: no namespace of process numbers can be made")
        return
    status, out, error = call([COMMAND, "run", "--out", "out", "--at-exit", "--at-step", "1", "--", *inside, ACTOR,
                               "alloc", "a", "1M", "step", "1", "sleep", "1200", "alloc", "b", "2M", "exit", "7"])
    expect((status, names()), (7, ["-.step1.exit.vramcore", "-.step1.step.vramcore"]), "files: " + error)
    if len(files()) == 2:
        expect([blocks(path) for path in files()], [[1 << 20, 2 << 20], [1 << 20]], "what they show")
    expect(left(), [], "left")
    program = start([*inside, ACTOR, "alloc", "a", "3M", "touch", "r", "wait", "go"], common.preloaded())
    wait_for(lambda: os.path.exists("r"), "the program to be ready")
    expect("running" in call([COMMAND, "ps", "--dir", "rec"])[1], True, "ps")
    pid = subprocess.check_output(["pgrep", "-P", str(program.pid)]).split()[0].decode()
    status, out, error = call([COMMAND, "snapshot", pid, "-o", "s"])
    expect((status, blocks("s") if status == 0 else 0), (0, [3 << 20]), "snapshot by the number outside: " + error)
    open("go", "w").close()
    program.wait()


def memfd():
    """A recording that has no name: nothing can be made in the folder, or --in-core."""
    status, out, error = run(["--in-core", "--at-step", "1"], ["alloc", "a", "1M", "step", "1", "alloc", "b",
                                                              "2M", "sleep", "300", "raise", "9"])
    expect((status, names()), (-9, ["-.step1.killed.vramcore", "-.step1.step.vramcore"]), "files: " + error)
    if len(files()) == 2:
        expect([blocks(path) for path in files()], [[1 << 20, 2 << 20], [1 << 20]], "what they show")


CHECKS = {check.__name__: check for check in (
    steps, statuses, same, end_of_pipe, signals, triggers, together, preload, environment_table, keeping,
    long_folder, container, memfd)}

if __name__ == "__main__":
    common.main(CHECKS)
