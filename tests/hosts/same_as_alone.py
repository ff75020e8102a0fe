# SPDX-License-Identifier: Apache-2.0
"""same_as_alone.py BIN GROUP [NAME...]: programs say the same with the recorder as without it.

Each command runs alone, with libvramcore.so preloaded and under `vramcore run`: standard output,
standard error and the exit status must be the same bytes. What the recorder could not do under a
limit must stand in the recording, which is read with `vramcore export`. VRAMCORE_FULL=1: all ways
of each, and longer; else what takes long is done in one way only. Exit status 77: all was skipped.
"""
import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

BIN = os.path.abspath(sys.argv[1])
GROUP = sys.argv[2]
ONLY = sys.argv[3:]
FULL = os.environ.get("VRAMCORE_FULL") == "1"
ROOT = os.geteuid() == 0
LIBRARY = BIN + "/libvramcore.so"
DONE = {"ran": 0, "failed": 0, "skipped": 0}
BASE = tempfile.mkdtemp(prefix="hosts-")
os.chmod(BASE, 0o755)


def say(text):
    print(text, flush=True)


def failed(name, text):
    DONE["failed"] += 1
    say(f"FAILED {name}: {text}")


def skipped(name, why):
    DONE["skipped"] += 1
    say(f"SKIPPED {name}: {why}")


def wanted(name):
    return not ONLY or name in ONLY


def environment(extra):
    result = {key: value for key, value in os.environ.items()
              if not key.startswith(("VRAMCORE_", "LD_", "NVTX_", "SIMCUDA_", "TEST_"))}
    result.update({
        "LD_LIBRARY_PATH": BIN + "/simcuda",
        "SIMCUDA_MAP": BASE + "/map",
        "TEST_FOLDER": BASE,
        "TEST_DRIVER_PATH": BIN + "/simcuda/libcuda.so.1",
        "TEST_PLUGIN": BIN + "/libhost_plugin.so",
        "TEST_COUNTS": BASE + "/counts",
        "LC_ALL": "C",
    })
    if FULL:
        result["VRAMCORE_FULL"] = "1"
    result.update(extra)
    return {key: value for key, value in result.items() if value is not None}


class Outcome:
    def __init__(self, status, out, error, recordings):
        self.status, self.out, self.error, self.recordings = status, out, error, recordings

    def visible(self):
        return (self.status, self.out, self.error)


def run(way, command, extra=None, directory=None, prefix=(), beside=(), timeout=20):
    """Runs a command in one way; recordings are those it left."""
    extra = dict(extra or {})
    base = directory or BASE + "/recordings"
    if not directory:
        shutil.rmtree(base, ignore_errors=True)
        os.makedirs(base, mode=0o777, exist_ok=True)
        os.chmod(base, 0o777)
    shutil.rmtree(BASE + "/out", ignore_errors=True)
    if os.path.exists(BASE + "/map"):
        os.unlink(BASE + "/map")
    preload = list(beside)
    settings = environment(extra)
    line = list(command)
    if way in ("preload", "preload last"):
        settings["VRAMCORE_DIR"] = base
        settings["VRAMCORE_OUT"] = BASE + "/out"
        preload.insert(0 if way == "preload" else len(preload), LIBRARY)
    elif way == "run":
        line = [BIN + "/vramcore", "run", "--quiet", "--keep", "--dir", base, "--out",
                BASE + "/out", "--"] + line
    if preload:
        settings["LD_PRELOAD"] = ":".join(preload)
    process = subprocess.Popen(list(prefix) + line, env=settings, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=BASE,
                               start_new_session=True)
    try:
        out, error = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, error = process.communicate()
        status = "hung"
    recordings = [os.path.join(folder, name) for folder, _, names in os.walk(base)
                  for name in names if name.endswith(".vrec")]
    return Outcome(status, out, error, recordings)


