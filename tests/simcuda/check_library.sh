#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: check_library.sh LIBCUDA SYMBOLS.DEF [REAL STUB]
# The built library exports exactly the table's symbols (and those of the real stub, where there is
# one), needs libc only, has the right name, and binds its own calls to itself.
set -eu
export LC_ALL=C
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

names() { nm -D --defined-only "$1" | awk '{ print $3 }' | sort; }

names "$1" >"$work/exported"
sed -n 's/^SIM_SYMBOL(\([A-Za-z0-9_]*\),.*/\1/p' "$2" | sort >"$work/table"
diff "$work/table" "$work/exported"
test "$(wc -l <"$work/table")" -ge 637
if [ -n "${3:-}" ] && [ -e "$3" ]; then
	names "$3" >"$work/real"
	diff "$work/real" "$work/exported"
fi
readelf -dW "$1" >"$work/dynamic"
grep -q 'SONAME.*\[libcuda\.so\.1\]' "$work/dynamic"
grep -q 'SYMBOLIC' "$work/dynamic"
test "$(grep -c NEEDED "$work/dynamic")" = 1
grep -q 'NEEDED.*\[libc\.so\.6\]' "$work/dynamic"
if nm -D --undefined-only "$1" | grep -wE 'malloc|calloc|realloc|free|dlsym|dlopen'; then
	echo "the driver must not allocate or look up symbols" >&2
	exit 1
fi
