#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Roles of every block under the trainings of roles.py: each byte as its shapes say, all together what PyTorch
says is allocated.

usage: test_roles.py BINARY_FOLDER [--table] [--packages] [NAME ...]
A short selection; VRAMCORE_FULL=1, or names: all of them, at five moments of a step. --packages: those of
roles_packages.py instead, in an environment of their own. --table: what is named and what is not, as
docs/roles.md has it. Skipped where the wheel of PyTorch cannot be had.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SIMTORCH = HERE.parent / "simtorch" / "run"
WORDS = [word for word in sys.argv[2:] if not word.startswith("--")]
WIDE = "--packages" in sys.argv
FULL = os.environ.get("VRAMCORE_FULL") == "1" or bool(WORDS) or WIDE
PACKAGES = """accelerate bitsandbytes deepspeed lightning transformers triton annotated-types anyio certifi
    charset-normalizer click einops h11 hf-xet hjson httpcore httpcore2 httpx httpx2 huggingface-hub idna
    lightning-utilities msgpack ninja packaging psutil py-cpuinfo pydantic pydantic-core pytorch-lightning pyyaml regex
    requests rich safetensors shellingham sniffio tokenizers torchmetrics tqdm truststore typer typing-inspection
    urllib3""".split()
# of each wrapper the moment that shows most of it
SHORT = {"before-backward": ["autocast_inside", "checkpoint", "checkpoint_reentrant", "save_on_cpu", "ddp_view",
                             "fsdp1_mixed", "kv_cache"],
         "after-step": ["ddp", "fsdp2", "graph"]}
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("VRAMCORE_")}
ENVIRONMENT.update(SIMCUDA_DEVICES="2", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")


def names_of(program):
    return re.findall(r"^@scenario\(.*\)\ndef (\w+)\(", (HERE / program).read_text(), re.MULTILINE)


def record(binaries, folder, when, names, python="python", program="roles.py"):
    """Runs them; exit status, and what they printed."""
    (folder / "truth").mkdir(parents=True)
    moments = "1" if FULL else "0"
    done = subprocess.run(
        [SIMTORCH, "--bin", binaries, binaries / "vramcore", "run", "--quiet", "--out", folder / "out",
         "--at-step", "3", "--when", when, "--max-files", "40", "--", python, "-W", "ignore", HERE / program, *names],
        env=ENVIRONMENT | {"ROLES_FOLDER": str(folder / "truth"), "ROLES_MOMENTS": moments}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=1200, check=False)
    return done.returncode, done.stdout + done.stderr


def roles_of(binaries, path):
    """Bytes by role of a snapshot, those of them that are inferred, and what it says is not known."""
    done = subprocess.run([binaries / "vramcore", "top", "--json", "--by", "role", "-n", "0", path],
                          capture_output=True, text=True, timeout=300, check=False)
    report = json.loads(done.stdout)
    if "devices" not in report:
        return report["error"], {}, {}, None
    rows = [row for device in report["devices"] for row in device["rows"]]
    return report["file"], collections.Counter({row["role"]: row["bytes"] for row in rows}), \
        {row["role"]: row["inferred_bytes"] for row in rows}, report["not_known"]


def environment_of_packages(binaries):
    """Its interpreter, which has PyTorch's environment too; None: not to be had."""
    where = "import sys; print(sys.prefix, sys.path[-1])"
    done = subprocess.run([SIMTORCH, "--bin", binaries, "python", "-c", where], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        print(done.stdout)
        return None
    prefix, packages = done.stdout.split()
    folder = pathlib.Path(prefix).parent / "roles-packages"
    made = subprocess.run([HERE.parent / "clients" / "make_environment", folder, "--no-deps", *PACKAGES],
                          env=ENVIRONMENT | {"MAKE_ENVIRONMENT_TIMEOUT": "1800", "DS_BUILD_OPS": "0"}, check=False)
    if made.returncode:
        return None
    own, = folder.glob("lib/python*/site-packages")
    (own / "torch.pth").write_text(packages + "\n")
    return folder / "bin" / "python"


INFERRED = ("input", "kv-cache", "workspace", "communication", "autocast")


def differences(moment, partial, found, inferred, not_known):
    """What is wrong with a moment, in words."""
    wrong, wanted = [], moment["roles"]
    if sum(found.values()) != moment["allocated"]:
        wrong.append(f"{sum(found.values())} bytes with a role, PyTorch says {moment['allocated']}")
    if wanted is not None:
        roles = wanted if partial else set(wanted) | set(found)
        wrong += [f"{role}: {found.get(role, 0)}, not {wanted.get(role, 0)}" for role in sorted(roles)
                  if found.get(role, 0) != wanted.get(role, 0)]
    if moment.get("whole", True):
        wrong += [f"{role}: {inferred.get(role)} of {found[role]} inferred" for role in found
                  if inferred[role] != (found[role] if role in INFERRED else 0) and not moment.get("rules")]
        wrong += [f"not known: {not_known}"] if not_known else []
    elif not not_known:
        wrong.append("all is said to be known on another thread")
    return wrong


def judge(binaries, folder, when, table):
    """Each moment that a process told of against its snapshot; how many, and what is wrong."""
    count, wrong = 0, []
    snapshots = collections.defaultdict(list)
    for path in (folder / "out").glob("*.vramcore"):
        snapshots[int(re.search(r"\.(\d+)\.step\d+\.", path.name)[1])].append(path)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for truth in sorted((folder / "truth").glob("*.json")):
            told = json.loads(truth.read_text())
            wanted = [moment for moment in told["moments"] if moment["moment"] in (when, "now")]
            found = sorted(pool.map(lambda path: roles_of(binaries, path), snapshots[int(truth.stem)]),
                           key=lambda one: (one[0].get("number", 0), one[0].get("time", "")))
            name = f"{told['scenario']}, rank {told['rank']}"
            if [one[0].get("moment") for one in found] != [moment["moment"] for moment in wanted]:
                wrong.append(f"{name}: snapshots of {[one[0].get('moment', one[0]) for one in found]}, not of "
                             f"{[moment['moment'] for moment in wanted]}")
                continue
            for moment, (_, roles, inferred, not_known) in zip(wanted, found):
                count += 1
                tag = moment.get("tag", moment["moment"])
                wrong += [f"{name}, {tag}: {words}"
                          for words in differences(moment, told["partial"], roles, inferred, not_known)]
                if not told["rank"]:
                    table[told["scenario"]][tag] = (sum(roles.values()), roles["unknown"], roles["other"])
    return count, wrong


COLUMNS = ("mid forward", "before-backward", "mid backward", "after backward", "after-step")


def print_table(table):
    """Share of bytes with a role, and in brackets of those that are but a tensor some variable holds."""
    print("| scenario |", " | ".join(COLUMNS), "|\n|---|" + "---|" * len(COLUMNS))
    for name, moments in table.items():
        cells = []
        for tag in COLUMNS:
            if tag not in moments:
                cells.append("")
                continue
            total, unknown, other = moments[tag]
            cells.append(f"{100 * (total - unknown) / total:.2f} ({100 * other / total:.1f})")
        print(f"| {name} |", " | ".join(cells), "|")


def one(binaries, when, names, table, **how):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vramcore-roles-"))
    try:
        status, said = record(binaries, folder, when, names, **how)
        if status == 77:
            return None, [said]
        count, wrong = judge(binaries, folder, when, table)
        print(*[line for line in said.splitlines() if line.startswith("SKIPPED")], sep="\n", end="")
        if status:
            wrong.append(said)
        return count, wrong
    finally:
        shutil.rmtree(folder)


def main():
    version = os.environ.get("SIMTORCH_VERSION") or "2.15.0"
    if not version.startswith("2.15."):
        print(f"SKIPPED: the shapes are those of PyTorch 2.15, not {version}")
        return 77
    binaries, table = pathlib.Path(sys.argv[1]).resolve(), collections.defaultdict(dict)
    how = {"program": "roles_packages.py" if WIDE else "roles.py"}
    names = WORDS or names_of(how["program"])
    if WIDE:
        how["python"] = environment_of_packages(binaries)
        if not how["python"]:
            return 77
    lists = {when: names for when in SHORT} if FULL else SHORT
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda item: one(binaries, *item, table, **how), lists.items()))
    skipped = [result[1][0] for result in results if result[0] is None]
    if skipped:
        print(skipped[0])
        return 77
    for _, wrong in results:
        for line in wrong:
            print("FAILED", line, flush=True)
    count = sum(result[0] for result in results)
    print(f"{count} moments of {len(set().union(*lists.values()))} trainings, "
          f"{sum(len(result[1]) for result in results)} differences")
    if "--table" in sys.argv:
        print_table(table)
    return 1 if any(result[1] for result in results) or not count else 0


if __name__ == "__main__":
    sys.exit(main())