def difference(first, second):
    lines = []
    for what, a, b in (("standard output", first.out, second.out),
                       ("standard error", first.error, second.error)):
        if a == b:
            continue
        a, b = a.decode(errors="replace").split("\n"), b.decode(errors="replace").split("\n")
        lines.append(what + ":")
        lines += ["  - " + text for text in a if text not in b][:15]
        lines += ["  + " + text for text in b if text not in a][:15]
    if first.status != second.status:
        lines.append(f"status {first.status} and {second.status}")
    return "\n".join(lines) or "order of lines"


def same(name, command, extra=None, ways=("preload", "run"), status=0, check=None, recorded=True,
         **more):
    """The command does the same in all ways; returns the outcomes by way."""
    if not wanted(name):
        return {}
    DONE["ran"] += 1
    alone = run("alone", command, extra, **more)
    if status is not None and alone.status != status:
        failed(name, f"alone: status {alone.status}\n{alone.out.decode()}{alone.error.decode()}")
    outcomes = {"alone": alone}
    for way in ways:
        outcome = outcomes[way] = run(way, command, extra, **more)
        if outcome.visible() != alone.visible():
            failed(name, f"{way}:\n{difference(alone, outcome)}")
        if way.startswith("preload") and recorded and not outcome.recordings:
            failed(name, "nothing was recorded")
        if way.startswith("preload") and check and outcome.recordings:
            check(name, outcome.recordings)
    return outcomes


