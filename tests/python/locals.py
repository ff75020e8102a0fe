# SPDX-License-Identifier: Apache-2.0
"""Local variables of frames as the walk reads them, against what frames say of themselves; run by
test_stacks.py with each CPython. usage: locals.py LIBRARY"""
import ctypes
import sys

library = ctypes.PyDLL(sys.argv[1])
library.locals_of.argtypes = [ctypes.py_object, ctypes.c_char_p, ctypes.c_uint64]
assert library.locals_start() == 1
OPTIMIZED = 1
done = {"frames": 0, "locals": 0, "wrong": 0}


def read(thing):
    buffer = ctypes.create_string_buffer(1 << 20)
    count = library.locals_of(thing, buffer, len(buffer))
    frames = []
    for line in buffer.value.decode().splitlines():
        kind, rest = line.split(" ", 1)
        if kind == "frame":
            function, number, where = rest.split(" ", 2)
            frames.append((bool(int(function)), int(number), where, {}))
        else:
            name, value = rest.rsplit(" ", 1)
            # a name may stand twice where an argument is in a cell, up to 3.10
            frames[-1][3][name] = int(value)
    assert count == len(frames), (count, len(frames))
    return frames


def expected(frame):
    code = frame.f_code
    where = "%s|%s" % (getattr(code, "co_qualname", code.co_name), code.co_filename)
    function = bool(code.co_flags & OPTIMIZED)
    values = {name: id(value) for name, value in frame.f_locals.items()} if function else {}
    return function, frame.f_lineno, where, values


def compare(what, got, wanted):
    if len(got) != len(wanted):
        print("WRONG", what, len(got), "frames, not", len(wanted))
        done["wrong"] += 1
    for one, other in zip(got, wanted):
        done["frames"] += 1
        done["locals"] += len(other[3])
        if one != other:
            print("WRONG", what, one, "not", other)
            done["wrong"] += 1


def check(what):
    frame = sys._getframe(1)
    chain, got = [], None
    while frame:
        chain.append(frame)
        frame = frame.f_back
    got = read(chain[0])
    compare(what, got, [expected(one) for one in chain])
    # those of one function, counted by hand, are there
    return got[0][3]


def waiting(what, thing, frame):
    compare(what, read(thing), [expected(frame)] if sys.version_info >= (3, 11) else [])


def plain(a, b=(1,), *rest, key=None, **others):
    local, gone = object(), object()
    del gone
    names = check("plain")
    assert set(names) == {"a", "b", "rest", "key", "others", "local"}, names
    return local


def cells(argument, unused):
    local, late = [argument], None

    def inner(x):
        nonlocal late
        late = x, local
        names = check("free variables")
        assert set(names) == {"x", "local", "late", "argument"}, names
        return argument
    inner(unused)
    names = check("cells")
    assert set(names) == {"argument", "unused", "local", "late", "inner"}, names


class Methods:
    def __init__(self):
        super().__init__()
        names = check("method")
        assert "self" in names, names

    inside = check("body of a class")


def deep(left):
    here = [left]
    return deep(left - 1) + here if left else [check("deep")]


def generator(size):
    kept = [0] * size
    seen = yield kept
    yield seen


async def coroutine(awaited):
    kept = object()
    await awaited
    return kept


class Forever:
    def __await__(self):
        yield


async def async_generator():
    kept = object()
    await Forever()
    yield kept


def raised():
    hoard = [1]
    raise ValueError(len(hoard))


def main():
    plain(object(), key=3, more=4)
    cells(object(), "unused")
    Methods()
    deep(40)
    exec("def made():\n    inside = [1]\n    check('made')\nmade()", {"check": check})
    made = generator(3)
    next(made)
    waiting("generator", made, made.gi_frame)
    waits = coroutine(Forever())
    waits.send(None)
    waiting("coroutine", waits, waits.cr_frame)
    many = async_generator()
    step = many.__anext__()
    step.send(None)
    waiting("async generator", many, many.ag_frame)
    for one in (made, waits):
        one.close()
    step.close()
    try:
        raised()
    except ValueError as error:
        frame = error.__traceback__.tb_next.tb_frame
        got = read(frame)[0]
        compare("traceback", [got[:1] + (0,) + got[2:]], [(True, 0) + expected(frame)[2:]])
    print("%(frames)d frames, %(locals)d local variables, %(wrong)d wrong" % done)
    return done["wrong"] != 0 or done["frames"] < 50


sys.exit(main())
