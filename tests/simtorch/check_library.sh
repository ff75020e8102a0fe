#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_library.sh LIBRARY TABLE.def SONAME CUDA_MAJOR [NODE]
# The built library exports exactly the table's symbols, all with the version node; needs libc only
# (the driver is opened when it is wanted); and has the right name.
set -eu
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
node=${5:-}

cpp -P -DSTUB_CUDA_MAJOR="$4" "$2" | sed -n 's/^ *STUB(\([A-Za-z0-9_]*\),.*/\1/p' |
	sort >"$work/table"
nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" { print $3 }' |
	sort >"$work/exported"
if [ -n "$node" ]; then
	sed "s/\$/@@$node/" "$work/table" | sort >"$work/wanted"
else
	cp "$work/table" "$work/wanted"
fi
diff "$work/wanted" "$work/exported"
readelf -dW "$1" >"$work/dynamic"
grep -qF "Library soname: [$3]" "$work/dynamic"
# The dynamic linker itself is for the threads' own variables.
if grep NEEDED "$work/dynamic" | grep -vE '\[(libc|ld-linux-x86-64)\.so\.[0-9]\]'; then
	echo "$3 needs more than libc" >&2
	exit 1
fi