def table(path):
    """Tables of a recording."""
    out = subprocess.run([BIN + "/vramcore", "export", "--to", "json", path],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return json.loads(out.stdout)["tables"]


def counters(tables):
    return {row["key"]: row["value"] for row in tables["evidence"]}


def totals(tables):
    """Of linear memory over all sites: allocated, freed, live bytes."""
    sites = tables["sites"]
    linear = [site for site in sites if site["kind"] in ("linear", 1, None)]
    return (sum(site["allocated_count"] for site in linear),
            sum(site["freed_count"] for site in linear),
            sum(site["allocated_bytes"] - site["freed_bytes"] for site in linear))


def says(*more, before=0, lossless=False, whole=True, most_lost=None):
    """
    A check: totals of the limit cases (30,000 blocks of 512 bytes, all freed, then 1,000 kept;
    after `before` others) and what the evidence has to say.
    """
    def check(name, recordings):
        tables = table(recordings[0])
        found = counters(tables)
        if whole and totals(tables) != (31000 + before, 30000 + before, 512000):
            failed(name, f"totals {totals(tables)}; {found}")
        for key in more:
            if not found.get(key):
                failed(name, f"the evidence does not say {key}: {found}")
        if lossless and (found.get("records_lost") or found.get("growth_failed")):
            failed(name, f"lost: {found}")
        if most_lost is not None and found.get("records_lost", 0) > most_lost:
            failed(name, f"lost: {found}")
        say(f"  {name}: {found}")
    return check


def host(case, linked=False):
    return [BIN + ("/host_linked" if linked else "/host_found"), case]


def both(name, **more):
    """A case of both programs, the second one only with preload."""
    same(name, host(name), **more)
    more["ways"] = ("preload", "run") if FULL else ("preload",)
    same(name, host(name, linked=True), **more)


def no_moments(name, recordings):
    if table(recordings[0])["moments"]:
        failed(name, "the program's signal was taken for a trigger")


def some_moments(name, recordings):
    if not table(recordings[0])["moments"]:
        failed(name, "no trigger fired")


def signals():
    for name in ("storm", "storm-alternate", "jumps-away", "jumps-alternate", "storm-through"):
        same(name, host(name), ways=("preload", "run") if FULL else ("preload",))
    for name in ("own-handlers", "ignores", "blocks-all", "waits-for-signal"):
        both(name)
    # A signal is taken for a trigger only where it would have its default effect.
    for name in ("own-handlers", "ignores"):
        same(name + ", a trigger", host(name), {"VRAMCORE_ON_SIGNAL": "USR1"}, check=no_moments)
    same("fault-handler", host("fault-handler"), status=11)
    same("fault", host("fault"), status=-11)
    same("stack-overflow", host("stack-overflow"), status=11)


def processes():
    for name in ("state", "loader", "closes", "wait-loop", "child-handler", "main-leaves",
                 "main-leaves-alone", "main-leaves-first", "daemonise"):
        both(name)
    triggers = {"VRAMCORE_EVERY": "1s", "VRAMCORE_AT_USED": "1KiB", "VRAMCORE_AT_EXIT": "1"}
    same("state, with triggers", host("state"), triggers, check=some_moments)
    same("main-leaves, with triggers", host("main-leaves"), triggers, check=some_moments)
    same("pipes", host("pipes"))
    same("none-open", host("none-open"))
    same("exit-handlers", host("exit-handlers"), status=5)
    same("exit-handlers", host("exit-handlers", linked=True), status=5)
    both("thread-begins", status=3)
    same("exit-amid", host("exit-amid"), status=6)
    same("quick-exit-amid", host("quick-exit-amid"), status=7)
    same("other-thread-exits", host("other-thread-exits"), status=8)
    same("aborts", host("aborts"), status=-6)
    same("killed", host("killed"), status=-15)
    same("executes", host("executes"))


def memory():
    for name in ("threads", "small-stacks", "first-on-small-stack", "cancels", "cancel-pending",
                 "cancel-first", "fibers", "unloads"):
        same(name, host(name), ways=("preload", "run") if FULL else ("preload",))
    if ROOT:
        same("locked", host("locked"), ways=("preload",))
    else:
        skipped("locked", "only root may lock memory")
    same("throws", [BIN + "/host_throws"], status=-6)
    same("throws and ends", [BIN + "/host_throws", "ends"])


def limits():
    fast = ("preload", "run") if FULL else ("preload",)
    same("plain", host("plain"), check=says(lossless=True))
    for budget in ("0", "100KiB", "700KiB", "2MiB"):
        same(f"budget {budget}", host("plain"), {"VRAMCORE_BUDGET": budget}, ways=fast,
             recorded=budget not in ("0", "100KiB"), check=says("records_lost", "growth_failed"))
    # With so little not even the frees of what is not recorded can be told, and that is said.
    for space in (0, 64, 512, 16384):
        same(f"address space {space} KiB", host("small-space"), {"TEST_LIMIT": str(space)},
             ways=fast, recorded=space > 512,
             check=says("growth_failed", "records_lost", "frees_unknown", whole=False))
    same("address space of 128 MiB", host("small-space"), {"TEST_LIMIT": str(128 << 10)},
         ways=fast, check=says())
    same("address space of 1 GiB", host("small-space"), {"TEST_LIMIT": str(1 << 20)}, ways=fast,
         check=says(lossless=True))
    unjudged = {"SIMCUDA_MAP": None}
    for kibibytes in (0, 1, 64, 700, 2000):
        same(f"files of {kibibytes} KiB", host("small-files"), {"TEST_LIMIT": str(kibibytes)},
             recorded=kibibytes > 1,
             check=says("records_lost", "growth_failed"))
    for kibibytes in (0, 700, 3000):
        same(f"files of {kibibytes} KiB, later", host("small-files-later"),
             {"TEST_LIMIT": str(kibibytes)}, check=says("records_lost", "growth_failed"))
    for case in ("small-files-later", "files-main-leaves"):
        same(f"no room for snapshots, {case}", host(case),
             {"TEST_LIMIT": "64", "VRAMCORE_AT_USED": "1KiB", "VRAMCORE_AT_EXIT": "1"},
             ways=("preload",), check=says("snapshots_lost"))
    shell = "ulimit -f 0; " + host("plain")[0] + " plain | cat"
    same("files of 0 KiB in a shell", ["/bin/bash", "-c", shell], unjudged, recorded=False)
    same("no descriptors", host("no-descriptors"), recorded=False)
    same("no threads", host("no-threads"), check=says("agent_missing"))
    same("removed", host("removed"), recorded=False)
    same("filter of this thread", host("filter-self"))
    same("filter of all threads", host("filter-all"), check=says(before=400, lossless=True))
    if not ROOT:
        return skipped("rights", "only root may give them up")
    same("few processes", host("few-processes"), check=says("agent_missing"))
    # Threads of the program may not grow the recording any more; the agent still can.
    # (It is waited for some milliseconds, which a busy machine may not give it.)
    pauses = {"TEST_PAUSES": "1"}
    same("nobody", host("nobody"), pauses, check=says(most_lost=15000))
    same("other root folder", host("change-root"), pauses, check=says(most_lost=15000))
    return None


def mounts_work():
    command = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"]
    try:
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    except FileNotFoundError:
        return False


def inside_mounts(script, command):
    """The command in a mount namespace of its own, after a script."""
    return ["unshare", "-m", "sh", "-c", script + '; exec "$@"', "sh"] + command


# Copies what is left in the small file system to where it can be read after the namespace is gone.
KEEP = '; "$@"; status=$?; cp "$PLACE"/*.vrec "$TEST_FOLDER"/copies/ 2>/dev/null; exit $status'


def on_mount(name, script, check=None, place=None, at_exit=False):
    """
    `plain` with its recordings on a file system made by the script; place None: wherever recordings
    go by themselves. at_exit: the check gets the snapshot of the end, not the recording.
    """
    if not wanted(name):
        return
    DONE["ran"] += 1
    copies = BASE + "/copies"
    shutil.rmtree(copies, ignore_errors=True)
    os.mkdir(copies)
    outcomes = []
    for preload in (False, True):
        extra = {"PLACE": place, "VRAMCORE_OUT": copies if at_exit else BASE + "/out",
                 "VRAMCORE_AT_EXIT": "1" if at_exit else None,
                 "TEST_PAUSES": "1" if at_exit else None}
        if preload and place:
            extra["VRAMCORE_DIR"] = place
        line = ["env", "LD_PRELOAD=" + LIBRARY] if preload else ["env"]
        line = ["unshare", "-m", "sh", "-c", script + KEEP, "sh"] + line + host("plain")
        outcomes.append(run("alone", line, extra))
    if outcomes[0].visible() != outcomes[1].visible():
        failed(name, difference(*outcomes))
    left = [os.path.join(copies, entry) for entry in os.listdir(copies)]
    if check and not left:
        failed(name, "no recording was left")
    elif check:
        check(name, left)


def places():
    # The recording is in memory then, and gone with the program.
    for name, folder in (("no such folder", BASE + "/no/such/folder"), ("a file", "/etc/passwd"),
                         ("not writable", "/proc"), ("too long", "/" + "x/" * 400)):
        if not wanted(name):
            continue
        DONE["ran"] += 1
        outcomes = [run("alone", host("plain"), {"VRAMCORE_DIR": folder, "VRAMCORE_AT_EXIT": "1",
                                                 "TEST_PAUSES": "1",
                                                 "VRAMCORE_OUT": BASE + "/out"},
                        beside=[LIBRARY] if way else []) for way in (0, 1)]
        if outcomes[0].visible() != outcomes[1].visible():
            failed(name, difference(*outcomes))
        copies = [BASE + "/out/" + entry for entry in os.listdir(BASE + "/out")]
        if len(copies) == 1:
            says(most_lost=15000)(name, copies)
        else:
            failed(name, f"{len(copies)} snapshots")
    if not ROOT or not mounts_work():
        return skipped("small file systems", "they take root and a mount namespace")
    tmpfs = "mount -t tmpfs -o size={} none /mnt && chmod 777 /mnt"
    full = tmpfs.format("64m") + "; head -c 100m /dev/zero >/mnt/fill 2>/dev/null"
    nearly = tmpfs.format("64m") + "; head -c 63m /dev/zero >/mnt/fill 2>/dev/null"
    lost = says("records_lost", "growth_failed")
    on_mount("1 MiB", tmpfs.format("1m"), lost, "/mnt")
    on_mount("64 MiB, nearly full", nearly, lost, "/mnt")
    on_mount("64 MiB, full", full, None, "/mnt")
    on_mount("64 MiB, filled meanwhile",
             tmpfs.format("64m") + "; (sleep 0.05; head -c 100m /dev/zero >/mnt/fill) "
             "2>/dev/null & :", says(), "/mnt")
    on_mount("read only", tmpfs.format("1m") + "; mount -o remount,ro /mnt", None, "/mnt")
    on_mount("few files", "mount -t tmpfs -o size=64m,nr_inodes=1 none /mnt", None, "/mnt")
    few = says(most_lost=15000)
    on_mount("64 MiB, full, at exit", full, few, "/mnt", at_exit=True)
    on_mount("no /dev/shm", "mount -t tmpfs none /dev", few, at_exit=True)
    on_mount("no /proc", "mount -t tmpfs none /proc; mount -t tmpfs none /mnt", says(), "/mnt")
    on_mount("no /proc, no /dev/shm", "mount -t tmpfs none /proc; mount -t tmpfs none /dev", few,
             at_exit=True)
    return None


PYTHON = """
import ctypes, os, subprocess, sys, threading
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
def work():
    assert cuda.cuCtxSetCurrent(context) == 0
    for i in range(200):
        one = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(one), 1000 + i) == 0
        assert cuda.cuMemFree_v2(one) == 0
threads = [threading.Thread(target=work) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(os.listdir("/proc/self/fd")))
print(subprocess.run(["sh", "-c", "ls /proc/self/fd; exit 3"], stdout=subprocess.PIPE).stdout)
if os.fork() == 0:
    print("child", cuda.cuInit(0), cuda.cuMemAlloc_v2(ctypes.byref(pointer), 5))
    sys.stdout.flush()
    os._exit(4)
ours = ("LD_PRELOAD", "VRAMCORE_", "NVTX_")
print(os.wait()[1], len([1 for name in os.environ if not name.startswith(ours)]))
sys.exit("over")
"""


def strangers():
    none = {"recorded": False}
    same("true", ["/bin/true"], **none)
    same("false", ["/bin/false"], status=1, **none)
    same("ls", ["/bin/ls", "-l", "/proc/self/fd/0", "/usr"], **none)
    same("no such file", ["/bin/cat", "/no/such/file"], status=1, **none)
    same("pipeline", ["/bin/bash", "-c", "set -o pipefail; seq 100000 | sort -n | tail -3 | rev | "
                      "tee >(wc -c >&2) | tail -1; sleep 0.1; echo ${PIPESTATUS[*]}; exit 5"],
         status=5, **none)
    same("broken pipe", ["/bin/bash", "-c", "yes | head -2; echo ${PIPESTATUS[*]}"], **none)
    same("subshells", ["/bin/bash", "-c", "for i in 1 2 3; do (exit $i) & done; wait -n; wait; "
                       "x=$(echo a | (read y; echo $y$y)); echo $x; kill -TERM $$"],
         status=-15, **none)
    same("awk", ["awk", "BEGIN { while (i++ < 1000) s += i; print s; exit 7 }"], status=7, **none)
    if shutil.which("gdb"):
        same("gdb", ["gdb", "-nx", "-batch", "-ex", "print 6 * 7"], **none)
    # The driver that a process pipeline uses, and a reader that waits for its end.
    same("pipeline with the driver", ["/bin/bash", "-c", BIN + "/host_found plain | tail -3; "
                                      "echo ${PIPESTATUS[*]}"])
    same("python", [sys.executable, "-c", PYTHON], status=1)
    train = [BIN + "/train", "--steps", "300"]
    same("train", train + ["--leak", "none"], {"VRAMCORE_AT_STEP": "10,200"})
    same("train that leaks", train + ["--leak", "cache", "--vary"], {"VRAMCORE_EVERY": "100steps"})
    same("train, no reports", train + ["--leak", "losses", "--no-reports"])
    same("train out of memory", train + ["--oom"], status=None)


def readelf(*options):
    return subprocess.run(["readelf", "-W", *options, LIBRARY], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def library():
    """What the loader would make of the library; the rest is tests/capture/check_library."""
    DONE["ran"] += 1
    segments = [line.split() for line in readelf("-l").splitlines()]
    flags = {words[0]: "".join(words[6:-1]) for words in segments if words and
             words[0] in ("LOAD", "GNU_STACK", "TLS") and len(words) > 7}
    if flags.get("GNU_STACK") != "RW":
        failed("library", f"stack flags {flags.get('GNU_STACK')}")
    for words in segments:
        if words and words[0] == "LOAD" and "W" in "".join(words[6:-1]) and \
                "E" in "".join(words[6:-1]):
            failed("library", "a segment may be written and executed")
    dynamic = readelf("-d")
    for word in ("TEXTREL", "RPATH", "RUNPATH"):
        if word in dynamic:
            failed("library", f"it has {word}")
    for word in ("STATIC_TLS", "NODELETE", "NOW"):
        if word not in dynamic:
            failed("library", f"it has no {word}")
    if "[libc.so.6]" not in dynamic or dynamic.count("(NEEDED)") != 1:
        failed("library", "it needs more than libc")


def quiet():
    counter = BIN + "/libhost_counter.so"
    same("quiet", host("quiet"), ways=("preload",), beside=[counter])
    same("quiet", host("quiet", linked=True), ways=("preload",), beside=[counter])
    for linked in (False, True):
        if not wanted("first-calls"):
            return
        DONE["ran"] += 1
        counts = []
        for way in ("alone", "preload"):
            outcome = run(way, host("first-calls", linked), beside=[counter])
            with open(BASE + "/counts", encoding="ascii") as file:
                counts.append([int(number) for number in file.read().split()])
            if outcome.status != 0:
                failed("first-calls", outcome.out.decode())
        process, thread = (counts[1][i] - counts[0][i] for i in (0, 1))
        say(f"  heap calls more than alone: {process} in the first calls of the process, "
            f"{thread} in those of a thread")
        # The process: a thread is made. A thread: none.
        if process > 20 or thread > 0:
            failed("first-calls", f"{process} heap calls, {thread} in a thread")


DAEMONS = """
import ctypes, sys, threading, time
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
def work():
    cuda.cuCtxSetCurrent(context)
    while True:
        one = ctypes.c_uint64()
        cuda.cuMemAlloc_v2(ctypes.byref(one), 1000)
        cuda.cuMemFree_v2(one)
for i in range(8):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
print("leaving")
sys.exit(3)
"""


def early(name, recordings):
    """Memory from before main is there, with stacks that show nothing of the recorder itself."""
    tables = table(recordings[0])
    live = sorted(row["size"] for row in tables["allocations"] if row["kind"] in ("linear", 1))
    if live != list(range(4096 + 50, 4096 + 100)):
        failed(name, f"live: {live}")
    out = subprocess.run([BIN + "/vramcore", "top", "--json", recordings[0]],
                         stdout=subprocess.PIPE, check=False).stdout.decode()
    if "allocate_early" not in out or "vc_" in out:
        failed(name, "stacks: " + out[:2000])


class Held:
    """A thread of another process that stands still from one moment to another."""
    LIBC = ctypes.CDLL(None, use_errno=True)
    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17

    def __init__(self, thread):
        self.thread = thread
        self.call(self.SEIZE)
        self.call(self.INTERRUPT)
        os.waitpid(thread, 0x40000000)

    def call(self, request):
        self.LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p,
                                     ctypes.c_void_p]
        if self.LIBC.ptrace(request, self.thread, None, None) < 0:
            raise OSError(ctypes.get_errno(), "ptrace")

    def release(self):
        self.call(self.DETACH)


def agent_of(pid):
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as file:
                if file.read() == "vramcore\n":
                    return int(thread)
        except FileNotFoundError:
            pass
    return None


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.001)
    return None


