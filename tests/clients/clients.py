# SPDX-License-Identifier: Apache-2.0
"""What the clients share: the comparison of the recorded map with the simulated driver's own list."""
import ctypes
import os
import sys

_library = ctypes.CDLL(os.environ["TEST_COMPARE"])
_compared, _wrong = [], []


def compare(where, least=1):
    """Both lists are equal now, and hold at least so many rows."""
    sys.stderr.flush()
    differences = _library.test_compare(where.encode())
    rows = _library.test_rows()
    if differences or rows < least:
        _wrong.append(where)
        print(f"WRONG {where}: {differences} differences, {rows} rows", file=sys.stderr)
    _compared.append(where)


def end(least):
    """Ends the program: wrong unless all comparisons were made and held."""
    if len(_compared) < least:
        print(f"only {len(_compared)} comparisons", file=sys.stderr)
    print(f"{len(_compared)} comparisons, {len(_wrong)} wrong")
    sys.stdout.flush()
    sys.exit(1 if _wrong or len(_compared) < least else 0)
