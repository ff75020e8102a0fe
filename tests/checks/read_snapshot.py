#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A second reader of snapshots, written from FORMAT.md alone, to hold the first one against.

usage: read_snapshot.py FORMAT.md FILE.vramcore

Verifies every hash and prints every number and string, one column a line, in the order of the
document. Needs the program zstd. It trusts its input: it is a test, not a tool.
"""
import re
import struct
import subprocess
import sys

MASK = (1 << 64) - 1


def xxh64(data):
    """XXH64 with seed 0, from its specification."""
    p1, p2, p3, p4, p5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                          0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)

    def rotate(value, bits):
        return (value << bits | value >> (64 - bits)) & MASK

    def round_(lane, word):
        return rotate((lane + word * p2) & MASK, 31) * p1 & MASK

    at = 0
    if len(data) >= 32:
        lanes = [(p1 + p2) & MASK, p2, 0, -p1 & MASK]
        while at + 32 <= len(data):
            for i, word in enumerate(struct.unpack_from("<4Q", data, at)):
                lanes[i] = round_(lanes[i], word)
            at += 32
        total = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            total = ((total ^ round_(0, lane)) * p1 + p4) & MASK
    else:
        total = p5
    total = (total + len(data)) & MASK
    while at + 8 <= len(data):
        total ^= round_(0, struct.unpack_from("<Q", data, at)[0])
        total = (rotate(total, 27) * p1 + p4) & MASK
        at += 8
    if at + 4 <= len(data):
        total ^= struct.unpack_from("<I", data, at)[0] * p1 & MASK
        total = (rotate(total, 23) * p2 + p3) & MASK
        at += 4
    for byte in data[at:]:
        total ^= byte * p5 & MASK
        total = rotate(total, 11) * p1 & MASK
    total = (total ^ total >> 33) * p2 & MASK
    total = (total ^ total >> 29) * p3 & MASK
    return total ^ total >> 32


def varints(data, count):
    values, at = [], 0
    for _ in range(count):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        values.append(value)
    return values, data[at:]


def unzigzag(value):
    return value >> 1 ^ -(value & 1)


def packed(data, rows):
    width, shift, key, reserved, base = struct.unpack_from("<BBHIQ", data)
    assert reserved == 0 and len(data) == 16 + width * rows
    return width, shift, key, base, data[16:]


def planes(data, width, rows):
    return [sum(data[byte * rows + row] << 8 * byte for byte in range(width)) for row in range(rows)]


def decode(encoding, data, rows, columns):
    """Values of one column; `columns` has those decoded before."""
    if encoding == 1:
        assert len(data) == 8
        return [struct.unpack("<Q", data)[0]] * rows
    if encoding in (2, 3):
        width, shift, _, base, rest = packed(data, rows)
        stored = planes(rest, width, rows) if encoding == 3 else [
            int.from_bytes(rest[row * width:(row + 1) * width], "little") for row in range(rows)]
        return [(base + (x << shift)) & MASK for x in stored]
    if encoding == 4:
        stored, rest = varints(data, rows)
        assert not rest
        values, before = [], 0
        for z in stored:
            before = (before + unzigzag(z)) & MASK
            values.append(before)
        return values
    if encoding in (5, 7):
        width, shift, key, base, rest = packed(data, rows)
        values, before, last = [], base, {}
        for row, z in enumerate(planes(rest, width, rows)):
            if encoding == 7:
                before = last.get(columns[key][row], 0)
            before = (before + (unzigzag(z) << shift)) & MASK
            if encoding == 7:
                last[columns[key][row]] = before
            values.append(before)
        return values
    if encoding == 6:
        values, before = [], 0
        while len(values) < rows:
            (length, z), data = varints(data, 2)
            before = (before + unzigzag(z)) & MASK
            values += [before] * length
        assert len(values) == rows and not data
        return values
    assert encoding == 8
    lengths, data = varints(data, rows)
    values = []
    for length in lengths:
        values.append(data[:length])
        data = data[length:]
    assert not data
    return values


def groups(data):
    """All groups of a section, merged: column number -> values; and the row count."""
    table, total = {}, 0
    while data:
        first, rows, columns = struct.unpack_from("<QII", data)
        assert first == total
        end, decoded = 16 + 24 * columns, {}
        for i in range(columns):
            column, _, encoding, flags, offset, length = struct.unpack_from("<HBBIQQ", data,
                                                                            16 + 24 * i)
            assert offset == end and flags < 2
            end += length
            decoded[column] = decode(encoding, data[offset:end], rows, decoded)
        for column, values in decoded.items():
            table.setdefault(column, []).extend(values)
        total += rows
        data = data[end:]
    return table, total


def read(data):
    """Section name -> columns, everything verified."""
    assert data[:20] == b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HH", 4, 0)
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    _, phnum, shentsize, shnum, shstrndx = struct.unpack_from("<5H", data, 54)
    assert phnum == 1 and shentsize == 64
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, shoff + 64 * i) for i in range(shnum)]
    names = data[headers[shstrndx][4]:][:headers[shstrndx][5]]
    at, = struct.unpack_from("<Q", data, phoff + 8)
    end = at + struct.unpack_from("<Q", data, phoff + 32)[0]
    notes = {}
    while at < end:
        assert data[at:at + 4] == struct.pack("<I", 9) and data[at + 12:at + 24] == b"VRAMCORE\0\0\0\0"
        length, kind = struct.unpack_from("<II", data, at + 4)
        notes[kind] = (at + 24, data[at + 24:at + 24 + length])
        at += 24 + length
    where, note = notes[0x5652]
    read_version, _, front_bytes, front_hash, file_bytes = struct.unpack_from("<IIQQQ", note)
    assert read_version == 1 and file_bytes == len(data)
    front = data[:where + 16] + bytes(8) + data[where + 24:front_bytes]
    assert xxh64(front) == front_hash
    sections, position = {}, front_bytes
    for i, header in enumerate(headers):
        name, kind, flags, _, offset, size, _, _, _, _ = header
        wanted, rows = struct.unpack_from("<QQ", notes[0x5653][1], 16 * i)
        if not flags & 0x800:
            assert wanted == rows == 0
            continue
        assert kind == 1 and offset == (position + 7) // 8 * 8
        assert not any(data[position:offset])
        position = offset + size
        body = data[offset:position]
        assert xxh64(body) == wanted
        kind, reserved, length, alignment = struct.unpack_from("<IIQQ", body)
        assert (kind, reserved, alignment) == (2, 0, 1)
        plain = subprocess.run(["zstd", "-dcq"], input=body[24:], capture_output=True,
                               check=True).stdout
        assert len(plain) == length
        table, total = groups(plain)
        assert total == rows
        sections[names[name:].split(b"\0")[0].decode()] = table
    assert position == len(data)
    return sections


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        document = file.read()
    with open(sys.argv[2], "rb") as file:
        sections = read(file.read())
    strings = []
    for name, section, text in re.findall(r"^#### (\w+): table \d+, `(\S+)`\n(.*?)(?=^#|\Z)", document,
                                          re.M | re.S):
        for number, column, kind in re.findall(r"^\| (\d+) \| (\w+) \| (\w+) \|", text, re.M):
            values = sections[section][int(number)]
            if kind == "TEXT":
                strings = values
            else:
                print(f"{name}.{column}:", *values)
    for row, text in enumerate(strings):
        print(f"string {row}: " + "".join(
            chr(byte) if 0x20 < byte < 0x7F and byte != 0x5C else f"\\x{byte:02x}" for byte in text))


main()