# futex and restart_syscall, on x86-64 and on aarch64.
ASLEEP = ("202", "219", "98", "128")


def where(pid, thread):
    try:
        with open(f"/proc/{pid}/task/{thread}/syscall", encoding="ascii") as file:
            return file.read().split()[0]
    except OSError:
        return "?"


def agent_held(number, seconds, to_the_end=False):
    """
    The agent is held in mid-work; the program goes on, and after it has been let go, or to the end
    of the program, what was recorded is right.
    """
    name = f"agent held {number}"
    if not wanted("agent held"):
        return
    DONE["ran"] += 1
    for entry in ("ready", "thawed", "map"):
        if os.path.exists(f"{BASE}/{entry}"):
            os.unlink(f"{BASE}/{entry}")
    for folder in ("recordings", "out"):
        shutil.rmtree(f"{BASE}/{folder}", ignore_errors=True)
    os.makedirs(BASE + "/recordings")
    settings = environment({"VRAMCORE_DIR": BASE + "/recordings", "VRAMCORE_OUT": BASE + "/out",
                            "VRAMCORE_EVERY": "1steps", "VRAMCORE_MAX_FILES": "100000",
                            "VRAMCORE_AT_EXIT": "1", "LD_PRELOAD": LIBRARY})
    process = subprocess.Popen(host("agent-held"), env=settings, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=BASE)
    agent = until(lambda: os.path.exists(BASE + "/ready") and agent_of(process.pid))
    if not agent:
        process.kill()
        return failed(name, "no agent")
    time.sleep(0.02 + 0.0137 * number)
    for _ in range(400): # it sleeps most of the time
        held = Held(agent)
        at = where(process.pid, agent)
        if at not in ASLEEP:
            break
        held.release()
        time.sleep(random.random() * 0.002)
    start = time.monotonic()
    if not to_the_end:
        time.sleep(seconds)
        held.release()
    with open(BASE + "/thawed", "wb"):
        pass
    if to_the_end:
        # Gone with its process; its tracer has to see that it is.
        os.waitpid(agent, 0x40000000)
    try:
        out, error = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        out, error = process.communicate()
        return failed(name, "hung")
    took = time.monotonic() - start
    DONE["mid-work"] = DONE.get("mid-work", 0) + (at not in ASLEEP)
    say(f"  {name}, in system call {at}: over {took:.1f} s after it was held")
    if process.returncode != 0 or out != b"failed 0\n" or error:
        failed(name, f"status {process.returncode}, {out.decode()}{error.decode()}")
    if took > seconds + 15:
        failed(name, f"took {took:.1f} s")
    left = [os.path.join(folder, entry) for folder, _, entries in os.walk(BASE + "/recordings")
            for entry in entries if f"-{process.pid}-" in entry]
    if len(left) != 1:
        return failed(name, f"recordings {left}")
    tables = table(left[0])
    live = [row for row in tables["allocations"] if row["kind"] in ("linear", 1)]
    found = counters(tables)
    if len(live) + found.get("records_lost", 0) < 2000 or totals(tables)[2] != 2000 * 512:
        failed(name, f"live {len(live)}, totals {totals(tables)}, {found}")
    return None


