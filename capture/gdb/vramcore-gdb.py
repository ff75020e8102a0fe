# SPDX-License-Identifier: Apache-2.0
# Who holds the memory of the GPU, from inside gdb and cuda-gdb: `source vramcore-gdb.py`, then `help vram`.
#
# Thin: the program vramcore does all the work, on the recording of the process or on the core file
# that is being debugged. Nothing is run in the process. Only gdb's standard Python interface is used.
#
# A gdb without Python takes this file for its own commands, and this line for "echo":
echo: "this gdb has no Python, which the commands of vramcore need (try: gdb --configuration).\n"

import os
import re
import shutil
import subprocess
import tempfile

import gdb

HERE = os.path.dirname(os.path.abspath(__file__)) if "__file__" in globals() else ""


class Vram(gdb.Command):
    """Who holds the memory of the GPU: of a recorded process, or of its core file.

The process may be stopped or running; it must have been started under `vramcore run`.
`vram snapshot` keeps what is shown now as a file, for `vram diff` or for other tools."""

    def __init__(self):
        super().__init__("vram", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class VramSettings(gdb.Command):
    """Settings of the commands of vramcore."""

    def __init__(self, verb):
        super().__init__(verb + " vram", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class Setting(gdb.Parameter):
    """A setting with a first value, which older debuggers do not hand out themselves."""

    given = False

    def __init__(self, name, kind, first):
        super().__init__(name, gdb.COMMAND_DATA, kind)
        self.name, self.first, self.value = name, first, first

    def get_set_string(self):
        self.given = True
        return ""

    def now(self):
        return gdb.parameter(self.name) if self.given else self.first


class VramCommandSetting(Setting):
    """The program vramcore that the commands of vram run."""

    set_doc = show_doc = "The program vramcore; empty: the one beside this script, else the one in PATH."

    def get_show_string(self, value):
        return "The program of vram is \"%s\"." % find_command()


class VramTimeoutSetting(Setting):
    """Seconds after which a command of vram gives up."""

    set_doc = show_doc = "Seconds after which a command of vram gives up (0: never)."

    def get_show_string(self, value):
        return "The commands of vram give up after %s seconds." % self.now()


def find_command():
    """vramcore: as set, beside this file (in a build or an installation), in PATH."""
    chosen = COMMAND.now()
    if chosen:
        return os.path.expanduser(chosen)
    for folder in ("", "..", "../bin", "../../bin", "../../../bin"):
        path = os.path.join(HERE, folder, "vramcore")
        if HERE and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    found = shutil.which("vramcore")
    if not found:
        raise gdb.GdbError("vramcore is not in PATH: set vram command PROGRAM")
    return found


def run(*arguments, accept=(0, 1)):
    """What vramcore prints. Its own words become the error of the command."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "LD_AUDIT")}
    try:
        done = subprocess.run([find_command(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=environment, check=False,
                              timeout=TIMEOUT.now() or None)
    except OSError as error:
        raise gdb.GdbError("%s: %s" % (find_command(), error.strerror))
    except subprocess.TimeoutExpired:
        raise gdb.GdbError("vramcore %s: no answer after %s s (set vram timeout)" % (
            arguments[0], TIMEOUT.now()))
    said = done.stderr.decode(errors="replace").rstrip()
    if done.returncode not in accept:
        raise gdb.GdbError(said or "vramcore %s ended with status %d" % (arguments[0], done.returncode))
    return done.stdout.decode(errors="replace"), said


def core_file():
    """Path of the core file that is being debugged; None: there is none."""
    found = re.search(r"core dump file:\s+[`'](.*)', file type", gdb.execute("info files", False, True))
    return found.group(1) if found else None


def source():
    """How vramcore gets at what is being debugged: the verb and its operand."""
    core = core_file()
    if core:
        return "extract", core
    inferior = gdb.selected_inferior()
    connection = getattr(inferior, "connection", None)
    if connection is not None and connection.type not in ("native", "core"):
        raise gdb.GdbError("the process is on another machine or another system's (target %s): "
                           "run vramcore snapshot there" % connection.type)
    if not inferior.pid:
        raise gdb.GdbError("no process and no core file: attach, run, or core-file first")
    return "snapshot", str(inferior.pid)


class Snapshot:
    """A snapshot for one command; that of a core is kept, since a core does not change."""

    kept = {}

    def __init__(self, *options):
        verb, operand = source()
        key = (operand, os.stat(operand).st_mtime_ns, options) if verb == "extract" else None
        self.temporary = None
        if key in self.kept and os.path.exists(self.kept[key].name + "/now.vramcore"):
            self.path = self.kept[key].name + "/now.vramcore"
            return
        folder = tempfile.TemporaryDirectory(prefix="vramcore-gdb-")
        self.path = folder.name + "/now.vramcore"
        _, said = run(verb, operand, "-o", self.path, *options)
        if said:
            gdb.write(said + "\n")
        if key:
            self.kept[key] = folder
        else:
            self.temporary = folder

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        if self.temporary:
            self.temporary.cleanup()


def show(verb, *arguments):
    """Runs a verb that reads a file, as wide as the terminal."""
    width = gdb.parameter("width") or 0
    out, said = run(verb, *arguments, "--width", str(width if width < 10000 else 0))
    gdb.write(out)
    if said:
        gdb.write(said + "\n")


def words(argument):
    return gdb.string_to_argv(argument)


class Reader(gdb.Command):
    """A verb that is given the snapshot, and the options that were typed."""

    verb, options = None, []

    def __init__(self):
        super().__init__("vram " + self.verb, gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        with Snapshot() as path:
            show(self.verb, path, *words(argument))

    def complete(self, text, word):
        before = text[:len(text) - len(word or "")].split()
        if before and before[-1] == "--by":
            choices = ["site", "kind", "device", "stream", "thread", "library", "phase", "size"]
            return [choice for choice in choices if choice.startswith(word or "")]
        # gdb takes the dashes for something before the word
        dashes = len(text) - len(text.rstrip("-")) if not word else len(text[:-len(word)]) - len(
            text[:-len(word)].rstrip("-"))
        return [option[dashes:] for option in self.options if option[dashes:].startswith(word or "")]


class VramInfo(Reader):
    """Where the memory of each device is: the ledger. Options as of `vramcore info`."""

    verb, options = "info", ["--exact", "--device"]


class VramTop(Reader):
    """What holds the memory, largest first. Options as of `vramcore top`: vram top --by thread -n 5"""

    verb, options = "top", ["--by", "--count", "--device", "--blocks", "--allocations", "--depth", "--exact"]


class VramMap(Reader):
    """Segments, blocks and holes as a picture. Options as of `vramcore map`."""

    verb, options = "map", ["--segment", "--count", "--device", "--exact"]


class VramHolders(Reader):
    """What keeps the largest tensors alive. Options as of `vramcore holders`."""

    verb, options = "holders", ["--count", "--device", "--exact"]


class VramThreads(Reader):
    """Where every thread is, native and Python stacks in one. Options as of `vramcore hang`."""

    verb, options = "threads", ["--all-frames"]

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        with Snapshot("--with-stacks") as path:
            show("hang", path, "--threads", *words(argument))


def pointer_in(value, depth=0):
    """The first pointer in an object: what a smart pointer or a view holds. None: there is none."""
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_PTR:
        return value
    if kind.code not in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) or depth > 8:
        return None
    for field in kind.fields():
        if not hasattr(field, "bitpos"):  # static
            continue
        found = pointer_in(value[field], depth + 1)
        if found is not None:
            return found
    return None


def address_of(expression):
    """The device address that an expression of the program stands for."""
    value = gdb.parse_and_eval(expression)
    kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_REF, getattr(gdb, "TYPE_CODE_RVALUE_REF", gdb.TYPE_CODE_REF)):
        value = value.referenced_value()
        kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION):
        value = pointer_in(value)
        if value is None:
            raise gdb.GdbError("%s is a %s, which holds no pointer" % (expression, kind))
    elif kind.code == gdb.TYPE_CODE_ARRAY:
        value = value.address
    elif kind.code not in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_INT, gdb.TYPE_CODE_ENUM):
        raise gdb.GdbError("%s is a %s, not an address" % (expression, kind))
    return int(value.cast(gdb.lookup_type("unsigned long"))) & (1 << 64) - 1


class VramWhere(gdb.Command):
    """What an address of the device belongs to, or belonged to: vram where EXPRESSION

Any expression of the program that is an address, or an object that holds one: $rdi, buffer + 4096,
*this, a std::unique_ptr. --exact and --json as of `vramcore where`, before the expression."""

    def __init__(self):
        super().__init__("vram where", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        options = []
        while argument.startswith("--"):
            option, _, argument = argument.partition(" ")
            options.append(option)
            argument = argument.lstrip()
        if not argument:
            raise gdb.GdbError("vram where EXPRESSION: which address?")
        address = address_of(argument)
        with Snapshot() as path:
            show("where", path, hex(address), *options)


class VramSnapshot(gdb.Command):
    """Keeps a snapshot as a file: vram snapshot [FILE]

Without a name one is made from host, process and step, in the present folder."""

    def __init__(self):
        super().__init__("vram snapshot", gdb.COMMAND_DATA, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        verb, operand = source()
        to = [os.path.expanduser(word) for word in words(argument)]
        if len(to) > 1:
            raise gdb.GdbError("vram snapshot [FILE]: one name")
        out, said = run(verb, operand, *(["-o", to[0]] if to else []))
        gdb.write("".join(line + "\n" for line in (said, out.rstrip()) if line))


class VramDiff(gdb.Command):
    """What grew since an earlier snapshot: vram diff FILE [OPTIONS]"""

    def __init__(self):
        super().__init__("vram diff", gdb.COMMAND_DATA, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        self.dont_repeat()
        given = words(argument)
        if not given:
            raise gdb.GdbError("vram diff FILE: which earlier snapshot?")
        with Snapshot() as path:
            show("diff", os.path.expanduser(given[0]), path, *given[1:])


Vram()
VramSettings("set")
VramSettings("show")
COMMAND = VramCommandSetting("vram command", gdb.PARAM_OPTIONAL_FILENAME, "")
TIMEOUT = VramTimeoutSetting("vram timeout", gdb.PARAM_ZUINTEGER, 120)
for command in (VramInfo, VramTop, VramMap, VramWhere, VramSnapshot, VramDiff, VramHolders, VramThreads):
    command()
