#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who may include whom. usage: check_layering.py SOURCE_FOLDER

formats includes nothing of ours; capture/inside and capture/outside include formats and themselves,
not each other; analyze includes formats and itself, and main.c outside's one header.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1])
# folder: what its files may include
ALLOWED = {
    "formats": ["formats/"],
    "capture/inside": ["formats/", "capture/inside/", "capture/cuda_abi.h", "capture/vramcore.h", "capture/hooks.def", "capture/results.def", "capture/harmless.def",
                       "capture/driver_calls.def", "capture/torch.def"],
    # reads the loader's lists as the recorder does; shares no state with it
    "capture/audit": ["capture/inside/loader.h", "capture/inside/old_libc.h"],
    "capture/outside": ["formats/", "capture/outside/", "capture/hooks.def", "capture/driver_calls.def"],
    "analyze": ["formats/", "analyze/"],
}
EXCEPTIONS = {("analyze/main.c", "capture/outside/outside.h")}


def main():
    bad, seen = [], 0
    for folder, allowed in ALLOWED.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".c", ".h", ".cc", ".S", ".def"):
                continue
            name = path.relative_to(ROOT).as_posix()
            for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                found = re.match(r'\s*#\s*include\s+"([^"]+)"', text)
                if not found:
                    continue
                seen += 1
                included = found[1]
                # a name without a folder is a file beside the one that includes it
                if "/" not in included:
                    included = (pathlib.PurePosixPath(name).parent / included).as_posix()
                if not any(included.startswith(a) for a in allowed) and (name, included) not in EXCEPTIONS:
                    bad.append(f"{name}:{line}: includes {included}")
    for text in bad:
        print(text)
    if seen < 50:
        print(f"only {seen} includes found: the check does not see the sources")
        return 1
    return 1 if bad else 0


sys.exit(main())
