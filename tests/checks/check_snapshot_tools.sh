#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_snapshot_tools.sh FILE.vramcore
# The usual tools know what a snapshot is, and decompress its sections.
set -eu
file=$1
for tool in file readelf; do
	command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool"; exit 77; }
done
fail() { echo "FAILED: $*"; exit 1; }

case $(file -b "$file") in
*"ELF 64-bit LSB core file"*"no machine"*) ;;
*) fail "file says: $(file -b "$file")" ;;
esac

listing=$(readelf -SWn "$file" 2>&1)
case $listing in *[Ww]arning*|*[Ee]rror*) fail "$listing" ;; esac
sections=$(echo "$listing" | grep -o '\.vramcore\.[a-z_]*')
[ "$(echo "$sections" | wc -l)" -ge 15 ] || fail "sections: $sections"
echo "$listing" | grep -q 'VRAMCORE .*(0x00005652)' || fail "no note: $listing"

readelf -z -x .vramcore.process "$file" >/dev/null 2>&1 || { echo "SKIPPED: readelf -z"; exit 77; }
case $(readelf -z -x .vramcore.process "$file" 2>&1) in
*"zstd"*) echo "SKIPPED: this readelf knows no zstd"; exit 77 ;;
esac
for section in $sections; do
	dump=$(readelf -z -x "$section" "$file" 2>&1)
	case $dump in *[Ww]arning*|*[Ee]rror*|*"unable"*) fail "$section: $dump" ;; esac
	# A group begins with the number of its first row: 0.
	echo "$dump" | grep -q '0x00000000 00000000 00000000' || fail "$section: $dump"
done

# A file that was cut behind its front still lists its sections.
cut=$(mktemp)
trap 'rm -f "$cut"' EXIT
head -c 4096 "$file" >"$cut"
[ "$(readelf -SW "$cut" 2>/dev/null | grep -o '\.vramcore\.[a-z_]*')" = "$sections" ] ||
	fail "a cut file does not list its sections"
echo "$(echo "$sections" | wc -l) sections decompressed"