def life():
    if not wanted("first-process"):
        pass
    elif ROOT and subprocess.run(["unshare", "-pf", "--mount-proc", "true"], check=False,
                                 stderr=subprocess.DEVNULL).returncode == 0:
        inside = ["unshare", "-pf", "--mount-proc"]
        same("first-process", host("first-process"), status=9, prefix=inside, ways=("preload",))
        same("first-process is run", host("wait-loop"), prefix=inside)
        same("first-process within run", inside + host("first-process"), status=9)
    else:
        skipped("first-process", "process namespaces take root")
    both("least-signal-stack")
    if wanted("signal-stack-use"):
        DONE["ran"] += 1
        used = []
        for way in ("alone", "preload"):
            outcome = run(way, host("signal-stack-use"))
            with open(BASE + "/counts", encoding="ascii") as file:
                used.append(int(file.read()))
            if outcome.status != 0:
                failed("signal-stack-use", outcome.out.decode() + outcome.error.decode())
        say(f"  stack of a handler that allocates: {used[0]} bytes alone, {used[1] - used[0]} more")
        if used[1] - used[0] > 2048:
            failed("signal-stack-use", f"{used[1] - used[0]} bytes")
    for _ in range(20 if FULL else 3):
        same("daemon threads", [sys.executable, "-c", DAEMONS], status=3)
    same("early", [BIN + "/host_early"], status=12, check=early)
    same("early, last", [BIN + "/host_early"], status=12, check=early, ways=("preload last",),
         beside=[BIN + "/libhost_counter.so"])
    try:
        for number in range(40 if FULL else 6):
            agent_held(number, 0.3)
        for number in range(10 if FULL else 2):
            agent_held(number, 0, to_the_end=True)
        agent_held(3, 10)
        if wanted("agent held") and not DONE["mid-work"]:
            failed("agent held", "it was asleep each time")
    except OSError as error:
        if error.errno != 1:
            raise
        skipped("agent held", "this process may not trace others")


