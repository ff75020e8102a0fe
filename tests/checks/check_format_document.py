#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds formats/FORMAT.md against the lists and structures it describes.

usage: check_format_document.py SOURCE [COMPILER]

Tables, columns, types and kinds must be the same in both, number by number; offsets and sizes of
the structures of a recording are checked by the compiler.
"""
import re
import subprocess
import sys

source = sys.argv[1]
compiler = sys.argv[2] if len(sys.argv) > 2 else "cc"
wrong = []


def read(path):
    with open(f"{source}/{path}", encoding="utf-8") as file:
        return file.read()


def same(what, document, code):
    for row in sorted(document - code, key=str):
        wrong.append(f"{what}: only in FORMAT.md: {row}")
    for row in sorted(code - document, key=str):
        wrong.append(f"{what}: not in FORMAT.md: {row}")
    if not code:
        wrong.append(f"{what}: nothing found in the code")


def part(document, heading):
    """The text below a heading, up to the next heading of the same or a higher level."""
    level = heading.index(" ")
    after = document.split(heading + "\n", 1)[1]
    return re.split(rf"^#{{1,{level}}} ", after, maxsplit=1, flags=re.M)[0]


def rows(text):
    """The rows of all tables in a text, without heads and rules."""
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and re.match(r"\d", cells[0]):
            yield cells


document = read("formats/FORMAT.md")

# Tables and columns.
definition = read("formats/tables.def")
same("tables",
     set(re.findall(r"^#### (\w+): table (\d+), `(\S+)`$", document, re.M)),
     set((name, number, section) for name, number, section in
         re.findall(r'^VC_TABLE\((\w+), (\d+), "([^"]+)"\)', definition, re.M)))
columns = set()
for name, text in re.findall(r"^#### (\w+): table \d+.*?\n(.*?)(?=^#|\Z)", document, re.M | re.S):
    for cells in rows(text):
        columns.add((name, cells[0], cells[1], cells[2]))
        if not cells[3]:
            wrong.append(f"column {name}.{cells[1]}: no meaning given")
same("columns", columns,
     set((table, number, name, kind) for table, name, number, kind in
         re.findall(r"^VC_COLUMN\((\w+), (\w+), (\d+), (\w+)\)", definition, re.M)))

# Types: names as in tables.h, numbers as the writer gives them.
same("types", set((cells[1], cells[0]) for cells in rows(part(document, "## Types"))),
     set(re.findall(r"case VC_TYPE_(\w+):\s*return (\d+);", read("formats/snapshot_layout.h"))))

# Encodings.
same("encodings", set((cells[1], cells[0]) for cells in rows(part(document, "## Encodings"))
                      if cells[1].isupper()),
     set((name, number) for name, number in
         re.findall(r"VC_ENCODING_(\w+) = (\d+),", read("formats/column.h"))))

# Kinds.
same("kinds", set(tuple(cells) for cells in rows(part(document, "### Kinds"))),
     set((number, text, size) for number, text, size in
         re.findall(r'^VC_KIND\(\w+, (\d+), "([^"]+)", (\w+)\)', read("formats/kinds.def"), re.M)))

# Actions of a trace, keys of dumps.
same("actions", set(tuple(cells) for cells in rows(part(document, "### Actions"))),
     set(re.findall(r'^VC_TRACE_ACTION\(\w+, (\d+), "(\w+)", (\w+)\)',
                    read("formats/trace_actions.def"), re.M)))
same("keys", set(tuple(cells) for cells in rows(part(document, "### Keys"))),
     set(re.findall(r'^VC_ORIGIN_KEY\(\w+, (\d+), "(\w+)"\)',
                    read("formats/origin_keys.def"), re.M)))

# Tables of a recording.
header = read("formats/recording.h")
same("tables of a recording", set((cells[1], cells[0]) for cells in rows(part(document, "## Items"))),
     set((name.lower(), number) for name, number in re.findall(r"VC_REC_(\w+) = (\d+),", header)))

# Versions.
container = read("formats/container.h")
same("versions", set(tuple(cells[:3]) for cells in
                     ([c.strip() for c in line.strip("|").split("|")]
                      for line in part(document, "## Versions").split("\n")
                      if re.match(r"\| (snapshot|recording) ", line))),
     {("snapshot", *[re.search(rf"VC_CONTAINER_{w}_VERSION (\d+)", container)[1]
                     for w in ("READ", "WRITE")]),
      ("recording", *[re.search(rf"VC_RECORDING_{w}_VERSION (\d+)", header)[1]
                      for w in ("READ", "WRITE")])})

# Structures of a recording: each field in the document where the compiler has it, and none missing.
program = ['#include "formats/recording.h"']
structures = part(document, "## Structures")
documented = set()
for name, size, text in re.findall(r"^#### struct (\w+): (\d+) bytes\n(.*?)(?=^#|\Z)", structures,
                                   re.M | re.S):
    documented.add(name)
    program.append(f'_Static_assert(sizeof(struct {name}) == {size}, "{name}");')
    end = 0
    for offset, length, field, meaning in rows(text):
        program.append(f'_Static_assert(offsetof(struct {name}, {field}) == {offset}, '
                       f'"{name}.{field}");')
        if not meaning:
            wrong.append(f"struct {name}.{field}: no meaning given")
        if int(offset) != end:
            wrong.append(f"struct {name}.{field}: a field before it is missing")
        if length.isdigit():
            program.append(f'_Static_assert(sizeof(((struct {name} *)0)->{field}) == {length}, '
                           f'"{name}.{field}");')
            end = int(offset) + int(length)
    if end != int(size):
        wrong.append(f"struct {name}: fields end at {end}, the structure at {size}")
same("structures", documented, set(re.findall(r"^struct (\w+) \{", header, re.M)))
result = subprocess.run([compiler, "-std=gnu11", "-fsyntax-only", "-I", source, "-x", "c", "-"],
                        input="\n".join(program) + "\n", text=True, capture_output=True)
if result.returncode:
    wrong.append("structures: " + result.stderr)

for line in wrong:
    print("FORMAT.md:", line)
print(f"{len(columns)} columns, {len(documented)} structures, {len(wrong)} wrong")
sys.exit(1 if wrong else 0)