def allocator(name):
    text = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True,
                          check=False).stdout
    for line in text.splitlines():
        if line.strip().startswith(name) and "=>" in line:
            return line.split("=> ")[1].strip()
    return None


def allocators():
    """Other memory allocators in the program, before and after the recorder."""
    ways = ("preload", "preload last", "run")
    for name in ("libjemalloc.so", "libtcmalloc_minimal.so", "libmimalloc.so"):
        path = allocator(name)
        if not path:
            skipped(name, "it is not installed")
            continue
        beside = [path]
        same(f"plain, {name}", host("plain"), ways=ways, beside=beside, check=says(lossless=True))
        for case in ("threads", "small-stacks", "cancels", "unloads", "first-on-small-stack",
                     "wait-loop", "child-handler", "main-leaves", "storm"):
            same(f"{case}, {name}", host(case), ways=ways if FULL else ways[:2], beside=beside)
        same(f"exit-amid, {name}", host("exit-amid"), ways=ways, status=6, beside=beside)
        same(f"exit-handlers, {name}", host("exit-handlers", linked=True), ways=ways, status=5,
             beside=beside)
        same(f"python, {name}", [sys.executable, "-c", PYTHON], ways=ways, status=1,
             beside=beside)
        same(f"train, {name}", [BIN + "/train", "--steps", "100", "--leak", "none"],
             {"VRAMCORE_AT_STEP": "10,90"}, ways=ways, beside=beside)


GROUPS = {"life": life, "allocators": allocators, "signals": signals, "processes": processes, "memory": memory, "limits": limits,
          "places": places, "strangers": strangers, "quiet": quiet, "library": library}


def main():
    GROUPS[GROUP]()
    shutil.rmtree(BASE, ignore_errors=True)
    say(f"{DONE['ran']} programs, {DONE['failed']} differences, {DONE['skipped']} skipped")
    if DONE["failed"]:
        return 1
    return 0 if DONE["ran"] else 77


if __name__ == "__main__":
    sys.exit(main())
